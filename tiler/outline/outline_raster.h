/* outline_raster.h - rasterises polygons onto a grid of pixels of any size.
 *
 * An area is one or more closed rings. A pixel belongs to it if the pixel's centre is inside by the
 * even-odd rule of all rings together. Where areas overlap, the one added last is on top. Areas are
 * added first and then painted row by row: the time is proportional to the number of vertices, the
 * rows that edges cross and the pixels of the grid, not to the areas' sizes. Pure.
 */
#ifndef HRF_TILER_OUTLINE_OUTLINE_RASTER_H
#define HRF_TILER_OUTLINE_OUTLINE_RASTER_H

#include "base/alloc.h"
#include "base/error.h"
#include "tiler/outline/point.h"

/* The centre of pixel i lies at (i + phase) * step, in level-0 px. */
struct hrf_raster_axis {
    double step, phase;
};

/* A part of such a grid: its first pixel is (x0, y0). */
struct hrf_raster_grid {
    struct hrf_raster_axis x, y;
    int64_t x0, y0;
    int64_t width, height; /* 1 to INT32_MAX - 1 */
};

struct hrf_outline_edge;
struct hrf_outline_raster {
    struct hrf_raster_grid grid;
    struct hrf_outline_edge *edges; /* the edges of all areas, in order, that cross a row */
    size_t n_edges, edge_capacity;
    unsigned char *values; /* the value of each area */
    size_t n_areas, area_capacity;
    int64_t n_crossings; /* how often edges cross rows so far */
};

void hrf_outline_raster_init(struct hrf_outline_raster *raster, const struct hrf_raster_grid *grid);
void hrf_outline_raster_release(struct hrf_outline_raster *raster);

/* Begins an area, whose pixels get `value`; its rings follow. */
HRF_CHECKED enum hrf_status hrf_outline_raster_add_area(struct hrf_outline_raster *raster,
                                                        unsigned char value, struct hrf_error *err);
/* Adds a ring to the last area; the ring's last point is joined to its first. Every coordinate is
 * within the bound of hrf_is_place(). HRF_E_USER: all edges together cross more rows than those of
 * any real slide. */
HRF_CHECKED enum hrf_status hrf_outline_raster_add_ring(struct hrf_outline_raster *raster,
                                                        const struct hrf_point *points,
                                                        size_t n_points, struct hrf_error *err);
/* Paints all areas into pixels[height][width]; pixels outside all areas are unchanged. *n_painted
 * (may be NULL) gets the number of painted pixels. */
HRF_CHECKED enum hrf_status hrf_outline_raster_paint(const struct hrf_outline_raster *raster,
                                                     unsigned char *pixels, int64_t *n_painted,
                                                     struct hrf_error *err);

#endif
