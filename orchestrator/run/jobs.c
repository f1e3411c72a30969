/* jobs.c - see jobs.h. */
#include "orchestrator/run/jobs.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "schema/record/start.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void run_jobs_release(struct run_jobs *jobs)
{
    for (size_t i = 0; i < jobs->n; i++)
        hrf_attempt_row_release(&jobs->live[i].row);
    hrf_free(jobs->live);
}

struct run_job *run_jobs_add(struct run_jobs *jobs, struct hrf_attempt_row *row)
{
    HRF_RESERVE(jobs->live, jobs->capacity, jobs->n + 1);
    struct run_job *job = &jobs->live[jobs->n++];
    *job = (struct run_job){ .row = *row,
                             .handle = { .id = row->pid,
                                         .start_time = row->start_time,
                                         .submission = row->submission,
                                         .array_index = row->array_index },
                             .task_ids = row->task_ids,
                             .n_tasks = row->n_task_ids };
    *row = (struct hrf_attempt_row){ .id = 0 };
    return job;
}

void run_jobs_forget_ended(struct run_jobs *jobs)
{
    size_t kept = 0;
    for (size_t i = 0; i < jobs->n; i++) {
        if (jobs->live[i].has_ended)
            hrf_attempt_row_release(&jobs->live[i].row);
        else
            jobs->live[kept++] = jobs->live[i];
    }
    jobs->n = kept;
}

/* ---- one job ---- */

char *run_job_path(const struct run_setup *setup, const struct run_job *job, const char *name)
{
    HRF_AUTO_FREE char *directory = hrf_path_join(setup->directory, job->row.directory);
    return name != NULL ? hrf_path_join(directory, name) : hrf_strdup(directory);
}

char *run_job_kth_start_path(const struct run_setup *setup, const struct run_job *job, int k)
{
    HRF_AUTO_FREE char *attempt = run_job_path(setup, job, NULL);
    return hrf_start_directory(attempt, k);
}

char *run_job_start_path(const struct run_setup *setup, const struct run_job *job)
{
    return run_job_kth_start_path(setup, job, run_job_newest_start(job));
}

void run_job_find_starts(struct run_job *job, const struct run_setup *setup)
{
    HRF_AUTO_FREE char *attempt = run_job_path(setup, job, NULL);
    const int n = hrf_start_count(attempt, job->n_starts);
    if (n > job->n_starts)
        job->starts_ms = hrf_clock_ms();
    job->n_starts = n;
}

bool run_job_read_sentinel(const struct run_setup *setup, const struct run_job *job,
                           const char *name, struct hrf_sentinel *out)
{
    HRF_AUTO_FREE char *directory = run_job_start_path(setup, job);
    return hrf_sentinel_read(directory, name, out, NULL) == HRF_OK &&
           strcmp(out->run_id, setup->run_id) == 0 && strcmp(out->job_id, job->row.job_id) == 0 &&
           out->attempt == job->row.attempt;
}

bool run_job_has_begun(const struct run_setup *setup, const struct run_job *job)
{
    struct hrf_sentinel start;
    return run_job_read_sentinel(setup, job, "start", &start);
}

void run_job_revoke(struct run_job *job, const struct run_setup *setup)
{
    HRF_AUTO_FREE char *attempt = run_job_path(setup, job, NULL);
    struct hrf_error err;
    job->revoked = true;
    /* Without its directory there is nothing to revoke. */
    if (hrf_path_exists(attempt) && hrf_start_revoke(attempt, &err) != HRF_OK)
        hrf_log_warning("run", "%s", err.text);
    run_job_find_starts(job, setup);
}

/* Returns when the job ended, by its sentinel; the present time if there is none or its clock
 * differs. A job that never began took no time. */
static int64_t find_end_time(const struct run_setup *setup, const struct run_job *job)
{
    struct hrf_sentinel done;
    const int64_t now = hrf_clock_wall_ms();
    if (!run_job_has_begun(setup, job))
        return job->row.submitted_ms;
    const bool is_known = run_job_read_sentinel(setup, job, "done", &done) &&
                          done.end_ms >= job->row.submitted_ms && done.end_ms <= now;
    return is_known ? done.end_ms : now;
}

