/* observe.c - finds out what became of the jobs: from their sentinels first, then from the
 * executor.
 */
#include "base/clock.h"
#include "base/crash.h"
#include "base/directory.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/path.h"
#include "orchestrator/run/run_private.h"
#include "schema/record/job.h"

#include <stdio.h>
#include <string.h>

/* LOOKS: how many jobs' directories are read in one loop iteration, so that an iteration is short
 * however many jobs there are. The next iteration continues with the next jobs. */
enum { LOOKS = 512 };

bool run_read_sentinel(const struct run *run, const struct run_job *job, const char *name,
                       struct hrf_sentinel *out)
{
    HRF_AUTO_FREE char *directory = run_start_path(run, job, run_newest_start(job));
    return directory != NULL && hrf_sentinel_read(directory, name, out, NULL) == HRF_OK &&
           strcmp(out->run_id, run->run_id) == 0 && strcmp(out->job_id, job->row.job_id) == 0 &&
           out->attempt == job->row.attempt;
}

/* What the job says of its host, times and memory. */
static void note_usage(const struct run *run, struct run_job *job, const struct hrf_sentinel *done)
{
    struct hrf_sentinel start;
    struct hrf_job_usage *usage = &job->row.usage;
    const struct hrf_sentinel *found = done;
    if (done == NULL && run_read_sentinel(run, job, "start", &start))
        found = &start;
    if (found == NULL)
        return;
    snprintf(usage->host, sizeof usage->host, "%s", found->host);
    usage->started_ms = found->start_ms;
    usage->finished_ms = found->end_ms;
    usage->cpu_ms = found->cpu_ms;
    usage->peak_bytes = found->peak_memory_bytes;
}

static enum hrf_status trip(struct run *run, const char *message, int64_t ran_ms,
                            struct hrf_error *err)
{
    if (!hrf_breaker_failed(&run->breaker, message, ran_ms))
        return HRF_OK;
    return hrf_error_set(err, HRF_E_EXTERNAL,
                         "%d jobs in a row failed at once with the same message, so the rest is "
                         "not tried: %s",
                         HRF_BREAKER_LIMIT, message);
}

/* How the tasks after the one that the job worked on have ended. They had not begun, so this end
 * does not count against them, unless its cause lies in the job itself. */
static enum hrf_end end_behind(enum hrf_end end)
{
    return hrf_state_rule(end)->is_of_job ? end : HRF_END_WITHDRAWN;
}

/* Ends a job from which no more results will come. */
static enum hrf_status close_job(struct run *run, struct run_job *job, struct hrf_sentinel *done,
                                 bool has_sentinel, struct hrf_error *err)
{
    struct run_verdict verdict = { .end = HRF_END_NO_RESULT };
    if (job->n_collected == job->n_tasks)
        return run_end_job(run, job, NULL, err);
    enum hrf_status judged = run_judge_end(run, job, done, has_sentinel, &verdict, err);
    HRF_AUTO_FREE char *reason = verdict.reason, *message = verdict.message;
    HRF_TRY(judged);
    if (!has_sentinel || run->executor->quiet_ms > 0)
        run_revoke(run, job);              /* if it still runs somewhere, it commits nothing */
    if (job->view.cause == HRF_CAUSE_NODE) /* a job that Slurm holds would stay queued for ever */
        run->executor->ops->cancel(run->executor, &job->handle, 1, false);
    bool is_short = false;
    for (; job->n_collected < job->n_tasks; job->n_collected++) {
        struct hrf_task_row *task = run_find_task(run, job->task_ids[job->n_collected]);
        bool ended = true;
        if (task == NULL || task->state != HRF_TASK_RUNNING)
            continue;
        /* A task may have a result although an earlier task of the job has none. */
        HRF_TRY(run_collect_task(run, job, job->n_collected, task, true, &ended, err));
        if (!ended) {
            const bool progress = run_take_part(run, job, job->n_collected, task) ||
                                  job->n_results > 0;
            HRF_TRY(run_judge_task(run, task, is_short ? end_behind(verdict.end) : verdict.end,
                                   progress, reason, err));
        }
        is_short |= !ended;
    }
    const enum hrf_status status = is_short && verdict.end == HRF_END_ERROR
                                       ? trip(run, message, done->end_ms - done->start_ms, err)
                                       : HRF_OK;
    HRF_TRY(run_end_job(run, job, reason, status == HRF_OK ? err : NULL));
    return status;
}

