/* calibrate.c - INT8's calibration: a sample of patches over all tiled slides
 * (calibration_sample.c), one observing task for each slide of it, merged and fitted
 * (calibration_fit.c), kept in the store that runs share.
 *
 * The sample's identity is part of the key, as are the model, its preprocessing, the method and the
 * version: a calibration that was made once, by whichever run, is found again.
 */
#include "base/cache.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "base/path.h"
#include "calibrate/fit/budget.h"
#include "orchestrator/launch/launch.h"
#include "orchestrator/run/calibrate_private.h"
#include "schema/store/calibrations.h"

#include <stdio.h>
#include <string.h>

static bool has_int8(const struct hrf_workflow *w)
{
    for (size_t i = 0; i < w->n_precisions; i++)
        if (w->precision[i] == HRF_INT8)
            return true;
    return false;
}

bool run_wants_calibration(const struct run *run)
{
    return has_int8(run->workflow) && !run->brings_scales;
}

enum hrf_status run_find_own_scales(const struct hrf_workflow *workflow, bool *out,
                                    struct hrf_error *err)
{
    *out = false;
    if (!has_int8(workflow) || workflow->calibrate.keep.n_items > 0)
        return HRF_OK;
    HRF_TRY(hrf_launch_model_brings_scales(workflow->model.file, out, err));
    return *out && hrf_workflow_has_budget(workflow)
               ? hrf_error_set(err, HRF_E_USER,
                               "'%s' is quantised already and has its own scales: layers are not "
                               "taken out of INT8; leave calibrate.budget out",
                               workflow->model.file)
               : HRF_OK;
}

bool run_waits_for_calibration(const struct run *run)
{
    return run_wants_calibration(run) && run->calibration == NULL &&
           run->calibration_failure == NULL;
}

/* What does not use INT8: what a budget takes out was asked for, the rest is a warning. */
static enum hrf_status tell_kept(const struct hrf_calibration *c, struct hrf_error *err)
{
    HRF_AUTO_FREE char *words = hrf_fit_budget_words(c);
    HRF_CHECK_MEMORY(words != NULL, err, "no memory to speak of the budget");
    for (size_t i = 0; i < c->n_keep; i++) {
        const struct hrf_calibration_keep *keep = &c->keep[i];
        if (keep->precision != NULL)
            hrf_log_info("calibrate", "'%s' is in %s: %s", keep->name, keep->precision,
                         keep->reason);
        else
            hrf_log_warning("calibrate", "'%s' stays in float32: %s", keep->name, keep->reason);
    }
    if (words[0] != '\0')
        hrf_log_info("calibrate", "%s", words);
    return HRF_OK;
}

/* Writes the calibration into the run directory, for the jobs, and into the run's database, for
 * reports. */
static enum hrf_status adopt(struct run *run, struct hrf_calibration **calibration, bool cached,
                             struct hrf_error *err)
{
    HRF_AUTO_FREE char *name = hrf_format("calibration-%.16s.json", (*calibration)->key);
    HRF_AUTO_FREE char *path = name != NULL ? hrf_path_join(run->directory, name) : NULL;
    HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path");
    HRF_AUTO_FREE char *record = NULL;
    HRF_TRY(hrf_calibration_write(*calibration, path, err));
    HRF_TRY(hrf_calibration_encode(*calibration, &record, err));
    HRF_TRY(hrf_store_set_fact(run->store, "calibration", name, err));
    HRF_TRY(hrf_store_set_fact(run->store, "calibration_record", record, err));
    HRF_TRY(hrf_store_set_fact(run->store, "calibration_cached", cached ? "yes" : "no", err));
    run->calibration = *calibration;
    run->calibration_path = path;
    run->calibration_cached = cached;
    *calibration = NULL;
    path = NULL;
    hrf_log_info("calibrate", "INT8 ranges of %zu tensors from %lld patches by %s%s",
                 run->calibration->n_tensors, (long long)run->calibration->n_samples,
                 run->calibration->method, cached ? ", found in the cache" : "");
    return tell_kept(run->calibration, err);
}

enum hrf_status run_read_calibration(struct hrf_store *store, const char *directory,
                                     struct hrf_calibration **out, struct hrf_error *err)
{
    HRF_AUTO_FREE char *record = NULL, *name = NULL;
    HRF_TRY(hrf_store_get_fact(store, "calibration_record", &record, err));
    if (record != NULL)
        return hrf_calibration_decode(record, strlen(record), "the calibration in run.db", out,
                                      err);
    HRF_TRY(hrf_store_get_fact(store, "calibration", &name, err));
    if (name == NULL)
        return HRF_OK;
    HRF_AUTO_FREE char *path = hrf_path_join(directory, name);
    HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path");
    return hrf_calibration_read(path, out, err);
}

