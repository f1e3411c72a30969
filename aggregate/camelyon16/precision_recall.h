/* precision_recall.h - how many of the called slides are positive, for every share of the positive
 * slides that are called.
 *
 * Where positive slides are rare, an ROC curve hides how many of the alarms are false; this curve
 * does not. Its one number, the average precision, is the sum over the curve's points of the gain
 * in recall times the precision there: no interpolation, as scikit-learn's average_precision_score.
 */
#ifndef HRF_AGGREGATE_CAMELYON16_PRECISION_RECALL_H
#define HRF_AGGREGATE_CAMELYON16_PRECISION_RECALL_H

#include "aggregate/camelyon16/metrics.h"

/* score >= threshold is called positive. */
struct hrf_recall_point {
    double recall;    /* of the positive slides, the share that is called so: sensitivity */
    double precision; /* of those called positive, the share that is: positive predictive value */
    double threshold;
};
/* One point for each different score, the highest first, so recall rises to 1. *out is a heap array
 * (hrf_free). Errors as hrf_auc(). */
HRF_CHECKED enum hrf_status hrf_precision_recall_curve(const struct hrf_labelled *items,
                                                       size_t n_items,
                                                       struct hrf_recall_point **out,
                                                       size_t *n_points, struct hrf_error *err);
/* Errors as hrf_auc(). A guess has the share of positive slides. */
HRF_CHECKED enum hrf_status hrf_average_precision(const struct hrf_labelled *items, size_t n_items,
                                                  double *out, struct hrf_error *err);

/* Of the slides called positive, those that are; of the slides called negative, those that are; and
 * the harmonic mean of the former and the sensitivity. NaN where nothing was called so. */
double hrf_confusion_positive_value(const struct hrf_confusion *confusion);
double hrf_confusion_negative_value(const struct hrf_confusion *confusion);
double hrf_confusion_f1(const struct hrf_confusion *confusion);

#endif
