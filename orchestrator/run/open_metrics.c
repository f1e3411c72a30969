/* open_metrics.c - see open_metrics.h. */
#include "orchestrator/run/open_metrics.h"

#include "base/text.h"

/* A label's value: backslash, quote and line end are escaped, what is not UTF-8 is shown. */
static void add_label(struct hrf_strbuf *out, const char *name, const char *value)
{
    HRF_AUTO_FREE char *shown = hrf_text_escaped(value);
    hrf_strbuf_addf(out, "%s=\"", name);
    for (const char *at = shown; *at != '\0'; at++) {
        if (*at == '\\' || *at == '"')
            hrf_strbuf_addc(out, '\\');
        hrf_strbuf_addc(out, *at);
    }
    hrf_strbuf_addc(out, '"');
}

static void begin_metric(struct hrf_strbuf *out, const char *metric, const char *help)
{
    hrf_strbuf_addf(out, "# HELP hires_flow_%s %s\n# TYPE hires_flow_%s gauge\n", metric, help,
                    metric);
}

/* Labels come in pairs of name and value; NULL ends them. */
static void add_sample(struct hrf_strbuf *out, const struct hrf_metrics *m, const char *metric,
                       const char *const labels[], double value)
{
    hrf_strbuf_addf(out, "hires_flow_%s{", metric);
    add_label(out, "run", m->name);
    hrf_strbuf_addc(out, ',');
    add_label(out, "directory", m->directory);
    for (; labels != NULL && *labels != NULL; labels += 2) {
        hrf_strbuf_addc(out, ',');
        add_label(out, labels[0], labels[1]);
    }
    hrf_strbuf_addf(out, "} %.15g\n", value);
}

void hrf_metrics_render(const struct hrf_metrics *m, struct hrf_strbuf *out)
{
    begin_metric(out, "slides", "slides of the cohort by state");
    for (int s = 0; s < HRF_N_SLIDE_STATES; s++) {
        const char *const labels[] = { "state", hrf_slide_state_text((enum hrf_slide_state)s),
                                       NULL };
        add_sample(out, m, "slides", labels, (double)m->slides[s]);
    }
    begin_metric(out, "tasks", "tasks by phase and state");
    for (int k = 0; k < HRF_N_TASK_KINDS; k++)
        for (int s = 0; s < HRF_N_TASK_STATES; s++) {
            const char *const labels[] = { "phase", hrf_task_kind_name((enum hrf_task_kind)k),
                                           "state", hrf_task_state_name((enum hrf_task_state)s),
                                           NULL };
            add_sample(out, m, "tasks", labels, (double)m->tasks[k][s]);
        }
    begin_metric(out, "jobs", "jobs that wait or run");
    add_sample(out, m, "jobs", NULL, (double)m->n_jobs);
    begin_metric(out, "patches_scored", "patches that are scored, at all precisions");
    add_sample(out, m, "patches_scored", NULL, (double)m->patches_scored);
    begin_metric(out, "patches_known", "patches to score, of the slides that are tiled");
    add_sample(out, m, "patches_known", NULL, (double)m->patches_known);
    begin_metric(out, "patches_per_second", "over the last half minute");
    add_sample(out, m, "patches_per_second", NULL, m->patches_per_second);
    begin_metric(out, "driven", "1 while hires-flow run drives the run, 0 after its end");
    add_sample(out, m, "driven", NULL, m->is_driven);
    begin_metric(out, "updated_timestamp_seconds", "when this was written, since 1970");
    add_sample(out, m, "updated_timestamp_seconds", NULL, (double)m->now_ms / 1000);
    hrf_strbuf_adds(out, "# EOF\n");
}
