/* observe.c - finds out what became of the jobs: from their sentinels first, then from the
 * executor.
 */
#include "base/clock.h"
#include "base/crash.h"
#include "base/file_system.h"
#include "orchestrator/run/run_private.h"
#include "schema/record/job.h"

#include <stdio.h>

/* LOOKS: how many jobs' directories are read in one loop iteration, so that an iteration is short
 * however many jobs there are. The next iteration continues with the next jobs. */
enum { LOOKS = 512 };

/* Notes what the job reports of its host, times and memory. */
static void note_usage(const struct run_setup *setup, struct run_job *job,
                       const struct hrf_sentinel *done)
{
    struct hrf_sentinel start;
    struct hrf_job_usage *usage = &job->row.usage;
    const struct hrf_sentinel *found = done;
    if (done == NULL && run_job_read_sentinel(setup, job, "start", &start))
        found = &start;
    if (found == NULL)
        return;
    snprintf(usage->host, sizeof usage->host, "%s", found->host);
    usage->started_ms = found->start_ms;
    usage->finished_ms = found->end_ms;
    usage->cpu_ms = found->cpu_ms;
    usage->peak_bytes = found->peak_memory_bytes;
}

/* True if the task is further than any attempt of it was before: a training has checkpoints, from
 * which the next attempt goes on. */
static bool has_advanced(const struct run *run, const struct run_job *job,
                         const struct hrf_task_row *task)
{
    struct run_task_state *state = &run->tasks.states[task - run->tasks.rows.items];
    const double share = task->kind == HRF_TASK_TRAIN ? run_task_share(run, job, job->n_collected)
                                                      : 0;
    if (share <= state->share)
        return false;
    state->share = share;
    return true;
}

/* Ends a job from which no more results will come. */
static enum hrf_status close_job(struct run *run, struct run_job *job, struct hrf_sentinel *done,
                                 bool has_sentinel, struct hrf_error *err)
{
    struct run_verdict verdict = { .end = HRF_END_NO_RESULT };
    if (job->n_collected == job->n_tasks)
        return run_job_end(job, &run->setup, NULL, err);
    run_faults_judge_end(&run->faults, &run->setup, job, done, has_sentinel, &verdict);
    HRF_AUTO_FREE char *reason = verdict.reason, *message = verdict.message, *lacks = verdict.lacks;
    if (!has_sentinel || run->setup.executor->quiet_ms > 0)
        run_job_revoke(job, &run->setup);  /* if it still runs somewhere, it commits nothing */
    if (job->view.cause == HRF_CAUSE_NODE) /* a job that Slurm holds would stay queued for ever */
        run->setup.executor->ops->cancel(run->setup.executor, &job->handle, 1, false);
    /* The tasks after the one that the job worked on had not begun, so this end does not count
     * against them, unless its cause lies in the job itself. */
    const enum hrf_end end_behind = hrf_state_rule(verdict.end)->is_of_job ? verdict.end
                                                                           : HRF_END_WITHDRAWN;
    bool is_short = false;
    for (; job->n_collected < job->n_tasks; job->n_collected++) {
        struct hrf_task_row *task = run_tasks_find(&run->tasks, job->task_ids[job->n_collected]);
        bool ended = true;
        if (task == NULL || task->state != HRF_TASK_RUNNING)
            continue;
        /* A task may have a result although an earlier task of the job has none. */
        HRF_TRY(run_collect_task(run, job, job->n_collected, task, true, &ended, err));
        if (!ended) {
            const bool progress = run_take_part(&run->setup, job, job->n_collected, task) ||
                                  job->n_results > 0 || has_advanced(run, job, task);
            HRF_TRY(run_judge_task(run, task, is_short ? end_behind : verdict.end, progress, reason,
                                   err));
        }
        is_short |= !ended;
    }
    if (verdict.end != HRF_END_NOT_BEGUN && verdict.end != HRF_END_NODE_LACKS && !job->is_lacking)
        hrf_breaker_succeeded(&run->faults.launches.failures);
    const enum hrf_status status =
        !is_short ? HRF_OK
        : verdict.end == HRF_END_ERROR
            ? run_faults_trip(&run->faults, message, done->end_ms - done->start_ms, err)
        : verdict.end == HRF_END_NOT_BEGUN
            ? run_faults_trip_node(&run->faults, &run->setup, &run->jobs, job, "", reason, err)
        : verdict.end == HRF_END_NODE_LACKS
            ? run_faults_trip_node(&run->faults, &run->setup, &run->jobs, job, lacks, reason, err)
            : HRF_OK;
    HRF_TRY(run_job_end(job, &run->setup, reason, status == HRF_OK ? err : NULL));
    return status;
}

