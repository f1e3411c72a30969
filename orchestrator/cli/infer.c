/* infer.c - `hires-flow infer`: slides and folders of them scored without a workflow file. It makes
 * the file that would say the same, checks it, writes it as DIR/request.yaml and runs it. A
 * directory that has results of another request is not used again: they would be replaced. */
#include "base/directory.h"
#include "base/file.h"
#include "base/path.h"
#include "base/text.h"
#include "orchestrator/cli/drive.h"
#include "orchestrator/cli/on_end.h"
#include "orchestrator/cli/setting_options.h"
#include "orchestrator/ingest/slide_folder.h"
#include "schema/yaml/tree.h"

#include <stdio.h>
#include <string.h>

static const char details[] =
    "Operands are slides, folders of slides (svs, tif, tiff, ndpi, mrxs, scn, vms, vmu, bif,\n"
    "svslide) and patterns. The run directory is runs/NAME, with the name of the first operand;\n"
    "if that has results of another request, runs/NAME-2 and so on. Running again continues.\n"
    "The equivalent workflow file is written to DIR/request.yaml; --set sets any other key of it.";

struct request {
    const char *out;
    struct hrf_text_list given; /* "key=value" of the options */
    struct hrf_option_list set;
    bool json, dry_run;
};

static void add_quoted(struct hrf_strbuf *yaml, const char *before, const char *text)
{
    hrf_strbuf_adds(yaml, before);
    hrf_yaml_add_quoted(yaml, text);
    hrf_strbuf_addc(yaml, '\n');
}

/* Adds the path as a glob pattern that matches nothing else. */
static void add_file(struct hrf_strbuf *yaml, const char *path)
{
    HRF_AUTO_RELEASE(hrf_strbuf) pattern = HRF_STRBUF_INIT;
    for (const char *at = path; *at != '\0'; at++) {
        if (strchr("*?[]\\", *at) != NULL)
            hrf_strbuf_addc(&pattern, '\\');
        hrf_strbuf_addc(&pattern, *at);
    }
    add_quoted(yaml, "    - ", pattern.text);
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

/* Writes the request as a workflow file: the settings that are not defaults. */
static enum hrf_status write_request(const struct hrf_workflow *workflow, struct hrf_strbuf *yaml,
                                     struct hrf_error *err)
{
    HRF_AUTO(hrf_workflow) defaults = NULL;
    HRF_TRY(hrf_workflow_create(&defaults, err));
    /* A stride that nobody asked for is the patch size, which may yet come from the model's file.
     */
    if (!workflow->tiler.patch.stride_is_given)
        defaults->tiler.patch.stride = workflow->tiler.patch.stride;
    hrf_strbuf_adds(yaml, "# Written by hires-flow infer.\n");
    hrf_workflow_write_changes(workflow, defaults, yaml);
    return HRF_OK;
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
    HRF_AUTO_FREE char *folder = hrf_path_directory(before);
    return hrf_strdup(hrf_path_name(folder));
}

enum directory_state { DIRECTORY_FREE, DIRECTORY_OURS, DIRECTORY_OTHERS };

/* Returns what the directory holds: no run, results of this request, or results of another one. */
static enum directory_state look_into(const char *directory, const char *request)
{
    enum { MAX = 1 << 26 };
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "request.yaml");
    HRF_AUTO_FREE char *store = hrf_path_join(directory, "run.db");
    HRF_AUTO_FREE char *there = NULL;
    size_t n = 0;
    if (!hrf_path_exists(store))
        return DIRECTORY_FREE;
    if (hrf_file_read(path, MAX, &there, &n, NULL) != HRF_OK)
        return DIRECTORY_OTHERS;
    return strcmp(there, request) == 0 ? DIRECTORY_OURS : DIRECTORY_OTHERS;
}

/* Fails at the first slide. */
static enum hrf_status found_slide(void *context, const char *path, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_USER,
                         "'%s' holds slides (%s), and results are not written among slides; name "
                         "another directory with --out",
                         (const char *)context, hrf_path_name(path));
}

static enum hrf_status check_out(const char *directory, const char *request, struct hrf_error *err)
{
    struct hrf_skipped_files passed = { .n_kinds = 0 };
    if (hrf_path_is_directory(directory))
        HRF_TRY(hrf_slide_folder_list(directory, false, found_slide, (void *)(uintptr_t)directory,
                                      &passed, err));
    if (look_into(directory, request) == DIRECTORY_OTHERS)
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
    enum { MAX = 1000 };
    HRF_AUTO_FREE char *name = operand_name(operand);
    HRF_CHECK_MEMORY(name != NULL, err, "no memory for the name of a directory");
    for (int i = 1; i <= MAX; i++) {
        HRF_AUTO_FREE char *path = i == 1 ? hrf_format("runs/%s", name)
                                          : hrf_format("runs/%s-%d", name, i);
        if (look_into(path, request) == DIRECTORY_OTHERS)
            continue;
        HRF_AUTO_FREE char *shown = hrf_text_escaped(path);
        fprintf(stderr, "results: %s\n", shown);
        HRF_MOVE(*out, path);
        return HRF_OK;
    }
    return hrf_error_set(err, HRF_E_USER,
                         "runs/%s to runs/%s-%d have results of other requests; name a directory "
                         "with --out",
                         name, name, MAX);
}

