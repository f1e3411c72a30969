/* limits.c - see limits.h. */
#include "orchestrator/run/limits.h"

#include "base/clock.h"
#include "base/log.h"
#include "schema/record/start.h"
#include "schema/record/throttle_record.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 1000, SUBMIT_BURST = 10 };
/* While the executor has no room, the wait doubles each time, with jitter, up to this. */
enum { FULL_MAX_MS = 300000 };

int64_t run_limits_max_jobs(const struct run_limits *limits, const struct run_setup *setup)
{
    return limits->is_throttled ? limits->throttle : setup->workflow->executor.max_jobs;
}

bool run_limits_is_waiting(const struct run_limits *limits)
{
    return hrf_clock_ms() < limits->submit_after_ms;
}

void run_limits_back_off(struct run_limits *limits, const struct run_setup *setup, size_t n_jobs,
                         const char *why, struct hrf_random *random)
{
    const int64_t delay = limits->submit_delay_ms;
    limits->submit_delay_ms = delay == 0                ? setup->executor->full_ms
                              : delay * 2 < FULL_MAX_MS ? delay * 2
                                                        : FULL_MAX_MS;
    limits->max_in_submission = n_jobs > 1 ? (int64_t)n_jobs / 2 : 1;
    limits->submit_after_ms = hrf_clock_ms() + limits->submit_delay_ms / 2 +
                              hrf_random_below(random, limits->submit_delay_ms);
    if (delay == 0)
        hrf_log_info("run", "no room for %zu more jobs at present (%s); they wait", n_jobs, why);
}

bool run_limits_take_submission(struct run_limits *limits, const struct run_setup *setup)
{
    const int64_t period = setup->executor->submit_ms, now = hrf_clock_ms();
    if (limits->submit_due_ms < now)
        limits->submit_due_ms = now;
    if (limits->submit_due_ms - now >= period * SUBMIT_BURST && period > 0)
        return false;
    limits->submit_due_ms += period;
    return true;
}

/* Logs the same warning once, not every second. */
static void warn_once(struct run_limits *limits, const char *text)
{
    if (strncmp(text, limits->throttle_trouble, sizeof limits->throttle_trouble - 1) == 0)
        return;
    hrf_log_warning("run", "%s", text);
    snprintf(limits->throttle_trouble, sizeof limits->throttle_trouble, "%.*s",
             (int)sizeof limits->throttle_trouble - 1, text);
}

/* While throttle.json cannot be read, the limit that it held before remains in force. */
static void read_throttle(struct run_limits *limits, const struct run_setup *setup)
{
    struct hrf_error err = { .status = HRF_OK };
    int64_t max = 0;
    const enum hrf_status status = hrf_throttle_read(setup->directory, &max, &err);
    if (status == HRF_OK && (!limits->is_throttled || limits->throttle != max)) {
        limits->is_throttled = true;
        limits->throttle = max;
        hrf_log_info("run", "throttled: at most %lld jobs at a time, not the workflow's %lld",
                     (long long)max, (long long)setup->workflow->executor.max_jobs);
    } else if (status == HRF_E_AGAIN && limits->is_throttled) {
        limits->is_throttled = false;
        hrf_log_info("run", "no longer throttled: at most %lld jobs at a time",
                     (long long)setup->workflow->executor.max_jobs);
    } else if (status != HRF_OK && status != HRF_E_AGAIN)
        warn_once(limits, err.text);
}

/* Claims a job that waits, by the scheduler's last answer, so that it cannot begin: whoever creates
 * the directory of its next start owns that start (start.h). A start that was found before the
 * scheduler was asked is over; a start found later may be running. */
static enum hrf_status claim_waiting_job(const struct run_setup *setup, struct run_job *job,
                                         bool *is_ours, struct hrf_error *err)
{
    HRF_AUTO_FREE char *attempt = run_job_path(setup, job, NULL);
    *is_ours = false;
    if (job->view.observed != HRF_JOB_WAITING || job->revoked || job->unsure_since_ms != 0 ||
        (job->n_starts > 0 && job->view.asked_ms <= job->starts_ms) ||
        job->n_starts == HRF_MAX_STARTS)
        return HRF_OK;
    HRF_TRY(hrf_start_take(attempt, job->n_starts, is_ours, err));
    if (!*is_ours)
        run_job_find_starts(job, setup);
    return HRF_OK;
}

/* Withdraws the jobs that exceed the limit from the queue, the newest first. Running jobs continue.
 * A revoked job that begins nevertheless ends by itself; its tasks are tried again in any case. */
static void withdraw(struct run_limits *limits, const struct run_setup *setup,
                     struct run_jobs *jobs)
{
    int64_t surplus = (int64_t)jobs->n - run_limits_max_jobs(limits, setup);
    for (size_t i = 0; i < jobs->n; i++)
        surplus -= jobs->live[i].revoked;
    if (surplus <= 0)
        return;
    HRF_AUTO_FREE struct hrf_job_handle *handles = hrf_calloc((size_t)surplus, sizeof *handles);
    size_t n = 0;
    for (size_t i = jobs->n; i > 0 && (int64_t)n < surplus; i--) {
        struct run_job *job = &jobs->live[i - 1];
        struct hrf_error why;
        bool is_ours;
        if (claim_waiting_job(setup, job, &is_ours, &why) != HRF_OK) {
            warn_once(limits,
                      why.text); /* probably a fault of the disk, so the other jobs fail too */
            break;
        }
        if (!is_ours)
            continue;
        run_job_revoke(job, setup);
        handles[n++] = job->handle;
    }
    if (n == 0)
        return;
    hrf_log_info("run", "withdrew %zu jobs from the queue", n);
    setup->executor->ops->cancel(setup->executor, handles, n, false);
}

void run_limits_apply(struct run_limits *limits, const struct run_setup *setup,
                      struct run_jobs *jobs)
{
    if (hrf_clock_ms() < limits->next_throttle_ms)
        return;
    limits->next_throttle_ms = hrf_clock_ms() + LOOK_MS;
    read_throttle(limits, setup);
    withdraw(limits, setup, jobs);
}
