/* outline_areas.h - areas of a slide that other programs drew, kept to be painted onto any grids.
 *
 * An area is one or more closed rings in level-0 px and the value of its pixels; what
 * outline_raster.h says of areas holds. Pure.
 */
#ifndef HRF_TILER_OUTLINE_OUTLINE_AREAS_H
#define HRF_TILER_OUTLINE_OUTLINE_AREAS_H

#include "tiler/outline/outline_raster.h"

struct hrf_outline_area {
    unsigned char value;
    size_t rings_end;           /* its rings are those from the end of the area before */
    struct hrf_point low, high; /* bounding box */
};

struct hrf_outline_areas {
    struct hrf_outline_area *items;
    size_t n_items, capacity;
    size_t *ring_ends; /* [n_rings]: a ring's points are those from the end of the ring before */
    size_t n_rings, ring_capacity;
    struct hrf_point *points;
    size_t n_points, point_capacity;
};

void hrf_outline_areas_release(struct hrf_outline_areas *areas);

/* Begins an area, which lies on top of those before; its rings follow. */
void hrf_outline_areas_add(struct hrf_outline_areas *areas, unsigned char value);
/* Adds a ring to the last area; every coordinate is within the bound of hrf_is_place(). */
void hrf_outline_areas_add_ring(struct hrf_outline_areas *areas, const struct hrf_point *points,
                                size_t n_points);
/* hrf_outline_raster_paint() of the areas that reach the grid. */
HRF_CHECKED enum hrf_status hrf_outline_areas_paint(const struct hrf_outline_areas *areas,
                                                    const struct hrf_raster_grid *grid,
                                                    unsigned char *pixels, int64_t *n_painted,
                                                    struct hrf_error *err);

#endif
