/* drift.h - the cosines between the embeddings of one precision and the reference's, patch by
 * patch. Pure.
 *
 * The cosine is 1 for two vectors of zeros, and 0 if only one of them is a vector of zeros.
 */
#ifndef HRF_AGGREGATE_STUDY_DRIFT_H
#define HRF_AGGREGATE_STUDY_DRIFT_H

#include "base/alloc.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct hrf_drift {
    float *cosines; /* [n_patches] of all slides; heap */
    size_t n_patches, capacity;
    int64_t width; /* numbers of an embedding; 0: none was added */
};
void hrf_drift_release(struct hrf_drift *drift);

/* Adds n patches, [n][width] each. HRF_E_USER: another width than before. */
HRF_CHECKED enum hrf_status hrf_drift_add(struct hrf_drift *drift, const float *reference,
                                          const float *values, int64_t n, int64_t width,
                                          struct hrf_error *err);

/* Adds n patches of the reference itself, whose cosines are 1. */
HRF_CHECKED enum hrf_status hrf_drift_add_same(struct hrf_drift *drift, int64_t n, int64_t width,
                                               struct hrf_error *err);

/* Statistics of the cosines; NaN if there is no patch. */
struct hrf_drift_summary {
    double mean, median, percentile1, min;
};
/* Computes the statistics; this sorts the cosines. */
struct hrf_drift_summary hrf_drift_summarise(struct hrf_drift *drift);

#endif
