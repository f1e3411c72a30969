/* throttle.c - how many jobs may exist at a time, which users may change while a driver runs, and
 * how fast jobs may be submitted. */
#include "base/clock.h"
#include "base/log.h"
#include "orchestrator/run/run_private.h"
#include "schema/record/start.h"
#include "schema/record/throttle_record.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 1000, SUBMIT_BURST = 10 };

int64_t run_most_jobs(const struct run *run)
{
    return run->is_throttled ? run->throttle : run->workflow->executor.max_jobs;
}

bool run_take_submission(struct run *run)
{
    const int64_t period = run->executor->submit_ms, now = hrf_clock_ms();
    if (run->submit_due_ms < now)
        run->submit_due_ms = now;
    if (run->submit_due_ms - now >= period * SUBMIT_BURST && period > 0)
        return false;
    run->submit_due_ms += period;
    return true;
}

/* Logs the same warning once, not every second. */
static void warn_once(struct run *run, const char *text)
{
    if (strncmp(text, run->throttle_trouble, sizeof run->throttle_trouble - 1) == 0)
        return;
    hrf_log_warning("run", "%s", text);
    snprintf(run->throttle_trouble, sizeof run->throttle_trouble, "%.*s",
             (int)sizeof run->throttle_trouble - 1, text);
}

/* While throttle.json cannot be read, the limit that it held before remains in force. */
static void read_throttle(struct run *run)
{
    struct hrf_error err = { .status = HRF_OK };
    int64_t most = 0;
    const enum hrf_status status = hrf_throttle_read(run->directory, &most, &err);
    if (status == HRF_OK && (!run->is_throttled || run->throttle != most)) {
        run->is_throttled = true;
        run->throttle = most;
        hrf_log_info("run", "throttled: at most %lld jobs at a time, not the workflow's %lld",
                     (long long)most, (long long)run->workflow->executor.max_jobs);
    } else if (status == HRF_E_AGAIN && run->is_throttled) {
        run->is_throttled = false;
        hrf_log_info("run", "no longer throttled: at most %lld jobs at a time",
                     (long long)run->workflow->executor.max_jobs);
    } else if (status != HRF_OK && status != HRF_E_AGAIN)
        warn_once(run, err.text);
}

/* Claims a job that waits, by the scheduler's last answer, so that it cannot begin: whoever creates
 * the directory of its next start owns that start (start.h). A start that was found before the
 * scheduler was asked is over; a start found later may be running. */
static enum hrf_status claim_waiting_job(const struct run *run, struct run_job *job, bool *is_ours,
                                         struct hrf_error *err)
{
    HRF_AUTO_FREE char *attempt = run_job_path(run, job, NULL);
    *is_ours = false;
    HRF_CHECK_MEMORY(attempt != NULL, err, "no memory for a path");
    if (job->view.observed != HRF_JOB_WAITING || job->revoked || job->unsure_since_ms != 0 ||
        (job->n_starts > 0 && job->view.asked_ms <= job->starts_ms) ||
        job->n_starts == HRF_MAX_STARTS)
        return HRF_OK;
    HRF_TRY(hrf_start_take(attempt, job->n_starts, is_ours, err));
    if (!*is_ours)
        run_find_starts(run, job);
    return HRF_OK;
}

/* Withdraws the jobs that exceed the limit from the queue, the newest first. Running jobs continue.
 * A revoked job that begins nevertheless ends by itself; its tasks are tried again in any case. */
static enum hrf_status withdraw(struct run *run, struct hrf_error *err)
{
    int64_t surplus = (int64_t)run->n_live - run_most_jobs(run);
    for (size_t i = 0; i < run->n_live; i++)
        surplus -= run->live[i].revoked;
    if (surplus <= 0)
        return HRF_OK;
    HRF_AUTO_FREE struct hrf_job_handle *handles = hrf_calloc((size_t)surplus, sizeof *handles);
    HRF_CHECK_MEMORY(handles != NULL, err, "no memory to withdraw %lld jobs", (long long)surplus);
    size_t n = 0;
    for (size_t i = run->n_live; i > 0 && (int64_t)n < surplus; i--) {
        struct run_job *job = &run->live[i - 1];
        struct hrf_error why;
        bool is_ours;
        if (claim_waiting_job(run, job, &is_ours, &why) != HRF_OK) {
            warn_once(run, why.text); /* probably a fault of the disk, so the other jobs fail too */
            break;
        }
        if (!is_ours)
            continue;
        run_revoke(run, job);
        handles[n++] = job->handle;
    }
    if (n == 0)
        return HRF_OK;
    hrf_log_info("run", "withdrew %zu jobs from the queue", n);
    run->executor->ops->cancel(run->executor, handles, n, false);
    return HRF_OK;
}

enum hrf_status run_apply_throttle(struct run *run, struct hrf_error *err)
{
    if (hrf_clock_ms() < run->next_throttle_ms)
        return HRF_OK;
    run->next_throttle_ms = hrf_clock_ms() + LOOK_MS;
    read_throttle(run);
    return withdraw(run, err);
}
