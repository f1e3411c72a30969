/* calibration_fit.c - INT8's ranges from what the tasks of the sample observed
 * (calibrate_private.h). */
#include "orchestrator/run/calibrate_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "calibrate/fit/budget.h"
#include "calibrate/observe/codec.h"

#include <string.h>

enum hrf_fit_kind run_fit_kind(const struct hrf_workflow *workflow)
{
    static const enum hrf_fit_kind kinds[] = {
        [HRF_FIT_MINMAX] = HRF_FIT_KIND_MINMAX,   [HRF_FIT_PERCENTILE] = HRF_FIT_KIND_PERCENTILE,
        [HRF_FIT_ENTROPY] = HRF_FIT_KIND_ENTROPY, [HRF_FIT_MSE] = HRF_FIT_KIND_MSE,
        [HRF_FIT_AUTO] = HRF_FIT_KIND_AUTO,       [HRF_FIT_BEST] = HRF_FIT_KIND_AUTO
    };
    return kinds[workflow->calibrate.method];
}

const char *run_layer_loss(const struct hrf_workflow *workflow)
{
    return workflow->calibrate.budget.agreement > 0 ? "margin" : "cosine";
}

enum hrf_status run_calibration_key(const struct run *run, const struct run_sample *sample,
                                    char out[HRF_HASH_HEX], struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    HRF_TRY(run_sample_hash_settings(run, hash));
    hrf_hash_text(hash, sample->identity);
    const struct hrf_workflow_calibrate *how = &run->workflow->calibrate;
    hrf_hash_text(hash, hrf_fit_kind_name(run_fit_kind(run->workflow)));
    hrf_hash_double(hash, how->min_sqnr);
    for (size_t i = 0; i < how->keep.n_items; i++)
        hrf_hash_text(hash, how->keep.items[i]);
    if (hrf_workflow_has_budget(run->workflow)) {
        hrf_hash_text(hash, run_layer_loss(run->workflow));
        hrf_hash_double(hash, how->budget.cosine + how->budget.agreement); /* one of them is 0 */
    }
    hrf_hash_hex(hash, out);
    return HRF_OK;
}

static enum hrf_status merge_records(struct run *run, const struct run_sample *sample,
                                     struct hrf_observations *all, struct hrf_error *err)
{
    for (size_t i = 0; i < sample->n_parts; i++) {
        char key[HRF_HASH_HEX];
        struct hrf_bytes bytes;
        struct hrf_record_identity expected;
        struct hrf_observations one = { .items = NULL };
        const char *text = NULL;
        size_t n_text = 0;
        HRF_TRY(run_sample_part_key(run, sample, i, key, err));
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

static enum hrf_status describe(const struct run *run, const struct run_sample *sample,
                                const char *key, struct hrf_calibration *c, struct hrf_error *err)
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

enum hrf_status run_calibration_fit(struct run *run, const struct run_sample *sample,
                                    const char *key, struct hrf_calibration **out,
                                    struct hrf_error *err)
{
    const struct hrf_workflow_calibrate *how = &run->workflow->calibrate;
    struct hrf_observations all = { .items = NULL };
    enum hrf_status status = merge_records(run, sample, &all, err);
    if (status == HRF_OK)
        status = warn_of(&all, err);
    if (status == HRF_OK)
        status = hrf_fit_all(&all, run_fit_kind(run->workflow), out, err);
    if (status == HRF_OK)
        status = choose_keep(how, *out, err);
    if (status == HRF_OK && hrf_workflow_has_budget(run->workflow))
        status = hrf_fit_budget(&all, how->budget.cosine + how->budget.agreement, *out, err);
    hrf_observations_release(&all);
    HRF_TRY(status);
    return describe(run, sample, key, *out, err);
}
