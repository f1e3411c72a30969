/* shared.c - what several subcommands need: errors, the store, sentinels, figures (cli.h). */
#include "base/clock.h"
#include "base/error_record.h"
#include "base/file_system.h"
#include "base/host.h"
#include "base/message.h"
#include "base/path.h"
#include "base/text.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/executor/slurm/command.h"
#include "orchestrator/executor/slurm/node_fit.h"
#include "orchestrator/launch/launch.h"
#include "schema/record/start.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct hrf_args hrf_cli_parse_json(const struct hrf_command *command, int argc, char **argv,
                                   bool *json)
{
    const struct hrf_option options[] = {
        { "json", NULL, "print JSON", HRF_OPTION(json) },
        { NULL },
    };
    return hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
}

int hrf_cli_fail(const char *command, const struct hrf_error *err)
{
    return hrf_error_report(HRF_PROGRAM, command, err);
}

enum hrf_status hrf_cli_load(const char *path, const struct hrf_option_list *set,
                             struct hrf_workflow **out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    enum hrf_status status = hrf_workflow_load(path, set->items, set->n_items, out, &findings, err);
    fputs(findings.text.text, stderr);
    if (status == HRF_E_EXTERNAL) /* the user has to name a file that can be read */
        err->status = status = HRF_E_USER;
    return status == HRF_OK ? hrf_cli_adopt_input(*out, err) : status;
}

enum hrf_status hrf_cli_open_run(const char *directory, struct hrf_store **out,
                                 struct hrf_error *err)
{
    HRF_TRY(hrf_store_open_run(directory, out, err));
    hrf_cli_warn_of_full_disk(directory);
    return HRF_OK;
}

void hrf_cli_warn_of_full_disk(const char *directory)
{
    if (hrf_file_system_is_full(directory))
        fprintf(stderr,
                "warning: the disk of '%s' is full: the run cannot go on, nor a report be "
                "written, before some space is free\n",
                directory);
}

void hrf_cli_print_way_out_of_full_disk(const struct hrf_error *err, const char *again)
{
    if (err->status == HRF_E_NOSPACE)
        fprintf(stderr, "finished work is kept: %s and %s\n",
                err->native == EFBIG ? "raise the limit of a file (ulimit -f)"
                                     : "free some space on that disk",
                again);
}

/* Refuses a --set of a key in another section. One without a '=' is left to the loader. */
static enum hrf_status check_sections(const struct hrf_option_list *set,
                                      const char *const sections[], struct hrf_error *err)
{
    for (size_t i = 0; i < set->n_items; i++) {
        const char *key = set->items[i];
        bool is_used = strchr(key, '=') == NULL;
        struct hrf_strbuf names = HRF_STRBUF_INIT;
        for (size_t k = 0; sections[k] != NULL; k++) {
            const size_t n = strlen(sections[k]);
            is_used |= strncmp(key, sections[k], n) == 0 && (key[n] == '.' || key[n] == '=');
            hrf_strbuf_addf(&names, "%s'%s'",
                            k == 0                    ? ""
                            : sections[k + 1] == NULL ? " and "
                                                      : ", ",
                            sections[k]);
        }
        if (!is_used)
            hrf_error_set(err, HRF_E_USER,
                          "--set %.*s: it would change nothing here: only the keys of %s are used "
                          "when the scores are there already; set it with 'run' to have it applied",
                          (int)strcspn(key, "="), key, names.text);
        hrf_strbuf_release(&names);
        if (!is_used)
            return HRF_E_USER;
    }
    return HRF_OK;
}

enum hrf_status hrf_cli_load_of_run(const char *path, const struct hrf_option_list *set,
                                    const char *const sections[], struct hrf_workflow **out,
                                    struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    HRF_TRY(check_sections(set, sections, err));
    enum hrf_status status = hrf_workflow_load_of_run(path, set->items, set->n_items, out,
                                                      &findings, err);
    fputs(findings.text.text, stderr);
    return status;
}

bool hrf_cli_read_sentinel(const char *directory, const struct hrf_attempt_row *attempt,
                           const char *name, struct hrf_sentinel *out)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, attempt->directory);
    const int n = hrf_start_count(path, 0);
    HRF_AUTO_FREE char *newest = hrf_start_directory(path, n > 0 ? n - 1 : 0);
    return hrf_sentinel_read(newest, name, out, NULL) == HRF_OK;
}

