/* fit.h - chooses the range of a tensor's 8-bit form from its histogram.
 *
 * A tensor without negative numbers has 255 steps up to the limit of its range; a tensor with
 * negative numbers has 127 steps on each side of zero.
 * Pure; the same observation gives the same range.
 */
#ifndef HRF_CALIBRATE_FIT_FIT_H
#define HRF_CALIBRATE_FIT_FIT_H

#include "calibrate/observe/observations.h"
#include "schema/record/calibration.h"
#include "schema/settings/settings.h"

struct hrf_fit {
    enum hrf_fit_method kind; /* the kind that was used; for HRF_FIT_AUTO, the chosen one */
    float low, high;          /* the range; low is 0 or -high */
    double sqnr_db;           /* signal to quantisation noise, by the histogram; +inf: no noise */
};

/* Computes the range of one tensor. A tensor that held only zeros gets the range 0 to 0.
 * HRF_E_USER: the tensor held NaN or infinities, or no number at all. */
HRF_CHECKED enum hrf_status hrf_fit_range(const struct hrf_observation *observation,
                                          enum hrf_fit_method kind, struct hrf_fit *out,
                                          struct hrf_error *err);

/* Makes a record with the range and the channel means of every tensor. A tensor whose range gives
 * no scale (hrf_calibration_doubt) is added to `keep`. The caller fills in the record's key, graph,
 * sample, engine and times. HRF_E_USER: the sample is empty. */
HRF_CHECKED enum hrf_status hrf_fit_all(const struct hrf_observations *observations,
                                        enum hrf_fit_method kind, struct hrf_calibration **out,
                                        struct hrf_error *err);

/* At 15 dB, rounding and clipping make an error of 18 % of the tensor's magnitude. Ordinary tensors
 * have 35 dB and more. */
#define HRF_FIT_MIN_SQNR_DB 15.0

/* Adds to the record's `keep` every tensor that 8 bits hold with less than min_sqnr_db, saying so.
 */
void hrf_fit_keep_noisy(struct hrf_calibration *calibration, double min_sqnr_db);
/* One line for each tensor whose values were all equal. That should not happen with real images:
 * the sample is blank, or the model is broken. Heap; "" if there is none.
 */
char *hrf_fit_warnings(const struct hrf_observations *observations);

#endif
