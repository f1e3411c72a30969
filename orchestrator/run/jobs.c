/* jobs.c - tasks into jobs, jobs into results: intent first, then act; sentinels first, then
 * the executor; an attempt's directory is its fence. */
#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "base/path.h"
#include "base/process.h"
#include "orchestrator/run/run_private.h"
#include "schema/record/job.h"
#include "schema/record/sentinel.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TILE_TASKS_PER_JOB = 8, MAX_TASKS_PER_JOB = 256 };

char *run_attempt_path(const struct run *run, const struct hrf_attempt_row *attempt,
                       const char *name)
{
    HRF_AUTO_FREE char *directory = hrf_path_join(run->directory, attempt->directory);
    if (directory == NULL)
        return NULL;
    return name != NULL ? hrf_path_join(directory, name) : hrf_strdup(directory);
}

/* ---- submit ---- */

struct batch {
    struct hrf_task_row *tasks[MAX_TASKS_PER_JOB];
    size_t n;
};

static int64_t now_ms(void)
{
    return hrf_clock_ns() / 1000000;
}

/* The next tasks that belong into one job: of one kind, one precision, as many as it holds. Jobs
 * are kept small enough that every place has one. */
static void pick(struct run *run, enum hrf_task_kind kind, struct batch *batch)
{
    int64_t n_ready = 0, patches = 0, now = now_ms();
    const char *precision = NULL;
    for (size_t i = 0; i < run->tasks.n_items; i++)
        n_ready += run->tasks.items[i].kind == kind &&
                   run->tasks.items[i].state == HRF_TASK_PENDING;
    int64_t places = run->workflow->executor.max_jobs;
    int64_t limit = kind == HRF_TASK_TILE ? TILE_TASKS_PER_JOB : MAX_TASKS_PER_JOB;
    int64_t share = (n_ready + places - 1) / places;
    limit = share < limit ? share : limit;
    for (size_t i = 0; i < run->tasks.n_items && (int64_t)batch->n < limit; i++) {
        struct hrf_task_row *task = &run->tasks.items[i];
        if (task->kind != kind || task->state != HRF_TASK_PENDING || run->not_before_ms[i] > now)
            continue;
        if (precision != NULL && strcmp(precision, task->precision) != 0)
            continue;
        if (kind == HRF_TASK_INFER && batch->n > 0 &&
            patches + task->n_patches > run->workflow->executor.patches_per_job)
            continue;
        precision = task->precision;
        patches += task->n_patches;
        batch->tasks[batch->n++] = task;
    }
}

char *run_plan_path(const struct run *run, const char *key)
{
    return hrf_format("%s/plans/%s.rec", run->directory, key);
}

