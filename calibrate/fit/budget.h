/* budget.h - which layers leave INT8 so that the loss stays within what is allowed. Pure.
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
 * and then, until the loss of the others is at most 1 - `least`, those that save least time for
 * most loss. Each goes to bfloat16 first where that is faster than float32 and loses less than
 * INT8, and its loss there counts, too. The reasons have loss and time. `least` is a cosine or an
 * agreement, whichever the observations are of. Fills the record's `budget`. HRF_E_USER: no layer
 * was measured. */
HRF_CHECKED enum hrf_status hrf_fit_budget(const struct hrf_observations *observations,
                                           double least, struct hrf_calibration *calibration,
                                           struct hrf_error *err);
/* One or two sentences on the time of an image in INT8, FP32 and BF16, and whether INT8 is worth it
 * here. Heap; "" without a budget, NULL if memory ran out. */
char *hrf_fit_budget_words(const struct hrf_calibration *calibration);

#endif
