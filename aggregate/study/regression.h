/* regression.h - how well numbers of slides meet the numbers that they should be. Pure. */
#ifndef HRF_AGGREGATE_STUDY_REGRESSION_H
#define HRF_AGGREGATE_STUDY_REGRESSION_H

#include "base/error.h"

#include <stddef.h>

struct hrf_number_pair {
    double truth, value; /* finite */
};

struct hrf_regression {
    size_t n;
    double mean_absolute_error;
    double r2;       /* 1 - squared error / squared distance from the truths' mean; NaN: those are
                        all alike */
    double spearman; /* rank correlation, ties have their mean rank; NaN: one side is all alike */
};

/* HRF_E_USER, with a text fit for a report, without two pairs. */
HRF_CHECKED enum hrf_status hrf_regression_compute(const struct hrf_number_pair *pairs, size_t n,
                                                   struct hrf_regression *out,
                                                   struct hrf_error *err);

#endif
