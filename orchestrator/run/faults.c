/* faults.c - see faults.h. A job's end follows from its sentinel, its log and what the scheduler
 * says. */
#include "orchestrator/run/faults.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/own_process.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void run_faults_release(struct run_faults *faults)
{
    hrf_free(faults->lacking);
}

/* Returns the last line that has words: mpirun ends its messages with a line of dashes. */
static char *last_line(char *text)
{
    char *end = text + strlen(text);
    while (end > text && strchr("\n -=*", end[-1]) != NULL)
        *--end = '\0';
    char *line = strrchr(text, '\n');
    line = line != NULL ? line + 1 : text;
    return hrf_text_escaped(line + strspn(line, " "));
}

bool run_faults_is_lacking(const struct run_setup *setup, const struct hrf_failure *failure)
{
    struct stat here;
    return setup->executor->quiet_ms > 0 && failure->lacks != NULL &&
           stat(failure->lacks, &here) == 0;
}

char *run_faults_explain(const struct run_setup *setup, const struct hrf_failure *failure)
{
    char reason[128];
    if (!run_faults_is_lacking(setup, failure))
        return hrf_strdup(failure->error.text);
    if (strerror_r((int)failure->lacks_errno, reason, sizeof reason) != 0)
        snprintf(reason, sizeof reason, "error %lld", (long long)failure->lacks_errno);
    return hrf_format(
        "node %s does not see '%s' (%s), which this machine does: it has to be at the "
        "same place on every node, or the node left out (executor.slurm.options: "
        "[--exclude=%s]) (%s)",
        failure->host, failure->lacks, reason, failure->host, failure->error.text);
}

struct job_logs {
    char *log, *output; /* heap: ends of the worker's log and of the scheduler's output file */
    char *said;         /* heap: last line of the log; of the output if there is no log */
};

/* The end of a file below the run directory; "" if it cannot be read. Heap. */
static char *read_end(const char *directory, const char *path)
{
    enum { LENGTH = 2047 };
    char *text = NULL;
    size_t n = 0;
    bool is_cut = false;
    if (path == NULL ||
        hrf_file_read_tail_below(directory, path, LENGTH, &text, &n, &is_cut, NULL) != HRF_OK)
        return hrf_strdup("");
    return text;
}

