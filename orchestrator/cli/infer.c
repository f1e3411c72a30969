/* infer.c - `hires-flow infer`: slides and folders of them scored without a workflow file. It makes
 * the file that would say the same, checks it, writes it as DIR/request.yaml and runs it. A
 * directory that has results of another request is not used again: they would be replaced. */
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "base/text.h"
#include "orchestrator/cli/drive.h"
#include "orchestrator/cli/infer_words.h"
#include "orchestrator/cli/on_end.h"
#include "orchestrator/ingest/slide_folder.h"
#include "schema/yaml/tree.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char details[] =
    "Operands are slides, folders of slides (svs, tif, tiff, ndpi, mrxs, scn, vms, vmu, bif,\n"
    "svslide) and patterns. The run directory is runs/NAME, with the name of the first operand;\n"
    "if that has results of another request, runs/NAME-2 and so on. Running again continues.\n"
    "The equivalent workflow file is written to DIR/request.yaml; --set sets any other key of it.";

struct request {
    const char *model, *out, *classes, *positive, *precision, *device;
    int64_t size, batch;
    double mpp, slide_mpp; /* slide_mpp NAN: not given */
    struct hrf_option_list set;
    bool json, recursive, dry_run;
};

static void add_quoted(struct hrf_strbuf *yaml, const char *before, const char *text)
{
    HRF_AUTO_FREE char *quoted = hrf_yaml_quote(text);
    hrf_strbuf_addf(yaml, "%s%s\n", before, quoted != NULL ? quoted : "");
    yaml->failed |= quoted == NULL;
}

/* `list` is what the command line gave, "a, b": one item of a YAML list for each. */
static void add_list(struct hrf_strbuf *yaml, const char *key, const char *list)
{
    hrf_strbuf_addf(yaml, "%s:\n", key);
    for (const char *at = list;; at++) {
        at += strspn(at, " ");
        size_t n = strcspn(at, ",");
        const char *end = at + n;
        while (n > 0 && at[n - 1] == ' ')
            n--;
        HRF_AUTO_FREE char *item = hrf_strndup(at, n);
        yaml->failed |= item == NULL;
        if (item != NULL)
            add_quoted(yaml, "    - ", item);
        if (*(at = end) == '\0')
            return;
    }
}

/* The path as a glob pattern that matches only this path. */
static void add_file(struct hrf_strbuf *yaml, const char *path)
{
    struct hrf_strbuf pattern = HRF_STRBUF_INIT;
    for (const char *at = path; *at != '\0'; at++) {
        if (strchr("*?[]\\", *at) != NULL)
            hrf_strbuf_addc(&pattern, '\\');
        hrf_strbuf_addc(&pattern, *at);
    }
    add_quoted(yaml, "    - ", pattern.text);
    hrf_strbuf_release(&pattern);
}

/* Files and folders must be there; a pattern is left to ingest. */
static enum hrf_status add_operand(struct hrf_strbuf *yaml, const char *operand,
                                   struct hrf_error *err)
{
    HRF_AUTO_FREE char *full = NULL;
    HRF_TRY(hrf_path_absolute(operand, &full, err));
    if (hrf_path_exists(full))
        add_file(yaml, full);
    else if (strpbrk(operand, "*?[") != NULL)
        add_quoted(yaml, "    - ", full);
    else
        return hrf_error_set(err, HRF_E_USER, "'%s' does not exist", operand);
    return HRF_OK;
}

