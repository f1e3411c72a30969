/* operating_points.h - sensitivity and specificity at the threshold in use and at commonly asked
 * ones.
 *
 * All thresholds but the one in use are chosen on the slides that they are judged on, so they
 * flatter. They show what the curve offers; aggregate.tune chooses a threshold on other slides.
 * Pure.
 */
#ifndef HRF_STATISTICS_OPERATING_POINTS_H
#define HRF_STATISTICS_OPERATING_POINTS_H

#include "base/error.h"
#include "statistics/metrics.h"

enum { HRF_OPERATING_ROWS = 6 };
enum hrf_operating_rule {
    HRF_OPERATING_IN_USE,
    HRF_OPERATING_YOUDEN,      /* the largest sensitivity + specificity */
    HRF_OPERATING_SPECIFICITY, /* the largest sensitivity at `wanted` specificity or above */
    HRF_OPERATING_SENSITIVITY  /* the largest specificity at `wanted` sensitivity or above */
};
struct hrf_operating_row {
    enum hrf_operating_rule rule;
    double wanted, threshold; /* score >= threshold is called positive */
    struct hrf_confusion confusion;
};
struct hrf_operating_rows {
    struct hrf_operating_row items[HRF_OPERATING_ROWS];
    size_t n;
};

/* Fills a row for each rule that a score satisfies; with slides of one class only, the row in use
 * alone. */
HRF_CHECKED enum hrf_status hrf_operating_rows_fill(const struct hrf_labelled *items, size_t n,
                                                    double in_use, struct hrf_operating_rows *rows,
                                                    struct hrf_error *err);

#endif
