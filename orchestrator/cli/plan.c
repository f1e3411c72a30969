/* plan.c - `hires-flow plan`: what a run would do, without doing it. */
#include "base/json.h"
#include "base/path.h"
#include "base/process.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/run/preview.h"

#include <stdio.h>
#include <string.h>

struct counts {
    int64_t reasons[HRF_N_TASK_KINDS][5]; /* tasks, by kind and reason */
    int64_t patches;                      /* of the infer tasks that are known and not cached */
};

static struct counts count(const struct hrf_preview *preview)
{
    struct counts c = { .patches = 0 };
    for (size_t i = 0; i < preview->n_tasks; i++) {
        const struct hrf_preview_task *t = &preview->tasks[i];
        c.reasons[t->row.kind][t->reason]++;
        if (t->row.kind == HRF_TASK_INFER && t->reason != HRF_PREVIEW_CACHED &&
            t->row.n_patches > 0)
            c.patches += t->row.n_patches;
    }
    return c;
}

static int64_t slides_in(const struct hrf_preview *preview, enum hrf_slide_state state)
{
    int64_t n = 0;
    for (size_t i = 0; i < preview->slides.n_items; i++)
        n += preview->slides.items[i].state == state;
    return n;
}

/* What a rank needs, asked of the engine, which knows: its line on memory, or why there is none.
 * Heap. */
static char *ask_memory(const struct hrf_workflow *w)
{
    HRF_AUTO_FREE char *self = NULL, *directory = NULL, *program = NULL;
    char size[32], batch[32], *answer = NULL;
    if (hrf_process_self(&self, NULL) != HRF_OK || (directory = hrf_path_directory(self)) == NULL ||
        (program = hrf_path_join(directory, "hires-engine")) == NULL)
        return NULL;
    bool whole = w->tiler.mode == HRF_TILER_SLIDE;
    snprintf(size, sizeof size, "%lld",
             (long long)(whole ? w->tiler.slide.size : w->tiler.patch.size));
    snprintf(batch, sizeof batch, "%lld", whole ? 1LL : (long long)w->engine.batch);
    const char *const argv[] = { program, "model",   "inspect", w->model.file, "--size",
                                 size,    "--batch", batch,     NULL };
    struct hrf_strbuf out = HRF_STRBUF_INIT, error = HRF_STRBUF_INIT;
    struct hrf_process_result result;
    if (hrf_process_run(argv, NULL, NULL, 60000, 1 << 20, &out, &error, &result, NULL) == HRF_OK &&
        result.exited && result.exit_code == 0) {
        const char *line = strstr(out.text, "memory to run it");
        if (line != NULL)
            answer = hrf_strndup(line, strcspn(line, "\n"));
    } else {
        answer = hrf_format("the engine cannot say: %.*s", (int)strcspn(error.text, "\n"),
                            error.text);
    }
    hrf_strbuf_release(&out);
    hrf_strbuf_release(&error);
    return answer;
}

static void print_counts(const char *phase, const int64_t reasons[5])
{
    static const char *const words[] = { "cached", "new", "changed since", "still open",
                                         "known after tiling" };
    int64_t total = 0;
    for (int i = 0; i < 5; i++)
        total += reasons[i];
    printf("%-9s %lld tasks", phase, (long long)total);
    const char *before = ": ";
    for (int i = 0; i < 5; i++)
        if (reasons[i] > 0) {
            printf("%s%lld %s", before, (long long)reasons[i], words[i]);
            before = ", ";
        }
    printf("\n");
}

static void print_tasks(const struct hrf_preview *preview)
{
    for (size_t i = 0; i < preview->n_tasks; i++) {
        const struct hrf_preview_task *t = &preview->tasks[i];
        HRF_AUTO_FREE char *name = hrf_text_printable(
            preview->slides.items[t->row.slide_id - 1].name);
        printf("  %-7s %s %s", hrf_preview_reason_name(t->reason), hrf_task_kind_name(t->row.kind),
               name != NULL ? name : "?");
        if (t->row.kind == HRF_TASK_INFER)
            printf(" %s", t->row.precision);
        if (t->row.n_patches > 0)
            printf(" patches %lld to %lld", (long long)t->row.first_patch,
                   (long long)(t->row.first_patch + t->row.n_patches - 1));
        if (t->row.key[0] != '\0')
            printf(" key %.12s", t->row.key);
        printf("\n");
    }
}

