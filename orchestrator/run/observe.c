/* observe.c - finds out what became of the jobs: from their sentinels first, then from the
 * executor. Tasks without a result are tried again, later or with more resources, or are given up.
 */
#include "base/clock.h"
#include "base/crash.h"
#include "base/directory.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/path.h"
#include "base/text.h"
#include "orchestrator/run/run_private.h"
#include "schema/record/job.h"
#include "schema/record/scores.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* LOOKS: how many jobs' directories are read in one loop iteration, so that an iteration is short
 * however many jobs there are. The next iteration continues with the next jobs. */
enum { LOOKS = 512 };

/* ---- tasks ---- */

/* What events about a task are about. */
static char *subject_of(struct run *run, const struct hrf_task_row *task)
{
    const struct hrf_slide_row *slide = run_find_slide(run, task->slide_id);
    return slide != NULL
               ? hrf_strdup(slide->name)
               : hrf_format("training %lld in %s", (long long)task->first_patch, task->precision);
}

static enum hrf_status break_task(struct run *run, struct hrf_task_row *task, int64_t n_tries,
                                  const char *reason, struct hrf_error *err)
{
    HRF_AUTO_FREE char *subject = subject_of(run, task);
    HRF_CHECK_MEMORY(subject != NULL, err, "no memory for an event");
    task->state = HRF_TASK_BROKEN;
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

/* Decides whether a task that ended without a result is tried again. */
static enum hrf_status judge_task(struct run *run, struct hrf_task_row *task, enum hrf_end end,
                                  bool progress, const char *reason, struct hrf_error *err)
{
    struct run_task_state *state = &run->task_states[task - run->tasks.items];
    const struct hrf_retry retry = hrf_state_retry(&run->policy, end, task->n_attempts, progress,
                                                   &state->ends, &run->random);
    if (!retry.again)
        return give_up(run, task, &retry, reason, err);
    HRF_TRY(note_retry(run, task, &retry, reason, err));
    state->not_before_ms = hrf_clock_ms() + retry.delay_ms;
    task->state = HRF_TASK_PENDING;
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
    HRF_AUTO_FREE char *part = run_part_path(run, task->key);
    if (part != NULL && task->kind == HRF_TASK_INFER)
        unlink(part);
    task->state = HRF_TASK_FINISHED;
    task->cached = false;
    run->summary.n_tasks_run++;
    run->phases[task->kind].last = hrf_clock_seconds();
    hrf_breaker_succeeded(&run->breaker);
    if (task->kind == HRF_TASK_INFER && run->n_heads > 0)
        return run_plan_head(run, task->slide_id, err);
    if (task->kind != HRF_TASK_TILE)
        return HRF_OK;
    run->needs_reload = true; /* the infer tasks of its slide are added */
    return run_plan_infer(run, task->slide_id, err);
}

static enum hrf_status find_record(const struct run *run, const struct run_job *job, const char *id,
                                   struct hrf_task_status *status, char **record, size_t *n_bytes,
                                   struct hrf_error *err)
{
    enum hrf_status found = HRF_E_AGAIN;
    for (int k = run_newest_start(job); k >= 0 && found == HRF_E_AGAIN; k--) {
        HRF_AUTO_FREE char *directory = run_start_path(run, job, k);
        HRF_CHECK_MEMORY(directory != NULL, err, "no memory for a path");
        found = hrf_task_collect(directory, id, status, record, n_bytes, err);
    }
    return found;
}

/* True if a result may still come: it is not there yet, or cannot be read at present, which may
 * pass while the job runs. */
static bool may_still_come(enum hrf_status found, bool is_last)
{
    return found == HRF_E_AGAIN || (!is_last && found == HRF_E_EXTERNAL);
}

/* Checks that the status and the record that were found belong to this task. */
static enum hrf_status check_result(struct run *run, const struct hrf_task_row *task,
                                    const char *id, const struct hrf_task_status *status,
                                    const char *record, size_t n_bytes, struct hrf_error *err)
{
    struct hrf_record_identity expected;
    if (status->task_key[0] != '\0' && strcmp(status->task_key, task->key) != 0)
        return hrf_error_set(err, HRF_E_USER,
                             "%s.json: it is the status of another task (%.12s..., expected "
                             "%.12s...)",
                             id, status->task_key, task->key);
    if (status->outcome == HRF_TASK_FAILED)
        return HRF_OK;
    if (record == NULL)
        return hrf_error_set(err, HRF_E_USER, "%s.json: it reports success, but there is no record",
                             id);
    HRF_TRY(run_expect(run, task, &expected, err));
    HRF_AUTO_FREE char *where = hrf_format("%s.rec", id);
    return hrf_record_check(record, n_bytes, hrf_task_record_kind(task->kind), &expected,
                            where != NULL ? where : id, err);
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

/* Collects one task. *ended: it has a result, or its worker reported a failure. is_last: the task
 * is not looked at again. */
static enum hrf_status collect_task(struct run *run, struct run_job *job, size_t index,
                                    struct hrf_task_row *task, bool is_last, bool *ended,
                                    struct hrf_error *err)
{
    char id[24];
    struct hrf_task_status status;
    HRF_AUTO_FREE char *record = NULL;
    size_t n_bytes = 0;
    struct hrf_error why = { .status = HRF_OK };
    snprintf(id, sizeof id, "t%04zu", index);
    enum hrf_status found = find_record(run, job, id, &status, &record, &n_bytes, &why);
    if (found == HRF_OK) {
        found = check_result(run, task, id, &status, record, n_bytes, &why);
        if (found != HRF_OK)
            hrf_task_status_release(&status);
    }
    *ended = false;
    if (may_still_come(found, is_last))
        return HRF_OK;
    *ended = true;
    if (found != HRF_OK) /* the record does not match its hash or its task */
        return judge_task(run, task, HRF_END_DAMAGED, false, why.text, err);
    enum hrf_status result;
    if (status.outcome != HRF_TASK_FAILED) {
        job->n_results++;
        note_times(job, task, record, n_bytes);
        result = accept_result(run, task, record, n_bytes, err);
    } else {
        result = judge_task(run, task, status.retryable ? HRF_END_FAILED : HRF_END_ERROR, false,
                            status.reason != NULL ? status.reason : "no reason given", err);
    }
    hrf_task_status_release(&status);
    return result;
}

/* Collects the job's next tasks up to the first that has not ended; tasks end in order. */
static enum hrf_status collect(struct run *run, struct run_job *job, bool *changed,
                               struct hrf_error *err)
{
    for (; job->n_collected < job->n_tasks; job->n_collected++) {
        struct hrf_task_row *task = run_find_task(run, job->task_ids[job->n_collected]);
        bool ended = true;
        if (task != NULL && task->state == HRF_TASK_RUNNING)
            HRF_TRY(collect_task(run, job, job->n_collected, task, false, &ended, err));
        if (!ended)
            return HRF_OK;
        *changed = true;
    }
    return HRF_OK;
}

bool run_read_sentinel(const struct run *run, const struct run_job *job, const char *name,
                       struct hrf_sentinel *out)
{
    HRF_AUTO_FREE char *directory = run_start_path(run, job, run_newest_start(job));
    return directory != NULL && hrf_sentinel_read(directory, name, out, NULL) == HRF_OK &&
           strcmp(out->run_id, run->run_id) == 0 && strcmp(out->job_id, job->row.job_id) == 0 &&
           out->attempt == job->row.attempt;
}

/* ---- how a job ended ---- */

struct verdict {
    enum hrf_end end;
    char *reason;  /* heap: text for users */
    char *message; /* heap: the same without what differs between jobs with the same fault */
};

/* Reads the end of a file, at most `size` - 1 bytes. */
static void read_tail(const char *path, char *out, size_t size)
{
    HRF_AUTO_CLOSE int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    const off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    const off_t from = end > (off_t)size - 1 ? end - ((off_t)size - 1) : 0;
    const ssize_t n = fd >= 0 ? pread(fd, out, size - 1, from) : 0;
    out[n > 0 ? n : 0] = '\0';
}

/* True if the text contains a message of slurmstepd or the kernel about too little memory. Source:
 * slurmstepd/mgr.c, jobacct_gather, mm/oom_kill.c. */
static bool has_memory_mark(const char *text)
{
    static const char *const marks[] = { "oom-kill",
                                         "oom_kill",
                                         "Out Of Memory",
                                         "Exceeded job memory limit",
                                         "Exceeded step memory limit",
                                         "memory limit",
                                         "Out of memory: Kill",
                                         NULL };
    for (size_t i = 0; marks[i] != NULL; i++)
        if (strstr(text, marks[i]) != NULL)
            return true;
    return false;
}

static char *last_line(char *text)
{
    char *end = text + strlen(text);
    while (end > text && (end[-1] == '\n' || end[-1] == ' '))
        *--end = '\0';
    char *line = strrchr(text, '\n');
    return hrf_text_printable(line != NULL ? line + 1 : text);
}

struct job_logs {
    char log[2048], output[2048]; /* ends of the worker's log and of the scheduler's output file */
    char *said;                   /* heap: last line of the log; of the output if there is no log */
};

static void read_logs(const struct run *run, const struct run_job *job, struct job_logs *logs)
{
    HRF_AUTO_FREE char *directory = run_start_path(run, job, run_newest_start(job));
    HRF_AUTO_FREE char *log = directory != NULL ? hrf_path_join(directory, "log") : NULL;
    const struct hrf_executor_ops *ops = run->executor->ops;
    HRF_AUTO_FREE char *output = ops->output_path != NULL
                                     ? ops->output_path(run->executor, run->directory, &job->handle)
                                     : NULL;
    read_tail(log, logs->log, sizeof logs->log);
    read_tail(output, logs->output, sizeof logs->output);
    char *text = logs->log[0] != '\0' ? logs->log : logs->output;
    char copy[2048];
    snprintf(copy, sizeof copy, "%s", text);
    logs->said = last_line(copy);
}

static void add_view(const struct hrf_job_view *view, struct hrf_strbuf *out)
{
    if (view == NULL || view->state[0] == '\0')
        return;
    hrf_strbuf_addf(out, "; the scheduler says %s", view->state);
    if (view->reason[0] != '\0' && strcmp(view->reason, view->state) != 0)
        hrf_strbuf_addf(out, " (%s)", view->reason);
    if (view->node[0] != '\0')
        hrf_strbuf_addf(out, " on %s", view->node);
}

static char *describe_end(const struct hrf_sentinel *done, bool has_sentinel, enum hrf_end end,
                          const struct hrf_job_view *view, const char *last)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    const char *said = hrf_state_rule(end)->said;
    hrf_strbuf_adds(&text, said != NULL ? said : "");
    if (!has_sentinel && end != HRF_END_HUNG)
        hrf_strbuf_adds(&text, end == HRF_END_WITHDRAWN
                                   ? "it had not begun"
                                   : "the job vanished without a word (killed?)");
    else if (done->reason[0] != '\0')
        hrf_strbuf_adds(&text, done->reason);
    else if (!done->exited)
        hrf_strbuf_addf(&text, "the worker was ended by signal %lld", (long long)done->signal);
    else
        hrf_strbuf_addf(&text, "the worker ended with exit code %lld", (long long)done->exit_code);
    add_view(view, &text);
    hrf_strbuf_addf(&text, "; last: %s",
                    last != NULL && last[0] != '\0' ? last : "it said nothing");
    return hrf_strbuf_detach(&text);
}

static enum hrf_status judge(struct run *run, struct run_job *job, struct hrf_sentinel *done,
                             bool has_sentinel, struct verdict *out, struct hrf_error *err)
{
    struct job_logs logs = { .said = NULL };
    HRF_AUTO_FREE char *directory = run_start_path(run, job, run_newest_start(job));
    const bool was_revoked = job->revoked || (directory != NULL && hrf_fence_is_set(directory));
    read_logs(run, job, &logs);
    const struct hrf_end_evidence evidence = { .has_sentinel = has_sentinel,
                                               .exited = done->exited,
                                               .was_asked = done->was_asked,
                                               .was_warned = done->was_warned,
                                               .was_out_of_memory = done->was_out_of_memory ||
                                                                    has_memory_mark(logs.log) ||
                                                                    has_memory_mark(logs.output),
                                               .exit_code = done->exit_code,
                                               .signal = done->signal,
                                               .cause = job->view.cause };
    out->end = hrf_state_judge(&evidence);
    if (job->life.was_ended && out->end != HRF_END_NO_RESULT && out->end != HRF_END_ERROR)
        out->end = HRF_END_HUNG;
    else if (was_revoked && hrf_state_rule(out->end)->may_be_ours)
        out->end = HRF_END_WITHDRAWN;
    if (out->end == HRF_END_HUNG)
        snprintf(done->reason, sizeof done->reason, "%s", job->life.silence);
    out->reason = describe_end(done, has_sentinel, out->end, &job->view, logs.said);
    out->message = describe_end(done, has_sentinel, out->end, NULL, logs.said);
    hrf_free(logs.said);
    HRF_CHECK_MEMORY(out->reason != NULL && out->message != NULL, err, "no memory for a reason");
    if (hrf_state_rule(out->end)->counts_against_node && job->view.node[0] != '\0')
        hrf_node_exclusion_add_failure(&run->exclusion, job->view.node, hrf_clock_ms());
    return HRF_OK;
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

/* Moves the partial result of a task that the job did not finish to where the next attempt finds
 * it. Returns true if there was one. */
static bool take_part(const struct run *run, const struct run_job *job, size_t index,
                      const struct hrf_task_row *task)
{
    char id[24];
    HRF_AUTO_FREE char *to = run_part_path(run, task->key);
    HRF_AUTO_FREE char *parts = to != NULL ? hrf_path_directory(to) : NULL;
    struct hrf_error err;
    snprintf(id, sizeof id, "t%04zu", index);
    for (int k = run_newest_start(job); k >= 0 && parts != NULL; k--) {
        HRF_AUTO_FREE char *directory = run_start_path(run, job, k);
        HRF_AUTO_FREE char *from = directory != NULL ? hrf_task_part_path(directory, id) : NULL;
        if (from == NULL || !hrf_path_exists(from))
            continue;
        if (hrf_path_make_directories(parts, &err) == HRF_OK && rename(from, to) == 0)
            return true;
        hrf_log_warning("run", "the finished part of a task cannot be saved in '%s'", to);
    }
    return false;
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
    struct verdict verdict = { .end = HRF_END_NO_RESULT };
    if (job->n_collected == job->n_tasks)
        return run_end_job(run, job, NULL, err);
    enum hrf_status judged = judge(run, job, done, has_sentinel, &verdict, err);
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
        HRF_TRY(collect_task(run, job, job->n_collected, task, true, &ended, err));
        if (!ended) {
            const bool progress = take_part(run, job, job->n_collected, task) || job->n_results > 0;
            HRF_TRY(judge_task(run, task, is_short ? end_behind(verdict.end) : verdict.end,
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
        task->state = HRF_TASK_PENDING;
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
    HRF_TRY(collect(run, job, changed, err));
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
    return run->needs_reload ? run_reload_tasks(run, err) : HRF_OK;
}
