/* outline_raster.c - a scan line over the edges of all areas.
 *
 * Edges wait in the order of their first row, and among these of their areas. The edges that cross
 * the present row are kept in the order of their areas, so that an area's crossings stand together.
 * A row is painted from the area on top downwards, and every pixel once: `free_from` leads from a
 * pixel to the next one that has no paint yet.
 */
#include "tiler/outline/outline_raster.h"

#include "base/array.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CROSSINGS ((int64_t)1 << 32) /* about a minute */

struct hrf_outline_edge {
    struct hrf_point a, b;
    uint32_t area;
    int32_t begin, end; /* rows of the grid whose centre lines it crosses */
};

void hrf_outline_raster_init(struct hrf_outline_raster *r, const struct hrf_raster_grid *grid)
{
    assert(grid->width > 0 && grid->width < INT32_MAX);
    assert(grid->height > 0 && grid->height < INT32_MAX);
    *r = (struct hrf_outline_raster){ .grid = *grid };
}

void hrf_outline_raster_release(struct hrf_outline_raster *r)
{
    hrf_free(r->edges);
    hrf_free(r->values);
    *r = (struct hrf_outline_raster){ .edges = NULL };
}

static double centre(const struct hrf_raster_axis *axis, int64_t pixel)
{
    return ((double)pixel + axis->phase) * axis->step;
}

/* Returns the first pixel of a line of n, counted from `first`, whose centre is at or beyond `at`;
 * n if there is none. Exact, so that both ends of an edge agree on the rows between them. */
static int32_t first_pixel(const struct hrf_raster_axis *axis, double at, int64_t first, int64_t n)
{
    const double guess = ceil(at / axis->step - axis->phase) - (double)first;
    int64_t pixel = guess <= 0.0 ? 0 : guess >= (double)n ? n : (int64_t)guess;
    while (pixel > 0 && centre(axis, first + pixel - 1) >= at)
        pixel--;
    while (pixel < n && centre(axis, first + pixel) < at)
        pixel++;
    return (int32_t)pixel;
}

enum hrf_status hrf_outline_raster_add_area(struct hrf_outline_raster *r, unsigned char value,
                                            struct hrf_error *err)
{
    if (r->n_areas >= UINT32_MAX)
        return hrf_error_set(err, HRF_E_USER, "more than %lld outlines", (long long)UINT32_MAX);
    HRF_RESERVE(r->values, r->area_capacity, r->n_areas + 1);
    r->values[r->n_areas++] = value;
    return HRF_OK;
}

static enum hrf_status add_edge(struct hrf_outline_raster *r, const struct hrf_point *a,
                                const struct hrf_point *b, struct hrf_error *err)
{
    const struct hrf_raster_grid *g = &r->grid;
    const int32_t begin = first_pixel(&g->y, fmin(a->y, b->y), g->y0, g->height);
    const int32_t end = first_pixel(&g->y, fmax(a->y, b->y), g->y0, g->height);
    if (begin == end)
        return HRF_OK;
    r->n_crossings += end - begin;
    if (r->n_crossings > MAX_CROSSINGS)
        return hrf_error_set(err, HRF_E_USER,
                             "the outlines cross the picture's %lld rows more than %lld times: "
                             "draw them with fewer points",
                             (long long)g->height, (long long)MAX_CROSSINGS);
    HRF_RESERVE(r->edges, r->edge_capacity, r->n_edges + 1);
    r->edges[r->n_edges++] = (struct hrf_outline_edge){ *a, *b, (uint32_t)(r->n_areas - 1), begin,
                                                        end };
    return HRF_OK;
}

enum hrf_status hrf_outline_raster_add_ring(struct hrf_outline_raster *r,
                                            const struct hrf_point *points, size_t n_points,
                                            struct hrf_error *err)
{
    assert(r->n_areas > 0);
    for (size_t i = 0, j = n_points - 1; i < n_points; j = i++) {
        assert(hrf_is_place(points[i].x) && hrf_is_place(points[i].y));
        HRF_TRY(add_edge(r, &points[i], &points[j], err));
    }
    return HRF_OK;
}

/* ---- painting ---- */

struct painter {
    const struct hrf_outline_raster *raster;
    size_t *order;      /* [n_edges]: edges by their first row, then by area */
    size_t *row_begins; /* [height + 1]: of each row's edges in `order` */
    size_t *active;     /* [n_edges]: the edges of this row, by area */
    size_t n_active;
    int32_t *columns;      /* [n_edges]: where an area crosses the row */
    unsigned char *parity; /* [width + 1]: zeros between uses */
    int32_t *free_from;    /* [width + 1] */
    int64_t n_painted;
};

static void painter_release(struct painter *p)
{
    hrf_free(p->order);
    hrf_free(p->row_begins);
    hrf_free(p->active);
    hrf_free(p->columns);
    hrf_free(p->parity);
    hrf_free(p->free_from);
}

