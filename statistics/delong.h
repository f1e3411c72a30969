/* delong.h - tests whether two scores of the same slides have different areas under the ROC curve.
 *
 * DeLong, DeLong and Clarke-Pearson, "Comparing the areas under two or more correlated receiver
 * operating characteristic curves", Biometrics 44, 1988: the paired, non-parametric test. Pure.
 */
#ifndef HRF_STATISTICS_DELONG_H
#define HRF_STATISTICS_DELONG_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define HRF_NORMAL_95 1.959963984540054 /* 97.5 % of a normal distribution lies below */

/* A slide with a truth, scored twice. Scores must not be NaN. */
struct hrf_paired {
    double a, b;
    bool positive;
};

struct hrf_delong {
    double auc_a, auc_b;
    double difference; /* auc_b - auc_a */
    double variance;   /* of the difference */
    double p;          /* two-sided; 1 if both scores order every pair alike */
};

/* HRF_E_USER, with a text fit for a report: a class has fewer than two slides, a score is NaN, or
 * the difference has no spread (too few slides). The time is proportional to positives times
 * negatives. */
HRF_CHECKED enum hrf_status hrf_delong_test(const struct hrf_paired *items, size_t n_items,
                                            struct hrf_delong *out, struct hrf_error *err);

#endif
