/* run.c - the run loop: observe the jobs, decide, store the intent, act; at the end aggregate and
 * report. */
#include "orchestrator/run/run.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "orchestrator/run/run_private.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEASE_BEAT_S = 5 };

static volatile sig_atomic_t n_interrupts, n_terminations;

static void count_signal(int signal_number)
{
    if (signal_number == SIGINT)
        n_interrupts++;
    else
        n_terminations++;
}

void hrf_run_catch_signals(void)
{
    struct sigaction action = { .sa_handler = count_signal };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

static void run_release(struct run *run)
{
    run_calibration_give_up(&run->calibration, run->setup.workflow);
    run_jobs_release(&run->jobs);
    run_setup_release(&run->setup);
    hrf_slide_rows_release(&run->slides);
    run_tasks_release(&run->tasks);
    run_faults_release(&run->faults);
    run_calibration_release(&run->calibration);
    run_heads_release(&run->heads);
    hrf_progress_destroy(run->display.progress);
}

static enum hrf_status open_run(struct run *run, const char *directory, struct hrf_error *err)
{
    const int64_t retry_ms = hrf_clock_setting_ms("HRF_RETRY_MS", 0, 2000);
    HRF_TRY(run_setup_open(&run->setup, directory, &run->random, err));
    run->faults.policy = (struct hrf_retry_policy){
        .retries = run->setup.workflow->executor.retries,
        .base_ms = retry_ms,
        .max_ms = 600000,
        .can_grow = run->setup.executor->can_grow
    };
    return run_heads_open(&run->heads, &run->setup, err);
}

/* ---- the states of slides ---- */

static bool has_open_task(const struct run_tasks *tasks, int64_t slide_id)
{
    for (int kind = 0; kind < HRF_N_TASK_KINDS; kind++) {
        size_t first;
        const size_t n = hrf_task_rows_of(&tasks->rows, (enum hrf_task_kind)kind, slide_id, &first);
        for (size_t i = first; i < first + n; i++)
            if (tasks->rows.items[i].state == HRF_TASK_PENDING ||
                tasks->rows.items[i].state == HRF_TASK_RUNNING)
                return true;
    }
    return false;
}

/* Sets the state of a slide whose tasks have all ended. The store decides: it has more tasks than
 * the run's rows until those are read again. */
static enum hrf_status settle_slide(struct run *run, int64_t slide_id, struct hrf_error *err)
{
    HRF_AUTO_FREE char *reason = NULL;
    run->tasks.slide_notes[slide_id].is_unsettled = false;
    if (hrf_slide_rows_find(&run->slides, slide_id) == NULL)
        return HRF_OK; /* the tasks of no slide */
    struct hrf_slide_row *slide = &run->slides.items[slide_id - 1];
    if (slide->state != HRF_SLIDE_PENDING || has_open_task(&run->tasks, slide_id))
        return HRF_OK;
    HRF_TRY(hrf_store_slide_outcome(run->setup.store, slide_id, NULL, &slide->state, &reason, err));
    return hrf_store_set_slide_state(run->setup.store, slide_id, slide->state, reason, err);
}

/* Sets the state of each slide whose tasks have all ended. Every slide ends in exactly one state.
 * Only slides of which a task has ended since the last time are looked at, or all. */
static enum hrf_status settle_slides(struct run *run, struct hrf_error *err)
{
    struct run_tasks *tasks = &run->tasks;
    const size_t n = run->slides.n_items + run->slides.n_sample;
    if (run_waits_for_calibration(run) || run_waits_for_heads(run)) /* more tasks will be planned */
        return HRF_OK;
    for (size_t i = 0; i < tasks->n_unsettled; i++)
        HRF_TRY(settle_slide(run, tasks->unsettled[i], err));
    tasks->n_unsettled = 0;
    for (size_t i = 0; i < n && tasks->all_unsettled; i++)
        HRF_TRY(settle_slide(run, run->slides.items[i].id, err));
    tasks->all_unsettled = false;
    return HRF_OK;
}

/* ---- the loop ---- */

/* True if the loop has still something to do for tasks: those that are not read yet count, too. */
static bool has_open_tasks(const struct run *run)
{
    const bool calibrate_only = run->setup.calibrate_only;
    bool any = run->tasks.needs_reload && !calibrate_only;
    for (int kind = 0; kind < HRF_N_TASK_KINDS; kind++) {
        const bool is_wanted = !calibrate_only || kind == HRF_TASK_TILE ||
                               kind == HRF_TASK_CALIBRATE;
        any |= run->tasks.counts.n[kind][HRF_TASK_RUNNING] > 0 ||
               (is_wanted && run->tasks.counts.n[kind][HRF_TASK_PENDING] > 0);
    }
    return any;
}

/* Returns true if a signal ends the loop. */
static bool is_interrupted(struct run *run, struct hrf_error *err, enum hrf_status *status)
{
    if (n_interrupts == 0 && n_terminations == 0)
        return false;
    *status = HRF_OK;
    run->summary.end = HRF_RUN_DETACHED;
    if (n_terminations == 0 && run->jobs.n > 0) {
        hrf_log_info("run",
                     "interrupted: %zu jobs continue without this command; press Ctrl-C again "
                     "within 3 s to end them",
                     run->jobs.n);
        for (int i = 0; i < 150 && n_interrupts < 2; i++)
            hrf_clock_sleep_ms(20);
    }
    if (n_interrupts >= 2) {
        run->summary.end = HRF_RUN_CANCELLED;
        *status = run_jobs_cancel_all(&run->jobs, &run->setup, &run->tasks, err);
    }
    return true;
}

static enum hrf_status do_open_tasks(struct run *run, struct hrf_error *err)
{
    double next_beat = hrf_clock_seconds() + LEASE_BEAT_S;
    enum hrf_status status = HRF_OK;
    HRF_TRY(run_calibrate(run, err));
    while (has_open_tasks(run) || run->jobs.n > 0 || run->calibration.is_awaited) {
        bool changed = false, submitted = false;
        if (is_interrupted(run, err, &status))
            return status;
        HRF_TRY(run_observe(run, &changed, err));
        if (changed) {
            HRF_TRY(run_calibrate(run, err));
            HRF_TRY(run_tend_trainings(run, err));
            HRF_TRY(hrf_store_begin(run->setup.store, err));
            HRF_TRY(settle_slides(run, err));
            HRF_TRY(hrf_store_commit(run->setup.store, err));
        }
        HRF_TRY(run_tend_calibration(run, err));
        run_limits_apply(&run->limits, &run->setup, &run->jobs);
        HRF_TRY(run_submit(run, &submitted, err));
        run_display_show(run);
        if (hrf_clock_seconds() > next_beat) {
            HRF_TRY(hrf_store_beat_lease(run->setup.store, err));
            next_beat = hrf_clock_seconds() + LEASE_BEAT_S;
        }
        if (!changed && !submitted)
            hrf_clock_sleep_ms(run->setup.executor->tick_ms);
    }
    assert(!run_waits_for_calibration(run));
    run->summary.end = HRF_RUN_DONE;
    return HRF_OK;
}

/* *is_more: true if tasks are still to be planned that no end of a task has led to: a slide that
 * was tiled again may have had all its embeddings. */
static enum hrf_status plan_rest(struct run *run, bool *is_more, struct hrf_error *err)
{
    *is_more = false;
    if (run->summary.end != HRF_RUN_DONE || run->setup.calibrate_only ||
        !hrf_slide_head_is_given(&run->setup.workflow->slide_head))
        return HRF_OK;
    if (run_waits_for_heads(run))
        HRF_TRY(run_tend_trainings(run, err));
    else
        HRF_TRY(run_plan_all_heads(run, err));
    *is_more = has_open_tasks(run) || run_waits_for_heads(run);
    return HRF_OK;
}

/* ---- its end ---- */

static enum hrf_status report(struct run *run, struct hrf_error *err)
{
    const struct run_setup *setup = &run->setup;
    bool is_kept = false;
    size_t n_failed = 0;
    HRF_TRY(run_report_is_kept(setup, &is_kept, err));
    hrf_crash_point("run.report.before");
    if (is_kept) {
        hrf_log_info("run", "nothing has changed since the report was written: it stays as it is");
    } else {
        HRF_TRY(hrf_run_report(setup->workflow, setup->store, setup->directory, &n_failed, err));
        if (n_failed == 0)
            HRF_TRY(run_report_remember(setup, err));
    }
    hrf_crash_point("run.report.after");
    hrf_slide_rows_release(&run->slides); /* the report may have changed the slides' states */
    HRF_TRY(hrf_store_get_slides(setup->store, &run->slides, err));
    run_count_slides(run);
    return HRF_OK;
}

static enum hrf_status drive_trainings(struct run *run, struct hrf_error *err)
{
    HRF_TRY(run_plan_networks(run, err));
    HRF_TRY(run_jobs_recover(&run->jobs, &run->setup, &run->tasks, err));
    HRF_TRY(do_open_tasks(run, err));
    run_display_finish(run);
    if (run->summary.end != HRF_RUN_DONE)
        return HRF_OK;
    HRF_TRY(hrf_store_begin(run->setup.store, err));
    HRF_TRY(hrf_store_set_fact(run->setup.store, "queue", "", err));
    return hrf_store_commit(run->setup.store, err);
}

static enum hrf_status drive_slides(struct run *run, struct hrf_error *err)
{
    struct hrf_store *store = run->setup.store;
    const double start = hrf_clock_seconds();
    HRF_TRY(run_ingest(run, err));
    HRF_TRY(run_jobs_recover(&run->jobs, &run->setup, &run->tasks, err));
    const double ingest_seconds = hrf_clock_seconds() - start;
    for (bool is_more = true; is_more;) {
        HRF_TRY(do_open_tasks(run, err));
        HRF_TRY(plan_rest(run, &is_more, err));
    }
    run_display_finish(run);
    if (run->calibration.fitted != NULL) {
        snprintf(run->summary.calibration, sizeof run->summary.calibration, "%s",
                 run->calibration.fitted->key);
        run->summary.calibration_cached = run->calibration.is_cached;
    }
    if (run->summary.end != HRF_RUN_DONE || run->setup.calibrate_only)
        return HRF_OK;
    HRF_TRY(hrf_store_begin(store, err));
    run->tasks.all_unsettled = true;
    HRF_TRY(settle_slides(run, err));
    HRF_TRY(run_record_phases(run, ingest_seconds, err));
    HRF_TRY(hrf_store_set_fact(store, "queue", "", err)); /* no job is left there */
    HRF_TRY(hrf_store_commit(store, err));
    return report(run, err);
}

/* If the run directory is gone, that is the cause of any failure and becomes the error. The jobs
 * are ended, since their results would be lost. */
static enum hrf_status check_place(struct run *run, enum hrf_status status, struct hrf_error *err)
{
    struct hrf_error gone;
    if (hrf_store_check_place(run->setup.store, &gone) == HRF_OK)
        return status;
    run_jobs_end_all(&run->jobs, &run->setup);
    return hrf_error_set(err, gone.status, "%s", gone.text);
}

/* Numbers this end of the run before anybody hears of it: if this driver dies meanwhile, the next
 * one's end has another number. A store that cannot be written (it may be why the run
 * ends) leaves the number 0. */
static void count_end(struct run *run)
{
    HRF_AUTO_FREE char *last = NULL;
    char number[24];
    struct hrf_error ignored;
    snprintf(run->summary.run_id, sizeof run->summary.run_id, "%s", run->setup.run_id);
    if (hrf_store_get_fact(run->setup.store, "n_ends", &last, &ignored) != HRF_OK)
        return;
    const int64_t n = (last != NULL ? strtoll(last, NULL, 10) : 0) + 1;
    snprintf(number, sizeof number, "%lld", (long long)n);
    if (hrf_store_set_fact(run->setup.store, "n_ends", number, &ignored) == HRF_OK)
        run->summary.n_ends = n;
}

enum hrf_status hrf_run(const struct hrf_workflow *workflow, const char *directory,
                        const struct hrf_run_options *options, struct hrf_run_summary *out,
                        struct hrf_error *err)
{
    struct run run = { .setup = { .workflow = workflow,
                                  .trainings = options->trainings,
                                  .calibrate_only = options->calibrate_only },
                       .display = { .progress = hrf_progress_create(options->quiet) } };
    enum hrf_status status = open_run(&run, directory, err);
    if (status == HRF_OK)
        status = options->trainings != NULL ? drive_trainings(&run, err) : drive_slides(&run, err);
    if (run.setup.store != NULL) {
        status = check_place(&run, status, err);
        count_end(&run);
        run_display_end_metrics(&run);
    }
    *out = run.summary;
    run_release(&run);
    return status;
}