/* ---- one job ---- */

/* True if the scheduler does not show the job and still answers. While it does not answer, its last
 * answer does not count. */
static bool is_unknown_to_scheduler(const struct run *run, const struct run_job *job)
{
    return job->view.observed == HRF_JOB_GONE &&
           hrf_executor_trouble(run->setup.executor)[0] == '\0';
}

/* Asks all other sources about a job that the scheduler does not show, before it counts as lost. */
static bool is_there_after_all(const struct run *run, struct run_job *job)
{
    struct hrf_sentinel start;
    if (job->view.observed != HRF_JOB_GONE || run->setup.executor->ops->explain == NULL)
        return false;
    job->handle.own_id = run_job_read_sentinel(&run->setup, job, "start", &start)
                             ? start.scheduler_job
                             : 0;
    run->setup.executor->ops->explain(run->setup.executor, &job->handle, &job->view);
    if (job->view.observed != HRF_JOB_WAITING && job->view.observed != HRF_JOB_RUNNING)
        return false;
    job->silent_since_ms = 0;
    return true;
}

/* Finds out whether an unsure submission was taken. */
static enum hrf_status settle_unsure(struct run *run, struct run_job *job, bool *changed,
                                     struct hrf_error *err)
{
    const bool is_there = job->view.observed == HRF_JOB_WAITING ||
                          job->view.observed == HRF_JOB_RUNNING ||
                          job->view.observed == HRF_JOB_ENDED;
    if (is_there || run_job_has_begun(&run->setup, job)) {
        job->unsure_since_ms = job->silent_since_ms = 0;
        job->row.state = HRF_ATTEMPT_LIVE;
        job->row.pid = job->handle.id = job->view.id;
        *changed = true;
        return hrf_store_put_attempt(run->setup.store, &job->row, err);
    }
    if (job->view.observed != HRF_JOB_GONE)
        return HRF_OK;
    if (job->silent_since_ms == 0)
        job->silent_since_ms = hrf_clock_ms();
    if (!is_unknown_to_scheduler(run, job) ||
        hrf_clock_ms() - job->silent_since_ms < run->setup.executor->quiet_ms)
        return HRF_OK;
    *changed = true;
    run_job_revoke(job, &run->setup);
    HRF_TRY(run_job_free_tasks(job, &run->setup, &run->tasks, NULL, err));
    return run_job_end(job, &run->setup, "it was never taken: the scheduler does not know it", err);
}

/* True if no more results will come. With a scheduler, done.json alone is not enough unless all
 * results are there, because the scheduler may start the job again. What a job wrote before its end
 * may become visible late, so missing results are waited for. */
static bool is_job_over(const struct run *run, struct run_job *job, const struct hrf_sentinel *done,
                        bool has_sentinel)
{
    const struct hrf_task_tally *t = &done->tasks;
    const bool has_all_counted = (int64_t)job->n_collected >=
                                 t->n_done + t->n_no_tissue + t->n_failed;
    const bool ended = job->view.observed == HRF_JOB_ENDED || is_unknown_to_scheduler(run, job);
    if (job->life.was_ended) /* it may still wait for a disk, but commits nothing */
        return true;
    if (run->setup.executor->quiet_ms == 0)
        return has_sentinel || job->view.observed == HRF_JOB_GONE;
    if (has_sentinel && job->n_collected == job->n_tasks)
        return true;
    if (!ended || (has_sentinel && has_all_counted))
        return ended;
    if (job->silent_since_ms == 0)
        job->silent_since_ms = hrf_clock_ms();
    return hrf_clock_ms() - job->silent_since_ms >= run->setup.executor->grace_ms;
}