char *hrf_cli_silence(const char *directory, const struct hrf_attempt_row *attempt)
{
    struct hrf_sentinel last;
    char text[160];
    if (attempt->state == HRF_ATTEMPT_ENDED ||
        hrf_cli_read_sentinel(directory, attempt, "done", &last))
        return NULL;
    if (!hrf_cli_read_sentinel(directory, attempt, "beat", &last)) {
        if (!hrf_cli_read_sentinel(directory, attempt, "start", &last))
            return NULL;
        last.beat_ms = last.start_ms;
    }
    const int64_t age_ms = hrf_clock_wall_ms() - last.beat_ms;
    if (hrf_sentinel_silence(&last, age_ms > 0 ? age_ms : 0, text, sizeof text) == 0)
        return NULL;
    /* A launcher of this machine is gone if no process has its number and start time. */
    const bool is_gone = attempt->start_time != 0 &&
                         hrf_process_start_time((pid_t)attempt->pid) != attempt->start_time;
    return hrf_strdup(is_gone ? "its process is gone; the next driver imports its results" : text);
}

/* Asks `hires-engine model check` about the model `file`, which the setting `key` names. */
static enum hrf_status ask_check(const struct hrf_model_request *request, const char *key,
                                 const char *file, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) said = HRF_STRBUF_INIT;
    const struct hrf_engine_question question = { .command = HRF_ENGINE_MODEL,
                                                  .operands = { "check", file },
                                                  .options = hrf_model_options,
                                                  .request = request,
                                                  .initial = &hrf_model_request_initial,
                                                  .patience_ms = 120000 };
    char name[64];
    struct hrf_error why = { .status = HRF_OK };
    if (hrf_engine_ask(&question, &said, &why) == HRF_OK)
        return HRF_OK;
    if (why.id == HRF_ERROR_NO_ENGINE)
        return hrf_error_pass(err, &why);
    why.status = HRF_E_USER;
    hrf_error_pass(err, &why);
    hrf_message_name(key, name, sizeof name);
    return hrf_error_wrap(err, HRF_E_USER, "%s '%s' does not fit what is asked", name, file);
}

/* Checks that the network for tissue gives an output that tissue can be found in. */
static enum hrf_status check_tissue_model(const struct hrf_workflow *w, struct hrf_error *err)
{
    struct hrf_model_request request = hrf_model_request_initial;
    request.tissue = true;
    request.size = w->tiler.tissue.size;
    request.class = w->tiler.tissue.class;
    return ask_check(&request, "tiler.tissue.model", w->tiler.tissue.model, err);
}

enum hrf_status hrf_cli_check_model(const struct hrf_workflow *w, bool shapes_only,
                                    struct hrf_error *err)
{
    const bool whole = w->tiler.mode == HRF_TILER_SLIDE;
    const bool one_rank = !w->engine.parallel.is_auto && w->engine.parallel.spatial_rows == 1 &&
                          w->engine.parallel.spatial_cols == 1 && w->engine.parallel.tensor == 1 &&
                          w->engine.parallel.stages == 1;
    HRF_AUTO_FREE char *layout = hrf_workflow_layout(w);
    const char *activation = hrf_model_activation(&w->model);
    struct hrf_model_request request = hrf_model_request_initial;
    request.size = hrf_workflow_image_size(w);
    request.batch = whole ? 1 : w->engine.batch;
    request.classes = w->model.output == HRF_OUTPUT_EMBEDDING ? 0
                                                              : (int64_t)w->model.classes.n_items;
    request.memory = w->engine.memory_bytes;
    request.max_memory = w->model.max_memory_bytes;
    request.max_operations = w->model.max_operations;
    request.layout = layout;
    request.activation = activation != NULL ? activation : "auto";
    /* The memory of a network that ranks share, or that runs on a GPU, is checked where it runs. */
    request.shapes = shapes_only || whole || !one_rank || w->engine.device == HRF_DEVICE_CUDA;
    for (size_t i = 0; i < w->calibrate.keep.n_items && i < HRF_OPTION_LIST_MAX; i++)
        request.keep.items[request.keep.n_items++] = w->calibrate.keep.items[i];
    HRF_TRY(ask_check(&request, "model.file", w->model.file, err));
    return w->tiler.tissue.method == HRF_TISSUE_ONNX ? check_tissue_model(w, err) : HRF_OK;
}

