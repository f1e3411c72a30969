/* collect.c - collects what a job has left of its tasks: the record, the file of embeddings that it
 * names, or the part of one that an interrupted attempt had done. Each is found, checked, and put
 * where it belongs. A task without a result is tried again, later or with more resources, or is
 * given up.
 */
#include "base/clock.h"
#include "base/crash.h"
#include "base/directory.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "orchestrator/run/run_private.h"
#include "schema/record/embedding_file.h"
#include "schema/record/job.h"
#include "schema/record/scores.h"
#include "schema/store/embeddings.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a result ---- */

/* What a job has left of a task. */
struct found {
    bool has_status;
    struct hrf_task_status status;
    char *record; /* heap; NULL: none */
    size_t n_bytes;
    char *embeddings; /* heap; the path that its file of embeddings would have */
};

static void found_release(struct found *found)
{
    if (found->has_status)
        hrf_task_status_release(&found->status);
    hrf_free(found->record);
    hrf_free(found->embeddings);
}

/* Finds what the job has left of a task. `id`: the task within the job. HRF_E_AGAIN: the task has
 * not ended. `out` begins zeroed; the caller releases it, also on failure. */
static enum hrf_status find_record(const struct run_setup *setup, const struct run_job *job,
                                   const char *id, struct found *out, struct hrf_error *err)
{
    enum hrf_status found = HRF_E_AGAIN;
    for (int k = run_job_newest_start(job); k >= 0 && found == HRF_E_AGAIN; k--) {
        HRF_AUTO_FREE char *directory = run_job_kth_start_path(setup, job, k);
        found = hrf_task_collect(directory, id, &out->status, &out->record, &out->n_bytes, err);
        if (found != HRF_OK)
            continue;
        out->has_status = true;
        out->embeddings = hrf_task_embeddings_path(directory, id);
    }
    return found;
}

/* Checks that the status and the record that were found belong to this task. */
static enum hrf_status check_result(const struct run *run, const struct hrf_task_row *task,
                                    const char *id, const struct found *found,
                                    struct hrf_error *err)
{
    const struct hrf_record_identity expected = run_expect(run, task);
    const struct hrf_task_status *status = &found->status;
    if (status->task_key[0] != '\0' && strcmp(status->task_key, task->key) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "%s.json: it is the status of another task (%.12s..., expected "
                             "%.12s...)",
                             id, status->task_key, task->key);
    if (status->outcome == HRF_TASK_FAILED)
        return HRF_OK;
    if (found->record == NULL)
        return hrf_error_set(err, HRF_E_USER, "%s.json: it reports success, but there is no record",
                             id);
    HRF_AUTO_FREE char *where = hrf_format("%s.rec", id);
    return hrf_record_check(found->record, found->n_bytes, hrf_task_record_kind(task->kind),
                            &expected, where, err);
}

/* True if the store has the task's result already, from another attempt. */
static bool has_result(const struct run_setup *setup, const struct hrf_task_row *task)
{
    struct hrf_record_identity expected = { .task = "" };
    HRF_AUTO_RELEASE(hrf_bytes) record = { NULL, 0 };
    snprintf(expected.task, sizeof expected.task, "%s", task->key);
    if (hrf_store_get_record(setup->store, task->kind, &expected, &record, NULL) != HRF_OK)
        return false;
    return true;
}

/* Moves the file of embeddings that a record names, once its bytes are checked, to where the store
 * looks for it; the record is to be committed after that. A driver that dies in between finds the
 * file there the next time. HRF_E_AGAIN: the file is not there, or not all of it. */