/* ---- one job ---- */

/* True if the scheduler does not show the job and still answers. While it does not answer, its last
 * answer does not count. */
static bool is_gone(const struct run *run, const struct run_job *job)
{
    return job->view.observed == HRF_JOB_GONE && hrf_executor_trouble(run->executor)[0] == '\0';
}

/* Asks all other sources about a job that the scheduler does not show, before it counts as lost. */
static bool is_there_after_all(const struct run *run, struct run_job *job)
{
    struct hrf_sentinel start;
    if (job->view.observed != HRF_JOB_GONE || run->executor->ops->explain == NULL)
        return false;
    job->handle.own_id = run_read_sentinel(run, job, "start", &start) ? start.scheduler_job : 0;
    run->executor->ops->explain(run->executor, &job->handle, &job->view);
    if (job->view.observed != HRF_JOB_WAITING && job->view.observed != HRF_JOB_RUNNING)
        return false;
    job->silent_since_ms = 0;
    return true;
}

/* Finds out whether an unsure submission was taken. */
static enum hrf_status settle_unsure(struct run *run, struct run_job *job, bool *changed,
                                     struct hrf_error *err)
{
    struct hrf_sentinel start;
    const bool is_there = job->view.observed == HRF_JOB_WAITING ||
                          job->view.observed == HRF_JOB_RUNNING ||
                          job->view.observed == HRF_JOB_ENDED;
    if (is_there || run_read_sentinel(run, job, "start", &start)) {
        job->unsure_since_ms = job->silent_since_ms = 0;
        job->row.state = HRF_ATTEMPT_LIVE;
        job->row.pid = job->handle.id = job->view.id;
        *changed = true;
        return hrf_store_put_attempt(run->store, &job->row, err);
    }
    if (job->view.observed != HRF_JOB_GONE)
        return HRF_OK;
    if (job->silent_since_ms == 0)
        job->silent_since_ms = hrf_clock_ms();
    if (!is_gone(run, job) || hrf_clock_ms() - job->silent_since_ms < run->executor->quiet_ms)
        return HRF_OK;
    *changed = true;
    run_revoke(run, job);
    for (size_t i = 0; i < job->n_tasks; i++) {
        struct hrf_task_row *task = run_find_task(run, job->task_ids[i]);
        if (task == NULL || task->state != HRF_TASK_RUNNING)
            continue;
        run_set_state(run, task, HRF_TASK_PENDING);
        HRF_TRY(hrf_store_set_task(run->store, task->id, HRF_TASK_PENDING, task->n_attempts, NULL,
                                   err));
    }
    return run_end_job(run, job, "it was never taken: the scheduler does not know it", err);
}

/* True if all results that done.json counts have been collected. */
static bool has_all(const struct run_job *job, const struct hrf_sentinel *done)
{
    const struct hrf_task_tally *t = &done->tasks;
    return (int64_t)job->n_collected >= t->n_done + t->n_no_tissue + t->n_failed;
}

/* True if no more results will come. With a scheduler, done.json alone is not enough unless all
 * results are there, because the scheduler may start the job again. What a job wrote before its end
 * may become visible late, so missing results are waited for. */
