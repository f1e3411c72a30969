/* plan.c - `hires-flow plan`: what a run would do, without doing it. */
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "orchestrator/cli/drive.h"
#include "orchestrator/cli/plan_forecast.h"
#include "orchestrator/cli/plan_layout.h"
#include "orchestrator/executor/slurm/script.h"
#include "orchestrator/executor/slurm/site.h"
#include "orchestrator/run/batches.h"
#include "orchestrator/run/preview.h"

#include <stdio.h>
#include <string.h>

struct counts {
    int64_t reasons[HRF_N_TASK_KINDS][5]; /* tasks, by kind and reason */
    int64_t patches;                      /* infer tasks that are known and not cached */
};

static struct counts count_tasks_by_reason(const struct hrf_preview *preview)
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

/* The number of precisions without a prediction, and the reason of the last one. */
struct refusals {
    size_t n;
    struct hrf_error last;
};

/* True if an option is about ranks, so that their table is what is wanted. */
static bool asks_for_ranks(const struct hrf_layout_request *request)
{
    return request->ranks != NULL || request->layout != NULL || request->cluster != NULL ||
           request->timeline != NULL;
}

/* Prints the speed and memory of a job of one rank in one line. False: there are several ranks, or
 * the engine has no answer, and the table is to be printed. */
static bool print_one_rank(const struct hrf_workflow *w, enum hrf_precision precision)
{
    const struct hrf_layout_request request = { .json = true };
    HRF_AUTO_JSON answer = NULL;
    if (hrf_cli_plan_layout_json(w, precision, &request, &answer, NULL) != HRF_OK)
        return false;
    const json_t *known = json_object_get(answer, "known");
    const json_t *layout = json_array_get(json_object_get(answer, "layouts"), 0);
    const char *source = json_string_value(json_object_get(known, "cost_source"));
    const double rate = json_number_value(json_object_get(layout, "images_per_second"));
    const double bytes = json_number_value(json_object_get(layout, "peak_memory_bytes"));
    if (json_integer_value(json_object_get(layout, "ranks")) != 1 || !(rate > 0))
        return false;
    hrf_cli_printf("network   %s: about %.*f patches/s and %.3g GiB in a job",
                   hrf_precision_name(precision), rate < 10 ? 1 : 0, rate, bytes / 0x1p30);
    hrf_cli_printf("\n          costs: %s\n", source != NULL ? source : "not known");
    return true;
}

