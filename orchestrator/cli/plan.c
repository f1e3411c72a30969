/* plan.c - `hires-flow plan`: what a run would do, without doing it. */
#include "base/path.h"
#include "base/process.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/ingest/ingest.h"

#include <stdio.h>
#include <string.h>

struct counts {
    int64_t pending, excluded, failed;
};

static struct counts count(const struct hrf_slide_rows *rows)
{
    struct counts c = { 0, 0, 0 };
    for (size_t i = 0; i < rows->n_items; i++) {
        c.pending += rows->items[i].state == HRF_SLIDE_PENDING;
        c.excluded += rows->items[i].state == HRF_SLIDE_EXCLUDED;
        c.failed += rows->items[i].state == HRF_SLIDE_FAILED;
    }
    return c;
}

/* What a rank needs, asked of the engine: the plan knows, the orchestrator does not. */
static void print_memory(const struct hrf_workflow *w)
{
    HRF_AUTO_FREE char *self = NULL, *directory = NULL, *program = NULL;
    char size[32], batch[32];
    if (hrf_process_self(&self, NULL) != HRF_OK || (directory = hrf_path_directory(self)) == NULL ||
        (program = hrf_path_join(directory, "hires-engine")) == NULL)
        return;
    snprintf(size, sizeof size, "%lld", (long long)w->tiler.patch.size);
    snprintf(batch, sizeof batch, "%lld", (long long)w->engine.batch);
    const char *const argv[] = { program, "model",   "inspect", w->model.file, "--size",
                                 size,    "--batch", batch,     NULL };
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    struct hrf_process_result result;
    struct hrf_strbuf error = HRF_STRBUF_INIT;
    if (hrf_process_run(argv, NULL, NULL, 60000, 1 << 20, &out, &error, &result, NULL) == HRF_OK &&
        result.exited && result.exit_code == 0) {
        const char *line = strstr(out.text, "memory to run it");
        if (line != NULL)
            printf("per rank  %s", line);
    } else {
        printf("per rank  the engine cannot say: %s", error.text);
    }
    hrf_strbuf_release(&out);
    hrf_strbuf_release(&error);
}

static void print_done(const char *directory)
{
    HRF_AUTO(hrf_store) store = NULL;
    struct hrf_phase_row *phases = NULL;
    size_t n = 0;
    if (hrf_cli_open(directory, &store, NULL) != HRF_OK ||
        hrf_store_get_phases(store, &phases, &n, NULL) != HRF_OK) {
        printf("directory %s: nothing stands there yet\n", directory);
        return;
    }
    printf("directory %s: a run stands there and would be continued\n", directory);
    for (size_t i = 0; i < n; i++)
        printf("  %-10s %lld tasks known, %.1f s\n", phases[i].name, (long long)phases[i].n_tasks,
               phases[i].seconds);
    hrf_free(phases);
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    const char *directory = NULL;
    struct hrf_option_list set = { .n_items = 0 };
    const struct hrf_option options[] = {
        { "out", "DIR", "run directory to compare with", HRF_OPTION_TEXT, &directory },
        { "set", "KEY=VALUE", "overrides a key; may be repeated", HRF_OPTION_LIST, &set },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_workflow) w = NULL;
    struct hrf_slide_rows rows = { NULL, 0 };
    struct hrf_strbuf warnings = HRF_STRBUF_INIT;
    enum hrf_status status = hrf_cli_load(args.operands[0], &set, &w, &err);
    if (status == HRF_OK)
        status = hrf_ingest(w, &rows, &warnings, &err);
    fputs(warnings.text, stderr);
    hrf_strbuf_release(&warnings);
    if (status != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    struct counts c = count(&rows);
    HRF_AUTO_FREE char *standard = hrf_cli_default_directory(w);
    printf("ingest    %zu slides: %lld to do, %lld excluded, %lld not there\n", rows.n_items,
           (long long)c.pending, (long long)c.excluded, (long long)c.failed);
    printf("tile      %lld tasks, patches of %lld px at %g um/px, stride %lld, tissue by %s\n",
           (long long)c.pending, (long long)w->tiler.patch.size, w->tiler.patch.mpp,
           (long long)w->tiler.patch.stride, hrf_tissue_method_name(w->tiler.tissue.method));
    for (size_t i = 0; i < w->n_precisions; i++)
        printf("infer     %s: shards of at most %lld patches, %lld jobs at once, 1 rank each\n",
               hrf_precision_name(w->precision[i]), (long long)w->executor.patches_per_job,
               (long long)w->executor.max_jobs);
    printf("aggregate %s, threshold %g\n", hrf_score_method_name(w->aggregate.slide_score),
           w->aggregate.threshold);
    print_memory(w);
    print_done(directory != NULL ? directory : standard != NULL ? standard : ".");
    hrf_slide_rows_release(&rows);
    return 0;
}

const struct hrf_command hrf_cli_plan = {
    .name = "plan",
    .operands = "FILE.yaml",
    .summary = "show what a run would do, without doing it",
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
