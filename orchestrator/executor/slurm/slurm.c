/* slurm.c - runs jobs as elements of Slurm arrays. Each submission is one sbatch; one squeue
 * watches all of them (slurm_queue.h). */
#include "base/clock.h"
#include "base/crash.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/log.h"
#include "base/own_process.h"
#include "base/path.h"
#include "orchestrator/executor/slurm/accounting.h"
#include "orchestrator/executor/slurm/command.h"
#include "orchestrator/executor/slurm/node_fit.h"
#include "orchestrator/executor/slurm/parse.h"
#include "orchestrator/executor/slurm/script.h"
#include "orchestrator/executor/slurm/slurm_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CANCEL_BATCH = 200, SOON_MS = 2000, QUIET_MS = 30000 };
enum { GRACE_MS = 15000, FULL_MS = 5000, TICK_MS = 250, SUBMIT_MS = 1000 };

struct slurm {
    struct hrf_executor base;
    const struct hrf_workflow_executor *settings; /* borrowed */
    char run_id[64];
    char *program;
    struct hrf_slurm_limits limits;
    struct hrf_slurm_offer offer;
    bool has_offer;
    struct hrf_slurm_queue *queue;
};

static struct slurm *slurm_of(struct hrf_executor *executor)
{
    return (struct slurm *)executor;
}

static void slurm_destroy(struct hrf_executor *executor)
{
    struct slurm *s = slurm_of(executor);
    hrf_slurm_queue_destroy(s->queue);
    hrf_free(s->program);
    hrf_free(s);
}

/* ---- limits ---- */

/* Asks the controller for its limits. What it does not answer is asked again at the next
 * submission. */
static void find_limits(struct slurm *s)
{
    static const char *const config[] = { "scontrol", "show", "config", NULL };
    struct hrf_slurm_output out;
    hrf_slurm_queue_wait_for_limits(s->queue);
    if (s->limits.site[0] == '\0') {
        if (!hrf_slurm_ask(config, &out))
            return;
        hrf_slurm_config_parse(out.output.text, &s->limits);
        hrf_slurm_output_release(&out);
    }
    if (!s->has_offer)
        s->has_offer = hrf_slurm_offer_ask(s->settings->slurm.partition, NULL, &s->offer);
}

static int64_t slurm_limit(struct hrf_executor *executor)
{
    struct slurm *s = slurm_of(executor);
    find_limits(s);
    return hrf_slurm_max_array(&s->limits);
}

/* ---- submit ---- */

static void slurm_wrap(struct hrf_executor *executor, const char *kind, struct hrf_text_list *out)
{
    hrf_slurm_wrap(slurm_of(executor)->settings, kind, out);
}

static int64_t slurm_threads(const struct hrf_executor *executor, const char *kind,
                             int64_t max_jobs)
{
    (void)max_jobs; /* each job has its own allocation */
    const struct slurm *s = (const struct slurm *)executor;
    return strcmp(kind, "tile") == 0 ? 1 : s->settings->slurm.cpus_per_rank;
}

static int64_t slurm_ranks(const struct hrf_executor *executor, const char *kind)
{
    return hrf_slurm_ranks(((const struct slurm *)executor)->settings, kind);
}

/* Writes the script, and makes the directory for the elements' output, which Slurm does not make.
 */
static enum hrf_status write_script(const struct hrf_slurm_job *job, struct hrf_error *err)
{
    HRF_AUTO_FREE char *name = hrf_slurm_directory(job->submission->number);
    HRF_AUTO_FREE char *directory = hrf_path_join(job->submission->run_directory, name);
    HRF_AUTO_FREE char *path = hrf_path_join(directory, "job.sh");
    HRF_TRY(hrf_path_make_directories(directory, err));
    HRF_AUTO_RELEASE(hrf_strbuf) script = HRF_STRBUF_INIT;
    hrf_slurm_script(job, &script);
    return hrf_file_write_atomic(path, script.text, script.length, err);
}

