/* spec.c - writes spec.json, the input of a job: its tasks, the settings they depend on, and the
 * command line that starts its worker. */
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "orchestrator/run/calibration_sample.h"
#include "orchestrator/run/run_private.h"
#include "schema/record/job.h"

#include <string.h>

char *run_plan_path(const struct run_setup *setup, const char *key)
{
    return hrf_format("%s/plans/%s.rec", setup->directory, key);
}

bool run_has_plan(const char *path, const struct hrf_record_identity *expected)
{
    HRF_AUTO_FREE char *bytes = NULL;
    size_t n = 0;
    return hrf_path_exists(path) &&
           hrf_file_read(path, (size_t)1 << 30, &bytes, &n, NULL) == HRF_OK &&
           hrf_record_check(bytes, n, HRF_TILE_PLAN_KIND, expected, path, NULL) == HRF_OK;
}

/* Writes the tile plan of a slide as a file for the engine. The file's name contains the plan's
 * hash, so it is written once. */
static enum hrf_status export_plan(struct run *run, int64_t slide_id, char **path,
                                   struct hrf_error *err)
{
    size_t first;
    if (hrf_task_rows_of(&run->tasks.rows, HRF_TASK_TILE, slide_id, &first) == 0)
        return hrf_error_set(err, HRF_E_BUG, "slide %lld has no tile task", (long long)slide_id);
    const struct hrf_task_row *tile = &run->tasks.rows.items[first];
    HRF_AUTO_FREE char *full = run_plan_path(&run->setup, tile->key);
    HRF_AUTO_FREE char *plans = hrf_path_directory(full);
    const struct hrf_record_identity expected = run_expect(run, tile);
    if (!run_has_plan(full, &expected)) {
        struct hrf_bytes bytes;
        HRF_TRY(hrf_path_make_directories(plans, err));
        HRF_TRY(hrf_store_get_record(run->setup.store, HRF_TASK_TILE, &expected, &bytes, err));
        enum hrf_status status = hrf_file_write_atomic(full, bytes.data, bytes.n_bytes, err);
        hrf_bytes_release(&bytes);
        HRF_TRY(status);
    }
    HRF_MOVE(*path, full);
    return HRF_OK;
}

static enum hrf_status fill_training(struct run *run, const struct hrf_task_row *row,
                                     struct hrf_job_task *out, struct hrf_error *err)
{
    if (run->setup.trainings != NULL) {
        HRF_TRY(run_fill_network(run, row, &out->training, err));
        out->slide_name = run_task_subject(run, row);
    } else {
        HRF_TRY(run_fill_training(run, row, &out->training, err));
        out->slide_name = hrf_format("fold %lld seed %lld in %s", (long long)out->training.fold,
                                     (long long)out->training.seed, row->precision);
    }
    out->slide_path = hrf_strdup("");
    return HRF_OK;
}

static enum hrf_status fill_task(struct run *run, const struct hrf_task_row *row, size_t index,
                                 struct hrf_job_task *out, struct hrf_error *err)
{
    const struct hrf_slide_row *slide = hrf_slide_rows_find(&run->slides, row->slide_id);
    out->id = hrf_format("t%04zu", index);
    out->identity = run_expect(run, row);
    if (row->kind == HRF_TASK_TRAIN)
        return fill_training(run, row, out, err);
    out->slide_name = hrf_strdup(slide->name);
    out->slide_path = hrf_strdup(slide->path);
    out->mpp_override = slide->mpp_csv;
    out->mpp_fallback = run_fallback_mpp(run->setup.workflow, slide);
    out->first_patch = row->first_patch;
    out->n_patches = row->n_patches;
    out->measures_layers = row->kind == HRF_TASK_CALIBRATE && run_measures_layers(run, row);
    HRF_AUTO_FREE char *part = run_part_path(&run->setup, row->key);
    if (row->kind == HRF_TASK_INFER && hrf_path_exists(part))
        HRF_MOVE(out->partial, part);
    if (row->kind == HRF_TASK_HEAD)
        HRF_TRY(run_fill_bag(run, row, &out->bag, err));
    if (row->kind == HRF_TASK_INFER || row->kind == HRF_TASK_HEAD)
        return export_plan(run, row->slide_id, &out->tile_plan, err);
    if (row->kind == HRF_TASK_CALIBRATE)
        out->tile_plan = run_plan_path(&run->setup, row->key);
    return HRF_OK;
}

/* How many jobs of this kind can run at the same time. With one slide the number is known, and its
 * jobs share all cores. With several slides the number of tasks depends on how far tiling has come.
 * The number of threads must not depend on that, because float32 sums may have other bits with
 * other numbers of threads. */
static int64_t count_jobs_at_once(const struct run *run, const struct hrf_task_row *task)
{
    int64_t n_slides = 0, n = 0;
    for (size_t i = 0; i < run->slides.n_items && n_slides < 2; i++)
        n_slides += run->slides.items[i].state != HRF_SLIDE_EXCLUDED &&
                    run->slides.items[i].n_bytes > 0;
    if (n_slides != 1)
        return INT64_MAX;
    for (size_t i = 0; i < run->tasks.rows.n_items; i++)
        n += run->tasks.rows.items[i].kind == task->kind &&
             strcmp(run->tasks.rows.items[i].precision, task->precision) == 0;
    const bool is_apart = task->kind == HRF_TASK_INFER &&
                          !hrf_run_shares_reading(run->setup.workflow);
    return is_apart ? n * (int64_t)hrf_workflow_n_variants(run->setup.workflow) : n;
}