static bool is_over(const struct run *run, struct run_job *job, const struct hrf_sentinel *done,
                    bool has_sentinel)
{
    const bool ended = job->view.observed == HRF_JOB_ENDED || is_gone(run, job);
    if (run->executor->quiet_ms ==
        0) /* a job that was ended but still waits for a disk commits nothing */
        return has_sentinel || job->view.observed == HRF_JOB_GONE || job->life.was_ended;
    if (has_sentinel && job->n_collected == job->n_tasks)
        return true;
    if (!ended || (has_sentinel && has_all(job, done)))
        return ended;
    if (job->silent_since_ms == 0)
        job->silent_since_ms = hrf_clock_ms();
    return hrf_clock_ms() - job->silent_since_ms >= run->executor->grace_ms;
}

static void refresh(const struct run *run, const struct run_job *job)
{
    HRF_AUTO_FREE char *directory = run_start_path(run, job, run_newest_start(job));
    if (directory != NULL)
        hrf_file_system_refresh(directory);
}

static enum hrf_status look_at(struct run *run, struct run_job *job, bool *changed,
                               struct hrf_error *err)
{
    struct hrf_sentinel done = { .attempt = 0 };
    /* First look whether the job exists, then read its sentinel: so a sentinel that was written
     * just before the end is not missed. */
    if (run->executor->quiet_ms == 0)
        run->executor->ops->look(run->executor, &job->handle, &job->view);
    if (run->executor->quiet_ms > 0)
        run_find_starts(run, job);
    if (job->unsure_since_ms != 0)
        HRF_TRY(settle_unsure(run, job, changed, err));
    if (job->has_ended || job->unsure_since_ms != 0)
        return HRF_OK;
    if (job->silent_since_ms != 0)
        refresh(run, job);
    const bool has_sentinel = run_read_sentinel(run, job, "done", &done);
    HRF_TRY(run_collect(run, job, changed, err));
    if (!has_sentinel)
        HRF_TRY(run_check_liveness(run, job, changed, err));
    if (!is_over(run, job, &done, has_sentinel) ||
        (job->n_collected < job->n_tasks && is_there_after_all(run, job)))
        return HRF_OK;
    *changed = true;
    note_usage(run, job, has_sentinel ? &done : NULL);
    return close_job(run, job, &done, has_sentinel, err);
}

static bool is_worth_a_look(const struct run_job *job)
{
    return job->view.observed != HRF_JOB_WAITING || job->unsure_since_ms != 0;
}

/* Updates the view of every job from the scheduler's new answer. Does no I/O. */
static void look_at_all(struct run *run)
{
    for (size_t i = 0; i < run->n_live; i++) {
        struct run_job *job = &run->live[i];
        run->executor->ops->look(run->executor, &job->handle, &job->view);
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
    if (run->n_live == 0 && hrf_executor_trouble(run->executor)[0] == '\0')
        return HRF_OK;
    run->executor->ops->poll(run->executor, &is_new);
    if (is_new && run->executor->quiet_ms > 0)
        look_at_all(run);
    HRF_TRY(hrf_store_begin(run->store, err));
    enum hrf_status status = HRF_OK;
    int64_t left = LOOKS;
    size_t i = run->n_live > 0 ? run->next_look % run->n_live : 0;
    for (size_t n = 0; n < run->n_live && left > 0 && status == HRF_OK; n++) {
        if (is_worth_a_look(&run->live[i])) {
            status = look_at(run, &run->live[i], changed, err);
            left--;
        }
        i = (i + 1) % run->n_live;
    }
    run->next_look = i;
    if (status == HRF_OK && (is_new || *changed))
        status = run_record_queue(run, changed, err);
    if (!*changed) {
        hrf_store_rollback(run->store);
        return status;
    }
    hrf_crash_point("run.import.before_commit");
    struct hrf_error ignored;
    HRF_TRY(hrf_store_commit(run->store, status == HRF_OK ? err : &ignored));
    hrf_crash_point("run.import.after_commit");
    run_forget_ended(run);
    HRF_TRY(status);
    return run_is_reload_due(run) ? run_reload_tasks(run, err) : HRF_OK;
}
