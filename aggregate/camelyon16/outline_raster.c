/* outline_raster.c - see outline_raster.h. */
#include "aggregate/camelyon16/outline_raster.h"

#include <math.h>

#define MOST_WORK ((int64_t)1 << 35) /* about a minute */

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static double centre(const struct hrf_raster_axis *axis, int64_t pixel)
{
    return ((double)pixel + axis->phase) * axis->step;
}

/* The first pixel of [low, high] whose centre is at or beyond `at`. */
static int64_t first_pixel(const struct hrf_raster_axis *axis, double at, int64_t low, int64_t high)
{
    const double pixel = ceil(at / axis->step - axis->phase);
    return pixel <= (double)low ? low : pixel >= (double)high ? high : (int64_t)pixel;
}

/* The part of the raster that an outline may touch; half-open. */
struct box {
    int64_t x0, y0, x1, y1;
};

static struct box box_of(const struct hrf_outline *o, const struct hrf_outline_raster *r)
{
    const int64_t right = r->x0 + r->width, bottom = r->y0 + r->height;
    struct box box = { first_pixel(&r->x, o->low.x, r->x0, right),
                       first_pixel(&r->y, o->low.y, r->y0, bottom),
                       first_pixel(&r->x, o->high.x, r->x0, right),
                       first_pixel(&r->y, o->high.y, r->y0, bottom) };
    box.x1 = clamp(box.x1 + 1, r->x0, right);
    box.y1 = clamp(box.y1 + 1, r->y0, bottom);
    return box;
}

/* Marks for each row that the edge crosses the first pixel to the right of the crossing. The
 * formula is that of hrf_outline_contains(), so that both agree to the last bit. */
static void mark_edge(const struct hrf_point *a, const struct hrf_point *b, const struct box *box,
                      struct hrf_outline_raster *r)
{
    const double low = fmin(a->y, b->y), high = fmax(a->y, b->y);
    const int64_t begin = first_pixel(&r->y, low, box->y0, box->y1);
    const int64_t end = first_pixel(&r->y, high, begin, box->y1);
    r->work += end - begin;
    for (int64_t row = begin; row < end; row++) {
        const double y = centre(&r->y, row);
        if ((a->y > y) == (b->y > y))
            continue;
        const double x = (b->x - a->x) * (y - a->y) / (b->y - a->y) + a->x;
        const int64_t column = first_pixel(&r->x, x, box->x0, box->x1);
        if (column < box->x1)
            r->marks[(row - r->y0) * r->width + column - r->x0] ^= 1;
    }
}

enum hrf_status hrf_outline_draw(const struct hrf_outline *outline, unsigned char value,
                                 struct hrf_outline_raster *r, struct hrf_error *err)
{
    const struct box box = box_of(outline, r);
    const int64_t width = box.x1 - box.x0;
    const struct hrf_point *points = outline->points;
    if (width <= 0 || box.y1 <= box.y0)
        return HRF_OK;
    r->work += width * (box.y1 - box.y0);
    for (size_t i = 0, j = outline->n_points - 1; i < outline->n_points; j = i++) {
        mark_edge(&points[i], &points[j], &box, r);
        if (r->work > MOST_WORK)
            return hrf_error_set(err, HRF_E_USER,
                                 "the outlines are too many and too long to be drawn");
    }
    for (int64_t row = box.y0; row < box.y1; row++) {
        const int64_t at = (row - r->y0) * r->width + box.x0 - r->x0;
        unsigned char inside = 0;
        for (int64_t i = at; i < at + width; i++) {
            inside ^= r->marks[i];
            r->marks[i] = 0;
            if (inside)
                r->pixels[i] = value;
        }
    }
    return HRF_OK;
}