const char *run_kind_name(const struct run_setup *setup, enum hrf_task_kind kind)
{
    const bool by_network = setup->workflow->tiler.tissue.method == HRF_TISSUE_ONNX;
    return kind == HRF_TASK_TILE && by_network                  ? "tissue"
           : kind == HRF_TASK_TRAIN && setup->trainings != NULL ? "network"
                                                                : hrf_task_kind_name(kind);
}

static void fill_job(struct run *run, const struct run_batch *batch, struct hrf_job_spec *spec)
{
    const struct hrf_executor_ops *ops = run->setup.executor->ops;
    const struct hrf_task_row *task = &run->tasks.rows.items[batch->tasks[0]];
    const char *kind = run_kind_name(&run->setup, task->kind);
    spec->model_sha256 = hrf_strdup(run->setup.model_sha256);
    if (run->setup.workflow->tiler.tissue.method == HRF_TISSUE_ONNX)
        spec->tissue_sha256 = hrf_strdup(run->setup.tissue_sha256);
    spec->n_ranks = ops->ranks != NULL ? ops->ranks(run->setup.executor, kind) : 1;
    spec->n_threads = ops->threads(run->setup.executor, kind, count_jobs_at_once(run, task));
}

static void add_network(const struct run *run, enum hrf_precision precision, bool is_jitter,
                        struct hrf_job_spec *spec)
{
    struct hrf_job_network *network = &spec->networks[spec->n_networks++];
    const bool needs_scales = hrf_precision_row(precision)->needs_scales &&
                              !run->setup.brings_scales;
    network->stain_jitter = is_jitter ? run->setup.workflow->study.stain_jitter : 0;
    network->jitter_seed = is_jitter ? run->setup.workflow->study.seed : 0;
    network->precision = precision;
    network->scales = needs_scales ? hrf_strdup(run->calibration.path) : NULL;
}

/* The networks in the order of the workflow's precisions, so that the first, the reference, goes
 * first wherever they do not fit side by side. A calibration observes float32. */
static void fill_networks(const struct run *run, const struct run_batch *batch,
                          struct hrf_job_spec *spec)
{
    const struct hrf_workflow *w = run->setup.workflow;
    spec->networks = hrf_calloc(HRF_JOB_MAX_NETWORKS, sizeof spec->networks[0]);
    if (spec->kind == HRF_JOB_CALIBRATE) {
        add_network(run, HRF_FP32, false, spec);
        if (run_compares_int8(&run->tasks.rows.items[batch->tasks[0]]))
            add_network(run, HRF_INT8, false, spec);
        return;
    }
    for (size_t p = 0; p < hrf_workflow_n_variants(w); p++) {
        const char *name = hrf_workflow_variant_name(w, p);
        bool is_there = false;
        for (size_t i = 0; i < batch->n && !is_there; i++)
            is_there = strcmp(run->tasks.rows.items[batch->tasks[i]].precision, name) == 0;
        if (is_there)
            add_network(run, hrf_workflow_variant(w, p), hrf_workflow_is_jitter(w, p), spec);
    }
    if (spec->n_networks == 0)
        add_network(run, HRF_FP32, false, spec);
}

static int64_t network_of(const struct hrf_job_spec *spec, const struct hrf_task_row *row)
{
    for (size_t i = 0; i < spec->n_networks; i++)
        if (strcmp(hrf_job_network_name(&spec->networks[i]), row->precision) == 0)
            return (int64_t)i;
    return 0; /* of a calibrate task that observes */
}

enum hrf_status run_write_spec(struct run *run, const struct run_batch *batch,
                               const struct hrf_attempt_row *attempt, const char *path,
                               struct hrf_error *err)
{
    struct hrf_executor *executor = run->setup.executor;
    HRF_AUTO(hrf_job_spec) spec = hrf_calloc(1, sizeof *spec);
    spec->run_id = hrf_strdup(run->setup.run_id);
    spec->job_id = hrf_strdup(attempt->job_id);
    spec->attempt = attempt->attempt;
    static const enum hrf_job_kind kinds[] = { [HRF_TASK_TILE] = HRF_JOB_TILE,
                                               [HRF_TASK_INFER] = HRF_JOB_INFER,
                                               [HRF_TASK_CALIBRATE] = HRF_JOB_CALIBRATE,
                                               [HRF_TASK_HEAD] = HRF_JOB_HEAD,
                                               [HRF_TASK_TRAIN] = HRF_JOB_TRAIN };
    spec->kind = run->setup.trainings != NULL ? HRF_JOB_TRAIN_NETWORK : kinds[attempt->kind];
    spec->tasks = hrf_calloc(batch->n, sizeof spec->tasks[0]);
    fill_job(run, batch, spec);
    if (spec->kind != HRF_JOB_TILE)
        fill_networks(run, batch, spec);
    if (executor->ops->wrap != NULL) {
        struct hrf_text_list words = { NULL, 0 };
        executor->ops->wrap(executor, run_kind_name(&run->setup, attempt->kind), &words);
        spec->wrap = words.items; /* the spec's to release */
        spec->n_wrap = words.n_items;
    }
    for (size_t i = 0; i < batch->n; i++) {
        spec->n_tasks = i + 1;
        HRF_TRY(fill_task(run, &run->tasks.rows.items[batch->tasks[i]], i, &spec->tasks[i], err));
        spec->tasks[i].network = network_of(spec, &run->tasks.rows.items[batch->tasks[i]]);
    }
    return hrf_job_spec_write(spec, run->setup.workflow, path, err);
}
