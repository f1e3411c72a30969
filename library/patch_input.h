/* patch_input.h - the pixels of patches as the numbers that a network is fed, as a run makes them:
 * resized and cropped (struct hrf_preparation), scaled to 0..1, less the mean, by the standard
 * deviation, a plane a colour. For one thread. */
#ifndef HRF_LIBRARY_PATCH_INPUT_H
#define HRF_LIBRARY_PATCH_INPUT_H

#include "base/alloc.h"
#include "image/preparation.h"

struct hrf_patch_input; /* opaque */

#pragma GCC visibility push(hidden)

/* For patches of `patch` px a side. */
void hrf_patch_input_create(int64_t patch, const struct hrf_preparation *preparation,
                            const double mean[3], const double std[3],
                            struct hrf_patch_input **out);
void hrf_patch_input_destroy(struct hrf_patch_input *input);
HRF_DEFINE_AUTO(hrf_patch_input)
int64_t hrf_patch_input_side(const struct hrf_patch_input *input); /* px of the images */
/* rgb[patch][patch][3] to image[3][side][side]. */
void hrf_patch_input_fill(struct hrf_patch_input *input, const unsigned char *rgb, float *image);

#pragma GCC visibility pop

#endif
