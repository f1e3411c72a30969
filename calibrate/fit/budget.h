/* budget.h - chooses which layers leave INT8 so that the network's loss stays within a budget.
 * Pure.
 *
 * A layer's loss was measured with that layer alone in INT8. All losses are multiplied by the loss
 * of the network with every layer in INT8 over the sum of its layers' (at least 1). Cosine: the
 * layers' losses (1 - cosine) are added. Agreement: the layers move the margin between an image's
 * two most likely classes independently of each other, so that the squares of their moves are
 * added, and the sum is the variance of a normal distribution; the loss is the share of the
 * sample's images whose margin such a move overcomes.
 */
#ifndef HRF_CALIBRATE_FIT_BUDGET_H
#define HRF_CALIBRATE_FIT_BUDGET_H

#include "calibrate/observe/observations.h"
#include "schema/record/calibration.h"

/* Adds to the record's `keep` the layers that are not faster in INT8 than in float32 or bfloat16,
 * and then, until the loss of the others is at most 1 - `min`, the layers with the most loss for
 * the time that INT8 saves there. A layer goes to bfloat16 first if that is faster than float32 and
 * loses less than INT8; its loss in bfloat16 counts, too. Each reason states loss and time. `min`
 * is a cosine or an agreement, according to the observations. Fills the record's `budget`.
 * HRF_E_USER: no layer was measured. */
HRF_CHECKED enum hrf_status hrf_fit_budget(const struct hrf_observations *observations, double min,
                                           struct hrf_calibration *calibration,
                                           struct hrf_error *err);
/* One or two sentences on the time of an image in INT8, FP32 and BF16, and whether INT8 is worth it
 * here. Heap; "" without a budget. */
char *hrf_fit_budget_text(const struct hrf_calibration *calibration);

/* Fills the record's `lost` from the loss that was observed on images outside of the sample. It
 * also fills in what a budget would give if the loss is large, layers were measured and there is no
 * budget yet. */
HRF_CHECKED enum hrf_status hrf_fit_loss(const struct hrf_observations *observations,
                                         struct hrf_calibration *calibration,
                                         struct hrf_error *err);
/* True if the loss was measured and is large enough for a warning (hrf_loss_is_large). */
bool hrf_fit_loss_is_large(const struct hrf_calibration *calibration);
/* The loss in one or two sentences, with the way out where it is large, or why it is not known.
 * Heap. */
char *hrf_fit_loss_text(const struct hrf_calibration *calibration);

#endif
