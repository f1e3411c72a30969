/* quality.h - measures of low quality: pen, air bubbles, folds, blur. Pure.
 *
 * Pen, bubbles and folds are found on an overview (tissue.h); a patch's measure is the fraction of
 * its area that they cover. Blur is measured on the patch's own pixels. All measures go from 0
 * (good) to 1.
 */
#ifndef HRF_TILER_QUALITY_QUALITY_H
#define HRF_TILER_QUALITY_QUALITY_H

#include "base/error.h"
#include "tiler/tissue/tissue.h"

/* Sets mask[height][width] to 255 where tissue is folded, so that light passes it twice: the
 * optical density in each of R, G and B is at least 1.7 times the median of the slide's tissue,
 * over at least 5,000 um2. tissue[height][width] is not 0 where there is tissue. */
HRF_CHECKED enum hrf_status hrf_fold_find(const struct hrf_tissue_image *image,
                                          const unsigned char *tissue, unsigned char *mask,
                                          struct hrf_error *err);
/* Sets the mask to 255 where an air bubble lies: a closed line of dark gray, which no stain has,
 * and the area within it, if that is about as round as a disc (its area is 0.55 to 0.95 of its
 * bounding box, whose sides differ by at most a factor of 1.8) and has at least 40,000 um2. */
HRF_CHECKED enum hrf_status hrf_bubble_find(const struct hrf_tissue_image *image,
                                            unsigned char *mask, struct hrf_error *err);

/* The blur effect (Crete et al., "The blur effect: perception and estimation with a new
 * no-reference perceptual blur metric", SPIE 2007), as scikit-image's blur_effect computes it with
 * its defaults: how much of an image's edges remains when it is blurred again, 0 sharp, 1 blurred.
 * An image without any edge has 1. The image is rgb[height][width][3], each side at least 4. */
HRF_CHECKED enum hrf_status hrf_blur_measure(const unsigned char *rgb, int64_t width,
                                             int64_t height, double *out, struct hrf_error *err);

#endif
