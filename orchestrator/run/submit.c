/* submit.c - turns batches of tasks into jobs and jobs into submissions. The intent is stored
 * before anything is started, so that after a crash it can be determined how far a submission came.
 */
#include "base/clock.h"
#include "base/crash.h"
#include "base/directory.h"
#include "base/log.h"
#include "orchestrator/run/run_private.h"

/* ---- batches into jobs ---- */

static struct hrf_attempt_row make_attempt(struct run *run, const struct run_batch *batch,
                                           int64_t submission, size_t array_index)
{
    const struct hrf_task_row *first = &run->tasks.rows.items[batch->tasks[0]];
    const char *kind = hrf_task_kind_name(first->kind);
    const long long number = (long long)run->jobs.next_number++;
    struct hrf_attempt_row row = { .kind = first->kind,
                                   .attempt = 1 + first->n_attempts,
                                   .submission = submission,
                                   .array_index = (int64_t)array_index,
                                   .state = HRF_ATTEMPT_INTENT,
                                   .submitted_ms = hrf_clock_wall_ms() };
    for (int end = 0; end < HRF_N_ENDS; end++)
        row.attempt += run->tasks.states[batch->tasks[0]].ends.n[end];
    row.job_id = hrf_format("%s-%04lld", kind, number);
    row.directory = hrf_format("jobs/%s-%04lld.a%lld", kind, number, (long long)row.attempt);
    row.task_ids = hrf_alloc_array(batch->n, sizeof row.task_ids[0]);
    for (; row.n_task_ids < batch->n; row.n_task_ids++)
        row.task_ids[row.n_task_ids] = run->tasks.rows.items[batch->tasks[row.n_task_ids]].id;
    return row;
}

static enum hrf_status record_intent(struct run *run, const struct run_batch *batches, size_t n,
                                     size_t first, struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(run->setup.store, err));
    for (size_t i = 0; i < n; i++) {
        HRF_TRY(hrf_store_put_attempt(run->setup.store, &run->jobs.live[first + i].row, err));
        for (size_t k = 0; k < batches[i].n; k++) {
            struct hrf_task_row *task = &run->tasks.rows.items[batches[i].tasks[k]];
            run_tasks_set_state(&run->tasks, task, HRF_TASK_RUNNING);
            HRF_TRY(hrf_store_set_task(run->setup.store, task->id, HRF_TASK_RUNNING,
                                       task->n_attempts, NULL, err));
        }
    }
    return hrf_store_commit(run->setup.store, err);
}

static enum hrf_status write_specs(struct run *run, const struct run_batch *batches, size_t n,
                                   size_t first, struct hrf_text_list *paths, struct hrf_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct run_job *job = &run->jobs.live[first + i];
        HRF_AUTO_FREE char *directory = run_job_path(&run->setup, job, NULL);
        HRF_AUTO_FREE char *spec = run_job_path(&run->setup, job, "spec.json");
        HRF_TRY(hrf_path_make_directories(directory, err));
        HRF_TRY(run_write_spec(run, &batches[i], &job->row, spec, err));
        hrf_text_list_add(paths, spec);
    }
    return HRF_OK;
}

/* ---- the outcome of a submission ---- */

static enum hrf_status record_starts(struct run *run, size_t first, size_t n,
                                     const struct hrf_job_handle *handles, struct hrf_error *err)
{
    struct run_calibration *calibration = &run->calibration;
    HRF_TRY(hrf_store_begin(run->setup.store, err));
    for (size_t i = 0; i < n; i++) {
        struct run_job *job = &run->jobs.live[first + i];
        job->handle = handles[i];
        job->row.state = HRF_ATTEMPT_LIVE;
        job->row.pid = handles[i].id;
        job->row.start_time = handles[i].start_time;
        HRF_TRY(hrf_store_put_attempt(run->setup.store, &job->row, err));
    }
    run->limits.submit_delay_ms = 0;
    if (run->jobs.live[first].row.kind == HRF_TASK_CALIBRATE && calibration->first_submit <= 0)
        calibration->first_submit = hrf_clock_seconds();
    return hrf_store_commit(run->setup.store, err);
}

