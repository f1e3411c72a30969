/* difference.h - the differences of class probabilities from a reference, patch by patch. Pure.
 *
 * Sums over any number of slides; a patch whose most likely class is another one is kept as a flip
 * (48 bytes each).
 */
#ifndef HRF_AGGREGATE_STUDY_DIFFERENCE_H
#define HRF_AGGREGATE_STUDY_DIFFERENCE_H

#include "base/alloc.h"
#include "base/error.h"
#include "schema/record/tile_plan.h"

#include <stddef.h>
#include <stdint.h>

struct hrf_patch_flip {
    size_t slide; /* index in the cohort */
    struct hrf_patch at;
    int32_t reference_class, new_class;
    float reference_score, score; /* probability of the positive class */
    float difference;             /* the largest of any class */
};

/* Bin 0 holds differences below 1e-6; bin i those from 10^((i - 1) / 4 - 6) on, over a quarter of a
 * decade; the last bin includes 1. */
enum { HRF_DIFFERENCE_BINS = 25 };
/* Returns the lower end of a bin > 0. */
double hrf_difference_bin_start(int bin);

struct hrf_difference {
    int64_t n_patches;
    int64_t n_probabilities;           /* patches times classes */
    double largest, sum;               /* |probability - reference|, over patches and classes */
    int64_t bins[HRF_DIFFERENCE_BINS]; /* patches, by their largest difference of any class */
    struct hrf_patch_flip *flips;      /* in the order they were added */
    size_t n_flips, capacity;
};
void hrf_difference_release(struct hrf_difference *difference);

/* The probabilities of n patches, [n][n_classes] each. */
struct hrf_probabilities {
    const struct hrf_patch *at; /* [n] */
    const float *reference, *values;
    int64_t n;
    size_t n_classes, positive;
};
void hrf_difference_add(struct hrf_difference *difference, size_t slide,
                        const struct hrf_probabilities *p);

#endif
