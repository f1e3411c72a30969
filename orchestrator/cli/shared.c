/* shared.c - what several subcommands need: errors, the store, sentinels, figures (cli.h). */
#include "base/clock.h"
#include "base/host.h"
#include "base/json.h"
#include "base/own_process.h"
#include "base/path.h"
#include "base/process.h"
#include "base/text.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/executor/slurm/command.h"
#include "orchestrator/executor/slurm/node_fit.h"
#include "orchestrator/launch/launch.h"
#include "schema/record/start.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct hrf_args hrf_cli_parse_json(const struct hrf_command *command, int argc, char **argv,
                                   bool *json)
{
    const struct hrf_option options[] = {
        { "json", NULL, "print JSON", HRF_OPTION_FLAG, json },
        { NULL },
    };
    return hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
}

int hrf_cli_fail(const char *command, const struct hrf_error *err)
{
    fprintf(stderr, "%s %s: %s\n", HRF_PROGRAM, command, err->text);
    return err->status == HRF_E_USER || err->status == HRF_E_UNSUPPORTED ? HRF_EXIT_USAGE
                                                                         : HRF_EXIT_FAILED;
}

enum hrf_status hrf_cli_load(const char *path, const struct hrf_option_list *set,
                             struct hrf_workflow **out, struct hrf_error *err)
{
    struct hrf_findings findings = HRF_FINDINGS_INIT;
    enum hrf_status status = hrf_workflow_load(path, set->items, set->n_items, out, &findings, err);
    fputs(findings.text.text, stderr);
    hrf_findings_release(&findings);
    if (status == HRF_E_EXTERNAL) /* the user has to name a file that can be read */
        err->status = status = HRF_E_USER;
    return status == HRF_OK ? hrf_cli_adopt_input(*out, err) : status;
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
    struct hrf_findings findings = HRF_FINDINGS_INIT;
    HRF_TRY(check_sections(set, sections, err));
    enum hrf_status status = hrf_workflow_load_of_run(path, set->items, set->n_items, out,
                                                      &findings, err);
    fputs(findings.text.text, stderr);
    hrf_findings_release(&findings);
    return status;
}

bool hrf_cli_read_sentinel(const char *directory, const struct hrf_attempt_row *attempt,
                           const char *name, struct hrf_sentinel *out)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, attempt->directory);
    const int n = path != NULL ? hrf_start_count(path, 0) : 0;
    HRF_AUTO_FREE char *newest = path != NULL ? hrf_start_directory(path, n > 0 ? n - 1 : 0) : NULL;
    return newest != NULL && hrf_sentinel_read(newest, name, out, NULL) == HRF_OK;
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
    /* A local launcher died; the next driver will notice. */
    const bool is_gone = attempt->start_time != 0 &&
                         hrf_process_start_time((pid_t)attempt->pid) != attempt->start_time;
    return hrf_strdup(is_gone ? "its process is gone; the next driver imports its results" : text);
}

/* The engine's message without its own name. `key` and `file`: of the model. */
static enum hrf_status model_misfit(const char *key, const char *file, const char *said,
                                    struct hrf_error *err)
{
    static const char own[] = "hires-engine model: ";
    if (strncmp(said, own, sizeof own - 1) == 0)
        said += sizeof own - 1;
    return hrf_error_set(err, HRF_E_USER, "%s '%s' does not fit the workflow: %.*s", key, file,
                         (int)strcspn(said, "\n"), said);
}

/* Runs a check of the engine. `key` and `file`: of the model that it is about. */
static enum hrf_status ask_engine(const char *const *argv, const char *key, const char *file,
                                  struct hrf_error *err)
{
    enum { PATIENCE_MS = 120000 };
    HRF_AUTO_RELEASE(hrf_strbuf) said = HRF_STRBUF_INIT;
    struct hrf_process_result result;
    HRF_TRY(hrf_process_run(argv, NULL, NULL, PATIENCE_MS, 1 << 16, NULL, &said, &result, err));
    if (result.exited && result.exit_code == 0)
        return HRF_OK;
    return model_misfit(key, file,
                        said.length > 0 ? said.text : "the engine ended without a message", err);
}

