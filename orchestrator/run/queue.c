/* queue.c - describes the scheduler's view of the run's jobs in one line, for `status` and `why`.
 */
#include "base/log.h"
#include "orchestrator/run/jobs.h"

#include <stdio.h>
#include <string.h>

enum { MAX_REASONS = 16 };

struct waiting_reason {
    char reason[64]; /* as the scheduler spells it */
    const char *text;
    bool never;
    int64_t n;
};

struct standing {
    int64_t n_jobs, n_running, n_unsure, n_waiting, n_unheard;
    struct waiting_reason reasons[MAX_REASONS];
    size_t n_reasons;
};

static void count_waiting(const struct run_setup *setup, const struct run_job *job,
                          struct standing *s)
{
    size_t k = 0;
    s->n_waiting++;
    while (k < s->n_reasons && strcmp(s->reasons[k].reason, job->view.reason) != 0)
        k++;
    if (k == MAX_REASONS)
        return; /* the job is still part of the total */
    struct waiting_reason *w = &s->reasons[k];
    if (k == s->n_reasons) {
        s->n_reasons++;
        *w = (struct waiting_reason){ .n = 0 };
        w->text = setup->executor->ops->waiting_reason(&job->view, &w->never);
        snprintf(w->reason, sizeof w->reason, "%s", job->view.reason);
    }
    w->n++;
}

static void describe_standing(const struct standing *s, const char *trouble, struct hrf_strbuf *out)
{
    hrf_strbuf_addf(out, "%lld running, %lld waiting", (long long)s->n_running,
                    (long long)s->n_waiting);
    for (size_t i = 0; i < s->n_reasons; i++)
        hrf_strbuf_addf(out, "%s%lld %s (%s)", i == 0 ? ": " : ", ", (long long)s->reasons[i].n,
                        s->reasons[i].text,
                        s->reasons[i].reason[0] != '\0' ? s->reasons[i].reason : "no reason given");
    if (s->n_unheard > 0)
        hrf_strbuf_addf(out, ", %lld of which nothing is heard yet", (long long)s->n_unheard);
    if (s->n_unsure > 0)
        hrf_strbuf_addf(out, ", %lld without a confirmed submission", (long long)s->n_unsure);
    if (trouble[0] != '\0')
        hrf_strbuf_addf(out, "; this is from before the scheduler stopped answering: %s", trouble);
}

static void warn_never(const struct standing *s, const char *before)
{
    for (size_t i = 0; i < s->n_reasons; i++) {
        const struct waiting_reason *w = &s->reasons[i];
        if (w->never && strstr(before, w->reason) == NULL)
            hrf_log_warning("run", "%lld %s %s (%s): %s will not run unless that is changed",
                            (long long)w->n, w->n == 1 ? "job waits" : "jobs wait", w->text,
                            w->reason, w->n == 1 ? "it" : "they");
    }
}

enum hrf_status run_jobs_record_queue(struct run_jobs *jobs, const struct run_setup *setup,
                                      bool *changed, struct hrf_error *err)
{
    const char *trouble = hrf_executor_trouble(setup->executor);
    struct standing s = { .n_jobs = 0 };
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    if (setup->executor->ops->waiting_reason == NULL)
        return HRF_OK;
    for (size_t i = 0; i < jobs->n; i++) {
        const struct run_job *job = &jobs->live[i];
        if (job->has_ended)
            continue;
        s.n_jobs++;
        s.n_running += job->view.observed == HRF_JOB_RUNNING;
        s.n_unsure += job->unsure_since_ms != 0;
        s.n_unheard += job->view.observed == HRF_JOB_UNKNOWN && job->unsure_since_ms == 0;
        if (job->view.observed == HRF_JOB_WAITING)
            count_waiting(setup, job, &s);
    }
    if (s.n_jobs > 0)
        describe_standing(&s, trouble, &text);
    else if (trouble[0] != '\0')
        hrf_strbuf_addf(&text, "no job is running or queued; the scheduler does not answer: %s",
                        trouble);
    if (strcmp(text.text, jobs->queue) == 0)
        return HRF_OK;
    warn_never(&s, jobs->queue);
    snprintf(jobs->queue, sizeof jobs->queue, "%s", text.text);
    *changed = true;
    return hrf_store_set_fact(setup->store, "queue", text.text, err);
}
