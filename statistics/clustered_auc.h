/* clustered_auc.h - the area under the ROC curve of items that come in clusters: patches of slides.
 *
 * Patches of one slide resemble each other, so that an interval that takes them for independent
 * is far too narrow. Obuchowski, "Nonparametric analysis of clustered ROC curve data", Biometrics
 * 53, 1997: DeLong's structural components are summed over each cluster first. The difference
 * between two scores of the same items is paired. Pure.
 */
#ifndef HRF_STATISTICS_CLUSTERED_AUC_H
#define HRF_STATISTICS_CLUSTERED_AUC_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_clustered_items {
    const bool *is_positive;  /* [n_items] */
    const uint32_t *clusters; /* [n_items], below n_clusters */
    size_t n_items, n_clusters;
};

struct hrf_clustered_auc {
    double auc, variance; /* of the first scores */
    double difference;    /* the second scores' AUC less the first's; 0 without second scores */
    double difference_variance;
    size_t n_positive, n_negative;
};

/* `second` may be NULL. HRF_E_USER, with a text fit for a report: all items are of one class, a
 * score is not a number, or fewer than two clusters have items of a class. */
HRF_CHECKED enum hrf_status hrf_clustered_auc(const struct hrf_clustered_items *items,
                                              const float *first, const float *second,
                                              struct hrf_clustered_auc *out, struct hrf_error *err);

#endif