static bool observing_is_over(const struct run *run)
{
    return run_count_open(run, HRF_TASK_CALIBRATE) == 0;
}

static enum hrf_status check_observed(const struct run *run, struct hrf_error *err)
{
    for (size_t i = 0; i < run->tasks.n_items; i++) {
        const struct hrf_task_row *t = &run->tasks.items[i];
        if (t->kind == HRF_TASK_CALIBRATE && t->state == HRF_TASK_BROKEN)
            return hrf_error_set(err, HRF_E_USER,
                                 "slide '%s', a part of the sample, failed: %s; run again, exclude "
                                 "the slide (%s.exclude) or leave int8 out of 'precision'",
                                 run->slides.items[t->slide_id - 1].name,
                                 t->reason != NULL ? t->reason : "no reason given",
                                 run->slides.n_sample > 0 ? "calibrate.slides" : "dataset");
    }
    return HRF_OK;
}

/* ---- one run makes it ---- */

enum { CLAIM_BEAT_S = 5, AWAIT_LOOK_S = 1 };

static enum hrf_status claim(struct run *run, struct hrf_calibrations *store, const char *key,
                             bool *mine, struct hrf_error *err)
{
    char who[192];
    HRF_TRY(hrf_calibrations_claim(store, key, mine, who, err));
    if (key != run->calibration_claim)
        snprintf(run->calibration_claim, sizeof run->calibration_claim, "%s", key);
    if (!*mine && !run->calibration_awaited)
        hrf_log_info("calibrate",
                     "%s is making the calibration that this run needs: waiting for it", who);
    run->calibration_awaited = !*mine;
    run->calibration_look = hrf_clock_seconds() + (*mine ? CLAIM_BEAT_S : AWAIT_LOOK_S);
    return HRF_OK;
}

/* *out stays NULL if the store has no valid calibration; an invalid one is dropped. */
static enum hrf_status find_calibration(struct hrf_calibrations *store, const char *key,
                                        struct hrf_calibration **out, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    bool found;
    const enum hrf_status status = hrf_calibrations_get(store, key, out, &why);
    if (status == HRF_E_USER) {
        hrf_log_warning("calibrate", "%s; it is dropped and made again", why.text);
        return hrf_calibrations_drop(store, key, &found, err);
    }
    return status == HRF_OK ? HRF_OK : hrf_error_set(err, status, "%s", why.text);
}

static enum hrf_status open_cache(const struct run *run, struct hrf_calibrations **out,
                                  struct hrf_error *err)
{
    HRF_AUTO_FREE char *cache = hrf_cache_directory(run->workflow->cache);
    HRF_CHECK_MEMORY(cache != NULL, err, "no memory for a path");
    HRF_TRY(hrf_calibrations_open(cache, out, err));
    if (hrf_calibrations_put_aside(*out) != NULL)
        hrf_log_warning(
            "calibrate",
            "the database of calibrations was damaged; it was renamed to '%s', and a new one "
            "is begun",
            hrf_calibrations_put_aside(*out));
    return HRF_OK;
}

enum hrf_status run_tend_calibration(struct run *run, struct hrf_error *err)
{
    bool mine, known = false;
    if (run->calibration_claim[0] == '\0' || hrf_clock_seconds() < run->calibration_look)
        return HRF_OK;
    HRF_AUTO(hrf_calibrations) store = NULL;
    HRF_TRY(open_cache(run, &store, err));
    if (!run->calibration_awaited)
        return claim(run, store, run->calibration_claim, &mine, err);
    HRF_AUTO(hrf_calibration) calibration = NULL;
    HRF_TRY(find_calibration(store, run->calibration_claim, &calibration, err));
    known = calibration != NULL;
    mine = false;
    if (!known)
        HRF_TRY(claim(run, store, run->calibration_claim, &mine, err));
    run->calibration_awaited &= !known;
    return known || mine ? run_calibrate(run, err) : HRF_OK;
}

void run_give_up_calibration(struct run *run)
{
    struct hrf_error ignored; /* the claim of a process that has ended does not count */
    HRF_AUTO(hrf_calibrations) store = NULL;
    if (run->calibration_claim[0] == '\0' || run->calibration_awaited)
        return;
    if (open_cache(run, &store, &ignored) != HRF_OK ||
        hrf_calibrations_give_up(store, run->calibration_claim, &ignored) != HRF_OK)
        hrf_log_debug("calibrate", "%s", ignored.text);
    run->calibration_claim[0] = '\0';
}

