/* morphology.h - filters on 8-bit planes and clean-up of masks (0 and 255). */
#ifndef HRF_TILER_TISSUE_MORPHOLOGY_H
#define HRF_TILER_TISSUE_MORPHOLOGY_H

#include "base/error.h"

#include <stdint.h>

/* Median over a size x size window (odd), edges repeated. Sliding histogram (Huang 1979). */
HRF_CHECKED enum hrf_status hrf_median_filter(unsigned char *plane, int64_t width, int64_t height,
                                              int size, struct hrf_error *err);
/* Dilation, then erosion, by a size x size square; outside the image nothing grows or shrinks. */
HRF_CHECKED enum hrf_status hrf_mask_close(unsigned char *mask, int64_t width, int64_t height,
                                           int size, struct hrf_error *err);
/* Sets every 8-connected region of `value` with fewer than min_pixels to the other value; holes
 * (value 0) that touch the border are background, not holes. */
HRF_CHECKED enum hrf_status hrf_mask_drop_small(unsigned char *mask, int64_t width, int64_t height,
                                                unsigned char value, double min_pixels,
                                                struct hrf_error *err);

#endif
