/* run.c - `hires-flow run`: runs a workflow, or continues what stands in its directory. */
#include "orchestrator/cli/drive.h"
#include "orchestrator/cli/on_end.h"

#include <stdio.h>

static const char details[] =
    "Running again on the same directory continues the run: finished work is kept, failed work is\n"
    "tried again, and jobs that are still running are found. Ctrl-C stops the command but leaves\n"
    "the jobs running; a second Ctrl-C ends them. Without --out, the run directory is\n"
    "runs/<name of the workflow>.";

struct request {
    const char *out, *executor, *notify;
    struct hrf_option_list set;
    bool dry_run, json;
};

static int run_main(const struct hrf_command *command, int argc, char **argv)
{
    struct request request = { .out = NULL };
    const struct hrf_option options[] = {
        { "out", "DIR", "run directory", HRF_OPTION(&request.out) },
        { "set", "KEY=VALUE", "override a key of the file; may be repeated",
          HRF_OPTION(&request.set) },
        { "executor", "local|slurm", "override executor.type", HRF_OPTION(&request.executor) },
        HRF_NOTIFY_OPTION(request.notify),
        { "dry-run", NULL, "check and plan, but start nothing", HRF_OPTION(&request.dry_run) },
        { "json", NULL, "print the summary as JSON", HRF_OPTION(&request.json) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    char executor[64];
    HRF_AUTO_FREE char *notify = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (request.executor != NULL) {
        snprintf(executor, sizeof executor, "executor.type=%s", request.executor);
        request.set.items[request.set.n_items++] = executor;
    }
    if (hrf_cli_add_notify(request.notify, &request.set, &notify, &err) != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    HRF_AUTO(hrf_workflow) workflow = NULL;
    HRF_AUTO_FREE char *standard = NULL, *again = hrf_cli_command_line(command->name, argc, argv);
    if (hrf_cli_load(args.operands[0], &request.set, &workflow, &err) != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    const char *directory = request.out;
    if (directory == NULL)
        directory = standard = hrf_cli_default_directory(workflow);
    const struct hrf_cli_drive drive = { .command = command->name,
                                         .again = again,
                                         .json = request.json };
    if (request.dry_run)
        return hrf_cli_show_plan(&drive, workflow, directory);
    const int code = hrf_cli_prepare(&drive, workflow);
    return code != 0 ? code : hrf_cli_drive(&drive, workflow, directory);
}

const struct hrf_command hrf_cli_run = {
    .name = "run",
    .operands = "FILE.yaml",
    .summary = "run a workflow, or continue it",
    .details = details,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_main,
};
