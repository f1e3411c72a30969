/* run.c - the run loop: observe the jobs, decide, store the intent, act; at the end aggregate and
 * report. */
#include "orchestrator/run/run.h"
#include "orchestrator/launch/launch.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/path.h"
#include "orchestrator/run/run_private.h"
#include "schema/record/job.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BEAT_S = 5, SHARED_PATIENCE = 4 };

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
    run_give_up_calibration(run);
    if (run->store != NULL) {
        struct hrf_error
            ignored; /* if the lease cannot be released, the next driver takes it over */
        if (hrf_store_release_lease(run->store, &ignored) != HRF_OK)
            hrf_log_debug("run", "%s", ignored.text);
    }
    hrf_store_close(run->store);
    hrf_slide_rows_release(&run->slides);
    hrf_task_rows_release(&run->tasks);
    for (size_t i = 0; i < run->n_live; i++)
        run_job_release(&run->live[i]);
    hrf_free(run->live);
    hrf_executor_destroy(run->executor);
    hrf_progress_destroy(run->progress);
    hrf_free(run->task_states);
    hrf_free(run->task_places);
    hrf_free(run->slide_notes);
    hrf_free(run->unsettled);
    hrf_calibration_destroy(run->calibration);
    run_heads_release(run);
    hrf_free(run->calibration_path);
    hrf_free(run->calibration_failure);
    hrf_free(run->directory);
}

/* Reads or makes the run id, which stays the same for the life of the directory, and seeds the
 * random numbers for jitter. */
static enum hrf_status take_run_id(struct run *run, struct hrf_error *err)
{
    HRF_AUTO_FREE char *id = NULL;
    HRF_TRY(hrf_store_get_fact(run->store, "run_id", &id, err));
    run->random = hrf_random_init((uint64_t)hrf_clock_ns() ^ (uint64_t)getpid() << 40);
    if (id == NULL) {
        uint64_t high = hrf_random_u64(&run->random), low = hrf_random_u64(&run->random);
        id = hrf_format("%016llx%016llx", (unsigned long long)high, (unsigned long long)low);
        HRF_CHECK_MEMORY(id != NULL, err, "no memory for a run id");
        HRF_TRY(hrf_store_set_fact(run->store, "run_id", id, err));
    }
    snprintf(run->run_id, sizeof run->run_id, "%s", id);
    return HRF_OK;
}

/* Logs what changed in the workflow since the last run in this directory, because that may be why
 * there is work to do. An old workflow that cannot be read is ignored. */
static void log_differences(const struct hrf_workflow *workflow, const char *last)
{
    HRF_AUTO(hrf_workflow) before = NULL;
    struct hrf_findings findings = HRF_FINDINGS_INIT;
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    if (hrf_path_exists(last) &&
        hrf_workflow_load_of_run(last, NULL, 0, &before, &findings, NULL) == HRF_OK)
        hrf_workflow_differences(workflow, before, &text);
    for (const char *at = text.text; *at != '\0'; at += strcspn(at, "\n") + 1)
        hrf_log_info("run", "changed since the last run here: %.*s", (int)strcspn(at, "\n"), at);
    hrf_findings_release(&findings);
    hrf_strbuf_release(&text);
}