static enum hrf_status settle(struct run *run, const struct run_sample *sample,
                              struct hrf_calibrations *store, struct hrf_error *err)
{
    HRF_AUTO(hrf_calibration) calibration = NULL;
    char key[HRF_HASH_HEX];
    if (sample->n_patches == 0)
        return hrf_error_set(err, HRF_E_USER, "no slide%s has a patch of tissue; %s",
                             run->slides.n_sample > 0 ? " of calibrate.slides" : "",
                             run->slides.n_sample > 0 ? "name others"
                                                      : "leave int8 out of 'precision'");
    HRF_TRY(run_calibration_key(run, sample, key, err));
    HRF_TRY(find_calibration(store, key, &calibration, err));
    if (calibration != NULL)
        return adopt(run, &calibration, !run->calibration_planned, err);
    if (!run->calibration_planned) {
        bool mine;
        HRF_TRY(claim(run, store, key, &mine, err));
        if (!mine)
            return HRF_OK;
        hrf_crash_point("run.calibrate.claimed");
        /* Statistics that were collected for another method are used again. */
        HRF_TRY(run_sample_plan(run, sample, err));
    }
    if (!observing_is_over(run))
        return HRF_OK;
    HRF_TRY(check_observed(run, err));
    HRF_TRY(run_calibration_fit(run, sample, key, &calibration, err));
    hrf_crash_point("run.calibrate.before_put");
    HRF_TRY(hrf_calibrations_put(store, calibration, err));
    hrf_crash_point("run.calibrate.after_put");
    run_give_up_calibration(run);
    return adopt(run, &calibration, false, err);
}

static enum hrf_status find_or_make(struct run *run, struct hrf_error *err)
{
    HRF_AUTO(hrf_calibrations) store = NULL;
    struct run_sample sample = { .parts = NULL };
    HRF_TRY(hrf_store_set_fact(run->store, "calibration_failure", "", err)); /* an earlier run's */
    HRF_TRY(open_cache(run, &store, err));
    enum hrf_status status = run_sample_make(run, &sample, err);
    if (status == HRF_OK)
        status = settle(run, &sample, store, err);
    run_sample_release(&sample);
    return status;
}

/* Only INT8 fails: its tasks are planned and given up at once with the reason, and the other
 * precisions go on. The next `run` tries again. */
static enum hrf_status fail_int8(struct run *run, const char *why, struct hrf_error *err)
{
    run->calibration_failure = hrf_format("INT8's calibration failed: %s", why);
    HRF_CHECK_MEMORY(run->calibration_failure != NULL, err,
                     "no memory for the reason of a failure");
    hrf_store_rollback(run->store);
    run_give_up_calibration(run);
    hrf_log_warning("calibrate", "%s", run->calibration_failure);
    HRF_TRY(hrf_store_set_fact(run->store, "calibration_failure", run->calibration_failure, err));
    HRF_TRY(run_plan_all_infer(run, err));
    HRF_TRY(hrf_store_begin(run->store, err));
    for (size_t i = 0; i < run->tasks.n_items; i++) {
        const struct hrf_task_row *t = &run->tasks.items[i];
        const size_t p = hrf_workflow_find_variant(run->workflow, t->precision);
        if (t->kind == HRF_TASK_INFER && p < HRF_MOST_VARIANTS &&
            hrf_workflow_variant(run->workflow, p) == HRF_INT8)
            HRF_TRY(hrf_store_set_task(run->store, t->id, HRF_TASK_BROKEN, 0,
                                       run->calibration_failure, err));
    }
    HRF_TRY(hrf_store_commit(run->store, err));
    return run_reload_tasks(run, err);
}

enum hrf_status run_calibrate(struct run *run, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    if (!run_waits_for_calibration(run) || !run_sample_is_tiled(run) || run->calibration_awaited ||
        (run->calibration_planned && !observing_is_over(run)))
        return HRF_OK;
    const enum hrf_status status = find_or_make(run, &why);
    const bool is_int8s = status == HRF_E_USER || status == HRF_E_EXTERNAL;
    if (is_int8s && !run->calibrate_only)
        return fail_int8(run, why.text, err);
    if (status != HRF_OK)
        return hrf_error_set(err, status, "%s%s", is_int8s ? "INT8's calibration failed: " : "",
                             why.text);
    return run->calibration != NULL ? run_plan_all_infer(run, err) : HRF_OK;
}