/* The jobs were not taken: ends them, and makes their tasks PENDING again. */
static enum hrf_status take_back(struct run *run, size_t first, size_t n, const char *reason,
                                 struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(run->setup.store, err));
    for (size_t i = 0; i < n; i++) {
        struct run_job *job = &run->jobs.live[first + i];
        HRF_TRY(run_job_free_tasks(job, &run->setup, &run->tasks, reason, err));
        HRF_TRY(run_job_end(job, &run->setup, reason, err));
    }
    HRF_TRY(hrf_store_commit(run->setup.store, err));
    run_jobs_forget_ended(&run->jobs);
    return HRF_OK;
}

static enum hrf_status settle_submission(struct run *run, size_t first, size_t n,
                                         const struct hrf_job_handle *handles,
                                         enum hrf_status status, enum hrf_submit_outcome outcome,
                                         const struct hrf_error *why, struct hrf_error *err)
{
    if (status == HRF_OK && outcome == HRF_SUBMIT_TAKEN)
        return record_starts(run, first, n, handles, err);
    if (status == HRF_OK && outcome == HRF_SUBMIT_UNSURE) {
        hrf_log_warning(
            "run", "cannot tell whether the scheduler accepted %zu jobs (%s); looking for them", n,
            why->text);
        for (size_t i = 0; i < n; i++) {
            run->jobs.live[first + i].handle = handles[i];
            run->jobs.live[first + i].unsure_since_ms = hrf_clock_ms();
        }
        return HRF_OK;
    }
    HRF_TRY(take_back(run, first, n, why->text, err));
    if (status == HRF_OK) {
        run_limits_back_off(&run->limits, &run->setup, n, why->text, &run->random);
        return HRF_OK;
    }
    if (err != NULL)
        *err = *why;
    return status;
}

static enum hrf_status start_jobs(struct run *run, const struct run_batch *batches, size_t n,
                                  struct hrf_error *err)
{
    struct hrf_executor *executor = run->setup.executor;
    const size_t first = run->jobs.n;
    const int64_t number = run->jobs.next_number; /* of its first job: unique in the run */
    char exclude[1024];
    HRF_AUTO_RELEASE(hrf_text_list) paths = { NULL, 0 };
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_submit_outcome outcome = HRF_SUBMIT_TAKEN;
    HRF_AUTO_FREE struct hrf_job_handle *handles = hrf_calloc(n, sizeof *handles);
    for (size_t i = 0; i < n; i++) {
        struct hrf_attempt_row row = make_attempt(run, &batches[i], number, i);
        run_jobs_add(&run->jobs, &row);
    }
    hrf_crash_point("run.submit.before_intent");
    HRF_TRY(record_intent(run, batches, n, first, err));
    hrf_crash_point("run.submit.after_intent");
    HRF_TRY(write_specs(run, batches, n, first, &paths, err));
    for (size_t i = 0; i < n; i++)
        handles[i] = run->jobs.live[first + i].handle;
    hrf_node_exclusion_list(&run->faults.exclusion, hrf_clock_ms(), exclude, sizeof exclude);
    const struct hrf_task_row *task = &run->tasks.rows.items[batches[0].tasks[0]];
    const struct hrf_submission submission = { .run_directory = run->setup.directory,
                                               .run_id = run->setup.run_id,
                                               .number = number,
                                               .kind = run_kind_name(&run->setup, task->kind),
                                               .spec_paths = (const char *const *)paths.items,
                                               .n_jobs = n,
                                               .time_level = task->time_level,
                                               .memory_level = task->memory_level,
                                               .exclude = exclude };
    hrf_crash_point("run.submit.before_start");
    enum hrf_status status = executor->ops->submit(executor, &submission, handles, &outcome, &why);
    if (status != HRF_OK && exclude[0] != '\0' && run->faults.lacking != NULL)
        /* Perhaps it was refused because every node is left out. */
        (void)hrf_error_wrap(&why, status, "left out are %s, because %s", exclude,
                             run->faults.lacking);
    hrf_crash_point("run.submit.after_start");
    status = settle_submission(run, first, n, handles, status, outcome, &why, err);
    hrf_crash_point("run.submit.after_record");
    return status;
}