enum hrf_status hrf_cli_check_slurm(const struct hrf_workflow *w, const char *const kinds[],
                                    struct hrf_error *err)
{
    static const char *const version[] = { "sbatch", "--version", NULL };
    /* Infer jobs ask for more, so they come first. */
    static const char *const of_workflows[] = { "infer", "tile", NULL };
    struct hrf_slurm_output out;
    struct hrf_error why = { .status = HRF_OK };
    if (w->executor.type != HRF_EXECUTOR_SLURM)
        return HRF_OK;
    if (hrf_slurm_run(version, HRF_SLURM_DEADLINE_MS, &out, &why) != HRF_OK)
        return hrf_error_set(err, HRF_E_EXTERNAL, "{executor.type} is slurm: %s", why.text);
    hrf_slurm_output_release(&out);
    kinds = kinds != NULL ? kinds : of_workflows;
    for (size_t i = 0; kinds[i] != NULL; i++)
        if (hrf_slurm_fit_ask(&w->executor, kinds[i], &why) != HRF_OK)
            return hrf_error_set(err, HRF_E_USER, "Slurm would not run the %s jobs: %s", kinds[i],
                                 why.text);
    return HRF_OK;
}

char *hrf_cli_default_directory(const struct hrf_workflow *workflow)
{
    HRF_AUTO_FREE char *name = hrf_text_file_name(workflow->name);
    return hrf_format("runs/%s", name);
}

int hrf_cli_exec_engine(const char *caller, const char *command, const char *verb, int argc,
                        char **argv)
{
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_FREE char *program = NULL;
    const char *words[64] = { NULL };
    int n = 0;
    if (hrf_launch_find_engine(&program, &err) != HRF_OK)
        return hrf_cli_fail(command, &err);
    if (argc > 60) {
        fprintf(stderr, "%s %s: %d arguments are too many; at most 60 are allowed\n", HRF_PROGRAM,
                command, argc);
        return HRF_EXIT_USAGE;
    }
    words[n++] = caller; /* usage and errors should name the program that the user called */
    words[n++] = verb;
    for (int i = 0; i < argc; i++)
        words[n++] = argv[i];
    hrf_launch_wait_quietly();
    execv(program, (char *const *)(uintptr_t)words);
    fprintf(stderr, "%s %s: cannot start '%s': %s\n", HRF_PROGRAM, command, program,
            errno == ENOENT ? "it does not exist; build it next to hires-flow"
                            : "it cannot be executed");
    return HRF_EXIT_LACKS;
}

void hrf_cli_printf(const char *format, ...)
{
    HRF_AUTO_RELEASE(hrf_strbuf) line = HRF_STRBUF_INIT;
    va_list args;
    va_start(args, format);
    hrf_strbuf_vaddf(&line, format, args);
    va_end(args);
    for (const char *s = line.text; *s != '\0';) {
        char shown[HRF_TEXT_ESCAPED_SIZE];
        bool is_plain;
        const bool is_end = *s == '\n';
        s += hrf_text_escape_first(s, shown, &is_plain);
        fputs(is_end ? "\n" : shown, stdout);
    }
}

/* Prints ", embeddings of 1024 numbers, cosine to the first precision's 0.9991 (least 0.9950)". */
static void print_embedding(const json_t *embedding, bool is_reference)
{
    const json_t *mean = json_object_get(embedding, "cosine_mean");
    const long long width = (long long)json_integer_value(json_object_get(embedding, "width"));
    if (width == 0) {
        hrf_cli_printf(", no embedding");
        return;
    }
    hrf_cli_printf(", embeddings of %lld numbers", width);
    if (!is_reference && json_is_number(mean))
        hrf_cli_printf(", cosine to the first precision's %.6f (least %.6f)",
                       json_number_value(mean),
                       json_number_value(json_object_get(embedding, "cosine_least")));
}

/* Prints the mean AUC of three or more classes, and each one's by its name. */
static void print_classes(const json_t *precision, const json_t *classes)
{
    const json_t *macro = json_object_get(precision, "macro_auc");
    const char *why = json_string_value(json_object_get(precision, "macro_auc_reason"));
    if (json_is_number(macro))
        hrf_cli_printf(", macro AUC %.4f (", json_number_value(macro));
    else
        hrf_cli_printf(", no macro AUC: %s (", why != NULL ? why : "unknown");
    for (size_t k = 0; k < json_array_size(classes); k++) {
        const json_t *class = json_array_get(classes, k), *auc = json_object_get(class, "auc");
        const char *name = json_string_value(json_object_get(class, "class"));
        hrf_cli_printf("%s%s ", k > 0 ? ", " : "", name != NULL ? name : "?");
        if (json_is_number(auc))
            hrf_cli_printf("%.4f", json_number_value(auc));
        else
            hrf_cli_printf("-");
    }
    hrf_cli_printf("; each against all others)");
}

