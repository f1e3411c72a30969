/* collect.c - collects what the tasks of a job have come to. A task without a result is tried
 * again, later or with more resources, or is given up.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "orchestrator/run/run_private.h"
#include "schema/record/job.h"
#include "schema/record/scores.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

/* What events about a task are about. */
static char *subject_of(struct run *run, const struct hrf_task_row *task)
{
    const struct hrf_slide_row *slide = run_find_slide(run, task->slide_id);
    return slide != NULL
               ? hrf_strdup(slide->name)
               : hrf_format("training %lld in %s", (long long)task->first_patch, task->precision);
}

/* Why a task failed, with what explains it if the slide's file has another size by now than when
 * the run began; heap. */
static char *explain(struct run *run, const struct hrf_task_row *task, const char *reason)
{
    struct stat st;
    const struct hrf_slide_row *slide = run_find_slide(run, task->slide_id);
    if (slide == NULL || stat(slide->path, &st) != 0 || st.st_size == slide->n_bytes)
        return hrf_strdup(reason);
    return hrf_format("its size changes (%lld bytes when the run began, then %lld): it is being "
                      "copied; run again when it is whole (%s)",
                      (long long)slide->n_bytes, (long long)st.st_size, reason);
}

static enum hrf_status break_task(struct run *run, struct hrf_task_row *task, int64_t n_tries,
                                  const char *why, struct hrf_error *err)
{
    HRF_AUTO_FREE char *subject = subject_of(run, task), *reason = explain(run, task, why);
    HRF_CHECK_MEMORY(subject != NULL && reason != NULL, err, "no memory for an event");
    run_set_state(run, task, HRF_TASK_BROKEN);
    hrf_free(task->reason);
    task->reason = hrf_strdup(reason);
    HRF_TRY(hrf_store_set_task(run->store, task->id, HRF_TASK_BROKEN, n_tries, reason, err));
    HRF_TRY(hrf_store_add_event(run->store, subject, reason, err));
    HRF_AUTO_FREE char *name = hrf_text_printable(subject);
    hrf_log_warning("run", "%s failed: %s", name != NULL ? name : "slide", reason);
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
    return break_task(run, task, retry->n_tries, text != NULL ? text : reason, err);
}

static enum hrf_status note_retry(struct run *run, const struct hrf_task_row *task,
                                  const struct hrf_retry *retry, const char *reason,
                                  struct hrf_error *err)
{
    HRF_AUTO_FREE char *event = hrf_format(
        "an attempt ended without a result (%s); %s%lld of %lld tries used up; again in %.1f s%s%s",
        reason, retry->n_tries > task->n_attempts ? "" : "this does not use up a try, ",
        (long long)retry->n_tries, (long long)run->policy.retries + 1,
        (double)retry->delay_ms / 1000, retry->more_time > 0 ? " with 50 % more time" : "",
        retry->more_memory > 0 ? " with 50 % more memory" : "");
    HRF_AUTO_FREE char *subject = subject_of(run, task);
    if (event == NULL || subject == NULL)
        return HRF_OK;
    return hrf_store_add_event(run->store, subject, event, err);
}

enum hrf_status run_judge_task(struct run *run, struct hrf_task_row *task, enum hrf_end end,
                               bool progress, const char *reason, struct hrf_error *err)
{
    struct run_task_state *state = &run->task_states[task - run->tasks.items];
    const struct hrf_retry retry = hrf_state_retry(&run->policy, end, task->n_attempts, progress,
                                                   &state->ends, &run->random);
    if (!retry.again)
        return give_up(run, task, &retry, reason, err);
    HRF_TRY(note_retry(run, task, &retry, reason, err));
    state->not_before_ms = hrf_clock_ms() + retry.delay_ms;
    run_set_state(run, task, HRF_TASK_PENDING);
    task->n_attempts = retry.n_tries;
    if (retry.more_time > 0 || retry.more_memory > 0) {
        task->time_level += retry.more_time;
        task->memory_level += retry.more_memory;
        HRF_TRY(hrf_store_set_task_levels(run->store, task->id, task->time_level,
                                          task->memory_level, err));
    }
    return hrf_store_set_task(run->store, task->id, HRF_TASK_PENDING, task->n_attempts, reason,
                              err);
}

