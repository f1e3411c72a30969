/* pixel_runs.h - the connected regions of one value of a bitmap, as runs of pixels.
 *
 * A run is a maximal sequence of pixels of that value in a row. Runs that touch a run of the row
 * above are joined to regions, which are numbered from 1 in the order of their first pixel, row by
 * row, as scikit-image's measure.label() numbers them. Work and memory are proportional to the
 * number of runs, not to the area. Pure.
 */
#ifndef HRF_TILER_OUTLINE_PIXEL_RUNS_H
#define HRF_TILER_OUTLINE_PIXEL_RUNS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_pixel_run {
    int32_t row, begin, end; /* columns [begin, end) */
    int32_t label;           /* the region's number, from 1 */
};

struct hrf_pixel_runs {
    struct hrf_pixel_run *items; /* row by row, left to right; heap */
    size_t n, capacity;
    size_t n_regions;
};

/* Finds the runs of pixels[height][width] that equal `value`; the caller zeroes `runs`. If
 * `diagonal`, pixels that touch at a corner are connected (8 neighbours), otherwise they are not
 * (4). HRF_E_UNSUPPORTED: there are more than 2^31 - 1 runs. */
HRF_CHECKED enum hrf_status hrf_pixel_runs_find(const unsigned char *pixels, int32_t width,
                                                int32_t height, unsigned char value, bool diagonal,
                                                struct hrf_pixel_runs *runs, struct hrf_error *err);
void hrf_pixel_runs_release(struct hrf_pixel_runs *runs);

#endif
