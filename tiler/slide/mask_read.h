/* mask_read.h - a level of a mask, such as CAMELYON16's truth: one value a pixel. */
#ifndef HRF_TILER_SLIDE_MASK_READ_H
#define HRF_TILER_SLIDE_MASK_READ_H

#include "tiler/slide/slide.h"

/* Reads the red channel of the level whose downsample is `step` (within 1 %), or of every k-th
 * pixel of a finer level if there is none, into *out (heap, [height][width]). Where the file has no
 * data the value is 0: a mask is not composited on white. HRF_E_USER: no level fits, or the data is
 * damaged. */
HRF_CHECKED enum hrf_status hrf_slide_read_mask(struct hrf_slide *slide, int32_t step,
                                                unsigned char **out, int64_t *width,
                                                int64_t *height, struct hrf_error *err);
/* Reads the red channel of a part of the mask, [y0, y0 + height0) by [x0, x0 + width0) level-0 px,
 * at the centres of out[height][width]; 0 outside the mask. The level is the coarsest whose pixels
 * are not larger than those of `out`, or level 0. HRF_E_USER: the data is damaged. */
HRF_CHECKED enum hrf_status hrf_slide_read_mask_part(struct hrf_slide *slide, int64_t x0,
                                                     int64_t y0, int64_t width0, int64_t height0,
                                                     unsigned char *out, int64_t width,
                                                     int64_t height, struct hrf_error *err);

#endif
