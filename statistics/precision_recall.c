/* precision_recall.c - the curve from the ROC curve's counts, and its average precision. */
#include "statistics/precision_recall.h"

#include "base/alloc.h"

#include <math.h>

enum hrf_status hrf_precision_recall_curve(const struct hrf_labelled *items, size_t n_items,
                                           struct hrf_recall_point **out, size_t *n_points,
                                           struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_roc_point *roc = NULL;
    size_t n = 0, n_positive = 0;
    HRF_TRY(hrf_roc_curve(items, n_items, &roc, &n, err));
    for (size_t i = 0; i < n_items; i++)
        n_positive += items[i].positive;
    struct hrf_recall_point *points = hrf_alloc_array(n, sizeof *points);
    for (size_t i = 1; i < n; i++) { /* at 0 nothing is called positive */
        const double found = round(roc[i].true_positive_rate * (double)n_positive);
        const double wrong = round(roc[i].false_positive_rate * (double)(n_items - n_positive));
        points[i - 1] = (struct hrf_recall_point){ roc[i].true_positive_rate,
                                                   found / (found + wrong), roc[i].threshold };
    }
    *out = points;
    *n_points = n - 1;
    return HRF_OK;
}

enum hrf_status hrf_average_precision(const struct hrf_labelled *items, size_t n_items, double *out,
                                      struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_recall_point *points = NULL;
    size_t n = 0;
    double sum = 0.0;
    HRF_TRY(hrf_precision_recall_curve(items, n_items, &points, &n, err));
    for (size_t i = 0; i < n; i++)
        sum += (points[i].recall - (i > 0 ? points[i - 1].recall : 0.0)) * points[i].precision;
    *out = sum;
    return HRF_OK;
}