/* How many batches, starting with `from`, can go into one submission: those that need the same
 * resources. */
static size_t count_alike(const struct run *run, const struct run_batches *batches, size_t from)
{
    int64_t limit = run->setup.executor->ops->limit(run->setup.executor);
    if (run->limits.max_in_submission > 0 && run->limits.max_in_submission < limit)
        limit = run->limits.max_in_submission;
    const struct hrf_task_row *first = &run->tasks.rows.items[batches->items[from].tasks[0]];
    size_t n = 1;
    for (; from + n < batches->n && (int64_t)n < limit; n++) {
        const struct hrf_task_row *task = &run->tasks.rows.items[batches->items[from + n].tasks[0]];
        if (task->time_level != first->time_level || task->memory_level != first->memory_level)
            break;
    }
    return n;
}

static enum hrf_status submit_kind(struct run *run, enum hrf_task_kind kind, bool *submitted,
                                   struct hrf_error *err)
{
    HRF_AUTO_RELEASE(run_batches) batches = { .items = NULL };
    struct run_tasks *tasks = &run->tasks;
    const int64_t room = run_limits_max_jobs(&run->limits, &run->setup) - (int64_t)run->jobs.n;
    if (room <= 0 || tasks->counts.n[kind][HRF_TASK_PENDING] == 0)
        return HRF_OK;
    const size_t end = run_tasks_kind_end(tasks, kind);
    size_t *first = &tasks->first_pending[kind];
    while (*first < end && tasks->rows.items[*first].state != HRF_TASK_PENDING)
        ++*first;
    run_batches_gather(&run->setup, tasks, kind, (size_t)room, &batches);
    enum hrf_status status = HRF_OK;
    for (size_t i = 0; i < batches.n && status == HRF_OK && !run_limits_is_waiting(&run->limits) &&
                       run_limits_take_submission(&run->limits, &run->setup);) {
        const size_t n = count_alike(run, &batches, i);
        status = start_jobs(run, &batches.items[i], n, err);
        *submitted = true;
        i += n;
    }
    return status;
}

enum hrf_status run_submit(struct run *run, bool *submitted, struct hrf_error *err)
{
    /* First calibration, which int8 waits for, and slide heads, whose slides are nearly done; then
     * tiling before inference, so that every slide that cannot be read is known early. */
    static const enum hrf_task_kind kinds[] = { HRF_TASK_CALIBRATE, HRF_TASK_TRAIN, HRF_TASK_HEAD,
                                                HRF_TASK_TILE, HRF_TASK_INFER };
    const bool calibrate_only = run->setup.calibrate_only;
    *submitted = false;
    /* INT8's tasks are not planned before its calibration, and the others are to be scored with
     * them from one reading of the patches. */
    const bool waits = calibrate_only || (hrf_run_shares_reading(run->setup.workflow) &&
                                          run_waits_for_calibration(run));
    if (run_limits_is_waiting(&run->limits) || hrf_executor_trouble(run->setup.executor)[0] != '\0')
        return HRF_OK;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if ((waits && kinds[k] == HRF_TASK_INFER) ||
            (calibrate_only && kinds[k] != HRF_TASK_CALIBRATE && kinds[k] != HRF_TASK_TILE))
            continue;
        /* The jobs have room that no task known so far can fill. */
        if (kinds[k] == HRF_TASK_INFER && run->tasks.needs_reload &&
            run_limits_max_jobs(&run->limits, &run->setup) > (int64_t)run->jobs.n)
            HRF_TRY(run_tasks_reload(&run->tasks, &run->setup, &run->slides, err));
        HRF_TRY(submit_kind(run, kinds[k], submitted, err));
    }
    return HRF_OK;
}
