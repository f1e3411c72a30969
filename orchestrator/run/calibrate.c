/* calibrate.c - INT8's ranges: a sample of patches over all tiled slides, one observing task for
 * each slide of it, merged and fitted here, kept in the store that runs share.
 *
 * The sample is drawn when every slide is tiled, by seed, from the patches of tissue alone; no
 * label is looked at. Its identity is part of the key, as are the model, its preprocessing, the
 * method and the version: a calibration that was made once, by whichever run, is found again.
 */
#include "base/cache.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "calibrate/fit/fit.h"
#include "calibrate/observe/codec.h"
#include "orchestrator/launch/launch.h"
#include "orchestrator/run/run_private.h"
#include "schema/store/calibrations.h"

#include <stdio.h>
#include <string.h>

static const char version[] = "hires-flow calibrate 5";

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
    return hrf_launch_model_brings_scales(workflow->model.file, out, err);
}

bool run_waits_for_calibration(const struct run *run)
{
    return run_wants_calibration(run) && run->calibration == NULL &&
           run->calibration_failure == NULL;
}

static enum hrf_fit_kind fit_kind(enum hrf_fit_method method)
{
    static const enum hrf_fit_kind kinds[] = { [HRF_FIT_MINMAX] = HRF_FIT_KIND_MINMAX,
                                               [HRF_FIT_PERCENTILE] = HRF_FIT_KIND_PERCENTILE,
                                               [HRF_FIT_ENTROPY] = HRF_FIT_KIND_ENTROPY,
                                               [HRF_FIT_MSE] = HRF_FIT_KIND_MSE,
                                               [HRF_FIT_BEST] = HRF_FIT_KIND_BEST };
    return kinds[method];
}

/* ---- the sample ---- */

/* The part of the sample that lies on one slide: its tile plan, reduced to the chosen patches. */
struct part {
    int64_t slide_id;
    struct hrf_tile_plan *plan;
};

struct sample {
    struct part *parts;
    size_t n_parts;
    int64_t n_patches;
    char identity[HRF_HASH_HEX];
};

static void sample_release(struct sample *sample)
{
    for (size_t i = 0; i < sample->n_parts; i++)
        hrf_tile_plan_destroy(sample->parts[i].plan);
    hrf_free(sample->parts);
}

/* The sample is drawn from the cohort's slides unless calibrate.slides names others. */
static bool may_sample(const struct run *run, const struct hrf_task_row *tile)
{
    return run->slides.n_sample == 0 || tile->slide_id > (int64_t)run->slides.n_items;
}

static bool tiling_is_over(const struct run *run)
{
    for (size_t i = 0; i < run->tasks.n_items; i++) {
        const struct hrf_task_row *t = &run->tasks.items[i];
        if (t->kind == HRF_TASK_TILE && may_sample(run, t) && t->state != HRF_TASK_FINISHED &&
            t->state != HRF_TASK_BROKEN)
            return false;
    }
    return true;
}

static enum hrf_status load_parts(struct run *run, struct sample *sample, int64_t *total,
                                  struct hrf_error *err)
{
    sample->parts = hrf_calloc(run->tasks.n_items + 1, sizeof *sample->parts);
    HRF_CHECK_MEMORY(sample->parts != NULL, err, "no memory for the calibration sample");
    *total = 0;
    for (size_t i = 0; i < run->tasks.n_items; i++) {
        const struct hrf_task_row *t = &run->tasks.items[i];
        if (t->kind != HRF_TASK_TILE || t->state != HRF_TASK_FINISHED || !may_sample(run, t))
            continue;
        struct part *part = &sample->parts[sample->n_parts];
        part->slide_id = t->slide_id;
        HRF_TRY(hrf_store_get_tile_plan(run->store, t->slide_id, &part->plan, err));
        sample->n_parts++;
        hrf_tile_plan_drop_white(part->plan);
        *total += part->plan->n_patches;
    }
    return HRF_OK;
}

/* Selection sampling: each subset of `want` patches is equally likely. Source: Knuth, TAOCP
 * 2, 3.4.2, algorithm S. */
