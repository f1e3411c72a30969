/* regression.h - errors and correlations of predicted numbers of slides against true ones. Pure. */
#ifndef HRF_STATISTICS_REGRESSION_H
#define HRF_STATISTICS_REGRESSION_H

#include "base/error.h"

#include <stddef.h>

struct hrf_number_pair {
    double truth, value; /* finite */
};

struct hrf_regression {
    size_t n;
    double mean_absolute_error;
    double r2; /* 1 - squared error / squared distance from the truths' mean; NaN if all truths are
                  equal */
    double spearman; /* rank correlation, ties have their mean rank; NaN if one side is constant */
};

/* HRF_E_USER, with a text fit for a report: there are fewer than two pairs. */
HRF_CHECKED enum hrf_status hrf_regression_compute(const struct hrf_number_pair *pairs, size_t n,
                                                   struct hrf_regression *out,
                                                   struct hrf_error *err);

#endif