static enum hrf_status observe_job(struct run *run, struct run_job *job, bool *changed,
                                   struct hrf_error *err)
{
    struct hrf_sentinel done = { .attempt = 0 };
    /* First look whether the job exists, then read its sentinel: so a sentinel that was written
     * just before the end is not missed. */
    if (run->setup.executor->quiet_ms == 0)
        run->setup.executor->ops->look(run->setup.executor, &job->handle, &job->view);
    if (run->setup.executor->quiet_ms > 0)
        run_job_find_starts(job, &run->setup);
    if (job->unsure_since_ms != 0)
        HRF_TRY(settle_unsure(run, job, changed, err));
    if (job->has_ended || job->unsure_since_ms != 0)
        return HRF_OK;
    if (job->silent_since_ms != 0) {
        HRF_AUTO_FREE char *directory = run_job_start_path(&run->setup, job);
        hrf_file_system_refresh(directory);
    }
    const bool has_sentinel = run_job_read_sentinel(&run->setup, job, "done", &done);
    HRF_TRY(run_collect(run, job, changed, err));
    if (!has_sentinel)
        HRF_TRY(run_job_check_life(job, &run->setup, changed, err));
    if (!is_job_over(run, job, &done, has_sentinel) ||
        (job->n_collected < job->n_tasks && is_there_after_all(run, job)))
        return HRF_OK;
    *changed = true;
    note_usage(&run->setup, job, has_sentinel ? &done : NULL);
    return close_job(run, job, &done, has_sentinel, err);
}

/* Updates the view of every job from the scheduler's new answer. Does no I/O. */
static void look_at_all(struct run *run)
{
    for (size_t i = 0; i < run->jobs.n; i++) {
        struct run_job *job = &run->jobs.live[i];
        run->setup.executor->ops->look(run->setup.executor, &job->handle, &job->view);
        if (job->view.observed == HRF_JOB_WAITING || job->view.observed == HRF_JOB_RUNNING)
            job->silent_since_ms = 0;
        if (job->view.id > 0)
            job->handle.id = job->view.id;
    }
}

enum hrf_status run_observe(struct run *run, bool *changed, struct hrf_error *err)
{
    bool is_new;
    *changed = false;
    /* Without live jobs the scheduler is asked only if it does not answer: until it does again,
     * nothing is submitted. */
    if (run->jobs.n == 0 && hrf_executor_trouble(run->setup.executor)[0] == '\0')
        return HRF_OK;
    run->setup.executor->ops->poll(run->setup.executor, &is_new);
    if (is_new && run->setup.executor->quiet_ms > 0)
        look_at_all(run);
    HRF_TRY(hrf_store_begin(run->setup.store, err));
    enum hrf_status status = HRF_OK;
    int64_t left = LOOKS;
    size_t i = run->jobs.n > 0 ? run->jobs.next_look % run->jobs.n : 0;
    for (size_t n = 0; n < run->jobs.n && left > 0 && status == HRF_OK; n++) {
        struct run_job *job = &run->jobs.live[i];
        if (job->view.observed != HRF_JOB_WAITING || job->unsure_since_ms != 0) {
            status = observe_job(run, job, changed, err);
            left--;
        }
        i = (i + 1) % run->jobs.n;
    }
    run->jobs.next_look = i;
    if (status == HRF_OK && (is_new || *changed))
        status = run_jobs_record_queue(&run->jobs, &run->setup, changed, err);
    if (!*changed) {
        hrf_store_rollback(run->setup.store);
        return status;
    }
    hrf_crash_point("run.import.before_commit");
    struct hrf_error ignored;
    HRF_TRY(hrf_store_commit(run->setup.store, status == HRF_OK ? err : &ignored));
    hrf_crash_point("run.import.after_commit");
    run_jobs_forget_ended(&run->jobs);
    HRF_TRY(status);
    return run_tasks_is_reload_due(&run->tasks)
               ? run_tasks_reload(&run->tasks, &run->setup, &run->slides, err)
               : HRF_OK;
}