/* Makes the settings from operands, options and --set, and prints what is wrong with them. */
static enum hrf_status understand(const struct request *r, const struct hrf_args *args,
                                  struct hrf_workflow **out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    HRF_AUTO_RELEASE(hrf_strbuf) yaml = HRF_STRBUF_INIT;
    const size_t n = r->given.n_items + r->set.n_items;
    HRF_AUTO_FREE const char **overrides = hrf_calloc(n + 1, sizeof *overrides);
    for (size_t i = 0; i < n; i++) /* --set comes last, and counts */
        overrides[i] = i < r->given.n_items ? r->given.items[i]
                                            : r->set.items[i - r->given.n_items];
    hrf_strbuf_adds(&yaml, "version: 1\nname: infer\ndataset:\n  layout: files\n  files:\n");
    for (int i = 0; i < args->n_operands; i++)
        HRF_TRY(add_operand(&yaml, args->operands[i], err));
    enum hrf_status status = hrf_workflow_parse(yaml.text, yaml.length, "request.yaml", overrides,
                                                n, out, &findings, err);
    for (size_t i = 0; i < findings.n_items; i++) {
        const struct hrf_finding *f = &findings.items[i];
        const bool is_set = strncmp(f->where, "--set", 5) == 0;
        fprintf(stderr, "%s infer: %s%s%s\n", HRF_PROGRAM, is_set ? f->where : "",
                is_set ? ": " : "", f->message);
    }
    if (findings.n_items > 0)
        hrf_error_set(err, status, "%zu option%s cannot be used; see '%s infer --help'",
                      findings.n_items, findings.n_items == 1 ? "" : "s", HRF_PROGRAM);
    return status;
}

/* Chooses the directory, in which the workflow file will be. */
static enum hrf_status choose_directory(struct request *r, const struct hrf_args *args,
                                        const char *yaml, struct hrf_workflow *workflow,
                                        char **chosen, struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = NULL;
    if (r->out == NULL) {
        HRF_TRY(choose_out(args->operands[0], yaml, chosen, err));
        r->out = *chosen;
    }
    HRF_TRY(check_out(r->out, yaml, err));
    HRF_AUTO_FREE char *relative = hrf_path_join(r->out, "request.yaml");
    HRF_TRY(hrf_path_absolute(relative, &path, err));
    hrf_free(workflow->path);
    HRF_MOVE(workflow->path, path);
    return HRF_OK;
}

static int start(struct request *r, const struct hrf_args *args, const char *again)
{
    HRF_AUTO(hrf_workflow) workflow = NULL;
    HRF_AUTO_FREE char *chosen = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) yaml = HRF_STRBUF_INIT;
    struct hrf_error err = { .status = HRF_OK };
    const struct hrf_cli_drive drive = { .command = "infer", .again = again, .json = r->json };
    if (understand(r, args, &workflow, &err) != HRF_OK ||
        write_request(workflow, &yaml, &err) != HRF_OK ||
        choose_directory(r, args, yaml.text, workflow, &chosen, &err) != HRF_OK ||
        hrf_cli_adopt_input(workflow, &err) != HRF_OK)
        return hrf_cli_fail("infer", &err);
    if (r->dry_run)
        return hrf_cli_show_plan(&drive, workflow, r->out);
    const int code = hrf_cli_prepare(&drive, workflow);
    if (code != 0)
        return code;
    if (hrf_path_make_directories(r->out, &err) != HRF_OK ||
        hrf_file_write_atomic(workflow->path, yaml.text, yaml.length, &err) != HRF_OK)
        return hrf_cli_fail("infer", &err);
    return hrf_cli_drive(&drive, workflow, r->out);
}

static int infer_main(const struct hrf_command *command, int argc, char **argv)
{
    struct request r = { .out = NULL };
    const char *notify = NULL;
    const struct hrf_option own[] = {
        { "out", "DIR", "run directory (default runs/ and the name of the first operand)",
          HRF_OPTION(&r.out) },
        { "set", "KEY=VALUE", "set any other key of the workflow; may be repeated",
          HRF_OPTION(&r.set) },
        HRF_NOTIFY_OPTION(notify),
        { "dry-run", NULL, "check and plan, but start and write nothing", HRF_OPTION(&r.dry_run) },
        { "json", NULL, "print the summary as JSON", HRF_OPTION(&r.json) },
        { NULL },
    };
    static struct hrf_setting_options options;
    hrf_setting_options_init(&options, 0, own);
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options.table, argc, argv);
    if (args.done)
        return args.exit_code;
    HRF_AUTO_FREE char *again = hrf_cli_command_line(command->name, argc, argv);
    HRF_AUTO_FREE char *setting = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_cli_add_notify(notify, &r.set, &setting, &err) != HRF_OK ||
        hrf_setting_options_given(&options, &r.given, &err) != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    const int code = start(&r, &args, again);
    hrf_text_list_release(&r.given);
    return code;
}

const struct hrf_command hrf_cli_infer = {
    .name = "infer",
    .operands = "SLIDE|FOLDER ...",
    .summary = "score slides and folders of them, without a workflow file",
    .details = details,
    .min_operands = 1,
    .max_operands = -1,
    .run = infer_main,
};
