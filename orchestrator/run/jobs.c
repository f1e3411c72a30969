/* jobs.c - the live jobs of a run: adding, revoking and ending them, recovering them from the store
 * after a restart, and cancelling all of them. */
#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "orchestrator/run/run_private.h"
#include "schema/record/start.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *run_job_path(const struct run *run, const struct run_job *job, const char *name)
{
    HRF_AUTO_FREE char *directory = hrf_path_join(run->directory, job->row.directory);
    if (directory == NULL)
        return NULL;
    return name != NULL ? hrf_path_join(directory, name) : hrf_strdup(directory);
}

void run_job_release(struct run_job *job)
{
    hrf_attempt_row_release(&job->row);
}

enum hrf_status run_add_job(struct run *run, struct hrf_attempt_row *row, struct run_job **out,
                            struct hrf_error *err)
{
    void *live = run->live;
    HRF_TRY(
        hrf_array_reserve(&live, &run->live_capacity, run->n_live + 1, sizeof run->live[0], err));
    run->live = live;
    struct run_job job = { .row = *row,
                           .handle = { .id = row->pid,
                                       .start_time = row->start_time,
                                       .submission = row->submission,
                                       .place = row->place },
                           .task_ids = row->task_ids,
                           .n_tasks = row->n_task_ids };
    *out = &run->live[run->n_live++];
    **out = job;
    *row = (struct hrf_attempt_row){ .id = 0 };
    return HRF_OK;
}

/* When the job ended, by its own word; now if it said nothing, or its clock is another one. A job
 * that never began took no time. */
static int64_t end_time(const struct run *run, const struct run_job *job)
{
    struct hrf_sentinel done;
    const int64_t now = hrf_clock_wall_ms();
    if (!run_read_sentinel(run, job, "start", &done))
        return job->row.submitted_ms;
    const bool is_told = run_read_sentinel(run, job, "done", &done) &&
                         done.end_ms >= job->row.submitted_ms && done.end_ms <= now;
    return is_told ? done.end_ms : now;
}

enum hrf_status run_end_job(struct run *run, struct run_job *job, const char *reason,
                            struct hrf_error *err)
{
    job->has_ended = true;
    job->row.state = HRF_ATTEMPT_ENDED;
    job->row.ended_ms = end_time(run, job);
    hrf_free(job->row.reason);
    job->row.reason = hrf_strdup(reason);
    if (reason != NULL)
        HRF_TRY(hrf_store_add_event(run->store, job->row.job_id, reason, err));
    return hrf_store_put_attempt(run->store, &job->row, err);
}

void run_forget_ended(struct run *run)
{
    size_t kept = 0;
    for (size_t i = 0; i < run->n_live; i++) {
        if (run->live[i].has_ended)
            run_job_release(&run->live[i]);
        else
            run->live[kept++] = run->live[i];
    }
    run->n_live = kept;
}

char *run_start_path(const struct run *run, const struct run_job *job, int k)
{
    HRF_AUTO_FREE char *attempt = run_job_path(run, job, NULL);
    return attempt != NULL ? hrf_start_directory(attempt, k) : NULL;
}

void run_find_starts(const struct run *run, struct run_job *job)
{
    HRF_AUTO_FREE char *attempt = run_job_path(run, job, NULL);
    const int n = attempt != NULL ? hrf_start_count(attempt, job->n_starts) : job->n_starts;
    if (n > job->n_starts)
        job->starts_ms = hrf_clock_ms();
    job->n_starts = n;
}

void run_revoke(const struct run *run, struct run_job *job)
{
    HRF_AUTO_FREE char *attempt = run_job_path(run, job, NULL);
    struct hrf_error err;
    job->revoked = true;
    /* Without its directory there is nothing to revoke. */
    if (attempt != NULL && hrf_path_exists(attempt) && hrf_start_revoke(attempt, &err) != HRF_OK)
        hrf_log_warning("run", "%s", err.text);
    run_find_starts(run, job);
}