static void draw(struct sample *sample, int64_t total, int64_t want, int64_t seed)
{
    struct hrf_random random = hrf_random_init((uint64_t)seed);
    int64_t left = total, need = want < total ? want : total;
    size_t kept_parts = 0;
    sample->n_patches = need;
    for (size_t i = 0; i < sample->n_parts; i++) {
        struct hrf_tile_plan *plan = sample->parts[i].plan;
        int64_t kept = 0;
        for (int64_t k = 0; k < plan->n_patches; k++, left--) {
            if (hrf_random_below(&random, left) >= need)
                continue;
            plan->patches[kept++] = plan->patches[k];
            need--;
        }
        plan->n_patches = kept;
        if (kept == 0) {
            hrf_tile_plan_destroy(plan);
            continue;
        }
        sample->parts[kept_parts++] = sample->parts[i];
    }
    sample->n_parts = kept_parts;
}

static enum hrf_status identify(struct sample *sample, struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    for (size_t i = 0; i < sample->n_parts; i++) {
        HRF_TRY(hrf_tile_plan_seal(sample->parts[i].plan, err));
        hrf_hash_text(hash, sample->parts[i].plan->quickhash);
        hrf_hash_text(hash, sample->parts[i].plan->hash);
    }
    hrf_hash_hex(hash, sample->identity);
    return HRF_OK;
}

static enum hrf_status make_sample(struct run *run, struct sample *sample, struct hrf_error *err)
{
    int64_t total = 0;
    HRF_TRY(load_parts(run, sample, &total, err));
    draw(sample, total, run->workflow->calibrate.samples, run->workflow->calibrate.seed);
    return identify(sample, err);
}

/* ---- keys ---- */

static enum hrf_status hash_settings(const struct run *run, struct hrf_hash *hash)
{
    hrf_hash_text(hash, version);
    hrf_hash_text(hash, run->model_sha256);
    for (int i = 0; i < 3; i++) {
        hrf_hash_double(hash, run->workflow->model.input.mean[i]);
        hrf_hash_double(hash, run->workflow->model.input.std[i]);
    }
    return HRF_OK;
}

