/* head_study.h - the effect of the encoder's precision on the slide scores of slide heads. Pure.
 *
 * There are two cases: heads that were trained on the first precision's features score those of a
 * lower precision (`moved`), and heads that were trained on the lower precision's own features
 * score these (`own`). Both are compared with the first precision's scores of the same slides.
 */
#ifndef HRF_AGGREGATE_STUDY_HEAD_STUDY_H
#define HRF_AGGREGATE_STUDY_HEAD_STUDY_H

#include "base/error.h"
#include "statistics/metrics.h"

#include <stdbool.h>
#include <stddef.h>

/* A slide at the first precision and at another one; NaN: it has no such score. */
struct hrf_head_pair {
    double reference, value;
    bool has_truth, is_positive;
};

struct hrf_head_study {
    size_t n_slides;                             /* scored in both */
    size_t n_labelled;                           /* slides of these with a truth */
    size_t n_flips;                              /* slides on different sides of the threshold */
    double mean_difference, largest;             /* absolute, of the scores; NaN without slides */
    double auc, balanced_accuracy;               /* over labelled slides; NaN: see why */
    double auc_difference;                       /* less the reference's, over the same slides */
    struct hrf_interval auc_difference_interval; /* 95 %, DeLong; NaN: it has no width */
    char why[160];                               /* why there is no AUC; "" */
};

/* Compares the scores of n slides; `threshold` separates positive from negative ones. */
struct hrf_head_study hrf_head_study_of(const struct hrf_head_pair *pairs, size_t n,
                                        double threshold);

#endif