enum hrf_status run_job_end(struct run_job *job, const struct run_setup *setup, const char *reason,
                            struct hrf_error *err)
{
    job->has_ended = true;
    job->row.state = HRF_ATTEMPT_ENDED;
    job->row.ended_ms = find_end_time(setup, job);
    hrf_free(job->row.reason);
    job->row.reason = hrf_strdup(reason);
    if (reason != NULL)
        HRF_TRY(hrf_store_add_event(setup->store, job->row.job_id, reason, err));
    return hrf_store_put_attempt(setup->store, &job->row, err);
}

enum hrf_status run_job_free_tasks(const struct run_job *job, const struct run_setup *setup,
                                   struct run_tasks *tasks, const char *reason,
                                   struct hrf_error *err)
{
    for (size_t i = 0; i < job->n_tasks; i++) {
        struct hrf_task_row *task = run_tasks_find(tasks, job->task_ids[i]);
        if (task != NULL && task->state == HRF_TASK_RUNNING)
            HRF_TRY(run_tasks_free(tasks, setup->store, task, reason, err));
    }
    return HRF_OK;
}

/* ---- after a restart ---- */

static int compare_task_ids(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Makes RUNNING tasks PENDING again that no known job holds. */
static enum hrf_status free_orphans(const struct run_jobs *jobs, const struct run_setup *setup,
                                    struct run_tasks *tasks, struct hrf_error *err)
{
    size_t n = 0, k = 0;
    for (size_t i = 0; i < jobs->n; i++)
        n += jobs->live[i].n_tasks;
    HRF_AUTO_FREE int64_t *named = hrf_alloc_array(n + 1, sizeof *named);
    for (size_t i = 0; i < jobs->n; i++)
        for (size_t t = 0; t < jobs->live[i].n_tasks; t++)
            named[k++] = jobs->live[i].task_ids[t];
    qsort(named, n, sizeof *named, compare_task_ids);
    for (size_t i = 0; i < tasks->rows.n_items; i++) {
        struct hrf_task_row *task = &tasks->rows.items[i];
        if (task->state == HRF_TASK_RUNNING &&
            bsearch(&task->id, named, n, sizeof *named, compare_task_ids) == NULL)
            HRF_TRY(run_tasks_free(tasks, setup->store, task, NULL, err));
    }
    return HRF_OK;
}

/* Adds a job from the store. If its start was never confirmed: a scheduler's job is looked for by
 * its name; a local job is given up, because its process cannot be identified. */
static enum hrf_status recover_job(struct run_jobs *jobs, const struct run_setup *setup,
                                   struct hrf_attempt_row *row, struct hrf_error *err)
{
    struct run_job *job = run_jobs_add(jobs, row);
    if (job->row.state != HRF_ATTEMPT_INTENT)
        return HRF_OK;
    if (setup->executor->quiet_ms > 0) {
        job->unsure_since_ms = hrf_clock_ms();
        return HRF_OK;
    }
    run_job_revoke(job, setup);
    return run_job_end(job, setup, "its start was never confirmed", err);
}

/* Sets the number of the next job. The jobs' directories may be newer than the store, if the store
 * was removed or an older copy restored. They belong to other tasks, so their numbers are not used
 * again. */
static enum hrf_status find_next_number(struct run_jobs *jobs, const struct run_setup *setup,
                                        struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = hrf_path_join(setup->directory, "jobs");
    HRF_TRY(hrf_store_last_job(setup->store, &jobs->next_number, err));
    DIR *stream = opendir(path);
    if (stream == NULL && errno != ENOENT)
        return hrf_error_set_errno(err, errno, "cannot open the directory '%s'", path);
    for (const struct dirent *e; stream != NULL && (e = readdir(stream)) != NULL;) {
        const char *number = strrchr(e->d_name, '-'); /* "infer-0003.a1" */
        const int64_t n = number != NULL ? strtoll(number + 1, NULL, 10) : 0;
        jobs->next_number = n > jobs->next_number && n < INT32_MAX ? n : jobs->next_number;
    }
    if (stream != NULL)
        closedir(stream);
    jobs->next_number++;
    return HRF_OK;
}

enum hrf_status run_jobs_recover(struct run_jobs *jobs, const struct run_setup *setup,
                                 struct run_tasks *tasks, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_attempt_rows) rows = { NULL, 0 };
    HRF_TRY(find_next_number(jobs, setup, err));
    HRF_TRY(hrf_store_get_attempts(setup->store, true, &rows, err));
    HRF_TRY(hrf_store_begin(setup->store, err));
    for (size_t i = 0; i < rows.n_items; i++)
        HRF_TRY(recover_job(jobs, setup, &rows.items[i], err));
    run_jobs_forget_ended(jobs);
    HRF_TRY(free_orphans(jobs, setup, tasks, err));
    HRF_TRY(hrf_store_commit(setup->store, err));
    if (jobs->n > 0)
        hrf_log_info("run", "found %zu jobs that went on", jobs->n);
    return HRF_OK;
}

