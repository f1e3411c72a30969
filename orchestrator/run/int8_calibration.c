/* int8_calibration.c - see int8_calibration.h. */
#include "base/cache.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/log.h"
#include "base/path.h"
#include "calibrate/fit/budget.h"
#include "calibrate/fit/fit.h"
#include "calibrate/observe/observations.h"
#include "orchestrator/launch/launch.h"
#include "orchestrator/run/calibration_sample.h"
#include "orchestrator/run/run_private.h"
#include "schema/store/calibrations.h"

#include <stdio.h>
#include <string.h>

bool run_wants_calibration(const struct run *run)
{
    return hrf_workflow_has_precision(run->setup.workflow, HRF_INT8) && !run->setup.brings_scales;
}

enum hrf_status run_find_own_scales(const struct hrf_workflow *workflow, bool *out,
                                    struct hrf_error *err)
{
    *out = false;
    if (!hrf_workflow_has_precision(workflow, HRF_INT8) || workflow->calibrate.keep.n_items > 0)
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
    return run_wants_calibration(run) && run->calibration.fitted == NULL &&
           run->calibration.failure == NULL;
}

/* Logs which tensors do not use INT8. Those that a budget takes out were asked for; the others are
 * a warning. */
static void log_kept(const struct hrf_calibration *c)
{
    HRF_AUTO_FREE char *words = hrf_fit_budget_text(c);
    for (size_t i = 0; i < c->n_keep; i++) {
        const struct hrf_calibration_keep *keep = &c->keep[i];
        if (keep->precision != HRF_N_PRECISIONS)
            hrf_log_info("calibrate", "'%s' is in %s: %s", keep->name,
                         hrf_precision_name(keep->precision), keep->reason);
        else
            hrf_log_warning("calibrate", "'%s' stays in float32: %s", keep->name, keep->reason);
    }
    if (words[0] != '\0')
        hrf_log_info("calibrate", "%s", words);
    HRF_AUTO_FREE char *lost = hrf_fit_loss_text(c);
    if (hrf_fit_loss_is_large(c))
        hrf_log_warning("calibrate", "%s", lost);
    else if (lost[0] != '\0')
        hrf_log_info("calibrate", "%s", lost);
}

/* Writes the calibration into the run directory, for the jobs. */
static enum hrf_status hand_out(struct run *run, const struct hrf_calibration *calibration,
                                struct hrf_error *err)
{
    HRF_AUTO_FREE char *name = hrf_format("calibration-%.16s.json", calibration->key);
    HRF_AUTO_FREE char *path = hrf_path_join(run->setup.directory, name);
    HRF_TRY(hrf_calibration_write(calibration, path, err));
    hrf_free(run->calibration.path);
    HRF_MOVE(run->calibration.path, path);
    return HRF_OK;
}

/* Hands it out, and keeps it in the run's database, for reports. */
static enum hrf_status take_calibration(struct run *run, struct hrf_calibration **calibration,
                                        bool cached, struct hrf_error *err)
{
    HRF_AUTO_FREE char *record = NULL;
    HRF_TRY(hand_out(run, *calibration, err));
    HRF_TRY(hrf_calibration_encode(*calibration, &record, err));
    HRF_TRY(hrf_store_set_fact(run->setup.store, "calibration_record", record, err));
    HRF_TRY(hrf_store_set_fact(run->setup.store, "calibration_cached", cached ? "yes" : "no", err));
    run->calibration.fitted = *calibration;
    run->calibration.is_cached = cached;
    *calibration = NULL;
    hrf_log_info("calibrate", "INT8 ranges of %zu tensors from %lld patches by %s%s",
                 run->calibration.fitted->n_tensors, (long long)run->calibration.fitted->n_samples,
                 run->calibration.fitted->method, cached ? ", found in the cache" : "");
    log_kept(run->calibration.fitted);
    return HRF_OK;
}

enum hrf_status run_read_calibration(struct hrf_store *store, struct hrf_calibration **out,
                                     struct hrf_error *err)
{
    HRF_AUTO_FREE char *record = NULL;
    HRF_TRY(hrf_store_get_fact(store, "calibration_record", &record, err));
    return record == NULL ? HRF_OK
                          : hrf_calibration_decode(record, strlen(record),
                                                   "the calibration in run.db", out, err);
}

static bool observing_is_over(const struct run *run)
{
    return run_tasks_count_open(&run->tasks, HRF_TASK_CALIBRATE) == 0;
}

