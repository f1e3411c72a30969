/* stain_jitter.h - pixels as if the slide had been stained otherwise.
 *
 * A pixel's optical densities, -ln(R/255) and so on, are the sums of those of haematoxylin, eosin
 * and DAB in the proportions that scikit-image's rgb2hed has (Ruifrok and Johnston 2001). The
 * amount s of each stain becomes (1 + a) s + b, with a and b drawn uniformly from -sigma to sigma
 * for each slide and stain. Source: Tellez et al., IEEE Trans. Med. Imaging 37 (2018), there drawn
 * for each patch. Amounts below 0 stay, so that a sigma of 0 changes nothing.
 */
#ifndef HRF_ENGINE_INPUT_STAIN_JITTER_H
#define HRF_ENGINE_INPUT_STAIN_JITTER_H

#include <stdint.h>

/* Densities of a pixel times the matrix plus the offset are the new ones. */
struct hrf_stain_jitter {
    float matrix[3][3], offset[3];
};

/* a and b of haematoxylin, eosin and DAB. */
void hrf_stain_jitter_init(struct hrf_stain_jitter *jitter, const double a[3], const double b[3]);
/* The same slide name, sigma and seed draw the same. */
void hrf_stain_jitter_draw(struct hrf_stain_jitter *jitter, double sigma, int64_t seed,
                           const char *slide_name);
/* n bytes of whole RGB pixels; a byte of 0 counts as 1. `out` may be `rgb`. */
void hrf_stain_jitter_apply(const struct hrf_stain_jitter *jitter, const unsigned char *rgb,
                            int64_t n, unsigned char *out);

#endif
