/* submit.c - turns batches of tasks into jobs and jobs into submissions. The intent is stored
 * before anything is started, so that after a crash it can be determined how far a submission came.
 */
#include "base/clock.h"
#include "base/crash.h"
#include "base/directory.h"
#include "base/log.h"
#include "orchestrator/run/run_private.h"

#include <stdio.h>
#include <string.h>

/* While the executor has no room, the wait doubles each time, with jitter, up to this. */
enum { FULL_MOST_MS = 300000 };

/* ---- batches into jobs ---- */

static enum hrf_status describe(struct run *run, const struct run_batch *batch,
                                struct hrf_attempt_row *row, struct hrf_error *err)
{
    const struct hrf_task_row *first = &run->tasks.items[batch->tasks[0]];
    row->task_ids = hrf_alloc_array(batch->n, sizeof row->task_ids[0]);
    for (; row->task_ids != NULL && row->n_task_ids < batch->n; row->n_task_ids++)
        row->task_ids[row->n_task_ids] = run->tasks.items[batch->tasks[row->n_task_ids]].id;
    row->kind = first->kind;
    row->attempt = 1 + first->n_attempts;
    for (int end = 0; end < HRF_N_ENDS; end++)
        row->attempt += run->task_states[batch->tasks[0]].ends.n[end];
    row->job_id = hrf_format("%s-%04lld", hrf_task_kind_name(row->kind), (long long)run->next_job);
    row->directory = hrf_format("jobs/%s-%04lld.a%lld", hrf_task_kind_name(row->kind),
                                (long long)run->next_job, (long long)row->attempt);
    run->next_job++;
    row->submitted_ms = hrf_clock_wall_ms();
    row->state = HRF_ATTEMPT_INTENT;
    HRF_CHECK_MEMORY(row->job_id != NULL && row->directory != NULL && row->task_ids != NULL, err,
                     "no memory for a job");
    return HRF_OK;
}

/* Appends the jobs to run->live; *first is the index of the first one. */
static enum hrf_status add_jobs(struct run *run, const struct run_batch *batches, size_t n,
                                size_t *first, struct hrf_error *err)
{
    *first = run->n_live;
    const int64_t number = run->next_job; /* the number of its first job is unique in the run */
    for (size_t i = 0; i < n; i++) {
        struct hrf_attempt_row row = { .submission = number, .place = (int64_t)i };
        struct run_job *job;
        enum hrf_status status = describe(run, &batches[i], &row, err);
        if (status == HRF_OK)
            status = run_add_job(run, &row, &job, err);
        if (status != HRF_OK) {
            hrf_attempt_row_release(&row);
            return status;
        }
    }
    return HRF_OK;
}

static enum hrf_status record_intent(struct run *run, const struct run_batch *batches, size_t n,
                                     size_t first, struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(run->store, err));
    for (size_t i = 0; i < n; i++) {
        HRF_TRY(hrf_store_put_attempt(run->store, &run->live[first + i].row, err));
        for (size_t k = 0; k < batches[i].n; k++) {
            struct hrf_task_row *task = &run->tasks.items[batches[i].tasks[k]];
            run_set_state(run, task, HRF_TASK_RUNNING);
            HRF_TRY(hrf_store_set_task(run->store, task->id, HRF_TASK_RUNNING, task->n_attempts,
                                       NULL, err));
        }
    }
    return hrf_store_commit(run->store, err);
}

static enum hrf_status write_specs(struct run *run, const struct run_batch *batches, size_t n,
                                   size_t first, struct hrf_text_list *paths, struct hrf_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct run_job *job = &run->live[first + i];
        HRF_AUTO_FREE char *directory = run_job_path(run, job, NULL);
        HRF_AUTO_FREE char *spec = run_job_path(run, job, "spec.json");
        HRF_CHECK_MEMORY(directory != NULL && spec != NULL, err, "no memory for a path");
        HRF_TRY(hrf_path_make_directories(directory, err));
        HRF_TRY(run_write_spec(run, &batches[i], &job->row, spec, err));
        HRF_TRY(hrf_text_list_add(paths, spec, err));
    }
    return HRF_OK;
}

/* ---- the outcome of a submission ---- */