static enum hrf_status check_observed(const struct run *run, struct hrf_error *err)
{
    for (size_t i = 0; i < run->tasks.rows.n_items; i++) {
        const struct hrf_task_row *t = &run->tasks.rows.items[i];
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

/* ---- ranges out of what the tasks of the sample observed ---- */

static enum hrf_status make_key(const struct run *run, const struct run_sample *sample,
                                char out[HRF_HASH_HEX], struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    run_sample_hash_settings(run, HRF_FOR_SCALES, hash);
    /* The loss of the output depends on it. */
    hrf_hash_int(hash, hrf_workflow_n_scores(run->setup.workflow));
    hrf_hash_text(hash, sample->identity);
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

/* Adds what the calibrate task of this key observed. */
static enum hrf_status merge_record(struct run *run, int64_t slide_id, const char *key,
                                    struct hrf_observations *all, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_bytes) bytes = { NULL, 0 };
    const struct hrf_record_identity expected = hrf_slide_expect(
        hrf_slide_rows_find(&run->slides, slide_id), HRF_TASK_CALIBRATE, key);
    HRF_AUTO_RELEASE(hrf_observations) one = { .items = NULL };
    const char *text = NULL;
    size_t n_text = 0;
    HRF_TRY(hrf_store_get_record(run->setup.store, HRF_TASK_CALIBRATE, &expected, &bytes, err));
    HRF_TRY(hrf_text_record_decode(bytes.data, bytes.n_bytes, HRF_OBSERVATIONS_KIND, &expected,
                                   "the store", &text, &n_text, err));
    HRF_TRY(hrf_observations_decode(text, n_text, "the store", &one, err));
    return hrf_observations_merge(all, &one, err);
}

static enum hrf_status merge_records(struct run *run, const struct run_sample *sample,
                                     struct hrf_observations *all, struct hrf_error *err)
{
    for (size_t i = 0; i < sample->n_parts; i++) {
        char key[HRF_HASH_HEX];
        HRF_TRY(run_sample_part_key(run, sample, i, key, err));
        HRF_TRY(merge_record(run, sample->parts[i].slide_id, key, all, err));
    }
    return HRF_OK;
}

static enum hrf_status merge_held_out(struct run *run, const struct run_sample *sample,
                                      const char *calibration_key, struct hrf_observations *all,
                                      struct hrf_error *err)
{
    for (size_t i = 0; i < sample->n_held_out; i++) {
        char key[HRF_HASH_HEX];
        HRF_TRY(run_held_out_key(run, &sample->held_out[i], calibration_key, key, err));
        HRF_TRY(merge_record(run, sample->held_out[i].slide_id, key, all, err));
    }
    return HRF_OK;
}

static enum hrf_status find_loss(struct run *run, const struct run_sample *sample,
                                 struct hrf_calibration *calibration, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_observations) all = { .items = NULL };
    enum hrf_status status = merge_held_out(run, sample, calibration->key, &all, err);
    if (status == HRF_OK)
        status = hrf_fit_loss(&all, calibration, err);
    HRF_TRY(status);
    if (calibration->lost.n_images > 0)
        return HRF_OK;
    calibration->lost.reason = hrf_strdup(
        sample->n_held_out > 0 ? "float32 and INT8 do not fit into engine.memory together"
        : run->setup.workflow->tiler.mode == HRF_TILER_SLIDE
            ? "fewer than 8 slides, of which none could be held out"
            : "fewer than 8 patches, of which none could be held out");
    return HRF_OK;
}

static void describe_origin(const struct run *run, const struct run_sample *sample, const char *key,
                            struct hrf_calibration *c)
{
    const struct run_calibration *own = &run->calibration;
    char created[24];
    hrf_clock_iso8601(hrf_clock_wall_ms(), created);
    c->key = hrf_strdup(key);
    c->graph = hrf_strdup(run->setup.model_sha256);
    c->sample = hrf_strdup(sample->identity);
    c->engine = hrf_strdup(HRF_VERSION);
    c->created = hrf_strdup(created);
    c->n_samples = sample->n_patches;
    c->seconds = own->first_submit > 0 && own->last_result > own->first_submit
                     ? own->last_result - own->first_submit
                     : 0;
}

static void warn_of(const struct hrf_observations *all)
{
    HRF_AUTO_FREE char *text = hrf_fit_warnings(all);
    char *left = NULL;
    for (char *line = strtok_r(text, "\n", &left); line != NULL; line = strtok_r(NULL, "\n", &left))
        hrf_log_warning("calibrate", "%s", line);
}

static enum hrf_status fit_ranges(struct run *run, const struct run_sample *sample, const char *key,
                                  struct hrf_calibration **out, struct hrf_error *err)
{
    const struct hrf_workflow_calibrate *how = &run->setup.workflow->calibrate;
    HRF_AUTO_RELEASE(hrf_observations) all = { .items = NULL };
    enum hrf_status status = merge_records(run, sample, &all, err);
    if (status == HRF_OK)
        warn_of(&all);
    if (status == HRF_OK)
        status = hrf_fit_all(&all, run->setup.workflow->calibrate.method, out, err);
    if (status == HRF_OK) { /* what stays in float32: what is named, and what INT8 harms most */
        for (size_t i = 0; i < how->keep.n_items; i++)
            hrf_calibration_keep(*out, how->keep.items[i], "asked for by calibrate.keep");
        hrf_fit_keep_noisy(*out, how->min_sqnr);
    }
    if (status == HRF_OK && hrf_workflow_has_budget(run->setup.workflow))
        status = hrf_fit_budget(&all, how->budget.cosine + how->budget.agreement, *out, err);
    HRF_TRY(status);
    describe_origin(run, sample, key, *out);
    return HRF_OK;
}

/* ---- one run makes it ---- */

enum { CLAIM_BEAT_S = 5, AWAIT_LOOK_S = 1 };

static enum hrf_status claim_key(struct run_calibration *own, struct hrf_calibrations *store,
                                 const char *key, bool *mine, struct hrf_error *err)
{
    char who[192];
    HRF_TRY(hrf_calibrations_claim(store, key, mine, who, err));
    if (key != own->claim)
        snprintf(own->claim, sizeof own->claim, "%s", key);
    if (!*mine && !own->is_awaited)
        hrf_log_info("calibrate",
                     "%s is making the calibration that this run needs: waiting for it", who);
    own->is_awaited = !*mine;
    own->next_look = hrf_clock_seconds() + (*mine ? CLAIM_BEAT_S : AWAIT_LOOK_S);
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

static enum hrf_status open_cache(const struct hrf_workflow *workflow,
                                  struct hrf_calibrations **out, struct hrf_error *err)
{
    HRF_AUTO_FREE char *cache = hrf_cache_directory(workflow->cache);
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
    if (run->calibration.claim[0] == '\0' || hrf_clock_seconds() < run->calibration.next_look)
        return HRF_OK;
    HRF_AUTO(hrf_calibrations) store = NULL;
    HRF_TRY(open_cache(run->setup.workflow, &store, err));
    if (!run->calibration.is_awaited)
        return claim_key(&run->calibration, store, run->calibration.claim, &mine, err);
    HRF_AUTO(hrf_calibration) calibration = NULL;
    HRF_TRY(find_calibration(store, run->calibration.claim, &calibration, err));
    known = calibration != NULL;
    mine = false;
    if (!known)
        HRF_TRY(claim_key(&run->calibration, store, run->calibration.claim, &mine, err));
    run->calibration.is_awaited &= !known;
    return known || mine ? run_calibrate(run, err) : HRF_OK;
}

void run_calibration_give_up(struct run_calibration *calibration,
                             const struct hrf_workflow *workflow)
{
    struct hrf_error ignored; /* the claim of a process that has ended does not count */
    HRF_AUTO(hrf_calibrations) store = NULL;
    if (calibration->claim[0] == '\0' || calibration->is_awaited)
        return;
    if (open_cache(workflow, &store, &ignored) != HRF_OK ||
        hrf_calibrations_give_up(store, calibration->claim, &ignored) != HRF_OK)
        hrf_log_debug("calibrate", "%s", ignored.text);
    calibration->claim[0] = '\0';
}

void run_calibration_release(struct run_calibration *calibration)
{
    hrf_calibration_destroy(calibration->fitted);
    hrf_free(calibration->path);
    hrf_free(calibration->failure);
}

static enum hrf_status find_or_fit(struct run *run, const struct run_sample *sample,
                                   struct hrf_calibrations *store, struct hrf_error *err)
{
    HRF_AUTO(hrf_calibration) calibration = NULL;
    char key[HRF_HASH_HEX];
    if (sample->n_patches == 0)
        return hrf_error_set(err, HRF_E_USER, "no slide%s has a patch of tissue; %s",
                             run->slides.n_sample > 0 ? " of calibrate.slides" : "",
                             run->slides.n_sample > 0 ? "name others"
                                                      : "leave int8 out of 'precision'");
    HRF_TRY(make_key(run, sample, key, err));
    HRF_TRY(find_calibration(store, key, &calibration, err));
    if (calibration != NULL)
        return take_calibration(run, &calibration, !run->calibration.is_planned, err);
    if (!run->calibration.is_planned) {
        bool mine;
        HRF_TRY(claim_key(&run->calibration, store, key, &mine, err));
        if (!mine)
            return HRF_OK;
        hrf_crash_point("run.calibrate.claimed");
        /* Statistics that were collected for another method are used again. */
        HRF_TRY(run_sample_plan(run, sample, err));
    }
    if (!observing_is_over(run))
        return HRF_OK;
    HRF_TRY(check_observed(run, err));
    HRF_TRY(fit_ranges(run, sample, key, &calibration, err));
    if (!run->calibration.is_compared) {
        HRF_TRY(hand_out(run, calibration, err));
        HRF_TRY(run_held_out_plan(run, sample, key, err));
        run->calibration.is_compared = true;
        if (!observing_is_over(run))
            return HRF_OK;
    }
    HRF_TRY(find_loss(run, sample, calibration, err));
    hrf_crash_point("run.calibrate.before_put");
    HRF_TRY(hrf_calibrations_put(store, calibration, err));
    hrf_crash_point("run.calibrate.after_put");
    run_calibration_give_up(&run->calibration, run->setup.workflow);
    return take_calibration(run, &calibration, false, err);
}

static enum hrf_status make_calibration(struct run *run, struct hrf_error *err)
{
    HRF_AUTO(hrf_calibrations) store = NULL;
    HRF_AUTO_RELEASE(run_sample) sample = { .parts = NULL };
    HRF_TRY(hrf_store_set_fact(run->setup.store, "calibration_failure", "",
                               err)); /* an earlier run's */
    HRF_TRY(open_cache(run->setup.workflow, &store, err));
    HRF_TRY(run_sample_make(run, &sample, err));
    return find_or_fit(run, &sample, store, err);
}

/* Only INT8 fails: its tasks are planned and given up at once with the reason, and the other
 * precisions go on. The next `run` tries again. */
static enum hrf_status fail_int8(struct run *run, const char *why, struct hrf_error *err)
{
    run->calibration.failure = hrf_format("INT8's calibration failed: %s", why);
    hrf_store_rollback(run->setup.store);
    run_calibration_give_up(&run->calibration, run->setup.workflow);
    hrf_log_warning("calibrate", "%s", run->calibration.failure);
    HRF_TRY(
        hrf_store_set_fact(run->setup.store, "calibration_failure", run->calibration.failure, err));
    HRF_TRY(run_plan_all_infer(run, err));
    HRF_TRY(hrf_store_begin(run->setup.store, err));
    for (size_t i = 0; i < run->tasks.rows.n_items; i++) {
        const struct hrf_task_row *t = &run->tasks.rows.items[i];
        const size_t p = hrf_workflow_find_variant(run->setup.workflow, t->precision);
        if (t->kind == HRF_TASK_INFER && p < HRF_MOST_VARIANTS &&
            hrf_workflow_variant(run->setup.workflow, p) == HRF_INT8)
            HRF_TRY(hrf_store_set_task(run->setup.store, t->id, HRF_TASK_BROKEN, 0,
                                       run->calibration.failure, err));
    }
    HRF_TRY(hrf_store_commit(run->setup.store, err));
    return run_tasks_reload(&run->tasks, &run->setup, &run->slides, err);
}

enum hrf_status run_calibrate(struct run *run, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    if (!run_waits_for_calibration(run) || !run_sample_is_tiled(run) ||
        run->calibration.is_awaited || (run->calibration.is_planned && !observing_is_over(run)))
        return HRF_OK;
    const enum hrf_status status = make_calibration(run, &why);
    const bool is_int8s = status == HRF_E_USER || status == HRF_E_EXTERNAL;
    if (is_int8s && !run->setup.calibrate_only)
        return fail_int8(run, why.text, err);
    if (status != HRF_OK)
        return hrf_error_set(err, status, "%s%s", is_int8s ? "INT8's calibration failed: " : "",
                             why.text);
    return run->calibration.fitted != NULL ? run_plan_all_infer(run, err) : HRF_OK;
}