static enum hrf_status open_run(struct run *run, const char *directory, struct hrf_error *err)
{
    HRF_TRY(hrf_path_make_directories(directory, err));
    HRF_TRY(hrf_path_absolute(directory, &run->directory, err));
    HRF_AUTO_FREE char *db = hrf_path_join(run->directory, "run.db");
    HRF_AUTO_FREE char *file = hrf_path_join(run->directory, "workflow.yaml");
    HRF_CHECK_MEMORY(db != NULL && file != NULL, err, "no memory for a path");
    if (access(run->directory, W_OK) != 0)
        return hrf_error_set_errno(err, errno, "cannot write into '%s'", run->directory);
    HRF_TRY(hrf_store_open(db, HRF_STORE_WRITE, &run->store, err));
    enum hrf_status status = hrf_store_take_lease(run->store, err);
    if (status != HRF_OK) { /* the lease is not ours, so run_release() must not give it back */
        hrf_store_close(run->store);
        run->store = NULL;
        return status;
    }
    HRF_TRY(take_run_id(run, err));
    log_differences(run->workflow, file);
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    hrf_workflow_write(run->workflow, &text);
    status = hrf_strbuf_status(&text, err);
    if (status == HRF_OK)
        status = hrf_file_write_atomic(file, text.text, text.length, err);
    hrf_strbuf_release(&text);
    HRF_TRY(status);
    run->policy = (struct hrf_retry_policy){ .retries = run->workflow->executor.retries,
                                             .base_ms = hrf_clock_setting_ms("HRF_RETRY_MS", 0,
                                                                             2000),
                                             .max_ms = 600000 };
    HRF_TRY(hrf_executor_create(&run->workflow->executor, run->run_id, &run->executor, err));
    run->policy.can_grow = run->executor->can_grow;
    bool is_shared;
    hrf_file_system_of(run->directory, &is_shared);
    if (is_shared) /* files of another machine may become visible up to a minute late */
        run->executor->grace_ms *= SHARED_PATIENCE;
    HRF_TRY(hrf_launch_model_hash(run->workflow->model.file, run->model_sha256, err));
    HRF_TRY(hrf_store_set_fact(run->store, "model_sha256", run->model_sha256, err));
    HRF_TRY(run_tissue_hash(run->workflow, run->tissue_sha256, err));
    HRF_TRY(hrf_store_set_fact(run->store, "tissue_sha256", run->tissue_sha256, err));
    HRF_TRY(run_open_head(run, err));
    HRF_TRY(run_find_own_scales(run->workflow, &run->brings_scales, err));
    if (run->brings_scales && run->calibrate_only)
        return hrf_error_set(
            err, HRF_E_USER,
            "'%s' brings its own INT8 scales (QuantizeLinear): there is nothing to "
            "calibrate",
            run->workflow->model.file);
    return hrf_store_set_fact(run->store, "own_scales", run->brings_scales ? "yes" : "no", err);
}

static bool has_open_task(const struct run *run, int64_t slide_id)
{
    for (int kind = 0; kind < HRF_N_TASK_KINDS; kind++) {
        size_t first;
        const size_t n = hrf_task_rows_of(&run->tasks, (enum hrf_task_kind)kind, slide_id, &first);
        for (size_t i = first; i < first + n; i++)
            if (run->tasks.items[i].state == HRF_TASK_PENDING ||
                run->tasks.items[i].state == HRF_TASK_RUNNING)
                return true;
    }
    return false;
}

/* The store knows more tasks than run.tasks while those are still to be read again. */
static enum hrf_status settle_slide(struct run *run, int64_t slide_id, struct hrf_error *err)
{
    struct hrf_slide_row *slide = run_find_slide(run, slide_id);
    HRF_AUTO_FREE char *reason = NULL;
    run->slide_notes[slide_id].is_unsettled = false;
    if (slide == NULL || slide->state != HRF_SLIDE_PENDING || has_open_task(run, slide_id))
        return HRF_OK;
    HRF_TRY(hrf_store_slide_outcome(run->store, slide_id, NULL, &slide->state, &reason, err));
    return hrf_store_set_slide_state(run->store, slide_id, slide->state, reason, err);
}

/* Sets the state of each slide whose tasks have all ended. Every slide ends in exactly one state.
 * Looked at are those of which a task has ended since the last time, or all. */
static enum hrf_status settle_slides(struct run *run, struct hrf_error *err)
{
    const size_t n = run->slides.n_items + run->slides.n_sample;
    if (run_waits_for_calibration(run) || run_waits_for_heads(run)) /* more tasks will be planned */
        return HRF_OK;
    for (size_t i = 0; i < run->n_unsettled; i++)
        HRF_TRY(settle_slide(run, run->unsettled[i], err));
    run->n_unsettled = 0;
    for (size_t i = 0; i < n && run->all_unsettled; i++)
        HRF_TRY(settle_slide(run, run->slides.items[i].id, err));
    run->all_unsettled = false;
    return HRF_OK;
}