static enum hrf_status take_embeddings(const struct run_setup *setup,
                                       const struct hrf_task_row *task, const struct found *found,
                                       struct hrf_error *err)
{
    HRF_AUTO(hrf_scores) scores = NULL;
    HRF_AUTO_FREE char *to = NULL;
    if (task->kind != HRF_TASK_INFER || found->record == NULL ||
        !hrf_scores_name_embeddings(found->record, found->n_bytes))
        return HRF_OK;
    HRF_TRY(hrf_store_embeddings_path(setup->store, task->key, &to, err));
    HRF_AUTO_FREE char *folder = hrf_path_directory(to);
    HRF_TRY(
        hrf_scores_decode(found->record, found->n_bytes, NULL, "a task's record", &scores, err));
    if (has_result(setup, task)) {
        unlink(found->embeddings);
        return HRF_OK;
    }
    if (!hrf_path_exists(found->embeddings) && hrf_path_exists(to))
        return hrf_embedding_file_check(to, scores, true, err);
    const enum hrf_status status = hrf_embedding_file_check(found->embeddings, scores, true, err);
    if (status == HRF_E_USER)
        unlink(found->embeddings); /* the file is large and of no use */
    HRF_TRY(status);
    HRF_TRY(hrf_path_make_directories(folder, err));
    hrf_crash_point("run.embeddings.before_rename");
    if (rename(found->embeddings, to) != 0)
        return hrf_error_set_errno(err, errno, "cannot move '%s' to '%s'", found->embeddings, to);
    hrf_crash_point("run.embeddings.after_rename");
    return hrf_path_sync_directory(folder, err);
}

/* ---- a part ---- */

/* Removes the part of a task that has a result: nobody needs it. */
static void remove_part(const struct run_setup *setup, const struct hrf_task_row *task)
{
    HRF_AUTO_FREE char *part = run_part_path(setup, task->key);
    HRF_AUTO_FREE char *rows = hrf_part_rows_path(part);
    if (task->kind != HRF_TASK_INFER)
        return;
    unlink(part);
    unlink(rows);
}

bool run_take_part(const struct run_setup *setup, const struct run_job *job, size_t index,
                   const struct hrf_task_row *task)
{
    char id[24];
    HRF_AUTO_FREE char *to = run_part_path(setup, task->key);
    HRF_AUTO_FREE char *to_rows = hrf_part_rows_path(to);
    HRF_AUTO_FREE char *parts = hrf_path_directory(to);
    struct hrf_error err;
    snprintf(id, sizeof id, "t%04zu", index);
    for (int k = run_job_newest_start(job); k >= 0; k--) {
        HRF_AUTO_FREE char *directory = run_job_kth_start_path(setup, job, k);
        HRF_AUTO_FREE char *from = hrf_task_part_path(directory, id);
        HRF_AUTO_FREE char *rows = hrf_task_embeddings_path(directory, id);
        if (!hrf_path_exists(from)) {
            unlink(rows); /* without a part nobody knows which of them are there */
            continue;
        }
        /* In a run of embeddings the rows of the part are moved first. If the driver dies in
         * between, they lie beside an earlier part, and the next attempt takes those rows that
         * match its checksums. */
        const bool is_ready = hrf_path_make_directories(parts, &err) == HRF_OK &&
                              (!hrf_path_exists(rows) || rename(rows, to_rows) == 0);
        hrf_crash_point("run.part.rows");
        if (is_ready && rename(from, to) == 0)
            return true;
        hrf_log_warning("run", "the finished part of a task cannot be saved in '%s'", to);
    }
    return false;
}

/* ---- what becomes of the task ---- */

/* Returns why a task failed, with a note if the size of the slide's file has changed since the run
 * began; heap. */
static char *explain_reason(struct run *run, const struct hrf_task_row *task, const char *reason)
{
    struct stat st;
    const struct hrf_slide_row *slide = hrf_slide_rows_find(&run->slides, task->slide_id);
    if (slide == NULL || stat(slide->path, &st) != 0 || st.st_size == slide->n_bytes)
        return hrf_strdup(reason);
    return hrf_format("its size changes (%lld bytes when the run began, then %lld): it is being "
                      "copied; run again when it is whole (%s)",
                      (long long)slide->n_bytes, (long long)st.st_size, reason);
}

static enum hrf_status break_task(struct run *run, struct hrf_task_row *task, int64_t n_tries,
                                  const char *why, struct hrf_error *err)
{
    HRF_AUTO_FREE char *subject = run_task_subject(run, task),
                       *reason = explain_reason(run, task, why);
    run_tasks_set_state(&run->tasks, task, HRF_TASK_BROKEN);
    hrf_free(task->reason);
    task->reason = hrf_strdup(reason);
    HRF_TRY(hrf_store_set_task(run->setup.store, task->id, HRF_TASK_BROKEN, n_tries, reason, err));
    HRF_TRY(hrf_store_add_event(run->setup.store, subject, reason, err));
    HRF_AUTO_FREE char *name = hrf_text_escaped(subject);
    hrf_log_warning("run", "%s failed: %s", name, reason);
    return HRF_OK;
}

