/* components.h - the connected components of a bitmap, as runs of pixels, with their shapes.
 *
 * Components are numbered as tiler/outline/pixel_runs.h numbers its regions. Bitmaps have at most
 * 2^28 pixels and 2^16 a side, so that the sums of squares fit into int64_t. Pure.
 */
#ifndef HRF_AGGREGATE_CAMELYON16_COMPONENTS_H
#define HRF_AGGREGATE_CAMELYON16_COMPONENTS_H

#include "base/alloc.h"
#include "base/error.h"
#include "tiler/outline/pixel_runs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The shape of a component, in pixels of the bitmap. */
struct hrf_component {
    int64_t area;
    int32_t row_begin, row_end, column_begin, column_end; /* bounding box, [begin, end) */
    double row, column;                                   /* centroid */
    /* Of the ellipse of the same second central moments, as regionprops computes them: without
     * the 1/12 px^2 that MATLAB adds for the pixel's own extent. */
    double major_axis, eccentricity;
};

struct hrf_components {
    struct hrf_pixel_runs runs;  /* their labels are the components' numbers */
    struct hrf_component *items; /* [n_items]; label k is items[k - 1] */
    size_t n_items;
};

/* Finds the components of the pixels that equal `value` in pixels[height][width]. If `diagonal`,
 * pixels that touch at a corner are connected (8-connectivity). */
HRF_CHECKED enum hrf_status hrf_components_find(const unsigned char *pixels, int32_t width,
                                                int32_t height, unsigned char value, bool diagonal,
                                                struct hrf_components **out, struct hrf_error *err);
void hrf_components_destroy(struct hrf_components *components);
HRF_DEFINE_AUTO(hrf_components)

/* Returns the label of a pixel, or 0 if it is in no component. */
int32_t hrf_components_at(const struct hrf_components *components, int32_t row, int32_t column);

#endif