static void count_slides(struct run *run)
{
    struct hrf_run_summary *s = &run->summary;
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

/* Patches of running tasks that are already done, as their workers report. Only the first MOST jobs
 * are read, because this is just for display. */
static int64_t hinted_patches(const struct run *run)
{
    enum { MOST = 64 };
    int64_t sum = 0;
    for (size_t i = 0, n = 0; i < run->n_live && n < MOST; i++) {
        const struct run_job *job = &run->live[i];
        int64_t done, total;
        char id[24];
        if (job->row.kind != HRF_TASK_INFER || job->view.observed == HRF_JOB_WAITING)
            continue;
        HRF_AUTO_FREE char *directory = run_job_path(run, job, NULL);
        snprintf(id, sizeof id, "t%04zu", job->n_collected);
        if (directory != NULL && hrf_task_progress_read(directory, id, &done, &total))
            sum += done;
        n++;
    }
    return sum;
}

static struct hrf_progress_facts progress_facts(struct run *run)
{
    struct hrf_progress_facts f = { .n_jobs = (int64_t)run->n_live };
    count_slides(run);
    for (int state = 0; state < HRF_N_TASK_STATES; state++) {
        const bool ended = state == HRF_TASK_FINISHED || state == HRF_TASK_BROKEN;
        f.tile_total += run->counts.n[HRF_TASK_TILE][state];
        f.tile_done += ended ? run->counts.n[HRF_TASK_TILE][state] : 0;
        f.calibrate_total += run->counts.n[HRF_TASK_CALIBRATE][state];
        f.calibrate_done += ended ? run->counts.n[HRF_TASK_CALIBRATE][state] : 0;
        f.infer_total += run->counts.patches[state];
        f.infer_done += ended ? run->counts.patches[state] : 0;
    }
    f.infer_done += hinted_patches(run);
    f.n_slides = run->summary.n_slides;
    f.n_failed = run->summary.n_failed;
    f.n_ended = f.n_failed + run->summary.n_done + run->summary.n_no_tissue +
                run->summary.n_excluded;
    hrf_rate_add(&run->rate, hrf_clock_seconds(), f.infer_done);
    f.patches_per_second = hrf_rate_now(&run->rate);
    return f;
}

static void show_progress(struct run *run)
{
    enum { PERIOD_MS = 200, METRICS_MS = 5000 };
    if (hrf_clock_ms() < run->next_show_ms)
        return;
    run->next_show_ms = hrf_clock_ms() + PERIOD_MS;
    struct hrf_progress_facts facts = progress_facts(run);
    hrf_progress_show(run->progress, &facts);
    if (hrf_clock_ms() >= run->next_metrics_ms) {
        run->next_metrics_ms = hrf_clock_ms() + METRICS_MS;
        run_write_metrics(run, &facts, true);
    }
}

/* True if the loop has still something to do for tasks: those that are not read yet count, too. */
static bool has_open_tasks(const struct run *run)
{
    bool any = run->needs_reload && !run->calibrate_only;
    for (int kind = 0; kind < HRF_N_TASK_KINDS; kind++) {
        const bool is_wanted = !run->calibrate_only || kind == HRF_TASK_TILE ||
                               kind == HRF_TASK_CALIBRATE;
        any |= run->counts.n[kind][HRF_TASK_RUNNING] > 0 ||
               (is_wanted && run->counts.n[kind][HRF_TASK_PENDING] > 0);
    }
    return any;
}

/* Returns true if a signal ends the loop. */
static bool interrupted(struct run *run, struct hrf_error *err, enum hrf_status *status)
{
    if (n_interrupts == 0 && n_terminations == 0)
        return false;
    *status = HRF_OK;
    run->summary.end = HRF_RUN_DETACHED;
    if (n_terminations == 0 && run->n_live > 0) {
        hrf_log_info("run",
                     "interrupted: %zu jobs continue without this command; press Ctrl-C again "
                     "within 3 s to end them",
                     run->n_live);
        for (int i = 0; i < 150 && n_interrupts < 2; i++)
            hrf_clock_sleep_ms(20);
    }
    if (n_interrupts >= 2) {
        run->summary.end = HRF_RUN_CANCELLED;
        *status = run_cancel_all(run, err);
    }
    return true;
}

/* True if tasks that nobody waited for are still to be planned: a slide that was tiled again may
 * have had all its embeddings. */
static enum hrf_status plan_rest(struct run *run, bool *is_more, struct hrf_error *err)
{
    *is_more = false;
    if (run->summary.end != HRF_RUN_DONE || run->calibrate_only ||
        !hrf_slide_head_is_given(&run->workflow->slide_head))
        return HRF_OK;
    if (run_waits_for_heads(run))
        HRF_TRY(run_tend_trainings(run, err));
    else
        HRF_TRY(run_plan_all_heads(run, err));
    *is_more = has_open_tasks(run) || run_waits_for_heads(run);
    return HRF_OK;
}

static enum hrf_status run_open_tasks(struct run *run, struct hrf_error *err)
{
    double next_beat = hrf_clock_seconds() + BEAT_S;
    enum hrf_status status = HRF_OK;
    HRF_TRY(run_calibrate(run, err));
    while (has_open_tasks(run) || run->n_live > 0 || run->calibration_awaited) {
        bool changed = false, submitted = false;
        if (interrupted(run, err, &status))
            return status;
        HRF_TRY(run_observe(run, &changed, err));
        if (changed) {
            HRF_TRY(run_calibrate(run, err));
            HRF_TRY(run_tend_trainings(run, err));
            HRF_TRY(hrf_store_begin(run->store, err));
            HRF_TRY(settle_slides(run, err));
            HRF_TRY(hrf_store_commit(run->store, err));
        }
        HRF_TRY(run_tend_calibration(run, err));
        HRF_TRY(run_apply_throttle(run, err));
        HRF_TRY(run_submit(run, &submitted, err));
        show_progress(run);
        if (hrf_clock_seconds() > next_beat) {
            HRF_TRY(hrf_store_beat_lease(run->store, err));
            next_beat = hrf_clock_seconds() + BEAT_S;
        }
        if (!changed && !submitted)
            hrf_clock_sleep_ms(run->executor->tick_ms);
    }
    assert(!run_waits_for_calibration(run));
    run->summary.end = HRF_RUN_DONE;
    return HRF_OK;
}

static enum hrf_status loop(struct run *run, struct hrf_error *err)
{
    bool is_more = true;
    while (is_more) {
        HRF_TRY(run_open_tasks(run, err));
        HRF_TRY(plan_rest(run, &is_more, err));
    }
    return HRF_OK;
}

static enum hrf_status drive(struct run *run, struct hrf_error *err)
{
    double start = hrf_clock_seconds();
    HRF_TRY(run_ingest(run, err));
    HRF_TRY(run_recover(run, err));
    double ingest_seconds = hrf_clock_seconds() - start;
    HRF_TRY(loop(run, err));
    struct hrf_progress_facts facts = progress_facts(run);
    hrf_progress_finish(run->progress, &facts);
    if (run->calibration != NULL) {
        snprintf(run->summary.calibration, sizeof run->summary.calibration, "%s",
                 run->calibration->key);
        run->summary.calibration_cached = run->calibration_cached;
    }
    if (run->summary.end != HRF_RUN_DONE || run->calibrate_only)
        return HRF_OK;
    HRF_TRY(hrf_store_begin(run->store, err));
    run->all_unsettled = true;
    HRF_TRY(settle_slides(run, err));
    HRF_TRY(run_record_phases(run, ingest_seconds, err));
    HRF_TRY(hrf_store_set_fact(run->store, "queue", "", err)); /* no job is left there */
    HRF_TRY(hrf_store_commit(run->store, err));
    hrf_crash_point("run.report.before");
    HRF_TRY(hrf_run_report(run->workflow, run->store, run->directory, true, NULL, err));
    hrf_crash_point("run.report.after");
    hrf_slide_rows_release(&run->slides); /* the report may have changed the slides' states */
    HRF_TRY(hrf_store_get_slides(run->store, &run->slides, err));
    count_slides(run);
    return HRF_OK;
}

/* If the run directory is gone, that is the cause of any failure and becomes the error. The jobs
 * are ended, since their results would be lost. */
static enum hrf_status check_place(struct run *run, enum hrf_status status, struct hrf_error *err)
{
    struct hrf_error gone, ignored;
    if (run->store == NULL || hrf_store_check_place(run->store, &gone) == HRF_OK)
        return status;
    if (run_end_jobs(run, &ignored) != HRF_OK)
        hrf_log_warning("run", "%s", ignored.text);
    return hrf_error_set(err, gone.status, "%s", gone.text);
}

/* Numbers this end of the run before anybody is told of it: if the one who tells dies meanwhile,
 * the next driver's end has another number. A store that cannot be written (it may be why the run
 * ends) leaves the number 0. */
static void count_end(struct run *run)
{
    HRF_AUTO_FREE char *last = NULL;
    char number[24];
    struct hrf_error ignored;
    snprintf(run->summary.run_id, sizeof run->summary.run_id, "%s", run->run_id);
    if (hrf_store_get_fact(run->store, "n_ends", &last, &ignored) != HRF_OK)
        return;
    const int64_t n = (last != NULL ? strtoll(last, NULL, 10) : 0) + 1;
    snprintf(number, sizeof number, "%lld", (long long)n);
    if (hrf_store_set_fact(run->store, "n_ends", number, &ignored) == HRF_OK)
        run->summary.n_ends = n;
}

enum hrf_status hrf_run(const struct hrf_workflow *workflow, const char *directory,
                        const struct hrf_run_options *options, struct hrf_run_summary *out,
                        struct hrf_error *err)
{
    struct run run = { .workflow = workflow, .calibrate_only = options->calibrate_only };
    run.progress = hrf_progress_create(options->quiet);
    enum hrf_status status = open_run(&run, directory, err);
    if (status == HRF_OK)
        status = drive(&run, err);
    status = check_place(&run, status, err);
    if (run.store != NULL) {
        const struct hrf_progress_facts facts = progress_facts(&run);
        count_end(&run);
        run_write_metrics(&run, &facts, false);
    }
    *out = run.summary;
    run_release(&run);
    return status;
}
