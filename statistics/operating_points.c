/* operating_points.c - what other thresholds would give, on the slides that are judged. */
#include "statistics/operating_points.h"

#include "base/alloc.h"

/* The highest score at which the sensitivity is reached: of all such it has the best specificity.
 */
static enum hrf_status find_sensitive(const struct hrf_labelled *items, size_t n,
                                      double sensitivity, double *threshold, struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_roc_point *points = NULL;
    size_t n_points = 0;
    HRF_TRY(hrf_roc_curve(items, n, &points, &n_points, err));
    for (size_t i = 1; i < n_points; i++)
        if (points[i].true_positive_rate >= sensitivity) {
            *threshold = points[i].threshold;
            return HRF_OK;
        }
    return hrf_error_set(err, HRF_E_BUG, "an ROC curve ends below a sensitivity of 1");
}

static enum hrf_status find_threshold(const struct hrf_labelled *items, size_t n, double in_use,
                                      struct hrf_operating_row *row, struct hrf_error *err)
{
    struct hrf_roc_point point;
    if (row->rule == HRF_OPERATING_IN_USE) {
        row->threshold = in_use;
        return HRF_OK;
    }
    if (row->rule == HRF_OPERATING_SENSITIVITY)
        return find_sensitive(items, n, row->wanted, &row->threshold, err);
    HRF_TRY(hrf_operating_point(items, n, row->wanted, &point, err));
    row->threshold = point.threshold;
    return HRF_OK;
}

enum hrf_status hrf_operating_rows_fill(const struct hrf_labelled *items, size_t n, double in_use,
                                        struct hrf_operating_rows *rows, struct hrf_error *err)
{
    static const struct hrf_operating_row wanted[HRF_OPERATING_ROWS] = {
        { .rule = HRF_OPERATING_IN_USE },
        { .rule = HRF_OPERATING_YOUDEN },
        { .rule = HRF_OPERATING_SPECIFICITY, .wanted = 0.90 },
        { .rule = HRF_OPERATING_SPECIFICITY, .wanted = 0.95 },
        { .rule = HRF_OPERATING_SENSITIVITY, .wanted = 0.90 },
        { .rule = HRF_OPERATING_SENSITIVITY, .wanted = 0.95 }
    };
    rows->n = 0;
    for (size_t i = 0; i < HRF_OPERATING_ROWS; i++) {
        struct hrf_error why = { .status = HRF_OK };
        struct hrf_operating_row row = wanted[i];
        const enum hrf_status status = find_threshold(items, n, in_use, &row, &why);
        if (status == HRF_E_USER) /* no score reaches it: there is no such point */
            continue;
        if (status != HRF_OK)
            return hrf_error_set(err, status, "%s", why.text);
        row.confusion = hrf_confusion_count(items, n, row.threshold);
        rows->items[rows->n++] = row;
    }
    return HRF_OK;
}
