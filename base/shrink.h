/* shrink.h - makes an image of bytes smaller: each pixel is the mean of the pixels that it covers,
 * rounded to the nearest number.
 */
#ifndef HRF_BASE_SHRINK_H
#define HRF_BASE_SHRINK_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdint.h>

/* [height][width][n_channels] bytes each. Neither side of the result may be longer than the
 * image's, and none may be 0; the areas are at most 16 million pixels. */
HRF_CHECKED enum hrf_status hrf_shrink(const unsigned char *in, int64_t in_width, int64_t in_height,
                                       int n_channels, int64_t width, int64_t height,
                                       unsigned char *out, struct hrf_error *err);

/* The same, one row of the result after another, for an image that is never in memory whole. */
struct hrf_shrinker {
    int64_t in_width, width;
    int n_channels;
    /* Borders: column i covers [columns[i], columns[i + 1]) of the image, row i likewise. */
    int64_t *columns, *rows;
    uint32_t *sums; /* [width][n_channels] of the current row */
};
HRF_CHECKED enum hrf_status hrf_shrinker_init(struct hrf_shrinker *s, int64_t in_width,
                                              int64_t in_height, int n_channels, int64_t width,
                                              int64_t height, struct hrf_error *err);
/* Computes row y of the result; `in` is row s->rows[y] of the image, and those below it follow. */
void hrf_shrinker_row(struct hrf_shrinker *s, int64_t y, const unsigned char *in,
                      unsigned char *out);
void hrf_shrinker_release(struct hrf_shrinker *s);

#endif
