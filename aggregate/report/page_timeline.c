/* page_timeline.c - every job on a line of time: waiting for the executor, running, how it ended;
 * and a table of its processors, memory and waits.
 *
 * Times in which nothing ran, as between a run and its continuation a day later, are cut out. */
#include "aggregate/report/page_timeline.h"
#include "aggregate/report/page_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS_BY_NAME = 40, /* up to so many jobs each has a row of its own, with its wait */
    MAX_LANES = 48,    /* of more jobs, those that run at once */
    TABLE_ROWS = 100,  /* the longest; report.json has all */
    MIN_GAP_MS = 60000 /* shorter pauses are part of the run */
};

static int by_submission(const void *a, const void *b)
{
    const struct hrf_cohort_job *const *x = a, *const *y = b;
    const int64_t left = (*x)->submitted_ms, right = (*y)->submitted_ms;
    return left != right ? (left < right ? -1 : 1) : strcmp((*x)->job_id, (*y)->job_id);
}

static int by_length(const void *a, const void *b)
{
    const struct hrf_cohort_job *const *x = a, *const *y = b;
    const int64_t left = hrf_cohort_job_end(*x) - hrf_cohort_job_start(*x);
    const int64_t right = hrf_cohort_job_end(*y) - hrf_cohort_job_start(*y);
    return left != right ? (left > right ? -1 : 1) : by_submission(a, b);
}

struct hrf_timeline hrf_timeline_make(const struct hrf_cohort *cohort)
{
    struct hrf_timeline t = { .n = 0 };
    t.jobs = hrf_alloc_array(cohort->n_jobs + 1, sizeof *t.jobs);
    t.gaps = hrf_alloc_array(cohort->n_jobs + 1, sizeof *t.gaps);
    for (size_t i = 0; i < cohort->n_jobs; i++)
        if (hrf_cohort_job_end(&cohort->jobs[i]) >= cohort->jobs[i].submitted_ms)
            t.jobs[t.n++] = &cohort->jobs[i];
    qsort(t.jobs, t.n, sizeof *t.jobs, by_submission);
    int64_t seen = t.n > 0 ? t.jobs[0]->submitted_ms : 0; /* until when jobs were there */
    t.from_ms = seen;
    for (size_t i = 0; i < t.n; i++) {
        const int64_t end = hrf_cohort_job_end(t.jobs[i]);
        if (t.jobs[i]->submitted_ms > seen + MIN_GAP_MS)
            t.gaps[t.n_gaps++] = (struct hrf_timeline_gap){ seen, t.jobs[i]->submitted_ms };
        seen = end > seen ? end : seen;
    }
    t.to_ms = seen;
    return t;
}

void hrf_timeline_release(struct hrf_timeline *timeline)
{
    hrf_free(timeline->jobs);
    hrf_free(timeline->gaps);
    *timeline = (struct hrf_timeline){ .n = 0 };
}

int64_t hrf_timeline_at(const struct hrf_timeline *timeline, int64_t ms)
{
    int64_t at = ms - timeline->from_ms;
    for (size_t i = 0; i < timeline->n_gaps; i++) {
        const struct hrf_timeline_gap *gap = &timeline->gaps[i];
        if (ms > gap->from_ms)
            at -= (ms < gap->to_ms ? ms : gap->to_ms) - gap->from_ms;
    }
    return at;
}

/* ---- bars ---- */

/* In percent of the timeline's width. */
static double percent(const struct hrf_timeline *timeline, int64_t ms)
{
    const double whole = (double)hrf_timeline_at(timeline, timeline->to_ms);
    return 100.0 * (double)hrf_timeline_at(timeline, ms) / fmax(whole, 1.0);
}

static void bar(struct hrf_out *out, const struct hrf_timeline *timeline,
                const struct hrf_cohort_job *job, int64_t from, int64_t to, const char *kind)
{
    const struct hrf_job_usage *u = &job->usage;
    const double ran = (double)(hrf_cohort_job_end(job) - hrf_cohort_job_start(job)) / 1e3;
    const double left = percent(timeline, from);
    hrf_out_markup(out, "<i class=\"%s%s\" style=\"left:%.3f%%;width:%.3f%%\" title=\"%s", kind,
                   job->reason != NULL ? " bad" : "", left, percent(timeline, to) - left,
                   job->job_id);
    if (job->attempt > 1)
        hrf_out_addf(out, ", attempt %lld", (long long)job->attempt);
    if (u->host[0] != '\0')
        hrf_out_markup(out, " on %s", u->host);
    hrf_out_markup(out, ": ran %s", hrf_duration_text(ran).text);
    if (u->cpu_ms > 0)
        hrf_out_markup(out, ", %s of processors, %s",
                       hrf_duration_text((double)u->cpu_ms / 1e3).text,
                       hrf_bytes_text(u->peak_bytes).text);
    if (job->reason != NULL)
        hrf_out_markup(out, "; %s", job->reason);
    hrf_out_adds(out, "\"></i>");
}

static void named_rows(struct hrf_out *out, const struct hrf_timeline *timeline)
{
    for (size_t i = 0; i < timeline->n; i++) {
        const struct hrf_cohort_job *job = timeline->jobs[i];
        hrf_out_markup(out, "<div class=\"row\"><span>%s", job->job_id);
        if (job->attempt > 1)
            hrf_out_addf(out, " (%lld)", (long long)job->attempt);
        hrf_out_adds(out, "</span><div class=\"track\">");
        bar(out, timeline, job, job->submitted_ms, hrf_cohort_job_start(job), "wait");
        bar(out, timeline, job, hrf_cohort_job_start(job), hrf_cohort_job_end(job), job->kind);
        hrf_out_adds(out, "</div></div>\n");
    }
}