static enum hrf_status record_starts(struct run *run, size_t first, size_t n,
                                     const struct hrf_job_handle *handles, struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(run->store, err));
    for (size_t i = 0; i < n; i++) {
        struct run_job *job = &run->live[first + i];
        job->handle = handles[i];
        job->row.state = HRF_ATTEMPT_LIVE;
        job->row.pid = handles[i].id;
        job->row.start_time = handles[i].start_time;
        HRF_TRY(hrf_store_put_attempt(run->store, &job->row, err));
    }
    run->submit_delay_ms = 0;
    if (run->phases[run->live[first].row.kind].first <= 0)
        run->phases[run->live[first].row.kind].first = hrf_clock_seconds();
    return hrf_store_commit(run->store, err);
}

/* The jobs were not taken: ends them, and makes their tasks PENDING again. */
static enum hrf_status take_back(struct run *run, size_t first, size_t n, const char *reason,
                                 struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(run->store, err));
    for (size_t i = 0; i < n; i++) {
        struct run_job *job = &run->live[first + i];
        for (size_t k = 0; k < job->n_tasks; k++) {
            struct hrf_task_row *task = run_find_task(run, job->task_ids[k]);
            if (task == NULL || task->state != HRF_TASK_RUNNING)
                continue;
            run_set_state(run, task, HRF_TASK_PENDING);
            HRF_TRY(hrf_store_set_task(run->store, task->id, HRF_TASK_PENDING, task->n_attempts,
                                       reason, err));
        }
        HRF_TRY(run_end_job(run, job, reason, err));
    }
    HRF_TRY(hrf_store_commit(run->store, err));
    run_forget_ended(run);
    return HRF_OK;
}

static void wait_for_room(struct run *run, size_t n_jobs, const char *why)
{
    const int64_t delay = run->submit_delay_ms;
    run->submit_delay_ms = delay == 0                 ? run->executor->full_ms
                           : delay * 2 < FULL_MOST_MS ? delay * 2
                                                      : FULL_MOST_MS;
    run->submit_most = n_jobs > 1 ? (int64_t)n_jobs / 2 : 1;
    run->submit_after_ms = hrf_clock_ms() + run->submit_delay_ms / 2 +
                           hrf_random_below(&run->random, run->submit_delay_ms);
    if (delay == 0)
        hrf_log_info("run", "no room for %zu more jobs at present (%s); they wait", n_jobs, why);
}

static enum hrf_status settle(struct run *run, size_t first, size_t n,
                              const struct hrf_job_handle *handles, enum hrf_status status,
                              enum hrf_submit_outcome outcome, struct hrf_error *why,
                              struct hrf_error *err)
{
    if (status == HRF_OK && outcome == HRF_SUBMIT_TAKEN)
        return record_starts(run, first, n, handles, err);
    if (status == HRF_OK && outcome == HRF_SUBMIT_UNSURE) {
        hrf_log_warning(
            "run", "cannot tell whether the scheduler accepted %zu jobs (%s); looking for them", n,
            why->text);
        for (size_t i = 0; i < n; i++) {
            run->live[first + i].handle = handles[i];
            run->live[first + i].unsure_since_ms = hrf_clock_ms();
        }
        return HRF_OK;
    }
    HRF_TRY(take_back(run, first, n, why->text, err));
    if (status == HRF_OK) {
        wait_for_room(run, n, why->text);
        return HRF_OK;
    }
    if (err != NULL)
        *err = *why;
    return status;
}

static enum hrf_status start_jobs(struct run *run, const struct run_batch *batches, size_t n,
                                  struct hrf_error *err)
{
    size_t first;
    char exclude[1024];
    struct hrf_text_list paths = { NULL, 0 };
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_submit_outcome outcome = HRF_SUBMIT_TAKEN;
    HRF_AUTO_FREE struct hrf_job_handle *handles = hrf_calloc(n, sizeof *handles);
    HRF_CHECK_MEMORY(handles != NULL, err, "no memory for %zu jobs", n);
    HRF_TRY(add_jobs(run, batches, n, &first, err));
    hrf_crash_point("run.submit.before_intent");
    HRF_TRY(record_intent(run, batches, n, first, err));
    hrf_crash_point("run.submit.after_intent");
    enum hrf_status status = write_specs(run, batches, n, first, &paths, err);
    if (status != HRF_OK) {
        hrf_text_list_release(&paths);
        return status;
    }
    for (size_t i = 0; i < n; i++)
        handles[i] = run->live[first + i].handle;
    hrf_node_exclusion_list(&run->exclusion, hrf_clock_ms(), exclude, sizeof exclude);
    const struct hrf_task_row *task = &run->tasks.items[batches[0].tasks[0]];
    const struct hrf_submission submission = { .run_directory = run->directory,
                                               .run_id = run->run_id,
                                               .number = run->live[first].row.submission,
                                               .kind = run_kind_name(run, task->kind),
                                               .spec_paths = (const char *const *)paths.items,
                                               .n_jobs = n,
                                               .time_level = task->time_level,
                                               .memory_level = task->memory_level,
                                               .exclude = exclude };
    hrf_crash_point("run.submit.before_start");
    status = run->executor->ops->submit(run->executor, &submission, handles, &outcome, &why);
    hrf_crash_point("run.submit.after_start");
    hrf_text_list_release(&paths);
    status = settle(run, first, n, handles, status, outcome, &why, err);
    hrf_crash_point("run.submit.after_record");
    return status;
}