/* The text of the workflow file; release it in any case. */
static enum hrf_status make_request(const struct request *r, const struct hrf_args *args,
                                    struct hrf_strbuf *yaml, struct hrf_error *err)
{
    HRF_AUTO_FREE char *model = NULL;
    HRF_TRY(hrf_path_absolute(r->model, &model, err));
    hrf_strbuf_adds(yaml, "# Written by hires-flow infer.\nversion: 1\nname: infer\ndataset:\n"
                          "  layout: files\n  files:\n");
    for (int i = 0; i < args->n_operands; i++)
        HRF_TRY(add_operand(yaml, args->operands[i], err));
    if (r->recursive)
        hrf_strbuf_adds(yaml, "  recursive: true\n");
    if (!isnan(r->slide_mpp))
        hrf_strbuf_addf(yaml, "  mpp: %.9g\n", r->slide_mpp);
    hrf_strbuf_addf(yaml, "tiler: {patch: {size: %lld, mpp: %.9g}}\n", (long long)r->size, r->mpp);
    add_list(yaml, "precision", r->precision);
    hrf_strbuf_addf(yaml, "engine:\n  batch: %lld\n", (long long)r->batch);
    add_quoted(yaml, "  device: ", r->device);
    hrf_strbuf_adds(yaml, "model:\n");
    add_list(yaml, "  classes", r->classes);
    if (r->positive != NULL)
        add_quoted(yaml, "  positive: ", r->positive);
    add_quoted(yaml, "  file: ", model);
    for (size_t i = 0; i < r->set.n_items; i++) { /* another --set is another request */
        HRF_AUTO_FREE char *shown = hrf_text_printable(r->set.items[i]);
        hrf_strbuf_addf(yaml, "# --set %s\n", shown != NULL ? shown : "");
        yaml->failed |= shown == NULL;
    }
    return hrf_strbuf_status(yaml, err);
}

/* "slides/a.svs" -> "a", "slides/" and "slides/" with a pattern -> "slides". */
static char *operand_name(const char *operand)
{
    HRF_AUTO_FREE char *full = NULL;
    if (hrf_path_absolute(operand, &full, NULL) != HRF_OK)
        return NULL;
    hrf_path_tidy(full);
    if (hrf_path_is_directory(full))
        return hrf_strdup(hrf_path_name(full));
    if (hrf_path_exists(full))
        return hrf_path_stem(full);
    const size_t n = strcspn(full, "*?[");
    HRF_AUTO_FREE char *before = hrf_strndup(full, n);
    HRF_AUTO_FREE char *folder = before != NULL ? hrf_path_directory(before) : NULL;
    return folder != NULL ? hrf_strdup(hrf_path_name(folder)) : NULL;
}

enum place { PLACE_FREE, PLACE_OURS, PLACE_OTHERS };

/* What is in the directory: nothing that counts, results of this request, or of another one. */
static enum place look_into(const char *directory, const char *request)
{
    enum { MOST = 1 << 26 };
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "request.yaml");
    HRF_AUTO_FREE char *store = hrf_path_join(directory, "run.db");
    HRF_AUTO_FREE char *there = NULL;
    size_t n = 0;
    if (store == NULL || !hrf_path_exists(store))
        return PLACE_FREE;
    if (path == NULL || hrf_file_read(path, MOST, &there, &n, NULL) != HRF_OK)
        return PLACE_OTHERS;
    return strcmp(there, request) == 0 ? PLACE_OURS : PLACE_OTHERS;
}

/* Tells of the first slide that it is given. */
static enum hrf_status found_slide(void *context, const char *path, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_USER,
                         "'%s' holds slides (%s), and results are not written among slides; name "
                         "another directory with --out",
                         (const char *)context, hrf_path_name(path));
}

static enum hrf_status check_out(const char *directory, const char *request, struct hrf_error *err)
{
    struct hrf_passed_over passed = { .n_kinds = 0 };
    if (hrf_path_is_directory(directory))
        HRF_TRY(hrf_slide_folder_list(directory, false, found_slide, (void *)(uintptr_t)directory,
                                      &passed, err));
    if (look_into(directory, request) == PLACE_OTHERS)
        return hrf_error_set(err, HRF_E_USER,
                             "'%s' has the results of another request (other slides, model or "
                             "options than %s/request.yaml says), which would be replaced; name "
                             "another directory with --out",
                             directory, directory);
    return HRF_OK;
}

