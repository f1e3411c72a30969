/* cancel.c - `hires-flow cancel DIR`: ends a run's driver and jobs. */
#include "base/clock.h"
#include "base/path.h"
#include "orchestrator/cli/cli.h"
#include "orchestrator/cli/live_jobs.h"
#include "orchestrator/executor/executor.h"
#include "schema/record/start.h"
#include "schema/store/tasks.h"

#include <signal.h>
#include <stdio.h>

/* Signals the driver as two Ctrl-C would. Without a driver, the jobs are ended here. */
static enum hrf_status cancel_driver(struct hrf_store *store, int64_t pid, struct hrf_error *err)
{
    enum { PATIENCE = 600 }; /* waits of 50 ms */
    for (int i = 0; i < PATIENCE && pid > 0; i++) {
        if (i < 2)
            kill((pid_t)pid, SIGINT);
        hrf_clock_sleep_ms(50);
        HRF_TRY(hrf_store_lease_owner(store, &pid, err));
    }
    if (pid > 0)
        return hrf_error_set(err, HRF_E_AGAIN,
                             "the run's driver (process %lld) was asked to end but still runs",
                             (long long)pid);
    return HRF_OK;
}

static enum hrf_status make_executor(struct hrf_store *store, const char *directory,
                                     struct hrf_workflow **workflow, struct hrf_executor **out,
                                     struct hrf_error *err)
{
    HRF_AUTO_FREE char *file = hrf_path_join(directory, "workflow.yaml"), *run_id = NULL;
    HRF_AUTO_RELEASE(hrf_findings) findings = HRF_FINDINGS_INIT;
    HRF_TRY(hrf_store_get_fact(store, "run_id", &run_id, err));
    HRF_TRY(hrf_workflow_load_executor(file, NULL, 0, workflow, &findings, err));
    return hrf_executor_create(&(*workflow)->executor, run_id != NULL ? run_id : "", out, err);
}

/* Asks the jobs to end and waits at most a minute. Returns how many have ended. */
static int end_all(struct hrf_executor *executor, const struct hrf_job_handle *handles, size_t n)
{
    enum { PATIENCE_MS = 60000 };
    const int64_t deadline = hrf_clock_ms() + PATIENCE_MS;
    int ended;
    executor->ops->cancel(executor, handles, n, false);
    do {
        bool is_new;
        ended = 0;
        hrf_clock_sleep_ms(50);
        executor->ops->poll(executor, &is_new);
        for (size_t i = 0; i < n; i++) {
            struct hrf_job_view view;
            executor->ops->look(executor, &handles[i], &view);
            ended += view.observed == HRF_JOB_ENDED || view.observed == HRF_JOB_GONE;
        }
    } while (ended < (int)n && hrf_clock_ms() < deadline);
    return ended;
}

/* Ends all jobs of the run. *left: jobs that were not seen to end. */
static enum hrf_status end_jobs(struct hrf_store *store, const char *directory, int *left,
                                struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_attempt_rows) live = { NULL, 0 };
    HRF_AUTO(hrf_workflow) workflow = NULL;
    struct hrf_executor *executor = NULL;
    *left = 0;
    HRF_TRY(hrf_store_get_attempts(store, true, &live, err));
    const int n = (int)live.n_items;
    HRF_AUTO_FREE struct hrf_job_handle *handles = hrf_calloc(live.n_items + 1, sizeof *handles);
    enum hrf_status status = HRF_OK;
    if (n > 0)
        status = make_executor(store, directory, &workflow, &executor, err);
    for (size_t i = 0; i < live.n_items && status == HRF_OK; i++) {
        const struct hrf_attempt_row *a = &live.items[i];
        handles[i] = (struct hrf_job_handle){ .id = a->pid,
                                              .start_time = a->start_time,
                                              .submission = a->submission,
                                              .array_index = a->array_index };
        HRF_AUTO_FREE char *job = hrf_path_join(directory, a->directory);
        struct hrf_error why;
        if (hrf_path_is_directory(job) && hrf_start_revoke(job, &why) != HRF_OK)
            fprintf(stderr, "%s cancel: %s\n", HRF_PROGRAM, why.text);
    }
    if (status == HRF_OK && n > 0)
        *left = n - end_all(executor, handles, live.n_items);
    hrf_executor_destroy(executor);
    return status;
}

/* Counts the jobs that run or wait, by their own files. */
static enum hrf_status count_alive(struct hrf_store *store, const char *directory, int *out,
                                   struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_task_rows) tasks = { NULL, 0 };
    HRF_AUTO_RELEASE(hrf_live_jobs) jobs = { .items = NULL };
    HRF_TRY(hrf_store_get_tasks(store, &tasks, err));
    HRF_TRY(hrf_live_jobs_read(store, directory, &tasks, &jobs, err));
    *out = (int)hrf_live_jobs_alive(&jobs);
    return HRF_OK;
}

static int cancel_main(const struct hrf_command *command, int argc, char **argv)
{
    bool json = false;
    struct hrf_args args = hrf_cli_parse_json(command, argc, argv, &json);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_store) store = NULL;
    int64_t pid = 0;
    int before = 0;
    if (hrf_cli_open_run(args.operands[0], &store, &err) != HRF_OK ||
        count_alive(store, args.operands[0], &before, &err) != HRF_OK ||
        hrf_store_lease_owner(store, &pid, &err) != HRF_OK ||
        (pid > 0 && cancel_driver(store, pid, &err) != HRF_OK))
        return hrf_cli_fail(command->name, &err);
    int left;
    if (end_jobs(store, args.operands[0], &left, &err) != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    const int ended = before > left ? before - left : 0;
    if (json) {
        HRF_AUTO_JSON answer = hrf_json_document();
        hrf_json_put_bool(answer, "driver_ended", pid > 0);
        hrf_json_put_int(answer, "jobs_ended", ended);
        hrf_json_print(answer);
    } else {
        hrf_cli_printf("cancelled: %s, %d job%s ended; run again to continue\n",
                       pid > 0 ? "the driver ended" : "no driver was running", ended,
                       ended == 1 ? "" : "s");
    }
    if (left > 0)
        fprintf(stderr, "%s cancel: %d jobs may still be running; their results will be ignored\n",
                HRF_PROGRAM, left);
    return left > 0 ? HRF_EXIT_FAILED : 0;
}

const struct hrf_command hrf_cli_cancel = {
    .name = "cancel",
    .operands = "DIR",
    .summary = "stop a run's driver and jobs; finished work is kept",
    .min_operands = 1,
    .max_operands = 1,
    .run = cancel_main,
};
