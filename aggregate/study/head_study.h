/* head_study.h - what a precision of the encoder changes in the slide scores of slide heads. Pure.
 *
 * Two questions: what becomes of a head that was trained on the first precision's features and
 * scores those of a lower one (`moved`), and what a head gives that was trained on the lower
 * precision's own
 * (`own`). Both are compared with the first precision's scores of the same slides.
 */
#ifndef HRF_AGGREGATE_STUDY_HEAD_STUDY_H
#define HRF_AGGREGATE_STUDY_HEAD_STUDY_H

#include "aggregate/camelyon16/metrics.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* A slide at the first precision and at another one; NaN: it has no such score. */
struct hrf_head_pair {
    double reference, value;
    bool has_truth, is_positive;
};

struct hrf_head_study {
    size_t n_slides;                             /* scored in both */
    size_t n_labelled;                           /* of them: with a truth */
    size_t n_flips;                              /* on different sides of the threshold */
    double mean_difference, largest;             /* of the scores, absolute; NaN without slides */
    double auc, balanced_accuracy;               /* over labelled slides; NaN: see why */
    double auc_difference;                       /* less the reference's, over the same slides */
    struct hrf_interval auc_difference_interval; /* 95 %, DeLong; NaN: it has no width */
    char why[160];                               /* why there is no AUC; "" */
};

/* HRF_E_NOMEM. */
HRF_CHECKED enum hrf_status hrf_head_study_compute(const struct hrf_head_pair *pairs, size_t n,
                                                   double threshold, struct hrf_head_study *out,
                                                   struct hrf_error *err);

#endif
