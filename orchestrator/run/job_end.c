/* job_end.c - how a job ended, by its sentinel, its log and what the scheduler says, and the
 * sentence about it.
 */
#include "base/clock.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "orchestrator/run/run_private.h"
#include "schema/record/job.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* The last line that says something: mpirun ends with a ruler. */
static char *last_line(char *text)
{
    char *end = text + strlen(text);
    while (end > text && strchr("\n -=*", end[-1]) != NULL)
        *--end = '\0';
    char *line = strrchr(text, '\n');
    line = line != NULL ? line + 1 : text;
    return hrf_text_printable(line + strspn(line, " "));
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

enum hrf_status run_judge_end(struct run *run, struct run_job *job, struct hrf_sentinel *done,
                              bool has_sentinel, struct run_verdict *out, struct hrf_error *err)
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