static enum hrf_status judge_answer(struct slurm *s, const struct hrf_slurm_output *out,
                                    struct hrf_job_handle *handles, size_t n,
                                    enum hrf_submit_outcome *outcome, struct hrf_error *err)
{
    char line[400], cluster[64];
    int64_t id = 0;
    enum hrf_slurm_answer answer = hrf_slurm_sbatch_answer(
        hrf_slurm_succeeded(out), out->output.text, out->errors.text, &id, cluster);
    if (out->result.timed_out)
        answer = HRF_SLURM_UNSURE;
    hrf_slurm_error_line(out->errors.text, line, sizeof line);
    hrf_slurm_queue_ask_soon(s->queue, SOON_MS);
    switch (answer) {
    case HRF_SLURM_TAKEN:
        for (size_t i = 0; i < n; i++)
            handles[i].id = id;
        *outcome = HRF_SUBMIT_TAKEN;
        return HRF_OK;
    case HRF_SLURM_FULL:
        *outcome = HRF_SUBMIT_FULL;
        hrf_error_set(err, HRF_E_AGAIN, "sbatch: %s", line);
        return HRF_OK;
    case HRF_SLURM_UNSURE:
        *outcome = HRF_SUBMIT_UNSURE;
        hrf_error_set(err, HRF_E_AGAIN, "sbatch: %s",
                      out->result.timed_out ? "no answer"
                      : line[0] != '\0'     ? line
                                            : "it named no job");
        return HRF_OK;
    case HRF_SLURM_REFUSED:
        break;
    }
    return hrf_error_set(err, HRF_E_USER,
                         "Slurm refuses the jobs: %s; see executor.slurm in the "
                         "workflow",
                         line);
}

/* Adds what was asked for and what the nodes have if that is why sbatch refused; sbatch names
 * neither. */
static enum hrf_status explain_refusal(const struct slurm *s, const char *kind,
                                       struct hrf_error *err)
{
    struct hrf_error why;
    if (hrf_slurm_fit_ask(s->settings, kind, &why) != HRF_E_USER || err == NULL)
        return HRF_E_USER;
    HRF_AUTO_FREE char *answer = hrf_strdup(err->text);
    return hrf_error_set(err, HRF_E_USER, "%s (%s)", why.text, answer);
}

static enum hrf_status slurm_submit(struct hrf_executor *executor,
                                    const struct hrf_submission *submission,
                                    struct hrf_job_handle *handles,
                                    enum hrf_submit_outcome *outcome, struct hrf_error *err)
{
    struct slurm *s = slurm_of(executor);
    HRF_AUTO_RELEASE(hrf_text_list) words = { NULL, 0 };
    struct hrf_slurm_output out;
    struct hrf_slurm_job job = { .settings = s->settings,
                                 .submission = submission,
                                 .program = s->program };
    hrf_slurm_offer_limits(&s->offer, &job);
    HRF_TRY(write_script(&job, err));
    hrf_slurm_sbatch(&job, &words);
    HRF_AUTO_FREE const char **argv = hrf_calloc(words.n_items + 1, sizeof *argv);
    for (size_t i = 0; i < words.n_items; i++)
        argv[i] = words.items[i];
    HRF_TRY(hrf_slurm_run(argv, HRF_SLURM_SUBMIT_DEADLINE_MS, &out, err));
    hrf_crash_point("slurm.sbatch.after");
    for (size_t i = 0; i < submission->n_jobs; i++)
        handles[i].since_ms = hrf_clock_ms();
    const enum hrf_status status = judge_answer(s, &out, handles, submission->n_jobs, outcome, err);
    hrf_slurm_output_release(&out);
    return status == HRF_E_USER ? explain_refusal(s, submission->kind, err) : status;
}

/* ---- watching ---- */

static void slurm_poll(struct hrf_executor *executor, bool *is_new)
{
    *is_new = hrf_slurm_queue_poll(slurm_of(executor)->queue);
}

static void slurm_look(struct hrf_executor *executor, const struct hrf_job_handle *handle,
                       struct hrf_job_view *out)
{
    hrf_slurm_queue_look(slurm_of(executor)->queue, handle, out);
}

static void slurm_explain(struct hrf_executor *executor, const struct hrf_job_handle *handle,
                          struct hrf_job_view *view)
{
    struct slurm *s = slurm_of(executor);
    find_limits(s);
    if (!hrf_slurm_accounting_find(&s->limits, s->run_id, handle, view))
        hrf_log_debug("slurm", "nobody knows how job %lld_%lld ended", (long long)handle->id,
                      (long long)handle->array_index);
}

/* ---- cancel ---- */

static void scancel(const char *const ids[], size_t n, bool hard)
{
    const char *argv[CANCEL_BATCH + 4];
    struct hrf_slurm_output out;
    size_t k = 0;
    argv[k++] = "scancel";
    if (hard)
        argv[k++] = "--signal=KILL";
    for (size_t i = 0; i < n; i++)
        argv[k++] = ids[i];
    argv[k] = NULL;
    if (hrf_slurm_ask(argv, &out))
        hrf_slurm_output_release(&out);
}

/* Array elements joined into few arguments of scancel, such as "12_[0,4,7]": each argument is one
 * message to the controller. */
struct cancel_list {
    char words[CANCEL_BATCH][1024];
    size_t n, length; /* number of words; length of the last one without its ']' */
    int64_t id;       /* the array of the last word */
    bool hard;
};

