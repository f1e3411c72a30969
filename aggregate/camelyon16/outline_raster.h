/* outline_raster.h - draws outlines onto a grid of pixels of any size.
 *
 * A pixel is in an outline if its centre is, by the even-odd rule, to the last bit as
 * hrf_outline_contains() decides. Time follows the area and the length of the outlines, not the
 * number of vertices alone. Pure.
 */
#ifndef HRF_AGGREGATE_CAMELYON16_OUTLINE_RASTER_H
#define HRF_AGGREGATE_CAMELYON16_OUTLINE_RASTER_H

#include "aggregate/camelyon16/asap.h"

/* The centre of pixel i lies at (i + phase) * step, in level-0 px. */
struct hrf_raster_axis {
    double step, phase;
};

/* A part of such a grid: its first pixel is (x0, y0). */
struct hrf_outline_raster {
    struct hrf_raster_axis x, y;
    int64_t x0, y0, width, height;
    unsigned char *pixels; /* [height][width], the caller's */
    unsigned char *marks;  /* likewise; zeros, and left so */
    int64_t work;          /* pixels and crossings visited so far, against hostile files */
};

/* Gives the pixels inside the outline that value. HRF_E_USER: all outlines together have taken more
 * work than those of any slide. */
HRF_CHECKED enum hrf_status hrf_outline_draw(const struct hrf_outline *outline, unsigned char value,
                                             struct hrf_outline_raster *raster,
                                             struct hrf_error *err);

#endif
