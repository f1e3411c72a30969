/* outline_areas.c - see outline_areas.h. */
#include "tiler/outline/outline_areas.h"

#include "base/array.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void hrf_outline_areas_release(struct hrf_outline_areas *areas)
{
    hrf_free(areas->items);
    hrf_free(areas->ring_ends);
    hrf_free(areas->points);
    *areas = (struct hrf_outline_areas){ .items = NULL };
}

void hrf_outline_areas_add(struct hrf_outline_areas *areas, unsigned char value)
{
    HRF_RESERVE(areas->items, areas->capacity, areas->n_items + 1);
    areas->items[areas->n_items++] = (struct hrf_outline_area){ .value = value,
                                                                .rings_end = areas->n_rings,
                                                                .low = { INFINITY, INFINITY },
                                                                .high = { -INFINITY, -INFINITY } };
}

void hrf_outline_areas_add_ring(struct hrf_outline_areas *areas, const struct hrf_point *points,
                                size_t n_points)
{
    assert(areas->n_items > 0 && n_points > 0);
    HRF_RESERVE(areas->points, areas->point_capacity, areas->n_points + n_points);
    HRF_RESERVE(areas->ring_ends, areas->ring_capacity, areas->n_rings + 1);
    memcpy(areas->points + areas->n_points, points, n_points * sizeof *points);
    areas->n_points += n_points;
    areas->ring_ends[areas->n_rings++] = areas->n_points;
    struct hrf_outline_area *area = &areas->items[areas->n_items - 1];
    area->rings_end = areas->n_rings;
    for (size_t i = 0; i < n_points; i++) {
        area->low.x = fmin(area->low.x, points[i].x);
        area->low.y = fmin(area->low.y, points[i].y);
        area->high.x = fmax(area->high.x, points[i].x);
        area->high.y = fmax(area->high.y, points[i].y);
    }
}

/* True if the area's box reaches the lines that begin at pixel `first` of an axis. */
static bool reaches(const struct hrf_raster_axis *axis, int64_t first, int64_t n, double low,
                    double high)
{
    const double begin = ((double)first + axis->phase) * axis->step;
    return high >= begin && low <= begin + (double)n * axis->step;
}

static enum hrf_status draw(const struct hrf_outline_areas *areas,
                            struct hrf_outline_raster *raster, struct hrf_error *err)
{
    const struct hrf_raster_grid *g = &raster->grid;
    for (size_t i = 0, ring = 0; i < areas->n_items; ring = areas->items[i++].rings_end) {
        const struct hrf_outline_area *area = &areas->items[i];
        if (!reaches(&g->x, g->x0, g->width, area->low.x, area->high.x) ||
            !reaches(&g->y, g->y0, g->height, area->low.y, area->high.y))
            continue;
        HRF_TRY(hrf_outline_raster_add_area(raster, area->value, err));
        for (size_t k = ring; k < area->rings_end; k++) {
            const size_t first = k > 0 ? areas->ring_ends[k - 1] : 0;
            HRF_TRY(hrf_outline_raster_add_ring(raster, areas->points + first,
                                                areas->ring_ends[k] - first, err));
        }
    }
    return HRF_OK;
}

enum hrf_status hrf_outline_areas_paint(const struct hrf_outline_areas *areas,
                                        const struct hrf_raster_grid *grid, unsigned char *pixels,
                                        int64_t *n_painted, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_outline_raster) raster;
    hrf_outline_raster_init(&raster, grid);
    HRF_TRY(draw(areas, &raster, err));
    return hrf_outline_raster_paint(&raster, pixels, n_painted, err);
}
