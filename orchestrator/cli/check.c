/* check.c - `hires-flow check`: all errors of a workflow file and of its tables at once, and
 * whether its model and the nodes fit it; or its JSON Schema. */
#include "orchestrator/cli/check_slides.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/executor/slurm/site.h"
#include "orchestrator/ingest/ingest.h"
#include "orchestrator/run/head_table.h"

#include <stdio.h>
#include <string.h>

static int print_schema(void)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    hrf_workflow_json_schema(&text);
    fputs(text.text, stdout);
    return 0;
}

/* All that is wrong with a workflow; `misfits` are looked for if the file itself is right. */
struct verdict {
    struct hrf_workflow *workflow; /* NULL: the file cannot be read */
    struct hrf_findings findings;
    struct hrf_error err; /* why the workflow is not right */
    int code;
    struct {
        const char *where; /* the keys that it is about */
        char *text;
    } misfits[4];
    int n_misfits;
};

static void verdict_release(struct verdict *v)
{
    hrf_workflow_destroy(v->workflow);
    hrf_findings_release(&v->findings);
    for (int i = 0; i < v->n_misfits; i++)
        hrf_free(v->misfits[i].text);
}

/* Notes where the workflow and what it names do not fit, or what this machine lacks for it. */
static void note_misfit(struct verdict *v, const char *where, bool is_lack,
                        const struct hrf_error *why)
{
    v->misfits[v->n_misfits].where = where;
    v->misfits[v->n_misfits++].text = hrf_strdup(why->text);
    if (v->code == 0 || (v->code == HRF_EXIT_LACKS && !is_lack)) {
        v->code = is_lack ? HRF_EXIT_LACKS : HRF_EXIT_USAGE;
        v->err = *why;
    }
}

/* Checks the tables that the workflow names, even if the file has errors. */
static void check_tables(const struct hrf_workflow *w, struct hrf_findings *findings)
{
    struct run_head_table table;
    struct hrf_error why = { .status = HRF_OK };
    hrf_ingest_check(w, findings);
    if (run_head_table_read(w, &table, &why) != HRF_OK)
        hrf_findings_add(findings, "slide_head.table", 0, why.text);
    run_head_table_release(&table);
}

static void check_file(const char *path, const struct hrf_option_list *set, bool asks_slurm,
                       struct verdict *v)
{
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = hrf_workflow_load_with_errors(path, set->items, set->n_items,
                                                           &v->workflow, &v->findings, &v->err);
    const size_t n_of_file = v->findings.n_items;
    if (v->workflow != NULL)
        check_tables(v->workflow, &v->findings);
    if (v->findings.n_items > n_of_file)
        hrf_error_set(&v->err, HRF_E_USER, "'%s' and the tables that it names have %zu error%s",
                      path, v->findings.n_items, v->findings.n_items == 1 ? "" : "s");
    if (status != HRF_OK || v->findings.n_items > 0)
        v->code = HRF_EXIT_USAGE;
    if (status != HRF_OK)
        return;
    status = hrf_cli_adopt_input(v->workflow, &why);
    if (status == HRF_OK)
        status = hrf_cli_check_model(v->workflow, true, &why);
    if (status != HRF_OK)
        note_misfit(v, "model.file", status == HRF_E_EXTERNAL, &why);
    /* HRF_E_EXTERNAL: Slurm may be elsewhere. */
    if (asks_slurm && hrf_cli_check_slurm(v->workflow, NULL, &why) == HRF_E_USER)
        note_misfit(v, "executor.slurm", false, &why);
    if (hrf_cli_check_ranks(v->workflow, &why) != HRF_OK)
        note_misfit(v, "executor", true, &why);
}

static json_t *verdict_json(const struct verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < v->findings.n_items; i++) {
        const struct hrf_finding *f = &v->findings.items[i];
        json_t *line = f->line > 0 ? json_integer(f->line) : json_null();
        json_t *column = f->column > 0 ? json_integer(f->column) : json_null();
        json_t *entry = json_object();
        hrf_json_put_text(entry, "where", f->where);
        hrf_json_put(entry, "line", line);
        hrf_json_put(entry, "column", column);
        hrf_json_put_text(entry, "message", f->message);
        hrf_json_add(list, entry);
    }
    for (int i = 0; i < v->n_misfits; i++) {
        json_t *entry = json_object();
        hrf_json_put_text(entry, "where", v->misfits[i].where);
        hrf_json_put(entry, "line", json_null());
        hrf_json_put(entry, "column", json_null());
        hrf_json_put_text(entry, "message", v->misfits[i].text);
        hrf_json_add(list, entry);
    }
    return list;
}

static void print_check_json(const char *path, const struct verdict *v)
{
    HRF_AUTO_RELEASE(hrf_strbuf) unsupported = HRF_STRBUF_INIT;
    if (v->workflow != NULL)
        hrf_workflow_unsupported(v->workflow, &unsupported);
    json_t *list = verdict_json(v);
    HRF_AUTO_JSON value = hrf_json_document();
    hrf_json_put_text(value, "file", path);
    hrf_json_put_bool(value, "valid", v->code == 0);
    hrf_json_put(value, "reason", v->code == 0 ? json_null() : hrf_json_string(v->err.text));
    hrf_json_put_int(value, "errors", (int64_t)json_array_size(list));
    hrf_json_put(value, "findings", list);
    hrf_json_put(value, "unsupported", hrf_json_lines(unsupported.text));
    hrf_json_print(value);
}

