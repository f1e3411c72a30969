/* morphology.h - filters on 8-bit planes and clean-up of masks (0 and 255). Pure. */
#ifndef HRF_TILER_TISSUE_MORPHOLOGY_H
#define HRF_TILER_TISSUE_MORPHOLOGY_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Replaces each pixel by the median of 3 x 3 px, with edges repeated. */
HRF_CHECKED enum hrf_status hrf_median_3x3(unsigned char *plane, int64_t width, int64_t height,
                                           struct hrf_error *err);
/* Sets a pixel if more than half of the size x size px (odd, at most 15) around it are set, with
 * edges repeated. A median filter followed by a threshold equals the threshold followed by this. */
HRF_CHECKED enum hrf_status hrf_mask_majority(unsigned char *mask, int64_t width, int64_t height,
                                              int size, struct hrf_error *err);
/* Sets to `value` every pixel that lies up to `before` px right of or below, or up to `after` px
 * left of or above, a pixel that has it: a dilation of 255 or of 0 by a square. */
HRF_CHECKED enum hrf_status hrf_mask_spread(unsigned char *mask, int64_t width, int64_t height,
                                            int before, int after, unsigned char value,
                                            struct hrf_error *err);
/* Dilates by a square of size x size, then erodes by the reflected square, so that nothing moves if
 * the size is even; the area outside the image neither grows nor shrinks the mask. */
HRF_CHECKED enum hrf_status hrf_mask_close(unsigned char *mask, int64_t width, int64_t height,
                                           int size, struct hrf_error *err);

/* The connected regions of one value of a mask. */
struct hrf_region {
    int64_t area;  /* px */
    int64_t first; /* index of its first pixel in reading order */
    bool touches_border;
};
struct hrf_regions {
    int32_t *label; /* [height][width]: 0 = not the value, else 1 + index into `region`; heap */
    struct hrf_region *region;
    int32_t n_regions;
};
/* Finds the connected regions of `value` in a mask of at most 2^31 - 1 px. If `diagonal`, pixels
 * that touch at a corner are connected (8 neighbours), otherwise they are not (4). */
HRF_CHECKED enum hrf_status hrf_regions_find(const unsigned char *mask, int64_t width,
                                             int64_t height, unsigned char value, bool diagonal,
                                             struct hrf_regions *out, struct hrf_error *err);
void hrf_regions_release(struct hrf_regions *regions);

#endif
