/* bench_cohort - a run directory whose tasks are all done, for what a large cohort costs
 * afterwards.
 *
 * bench_cohort FILE.yaml --out DIR
 *
 * Takes the slides of the workflow in as a run does. The first one is tiled; every slide gets that
 * tile plan and drawn scores, stored under the keys that a run computes, through the run's own
 * store. `hires-flow run FILE.yaml --out DIR` then finds every result and has only to aggregate and
 * report; `status`, `why`, `report`, `plan` and `aggregate` can be timed on DIR.
 */
#include "base/args.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/random.h"
#include "orchestrator/ingest/ingest.h"
#include "orchestrator/launch/launch.h"
#include "orchestrator/run/run_private.h"
#include "tiler/plan/tile.h"

#include <stdio.h>

struct bench {
    struct hrf_workflow *workflow;
    struct hrf_slide_rows slides;
    struct hrf_store *store;
    struct hrf_tile_plan *plan; /* of the first slide; every slide gets it */
    struct hrf_random random;
    char model_sha256[HRF_HASH_HEX], tissue_sha256[HRF_HASH_HEX];
};

static enum hrf_status tile_first(struct bench *b, struct hrf_error *err)
{
    const struct hrf_workflow *w = b->workflow;
    return hrf_tile_slide(b->slides.items[0].path, &w->tiler, 0, w->dataset.mpp, NULL, &b->plan,
                          err);
}

/* Stores the record of a task of the slide that has this key. */
static enum hrf_status finish(struct bench *b, const struct hrf_task_row *row,
                              struct hrf_bytes *record, struct hrf_error *err)
{
    bool is_new;
    const enum hrf_status status = hrf_store_finish_task(b->store, 0, row->key, record->data,
                                                         record->n_bytes, &is_new, err);
    hrf_bytes_release(record);
    return status;
}

static enum hrf_status put_plan(struct bench *b, struct hrf_slide_row *slide, struct hrf_error *err)
{
    struct hrf_task_row row = { .kind = HRF_TASK_TILE, .slide_id = slide->id };
    struct hrf_bytes record;
    HRF_TRY(run_tile_key(b->workflow, b->tissue_sha256, slide, row.key, err));
    b->plan->identity = hrf_slide_expect(slide, HRF_TASK_TILE, row.key);
    hrf_free(slide->tile_plan_hash);
    slide->tile_plan_hash = hrf_strdup(b->plan->hash);
    HRF_CHECK_MEMORY(slide->tile_plan_hash != NULL, err, "no memory for a hash");
    HRF_TRY(hrf_tile_plan_encode(b->plan, &record, err));
    return finish(b, &row, &record, err);
}

static enum hrf_status put_scores(struct bench *b, const struct hrf_slide_row *slide,
                                  const struct hrf_task_row *row, struct hrf_error *err)
{
    static char cpu[] = "cpu", host[] = "bench";
    const int32_t n_classes = (int32_t)b->workflow->model.classes.n_items;
    HRF_AUTO_FREE float *values = hrf_alloc_array((size_t)(row->n_patches * n_classes),
                                                  sizeof *values);
    HRF_CHECK_MEMORY(values != NULL, err, "no memory for scores");
    for (int64_t i = 0; i < row->n_patches; i++)
        for (int32_t c = 0; c < n_classes; c++)
            values[i * n_classes + c] = (float)(hrf_random_unit(&b->random) / n_classes);
    char precision[8];
    snprintf(precision, sizeof precision, "%s", row->precision);
    struct hrf_scores scores = { .precision = precision,
                                 .device = cpu,
                                 .host = host,
                                 .first_patch = row->first_patch,
                                 .n_patches = row->n_patches,
                                 .n_classes = n_classes,
                                 .probabilities = values };
    struct hrf_bytes record;
    scores.identity = hrf_slide_expect(slide, HRF_TASK_INFER, row->key);
    HRF_TRY(hrf_scores_encode(&scores, &record, err));
    return finish(b, row, &record, err);
}

static enum hrf_status put_slide(struct bench *b, struct hrf_slide_row *slide,
                                 struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_task_row *rows = NULL;
    size_t n = 0;
    HRF_TRY(put_plan(b, slide, err));
    HRF_TRY(run_infer_tasks(b->workflow, b->model_sha256, NULL, slide, b->plan, &rows, &n, err));
    for (size_t i = 0; i < n; i++)
        HRF_TRY(put_scores(b, slide, &rows[i], err));
    return HRF_OK;
}

static enum hrf_status fill(struct bench *b, const char *directory, struct hrf_error *err)
{
    HRF_AUTO_FREE char *db = hrf_format("%s/run.db", directory);
    HRF_CHECK_MEMORY(db != NULL, err, "no memory for a path");
    const double start = hrf_clock_seconds();
    HRF_TRY(hrf_path_make_directories(directory, err));
    HRF_TRY(hrf_ingest(b->workflow, NULL, &b->slides, NULL, err));
    printf("{\"slides\": %zu, \"ingest_seconds\": %.2f", b->slides.n_items,
           hrf_clock_seconds() - start);
    HRF_TRY(hrf_launch_model_hash(b->workflow->model.file, b->model_sha256, err));
    HRF_TRY(run_tissue_hash(b->workflow, b->tissue_sha256, err));
    HRF_TRY(tile_first(b, err));
    HRF_TRY(hrf_store_open(db, HRF_STORE_WRITE, &b->store, err));
    HRF_TRY(hrf_store_begin(b->store, err));
    for (size_t i = 0; i < b->slides.n_items; i++)
        HRF_TRY(put_slide(b, &b->slides.items[i], err));
    HRF_TRY(hrf_store_commit(b->store, err));
    printf(", \"patches\": %lld, \"fill_seconds\": %.2f}\n", (long long)b->plan->n_patches,
           hrf_clock_seconds() - start);
    return HRF_OK;
}

static int run_bench(const struct hrf_command *command, int argc, char **argv)
{
    const char *out = NULL;
    const struct hrf_option options[] = {
        { "out", "DIR", "the run directory to make", HRF_OPTION(&out) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse("bench_cohort", command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct bench b = { .workflow = NULL };
    struct hrf_findings findings = HRF_FINDINGS_INIT;
    struct hrf_error err = { .status = HRF_OK };
    b.random = hrf_random_init(1);
    enum hrf_status status = out != NULL ? hrf_workflow_load(args.operands[0], NULL, 0, &b.workflow,
                                                             &findings, &err)
                                         : hrf_error_set(&err, HRF_E_USER, "--out is needed");
    if (status == HRF_OK)
        status = fill(&b, out, &err);
    fputs(findings.text.text, stderr);
    hrf_findings_release(&findings);
    hrf_tile_plan_destroy(b.plan);
    hrf_slide_rows_release(&b.slides);
    hrf_store_close(b.store);
    hrf_workflow_destroy(b.workflow);
    if (status != HRF_OK)
        fprintf(stderr, "bench_cohort: %s\n", err.text);
    return status == HRF_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const struct hrf_command command = { .name = "",
                                                .operands = "FILE.yaml",
                                                .summary = "a run whose tasks are all done",
                                                .min_operands = 1,
                                                .max_operands = 1,
                                                .run = run_bench };
    return command.run(&command, argc - 1, argv + 1);
}