/* Gives the task up although it has tries left; says so if the limit on such ends is the reason. */
static enum hrf_status give_up(struct run *run, struct hrf_task_row *task,
                               const struct hrf_retry *retry, const char *reason,
                               struct hrf_error *err)
{
    if (retry->limit == 0)
        return break_task(run, task, retry->n_tries, reason, err);
    HRF_AUTO_FREE char *text = hrf_format(
        "%s; it is not tried again in this run, because %lld more attempts before this one ended "
        "in the same way without progress: run again to continue",
        reason, (long long)retry->limit);
    return break_task(run, task, retry->n_tries, text, err);
}

static enum hrf_status note_retry(struct run *run, const struct hrf_task_row *task,
                                  const struct hrf_retry *retry, const char *reason,
                                  struct hrf_error *err)
{
    HRF_AUTO_FREE char *event = hrf_format(
        "an attempt ended without a result (%s); %s%lld of %lld tries used up; again in %.1f s%s%s",
        reason, retry->n_tries > task->n_attempts ? "" : "this does not use up a try, ",
        (long long)retry->n_tries, (long long)run->faults.policy.retries + 1,
        (double)retry->delay_ms / 1000, retry->more_time > 0 ? " with 50 % more time" : "",
        retry->more_memory > 0 ? " with 50 % more memory" : "");
    HRF_AUTO_FREE char *subject = run_task_subject(run, task);
    return hrf_store_add_event(run->setup.store, subject, event, err);
}

enum hrf_status run_judge_task(struct run *run, struct hrf_task_row *task, enum hrf_end end,
                               bool progress, const char *reason, struct hrf_error *err)
{
    struct run_task_state *state = &run->tasks.states[task - run->tasks.rows.items];
    const struct hrf_retry retry = hrf_state_retry(&run->faults.policy, end, task->n_attempts,
                                                   progress, &state->ends, &run->random);
    if (!retry.again)
        return give_up(run, task, &retry, reason, err);
    HRF_TRY(note_retry(run, task, &retry, reason, err));
    state->not_before_ms = hrf_clock_ms() + retry.delay_ms;
    run_tasks_set_state(&run->tasks, task, HRF_TASK_PENDING);
    task->n_attempts = retry.n_tries;
    if (retry.more_time > 0 || retry.more_memory > 0) {
        task->time_level += retry.more_time;
        task->memory_level += retry.more_memory;
        HRF_TRY(hrf_store_set_task_levels(run->setup.store, task->id, task->time_level,
                                          task->memory_level, err));
    }
    return hrf_store_set_task(run->setup.store, task->id, HRF_TASK_PENDING, task->n_attempts,
                              reason, err);
}

static enum hrf_status accept_result(struct run *run, struct hrf_task_row *task, const char *record,
                                     size_t n_bytes, struct hrf_error *err)
{
    bool is_new;
    HRF_TRY(hrf_store_finish_task(run->setup.store, task->id, task->key, record, n_bytes, &is_new,
                                  err));
    HRF_TRY(hrf_store_add_event(run->setup.store, "task", task->key, err));
    remove_part(&run->setup, task);
    run_tasks_set_state(&run->tasks, task, HRF_TASK_FINISHED);
    task->cached = false;
    run->summary.n_tasks_run++;
    if (task->kind == HRF_TASK_CALIBRATE)
        run->calibration.last_result = hrf_clock_seconds();
    hrf_breaker_succeeded(&run->faults.breaker);
    hrf_breaker_succeeded(&run->faults.launches.failures);
    if (task->kind == HRF_TASK_INFER && run->heads.n > 0)
        return run_plan_head(run, task->slide_id, err);
    if (task->kind != HRF_TASK_TILE)
        return HRF_OK;
    run_tasks_note_new(&run->tasks); /* the infer tasks of its slide */
    run->tasks.slide_notes[task->slide_id].is_unread = true;
    return run_plan_infer(run, task->slide_id, err);
}