static void print_errors(const struct verdict *v)
{
    bool is_printed = false;
    fputs(v->findings.text.text, stderr);
    for (int i = 0; i < v->n_misfits; i++) {
        fprintf(stderr, "%s check: %s\n", HRF_PROGRAM, v->misfits[i].text);
        is_printed |= strcmp(v->misfits[i].text, v->err.text) == 0;
    }
    if (!is_printed)
        fprintf(stderr, "%s check: %s\n", HRF_PROGRAM, v->err.text);
}

static void print_valid(const char *path, const struct hrf_workflow *w, bool resolved)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    if (resolved) {
        hrf_workflow_write(w, &text);
        fputs(text.text, stdout);
    } else {
        hrf_workflow_unsupported(w, &text);
        hrf_cli_printf("%s is a valid workflow%s%s", path,
                       text.length > 0 ? ", but this build cannot run it:\n" : "\n", text.text);
    }
}

static int print_keys(void)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    hrf_settings_describe((struct hrf_setting_table){ hrf_settings, hrf_n_settings }, &text);
    fputs(text.text, stdout);
    return 0;
}

/* Asks Slurm about a job of each kind with sbatch --test-only, which submits nothing. */
static int try_submit(const struct hrf_workflow *w)
{
    static const char *const kinds[] = { "tile", "infer" };
    int code = 0;
    if (w->executor.type != HRF_EXECUTOR_SLURM) {
        hrf_cli_printf("executor.type is local: nothing is submitted\n");
        return 0;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct hrf_strbuf out = HRF_STRBUF_INIT;
        struct hrf_error err = { .status = HRF_OK };
        const enum hrf_status status = hrf_slurm_try(&w->executor, kinds[i], &out, &err);
        if (status == HRF_OK)
            hrf_cli_printf("%s: Slurm would accept it: %s\n", kinds[i], out.text);
        else
            hrf_cli_printf("%s: %s: %s\n", kinds[i],
                           status == HRF_E_USER ? "it would not run" : "Slurm cannot be asked",
                           err.text);
        if (status != HRF_OK && code == 0)
            code = status == HRF_E_USER ? HRF_EXIT_USAGE : HRF_EXIT_LACKS;
        hrf_strbuf_release(&out);
    }
    return code;
}

static int check_main(const struct hrf_command *command, int argc, char **argv)
{
    bool schema = false, keys = false, resolved = false, json = false, submit = false;
    bool slides = false;
    struct hrf_option_list set = { .n_items = 0 };
    const struct hrf_option options[] = {
        { "set", "KEY=VALUE", "override a key; may be repeated", HRF_OPTION(&set) },
        { "schema", NULL, "print the JSON Schema of workflow files", HRF_OPTION(&schema) },
        { "keys", NULL, "print every key with its default and meaning (Markdown)",
          HRF_OPTION(&keys) },
        { "resolved", NULL, "print the workflow with every default filled in",
          HRF_OPTION(&resolved) },
        { "submit", NULL, "ask Slurm whether it would accept the jobs, without submitting",
          HRF_OPTION(&submit) },
        { "slides", NULL, "open every slide and say which can be scored, and why others cannot",
          HRF_OPTION(&slides) },
        { "json", NULL, "print the findings as JSON", HRF_OPTION(&json) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    if (schema)
        return print_schema();
    if (keys)
        return print_keys();
    if (args.n_operands == 0) {
        fprintf(stderr, "%s check: name a workflow file, or give --keys or --schema\n",
                HRF_PROGRAM);
        return HRF_EXIT_USAGE;
    }
    const char *path = args.operands[0];
    if (slides) {
        HRF_AUTO(hrf_workflow) workflow = NULL;
        struct hrf_error err = { .status = HRF_OK };
        return hrf_cli_load(path, &set, &workflow, &err) == HRF_OK
                   ? hrf_cli_check_slides(workflow, json)
                   : hrf_cli_fail(command->name, &err);
    }
    HRF_AUTO_RELEASE(verdict) v = { .findings = HRF_FINDINGS_INIT, .err.status = HRF_OK };
    check_file(path, &set, !submit || json, &v);
    int code = v.code;
    if (json)
        print_check_json(path, &v);
    else if (code != 0)
        print_errors(&v);
    else
        print_valid(path, v.workflow, resolved);
    if (code == 0 && submit && !json)
        code = try_submit(v.workflow);
    return code;
}

const struct hrf_command hrf_cli_check = {
    .name = "check",
    .operands = "[FILE.yaml]",
    .summary = "check a workflow file and report all errors at once",
    .details =
        "Checks the file, the tables that it names, that its model fits it, that MPI is there if "
        "jobs have several ranks, and\n"
        "that its jobs fit the nodes of the Slurm partition where Slurm answers here. Does "
        "not look at the slides, which "
        "may be on\n"
        "another machine: 'plan' shows what the dataset contains, and 'run' checks it at "
        "its start.\n"
        "--slides opens the header of every slide, many at once, and groups what it finds: "
        "missing,\n"
        "cut short, still being copied, without a resolution, finer patches than pixels. "
        "Exit code 3:\n"
        "some cannot be scored.\n"
        "--schema and --keys need no file.",
    .min_operands = 0,
    .max_operands = 1,
    .run = check_main,
};
