/* calibrator.h - measures INT8 ranges: observes the values that a float32 session computes on a
 * sample. */
#ifndef HRF_ENGINE_RUN_CALIBRATOR_H
#define HRF_ENGINE_RUN_CALIBRATOR_H

#include "calibrate/fit/fit.h"
#include "calibrate/observe/observations.h"
#include "engine/run/session.h"
#include "engine/run/smoothing.h"
#include "schema/record/calibration.h"

struct hrf_calibrator {
    struct hrf_observations *observations; /* borrowed */
    /* Only the first n_images of a batch of `batch` images are observed; 0: all. */
    int64_t batch, n_images;
    const struct hrf_smoothing *smoothing; /* borrowed; NULL: no products of tokens */
    /* Runs measure strengths of smoothing, with what was observed so far, instead of observing. */
    bool tries_smoothing;
};
/* Observes every later run of the float32 session. `calibrator` is borrowed until
 * hrf_session_observe(session, NULL, NULL). */
void hrf_calibrator_watch(struct hrf_session *session, struct hrf_calibrator *calibrator);
/* A calibration record in the form that a session takes. The arrays are on the heap; the texts are
 * borrowed from the record. */
struct hrf_calibrated {
    struct hrf_range *ranges;
    int32_t n_ranges;
    const char **keep, **keep_reasons;
    enum hrf_precision *keep_precisions; /* HRF_N_PRECISIONS: float32, and nothing was measured */
    int32_t n_keep;
};
void hrf_calibrated_init(const struct hrf_calibration *calibration, struct hrf_calibrated *out);
void hrf_calibrated_release(struct hrf_calibrated *calibrated);

#endif
