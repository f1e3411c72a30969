/* cell_rings.c - walks along the edges between cells that are inside and those that are not, with
 * the inside on the right, and turns right where it can. */
#include "aggregate/slide/cell_rings.h"

#include "base/array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum direction { EAST, SOUTH, WEST, NORTH };
static const struct hrf_corner steps[] = { { 1, 0 }, { 0, 1 }, { -1, 0 }, { 0, -1 } };

struct walk {
    const unsigned char *cells;
    int32_t columns, rows;
    unsigned char *was_walked; /* [rows * columns]: the edge above this cell */
    int32_t *path_indices;     /* [(rows + 1) * (columns + 1)]: 1 + index into path; 0: not on it */
    struct hrf_corner *path;
    size_t n_path, capacity;
    struct hrf_cell_rings rings;
    size_t ring_capacity;
};

static bool is_inside(const struct walk *w, int32_t column, int32_t row)
{
    return column >= 0 && row >= 0 && column < w->columns && row < w->rows &&
           w->cells[(size_t)row * (size_t)w->columns + (size_t)column] != 0;
}

/* True if an edge goes from the corner in that direction, with the inside on its right. */
static bool has_edge(const struct walk *w, struct hrf_corner at, enum direction d)
{
    static const struct hrf_corner right[] = { { 0, 0 }, { -1, 0 }, { -1, -1 }, { 0, -1 } };
    static const struct hrf_corner left[] = { { 0, -1 }, { 0, 0 }, { -1, 0 }, { -1, -1 } };
    return is_inside(w, at.column + right[d].column, at.row + right[d].row) &&
           !is_inside(w, at.column + left[d].column, at.row + left[d].row);
}

static int32_t *path_index_of(const struct walk *w, struct hrf_corner at)
{
    return &w->path_indices[(size_t)at.row * ((size_t)w->columns + 1) + (size_t)at.column];
}

/* Twice the area, positive if clockwise. */
static int64_t signed_area(const struct hrf_corner *c, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        const struct hrf_corner *next = &c[(i + 1) % n];
        sum += (int64_t)c[i].column * next->row - (int64_t)next->column * c[i].row;
    }
    return sum;
}

/* The path from index `from` on becomes a ring. */
static void cut_ring(struct walk *w, size_t from)
{
    const size_t n = w->n_path - from;
    HRF_RESERVE(w->rings.items, w->ring_capacity, w->rings.n + 1);
    struct hrf_corner *corners = hrf_alloc_array(n, sizeof *corners);
    memcpy(corners, w->path + from, n * sizeof *corners);
    for (size_t i = from; i < w->n_path; i++)
        *path_index_of(w, w->path[i]) = 0;
    w->n_path = from;
    w->rings.items[w->rings.n++] = (struct hrf_cell_ring){ corners, n,
                                                           signed_area(corners, n) < 0 };
}

/* A corner that is on the path already closes a ring there. */
static void add_corner(struct walk *w, struct hrf_corner at)
{
    const int32_t path_index = *path_index_of(w, at);
    if (path_index > 0)
        cut_ring(w, (size_t)path_index - 1);
    HRF_RESERVE(w->path, w->capacity, w->n_path + 1);
    w->path[w->n_path++] = at;
    *path_index_of(w, at) = (int32_t)w->n_path;
}

static enum direction next_direction(const struct walk *w, struct hrf_corner at, enum direction d)
{
    for (int turn = 1; turn >= -1; turn--) { /* right, straight on, left */
        const enum direction next = (enum direction)(((int)d + turn + 4) % 4);
        if (has_edge(w, at, next))
            return next;
    }
    assert(false && "an outline ends nowhere");
    return d;
}

/* Walks from the edge above a cell, east at first, round to the same edge. */
static void walk_round(struct walk *w, struct hrf_corner start)
{
    struct hrf_corner at = start;
    enum direction d = EAST;
    add_corner(w, at);
    for (;;) {
        if (d == EAST)
            w->was_walked[(size_t)at.row * (size_t)w->columns + (size_t)at.column] = 1;
        at.column += steps[d].column;
        at.row += steps[d].row;
        const enum direction next = next_direction(w, at, d);
        if (at.column == start.column && at.row == start.row && next == EAST) {
            cut_ring(w, 0);
            return;
        }
        if (next != d)
            add_corner(w, at);
        d = next;
    }
}