static enum hrf_status painter_init(struct painter *p, const struct hrf_outline_raster *r,
                                    struct hrf_error *err)
{
    const size_t width = (size_t)r->grid.width, height = (size_t)r->grid.height;
    *p = (struct painter){ .raster = r,
                           .order = hrf_alloc_array(r->n_edges + 1, sizeof *p->order),
                           .row_begins = hrf_try_calloc(height + 1, sizeof *p->row_begins),
                           .active = hrf_alloc_array(r->n_edges + 1, sizeof *p->active),
                           .columns = hrf_alloc_array(r->n_edges + 1, sizeof *p->columns),
                           .parity = hrf_try_calloc(width + 1, 1),
                           .free_from = hrf_try_alloc_array(width + 1, sizeof *p->free_from) };
    HRF_CHECK_MEMORY(p->order != NULL && p->row_begins != NULL && p->active != NULL &&
                         p->columns != NULL && p->parity != NULL && p->free_from != NULL,
                     err, "no memory to draw outlines with %zu edges on %zu x %zu px", r->n_edges,
                     width, height);
    size_t *begins = p->row_begins;
    for (size_t i = 0; i < r->n_edges; i++)
        begins[r->edges[i].begin + 1]++;
    for (size_t row = 0; row < height; row++)
        begins[row + 1] += begins[row];
    for (size_t i = 0; i < r->n_edges; i++) /* leaves begins[row] at the row's end, ... */
        p->order[begins[r->edges[i].begin]++] = i;
    memmove(begins + 1, begins, height * sizeof *begins); /* ... which is the next one's begin */
    begins[0] = 0;
    return HRF_OK;
}

/* Drops the edges that end before the row and merges in those that begin there. */
static void advance(struct painter *p, int32_t row)
{
    const struct hrf_outline_edge *edges = p->raster->edges;
    const size_t *fresh = p->order + p->row_begins[row];
    size_t n = 0, n_fresh = p->row_begins[row + 1] - p->row_begins[row];
    for (size_t i = 0; i < p->n_active; i++)
        if (edges[p->active[i]].end > row)
            p->active[n++] = p->active[i];
    p->n_active = n + n_fresh;
    for (size_t to = p->n_active; n_fresh > 0;) { /* from the back, in place */
        const bool is_fresh = n == 0 || fresh[n_fresh - 1] > p->active[n - 1];
        p->active[--to] = is_fresh ? fresh[--n_fresh] : p->active[--n];
    }
}

/* Returns the first pixel at or after `column` that has no paint yet. */
static int32_t find_free(int32_t *free_from, int32_t column)
{
    int32_t found = column;
    while (free_from[found] != found)
        found = free_from[found];
    while (free_from[column] != found) {
        const int32_t next = free_from[column];
        free_from[column] = found;
        column = next;
    }
    return found;
}

static void paint_span(struct painter *p, unsigned char *line, int32_t begin, int32_t end,
                       unsigned char value)
{
    for (int32_t x = find_free(p->free_from, begin); x < end; x = find_free(p->free_from, x)) {
        line[x] = value;
        p->free_from[x] = x + 1;
        p->n_painted++;
    }
}

static int by_column(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Paints an area's part of a row. Of many crossings the parity of each column is counted; few are
 * sorted. */
static void paint_area(struct painter *p, unsigned char *line, size_t n, unsigned char value)
{
    const int32_t width = (int32_t)p->raster->grid.width;
    if (n > (size_t)width / 16) {
        for (size_t i = 0; i < n; i++)
            p->parity[p->columns[i]] ^= 1;
        n = 0;
        for (int32_t x = 0; x <= width; x++) {
            if (p->parity[x])
                p->columns[n++] = x;
            p->parity[x] = 0;
        }
    } else if (n > 2)
        qsort(p->columns, n, sizeof *p->columns, by_column);
    else if (n == 2 && p->columns[0] > p->columns[1]) {
        const int32_t left = p->columns[1];
        p->columns[1] = p->columns[0];
        p->columns[0] = left;
    }
    assert(n % 2 == 0); /* rings are closed */
    for (size_t i = 0; i + 1 < n; i += 2)
        paint_span(p, line, p->columns[i], p->columns[i + 1], value);
}

static void paint_row(struct painter *p, int32_t row, unsigned char *line)
{
    const struct hrf_outline_raster *r = p->raster;
    const struct hrf_raster_grid *g = &r->grid;
    const double y = centre(&g->y, g->y0 + row);
    for (int32_t x = 0; x <= g->width; x++)
        p->free_from[x] = x;
    for (size_t i = p->n_active; i > 0;) {
        const uint32_t area = r->edges[p->active[i - 1]].area;
        size_t n = 0;
        for (; i > 0 && r->edges[p->active[i - 1]].area == area; i--) {
            const struct hrf_point *a = &r->edges[p->active[i - 1]].a,
                                   *b = &r->edges[p->active[i - 1]].b;
            const double x = (b->x - a->x) * (y - a->y) / (b->y - a->y) + a->x;
            p->columns[n++] = first_pixel(&g->x, x, g->x0, g->width);
        }
        paint_area(p, line, n, r->values[area]);
    }
}

enum hrf_status hrf_outline_raster_paint(const struct hrf_outline_raster *r, unsigned char *pixels,
                                         int64_t *n_painted, struct hrf_error *err)
{
    struct painter p;
    const enum hrf_status status = painter_init(&p, r, err);
    for (int32_t row = 0; status == HRF_OK && row < r->grid.height; row++) {
        advance(&p, row);
        if (p.n_active > 0)
            paint_row(&p, row, pixels + row * r->grid.width);
    }
    if (status == HRF_OK && n_painted != NULL)
        *n_painted = p.n_painted;
    painter_release(&p);
    return status;
}