/* That the network for tissue gives what tissue can be told from. */
static enum hrf_status check_tissue_model(const struct hrf_workflow *w, const char *program,
                                          struct hrf_error *err)
{
    char size[24], class[24];
    snprintf(size, sizeof size, "%lld", (long long)w->tiler.tissue.size);
    snprintf(class, sizeof class, "%lld", (long long)w->tiler.tissue.class);
    const char *const argv[] = { program,    "model",  "check", w->tiler.tissue.model,
                                 "--tissue", "--size", size,    "--class",
                                 class,      NULL };
    return ask_engine(argv, "tiler.tissue.model", w->tiler.tissue.model, err);
}

/* The engine's command line: `fixed`, then --keep for each name that int8 is to leave alone (names
 * beyond what it takes are looked at where they are used). Heap. */
static const char **check_argv(const struct hrf_workflow *w, const char *const *fixed)
{
    struct hrf_text_list keep = w->calibrate.keep;
    size_t n = 0;
    if (keep.n_items > HRF_OPTION_LIST_MAX)
        keep.n_items = HRF_OPTION_LIST_MAX;
    while (fixed[n] != NULL)
        n++;
    const char **argv = hrf_calloc(n + 2 * keep.n_items + 1, sizeof *argv);
    for (size_t i = 0; argv != NULL && i < n; i++)
        argv[i] = fixed[i];
    for (size_t i = 0; argv != NULL && i < keep.n_items; i++) {
        argv[n + 2 * i] = "--keep";
        argv[n + 2 * i + 1] = keep.items[i];
    }
    return argv;
}

enum hrf_status hrf_cli_check_model(const struct hrf_workflow *w, bool shapes_only,
                                    struct hrf_error *err)
{
    HRF_AUTO_FREE char *program = NULL;
    HRF_TRY(hrf_launch_find_engine(&program, err));
    const bool whole = w->tiler.mode == HRF_TILER_SLIDE;
    const bool one_rank = !w->engine.parallel.is_auto && w->engine.parallel.spatial_rows == 1 &&
                          w->engine.parallel.spatial_cols == 1 && w->engine.parallel.tensor == 1 &&
                          w->engine.parallel.stages == 1;
    char size[24], batch[24], classes[24], memory[24], max_memory[24], max_operations[32];
    snprintf(size, sizeof size, "%lld", (long long)hrf_workflow_image_size(w));
    snprintf(batch, sizeof batch, "%lld", whole ? 1LL : (long long)w->engine.batch);
    const char *activation = hrf_model_activation(&w->model);
    const bool is_embedding = w->model.output == HRF_OUTPUT_EMBEDDING;
    snprintf(classes, sizeof classes, "%zu", is_embedding ? 0 : w->model.classes.n_items);
    snprintf(memory, sizeof memory, "%lld", (long long)w->engine.memory_bytes);
    snprintf(max_memory, sizeof max_memory, "%lld", (long long)w->model.max_memory_bytes);
    snprintf(max_operations, sizeof max_operations, "%.17g", w->model.max_operations);
    /* Where it is cut up, or is not the processor's, its memory is known where it runs. */
    const bool on_cpu = !whole && one_rank && w->engine.device != HRF_DEVICE_CUDA;
    const bool makes_ready = on_cpu && !shapes_only;
    HRF_AUTO_FREE char *layout = hrf_workflow_layout(w);
    HRF_CHECK_MEMORY(layout != NULL, err, "no memory to check the model");
    const char *const fixed[] = { program,
                                  "model",
                                  "check",
                                  w->model.file,
                                  "--size",
                                  size,
                                  "--batch",
                                  batch,
                                  "--classes",
                                  classes,
                                  "--memory",
                                  memory,
                                  "--layout",
                                  layout,
                                  "--max-memory",
                                  max_memory,
                                  "--max-operations",
                                  max_operations,
                                  "--activation",
                                  activation != NULL ? activation : "auto",
                                  makes_ready ? NULL : "--shapes",
                                  NULL };
    HRF_AUTO_FREE const char **argv = check_argv(w, fixed);
    HRF_CHECK_MEMORY(argv != NULL, err, "no memory to check the model");
    HRF_TRY(ask_engine(argv, "model.file", w->model.file, err));
    return w->tiler.tissue.method == HRF_TISSUE_ONNX ? check_tissue_model(w, program, err) : HRF_OK;
}

