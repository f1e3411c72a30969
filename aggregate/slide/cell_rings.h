/* cell_rings.h - traces the outline of a region of a grid's cells as closed rings of corners.
 *
 * Cells that touch only at a corner are separate, as valid polygons require: no ring visits a
 * corner twice. Outer rings go clockwise (y down) and holes counterclockwise; each hole follows the
 * outer ring that it lies in. Pure.
 */
#ifndef HRF_AGGREGATE_SLIDE_CELL_RINGS_H
#define HRF_AGGREGATE_SLIDE_CELL_RINGS_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_corner {
    int32_t column, row; /* the upper left corner of that cell */
};

struct hrf_cell_ring {
    struct hrf_corner *corners; /* heap; the turning points; the last is joined to the first */
    size_t n;
    bool is_hole;
};

struct hrf_cell_rings {
    struct hrf_cell_ring *items;
    size_t n;
};

/* Finds the rings around the cells[rows][columns] that are not 0; there are at most 2^28 cells. */
HRF_CHECKED enum hrf_status hrf_cell_rings_find(const unsigned char *cells, int32_t columns,
                                                int32_t rows, struct hrf_cell_rings *out,
                                                struct hrf_error *err);
void hrf_cell_rings_release(struct hrf_cell_rings *rings);

#endif