/* Each job in the first lane that is free when it starts. */
static void lanes(struct hrf_out *out, const struct hrf_timeline *timeline)
{
    int64_t free_at[MAX_LANES] = { 0 };
    size_t n_lanes = 0, n_more = 0;
    hrf_out_adds(out, "<div class=\"lanes\">");
    for (size_t i = 0; i < timeline->n; i++) {
        const struct hrf_cohort_job *job = timeline->jobs[i];
        const int64_t start = hrf_cohort_job_start(job), end = hrf_cohort_job_end(job);
        size_t lane = 0;
        while (lane < n_lanes && free_at[lane] > start)
            lane++;
        if (lane == MAX_LANES) {
            n_more++;
            continue;
        }
        n_lanes = lane == n_lanes ? lane + 1 : n_lanes;
        free_at[lane] = end;
        hrf_out_addf(out, "<div class=\"track\" style=\"top:%zupx\">", 9 * lane);
        bar(out, timeline, job, start, end, job->kind);
        hrf_out_adds(out, "</div>");
    }
    hrf_out_addf(out, "<div style=\"height:%zupx\"></div></div>\n", 9 * n_lanes);
    if (n_more > 0)
        hrf_out_addf(out, "<p class=\"none\">%zu more ran beside these.</p>", n_more);
}

/* ---- table ---- */

static void table(struct hrf_out *out, const struct hrf_cohort *cohort,
                  const struct hrf_timeline *timeline)
{
    static const struct hrf_page_table figures = { .rows = hrf_job_rows };
    qsort(timeline->jobs, timeline->n, sizeof *timeline->jobs, by_length);
    hrf_out_adds(out, "<details><summary>processors, memory and waits of every job");
    if (timeline->n > TABLE_ROWS)
        hrf_out_addf(out, " (the %d longest; report.json has all)", TABLE_ROWS);
    hrf_out_adds(out, "</summary><table><thead><tr><th>job</th><th>host</th>");
    hrf_page_headings(out, &figures, cohort);
    hrf_out_adds(out, "<th>end</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < timeline->n && i < TABLE_ROWS; i++) {
        const struct hrf_cohort_job *job = timeline->jobs[i];
        hrf_out_markup(out, "<tr><th>%s</th><td>%s</td>", job->job_id,
                       job->usage.host[0] != '\0' ? job->usage.host : "–");
        hrf_page_cells(out, &figures, job);
        hrf_out_markup(out, "<td>%s</td></tr>\n",
                       job->reason != NULL ? job->reason
                       : job->has_ended    ? "done"
                                           : "not ended");
    }
    hrf_out_adds(out, "</tbody></table></details>");
}

static void summary(struct hrf_out *out, const struct hrf_timeline *timeline)
{
    size_t n_failed = 0;
    int64_t cpu_ms = 0, peak = 0;
    for (size_t i = 0; i < timeline->n; i++) {
        const struct hrf_cohort_job *job = timeline->jobs[i];
        n_failed += job->reason != NULL;
        cpu_ms += job->usage.cpu_ms;
        peak = job->usage.peak_bytes > peak ? job->usage.peak_bytes : peak;
    }
    const double whole = (double)hrf_timeline_at(timeline, timeline->to_ms) / 1e3;
    hrf_out_markup(out, "<p class=\"none\">%zu job%s in %s", timeline->n,
                   timeline->n == 1 ? "" : "s", hrf_duration_text(whole).text);
    if (cpu_ms > 0 && whole > 0.0)
        hrf_out_markup(out, ", %.2f processors busy on average", (double)cpu_ms / 1e3 / whole);
    if (peak > 0)
        hrf_out_markup(out, ", the largest process %s", hrf_bytes_text(peak).text);
    if (n_failed > 0)
        hrf_out_addf(out, "; %zu did not end well", n_failed);
    for (size_t i = 0; i < timeline->n_gaps; i++)
        hrf_out_markup(
            out, "%s%s", i == 0 ? "; pauses cut out: " : ", ",
            hrf_duration_text((double)(timeline->gaps[i].to_ms - timeline->gaps[i].from_ms) / 1e3)
                .text);
    hrf_out_adds(out, "</p>\n");
}

void hrf_page_timeline(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    HRF_AUTO_RELEASE(hrf_timeline) timeline = hrf_timeline_make(cohort);
    if (timeline.n > 0) {
        hrf_out_adds(out, "<section class=\"times jobs\"><h2>Jobs <small>each attempt on the clock"
                          "</small></h2>\n");
        summary(out, &timeline);
        if (timeline.n <= ROWS_BY_NAME)
            named_rows(out, &timeline);
        else
            lanes(out, &timeline);
        hrf_out_adds(out, "<ul class=\"key\"><li><i class=\"wait\"></i>waiting to start</li>"
                          "<li><i class=\"tile\"></i>tile</li><li><i class=\"calibrate\"></i>"
                          "calibrate</li><li><i class=\"infer\"></i>infer</li><li>"
                          "<i class=\"bad\"></i>ended without all results</li></ul>");
        table(out, cohort, &timeline);
        hrf_out_adds(out, "</section>\n");
    }
}
