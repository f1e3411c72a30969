/* tissue.h - finds tissue on an overview image.
 *
 * Input: 8-bit RGB, row-major, with its resolution. Output: a mask of 0 and 255. Saturation is
 * OpenCV's 8-bit HSV: S = 255 (max - min) / max, rounded as it does. Pure; any number of threads.
 *
 * Methods, each on an overview of the size that its authors use (hrf_tissue_reduction):
 *   otsu     this project's own: S over a threshold half-way between glass and Otsu's, with floor
 *            and ceiling, so that an empty slide's noise is not tissue and pale tissue is; marker
 *            ink (see ink.h), black and its surroundings excluded; closing of 24 um; objects
 *            under 100^2 um2 and holes under 150^2 um2 go
 *   wsinfer  longest side 2048 px: median 7, S > 7, closing 6, objects under 200^2 um2 and holes
 *            under 190^2 um2 go (4-connected, holes at the border too)
 *   clam     1/64: median 7, S > 8, closing 4, objects of 100 reference patches of 512^2 level-0
 *            px or less go; of each object's holes the 10 largest over 16 such patches stay
 *   ncrf     1/64: S > Otsu(S), not (R, G and B all over their Otsu), R, G and B over 50
 * The overviews of clam and ncrf are finer than 1/64 where the slide would have under 512 px.
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
    double fraction;  /* the fraction of the image's pixels that are tissue */
};

/* Computes how many level-0 px a px of the overview has that the method wants, at least 1, for a
 * slide of width x height level-0 px at `mpp` um/px. HRF_E_USER: the method is unknown. */
HRF_CHECKED enum hrf_status hrf_tissue_reduction(const char *method, int64_t width, int64_t height,
                                                 double mpp, double *reduction,
                                                 struct hrf_error *err);

/* Sets mask[height][width]. `relaxed` also takes fainter and smaller tissue, for a slide on which
 * the method found too little: a threshold of 7 over the glass (otsu) or half the threshold (the
 * others), and objects of 1/16 of the area. HRF_E_USER: the method is unknown. */
HRF_CHECKED enum hrf_status hrf_tissue_detect(const struct hrf_tissue_image *image,
                                              const char *method, bool relaxed, unsigned char *mask,
                                              struct hrf_tissue_result *result,
                                              struct hrf_error *err);

/* Returns Otsu's threshold of a 256-bin histogram: the t that maximises the variance between {<= t}
 * and {> t}, or 0 if fewer than two bins are filled. *contrast (may be NULL) gets the distance of
 * the two means. Source: Otsu 1979. */
int hrf_otsu(const int64_t histogram[256], double *contrast);

#endif
