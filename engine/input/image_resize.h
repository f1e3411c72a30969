/* image_resize.h - resizes and crops an image row by row, to the bytes that Pillow's resize and
 * torchvision's CenterCrop give (struct hrf_preparation).
 *
 * Encoders are trained on such pixels, so theirs are wanted to the byte: Pillow's filters with
 * weights of 22 fractional bits, columns first and rounded to bytes, then rows. An output row has
 * the same bytes whichever rows are asked for. For one thread.
 */
#ifndef HRF_ENGINE_INPUT_IMAGE_RESIZE_H
#define HRF_ENGINE_INPUT_IMAGE_RESIZE_H

#include "base/alloc.h"
#include "base/error.h"
#include "image/preparation.h"
#include "tiler/slide/level_read.h"

struct hrf_image_resizer; /* opaque */

/* For square images of `from` px a side. */
void hrf_image_resizer_create(int64_t from, const struct hrf_preparation *preparation,
                              struct hrf_image_resizer **out);
void hrf_image_resizer_destroy(struct hrf_image_resizer *resizer);
HRF_DEFINE_AUTO(hrf_image_resizer)
/* The rows of the image that the output rows [first, first + n) are made of. */
void hrf_image_resizer_needs(const struct hrf_image_resizer *resizer, int64_t first, int64_t n,
                             int64_t *from_row, int64_t *n_rows);
/* The output rows [first, first + n) go to `take`, counted from `first`, when the last of the rows
 * that they need has been put in. */
void hrf_image_resizer_begin(struct hrf_image_resizer *resizer, int64_t first, int64_t n,
                             hrf_take_rows *take, void *context);
/* The next of those rows, from the first to the last. */
void hrf_image_resizer_put(struct hrf_image_resizer *resizer, const unsigned char *rgb);

#endif