/* *out (heap): runs/NAME, or the first of runs/NAME-2, -3 ... that has no other results. */
static enum hrf_status choose_out(const char *operand, const char *request, char **out,
                                  struct hrf_error *err)
{
    enum { MOST = 1000 };
    HRF_AUTO_FREE char *name = operand_name(operand);
    HRF_CHECK_MEMORY(name != NULL, err, "no memory for the name of a directory");
    for (int i = 1; i <= MOST; i++) {
        HRF_AUTO_FREE char *path = i == 1 ? hrf_format("runs/%s", name)
                                          : hrf_format("runs/%s-%d", name, i);
        HRF_CHECK_MEMORY(path != NULL, err, "no memory for the name of a directory");
        if (look_into(path, request) == PLACE_OTHERS)
            continue;
        HRF_AUTO_FREE char *shown = hrf_text_printable(path);
        fprintf(stderr, "results: %s\n", shown != NULL ? shown : "");
        HRF_MOVE(*out, path);
        return HRF_OK;
    }
    return hrf_error_set(err, HRF_E_USER,
                         "runs/%s to runs/%s-%d have results of other requests; name a directory "
                         "with --out",
                         name, name, MOST);
}

/* Chooses the directory and reads the request as the workflow DIR/request.yaml would be read; what
 * is wrong with it is printed. `yaml` is its text. */
static enum hrf_status understand(struct request *r, const struct hrf_args *args, char **chosen,
                                  struct hrf_strbuf *yaml, struct hrf_workflow **out,
                                  struct hrf_error *err)
{
    struct hrf_findings findings = HRF_FINDINGS_INIT;
    HRF_TRY(make_request(r, args, yaml, err));
    if (r->out == NULL) {
        HRF_TRY(choose_out(args->operands[0], yaml->text, chosen, err));
        r->out = *chosen;
    }
    HRF_TRY(check_out(r->out, yaml->text, err));
    HRF_AUTO_FREE char *path = hrf_path_join(r->out, "request.yaml");
    HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path");
    enum hrf_status status = hrf_workflow_parse(yaml->text, yaml->length, path, r->set.items,
                                                r->set.n_items, out, &findings, err);
    for (size_t i = 0; i < findings.n_items; i++) {
        const struct hrf_finding *f = &findings.items[i];
        const bool is_set = strncmp(f->where, "--set", 5) == 0;
        HRF_AUTO_FREE char *text = is_set ? hrf_format("%s: %s", f->where, f->message)
                                          : hrf_infer_reword(f->message);
        fprintf(stderr, "%s infer: %s\n", HRF_PROGRAM, text != NULL ? text : f->message);
    }
    if (findings.n_items > 0)
        hrf_error_set(err, status, "%zu option%s cannot be used; see '%s infer --help'",
                      findings.n_items, findings.n_items == 1 ? "" : "s", HRF_PROGRAM);
    hrf_findings_release(&findings);
    return status == HRF_OK ? hrf_cli_adopt_input(*out, err) : status;
}

static enum hrf_status write_request(const struct hrf_workflow *workflow,
                                     const struct hrf_strbuf *yaml, const char *directory,
                                     struct hrf_error *err)
{
    HRF_TRY(hrf_path_make_directories(directory, err));
    return hrf_file_write_atomic(workflow->path, yaml->text, yaml->length, err);
}