static enum hrf_status accept_result(struct run *run, struct hrf_task_row *task, const char *record,
                                     size_t n_bytes, struct hrf_error *err)
{
    bool is_new;
    HRF_TRY(hrf_store_finish_task(run->store, task->id, task->key, record, n_bytes, &is_new, err));
    HRF_TRY(hrf_store_add_event(run->store, "task", task->key, err));
    run_remove_part(run, task);
    run_set_state(run, task, HRF_TASK_FINISHED);
    task->cached = false;
    run->summary.n_tasks_run++;
    run->phases[task->kind].last = hrf_clock_seconds();
    hrf_breaker_succeeded(&run->breaker);
    if (task->kind == HRF_TASK_INFER && run->n_heads > 0)
        return run_plan_head(run, task->slide_id, err);
    if (task->kind != HRF_TASK_TILE)
        return HRF_OK;
    run_note_new(run); /* the infer tasks of its slide */
    run->slide_notes[task->slide_id].is_unread = true;
    return run_plan_infer(run, task->slide_id, err);
}

/* True if a result may still come: it is not there yet, or cannot be read at present, which may
 * pass while the job runs. */
static bool may_still_come(enum hrf_status found, bool is_last)
{
    return found == HRF_E_AGAIN || (!is_last && found == HRF_E_EXTERNAL);
}

/* What the task's own clock says; a record without times is a record all the same. */
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

/* Takes over a record that is checked, or the failure that the worker reported. */
static enum hrf_status end_task(struct run *run, struct run_job *job, struct hrf_task_row *task,
                                const struct run_found *found, struct hrf_error *err)
{
    const struct hrf_task_status *status = &found->status;
    if (status->outcome == HRF_TASK_FAILED)
        return run_judge_task(run, task, status->retryable ? HRF_END_FAILED : HRF_END_ERROR, false,
                              status->reason != NULL ? status->reason : "no reason given", err);
    job->n_results++;
    note_times(job, task, found->record, found->n_bytes);
    return accept_result(run, task, found->record, found->n_bytes, err);
}

enum hrf_status run_collect_task(struct run *run, struct run_job *job, size_t index,
                                 struct hrf_task_row *task, bool is_last, bool *ended,
                                 struct hrf_error *err)
{
    char id[24];
    struct run_found found = { .record = NULL };
    struct hrf_error why = { .status = HRF_OK };
    snprintf(id, sizeof id, "t%04zu", index);
    enum hrf_status status = run_find_record(run, job, id, &found, &why);
    if (status == HRF_OK)
        status = run_check_result(run, task, id, &found, &why);
    if (status == HRF_OK)
        status = run_take_embeddings(run, task, &found, &why);
    *ended = !may_still_come(status, is_last) || (is_last && found.has_status);
    enum hrf_status result = HRF_OK;
    if (*ended) /* not HRF_OK: the record does not match its hash or its task, or what it names is
                   not there */
        result = status == HRF_OK
                     ? end_task(run, job, task, &found, err)
                     : run_judge_task(run, task, HRF_END_DAMAGED, false, why.text, err);
    run_found_release(&found);
    return result;
}

enum hrf_status run_collect(struct run *run, struct run_job *job, bool *changed,
                            struct hrf_error *err)
{
    for (; job->n_collected < job->n_tasks; job->n_collected++) {
        struct hrf_task_row *task = run_find_task(run, job->task_ids[job->n_collected]);
        bool ended = true;
        if (task != NULL && task->state == HRF_TASK_RUNNING)
            HRF_TRY(run_collect_task(run, job, job->n_collected, task, false, &ended, err));
        if (!ended)
            return HRF_OK;
        *changed = true;
    }
    return HRF_OK;
}
