/* mask_tiff.h - writes a mask as a tiled, deflated TIFF pyramid of 8 bits a pixel, which OpenSlide,
 * QuPath, ASAP and tifffile read.
 *
 * The value of a pixel is its label: 0 where no patch was scored (or, of a network with one class,
 * where it is not that class), and 1 + the index of a class elsewhere. The classes stand in the
 * image description, a line each, and the resolution in the resolution tags.
 */
#ifndef HRF_AGGREGATE_SEGMENTATION_MASK_TIFF_H
#define HRF_AGGREGATE_SEGMENTATION_MASK_TIFF_H

#include "aggregate/segmentation/mask.h"

/* The file appears when it is complete; equal masks give equal bytes. HRF_E_USER: a map is damaged.
 */
HRF_CHECKED enum hrf_status hrf_mask_tiff_write(const struct hrf_mask *mask,
                                                const char *const *classes, const char *path,
                                                struct hrf_error *err);

#endif