static enum hrf_status calibration_key(const struct run *run, const struct sample *sample,
                                       char out[HRF_HASH_HEX], struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    HRF_TRY(hash_settings(run, hash));
    hrf_hash_text(hash, sample->identity);
    const struct hrf_workflow_calibrate *how = &run->workflow->calibrate;
    hrf_hash_text(hash, hrf_fit_kind_name(fit_kind(how->method)));
    hrf_hash_double(hash, how->min_sqnr);
    for (size_t i = 0; i < how->keep.n_items; i++)
        hrf_hash_text(hash, how->keep.items[i]);
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

/* The key of the statistics of one slide's part of the sample; it does not depend on the method. */
static enum hrf_status part_key(const struct run *run, const struct part *part,
                                char out[HRF_HASH_HEX], struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    HRF_TRY(hash_settings(run, hash));
    hrf_hash_text(hash, part->plan->quickhash);
    hrf_hash_text(hash, part->plan->hash);
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

/* ---- tasks ---- */

static enum hrf_status export_part(struct run *run, const struct part *part, const char *key,
                                   struct hrf_error *err)
{
    HRF_AUTO_FREE char *path = run_plan_path(run, key);
    struct hrf_bytes bytes;
    HRF_CHECK_MEMORY(path != NULL, err, "no memory for a path");
    HRF_TRY(hrf_slide_expect(run_find_slide(run, part->slide_id), HRF_TASK_CALIBRATE, key,
                             &part->plan->identity, err));
    if (run_has_plan(path, &part->plan->identity))
        return HRF_OK;
    HRF_TRY(hrf_tile_plan_encode(part->plan, &bytes, err));
    HRF_AUTO_FREE char *directory = hrf_path_directory(path);
    enum hrf_status status = hrf_path_make_directories(directory, err);
    if (status == HRF_OK)
        status = hrf_file_write_atomic(path, bytes.data, bytes.n_bytes, err);
    hrf_bytes_release(&bytes);
    return status;
}

static enum hrf_status plan_observing(struct run *run, const struct sample *sample,
                                      struct hrf_error *err)
{
    HRF_TRY(hrf_store_begin(run->store, err));
    const size_t n = run->slides.n_items + run->slides.n_sample;
    for (size_t i = 0, k = 0; i < n; i++) { /* both in the slides' order */
        const int64_t id = run->slides.items[i].id;
        if (k < sample->n_parts && sample->parts[k].slide_id == id)
            k++;
        else
            HRF_TRY(hrf_store_plan_tasks(run->store, id, HRF_TASK_CALIBRATE, NULL, 0, err));
    }
    for (size_t i = 0; i < sample->n_parts; i++) {
        struct hrf_task_row row = { .kind = HRF_TASK_CALIBRATE,
                                    .slide_id = sample->parts[i].slide_id,
                                    .n_patches = sample->parts[i].plan->n_patches };
        HRF_TRY(part_key(run, &sample->parts[i], row.key, err));
        HRF_TRY(export_part(run, &sample->parts[i], row.key, err));
        HRF_TRY(hrf_store_plan_tasks(run->store, row.slide_id, HRF_TASK_CALIBRATE, &row, 1, err));
    }
    hrf_crash_point("run.calibrate.before_plan");
    HRF_TRY(hrf_store_commit(run->store, err));
    run->calibration_planned = true;
    run_warn_dropped(run);
    return run_reload_tasks(run, err);
}

/* ---- the result ---- */

static enum hrf_status merge_records(struct run *run, const struct sample *sample,
                                     struct hrf_observations *all, struct hrf_error *err)
{
    for (size_t i = 0; i < sample->n_parts; i++) {
        char key[HRF_HASH_HEX];
        struct hrf_bytes bytes;
        struct hrf_record_identity expected;
        struct hrf_observations one = { .items = NULL };
        const char *text = NULL;
        size_t n_text = 0;
        HRF_TRY(part_key(run, &sample->parts[i], key, err));
        HRF_TRY(hrf_slide_expect(run_find_slide(run, sample->parts[i].slide_id), HRF_TASK_CALIBRATE,
                                 key, &expected, err));
        HRF_TRY(hrf_store_get_record(run->store, HRF_TASK_CALIBRATE, &expected, &bytes, err));
        enum hrf_status status = hrf_text_record_decode(bytes.data, bytes.n_bytes,
                                                        HRF_OBSERVATIONS_KIND, &expected,
                                                        "the store", &text, &n_text, err);
        if (status == HRF_OK)
            status = hrf_observations_decode(text, n_text, "the store", &one, err);
        hrf_bytes_release(&bytes);
        if (status == HRF_OK)
            status = hrf_observations_merge(all, &one, err);
        hrf_observations_release(&one);
        HRF_TRY(status);
    }
    return HRF_OK;
}

static char *copy_text(const char *text, bool *failed)
{
    char *copy = hrf_strdup(text);
    *failed |= copy == NULL;
    return copy;
}

static enum hrf_status describe(const struct run *run, const struct sample *sample, const char *key,
                                struct hrf_calibration *c, struct hrf_error *err)
{
    char created[24];
    bool failed = false;
    hrf_clock_iso8601(hrf_clock_wall_ms(), created);
    c->key = copy_text(key, &failed);
    c->graph = copy_text(run->model_sha256, &failed);
    c->sample = copy_text(sample->identity, &failed);
    c->engine = copy_text(HRF_VERSION, &failed);
    c->created = copy_text(created, &failed);
    c->n_samples = sample->n_patches;
    const struct run_phase *phase = &run->phases[HRF_TASK_CALIBRATE];
    c->seconds = phase->first > 0 && phase->last > phase->first ? phase->last - phase->first : 0;
    return failed ? hrf_error_set(err, HRF_E_NOMEM, "no memory for a calibration") : HRF_OK;
}

/* The tensors that stay in float32: those that the workflow names, and those that lose too much in
 * INT8. */
static enum hrf_status choose_keep(const struct hrf_workflow_calibrate *how,
                                   struct hrf_calibration *calibration, struct hrf_error *err)
{
    for (size_t i = 0; i < how->keep.n_items; i++)
        HRF_TRY(hrf_calibration_keep(calibration, how->keep.items[i], "asked for by calibrate.keep",
                                     err));
    return hrf_fit_keep_noisy(calibration, how->min_sqnr, err);
}

static enum hrf_status warn_of(const struct hrf_observations *all, struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = hrf_fit_warnings(all);
    HRF_CHECK_MEMORY(text != NULL, err, "no memory to look at a calibration");
    char *left = NULL;
    for (char *line = strtok_r(text, "\n", &left); line != NULL; line = strtok_r(NULL, "\n", &left))
        hrf_log_warning("calibrate", "%s", line);
    return HRF_OK;
}

static enum hrf_status fit(struct run *run, const struct sample *sample, const char *key,
                           struct hrf_calibration **out, struct hrf_error *err)
{
    const struct hrf_workflow_calibrate *how = &run->workflow->calibrate;
    struct hrf_observations all = { .items = NULL };
    enum hrf_status status = merge_records(run, sample, &all, err);
    if (status == HRF_OK)
        status = warn_of(&all, err);
    if (status == HRF_OK)
        status = hrf_fit_all(&all, fit_kind(how->method), out, err);
    hrf_observations_release(&all);
    HRF_TRY(status);
    HRF_TRY(choose_keep(how, *out, err));
    return describe(run, sample, key, *out, err);
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
    for (size_t i = 0; i < run->calibration->n_keep; i++)
        hrf_log_warning("calibrate", "'%s' stays in float32: %s", run->calibration->keep[i].name,
                        run->calibration->keep[i].reason);
    return HRF_OK;
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
    for (size_t i = 0; i < run->tasks.n_items; i++)
        if (run->tasks.items[i].kind == HRF_TASK_CALIBRATE &&
            run->tasks.items[i].state != HRF_TASK_FINISHED &&
            run->tasks.items[i].state != HRF_TASK_BROKEN)
            return false;
    return true;
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

static enum hrf_status settle(struct run *run, const struct sample *sample,
                              struct hrf_calibrations *store, struct hrf_error *err)
{
    HRF_AUTO(hrf_calibration) calibration = NULL;
    char key[HRF_HASH_HEX];
    if (sample->n_patches == 0)
        return hrf_error_set(err, HRF_E_USER, "no slide%s has a patch of tissue; %s",
                             run->slides.n_sample > 0 ? " of calibrate.slides" : "",
                             run->slides.n_sample > 0 ? "name others"
                                                      : "leave int8 out of 'precision'");
    HRF_TRY(calibration_key(run, sample, key, err));
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
        HRF_TRY(plan_observing(run, sample, err));
    }
    if (!observing_is_over(run))
        return HRF_OK;
    HRF_TRY(check_observed(run, err));
    HRF_TRY(fit(run, sample, key, &calibration, err));
    hrf_crash_point("run.calibrate.before_put");
    HRF_TRY(hrf_calibrations_put(store, calibration, err));
    hrf_crash_point("run.calibrate.after_put");
    run_give_up_calibration(run);
    return adopt(run, &calibration, false, err);
}

static enum hrf_status find_or_make(struct run *run, struct hrf_error *err)
{
    HRF_AUTO(hrf_calibrations) store = NULL;
    struct sample sample = { .parts = NULL };
    HRF_TRY(hrf_store_set_fact(run->store, "calibration_failure", "", err)); /* an earlier run's */
    HRF_TRY(open_cache(run, &store, err));
    enum hrf_status status = make_sample(run, &sample, err);
    if (status == HRF_OK)
        status = settle(run, &sample, store, err);
    sample_release(&sample);
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
        if (t->kind == HRF_TASK_INFER && strcmp(t->precision, hrf_precision_name(HRF_INT8)) == 0)
            HRF_TRY(hrf_store_set_task(run->store, t->id, HRF_TASK_BROKEN, 0,
                                       run->calibration_failure, err));
    }
    HRF_TRY(hrf_store_commit(run->store, err));
    return run_reload_tasks(run, err);
}

enum hrf_status run_calibrate(struct run *run, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    if (!run_waits_for_calibration(run) || !tiling_is_over(run) || run->calibration_awaited ||
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