static int compare_ids(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Makes RUNNING tasks PENDING again that no known job holds. */
static enum hrf_status free_orphans(struct run *run, struct hrf_error *err)
{
    size_t n = 0, k = 0;
    for (size_t i = 0; i < run->n_live; i++)
        n += run->live[i].n_tasks;
    HRF_AUTO_FREE int64_t *named = hrf_alloc_array(n + 1, sizeof *named);
    HRF_CHECK_MEMORY(named != NULL, err, "no memory to look at %zu tasks", n);
    for (size_t i = 0; i < run->n_live; i++)
        for (size_t t = 0; t < run->live[i].n_tasks; t++)
            named[k++] = run->live[i].task_ids[t];
    qsort(named, n, sizeof *named, compare_ids);
    for (size_t i = 0; i < run->tasks.n_items; i++) {
        struct hrf_task_row *task = &run->tasks.items[i];
        if (task->state != HRF_TASK_RUNNING ||
            bsearch(&task->id, named, n, sizeof *named, compare_ids) != NULL)
            continue;
        run_set_state(run, task, HRF_TASK_PENDING);
        HRF_TRY(hrf_store_set_task(run->store, task->id, HRF_TASK_PENDING, task->n_attempts, NULL,
                                   err));
    }
    return HRF_OK;
}

/* Adds a job from the store. If its start was never confirmed: a scheduler's job is looked for by
 * its name; a local job is given up, because its process cannot be identified. */
static enum hrf_status recover_job(struct run *run, struct hrf_attempt_row *row,
                                   struct hrf_error *err)
{
    struct run_job *job;
    HRF_TRY(run_add_job(run, row, &job, err));
    if (job->row.state != HRF_ATTEMPT_INTENT)
        return HRF_OK;
    if (run->executor->quiet_ms > 0) {
        job->unsure_since_ms = hrf_clock_ms();
        return HRF_OK;
    }
    run_revoke(run, job);
    return run_end_job(run, job, "its start was never confirmed", err);
}

/* Sets run->next_job. The jobs' directories may be newer than the store, if the store was removed
 * or an older copy restored. They belong to other tasks, so their numbers are not used again. */
static enum hrf_status number_jobs(struct run *run, struct hrf_error *err)
{
    HRF_AUTO_FREE char *jobs = hrf_path_join(run->directory, "jobs");
    HRF_CHECK_MEMORY(jobs != NULL, err, "no memory for a path");
    HRF_TRY(hrf_store_last_job(run->store, &run->next_job, err));
    DIR *stream = opendir(jobs);
    if (stream == NULL && errno != ENOENT)
        return hrf_error_set_errno(err, errno, "cannot open the directory '%s'", jobs);
    for (const struct dirent *e; stream != NULL && (e = readdir(stream)) != NULL;) {
        const char *number = strrchr(e->d_name, '-'); /* "infer-0003.a1" */
        const int64_t n = number != NULL ? strtoll(number + 1, NULL, 10) : 0;
        run->next_job = n > run->next_job && n < INT32_MAX ? n : run->next_job;
    }
    if (stream != NULL)
        closedir(stream);
    run->next_job++;
    return HRF_OK;
}

enum hrf_status run_recover(struct run *run, struct hrf_error *err)
{
    struct hrf_attempt_rows rows = { NULL, 0 };
    HRF_TRY(number_jobs(run, err));
    HRF_TRY(hrf_store_get_attempts(run->store, true, &rows, err));
    enum hrf_status status = hrf_store_begin(run->store, err);
    for (size_t i = 0; i < rows.n_items && status == HRF_OK; i++)
        status = recover_job(run, &rows.items[i], err);
    hrf_attempt_rows_release(&rows);
    HRF_TRY(status);
    run_forget_ended(run);
    HRF_TRY(free_orphans(run, err));
    HRF_TRY(hrf_store_commit(run->store, err));
    if (run->n_live > 0)
        hrf_log_info("run", "found %zu jobs that went on", run->n_live);
    return HRF_OK;
}

/* ---- cancel ---- */

static bool is_over(struct run *run, struct run_job *job)
{
    run->executor->ops->look(run->executor, &job->handle, &job->view);
    return job->view.observed == HRF_JOB_GONE || job->view.observed == HRF_JOB_ENDED;
}

/* Returns true if every job was seen to end. */
static bool end_jobs(struct run *run, const struct hrf_job_handle *handles)
{
    enum { SOFT_MS = 5000, PATIENCE_MS = 60000 };
    const struct hrf_executor_ops *ops = run->executor->ops;
    const int64_t start = hrf_clock_ms();
    bool hard = false;
    ops->cancel(run->executor, handles, run->n_live, false);
    for (size_t i = 0; i < run->n_live && hrf_clock_ms() - start < PATIENCE_MS;) {
        bool is_new;
        ops->poll(run->executor, &is_new);
        if (is_over(run, &run->live[i])) {
            i++;
            continue;
        }
        if (!hard && hrf_clock_ms() - start > SOFT_MS && run->executor->quiet_ms == 0) {
            ops->cancel(run->executor, handles, run->n_live, true);
            hard = true;
        }
        hrf_clock_sleep_ms(20);
    }
    for (size_t i = 0; i < run->n_live; i++)
        if (!is_over(run, &run->live[i]))
            return false;
    return true;
}

enum hrf_status run_end_jobs(struct run *run, struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_job_handle *handles = hrf_calloc(run->n_live + 1, sizeof *handles);
    HRF_CHECK_MEMORY(handles != NULL, err, "no memory to cancel %zu jobs", run->n_live);
    for (size_t i = 0; i < run->n_live; i++) {
        handles[i] = run->live[i].handle;
        run_revoke(run, &run->live[i]);
    }
    if (run->n_live > 0 && !end_jobs(run, handles))
        hrf_log_warning("run", "some jobs may still be running; their results will be ignored");
    return HRF_OK;
}

enum hrf_status run_cancel_all(struct run *run, struct hrf_error *err)
{
    HRF_TRY(run_end_jobs(run, err));
    HRF_TRY(hrf_store_begin(run->store, err));
    for (size_t i = 0; i < run->n_live; i++)
        HRF_TRY(run_end_job(run, &run->live[i], "cancelled", err));
    for (size_t i = 0; i < run->tasks.n_items; i++)
        if (run->tasks.items[i].state == HRF_TASK_RUNNING)
            HRF_TRY(hrf_store_set_task(run->store, run->tasks.items[i].id, HRF_TASK_PENDING,
                                       run->tasks.items[i].n_attempts, "cancelled", err));
    HRF_TRY(hrf_store_set_fact(run->store, "queue", "", err)); /* no job is left there */
    HRF_TRY(hrf_store_commit(run->store, err));
    run_forget_ended(run);
    return HRF_OK;
}
