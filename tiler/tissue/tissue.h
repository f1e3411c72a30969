/* tissue.h - where on an overview image there is tissue.
 *
 * Input: 8-bit RGB, row-major, with its resolution. Output: a mask of 0 and 255. Saturation is
 * OpenCV's 8-bit HSV: S = 255 (max - min) / max. Pure; any number of threads.
 *
 * Methods:
 *   otsu     Otsu's threshold on S over the pixels that are neither ink nor black, never under
 *            a floor, so that an empty slide's noise is not called tissue (this project's own)
 *   wsinfer  median 7, S > 7, closing 6, objects under 200^2 um2 and holes under 190^2 um2 go
 *   clam     median 7, S > 8, closing 4, objects under 100 and holes under 16 reference
 *            patches of 512^2 level-0 px go
 *   ncrf     S > Otsu(S), not (R, G and B all over their Otsu), R, G and B over 50
 */
#ifndef HRF_TILER_TISSUE_TISSUE_H
#define HRF_TILER_TISSUE_TISSUE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_tissue_image {
    const unsigned char *rgb; /* [height][width][3] */
    int64_t width, height;
    double mpp_x, mpp_y; /* um per px of this image */
    double level0_mpp;   /* um per level-0 px (clam's areas) */
};

struct hrf_tissue_result {
    double threshold; /* on S, 0..255 */
    double fraction;  /* of the image's pixels that are tissue */
};

/* `relaxed`: take fainter tissue, for a slide on which the method found too little (otsu: a
 * lower floor; the others: half their threshold). mask[height][width]. HRF_E_USER for an
 * unknown method. */
HRF_CHECKED enum hrf_status hrf_tissue_detect(const struct hrf_tissue_image *image,
                                              const char *method, bool relaxed, unsigned char *mask,
                                              struct hrf_tissue_result *result,
                                              struct hrf_error *err);

/* Otsu's threshold of a 256-bin histogram: the t that maximises the variance between {<= t} and
 * {> t}; 0 when fewer than two bins are filled. *contrast (may be NULL): distance of the two
 * means. Source: Otsu 1979. */
int hrf_otsu(const int64_t histogram[256], double *contrast);

#endif
