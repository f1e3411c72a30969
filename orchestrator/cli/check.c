/* check.c - `hires-flow check`: all errors of a workflow file at once, or its JSON Schema. */
#include "orchestrator/cli/cli.h"

#include <stdio.h>

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

static int run(const struct hrf_command *command, int argc, char **argv)
{
    bool schema = false, resolved = false;
    struct hrf_option_list set = { .n_items = 0 };
    const struct hrf_option options[] = {
        { "set", "KEY=VALUE", "overrides a key; may be repeated", HRF_OPTION_LIST, &set },
        { "schema", NULL, "print the JSON Schema of workflow files", HRF_OPTION_FLAG, &schema },
        { "resolved", NULL, "print the workflow with every default", HRF_OPTION_FLAG, &resolved },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    if (schema)
        return print_schema(command->name);
    struct hrf_error err = { .status = HRF_OK };
    if (args.n_operands == 0) {
        fprintf(stderr, "%s check: name a workflow file, or give --schema\n", HRF_PROGRAM);
        return HRF_EXIT_USAGE;
    }
    HRF_AUTO(hrf_workflow) workflow = NULL;
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    if (hrf_cli_load(args.operands[0], &set, &workflow, &err) != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    if (resolved) {
        hrf_workflow_write(workflow, &text);
        fputs(text.text, stdout);
    } else {
        hrf_workflow_unsupported(workflow, &text);
        printf("%s is a valid workflow%s%s", args.operands[0],
               text.length > 0 ? ", but this build cannot run it:\n" : "\n", text.text);
    }
    hrf_strbuf_release(&text);
    return 0;
}

const struct hrf_command hrf_cli_check = {
    .name = "check",
    .operands = "FILE.yaml",
    .summary = "check a workflow file; all errors at once",
    .min_operands = 0,
    .max_operands = 1,
    .run = run,
};