/* How many batches, starting with `from`, can go into one submission: those that need the same
 * resources. */
static size_t together(const struct run *run, const struct run_batches *batches, size_t from)
{
    int64_t limit = run->executor->ops->limit(run->executor);
    if (run->submit_most > 0 && run->submit_most < limit)
        limit = run->submit_most;
    const struct hrf_task_row *first = &run->tasks.items[batches->items[from].tasks[0]];
    size_t n = 1;
    for (; from + n < batches->n && (int64_t)n < limit; n++) {
        const struct hrf_task_row *task = &run->tasks.items[batches->items[from + n].tasks[0]];
        if (task->time_level != first->time_level || task->memory_level != first->memory_level)
            break;
    }
    return n;
}

static void find_first_pending(struct run *run, enum hrf_task_kind kind)
{
    const size_t end = run_kind_end(run, kind);
    size_t *first = &run->first_pending[kind];
    while (*first < end && run->tasks.items[*first].state != HRF_TASK_PENDING)
        ++*first;
}

static enum hrf_status submit_kind(struct run *run, enum hrf_task_kind kind, bool *submitted,
                                   struct hrf_error *err)
{
    struct run_batches batches = { .items = NULL };
    const int64_t room = run_most_jobs(run) - (int64_t)run->n_live;
    if (room <= 0 || run->counts.n[kind][HRF_TASK_PENDING] == 0)
        return HRF_OK;
    find_first_pending(run, kind);
    enum hrf_status status = run_gather(run, kind, (size_t)room, &batches, err);
    for (size_t i = 0; i < batches.n && status == HRF_OK &&
                       hrf_clock_ms() >= run->submit_after_ms && run_take_submission(run);) {
        const size_t n = together(run, &batches, i);
        status = start_jobs(run, &batches.items[i], n, err);
        *submitted = true;
        i += n;
    }
    run_batches_release(&batches);
    return status;
}

enum hrf_status run_submit(struct run *run, bool *submitted, struct hrf_error *err)
{
    /* First calibration, which int8 waits for, and slide heads, whose slides are nearly done; then
     * tiling before inference, so that every slide that cannot be read is known early. */
    static const enum hrf_task_kind kinds[] = { HRF_TASK_CALIBRATE, HRF_TASK_TRAIN, HRF_TASK_HEAD,
                                                HRF_TASK_TILE, HRF_TASK_INFER };
    *submitted = false;
    /* INT8's tasks are not planned before its calibration, and the others are to be scored with
     * them from one reading of the patches. */
    const bool waits = run->calibrate_only ||
                       (hrf_run_shares_reading(run->workflow) && run_waits_for_calibration(run));
    if (hrf_clock_ms() < run->submit_after_ms || hrf_executor_trouble(run->executor)[0] != '\0')
        return HRF_OK;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if ((waits && kinds[k] == HRF_TASK_INFER) ||
            (run->calibrate_only && kinds[k] != HRF_TASK_CALIBRATE && kinds[k] != HRF_TASK_TILE))
            continue;
        /* There is room that no task known so far can fill. */
        if (kinds[k] == HRF_TASK_INFER && run->needs_reload &&
            run_most_jobs(run) > (int64_t)run->n_live)
            HRF_TRY(run_reload_tasks(run, err));
        HRF_TRY(submit_kind(run, kinds[k], submitted, err));
    }
    return HRF_OK;
}