static int start(struct request *r, const struct hrf_args *args, const char *again)
{
    HRF_AUTO(hrf_workflow) workflow = NULL;
    HRF_AUTO_FREE char *chosen = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) yaml = HRF_STRBUF_INIT;
    struct hrf_error err = { .status = HRF_OK };
    const struct hrf_cli_drive drive = {
        .command = "infer", .again = again, .json = r->json, .reword = hrf_infer_reword
    };
    if (understand(r, args, &chosen, &yaml, &workflow, &err) != HRF_OK)
        return hrf_cli_fail("infer", &err);
    if (r->dry_run)
        return hrf_cli_show_plan(&drive, workflow, r->out);
    const int code = hrf_cli_prepare(&drive, workflow);
    if (code != 0)
        return code;
    if (write_request(workflow, &yaml, r->out, &err) != HRF_OK)
        return hrf_cli_fail("infer", &err);
    return hrf_cli_drive(&drive, workflow, r->out);
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    struct request r = { .classes = "normal, tumor",
                         .precision = "fp32",
                         .device = "auto",
                         .size = 256,
                         .batch = 32,
                         .mpp = 0.5,
                         .slide_mpp = NAN };
    const char *notify = NULL;
    const struct hrf_option options[] = {
        { "model", "FILE.onnx", "the model; required", HRF_OPTION_TEXT, &r.model },
        { "out", "DIR", "run directory (default runs/ and the name of the first operand)",
          HRF_OPTION_TEXT, &r.out },
        { "classes", "A,B,...", "class names, one for each output (default normal,tumor)",
          HRF_OPTION_TEXT, &r.classes },
        { "positive", "CLASS", "the class that makes a slide positive (default: the last)",
          HRF_OPTION_TEXT, &r.positive },
        { "size", "PX", "patch size (default 256)", HRF_OPTION_INT, &r.size },
        { "mpp", "UM", "resolution of patches in um/px (default 0.5)", HRF_OPTION_REAL, &r.mpp },
        { "slide-mpp", "UM", "resolution of slides that state none", HRF_OPTION_REAL,
          &r.slide_mpp },
        { "precision", "P,...", "one or more of fp32, tf32, fp16, bf16, int8 (default fp32)",
          HRF_OPTION_TEXT, &r.precision },
        { "device", "D", "auto, cpu or cuda (default auto)", HRF_OPTION_TEXT, &r.device },
        { "batch", "N", "patches in a batch (default 32)", HRF_OPTION_INT, &r.batch },
        { "set", "KEY=VALUE", "set any other key of the workflow; may be repeated", HRF_OPTION_LIST,
          &r.set },
        { "notify", "COMMAND",
          "start this at the end, with a summary as JSON on its standard input", HRF_OPTION_TEXT,
          &notify },
        { "recursive", NULL, "search the folders in folders, too", HRF_OPTION_FLAG, &r.recursive },
        { "dry-run", NULL, "check and plan, but start and write nothing", HRF_OPTION_FLAG,
          &r.dry_run },
        { "json", NULL, "print the summary as JSON", HRF_OPTION_FLAG, &r.json },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    if (r.model == NULL) {
        fprintf(stderr, "%s infer: name the model with --model FILE.onnx\n", HRF_PROGRAM);
        return HRF_EXIT_USAGE;
    }
    HRF_AUTO_FREE char *again = hrf_cli_command_line(command->name, argc, argv);
    HRF_AUTO_FREE char *setting = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (notify != NULL && r.set.n_items == HRF_OPTION_LIST_MAX) {
        fprintf(stderr, "%s infer: at most %d --set are allowed; --notify counts as one\n",
                HRF_PROGRAM, HRF_OPTION_LIST_MAX);
        return HRF_EXIT_USAGE;
    }
    if (notify != NULL) {
        if (hrf_cli_notify_setting(notify, &setting, &err) != HRF_OK)
            return hrf_cli_fail(command->name, &err);
        r.set.items[r.set.n_items++] = setting;
    }
    return again != NULL ? start(&r, &args, again) : HRF_EXIT_FAILED;
}

const struct hrf_command hrf_cli_infer = {
    .name = "infer",
    .operands = "SLIDE|FOLDER ...",
    .summary = "score slides and folders of them, without a workflow file",
    .details = details,
    .min_operands = 1,
    .max_operands = -1,
    .run = run,
};
