/* neighbours.h - the share of nearest neighbours that patches keep when embeddings are computed in
 * another precision. Pure.
 *
 * A sample of at most HRF_NEIGHBOUR_SAMPLE patches is taken from each slide, every k-th patch. The
 * neighbours of a patch are the HRF_NEIGHBOURS others of the sample with the largest cosine to it,
 * the first of equals; slides with fewer patches are left out. The figure is the share of the
 * neighbours in the first precision that are neighbours in the other one, too.
 */
#ifndef HRF_AGGREGATE_STUDY_NEIGHBOURS_H
#define HRF_AGGREGATE_STUDY_NEIGHBOURS_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdint.h>

enum { HRF_NEIGHBOURS = 10, HRF_NEIGHBOUR_SAMPLE = 512 };

/* Counts over all slides; the caller zeroes it before the first slide. */
struct hrf_neighbours {
    int64_t n_kept, n_all; /* over all slides so far */
    int64_t n_patches;     /* whose neighbours were compared */
    /* The slide that is being read. */
    int64_t step, at, width, n_sample;
    float *rows[2]; /* [HRF_NEIGHBOUR_SAMPLE][width], of length 1; reference and values */
};
void hrf_neighbours_release(struct hrf_neighbours *neighbours);

/* Begins a slide of n_patches. */
HRF_CHECKED enum hrf_status hrf_neighbours_begin(struct hrf_neighbours *neighbours,
                                                 int64_t n_patches, int64_t width,
                                                 struct hrf_error *err);
/* Adds the slide's next n patches, [n][width] each. */
void hrf_neighbours_add(struct hrf_neighbours *neighbours, const float *reference,
                        const float *values, int64_t n);
/* Ends the slide. The time is proportional to the square of the sample times the width. */
void hrf_neighbours_end(struct hrf_neighbours *neighbours);
/* Returns the share, 0 to 1; NaN if no slide had enough patches. */
double hrf_neighbours_kept(const struct hrf_neighbours *neighbours);

#endif