static void walk_all(struct walk *w)
{
    for (int32_t row = 0; row < w->rows; row++)
        for (int32_t column = 0; column < w->columns; column++) {
            const struct hrf_corner at = { column, row };
            if (has_edge(w, at, EAST) &&
                w->was_walked[(size_t)row * (size_t)w->columns + (size_t)column] == 0)
                walk_round(w, at);
        }
}

/* ---- holes to their outer rings ---- */

/* Even-odd rule for the middle of a cell. */
static bool contains(const struct hrf_cell_ring *ring, struct hrf_corner cell)
{
    bool is_in = false;
    for (size_t i = 0; i < ring->n; i++) {
        const struct hrf_corner a = ring->corners[i], b = ring->corners[(i + 1) % ring->n];
        const int32_t top = a.row < b.row ? a.row : b.row, bottom = a.row < b.row ? b.row : a.row;
        if (a.column == b.column && a.column <= cell.column && top <= cell.row && cell.row < bottom)
            is_in = !is_in;
    }
    return is_in;
}

/* The cell below and right of a ring's first corner, row by row, lies inside the ring. */
static struct hrf_corner first_cell(const struct hrf_cell_ring *ring)
{
    struct hrf_corner first = ring->corners[0];
    for (size_t i = 1; i < ring->n; i++) {
        const struct hrf_corner c = ring->corners[i];
        if (c.row < first.row || (c.row == first.row && c.column < first.column))
            first = c;
    }
    return first;
}

/* The smallest outer ring round the hole. */
static size_t find_owner(const struct hrf_cell_rings *rings, const struct hrf_cell_ring *hole)
{
    const struct hrf_corner cell = first_cell(hole);
    size_t best = rings->n;
    int64_t best_area = INT64_MAX;
    for (size_t i = 0; i < rings->n; i++) {
        const struct hrf_cell_ring *ring = &rings->items[i];
        const int64_t area = signed_area(ring->corners, ring->n);
        if (!ring->is_hole && area < best_area && contains(ring, cell)) {
            best = i;
            best_area = area;
        }
    }
    assert(best < rings->n);
    return best;
}

static void put_in_order(struct hrf_cell_rings *rings)
{
    HRF_AUTO_FREE size_t *owners = hrf_alloc_array(rings->n + 1, sizeof *owners);
    struct hrf_cell_ring *ordered = hrf_alloc_array(rings->n + 1, sizeof *ordered);
    for (size_t i = 0; i < rings->n; i++)
        owners[i] = rings->items[i].is_hole ? find_owner(rings, &rings->items[i]) : i;
    size_t n = 0;
    for (size_t i = 0; i < rings->n; i++) {
        if (rings->items[i].is_hole)
            continue;
        ordered[n++] = rings->items[i];
        for (size_t k = 0; k < rings->n; k++)
            if (rings->items[k].is_hole && owners[k] == i)
                ordered[n++] = rings->items[k];
    }
    hrf_free(rings->items);
    rings->items = ordered;
}

void hrf_cell_rings_release(struct hrf_cell_rings *rings)
{
    for (size_t i = 0; i < rings->n; i++)
        hrf_free(rings->items[i].corners);
    hrf_free(rings->items);
    *rings = (struct hrf_cell_rings){ .items = NULL };
}

enum hrf_status hrf_cell_rings_find(const unsigned char *cells, int32_t columns, int32_t rows,
                                    struct hrf_cell_rings *out, struct hrf_error *err)
{
    const size_t n = (size_t)columns * (size_t)rows;
    if (columns < 1 || rows < 1 || n > (size_t)1 << 28)
        return hrf_error_set(err, HRF_E_USER, "a grid of %d x %d cells", columns, rows);
    HRF_AUTO_FREE unsigned char *was_walked = hrf_try_calloc(n, 1);
    HRF_AUTO_FREE int32_t *path_indices = hrf_try_calloc(n + (size_t)columns + (size_t)rows + 1,
                                                         sizeof *path_indices);
    HRF_CHECK_MEMORY(was_walked != NULL && path_indices != NULL, err, "no memory for %d x %d cells",
                     columns, rows);
    struct walk w = { .cells = cells,
                      .columns = columns,
                      .rows = rows,
                      .was_walked = was_walked,
                      .path_indices = path_indices };
    walk_all(&w);
    hrf_free(w.path);
    put_in_order(&w.rings);
    *out = w.rings;
    return HRF_OK;
}
