/* downsample.h - downsamples an image of bytes: each pixel is the mean of the pixels that it
 * covers, rounded to the nearest number.
 */
#ifndef HRF_IMAGE_DOWNSAMPLE_H
#define HRF_IMAGE_DOWNSAMPLE_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdint.h>

/* Both images are [height][width][n_channels] bytes. Neither side of the result may be longer than
 * the image's, none may be 0, and the areas are at most 16 million pixels. */
HRF_CHECKED enum hrf_status hrf_downsample(const unsigned char *in, int64_t in_width,
                                           int64_t in_height, int n_channels, int64_t width,
                                           int64_t height, unsigned char *out,
                                           struct hrf_error *err);

/* Downsamples row by row of the result, for an image that is never in memory as a whole. */
struct hrf_downsampler {
    int64_t in_width, width;
    int n_channels;
    /* Column i of the result covers columns [columns[i], columns[i + 1]) of the image; likewise
     * rows. */
    int64_t *columns, *rows;
    uint32_t *sums; /* [width][n_channels] of the current row */
};
HRF_CHECKED enum hrf_status hrf_downsampler_init(struct hrf_downsampler *s, int64_t in_width,
                                                 int64_t in_height, int n_channels, int64_t width,
                                                 int64_t height, struct hrf_error *err);
/* Computes row y of the result. `in` points to row s->rows[y] of the image, followed by the rows
 * below it. */
void hrf_downsampler_row(struct hrf_downsampler *s, int64_t y, const unsigned char *in,
                         unsigned char *out);
void hrf_downsampler_release(struct hrf_downsampler *s);

#endif
