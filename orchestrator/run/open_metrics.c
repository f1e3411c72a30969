/* open_metrics.c - renders open_metrics.h, and writes the driver's metrics to the workflow's file.
 */
#include "orchestrator/run/open_metrics.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "orchestrator/run/run_private.h"

#include <string.h>

/* A label's value: backslash, quote and line end are escaped, what is not UTF-8 is shown. */
static void add_label(struct hrf_strbuf *out, const char *name, const char *value)
{
    HRF_AUTO_FREE char *shown = hrf_text_printable(value);
    hrf_strbuf_addf(out, "%s=\"", name);
    for (const char *at = shown != NULL ? shown : ""; *at != '\0'; at++) {
        if (*at == '\\' || *at == '"')
            hrf_strbuf_addc(out, '\\');
        hrf_strbuf_addc(out, *at);
    }
    hrf_strbuf_addc(out, '"');
}

static void begin(struct hrf_strbuf *out, const char *metric, const char *help)
{
    hrf_strbuf_addf(out, "# HELP hires_flow_%s %s\n# TYPE hires_flow_%s gauge\n", metric, help,
                    metric);
}

/* Labels come in pairs of name and value; NULL ends them. */
static void add(struct hrf_strbuf *out, const struct hrf_metrics *m, const char *metric,
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
    begin(out, "slides", "slides of the cohort by state");
    for (int s = 0; s < HRF_N_SLIDE_STATES; s++) {
        const char *const labels[] = { "state", hrf_slide_state_text((enum hrf_slide_state)s),
                                       NULL };
        add(out, m, "slides", labels, (double)m->slides[s]);
    }
    begin(out, "tasks", "tasks by phase and state");
    for (int k = 0; k < HRF_N_TASK_KINDS; k++)
        for (int s = 0; s < HRF_N_TASK_STATES; s++) {
            const char *const labels[] = { "phase", hrf_task_kind_name((enum hrf_task_kind)k),
                                           "state", hrf_task_state_name((enum hrf_task_state)s),
                                           NULL };
            add(out, m, "tasks", labels, (double)m->tasks[k][s]);
        }
    begin(out, "jobs", "jobs that wait or run");
    add(out, m, "jobs", NULL, (double)m->n_jobs);
    begin(out, "patches_scored", "patches that are scored, at all precisions");
    add(out, m, "patches_scored", NULL, (double)m->patches_scored);
    begin(out, "patches_known", "patches to score, of the slides that are tiled");
    add(out, m, "patches_known", NULL, (double)m->patches_known);
    begin(out, "patches_per_second", "over the last half minute");
    add(out, m, "patches_per_second", NULL, m->patches_per_second);
    begin(out, "driven", "1 while hires-flow run drives the run, 0 after its end");
    add(out, m, "driven", NULL, m->is_driven);
    begin(out, "updated_timestamp_seconds", "when this was written, since 1970");
    add(out, m, "updated_timestamp_seconds", NULL, (double)m->now_ms / 1000);
    hrf_strbuf_adds(out, "# EOF\n");
}

void run_write_metrics(struct run *run, const struct hrf_progress_facts *facts, bool is_driven)
{
    const char *path = run->workflow->metrics;
    struct hrf_error err = { .text = "no memory" };
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    if (path == NULL)
        return;
    struct hrf_metrics m = { .name = run->workflow->name,
                             .directory = run->directory,
                             .n_jobs = (int64_t)run->n_live,
                             .patches_scored = facts->infer_done,
                             .patches_known = facts->infer_total,
                             .patches_per_second = is_driven ? facts->patches_per_second : 0,
                             .is_driven = is_driven,
                             .now_ms = hrf_clock_wall_ms() };
    for (size_t i = 0; i < run->slides.n_items; i++)
        m.slides[run->slides.items[i].state]++;
    memcpy(m.tasks, run->counts.n, sizeof m.tasks);
    hrf_metrics_render(&m, &text);
    if (hrf_strbuf_status(&text, &err) == HRF_OK &&
        hrf_file_write_atomic(path, text.text, text.length, &err) == HRF_OK)
        return;
    if (!run->has_metrics_trouble) /* the run matters more */
        hrf_log_warning("run", "metrics: %s", err.text);
    run->has_metrics_trouble = true;
}