/* ---- cancel ---- */

static bool is_seen_to_end(const struct run_setup *setup, struct run_job *job)
{
    setup->executor->ops->look(setup->executor, &job->handle, &job->view);
    return job->view.observed == HRF_JOB_GONE || job->view.observed == HRF_JOB_ENDED;
}

/* Returns true if every job was seen to end. */
static bool wait_for_ends(struct run_jobs *jobs, const struct run_setup *setup,
                          const struct hrf_job_handle *handles)
{
    enum { SOFT_MS = 5000, PATIENCE_MS = 60000 };
    const struct hrf_executor_ops *ops = setup->executor->ops;
    const int64_t start = hrf_clock_ms();
    bool hard = false;
    ops->cancel(setup->executor, handles, jobs->n, false);
    for (size_t i = 0; i < jobs->n && hrf_clock_ms() - start < PATIENCE_MS;) {
        bool is_new;
        ops->poll(setup->executor, &is_new);
        if (is_seen_to_end(setup, &jobs->live[i])) {
            i++;
            continue;
        }
        if (!hard && hrf_clock_ms() - start > SOFT_MS && setup->executor->quiet_ms == 0) {
            ops->cancel(setup->executor, handles, jobs->n, true);
            hard = true;
        }
        hrf_clock_sleep_ms(20);
    }
    for (size_t i = 0; i < jobs->n; i++)
        if (!is_seen_to_end(setup, &jobs->live[i]))
            return false;
    return true;
}

void run_jobs_end_all(struct run_jobs *jobs, const struct run_setup *setup)
{
    HRF_AUTO_FREE struct hrf_job_handle *handles = hrf_calloc(jobs->n + 1, sizeof *handles);
    for (size_t i = 0; i < jobs->n; i++) {
        handles[i] = jobs->live[i].handle;
        run_job_revoke(&jobs->live[i], setup);
    }
    if (jobs->n > 0 && !wait_for_ends(jobs, setup, handles))
        hrf_log_warning("run", "some jobs may still be running; their results will be ignored");
}

enum hrf_status run_jobs_cancel_all(struct run_jobs *jobs, const struct run_setup *setup,
                                    const struct run_tasks *tasks, struct hrf_error *err)
{
    run_jobs_end_all(jobs, setup);
    HRF_TRY(hrf_store_begin(setup->store, err));
    for (size_t i = 0; i < jobs->n; i++)
        HRF_TRY(run_job_end(&jobs->live[i], setup, "cancelled", err));
    for (size_t i = 0; i < tasks->rows.n_items; i++) {
        const struct hrf_task_row *task = &tasks->rows.items[i];
        if (task->state == HRF_TASK_RUNNING)
            HRF_TRY(hrf_store_set_task(setup->store, task->id, HRF_TASK_PENDING, task->n_attempts,
                                       "cancelled", err));
    }
    HRF_TRY(hrf_store_set_fact(setup->store, "queue", "", err)); /* no job is left there */
    HRF_TRY(hrf_store_commit(setup->store, err));
    run_jobs_forget_ended(jobs);
    return HRF_OK;
}
