/* liveness.c - finds jobs that show no sign of life: their process is stopped, or waits for a disk
 * that hangs. On this machine nobody else would notice; a scheduler has time limits, and is asked
 * about the node of a job that is silent. */
#include "base/clock.h"
#include "base/log.h"
#include "orchestrator/run/jobs.h"

#include <stdio.h>
#include <string.h>

enum { MAX_LOOK_MS = 1000 }; /* time between two checks; a quarter of the beat's period if less */

/* Reads the job's last beat. Before the first beat it is start.json, and before that an empty
 * sentinel with the period of the beats. */
static void read_life(const struct run_setup *setup, const struct run_job *job,
                      struct hrf_sentinel *out)
{
    if (!run_job_read_sentinel(setup, job, "beat", out) &&
        !run_job_read_sentinel(setup, job, "start", out))
        *out = (struct hrf_sentinel){ .period_ms = setup->executor->quiet_ms == 0
                                                       ? hrf_sentinel_period_ms()
                                                       : 0 };
}

/* True if the job runs and should beat. A waiting job does not, and a scheduler may stop a job on
 * purpose. */
static bool is_due_to_live(const struct run_job *job)
{
    return job->view.observed == HRF_JOB_RUNNING && strcmp(job->view.state, "SUSPENDED") != 0 &&
           strcmp(job->view.state, "STOPPED") != 0;
}

static enum hrf_status report_silence(const struct run_setup *setup, struct run_job *job,
                                      const char *text, struct hrf_error *err)
{
    HRF_AUTO_FREE char *event = hrf_format("no sign of life: %s", text);
    hrf_log_warning("run", "job %s (%s %lld): %s", job->row.job_id,
                    setup->executor->quiet_ms == 0 ? "process" : "job", (long long)job->handle.id,
                    text);
    return hrf_store_add_event(setup->store, job->row.job_id, event, err);
}

/* True if the scheduler, too, does not reach the node of a silent job: then the job is over, though
 * the scheduler itself waits much longer. The scheduler is asked at most twice in a beat's period,
 * and not while it does not answer. */
static bool has_lost_node(const struct run_setup *setup, struct run_job *job,
                          const struct hrf_sentinel *last)
{
    const struct hrf_executor_ops *ops = setup->executor->ops;
    const int64_t now = hrf_clock_ms();
    char state[64];
    if (ops->node_is_silent == NULL || job->view.node[0] == '\0' || now < job->life.next_node_ms ||
        hrf_executor_trouble(setup->executor)[0] != '\0')
        return false;
    job->life.next_node_ms = now + last->period_ms / 2;
    if (!ops->node_is_silent(setup->executor, job->view.node, state, sizeof state))
        return false;
    snprintf(job->life.silence, sizeof job->life.silence,
             "its node %.60s does not respond: the scheduler shows it as '%.30s'", job->view.node,
             state);
    return true;
}

/* True if a silent job whose node is not lost is to be ended. Only jobs of this machine are: after
 * executor.local.hang_after, or at once if the launcher is silent, too, and all results are there.
 * (A live launcher ends such a worker by itself.) */
static bool is_to_be_ended(const struct run_setup *setup, const struct run_job *job,
                           const struct hrf_sentinel *last, int64_t age_ms, int64_t silence_ms)
{
    const struct hrf_workflow_executor *e = &setup->workflow->executor;
    const int64_t limit_ms = hrf_workflow_seconds(e->local.hang_after) * 1000;
    if (e->type != HRF_EXECUTOR_LOCAL)
        return false;
    return (limit_ms > 0 && silence_ms >= limit_ms) ||
           (job->n_collected == job->n_tasks && hrf_sentinel_has_missed_beats(last, age_ms));
}

static void end_hung(const struct run_setup *setup, struct run_job *job)
{
    if (setup->executor->quiet_ms > 0)
        hrf_log_warning("run", "job %s (%lld) is given up, its tasks go elsewhere: %s",
                        job->row.job_id, (long long)job->handle.id, job->life.silence);
    else if (job->n_collected == job->n_tasks)
        hrf_log_info("run", "job %s is ended: all of its results are there", job->row.job_id);
    else
        hrf_log_warning("run", "job %s is ended ({executor.local.hang_after}: %s)", job->row.job_id,
                        setup->workflow->executor.local.hang_after);
    job->life.was_ended = true;
    run_job_revoke(job, setup); /* a process that waits for a disk may survive even SIGKILL */
    setup->executor->ops->cancel(setup->executor, &job->handle, 1, setup->executor->quiet_ms == 0);
}

enum hrf_status run_job_check_life(struct run_job *job, const struct run_setup *setup,
                                   bool *changed, struct hrf_error *err)
{
    struct hrf_sentinel last;
    char text[sizeof job->life.silence];
    const int64_t now = hrf_clock_ms();
    if (now < job->life.next_look_ms || job->life.was_ended)
        return HRF_OK;
    read_life(setup, job, &last);
    const int64_t quarter = last.period_ms / 4;
    job->life.next_look_ms = now + (quarter < MAX_LOOK_MS ? quarter : MAX_LOOK_MS);
    if (job->life.since_ms == 0 || last.n_beats != job->life.n_beats || !is_due_to_live(job)) {
        job->life.n_beats = last.n_beats;
        job->life.since_ms = now;
    }
    const int64_t age_ms = now - job->life.since_ms;
    const int64_t silence_ms = hrf_sentinel_silence(&last, age_ms, text, sizeof text);
    const bool was_silent = job->life.silence[0] != '\0';
    memcpy(job->life.silence, text, sizeof text);
    if (silence_ms == 0 && was_silent)
        hrf_log_info("run", "job %s shows signs of life again", job->row.job_id);
    if (silence_ms > 0 && !was_silent) {
        *changed = true;
        HRF_TRY(report_silence(setup, job, text, err));
    }
    if (is_to_be_ended(setup, job, &last, age_ms, silence_ms) ||
        (silence_ms > 0 && has_lost_node(setup, job, &last)))
        end_hung(setup, job);
    return HRF_OK;
}
