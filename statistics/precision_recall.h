/* precision_recall.h - the precision-recall curve and the average precision.
 *
 * Where positive slides are rare, an ROC curve hides how many of the alarms are false; this curve
 * does not. Its one number, the average precision, is the sum over the curve's points of the gain
 * in recall times the precision there: no interpolation, as scikit-learn's average_precision_score.
 */
#ifndef HRF_STATISTICS_PRECISION_RECALL_H
#define HRF_STATISTICS_PRECISION_RECALL_H

#include "statistics/metrics.h"

/* A point of the curve; score >= threshold is called positive. */
struct hrf_recall_point {
    double recall;    /* the share of positive slides that are called positive: sensitivity */
    double precision; /* the share of called slides that are positive: positive predictive value */
    double threshold;
};
/* Computes one point for each different score, the highest first, so that recall rises to 1. *out
 * is a heap array (hrf_free). Errors as hrf_auc(). */
HRF_CHECKED enum hrf_status hrf_precision_recall_curve(const struct hrf_labelled *items,
                                                       size_t n_items,
                                                       struct hrf_recall_point **out,
                                                       size_t *n_points, struct hrf_error *err);
/* Computes the average precision; random scores have the share of positive slides. Errors as
 * hrf_auc(). */
HRF_CHECKED enum hrf_status hrf_average_precision(const struct hrf_labelled *items, size_t n_items,
                                                  double *out, struct hrf_error *err);

#endif
