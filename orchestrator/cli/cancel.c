/* cancel.c - `hires-flow cancel DIR`: ends a run's driver and jobs. */
#include "base/clock.h"
#include "base/process.h"
#include "orchestrator/cli/cli.h"
#include "schema/store/tasks.h"

#include <signal.h>
#include <stdio.h>

/* The driver is told as by two Ctrl-C; without one, its jobs are ended here. */
static enum hrf_status cancel_driver(struct hrf_store *store, int64_t pid, struct hrf_error *err)
{
    enum { PATIENCE = 600 }; /* of 50 ms */
    for (int i = 0; i < PATIENCE && pid > 0; i++) {
        if (i < 2)
            kill((pid_t)pid, SIGINT);
        hrf_clock_sleep_ms(50);
        HRF_TRY(hrf_store_lease_owner(store, &pid, err));
    }
    if (pid > 0)
        return hrf_error_set(err, HRF_E_AGAIN, "process %lld does not end", (long long)pid);
    return HRF_OK;
}

static int end_jobs(struct hrf_store *store, struct hrf_error *err)
{
    struct hrf_attempt_rows live;
    if (hrf_store_get_attempts(store, true, &live, err) != HRF_OK)
        return -1;
    int n = 0;
    for (size_t i = 0; i < live.n_items; i++) {
        const struct hrf_attempt_row *a = &live.items[i];
        if (a->pid > 0 && hrf_process_start_time((pid_t)a->pid) == a->start_time)
            n += kill(-(pid_t)a->pid, SIGTERM) == 0;
    }
    hrf_attempt_rows_release(&live);
    return n;
}

static int run(const struct hrf_command *command, int argc, char **argv)
{
    bool json = false;
    const struct hrf_option options[] = {
        { "json", NULL, "print JSON", HRF_OPTION_FLAG, &json },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_store) store = NULL;
    int64_t pid = 0;
    if (hrf_cli_open(args.operands[0], &store, &err) != HRF_OK ||
        hrf_store_lease_owner(store, &pid, &err) != HRF_OK ||
        (pid > 0 && cancel_driver(store, pid, &err) != HRF_OK))
        return hrf_cli_fail(command->name, &err);
    int n = end_jobs(store, &err);
    if (n < 0)
        return hrf_cli_fail(command->name, &err);
    if (json)
        printf("{\"driver_ended\": %s, \"jobs_ended\": %d, \"version\": 1}\n",
               pid > 0 ? "true" : "false", n);
    else
        printf("cancelled: %s, %d jobs ended; run again to go on\n",
               pid > 0 ? "the driver ended" : "no driver was there", n);
    return 0;
}

const struct hrf_command hrf_cli_cancel = {
    .name = "cancel",
    .operands = "DIR",
    .summary = "end a run's driver and jobs; what is done stays",
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