static void read_logs(const struct run_setup *setup, const struct run_job *job,
                      struct job_logs *logs)
{
    HRF_AUTO_FREE char *directory = run_job_start_path(setup, job);
    HRF_AUTO_FREE char *log = hrf_path_join(directory, "log");
    const struct hrf_executor_ops *ops = setup->executor->ops;
    HRF_AUTO_FREE char *output = ops->output_path != NULL
                                     ? ops->output_path(setup->executor, setup->directory,
                                                        &job->handle)
                                     : NULL;
    logs->log = read_end(setup->directory, log);
    logs->output = read_end(setup->directory, output);
    HRF_AUTO_FREE char *copy = hrf_strdup(logs->log[0] != '\0' ? logs->log : logs->output);
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

/* Describes an end for users; heap. `worker_text`: what the worker said of it; NULL: nothing. */
static char *describe_end(const struct hrf_sentinel *done, bool has_sentinel, enum hrf_end end,
                          const struct hrf_job_view *view, const char *worker_text,
                          const char *last)
{
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    const char *said = hrf_state_rule(end)->said;
    hrf_strbuf_adds(&text, said != NULL ? said : "");
    if (end == HRF_END_NOT_BEGUN)
        hrf_strbuf_adds(&text, "its script failed on the node");
    else if (!has_sentinel && end != HRF_END_HUNG)
        hrf_strbuf_adds(&text, end == HRF_END_WITHDRAWN
                                   ? "it had not begun"
                                   : "the job vanished without a word (killed?)");
    else if (worker_text != NULL)
        hrf_strbuf_adds(&text, worker_text);
    else if (done->reason[0] != '\0')
        hrf_strbuf_adds(&text, done->reason);
    else if (done->exited && done->exit_code == HRF_EXIT_NO_MEMORY)
        hrf_strbuf_adds(&text, "the worker found no memory left");
    else if (!done->exited)
        hrf_strbuf_addf(&text, "the worker was ended by signal %lld", (long long)done->signal);
    else
        hrf_strbuf_addf(&text, "the worker ended with exit code %lld", (long long)done->exit_code);
    add_view(view, &text);
    if (worker_text != NULL)
        return hrf_strbuf_detach(&text);
    const bool has_said = last != NULL && last[0] != '\0';
    hrf_strbuf_addf(&text, "; last: %s",
                    has_said                   ? last
                    : end == HRF_END_NOT_BEGUN ? "it said nothing, not even into its output file, "
                                                 "as where the run directory is not on the node"
                                               : "it said nothing");
    return hrf_strbuf_detach(&text);
}

void run_faults_judge_end(struct run_faults *faults, const struct run_setup *setup,
                          struct run_job *job, struct hrf_sentinel *done, bool has_sentinel,
                          struct run_verdict *out)
{
    const struct hrf_executor_ops *ops = setup->executor->ops;
    struct job_logs logs = { .said = NULL };
    HRF_AUTO_RELEASE(hrf_failure) failure = { .lacks = NULL };
    HRF_AUTO_FREE char *directory = run_job_start_path(setup, job);
    const bool was_revoked = job->revoked || hrf_fence_is_set(directory);
    read_logs(setup, job, &logs);
    (void)!hrf_failure_read(directory, &failure, NULL);
    const struct hrf_end_evidence evidence = {
        .node_lacks = run_faults_is_lacking(setup, &failure),
        .has_begun = has_sentinel || run_job_has_begun(setup, job),
        .has_sentinel = has_sentinel,
        .exited = done->exited,
        .was_asked = done->was_asked,
        .was_warned = done->was_warned,
        .was_out_of_memory = done->was_out_of_memory || (ops->says_out_of_memory != NULL &&
                                                         (ops->says_out_of_memory(logs.log) ||
                                                          ops->says_out_of_memory(logs.output))),
        .exit_code = done->exit_code,
        .signal = done->signal,
        .cause = job->view.cause
    };
    out->end = hrf_state_judge(&evidence);
    if (job->life.was_ended && out->end != HRF_END_NO_RESULT && out->end != HRF_END_ERROR)
        out->end = HRF_END_HUNG;
    else if (was_revoked && hrf_state_rule(out->end)->may_be_ours)
        out->end = HRF_END_WITHDRAWN;
    if (out->end == HRF_END_HUNG)
        snprintf(done->reason, sizeof done->reason, "%s", job->life.silence);
    HRF_AUTO_FREE char *worker_text = failure.error.status != HRF_OK && has_sentinel &&
                                              out->end != HRF_END_HUNG
                                          ? run_faults_explain(setup, &failure)
                                          : NULL;
    out->reason = describe_end(done, has_sentinel, out->end, &job->view, worker_text, logs.said);
    out->message = describe_end(done, has_sentinel, out->end, NULL, worker_text, logs.said);
    if (out->end == HRF_END_NODE_LACKS)
        HRF_MOVE(out->lacks, failure.lacks);
    hrf_free(logs.log);
    hrf_free(logs.output);
    hrf_free(logs.said);
    if (hrf_state_rule(out->end)->counts_against_node)
        run_faults_blame_node(faults, job);
}

void run_faults_blame_node(struct run_faults *faults, const struct run_job *job)
{
    if (job->view.node[0] != '\0')
        hrf_node_exclusion_add_failure(&faults->exclusion, job->view.node, hrf_clock_ms());
}

/* ---- many faults of one kind ---- */

enum hrf_status run_faults_trip(struct run_faults *faults, const char *message, int64_t ran_ms,
                                struct hrf_error *err)
{
    if (!hrf_breaker_failed(&faults->breaker, message, ran_ms))
        return HRF_OK;
    return hrf_error_set(err, HRF_E_EXTERNAL,
                         "%d jobs in a row failed at once with the same message, so the rest is "
                         "not tried: %s",
                         HRF_BREAKER_LIMIT, message);
}

/* True if this machine has the folder into which the scheduler writes the job's output. */
static bool has_output_folder(const struct run_setup *setup, const struct run_job *job)
{
    const struct hrf_executor_ops *ops = setup->executor->ops;
    HRF_AUTO_FREE char *file = ops->output_path != NULL
                                   ? ops->output_path(setup->executor, setup->directory,
                                                      &job->handle)
                                   : NULL;
    HRF_AUTO_FREE char *folder = file != NULL ? hrf_path_directory(file) : NULL;
    return folder == NULL || hrf_path_exists(folder);
}

enum hrf_status run_faults_trip_node(struct run_faults *faults, const struct run_setup *setup,
                                     const struct run_jobs *jobs, const struct run_job *job,
                                     const char *lacks, const char *reason, struct hrf_error *err)
{
    HRF_AUTO_FREE char *program = NULL;
    hrf_log_warning("run", "job %s (%lld): %s", job->row.job_id, (long long)job->handle.id, reason);
    hrf_free(faults->lacking);
    faults->lacking = hrf_strdup(reason);
    /* A job of an earlier driver may lack what has been mended since. Without the folder for its
     * output no node could begin a job; the next submission makes one. */
    if (job->handle.since_ms == 0 || !has_output_folder(setup, job) ||
        !hrf_node_breaker_failed(&faults->launches, lacks, job->view.node))
        return HRF_OK;
    struct hrf_sentinel done;
    for (size_t i = 0; i < jobs->n; i++)
        if (run_job_has_begun(setup, &jobs->live[i]) &&
            !run_job_read_sentinel(setup, &jobs->live[i], "done", &done))
            return HRF_OK;
    if (lacks[0] != '\0')
        return hrf_error_set(
            err, HRF_E_EXTERNAL,
            "%d jobs in a row ran on machines that lack the same file, so the rest "
            "is not tried; the last one: %s",
            HRF_BREAKER_LIMIT, reason);
    HRF_TRY(hrf_process_self(&program, err));
    return hrf_error_set(err, HRF_E_EXTERNAL,
                         "%d jobs in a row ended before they began, so the rest is not tried; the "
                         "last one: %s. This machine sees the program '%s' and the run directory "
                         "'%s': every node has to see both at the same place, and what "
                         "executor.slurm.prologue and modules name (jobs/array-*/*.out has what a "
                         "node said)",
                         HRF_BREAKER_LIMIT, reason, program, setup->directory);
}
