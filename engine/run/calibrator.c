#include "engine/run/calibrator.h"

#include <string.h>

static enum hrf_status observe(void *context, const char *value, const struct hrf_shape *shape,
                               const float *data, struct hrf_error *err)
{
    /* In memory order channels are innermost for images and for matrices. */
    const int64_t channels = shape->rank == 4 || shape->rank == 2 ? shape->dims[1] : 1;
    return hrf_observe(context, value, data, hrf_shape_count(shape), channels, err);
}

void hrf_calibrator_watch(struct hrf_session *session, struct hrf_observations *observations)
{
    hrf_session_observe(session, observe, observations);
}

static enum hrf_status fit_tensor(const struct hrf_observation *o, enum hrf_fit_kind kind,
                                  struct hrf_calibration_tensor *t, struct hrf_error *err)
{
    struct hrf_fit fit;
    HRF_TRY(hrf_fit_range(o, kind, &fit, err));
    *t = (struct hrf_calibration_tensor){ .name = hrf_strdup(o->value),
                                          .low = fit.low,
                                          .high = fit.high,
                                          .method = hrf_strdup(hrf_fit_kind_name(fit.kind)),
                                          .sqnr_db = fit.sqnr_db,
                                          .n_means = o->n_channels };
    t->means = hrf_alloc_array((size_t)o->n_channels, sizeof *t->means);
    if (t->name == NULL || t->method == NULL || t->means == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a calibration");
    for (int64_t c = 0; c < o->n_channels; c++)
        t->means[c] = (float)(o->sums[c] * (double)o->n_channels / (double)o->n);
    return HRF_OK;
}

enum hrf_status hrf_calibrator_fit(const struct hrf_observations *observations,
                                   enum hrf_fit_kind kind, struct hrf_calibration **out,
                                   struct hrf_error *err)
{
    HRF_AUTO(hrf_calibration) c = hrf_calloc(1, sizeof *c);
    if (c != NULL)
        c->tensors = hrf_calloc((size_t)observations->n_items + 1, sizeof *c->tensors);
    if (c == NULL || c->tensors == NULL ||
        (c->method = hrf_strdup(hrf_fit_kind_name(kind))) == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a calibration");
    if (observations->n_items == 0)
        return hrf_error_set(err, HRF_E_USER, "the calibration sample is empty");
    for (int32_t i = 0; i < observations->n_items; i++) {
        c->n_tensors++;
        HRF_TRY(fit_tensor(&observations->items[i], kind, &c->tensors[i], err));
    }
    *out = c;
    c = NULL;
    return HRF_OK;
}

enum hrf_status hrf_calibrated_init(const struct hrf_calibration *calibration,
                                    struct hrf_calibrated *out, struct hrf_error *err)
{
    *out = (struct hrf_calibrated){ .n_ranges = (int32_t)calibration->n_tensors,
                                    .n_keep = (int32_t)calibration->n_keep };
    out->ranges = hrf_calloc(calibration->n_tensors + 1, sizeof *out->ranges);
    out->keep = hrf_calloc(calibration->n_keep + 1, sizeof *out->keep);
    if (out->ranges == NULL || out->keep == NULL) {
        hrf_calibrated_release(out);
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a calibration");
    }
    for (size_t i = 0; i < calibration->n_tensors; i++) {
        const struct hrf_calibration_tensor *t = &calibration->tensors[i];
        out->ranges[i] = (struct hrf_range){ .value = t->name,
                                             .low = t->low,
                                             .high = t->high,
                                             .means = t->means,
                                             .n_means = t->n_means };
    }
    for (size_t i = 0; i < calibration->n_keep; i++)
        out->keep[i] = calibration->keep[i].node;
    return HRF_OK;
}

void hrf_calibrated_release(struct hrf_calibrated *calibrated)
{
    hrf_free(calibrated->ranges);
    hrf_free(calibrated->keep);
    *calibrated = (struct hrf_calibrated){ .ranges = NULL };
}
