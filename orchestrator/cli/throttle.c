/* throttle.c - `hires-flow throttle DIR --jobs N`: how many jobs a run may have, while it runs. */
#include "orchestrator/cli/cli.h"
#include "schema/record/throttle_record.h"

#include <stdio.h>

static void print_limit(bool json, bool is_throttled, int64_t max)
{
    if (json) {
        HRF_AUTO_JSON answer = hrf_json_document();
        hrf_json_put(answer, "max_jobs", is_throttled ? json_integer(max) : json_null());
        hrf_json_print(answer);
    } else if (!is_throttled) {
        hrf_cli_printf("not throttled: the workflow's executor.max_jobs applies\n");
    } else if (max == 0) {
        hrf_cli_printf("no new jobs; running jobs continue (--off removes the limit)\n");
    } else {
        hrf_cli_printf("at most %lld job%s at a time (--off removes the limit)\n", (long long)max,
                       max == 1 ? "" : "s");
    }
}

static int throttle_main(const struct hrf_command *command, int argc, char **argv)
{
    bool json = false, off = false;
    int64_t jobs = -1;
    const struct hrf_option options[] = {
        { "jobs", "N", "at most N jobs at a time, including queued ones; 0: start nothing new",
          HRF_OPTION_NUMBER(&jobs, 0, HRF_UNBOUNDED) },
        { "off", NULL, "as many jobs as the workflow allows", HRF_OPTION(&off) },
        { "json", NULL, "print JSON", HRF_OPTION(&json) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    const char *directory = args.operands[0];
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_store) store = NULL;
    if (off && jobs >= 0) {
        fprintf(stderr, "%s throttle: --jobs and --off cannot be combined\n", HRF_PROGRAM);
        return HRF_EXIT_USAGE;
    }
    /* Fails if there is no run. */
    enum hrf_status status = hrf_store_open_run(directory, &store, &err);
    if (status == HRF_OK && off)
        status = hrf_throttle_remove(directory, &err);
    else if (status == HRF_OK && jobs >= 0)
        status = hrf_throttle_write(directory, jobs, &err);
    bool is_throttled = false;
    if (status == HRF_OK) {
        status = hrf_throttle_read(directory, &jobs, &err);
        is_throttled = status == HRF_OK;
    }
    if (status != HRF_OK && status != HRF_E_AGAIN)
        return hrf_cli_fail(command->name, &err);
    print_limit(json, is_throttled, jobs);
    return 0;
}

static const char details[] =
    "The driver applies the limit within a second, and later drivers apply it, too, until --off.\n"
    "Jobs beyond N that still wait in the scheduler's queue are withdrawn, the newest first;\n"
    "running jobs continue. Without --jobs and --off, the command prints the current limit.";

const struct hrf_command hrf_cli_throttle = {
    .name = "throttle",
    .operands = "DIR",
    .summary = "change the number of jobs of a run while it runs",
    .details = details,
    .min_operands = 1,
    .max_operands = 1,
    .run = throttle_main,
};