enum hrf_status hrf_cli_check_slurm(const struct hrf_workflow *w, struct hrf_error *err)
{
    static const char *const version[] = { "sbatch", "--version", NULL };
    static const char *const kinds[] = { "infer", "tile" }; /* infer asks for more */
    struct hrf_slurm_output out;
    struct hrf_error why = { .status = HRF_OK };
    if (w->executor.type != HRF_EXECUTOR_SLURM)
        return HRF_OK;
    if (hrf_slurm_run(version, HRF_SLURM_DEADLINE_MS, &out, &why) != HRF_OK)
        return hrf_error_set(err, HRF_E_EXTERNAL, "executor.type is slurm: %s", why.text);
    hrf_slurm_output_release(&out);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (hrf_slurm_fit_ask(&w->executor, kinds[i], &why) != HRF_OK)
            return hrf_error_set(err, HRF_E_USER, "Slurm would not run the %s jobs: %s", kinds[i],
                                 why.text);
    return HRF_OK;
}

char *hrf_cli_default_directory(const struct hrf_workflow *workflow)
{
    HRF_AUTO_FREE char *name = hrf_text_file_name(workflow->name);
    return name != NULL ? hrf_format("runs/%s", name) : NULL;
}

json_t *hrf_cli_lines_json(const char *text)
{
    json_t *list = json_array();
    while (*text != '\0') {
        const size_t n = strcspn(text, "\n");
        json_array_append_new(list, json_stringn(text, n));
        text += n + (text[n] == '\n');
    }
    return list;
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
    execv(program, (char *const *)(uintptr_t)words);
    fprintf(stderr, "%s %s: cannot start '%s': %s\n", HRF_PROGRAM, command, program,
            errno == ENOENT ? "it does not exist; build it next to hires-flow"
                            : "it cannot be executed");
    return HRF_EXIT_LACKS;
}

void hrf_cli_printf(const char *format, ...)
{
    struct hrf_strbuf line = HRF_STRBUF_INIT;
    va_list args;
    va_start(args, format);
    hrf_strbuf_vaddf(&line, format, args);
    va_end(args);
    for (const char *s = line.text; *s != '\0';) {
        char shown[HRF_TEXT_STEP];
        bool is_plain;
        const bool is_end = *s == '\n';
        s += hrf_text_step(s, shown, &is_plain);
        fputs(is_end ? "\n" : shown, stdout);
    }
    hrf_strbuf_release(&line);
}

/* ", embeddings of 1024 numbers, cosine 0.9991 (least 0.9950)" */
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

void hrf_cli_print_figures(const json_t *report)
{
    const json_t *list = json_object_get(report, "precisions");
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

/* Ingest's reason for a slide that a label file names and that is not there. */
static bool is_absent(const struct hrf_slide_row *slide)
{
    static const char start[] = "the file '", end[] = "' does not exist";
    const char *reason = slide->state == HRF_SLIDE_FAILED ? slide->reason : NULL;
    const size_t n = reason != NULL ? strlen(reason) : 0;
    return n > sizeof start + sizeof end && strncmp(reason, start, sizeof start - 1) == 0 &&
           strcmp(reason + n - (sizeof end - 1), end) == 0;
}

enum { FEW = 3 }; /* slides that are not there are told one by one */

/* One line for a data set of which only a part was copied. Returns how many there are. */
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
        HRF_AUTO_FREE char *name = hrf_text_printable(slides->items[i].name);
        hrf_cli_printf("%s%s", shown++ > 0 ? ", " : "", name != NULL ? name : "?");
    }
    hrf_cli_printf(", ...); results/labels.csv names them all\n");
    return n;
}

void hrf_cli_print_failed(const char *directory, char *(*reword)(const char *text))
{
    HRF_AUTO(hrf_store) store = NULL;
    struct hrf_slide_rows slides;
    if (hrf_store_open_run(directory, &store, NULL) != HRF_OK ||
        hrf_store_get_slides(store, &slides, NULL) != HRF_OK)
        return;
    const bool are_told = print_absent(&slides) > FEW;
    for (size_t i = 0; i < slides.n_items; i++) {
        if (slides.items[i].state != HRF_SLIDE_FAILED || (are_told && is_absent(&slides.items[i])))
            continue;
        HRF_AUTO_FREE char *name = hrf_text_printable(slides.items[i].name);
        const char *reason = slides.items[i].reason != NULL ? slides.items[i].reason : "unknown";
        HRF_AUTO_FREE char *reworded = reword != NULL ? reword(reason) : NULL;
        hrf_cli_printf("failed: %s: %s\n", name != NULL ? name : "?",
                       reworded != NULL ? reworded : reason);
    }
    hrf_slide_rows_release(&slides);
}