static bool has_class_figures(const json_t *precision)
{
    const json_t *classes = json_object_get(precision, "classes");
    for (size_t k = 0; k < json_array_size(classes); k++)
        if (json_is_number(json_object_get(json_array_get(classes, k), "auc")))
            return true;
    return false;
}

void hrf_cli_print_figures(const json_t *report)
{
    const json_t *list = json_object_get(report, "precisions");
    const json_t *unused = json_object_get(report, "annotations_not_used"), *gap;
    size_t at;
    json_array_foreach(unused, at, gap)
        hrf_cli_printf("no lesions of %s, whose annotation cannot be used: %s\n",
                       json_string_value(json_object_get(gap, "slide")),
                       json_string_value(json_object_get(gap, "reason")));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *p = json_array_get(list, i), *auc = json_object_get(p, "slide_auc");
        const json_t *ci = json_object_get(p, "slide_auc_ci");
        const char *name = json_string_value(json_object_get(p, "precision"));
        const char *why = json_string_value(json_object_get(p, "slide_auc_reason"));
        hrf_cli_printf("%s: %lld patches", name != NULL ? name : "?",
                       (long long)json_integer_value(json_object_get(p, "patches")));
        const json_t *embedding = json_object_get(p, "embedding");
        if (json_is_object(embedding))
            print_embedding(embedding, i == 0);
        else if (has_class_figures(p))
            print_classes(p, json_object_get(p, "classes"));
        else if (json_is_number(auc))
            hrf_cli_printf(", slide AUC %.4f (95 %% interval %.4f to %.4f)", json_number_value(auc),
                           json_number_value(json_array_get(ci, 0)),
                           json_number_value(json_array_get(ci, 1)));
        else
            hrf_cli_printf(", no slide AUC (%s)", why != NULL ? why : "unknown");
        const json_t *accuracy = json_object_get(p, "slide_accuracy");
        if (json_is_number(accuracy))
            hrf_cli_printf(", accuracy %.4f", json_number_value(accuracy));
        hrf_cli_printf("\n");
    }
}

/* True for a slide that a label file names and that is not there. */
static bool is_absent(const struct hrf_slide_row *slide)
{
    return slide->state == HRF_SLIDE_FAILED && !hrf_path_exists(slide->path);
}

enum { FEW = 3 }; /* so many missing slides are named one by one */

/* Prints one line for all missing slides of a data set of which only a part was copied, if they are
 * more than FEW. Returns how many are missing. */
static size_t print_absent(const struct hrf_slide_rows *slides)
{
    size_t n = 0, shown = 0;
    for (size_t i = 0; i < slides->n_items; i++)
        n += is_absent(&slides->items[i]);
    if (n <= FEW)
        return n;
    hrf_cli_printf("failed: %zu slides that the dataset names are not there (", n);
    for (size_t i = 0; i < slides->n_items && shown < FEW; i++) {
        if (!is_absent(&slides->items[i]))
            continue;
        HRF_AUTO_FREE char *name = hrf_text_escaped(slides->items[i].name);
        hrf_cli_printf("%s%s", shown++ > 0 ? ", " : "", name);
    }
    hrf_cli_printf(", ...); results/labels.csv names them all\n");
    return n;
}

void hrf_cli_print_failed(const char *directory)
{
    HRF_AUTO(hrf_store) store = NULL;
    HRF_AUTO_RELEASE(hrf_slide_rows) slides = { .items = NULL };
    if (hrf_store_open_run(directory, &store, NULL) != HRF_OK ||
        hrf_store_get_slides(store, &slides, NULL) != HRF_OK)
        return;
    const bool are_told = print_absent(&slides) > FEW;
    for (size_t i = 0; i < slides.n_items; i++) {
        if (slides.items[i].state != HRF_SLIDE_FAILED || (are_told && is_absent(&slides.items[i])))
            continue;
        HRF_AUTO_FREE char *name = hrf_text_escaped(slides.items[i].name);
        const char *reason = slides.items[i].reason != NULL ? slides.items[i].reason : "unknown";
        hrf_cli_printf("failed: %s: %s\n", name, reason);
    }
}