/* The tile plan of a slide as a file for the engine; named by its content, so written once. */
static enum hrf_status export_plan(struct run *run, int64_t slide_id, char **path,
                                   struct hrf_error *err)
{
    const struct hrf_task_row *tile = NULL;
    for (size_t i = 0; i < run->tasks.n_items && tile == NULL; i++)
        if (run->tasks.items[i].kind == HRF_TASK_TILE && run->tasks.items[i].slide_id == slide_id)
            tile = &run->tasks.items[i];
    if (tile == NULL)
        return hrf_error_set(err, HRF_E_BUG, "slide %lld has no tile task", (long long)slide_id);
    HRF_AUTO_FREE char *full = run_plan_path(run, tile->key);
    HRF_AUTO_FREE char *plans = full != NULL ? hrf_path_directory(full) : NULL;
    if (plans == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    if (!hrf_path_exists(full)) {
        struct hrf_bytes bytes;
        HRF_TRY(hrf_path_make_directories(plans, err));
        HRF_TRY(hrf_store_get_record(run->store, tile->key, &bytes, err));
        enum hrf_status status = hrf_file_write_atomic(full, bytes.data, bytes.n_bytes, err);
        hrf_bytes_release(&bytes);
        HRF_TRY(status);
    }
    *path = full;
    full = NULL;
    return HRF_OK;
}

static enum hrf_status fill_task(struct run *run, const struct hrf_task_row *row, size_t index,
                                 struct hrf_job_task *out, struct hrf_error *err)
{
    const struct hrf_slide_row *slide = run_find_slide(run, row->slide_id);
    out->id = hrf_format("t%04zu", index);
    out->key = hrf_strdup(row->key);
    out->slide_name = hrf_strdup(slide->name);
    out->slide_path = hrf_strdup(slide->path);
    out->mpp_override = slide->mpp_csv;
    out->mpp_fallback = run->workflow->dataset.mpp;
    out->first_patch = row->first_patch;
    out->n_patches = row->n_patches;
    if (out->id == NULL || out->key == NULL || out->slide_name == NULL || out->slide_path == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a job spec");
    if (row->kind == HRF_TASK_INFER)
        return export_plan(run, row->slide_id, &out->tile_plan, err);
    if (row->kind == HRF_TASK_CALIBRATE && (out->tile_plan = run_plan_path(run, row->key)) == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a job spec");
    return HRF_OK;
}

static enum hrf_status fill_settings(struct run *run, const struct batch *batch,
                                     struct hrf_job_spec *spec, struct hrf_error *err)
{
    const struct hrf_workflow *w = run->workflow;
    struct hrf_job_tiler *t = &spec->tiler;
    struct hrf_job_engine *e = &spec->engine;
    const struct run_region region = run_region(w);
    t->mode = hrf_strdup(region.mode);
    t->patch_size = region.size;
    t->patch_stride = region.stride;
    t->patch_mpp = region.mpp;
    t->tissue_method = hrf_strdup(hrf_tissue_method_name(w->tiler.tissue.method));
    t->min_tissue = w->tiler.tissue.min_tissue;
    t->min_patches = w->tiler.tissue.min_patches;
    e->model_file = hrf_strdup(w->model.file);
    e->model_sha256 = hrf_strdup(run->model_sha256);
    e->n_classes = (int64_t)w->model.classes.n_items;
    memcpy(e->mean, w->model.input.mean, sizeof e->mean);
    memcpy(e->std, w->model.input.std, sizeof e->std);
    const char *precision = batch->tasks[0]->precision;
    const bool is_int8 = strcmp(precision, "int8") == 0;
    e->precision = hrf_strdup(batch->tasks[0]->kind == HRF_TASK_CALIBRATE ? "fp32" : precision);
    e->scales = is_int8 ? hrf_strdup(run->calibration_path) : NULL;
    e->device = hrf_strdup(hrf_device_name(w->engine.device));
    e->batch = w->engine.batch;
    e->class_map = w->tiler.mode == HRF_TILER_SLIDE;
    e->memory_bytes = w->engine.memory_bytes;
    int64_t share = hrf_process_cpu_count() / w->executor.max_jobs; /* cores of one job */
    e->n_threads = share > 0 ? share : 1;
    if (t->mode == NULL || t->tissue_method == NULL || e->model_file == NULL ||
        e->model_sha256 == NULL || e->precision == NULL || e->device == NULL ||
        (is_int8 && e->scales == NULL))
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a job spec");
    return HRF_OK;
}

static enum hrf_status write_spec(struct run *run, const struct batch *batch,
                                  const struct hrf_attempt_row *attempt, const char *path,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_job_spec) spec = hrf_calloc(1, sizeof *spec);
    if (spec == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a job spec");
    spec->run_id = hrf_strdup(run->run_id);
    spec->job_id = hrf_strdup(attempt->job_id);
    spec->attempt = attempt->attempt;
    static const enum hrf_job_kind kinds[] = { [HRF_TASK_TILE] = HRF_JOB_TILE,
                                               [HRF_TASK_INFER] = HRF_JOB_INFER,
                                               [HRF_TASK_CALIBRATE] = HRF_JOB_CALIBRATE };
    spec->kind = kinds[attempt->kind];
    spec->tasks = hrf_calloc(batch->n, sizeof spec->tasks[0]);
    if (spec->run_id == NULL || spec->job_id == NULL || spec->tasks == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a job spec");
    HRF_TRY(fill_settings(run, batch, spec, err));
    for (size_t i = 0; i < batch->n; i++) {
        spec->n_tasks = i + 1;
        HRF_TRY(fill_task(run, batch->tasks[i], i, &spec->tasks[i], err));
    }
    return hrf_job_spec_write(spec, path, err);
}

static enum hrf_status describe_attempt(struct run *run, const struct batch *batch,
                                        struct hrf_attempt_row *attempt, struct hrf_error *err)
{
    struct hrf_strbuf ids = HRF_STRBUF_INIT;
    for (size_t i = 0; i < batch->n; i++)
        hrf_strbuf_addf(&ids, "%s%lld", i > 0 ? " " : "", (long long)batch->tasks[i]->id);
    attempt->kind = batch->tasks[0]->kind;
    attempt->attempt = batch->tasks[0]->n_attempts + 1;
    attempt->job_id = hrf_format("%s-%04lld", hrf_task_kind_name(attempt->kind),
                                 (long long)run->next_job++);
    attempt->directory = attempt->job_id != NULL ? hrf_format("jobs/%s.a%lld", attempt->job_id,
                                                              (long long)attempt->attempt)
                                                 : NULL;
    attempt->task_ids = hrf_strbuf_detach(&ids);
    attempt->submitted_ms = hrf_clock_wall_ms();
    attempt->state = HRF_ATTEMPT_INTENT;
    if (attempt->job_id == NULL || attempt->directory == NULL || attempt->task_ids == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a job");
    return HRF_OK;
}

static enum hrf_status record_intent(struct run *run, const struct batch *batch,
                                     struct hrf_attempt_row *attempt, struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(run->store, err));
    HRF_TRY(hrf_store_put_attempt(run->store, attempt, err));
    for (size_t i = 0; i < batch->n; i++) {
        batch->tasks[i]->state = HRF_TASK_RUNNING;
        HRF_TRY(hrf_store_set_task(run->store, batch->tasks[i]->id, HRF_TASK_RUNNING,
                                   batch->tasks[i]->n_attempts, NULL, err));
    }
    return hrf_store_commit(run->store, err);
}

static enum hrf_status record_start(struct run *run, struct hrf_attempt_row *attempt,
                                    const struct hrf_job_handle *handle, struct hrf_error *err)
{
    attempt->state = HRF_ATTEMPT_LIVE;
    attempt->pid = handle->pid;
    attempt->start_time = handle->start_time;
    return hrf_store_put_attempt(run->store, attempt, err);
}

static enum hrf_status start_batch(struct run *run, const struct batch *batch,
                                   struct hrf_error *err)
{
    size_t capacity = run->live.n_items;
    HRF_TRY(hrf_array_reserve((void **)&run->live.items, &capacity, run->live.n_items + 1,
                              sizeof run->live.items[0], err));
    struct hrf_attempt_row *attempt = &run->live.items[run->live.n_items++];
    *attempt = (struct hrf_attempt_row){ .id = 0 };
    HRF_TRY(describe_attempt(run, batch, attempt, err));
    HRF_AUTO_FREE char *directory = run_attempt_path(run, attempt, NULL);
    HRF_AUTO_FREE char *spec = run_attempt_path(run, attempt, "spec.json");
    struct hrf_job_handle handle;
    if (directory == NULL || spec == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    hrf_crash_point("run.submit.before_intent");
    HRF_TRY(record_intent(run, batch, attempt, err));
    hrf_crash_point("run.submit.after_intent");
    HRF_TRY(hrf_path_make_directories(directory, err));
    HRF_TRY(write_spec(run, batch, attempt, spec, err));
    hrf_crash_point("run.submit.before_start");
    HRF_TRY(run->executor->submit(spec, &handle, err));
    hrf_crash_point("run.submit.after_start");
    HRF_TRY(record_start(run, attempt, &handle, err));
    hrf_crash_point("run.submit.after_record");
    if (run->phases[attempt->kind].first <= 0)
        run->phases[attempt->kind].first = hrf_clock_seconds();
    hrf_log_debug("run", "started %s with %zu tasks", attempt->job_id, batch->n);
    return HRF_OK;
}

enum hrf_status run_submit(struct run *run, bool *submitted, struct hrf_error *err)
{
    *submitted = false;
    /* What int8 waits for first, then inference: its slides are ready, its results come earlier. */
    static const enum hrf_task_kind kinds[] = { HRF_TASK_CALIBRATE, HRF_TASK_INFER, HRF_TASK_TILE };
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        while ((int64_t)run->live.n_items < run->workflow->executor.max_jobs &&
               !(run->calibrate_only && kinds[k] == HRF_TASK_INFER)) {
            struct batch batch = { .n = 0 };
            pick(run, kinds[k], &batch);
            if (batch.n == 0)
                break;
            HRF_TRY(start_batch(run, &batch, err));
            *submitted = true;
        }
    }
    return HRF_OK;
}

/* ---- observe ---- */

static enum hrf_status break_task(struct run *run, struct hrf_task_row *task, const char *reason,
                                  struct hrf_error *err)
{
    struct hrf_slide_row *slide = run_find_slide(run, task->slide_id);
    task->state = HRF_TASK_BROKEN;
    HRF_TRY(hrf_store_set_task(run->store, task->id, HRF_TASK_BROKEN, task->n_attempts + 1, reason,
                               err));
    HRF_TRY(hrf_store_add_event(run->store, slide->name, reason, err));
    HRF_AUTO_FREE char *name = hrf_text_printable(slide->name);
    hrf_log_warning("run", "%s failed: %s", name != NULL ? name : "slide", reason);
    return HRF_OK;
}

/* A task that ended without a result: again later, or never. */
static enum hrf_status judge_task(struct run *run, struct hrf_task_row *task, enum hrf_end end,
                                  const char *reason, struct hrf_error *err)
{
    struct hrf_retry retry = hrf_state_retry(&run->policy, end, task->n_attempts, &run->random);
    if (!retry.again)
        return break_task(run, task, reason, err);
    size_t index = (size_t)(task - run->tasks.items);
    run->not_before_ms[index] = now_ms() + retry.delay_ms;
    task->state = HRF_TASK_PENDING;
    task->n_attempts = retry.n_attempts;
    HRF_AUTO_FREE char *event = hrf_format(
        "attempt %lld ended without a result (%s); again in %.1f s", (long long)retry.n_attempts,
        reason, (double)retry.delay_ms / 1000);
    if (event != NULL)
        HRF_TRY(
            hrf_store_add_event(run->store, run_find_slide(run, task->slide_id)->name, event, err));
    return hrf_store_set_task(run->store, task->id, HRF_TASK_PENDING, task->n_attempts, reason,
                              err);
}

static enum hrf_status accept_result(struct run *run, struct hrf_task_row *task, const char *record,
                                     size_t n_bytes, struct hrf_error *err)
{
    bool is_new;
    HRF_TRY(hrf_store_finish_task(run->store, task->id, task->key, record, n_bytes, &is_new, err));
    HRF_TRY(hrf_store_add_event(run->store, "task", task->key, err));
    task->state = HRF_TASK_FINISHED;
    task->cached = false;
    run->summary.n_tasks_run++;
    run->patches_done += task->kind == HRF_TASK_INFER ? task->n_patches : 0;
    run->phases[task->kind].last = hrf_clock_seconds();
    hrf_breaker_succeeded(&run->breaker);
    return task->kind == HRF_TASK_TILE ? run_plan_infer(run, task->slide_id, err) : HRF_OK;
}

/* Collects one task of an attempt. *ended: it has a result or failed by its own word. */
static enum hrf_status collect_task(struct run *run, const char *directory, size_t index,
                                    struct hrf_task_row *task, bool *ended, struct hrf_error *err)
{
    char id[16];
    struct hrf_task_status status;
    HRF_AUTO_FREE char *record = NULL;
    size_t n_bytes = 0;
    snprintf(id, sizeof id, "t%04zu", index);
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status found = hrf_task_collect(directory, id, &status, &record, &n_bytes, &why);
    *ended = false;
    if (found == HRF_E_AGAIN)
        return HRF_OK;
    *ended = true;
    if (found != HRF_OK) /* a record that does not fit its hash: as if it had crashed */
        return judge_task(run, task, HRF_END_SIGNAL, why.text, err);
    enum hrf_status result;
    if (status.outcome != HRF_TASK_FAILED)
        result = accept_result(run, task, record, n_bytes, err);
    else
        result = judge_task(run, task, status.retryable ? HRF_END_SIGNAL : HRF_END_ERROR,
                            status.reason != NULL ? status.reason : "no reason given", err);
    hrf_task_status_release(&status);
    return result;
}

/* The last lines of a job's log, for the reason of a failure. */
static char *log_tail(const char *directory)
{
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "log");
    HRF_AUTO_CLOSE int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char text[600];
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    off_t from = size > 400 ? size - 400 : 0;
    ssize_t n = fd >= 0 ? pread(fd, text, 400, from) : 0;
    text[n > 0 ? n : 0] = '\0';
    char *end = text + strlen(text);
    while (end > text && (end[-1] == '\n' || end[-1] == ' '))
        *--end = '\0';
    char *line = strrchr(text, '\n');
    return hrf_text_printable(line != NULL ? line + 1 : text);
}

static char *describe_end(const struct hrf_sentinel *done, bool has_word, const char *directory)
{
    HRF_AUTO_FREE char *tail = log_tail(directory);
    const char *said = tail != NULL && tail[0] != '\0' ? tail : "it said nothing";
    if (!has_word)
        return hrf_format("the job vanished without a word (killed?); last: %s", said);
    if (!done->exited)
        return hrf_format("the worker was ended by signal %lld; last: %s", (long long)done->signal,
                          said);
    return hrf_format("the worker ended with exit code %lld: %s", (long long)done->exit_code, said);
}

static enum hrf_status end_attempt(struct run *run, struct hrf_attempt_row *attempt,
                                   const char *reason, struct hrf_error *err)
{
    attempt->state = HRF_ATTEMPT_ENDED;
    attempt->ended_ms = hrf_clock_wall_ms();
    hrf_free(attempt->reason);
    attempt->reason = hrf_strdup(reason);
    if (reason != NULL)
        HRF_TRY(hrf_store_add_event(run->store, attempt->job_id, reason, err));
    return hrf_store_put_attempt(run->store, attempt, err);
}

static enum hrf_status trip(struct run *run, const char *reason, struct hrf_attempt_row *attempt,
                            struct hrf_error *err)
{
    int64_t ran_ms = hrf_clock_wall_ms() - attempt->submitted_ms;
    if (!hrf_breaker_failed(&run->breaker, reason, ran_ms))
        return HRF_OK;
    return hrf_error_set(err, HRF_E_EXTERNAL,
                         "%d jobs in a row failed at once with the same message, so the rest is "
                         "not tried: %s",
                         HRF_BREAKER_LIMIT, reason);
}

/* Goes over an attempt's tasks; `over` says that no more will come from it. */
static enum hrf_status observe_attempt(struct run *run, struct hrf_attempt_row *attempt, bool over,
                                       const char *reason, enum hrf_end end, bool *changed,
                                       struct hrf_error *err)
{
    HRF_AUTO_FREE char *directory = run_attempt_path(run, attempt, NULL);
    bool is_short = false;
    if (directory == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    size_t index = 0;
    for (const char *at = attempt->task_ids; *at != '\0'; index++) {
        char *next;
        struct hrf_task_row *task = run_find_task(run, strtoll(at, &next, 10));
        at = next + (*next == ' ');
        if (task == NULL || task->state != HRF_TASK_RUNNING)
            continue;
        bool ended;
        HRF_TRY(collect_task(run, directory, index, task, &ended, err));
        *changed |= ended;
        if (!over || ended)
            continue;
        HRF_TRY(judge_task(run, task, end, reason, err));
        is_short = *changed = true;
    }
    return is_short && end == HRF_END_ERROR ? trip(run, reason, attempt, err) : HRF_OK;
}

static enum hrf_status look_at(struct run *run, struct hrf_attempt_row *attempt, bool *changed,
                               struct hrf_error *err)
{
    HRF_AUTO_FREE char *directory = run_attempt_path(run, attempt, NULL);
    struct hrf_sentinel done = { .attempt = 0 };
    struct hrf_job_handle handle = { .pid = attempt->pid, .start_time = attempt->start_time };
    if (directory == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a path");
    /* Presence first, then the word: a word written just before the end is still read. */
    bool gone = run->executor->look(&handle) == HRF_JOB_GONE;
    bool has_word = hrf_sentinel_read(directory, "done", &done, NULL) == HRF_OK &&
                    strcmp(done.run_id, run->run_id) == 0 && done.attempt == attempt->attempt;
    if (!gone && !has_word)
        return observe_attempt(run, attempt, false, NULL, HRF_END_CLEAN, changed, err);
    HRF_AUTO_FREE char *reason = describe_end(&done, has_word, directory);
    if (reason == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a reason");
    enum hrf_end end = hrf_state_end(has_word, done.exited, done.exit_code);
    enum hrf_status status = observe_attempt(run, attempt, true, reason, end, changed, err);
    *changed = true;
    HRF_TRY(end_attempt(run, attempt, end == HRF_END_CLEAN ? NULL : reason, err));
    return status;
}

static void forget_ended(struct run *run)
{
    size_t kept = 0;
    for (size_t i = 0; i < run->live.n_items; i++) {
        struct hrf_attempt_row *a = &run->live.items[i];
        if (a->state != HRF_ATTEMPT_ENDED) {
            run->live.items[kept++] = *a;
            continue;
        }
        hrf_free(a->job_id);
        hrf_free(a->directory);
        hrf_free(a->task_ids);
        hrf_free(a->reason);
    }
    run->live.n_items = kept;
}

enum hrf_status run_observe(struct run *run, bool *changed, struct hrf_error *err)
{
    *changed = false;
    if (run->live.n_items == 0)
        return HRF_OK;
    HRF_TRY(hrf_store_begin(run->store, err));
    enum hrf_status status = HRF_OK;
    for (size_t i = 0; i < run->live.n_items && status == HRF_OK; i++)
        status = look_at(run, &run->live.items[i], changed, err);
    if (!*changed) {
        hrf_store_rollback(run->store);
        return status;
    }
    hrf_crash_point("run.import.before_commit");
    struct hrf_error ignored;
    HRF_TRY(hrf_store_commit(run->store, status == HRF_OK ? err : &ignored));
    hrf_crash_point("run.import.after_commit");
    forget_ended(run);
    HRF_TRY(status);
    return run_reload_tasks(run, err);
}

/* ---- after a restart, and at the end ---- */

/* Nothing that this attempt still does counts: its workers see the file and stop. */
static void revoke(const struct run *run, const struct hrf_attempt_row *attempt)
{
    HRF_AUTO_FREE char *fence = run_attempt_path(run, attempt, "revoked");
    HRF_AUTO_CLOSE int fd = fence != NULL ? open(fence, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : -1;
    (void)fd; /* without its directory there is nothing to revoke */
}

static bool is_named(const struct hrf_attempt_rows *live, int64_t task_id)
{
    for (size_t i = 0; i < live->n_items; i++) {
        for (const char *at = live->items[i].task_ids; *at != '\0';) {
            char *next;
            if (strtoll(at, &next, 10) == task_id)
                return true;
            at = next + (*next == ' ');
        }
    }
    return false;
}

/* A start that was never confirmed is not trusted: it is revoked, and its tasks go again. */
enum hrf_status run_recover(struct run *run, struct hrf_error *err)
{
    struct hrf_attempt_rows all = { NULL, 0 };
    HRF_TRY(hrf_store_get_attempts(run->store, false, &all, err));
    run->next_job = (int64_t)all.n_items + 1;
    hrf_attempt_rows_release(&all);
    HRF_TRY(hrf_store_get_attempts(run->store, true, &run->live, err));
    HRF_TRY(hrf_store_begin(run->store, err));
    for (size_t i = 0; i < run->live.n_items; i++) {
        struct hrf_attempt_row *attempt = &run->live.items[i];
        if (attempt->state != HRF_ATTEMPT_INTENT)
            continue;
        revoke(run, attempt);
        HRF_TRY(end_attempt(run, attempt, "its start was never confirmed", err));
    }
    forget_ended(run);
    for (size_t i = 0; i < run->tasks.n_items; i++) {
        struct hrf_task_row *task = &run->tasks.items[i];
        if (task->state != HRF_TASK_RUNNING || is_named(&run->live, task->id))
            continue;
        task->state = HRF_TASK_PENDING;
        HRF_TRY(hrf_store_set_task(run->store, task->id, HRF_TASK_PENDING, task->n_attempts, NULL,
                                   err));
    }
    HRF_TRY(hrf_store_commit(run->store, err));
    if (run->live.n_items > 0)
        hrf_log_info("run", "found %zu jobs that went on", run->live.n_items);
    return HRF_OK;
}

enum hrf_status run_cancel_all(struct run *run, struct hrf_error *err)
{
    enum { PATIENCE_MS = 5000 };
    int64_t deadline = now_ms() + PATIENCE_MS;
    for (size_t i = 0; i < run->live.n_items; i++) {
        struct hrf_job_handle h = { run->live.items[i].pid, run->live.items[i].start_time };
        revoke(run, &run->live.items[i]);
        run->executor->cancel(&h, 0);
    }
    for (size_t i = 0; i < run->live.n_items;) {
        struct hrf_job_handle h = { run->live.items[i].pid, run->live.items[i].start_time };
        if (run->executor->look(&h) == HRF_JOB_GONE) {
            i++;
            continue;
        }
        if (now_ms() > deadline)
            run->executor->cancel(&h, 1);
        hrf_clock_sleep_ms(20);
    }
    HRF_TRY(hrf_store_begin(run->store, err));
    for (size_t i = 0; i < run->live.n_items; i++)
        HRF_TRY(end_attempt(run, &run->live.items[i], "cancelled", err));
    for (size_t i = 0; i < run->tasks.n_items; i++)
        if (run->tasks.items[i].state == HRF_TASK_RUNNING)
            HRF_TRY(hrf_store_set_task(run->store, run->tasks.items[i].id, HRF_TASK_PENDING,
                                       run->tasks.items[i].n_attempts, "cancelled", err));
    HRF_TRY(hrf_store_commit(run->store, err));
    forget_ended(run);
    return HRF_OK;
}
