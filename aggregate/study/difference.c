/* difference.c - collects the differences between class probabilities and a reference. */
#include "aggregate/study/difference.h"

#include "statistics/most_likely.h"

#include <math.h>

enum { DECADES = 6, PER_DECADE = 4 };
_Static_assert(HRF_DIFFERENCE_BINS == DECADES * PER_DECADE + 1, "a bin for what is below too");

void hrf_difference_release(struct hrf_difference *difference)
{
    hrf_free(difference->flips);
    *difference = (struct hrf_difference){ .n_patches = 0 };
}

double hrf_difference_bin_start(int bin)
{
    return pow(10.0, (double)(bin - 1) / PER_DECADE - DECADES);
}

static int bin_of(double difference)
{
    int bin = 0;
    while (bin + 1 < HRF_DIFFERENCE_BINS && difference >= hrf_difference_bin_start(bin + 1))
        bin++;
    return bin;
}

static void add_flip(struct hrf_difference *difference, const struct hrf_patch_flip *flip)
{
    if (difference->n_flips == difference->capacity) {
        const size_t grown = difference->capacity == 0 ? 16 : difference->capacity * 2;
        struct hrf_patch_flip *flips = hrf_realloc_array(difference->flips, grown, sizeof *flips);
        difference->flips = flips;
        difference->capacity = grown;
    }
    difference->flips[difference->n_flips++] = *flip;
}

void hrf_difference_add(struct hrf_difference *difference, size_t slide,
                        const struct hrf_probabilities *p)
{
    for (size_t i = 0; i < (size_t)p->n; i++) {
        const float *a = p->reference + i * p->n_classes, *b = p->values + i * p->n_classes;
        double largest = 0.0;
        for (size_t k = 0; k < p->n_classes; k++) {
            const double off = fabs((double)b[k] - (double)a[k]);
            largest = fmax(largest, off);
            difference->sum += off;
        }
        difference->largest = fmax(difference->largest, largest);
        difference->bins[bin_of(largest)]++;
        const struct hrf_patch_flip flip = {
            .slide = slide,
            .at = p->at[i],
            .reference_class = (int32_t)hrf_most_probable(a, (int64_t)p->n_classes),
            .new_class = (int32_t)hrf_most_probable(b, (int64_t)p->n_classes),
            .reference_score = a[p->positive],
            .score = b[p->positive],
            .difference = (float)largest
        };
        if (flip.reference_class != flip.new_class)
            add_flip(difference, &flip);
    }
    difference->n_patches += p->n;
    difference->n_probabilities += p->n * (int64_t)p->n_classes;
}