static void send_cancels(struct cancel_list *list)
{
    const char *ids[CANCEL_BATCH];
    for (size_t i = 0; i < list->n; i++)
        ids[i] = list->words[i];
    if (list->n > 0)
        scancel(ids, list->n, list->hard);
    list->n = 0;
    list->id = 0;
}

static void end_word(struct cancel_list *list)
{
    if (list->n > 0)
        snprintf(list->words[list->n - 1] + list->length, 2, "]");
}

static void add_cancel(struct cancel_list *list, int64_t id, int64_t array_index)
{
    enum { ROOM = 24 }; /* bytes for one more element and the bracket */
    if (list->n > 0 && id == list->id && list->length + ROOM < sizeof list->words[0]) {
        char *word = list->words[list->n - 1];
        list->length += (size_t)snprintf(word + list->length, ROOM, ",%lld",
                                         (long long)array_index);
        return;
    }
    end_word(list);
    if (list->n == CANCEL_BATCH)
        send_cancels(list);
    list->id = id;
    list->length = (size_t)snprintf(list->words[list->n++], sizeof list->words[0], "%lld_[%lld",
                                    (long long)id, (long long)array_index);
}

static void slurm_cancel(struct hrf_executor *executor, const struct hrf_job_handle *handles,
                         size_t n, bool hard)
{
    struct slurm *s = slurm_of(executor);
    HRF_AUTO_FREE struct cancel_list *list = hrf_calloc(1, sizeof *list);
    list->hard = hard;
    for (size_t i = 0; i < n; i++) {
        const int64_t id = hrf_slurm_queue_live_id(s->queue, &handles[i]);
        if (id > 0)
            add_cancel(list, id, handles[i].array_index);
    }
    end_word(list);
    send_cancels(list);
    hrf_slurm_queue_ask_soon(s->queue, 0);
}

static char *slurm_output_path(struct hrf_executor *executor, const char *run_directory,
                               const struct hrf_job_handle *handle)
{
    (void)executor;
    HRF_AUTO_FREE char *name = hrf_slurm_output_path(handle->submission, handle->array_index);
    return hrf_path_join(run_directory, name);
}

static bool slurm_node_is_silent(struct hrf_executor *executor, const char *node, char *state,
                                 size_t size)
{
    (void)executor;
    const char *const argv[] = { "sinfo", "-h", "-n", node, "-o", "%T", NULL };
    struct hrf_slurm_output out;
    if (!hrf_slurm_ask(argv, &out))
        return false;
    const bool is_silent = hrf_slurm_node_is_silent(out.output.text, state, size);
    hrf_slurm_output_release(&out);
    return is_silent;
}

static const char *slurm_waiting_reason(const struct hrf_job_view *view, bool *never)
{
    const char *text = hrf_slurm_reason(view->reason[0] != '\0' ? view->reason : "None", never);
    return text != NULL ? text : "for a reason that is not known here";
}

static const char *slurm_trouble(const struct hrf_executor *executor)
{
    return hrf_slurm_queue_trouble(((const struct slurm *)executor)->queue);
}

static const struct hrf_executor_ops ops = {
    .name = "slurm",
    .destroy = slurm_destroy,
    .limit = slurm_limit,
    .wrap = slurm_wrap,
    .threads = slurm_threads,
    .ranks = slurm_ranks,
    .submit = slurm_submit,
    .poll = slurm_poll,
    .look = slurm_look,
    .explain = slurm_explain,
    .cancel = slurm_cancel,
    .output_path = slurm_output_path,
    .node_is_silent = slurm_node_is_silent,
    .says_out_of_memory = hrf_slurm_says_out_of_memory,
    .waiting_reason = slurm_waiting_reason,
    .trouble = slurm_trouble,
};

enum hrf_status hrf_executor_slurm_create(const struct hrf_workflow_executor *settings,
                                          const char *run_id, struct hrf_executor **out,
                                          struct hrf_error *err)
{
    struct slurm *s = hrf_calloc(1, sizeof *s);
    s->base = (struct hrf_executor){ .ops = &ops,
                                     .quiet_ms = hrf_slurm_wait_ms(QUIET_MS),
                                     .grace_ms = hrf_slurm_wait_ms(GRACE_MS),
                                     .full_ms = hrf_slurm_wait_ms(FULL_MS),
                                     .tick_ms = TICK_MS,
                                     .submit_ms = hrf_slurm_wait_ms(SUBMIT_MS),
                                     .can_grow = true };
    s->settings = settings;
    snprintf(s->run_id, sizeof s->run_id, "%s", run_id);
    s->queue = hrf_slurm_queue_create(run_id, &s->limits);
    const enum hrf_status status = hrf_process_self(&s->program, err);
    if (status != HRF_OK) {
        slurm_destroy(&s->base);
        return status;
    }
    *out = &s->base;
    return HRF_OK;
}