static void print_text(const struct hrf_workflow *w, const struct hrf_preview *preview,
                       const char *directory, bool all)
{
    const struct counts c = count(preview);
    HRF_AUTO_FREE char *memory = ask_memory(w);
    printf("ingest    %zu slides: %lld to do, %lld excluded, %lld not there\n",
           preview->slides.n_items, (long long)slides_in(preview, HRF_SLIDE_PENDING),
           (long long)slides_in(preview, HRF_SLIDE_EXCLUDED),
           (long long)slides_in(preview, HRF_SLIDE_FAILED));
    print_counts("tile", c.reasons[HRF_TASK_TILE]);
    const char *method = hrf_tissue_method_name(w->tiler.tissue.method);
    if (w->tiler.mode == HRF_TILER_SLIDE)
        printf("          each slide as one image of %lld px at %g um/px, tissue by %s\n",
               (long long)w->tiler.slide.size, w->tiler.slide.mpp, method);
    else
        printf("          patches of %lld px at %g um/px, stride %lld, tissue by %s\n",
               (long long)w->tiler.patch.size, w->tiler.patch.mpp, (long long)w->tiler.patch.stride,
               method);
    print_counts("infer", c.reasons[HRF_TASK_INFER]);
    printf("          %lld patches to score as far as is known; shards of at most %lld, %lld jobs "
           "at once\n",
           (long long)c.patches, (long long)w->executor.patches_per_job,
           (long long)w->executor.max_jobs);
    printf("aggregate %s, threshold %g\n", hrf_score_method_name(w->aggregate.slide_score),
           w->aggregate.threshold);
    printf("per rank  %s\n", memory != NULL ? memory : "not known");
    printf("directory %s: %s\n", directory,
           preview->has_run ? "a run stands there and would be continued"
                            : "nothing stands there yet");
    if (all)
        print_tasks(preview);
}

static json_t *task_json(const struct hrf_preview *preview, const struct hrf_preview_task *t)
{
    return json_pack("{sssssossss?sIsI}", "kind", hrf_task_kind_name(t->row.kind), "state",
                     hrf_preview_reason_name(t->reason), "slide",
                     hrf_json_string(preview->slides.items[t->row.slide_id - 1].name), "precision",
                     t->row.precision, "key", t->row.key[0] != '\0' ? t->row.key : NULL,
                     "first_patch", (json_int_t)t->row.first_patch, "n_patches",
                     (json_int_t)t->row.n_patches);
}

static void print_json(const struct hrf_workflow *w, const struct hrf_preview *preview,
                       const char *directory)
{
    HRF_AUTO_FREE char *memory = ask_memory(w);
    json_t *tasks = json_array();
    for (size_t i = 0; i < preview->n_tasks; i++)
        json_array_append_new(tasks, task_json(preview, &preview->tasks[i]));
    HRF_AUTO_JSON value = json_pack(
        "{sisosbs{sIsIsIsI}sosIss?}", "version", 1, "directory", hrf_json_string(directory),
        "continues", (int)preview->has_run, "slides", "total", (json_int_t)preview->slides.n_items,
        "pending", (json_int_t)slides_in(preview, HRF_SLIDE_PENDING), "excluded",
        (json_int_t)slides_in(preview, HRF_SLIDE_EXCLUDED), "failed",
        (json_int_t)slides_in(preview, HRF_SLIDE_FAILED), "tasks", tasks, "patches_to_score",
        (json_int_t)count(preview).patches, "memory_per_rank", memory);
    HRF_AUTO_FREE char *text = value != NULL ? hrf_json_text(value) : NULL;
    printf("%s\n", text != NULL ? text : "{}");
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    const char *directory = NULL;
    bool json = false, all = false;
    struct hrf_option_list set = { .n_items = 0 };
    const struct hrf_option options[] = {
        { "out", "DIR", "run directory to compare with", HRF_OPTION_TEXT, &directory },
        { "set", "KEY=VALUE", "overrides a key; may be repeated", HRF_OPTION_LIST, &set },
        { "tasks", NULL, "list every task: cached or not, and why", HRF_OPTION_FLAG, &all },
        { "json", NULL, "print JSON, with every task", HRF_OPTION_FLAG, &json },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_workflow) w = NULL;
    HRF_AUTO_FREE char *standard = NULL;
    struct hrf_preview preview = { .warnings = HRF_STRBUF_INIT };
    enum hrf_status status = hrf_cli_load(args.operands[0], &set, &w, &err);
    if (status == HRF_OK && directory == NULL)
        directory = standard = hrf_cli_default_directory(w);
    if (status == HRF_OK)
        status = hrf_preview_make(w, directory != NULL ? directory : ".", &preview, &err);
    if (status != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    fputs(preview.warnings.text, stderr);
    if (json)
        print_json(w, &preview, directory);
    else
        print_text(w, &preview, directory, all);
    hrf_preview_release(&preview);
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
