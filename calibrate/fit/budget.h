/* budget.h - which layers leave INT8 so that the loss stays within what is allowed. Pure. */
#ifndef HRF_CALIBRATE_FIT_BUDGET_H
#define HRF_CALIBRATE_FIT_BUDGET_H

#include "calibrate/observe/observations.h"
#include "schema/record/calibration.h"

/* Adds to the record's `keep` the layers that are not faster in INT8, and then, until the losses of
 * the others add up to at most `budget` (1 - cosine of the output), those that save least time for
 * most loss. The reasons have loss and time. Nothing changes if no layer was measured. */
HRF_CHECKED enum hrf_status hrf_fit_budget(const struct hrf_observations *observations,
                                           double budget, struct hrf_calibration *calibration,
                                           struct hrf_error *err);
/* One or two sentences on the time of an image in INT8, FP32 and BF16, and whether INT8 is worth it
 * here. Heap; "" if it was not measured, NULL if memory ran out. */
char *hrf_fit_budget_words(const struct hrf_observations *observations,
                           const struct hrf_calibration *calibration, double budget);

#endif
