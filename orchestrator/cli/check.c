/* check.c - `hires-flow check`: all errors of a workflow file at once, then whether its model fits
 * it; or its JSON Schema. */
#include "orchestrator/cli/check_slides.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/executor/slurm/site.h"

#include <stdio.h>
#include <string.h>

static int print_schema(const char *command)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    struct hrf_error err;
    enum hrf_status status = hrf_workflow_json_schema(&text, &err);
    if (status == HRF_OK)
        fputs(text.text, stdout);
    hrf_strbuf_release(&text);
    return status == HRF_OK ? 0 : hrf_cli_fail(command, &err);
}

static json_t *findings_json(const struct hrf_findings *findings)
{
    json_t *list = json_array();
    for (size_t i = 0; i < findings->n_items; i++) {
        const struct hrf_finding *f = &findings->items[i];
        json_t *line = f->line > 0 ? json_integer(f->line) : json_null();
        json_t *column = f->line > 0 ? json_integer(f->column) : json_null();
        json_array_append_new(list, json_pack("{sosososo}", "where", hrf_json_string(f->where),
                                              "line", line, "column", column, "message",
                                              hrf_json_string(f->message)));
    }
    return list;
}

static json_t *misfit_json(const char *where, const struct hrf_error *err)
{
    return json_pack("{sssososo}", "where", where, "line", json_null(), "column", json_null(),
                     "message", hrf_json_string(err->text));
}

static int print_json(const char *path, const struct hrf_option_list *set)
{
    HRF_AUTO(hrf_workflow) workflow = NULL;
    struct hrf_findings findings = HRF_FINDINGS_INIT;
    struct hrf_strbuf unsupported = HRF_STRBUF_INIT;
    struct hrf_error err = { .status = HRF_OK };
    bool lacks = false;
    enum hrf_status status = hrf_workflow_load(path, set->items, set->n_items, &workflow, &findings,
                                               &err);
    json_t *list = findings_json(&findings);
    if (status == HRF_OK) {
        hrf_workflow_unsupported(workflow, &unsupported);
        status = hrf_cli_adopt_input(workflow, &err);
        if (status == HRF_OK)
            status = hrf_cli_check_model(workflow, true, &err);
        if (status != HRF_OK)
            json_array_append_new(list, misfit_json("model.file", &err));
        struct hrf_error why = { .status = HRF_OK };
        if (hrf_cli_check_slurm(workflow, &why) == HRF_E_USER) {
            json_array_append_new(list, misfit_json("executor.slurm", &why));
            err = status == HRF_OK ? why : err;
            status = HRF_E_USER;
        } else if (hrf_cli_check_ranks(workflow, &why) != HRF_OK) {
            json_array_append_new(list, misfit_json("executor", &why));
            err = status == HRF_OK ? why : err;
            status = HRF_E_EXTERNAL;
            lacks = true;
        }
    }
    HRF_AUTO_JSON value = json_pack("{sisosbsosIsoso}", "version", 1, "file", hrf_json_string(path),
                                    "valid", (int)(status == HRF_OK), "reason",
                                    status == HRF_OK ? json_null() : hrf_json_string(err.text),
                                    "errors", (json_int_t)json_array_size(list), "findings", list,
                                    "unsupported", hrf_cli_lines_json(unsupported.text));
    HRF_AUTO_FREE char *text = value != NULL ? hrf_json_text(value) : NULL;
    puts(text != NULL ? text : "{}");
    hrf_strbuf_release(&unsupported);
    hrf_findings_release(&findings);
    return status == HRF_OK ? 0 : lacks ? HRF_EXIT_LACKS : HRF_EXIT_USAGE;
}

static int print_keys(void)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    hrf_workflow_describe(&text);
    fputs(text.text, stdout);
    hrf_strbuf_release(&text);
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

static int run(const struct hrf_command *command, int argc, char **argv)
{
    bool schema = false, keys = false, resolved = false, json = false, submit = false;
    bool slides = false;
    struct hrf_option_list set = { .n_items = 0 };
    const struct hrf_option options[] = {
        { "set", "KEY=VALUE", "override a key; may be repeated", HRF_OPTION_LIST, &set },
        { "schema", NULL, "print the JSON Schema of workflow files", HRF_OPTION_FLAG, &schema },
        { "keys", NULL, "print every key with its default and meaning (Markdown)", HRF_OPTION_FLAG,
          &keys },
        { "resolved", NULL, "print the workflow with every default filled in", HRF_OPTION_FLAG,
          &resolved },
        { "submit", NULL, "ask Slurm whether it would accept the jobs, without submitting",
          HRF_OPTION_FLAG, &submit },
        { "slides", NULL, "open every slide and say which can be scored, and why others cannot",
          HRF_OPTION_FLAG, &slides },
        { "json", NULL, "print the findings as JSON", HRF_OPTION_FLAG, &json },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    if (schema)
        return print_schema(command->name);
    if (keys)
        return print_keys();
    struct hrf_error err = { .status = HRF_OK };
    if (args.n_operands == 0) {
        fprintf(stderr, "%s check: name a workflow file, or give --keys or --schema\n",
                HRF_PROGRAM);
        return HRF_EXIT_USAGE;
    }
    if (json && !slides)
        return print_json(args.operands[0], &set);
    HRF_AUTO(hrf_workflow) workflow = NULL;
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    if (hrf_cli_load(args.operands[0], &set, &workflow, &err) != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    if (slides)
        return hrf_cli_check_slides(workflow, json);
    const enum hrf_status fits = hrf_cli_check_model(workflow, true, &err);
    if (fits != HRF_OK) {
        const int code = hrf_cli_fail(command->name, &err);
        return fits == HRF_E_EXTERNAL ? HRF_EXIT_LACKS : code;
    }
    if (!submit && hrf_cli_check_slurm(workflow, &err) == HRF_E_USER) /* it may run elsewhere */
        return hrf_cli_fail(command->name, &err);
    if (hrf_cli_check_ranks(workflow, &err) != HRF_OK) {
        hrf_cli_fail(command->name, &err);
        return HRF_EXIT_LACKS;
    }
    if (resolved) {
        hrf_workflow_write(workflow, &text);
        fputs(text.text, stdout);
    } else {
        hrf_workflow_unsupported(workflow, &text);
        hrf_cli_printf("%s is a valid workflow%s%s", args.operands[0],
                       text.length > 0 ? ", but this build cannot run it:\n" : "\n", text.text);
    }
    hrf_strbuf_release(&text);
    return submit ? try_submit(workflow) : 0;
}

const struct hrf_command hrf_cli_check = {
    .name = "check",
    .operands = "[FILE.yaml]",
    .summary = "check a workflow file and report all errors at once",
    .details = "Checks the file, that its model fits it, that MPI is there if jobs have several "
               "ranks, and\n"
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
    .run = run,
};
