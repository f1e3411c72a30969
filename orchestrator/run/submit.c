/* submit.c - groups tasks into jobs and jobs into submissions. The intent is stored before anything
 * is started, so that after a crash it can be determined how far a submission came. */
#include "base/clock.h"
#include "base/crash.h"
#include "base/directory.h"
#include "base/log.h"
#include "orchestrator/run/run_private.h"

#include <stdio.h>
#include <string.h>

enum { TILE_TASKS_PER_JOB = 8, MAX_TASKS_PER_JOB = 256 };
/* While the executor has no room, the wait doubles each time, with jitter, up to this. */
enum { FULL_MOST_MS = 300000 };

/* ---- tasks into batches ---- */

struct batches {
    struct run_batch *items;
    size_t n, capacity;
};

static void batches_release(struct batches *batches)
{
    for (size_t i = 0; i < batches->n; i++)
        hrf_free(batches->items[i].tasks);
    hrf_free(batches->items);
}

static bool is_ready(const struct run *run, size_t i, enum hrf_task_kind kind, int64_t now)
{
    return run->tasks.items[i].kind == kind && run->tasks.items[i].state == HRF_TASK_PENDING &&
           run->task_states[i].not_before_ms <= now;
}

/* How many tasks one job may hold, so that all executor.max_jobs jobs get some. */
static int64_t tasks_per_job(const struct run *run, enum hrf_task_kind kind)
{
    int64_t n_pending = 0, places = run->workflow->executor.max_jobs;
    for (size_t i = 0; i < run->tasks.n_items; i++)
        n_pending += run->tasks.items[i].kind == kind &&
                     run->tasks.items[i].state == HRF_TASK_PENDING;
    const int64_t limit = kind == HRF_TASK_TILE    ? TILE_TASKS_PER_JOB
                          : kind == HRF_TASK_TRAIN ? 1 /* it takes as long as many slides */
                                                   : MAX_TASKS_PER_JOB;
    const int64_t share = (n_pending + places - 1) / places;
    return share < limit ? share : limit;
}

static bool fits(const struct run *run, const struct run_batch *batch,
                 const struct hrf_task_row *task, int64_t limit)
{
    return (int64_t)batch->n < limit &&
           (task->kind != HRF_TASK_INFER ||
            batch->n_patches + task->n_patches <= run->workflow->executor.patches_per_job);
}

static bool go_together(const struct hrf_task_row *a, const struct hrf_task_row *b)
{
    return strcmp(a->precision, b->precision) == 0 && a->time_level == b->time_level &&
           a->memory_level == b->memory_level;
}

static enum hrf_status add_task(struct run_batch *batch, size_t place,
                                const struct hrf_task_row *task, struct hrf_error *err)
{
    void *tasks = batch->tasks;
    HRF_TRY(hrf_array_reserve(&tasks, &batch->capacity, batch->n + 1, sizeof *batch->tasks, err));
    batch->tasks = tasks;
    batch->tasks[batch->n++] = place;
    batch->n_patches += task->n_patches;
    return HRF_OK;
}

static enum hrf_status add_batch(struct batches *batches, struct hrf_error *err)
{
    void *items = batches->items;
    HRF_TRY(
        hrf_array_reserve(&items, &batches->capacity, batches->n + 1, sizeof *batches->items, err));
    batches->items = items;
    batches->items[batches->n++] = (struct run_batch){ .tasks = NULL };
    return HRF_OK;
}

/* Makes at most `most` batches of one kind; the tasks of a batch have the same precision and the
 * same resources (a class). One pass over the tasks: each class has one open batch, its newest,
 * which takes the tasks that fit. */
static enum hrf_status gather(struct run *run, enum hrf_task_kind kind, size_t most,
                              struct batches *out, struct hrf_error *err)
{
    enum { CLASSES = 32 }; /* open batches at a time; with more classes there are more batches */
    const int64_t limit = tasks_per_job(run, kind), now = hrf_clock_ms();
    size_t open[CLASSES], n_open = 0;
    for (size_t i = 0; i < run->tasks.n_items; i++) {
        const struct hrf_task_row *task = &run->tasks.items[i];
        if (!is_ready(run, i, kind, now))
            continue;
        size_t c = 0;
        while (c < n_open && !go_together(task, &run->tasks.items[out->items[open[c]].tasks[0]]))
            c++;
        if (c == n_open || !fits(run, &out->items[open[c]], task, limit)) {
            if (out->n == most) {
                if (c < n_open)
                    continue; /* a later task may still fit into an open batch */
                break;
            }
            HRF_TRY(add_batch(out, err));
            c = c < CLASSES ? c : 0;
            n_open = c == n_open ? n_open + 1 : n_open;
            open[c] = out->n - 1;
        }
        HRF_TRY(add_task(&out->items[open[c]], i, task, err));
    }
    return HRF_OK;
}

enum hrf_status run_count_jobs(const struct hrf_workflow *workflow, struct hrf_task_row *rows,
                               size_t n_rows, enum hrf_task_kind kind, int64_t *out,
                               struct hrf_error *err)
{
    struct batches batches = { .items = NULL };
    HRF_AUTO_FREE struct run_task_state *states = hrf_calloc(n_rows + 1, sizeof *states);
    HRF_CHECK_MEMORY(states != NULL, err, "no memory for %zu tasks", n_rows);
    struct run run = { .workflow = workflow, .tasks = { rows, n_rows }, .task_states = states };
    const enum hrf_status status = gather(&run, kind, SIZE_MAX, &batches, err);
    *out = (int64_t)batches.n;
    batches_release(&batches);
    return status;
}

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
            task->state = HRF_TASK_RUNNING;
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
            task->state = HRF_TASK_PENDING;
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
                                               .kind = hrf_task_kind_name(task->kind),
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
static size_t together(const struct run *run, const struct batches *batches, size_t from)
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

static enum hrf_status submit_kind(struct run *run, enum hrf_task_kind kind, bool *submitted,
                                   struct hrf_error *err)
{
    struct batches batches = { .items = NULL };
    const int64_t room = run_most_jobs(run) - (int64_t)run->n_live;
    if (room <= 0)
        return HRF_OK;
    enum hrf_status status = gather(run, kind, (size_t)room, &batches, err);
    for (size_t i = 0; i < batches.n && status == HRF_OK &&
                       hrf_clock_ms() >= run->submit_after_ms && run_take_submission(run);) {
        const size_t n = together(run, &batches, i);
        status = start_jobs(run, &batches.items[i], n, err);
        *submitted = true;
        i += n;
    }
    batches_release(&batches);
    return status;
}

enum hrf_status run_submit(struct run *run, bool *submitted, struct hrf_error *err)
{
    /* First calibration, which int8 waits for; then slide heads before inference before tiling,
     * because their slides are ready and results come earlier. */
    static const enum hrf_task_kind kinds[] = { HRF_TASK_CALIBRATE, HRF_TASK_TRAIN, HRF_TASK_HEAD,
                                                HRF_TASK_INFER, HRF_TASK_TILE };
    *submitted = false;
    if (hrf_clock_ms() < run->submit_after_ms || hrf_executor_trouble(run->executor)[0] != '\0')
        return HRF_OK;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        if (!run->calibrate_only || kinds[k] == HRF_TASK_CALIBRATE || kinds[k] == HRF_TASK_TILE)
            HRF_TRY(submit_kind(run, kinds[k], submitted, err));
    return HRF_OK;
}
