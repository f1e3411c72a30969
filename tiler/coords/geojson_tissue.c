/* geojson_tissue.c - polygons of a GeoJSON file as a mask. */
#include "base/json.h"
#include "tiler/coords/coords.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct drawing {
    const char *path;
    double scale_x, scale_y; /* mask px per level-0 px */
    unsigned char *mask;     /* [height][width] */
    int64_t width, height;
    double *crossings; /* of one line */
    size_t capacity;
    int64_t n_polygons, n_drawn; /* drawn: polygons with a pixel inside */
};

static enum hrf_status wrong(const struct drawing *d, const char *what, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_USER, "'%s' is not GeoJSON: %s", d->path, what);
}

/* A point in mask px. */
static bool point_at(const struct drawing *d, const json_t *ring, size_t i, double out[2])
{
    const json_t *point = json_array_get(ring, i);
    const json_t *x = json_array_get(point, 0), *y = json_array_get(point, 1);
    out[0] = json_number_value(x) * d->scale_x;
    out[1] = json_number_value(y) * d->scale_y;
    return json_is_number(x) && json_is_number(y) && isfinite(out[0]) && isfinite(out[1]);
}

static int by_number(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Where the rings cross the line through the centres of row `y`. */
static enum hrf_status find_crossings(struct drawing *d, const json_t *rings, int64_t y, size_t *n,
                                      struct hrf_error *err)
{
    const double at = (double)y + 0.5;
    *n = 0;
    for (size_t r = 0; r < json_array_size(rings); r++) {
        const json_t *ring = json_array_get(rings, r);
        const size_t n_points = json_array_size(ring);
        double last[2], next[2];
        if (n_points == 0 || !point_at(d, ring, n_points - 1, last))
            return wrong(d, "a polygon has a point that is not two numbers", err);
        for (size_t i = 0; i < n_points; i++, last[0] = next[0], last[1] = next[1]) {
            if (!point_at(d, ring, i, next))
                return wrong(d, "a polygon has a point that is not two numbers", err);
            if ((last[1] > at) == (next[1] > at))
                continue;
            HRF_TRY(hrf_array_reserve((void **)&d->crossings, &d->capacity, *n + 1,
                                      sizeof *d->crossings, err));
            d->crossings[(*n)++] = last[0] +
                                   (next[0] - last[0]) * (at - last[1]) / (next[1] - last[1]);
        }
    }
    qsort(d->crossings, *n, sizeof *d->crossings, by_number);
    return HRF_OK;
}

/* The first row or column of the mask whose centre is at or after `at`, within 0 to `most`. */
static int64_t first_centre(double at, int64_t most)
{
    const double from = ceil(at - 0.5);
    return from <= 0 ? 0 : from >= (double)most ? most : (int64_t)from;
}

static enum hrf_status reach_of(const struct drawing *d, const json_t *rings, double *low,
                                double *high, struct hrf_error *err)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t r = 0; r < json_array_size(rings); r++)
        for (size_t i = 0; i < json_array_size(json_array_get(rings, r)); i++) {
            double point[2];
            if (!point_at(d, json_array_get(rings, r), i, point))
                return wrong(d, "a polygon has a point that is not two numbers", err);
            *low = fmin(*low, point[1]);
            *high = fmax(*high, point[1]);
        }
    return HRF_OK;
}

static enum hrf_status draw_polygon(struct drawing *d, const json_t *rings, struct hrf_error *err)
{
    double low, high;
    bool any = false;
    d->n_polygons++;
    HRF_TRY(reach_of(d, rings, &low, &high, err));
    const int64_t end = first_centre(high, d->height);
    for (int64_t y = first_centre(low, d->height); y < end; y++) {
        size_t n;
        HRF_TRY(find_crossings(d, rings, y, &n, err));
        for (size_t i = 0; i + 1 < n; i += 2) {
            const int64_t stop = first_centre(d->crossings[i + 1], d->width);
            for (int64_t x = first_centre(d->crossings[i], d->width); x < stop; x++, any = true)
                d->mask[y * d->width + x] = 255;
        }
    }
    d->n_drawn += any;
    return HRF_OK;
}

enum { MOST_DEPTH = 16 };

static enum hrf_status draw_value(struct drawing *d, const json_t *value, int depth,
                                  struct hrf_error *err);

static enum hrf_status draw_each(struct drawing *d, const json_t *values, int depth,
                                 struct hrf_error *err)
{
    for (size_t i = 0; i < json_array_size(values); i++)
        HRF_TRY(draw_value(d, json_array_get(values, i), depth + 1, err));
    return HRF_OK;
}

/* A feature collection, feature, geometry, or (QuPath) a bare list of features. */
static enum hrf_status draw_value(struct drawing *d, const json_t *value, int depth,
                                  struct hrf_error *err)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    const json_t *places = json_object_get(value, "coordinates");
    if (depth > MOST_DEPTH)
        return wrong(d, "its collections are nested too deep", err);
    if (json_is_array(value))
        return draw_each(d, value, depth, err);
    if (type == NULL)
        return wrong(d, "an object has no 'type'", err);
    if (strcmp(type, "FeatureCollection") == 0)
        return draw_each(d, json_object_get(value, "features"), depth, err);
    if (strcmp(type, "GeometryCollection") == 0)
        return draw_each(d, json_object_get(value, "geometries"), depth, err);
    if (strcmp(type, "Feature") == 0)
        return draw_value(d, json_object_get(value, "geometry"), depth + 1, err);
    if (strcmp(type, "Polygon") == 0)
        return draw_polygon(d, places, err);
    for (size_t i = 0; strcmp(type, "MultiPolygon") == 0 && i < json_array_size(places); i++)
        HRF_TRY(draw_polygon(d, json_array_get(places, i), err));
    return HRF_OK;
}

enum hrf_status hrf_coords_draw_tissue(const char *path, int64_t slide_width, int64_t slide_height,
                                       unsigned char *mask, int64_t width, int64_t height,
                                       struct hrf_error *err)
{
    HRF_AUTO_JSON root = NULL;
    HRF_TRY(hrf_json_read_file(path, &root, err));
    struct drawing d = { .path = path,
                         .scale_x = (double)width / (double)slide_width,
                         .scale_y = (double)height / (double)slide_height,
                         .mask = mask,
                         .width = width,
                         .height = height };
    memset(mask, 0, (size_t)(width * height));
    const enum hrf_status status = draw_value(&d, root, 0, err);
    hrf_free(d.crossings);
    HRF_TRY(status);
    if (d.n_polygons == 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' has no polygon", path);
    return d.n_drawn > 0
               ? HRF_OK
               : hrf_error_set(err, HRF_E_USER,
                               "none of the %lld polygons of '%s' covers the slide of %lld x %lld "
                               "px: coordinates are level-0 px, or the file is another slide's",
                               (long long)d.n_polygons, path, (long long)slide_width,
                               (long long)slide_height);
}