/* Notes the times of a task from its record. A record without times is valid, too. */
static void note_times(struct run_job *job, const struct hrf_task_row *task, const char *record,
                       size_t n_bytes)
{
    struct hrf_timing timing;
    if (task->kind != HRF_TASK_INFER ||
        hrf_scores_read_timing(record, n_bytes, "a task's record", &timing, NULL) != HRF_OK)
        return;
    if (timing.wait >= 0.0 && timing.compute >= 0.0) {
        job->row.usage.wait_ms += llround(timing.wait * 1e3);
        job->row.usage.compute_ms += llround(timing.compute * 1e3);
    }
}

/* Ends a task of which the worker reported that it failed. What its node lacks is the node's fault,
 * and no try is used up; each such job counts once against the node. */
static enum hrf_status end_failed(struct run *run, struct run_job *job, struct hrf_task_row *task,
                                  const struct hrf_failure *failure, struct hrf_error *err)
{
    const bool is_lacking = run_faults_is_lacking(&run->setup, failure);
    const enum hrf_end end = is_lacking ? HRF_END_NODE_LACKS
                             : hrf_status_row(failure->error.status)->may_end_otherwise
                                 ? HRF_END_FAILED
                                 : HRF_END_ERROR;
    HRF_AUTO_FREE char *reason = run_faults_explain(&run->setup, failure);
    HRF_TRY(run_judge_task(run, task, end, false, reason, err));
    if (!is_lacking || job->is_lacking)
        return HRF_OK;
    job->is_lacking = true;
    run_faults_blame_node(&run->faults, job);
    return run_faults_trip_node(&run->faults, &run->setup, &run->jobs, job, failure->lacks, reason,
                                err);
}

/* Takes over a record that is checked, or the failure that the worker reported. */
static enum hrf_status end_task(struct run *run, struct run_job *job, struct hrf_task_row *task,
                                const struct found *found, struct hrf_error *err)
{
    const struct hrf_task_status *status = &found->status;
    if (status->outcome == HRF_TASK_FAILED)
        return end_failed(run, job, task, &status->failure, err);
    job->n_results++;
    note_times(job, task, found->record, found->n_bytes);
    return accept_result(run, task, found->record, found->n_bytes, err);
}

enum hrf_status run_collect_task(struct run *run, struct run_job *job, size_t index,
                                 struct hrf_task_row *task, bool is_last, bool *ended,
                                 struct hrf_error *err)
{
    char id[24];
    HRF_AUTO_RELEASE(found) found = { .record = NULL };
    struct hrf_error why = { .status = HRF_OK };
    snprintf(id, sizeof id, "t%04zu", index);
    enum hrf_status status = find_record(&run->setup, job, id, &found, &why);
    if (status == HRF_OK)
        status = check_result(run, task, id, &found, &why);
    if (status == HRF_OK)
        status = take_embeddings(&run->setup, task, &found, &why);
    /* A result may still come that is not there yet, or cannot be read at present, which may pass
     * while the job runs. */
    const bool may_come = status == HRF_E_AGAIN || (!is_last && status == HRF_E_EXTERNAL);
    *ended = !may_come || (is_last && found.has_status);
    enum hrf_status result = HRF_OK;
    if (*ended) /* not HRF_OK: the record does not match its hash or its task, or what it names is
                   not there */
        result = status == HRF_OK
                     ? end_task(run, job, task, &found, err)
                     : run_judge_task(run, task, HRF_END_DAMAGED, false, why.text, err);
    return result;
}

enum hrf_status run_collect(struct run *run, struct run_job *job, bool *changed,
                            struct hrf_error *err)
{
    for (; job->n_collected < job->n_tasks; job->n_collected++) {
        struct hrf_task_row *task = run_tasks_find(&run->tasks, job->task_ids[job->n_collected]);
        bool ended = true;
        if (task != NULL && task->state == HRF_TASK_RUNNING)
            HRF_TRY(run_collect_task(run, job, job->n_collected, task, false, &ended, err));
        if (!ended)
            return HRF_OK;
        *changed = true;
    }
    return HRF_OK;
}