static void print_indented(int indent, const char *lines)
{
    for (const char *line = lines; *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        hrf_cli_printf("%*s%.*s\n", indent, "", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

static void print_layout(const struct hrf_workflow *w, enum hrf_precision precision,
                         const struct hrf_layout_request *request, struct refusals *refusals)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    struct hrf_error why = { .status = HRF_OK };
    const char *name = hrf_precision_name(precision);
    if (hrf_cli_plan_layout(w, precision, request, &text, &why) != HRF_OK) {
        hrf_cli_printf("ranks     %s: %s\n", name, why.text);
        refusals->n++;
        refusals->last = why;
        return;
    }
    hrf_cli_printf("ranks     %s, predicted for one batch:\n", name);
    print_indented(2, text.text);
}

/* Returns the engine's answer for each precision, or why it has none. New reference. */
static json_t *layouts_json(const struct hrf_workflow *w, const struct hrf_layout_request *request,
                            struct refusals *refusals)
{
    json_t *list = json_array();
    for (size_t i = 0; i < w->n_precisions; i++) {
        struct hrf_error why = { .status = HRF_OK };
        json_t *answer = NULL;
        if (hrf_cli_plan_layout_json(w, w->precision[i], request, &answer, &why) != HRF_OK) {
            answer = json_object();
            hrf_json_put_text(answer, "precision", hrf_precision_name(w->precision[i]));
            hrf_json_put_text(answer, "error", why.text);
            refusals->n++;
            refusals->last = why;
        }
        hrf_json_add(list, answer);
    }
    return list;
}

static void print_counts(const char *phase, const int64_t reasons[5])
{
    static const char *const words[] = { "cached", "new", "changed since", "still open",
                                         "to be planned when what is before is done" };
    int64_t total = 0;
    for (int i = 0; i < 5; i++)
        total += reasons[i];
    /* Which slides a trained head tests is not known yet. */
    if (total == 0 && strcmp(phase, "head") == 0) {
        hrf_cli_printf("%-9s to be planned when what is before is done\n", phase);
        return;
    }
    hrf_cli_printf("%-9s %lld task%s", phase, (long long)total, total == 1 ? "" : "s");
    const char *before = ": ";
    for (int i = 0; i < 5; i++)
        if (reasons[i] > 0) {
            hrf_cli_printf("%s%lld %s", before, (long long)reasons[i], words[i]);
            before = ", ";
        }
    hrf_cli_printf("\n");
}

/* Returns the slide's name; "" for a training, which belongs to no slide. */
static const char *task_slide(const struct hrf_preview *preview, const struct hrf_preview_task *t)
{
    return t->row.slide_id > 0 ? preview->slides.items[t->row.slide_id - 1].name : "";
}

static void print_tasks(const struct hrf_preview *preview)
{
    for (size_t i = 0; i < preview->n_tasks; i++) {
        const struct hrf_preview_task *t = &preview->tasks[i];
        HRF_AUTO_FREE char *name = hrf_text_escaped(task_slide(preview, t));
        hrf_cli_printf("  %-7s %s %s", hrf_preview_reason_name(t->reason),
                       hrf_task_kind_name(t->row.kind), name);
        if (t->row.precision[0] != '\0')
            hrf_cli_printf(" %s", t->row.precision);
        if (t->row.n_patches > 0)
            hrf_cli_printf(" patches %lld to %lld", (long long)t->row.first_patch,
                           (long long)(t->row.first_patch + t->row.n_patches - 1));
        if (t->row.key[0] != '\0')
            hrf_cli_printf(" key %.12s", t->row.key);
        hrf_cli_printf("\n");
    }
}

/* Returns the sbatch command lines of the known tasks, one for each array; heap. A kind of which no
 * task is known yet is shown by the line of one job. */
static char *sbatch_lines(const struct hrf_workflow *w, const struct hrf_preview *preview,
                          const char *directory)
{
    static const enum hrf_task_kind kinds[] = { HRF_TASK_TILE, HRF_TASK_INFER };
    HRF_AUTO_FREE char *absolute = NULL;
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    if (hrf_path_absolute(directory, &absolute, NULL) != HRF_OK)
        return hrf_strdup("");
    const int64_t max = hrf_slurm_array_limit();
    int64_t number = 1;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const bool later = count_tasks_by_reason(preview).reasons[kinds[i]][HRF_PREVIEW_UNKNOWN] >
                           0;
        const int64_t n = preview->n_jobs[kinds[i]];
        hrf_slurm_describe(&w->executor, hrf_task_kind_name(kinds[i]), n > 0 ? n : later, max,
                           absolute, &number, &out);
    }
    return hrf_strbuf_detach(&out);
}

static void print_slurm(const struct hrf_workflow *w, const struct hrf_preview *preview,
                        const char *directory)
{
    HRF_AUTO_FREE char *lines = sbatch_lines(w, preview, directory);
    const long long ranks = (long long)hrf_slurm_ranks(&w->executor, "infer");
    const long long nodes = (long long)w->executor.slurm.nodes;
    hrf_cli_printf(
        "slurm     an inference job has %lld rank%s on %lld node%s, %lld cores and %lld GPUs "
        "for each rank\n",
        ranks, ranks == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s",
        (long long)w->executor.slurm.cpus_per_rank, (long long)w->executor.slurm.gpus_per_rank);
    print_indented(10, lines);
}

/* Prints the memory of the networks of a job together, if that of each can be predicted. */
static void print_memory(const struct hrf_workflow *w)
{
    enum { MIB = 1 << 20 };
    HRF_AUTO_RELEASE(hrf_strbuf) list = HRF_STRBUF_INIT;
    int64_t sum = 0, n_bytes;
    for (size_t i = 0; i < w->n_precisions; i++) {
        const char *name = hrf_precision_name(w->precision[i]);
        struct hrf_error why = { .status = HRF_OK };
        if (hrf_cli_plan_memory(w, w->precision[i], &n_bytes, &why) != HRF_OK)
            return; /* print_layout() has said why */
        hrf_strbuf_addf(&list, "%s%s %.1f", i > 0 ? " + " : "", name, (double)n_bytes / MIB);
        sum += n_bytes;
    }
    const bool is_over = w->engine.memory_bytes > 0 && sum > w->engine.memory_bytes;
    hrf_cli_printf("memory    %s = %.1f MiB a rank for the networks side by side", list.text,
                   (double)sum / MIB);
    if (w->engine.memory_bytes > 0)
        hrf_cli_printf(", of engine.memory %.1f MiB", (double)w->engine.memory_bytes / MIB);
    hrf_cli_printf(is_over ? ": patches are read more than once\n"
                           : ": each patch is read once for all precisions\n");
}

/* Prints which slide heads are trained on what, and what they score. */
static void print_heads(const struct hrf_workflow *w, const struct counts *c)
{
    if (w->slide_head.train != HRF_TRAIN_NONE) {
        print_counts("train", c->reasons[HRF_TASK_TRAIN]);
        hrf_cli_printf("          %s: ", hrf_head_choice_name(w->slide_head.train));
        if (w->slide_head.split == HRF_HEADS_BY_FOLDS)
            hrf_cli_printf("%lld folds, ", (long long)w->slide_head.folds);
        hrf_cli_printf("%lld seed%s, at most %lld epochs, on embeddings in %s\n",
                       (long long)w->slide_head.repeats, w->slide_head.repeats == 1 ? "" : "s",
                       (long long)w->slide_head.epochs,
                       w->slide_head.each_precision ? "each precision"
                                                    : hrf_precision_name(w->precision[0]));
    }
    if (w->slide_head.forest != HRF_FOREST_NONE) {
        hrf_cli_printf(
            "forest    with the slides' scores, %lld trees over 30 features of heat maps in %s: ",
            (long long)w->slide_head.trees, hrf_precision_name(w->precision[0]));
        if (w->slide_head.split == HRF_HEADS_BY_FOLDS)
            hrf_cli_printf("%lld folds\n", (long long)w->slide_head.folds);
        else
            hrf_cli_printf("trained on the slides for training, as %s says\n",
                           w->slide_head.split == HRF_HEADS_BY_DATASET ? "the dataset"
                                                                       : "slide_head.table");
    }
    if (w->slide_head.file != NULL || w->slide_head.train != HRF_TRAIN_NONE)
        print_counts("head", c->reasons[HRF_TASK_HEAD]);
    if (w->slide_head.train != HRF_TRAIN_NONE)
        hrf_cli_printf("          slides that a trained head tests, in every precision\n");
}

static void print_plan_text(const struct hrf_workflow *w, const struct hrf_preview *preview,
                            const struct hrf_forecast *forecast, const char *directory,
                            const struct hrf_layout_request *request, bool all,
                            struct refusals *refusals)
{
    const struct counts c = count_tasks_by_reason(preview);
    hrf_cli_printf("ingest    %zu slide%s: %lld to do, %lld excluded, %lld missing\n",
                   preview->slides.n_items, preview->slides.n_items == 1 ? "" : "s",
                   (long long)slides_in(preview, HRF_SLIDE_PENDING),
                   (long long)slides_in(preview, HRF_SLIDE_EXCLUDED),
                   (long long)slides_in(preview, HRF_SLIDE_FAILED));
    if (preview->slides.n_sample > 0)
        hrf_cli_printf("          and %zu slides for calibration only\n", preview->slides.n_sample);
    print_counts("tile", c.reasons[HRF_TASK_TILE]);
    const char *method = hrf_tissue_method_name(w->tiler.tissue.method);
    if (w->tiler.mode == HRF_TILER_SLIDE)
        hrf_cli_printf("          each slide as one image of %lld px at %g um/px, tissue by %s\n",
                       (long long)w->tiler.slide.size, w->tiler.slide.mpp, method);
    else
        hrf_cli_printf("          patches of %lld px at %g um/px, stride %lld, tissue by %s\n",
                       (long long)w->tiler.patch.size, w->tiler.patch.mpp,
                       (long long)w->tiler.patch.stride, method);
    print_counts("infer", c.reasons[HRF_TASK_INFER]);
    HRF_AUTO_FREE char *prepared = hrf_workflow_preparation_text(w);
    if (prepared != NULL)
        hrf_cli_printf("          %s\n", prepared);
    hrf_cli_printf("          at most %lld patches in a job, %lld jobs at once\n",
                   (long long)w->executor.patches_per_job, (long long)w->executor.max_jobs);
    print_heads(w, &c);
    hrf_cli_printf("jobs      %lld to tile, %lld to infer, as far as known\n",
                   (long long)preview->n_jobs[HRF_TASK_TILE],
                   (long long)preview->n_jobs[HRF_TASK_INFER]);
    if (w->executor.type == HRF_EXECUTOR_SLURM)
        print_slurm(w, preview, directory);
    hrf_cli_printf("aggregate %s, threshold %g\n", hrf_score_method_name(w->aggregate.slide_score),
                   w->aggregate.threshold);
    const bool is_asked = asks_for_ranks(request);
    for (size_t i = 0; i < w->n_precisions; i++)
        if (is_asked || !print_one_rank(w, w->precision[i]))
            print_layout(w, w->precision[i], request, refusals);
    if (hrf_run_shares_reading(w))
        print_memory(w);
    hrf_cli_print_slides(w, forecast);
    hrf_cli_print_forecast(w, directory, forecast);
    hrf_cli_printf("directory %s: %s\n", directory,
                   preview->has_run ? "contains a run, which would be continued"
                                    : "does not contain a run yet");
    if (all)
        print_tasks(preview);
}

static json_t *task_json(const struct hrf_preview *preview, const struct hrf_preview_task *t)
{
    json_t *object = json_object();
    hrf_json_put_text(object, "kind", hrf_task_kind_name(t->row.kind));
    hrf_json_put_text(object, "state", hrf_preview_reason_name(t->reason));
    hrf_json_put_text(object, "slide", task_slide(preview, t));
    hrf_json_put_text(object, "precision", t->row.precision);
    hrf_json_put_text(object, "key", t->row.key[0] != '\0' ? t->row.key : NULL);
    hrf_json_put_int(object, "first_patch", t->row.first_patch);
    hrf_json_put_int(object, "n_patches", t->row.n_patches);
    return object;
}

static void print_plan_json(const struct hrf_workflow *w, const struct hrf_preview *preview,
                            const struct hrf_forecast *forecast, const char *directory,
                            const struct hrf_layout_request *request, struct refusals *refusals)
{
    json_t *tasks = json_array();
    for (size_t i = 0; i < preview->n_tasks; i++)
        hrf_json_add(tasks, task_json(preview, &preview->tasks[i]));
    json_t *slides = json_object();
    hrf_json_put_int(slides, "total", (int64_t)preview->slides.n_items);
    hrf_json_put_int(slides, "calibrating", (int64_t)preview->slides.n_sample);
    hrf_json_put_int(slides, "pending", slides_in(preview, HRF_SLIDE_PENDING));
    hrf_json_put_int(slides, "excluded", slides_in(preview, HRF_SLIDE_EXCLUDED));
    hrf_json_put_int(slides, "failed", slides_in(preview, HRF_SLIDE_FAILED));
    json_t *jobs = json_object();
    hrf_json_put_int(jobs, "tile", preview->n_jobs[HRF_TASK_TILE]);
    hrf_json_put_int(jobs, "infer", preview->n_jobs[HRF_TASK_INFER]);
    HRF_AUTO_JSON value = hrf_json_document();
    hrf_json_put_text(value, "directory", directory);
    hrf_json_put_bool(value, "continues", preview->has_run);
    hrf_json_put(value, "slides", slides);
    hrf_json_put(value, "tasks", tasks);
    hrf_json_put_int(value, "patches_to_score", count_tasks_by_reason(preview).patches);
    hrf_json_put(value, "layouts", layouts_json(w, request, refusals));
    hrf_json_put(value, "forecast", hrf_cli_forecast_json(w, directory, forecast));
    hrf_json_put(value, "jobs", jobs);
    HRF_AUTO_FREE char *lines = w->executor.type == HRF_EXECUTOR_SLURM
                                    ? sbatch_lines(w, preview, directory)
                                    : NULL;
    hrf_json_put(value, "sbatch", hrf_json_lines(lines != NULL ? lines : ""));
    hrf_json_print(value);
}

struct look {
    bool json, all;
    struct hrf_layout_request layout;
};

static int print_plan(const char *command, const struct hrf_workflow *w, const char *directory,
                      const struct look *look)
{
    struct refusals refusals = { .n = 0 };
    struct hrf_preview preview = { .warnings = HRF_STRBUF_INIT };
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_RELEASE(hrf_forecast) forecast = { .n_untiled = 0 };
    if (hrf_preview_make(w, directory, &preview, &err) != HRF_OK)
        return hrf_cli_fail(command, &err);
    if (hrf_cli_forecast(w, directory, &preview, &forecast, &err) != HRF_OK) {
        hrf_preview_release(&preview);
        return hrf_cli_fail(command, &err);
    }
    fputs(preview.warnings.text, stderr);
    if (look->json)
        print_plan_json(w, &preview, &forecast, directory, &look->layout, &refusals);
    else
        print_plan_text(w, &preview, &forecast, directory, &look->layout, look->all, &refusals);
    hrf_preview_release(&preview);
    /* An impossible layout in the workflow is shown as it is. If an option asked for it and no
     * precision has a prediction, that is wrong usage. */
    return asks_for_ranks(&look->layout) && refusals.n == w->n_precisions
               ? hrf_cli_fail(command, &refusals.last)
               : 0;
}

int hrf_cli_show_plan(const struct hrf_cli_drive *drive, const struct hrf_workflow *workflow,
                      const char *directory)
{
    const struct look look = { .json = drive->json, .layout = { .json = drive->json } };
    const int code = hrf_cli_prepare(drive, workflow);
    return code != 0 ? code : print_plan(drive->command, workflow, directory, &look);
}

static int plan_main(const struct hrf_command *command, int argc, char **argv)
{
    const char *directory = NULL;
    struct look look = { .json = false };
    struct hrf_option_list set = { .n_items = 0 };
    const struct hrf_option options[] = {
        { "out", "DIR", "run directory to look for finished work in", HRF_OPTION(&directory) },
        { "set", "KEY=VALUE", "override a key; may be repeated", HRF_OPTION(&set) },
        { "tasks", NULL, "list every task, whether it is cached, and why", HRF_OPTION(&look.all) },
        { "cluster", "FILE", "predict for a machine that this file describes (machines/*.yaml)",
          HRF_OPTION(&look.layout.cluster) },
        { "ranks", "N", "predict the best layout for these numbers of ranks: 4, 1,2,6 or 1..128",
          HRF_OPTION(&look.layout.ranks) },
        { "layout", "L", "predict this layout; N stands for the numbers of --ranks (spatial=N)",
          HRF_OPTION(&look.layout.layout) },
        { "timeline", "FILE.json",
          "write what every rank does when; 'tools/draw timeline' of the source tree draws it",
          HRF_OPTION(&look.layout.timeline) },
        { "json", NULL, "print JSON, with every task", HRF_OPTION(&look.json) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_workflow) w = NULL;
    HRF_AUTO_FREE char *standard = NULL;
    if (hrf_cli_load(args.operands[0], &set, &w, &err) != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    if (directory == NULL)
        directory = standard = hrf_cli_default_directory(w);
    look.layout.json = look.json;
    return print_plan(command->name, w, directory, &look);
}

const struct hrf_command hrf_cli_plan = {
    .name = "plan",
    .operands = "FILE.yaml",
    .summary = "show what a run would do, without running anything",
    .details =
        "Shows the tasks, which of them are cached, and why; then the patches, the time and the "
        "disk "
        "that the run is likely to take, and what each figure is from. Patches of slides that are "
        "not tiled yet are estimated from their headers and a look at some of them. With ranks or "
        "their options it predicts for each rank of a job "
        "what it holds, computes, sends and waits for in one batch. The prediction uses costs that "
        "were measured on this machine (hires-flow profile, tune-comm) or a machine file.",
    .min_operands = 1,
    .max_operands = 1,
    .run = plan_main,
};
