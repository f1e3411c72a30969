/* resample.h - resamples an image row by row, with aligned pixel centres in both directions.
 *
 * Output pixel j covers the input at [j, j + 1) * scale from the image's origin: it is the area
 * average if scale >= 1, otherwise the bilinear value at its centre. Input rows are passed from the
 * first to the last; each output row is delivered after its last input row. For one thread.
 */
#ifndef HRF_TILER_SLIDE_RESAMPLE_H
#define HRF_TILER_SLIDE_RESAMPLE_H

#include "base/alloc.h"
#include "base/error.h"
#include "tiler/slide/level_read.h"

#include <stdbool.h>
#include <stdint.h>

/* One direction: the first input pixel of each output pixel, and its weights. */
struct hrf_axis {
    double scale; /* input px per output px */
    double phase; /* from the second input pixel to the image's origin, when the table was made */
    int32_t n_taps;
    int32_t *first; /* [size], input pixels from the first that is read */
    float *weights; /* [size][n_taps], sum 1 */
    int64_t extent; /* input pixels at most */
};
/* Returns the last input pixel that contributes to output pixel j. */
int64_t hrf_axis_last(const struct hrf_axis *axis, int64_t j);

struct hrf_resampler {
    int64_t size; /* output px of a side */
    struct hrf_axis x, y;
    /* private */
    int32_t n_open;      /* the largest number of output rows that one input row contributes to */
    float *sums;         /* [n_open][x.extent][3] of the output rows that are not complete */
    unsigned char *line; /* [size][3] */
    int64_t first, end, done; /* output rows */
    hrf_take_rows *take;
    void *context;
};

void hrf_resampler_init(struct hrf_resampler *r, int64_t size, double scale_x, double scale_y);
void hrf_resampler_release(struct hrf_resampler *r);
/* Sets the distances from the second input pixel to the image's origin, in input px. */
void hrf_resampler_set_phase(struct hrf_resampler *r, double phase_x, double phase_y);
/* Begins output rows [first, first + n), which are passed to `take`, counted from `first`. They
 * need the input rows y.first[first] to hrf_axis_last(&y, first + n - 1), which follow in order by
 * hrf_resampler_row(). */
void hrf_resampler_begin(struct hrf_resampler *r, int64_t first, int64_t n, hrf_take_rows *take,
                         void *context);
/* Passes row `row` of the input, in[width][3]. */
void hrf_resampler_row(struct hrf_resampler *r, int64_t row, const unsigned char *in,
                       int64_t width);

#endif
