/* display.c - see display.h. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "orchestrator/run/open_metrics.h"
#include "orchestrator/run/run_private.h"
#include "schema/record/job.h"

#include <string.h>

void run_count_slides(struct run *run)
{
    struct hrf_run_summary *s = &run->summary;
    if (run->setup.trainings != NULL) {
        s->n_done = run->tasks.counts.n[HRF_TASK_TRAIN][HRF_TASK_FINISHED];
        s->n_failed = run->tasks.counts.n[HRF_TASK_TRAIN][HRF_TASK_BROKEN];
        return;
    }
    s->n_slides = (int64_t)run->slides.n_items;
    s->n_done = s->n_failed = s->n_no_tissue = s->n_excluded = 0;
    for (size_t i = 0; i < run->slides.n_items; i++) {
        enum hrf_slide_state state = run->slides.items[i].state;
        s->n_done += state == HRF_SLIDE_DONE;
        s->n_failed += state == HRF_SLIDE_FAILED;
        s->n_no_tissue += state == HRF_SLIDE_NO_TISSUE;
        s->n_excluded += state == HRF_SLIDE_EXCLUDED;
    }
}

/* Returns how many trainings are done, those that run by the share that they have done. */
static double sum_of_trainings(const struct run *run)
{
    double sum = (double)run->tasks.counts.n[HRF_TASK_TRAIN][HRF_TASK_FINISHED];
    for (size_t i = 0; i < run->jobs.n; i++) {
        const struct run_job *job = &run->jobs.live[i];
        if (job->view.observed == HRF_JOB_RUNNING && job->n_collected < job->n_tasks)
            sum += run_task_share(run, job, job->n_collected);
    }
    return sum;
}

/* Returns how many patches of running tasks are done, as their workers report. Only the first MAX
 * jobs are read, because this is just for display. */
static int64_t count_hinted_patches(const struct run *run)
{
    enum { MAX = 64 };
    int64_t sum = 0;
    for (size_t i = 0, n = 0; i < run->jobs.n && n < MAX; i++) {
        const struct run_job *job = &run->jobs.live[i];
        int64_t done, total;
        char id[24];
        if (job->row.kind != HRF_TASK_INFER || job->view.observed == HRF_JOB_WAITING)
            continue;
        HRF_AUTO_FREE char *directory = run_job_path(&run->setup, job, NULL);
        snprintf(id, sizeof id, "t%04zu", job->n_collected);
        if (hrf_task_progress_read(directory, id, &done, &total))
            sum += done;
        n++;
    }
    return sum;
}

static struct hrf_progress_facts gather_facts(struct run *run)
{
    const struct run_task_counts *counts = &run->tasks.counts;
    struct hrf_progress_facts f = { .n_jobs = (int64_t)run->jobs.n };
    run_count_slides(run);
    if (run->setup.trainings != NULL) {
        f.n_trainings = (int64_t)run->setup.trainings->list->n;
        f.trainings_done = run->summary.n_done;
        f.trainings_share = sum_of_trainings(run) / (double)f.n_trainings;
    }
    for (int state = 0; state < HRF_N_TASK_STATES; state++) {
        const bool ended = state == HRF_TASK_FINISHED || state == HRF_TASK_BROKEN;
        f.tile_total += counts->n[HRF_TASK_TILE][state];
        f.tile_done += ended ? counts->n[HRF_TASK_TILE][state] : 0;
        f.calibrate_total += counts->n[HRF_TASK_CALIBRATE][state];
        f.calibrate_done += ended ? counts->n[HRF_TASK_CALIBRATE][state] : 0;
        f.infer_total += counts->patches[state];
        f.infer_done += state == HRF_TASK_FINISHED ? counts->patches[state] : 0;
        f.infer_failed += state == HRF_TASK_BROKEN ? counts->patches[state] : 0;
    }
    f.infer_done += count_hinted_patches(run);
    f.n_slides = run->summary.n_slides;
    f.n_failed = run->summary.n_failed;
    f.n_ended = f.n_failed + run->summary.n_done + run->summary.n_no_tissue +
                run->summary.n_excluded;
    hrf_rate_add(&run->display.rate, hrf_clock_seconds(), f.infer_done);
    f.patches_per_second = hrf_rate_now(&run->display.rate);
    return f;
}

/* Writes the workflow's file of metrics, if it names one. What goes wrong is a warning. */
static void write_metrics(struct run *run, const struct hrf_progress_facts *facts, bool is_driven)
{
    const struct hrf_workflow *w = run->setup.workflow;
    struct hrf_error err = { .text = "" };
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    if (w->metrics == NULL)
        return;
    struct hrf_metrics m = { .name = w->name,
                             .directory = run->setup.directory,
                             .n_jobs = (int64_t)run->jobs.n,
                             .patches_scored = facts->infer_done,
                             .patches_known = facts->infer_total,
                             .patches_per_second = is_driven ? facts->patches_per_second : 0,
                             .is_driven = is_driven,
                             .now_ms = hrf_clock_wall_ms() };
    for (size_t i = 0; i < run->slides.n_items; i++)
        m.slides[run->slides.items[i].state]++;
    memcpy(m.tasks, run->tasks.counts.n, sizeof m.tasks);
    hrf_metrics_render(&m, &text);
    if (hrf_file_write_atomic(w->metrics, text.text, text.length, &err) == HRF_OK)
        return;
    if (!run->display.has_metrics_trouble) /* the run matters more */
        hrf_log_warning("run", "metrics: %s", err.text);
    run->display.has_metrics_trouble = true;
}

void run_display_show(struct run *run)
{
    enum { PERIOD_MS = 200, METRICS_MS = 5000 };
    struct run_display *display = &run->display;
    if (hrf_clock_ms() < display->next_show_ms)
        return;
    display->next_show_ms = hrf_clock_ms() + PERIOD_MS;
    const struct hrf_progress_facts facts = gather_facts(run);
    hrf_progress_show(display->progress, &facts);
    if (hrf_clock_ms() >= display->next_metrics_ms) {
        display->next_metrics_ms = hrf_clock_ms() + METRICS_MS;
        write_metrics(run, &facts, true);
    }
}

void run_display_finish(struct run *run)
{
    const struct hrf_progress_facts facts = gather_facts(run);
    hrf_progress_finish(run->display.progress, &facts);
}

void run_display_end_metrics(struct run *run)
{
    const struct hrf_progress_facts facts = gather_facts(run);
    write_metrics(run, &facts, false);
}
