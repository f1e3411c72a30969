/* calibrator.c - passes what a session computes on to the observations of a calibration
 * (calibrator.h). */
#include "engine/run/calibrator.h"

static enum hrf_status observe(void *context, const char *value, const struct hrf_shape *shape,
                               const float *data, struct hrf_error *err)
{
    /* The channel is the innermost dimension in memory, of images and of matrices. */
    const struct hrf_calibrator *c = context;
    const int64_t channels = shape->rank > 1 ? hrf_shape_innermost(shape) : 1;
    int64_t n = hrf_shape_count(shape);
    if (c->n_images > 0 && shape->rank > 0 && shape->dims[0] == c->batch)
        n = n / c->batch * c->n_images;
    if (!c->tries_smoothing)
        return hrf_observe(c->observations, value, data, n, channels, err);
    if (c->smoothing != NULL)
        hrf_smoothing_try(c->smoothing, c->observations, value, data, n / channels, channels);
    return HRF_OK;
}

void hrf_calibrator_watch(struct hrf_session *session, struct hrf_calibrator *calibrator)
{
    hrf_session_observe(session, observe, calibrator);
}

void hrf_calibrated_init(const struct hrf_calibration *calibration, struct hrf_calibrated *out)
{
    *out = (struct hrf_calibrated){ .n_ranges = (int32_t)calibration->n_tensors,
                                    .n_keep = (int32_t)calibration->n_keep };
    out->ranges = hrf_calloc(calibration->n_tensors + 1, sizeof *out->ranges);
    out->keep = hrf_calloc(calibration->n_keep + 1, sizeof *out->keep);
    out->keep_reasons = hrf_calloc(calibration->n_keep + 1, sizeof *out->keep_reasons);
    out->keep_precisions = hrf_calloc(calibration->n_keep + 1, sizeof *out->keep_precisions);
    for (size_t i = 0; i < calibration->n_tensors; i++) {
        const struct hrf_calibration_tensor *t = &calibration->tensors[i];
        out->ranges[i] = (struct hrf_range){ .value = t->name,
                                             .low = t->low,
                                             .high = t->high,
                                             .means = t->means,
                                             .n_means = t->n_means,
                                             .peaks = t->peaks,
                                             .strength = t->strength };
    }
    for (size_t i = 0; i < calibration->n_keep; i++) {
        out->keep[i] = calibration->keep[i].name;
        out->keep_reasons[i] = calibration->keep[i].reason;
        out->keep_precisions[i] = calibration->keep[i].precision;
    }
}

void hrf_calibrated_release(struct hrf_calibrated *calibrated)
{
    hrf_free(calibrated->ranges);
    hrf_free(calibrated->keep);
    hrf_free(calibrated->keep_reasons);
    hrf_free(calibrated->keep_precisions);
    *calibrated = (struct hrf_calibrated){ .ranges = NULL };
}
