/* geojson_tissue.c - polygons of a GeoJSON file as a mask. */
#include "base/json.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "tiler/coords/coords.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is not drawn, by the name of its class or kind. */
struct passed_over {
    char name[64];
    int64_t n;
};
enum { MOST_NAMES = 16 }; /* those that come later are counted together */

struct drawing {
    const char *path;
    const char *classes; /* a line each; NULL: all but ignored ones */
    struct passed_over passed_over[MOST_NAMES];
    size_t n_names;
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
    if (*n > 0)
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

/* ---- which objects ---- */

static void pass_over(struct drawing *d, const char *name)
{
    char shown[sizeof d->passed_over[0].name];
    snprintf(shown, sizeof shown, "%.*s", (int)sizeof shown - 1, name);
    size_t i = 0;
    while (i < d->n_names && strcmp(d->passed_over[i].name, shown) != 0)
        i++;
    if (i == MOST_NAMES)
        i = MOST_NAMES - 1;
    else if (i == d->n_names) {
        d->n_names++;
        snprintf(d->passed_over[i].name, sizeof shown, "%s", i < MOST_NAMES - 1 ? shown : "other");
    }
    d->passed_over[i].n++;
}

/* True if one of the lines is `name`, or all of it before a ": ". */
static bool is_listed(const char *classes, const char *name)
{
    for (const char *line = classes; *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        if (strncmp(line, name, n) == 0 && (name[n] == '\0' || strncmp(name + n, ": ", 2) == 0))
            return true;
        line += n + (line[n] == '\n');
    }
    return false;
}

/* QuPath's name of an object's class, as it shows it: "Tumor: Positive" for a derived one, which
 * has `names` (earlier versions: `parentClass`); others have `name`. "" without a class. */
static void class_name(const json_t *properties, char *out, size_t size)
{
    const json_t *class = json_object_get(properties, "classification");
    const json_t *names = json_object_get(class, "names");
    const char *name = json_string_value(json_object_get(class, "name"));
    const char *parent = json_string_value(
        json_object_get(json_object_get(class, "parentClass"), "name"));
    size_t used = 0;
    snprintf(out, size, "%s%s%s", parent != NULL ? parent : "", parent != NULL ? ": " : "",
             name != NULL ? name : "");
    for (size_t i = 0; i < json_array_size(names) && used < size; i++) {
        const char *part = json_string_value(json_array_get(names, i));
        const int n = snprintf(out + used, size - used, "%s%s", i > 0 ? ": " : "",
                               part != NULL ? part : "");
        used += n > 0 ? (size_t)n : 0;
    }
}

/* QuPath's kind of an object; NULL: another program's. */
static const char *kind_of(const json_t *feature)
{
    /* Version 0.2 said it in the id. */
    static const char *const old[][2] = { { "PathAnnotationObject", "annotation" },
                                          { "PathDetectionObject", "detection" },
                                          { "PathCellObject", "cell" },
                                          { "PathTileObject", "tile" },
                                          { "TMACoreObject", "tmaCore" } };
    const json_t *properties = json_object_get(feature, "properties");
    const char *kind = json_string_value(json_object_get(properties, "objectType"));
    const char *id = json_string_value(json_object_get(feature, "id"));
    if (kind == NULL) /* 0.3 */
        kind = json_string_value(json_object_get(properties, "object_type"));
    for (size_t i = 0; i < sizeof old / sizeof old[0] && kind == NULL && id != NULL; i++)
        kind = strcmp(old[i][0], id) == 0 ? old[i][1] : NULL;
    return kind;
}

/* Whether a feature's outline is drawn. Other programs' features have neither kind nor class. */
static bool is_tissue(struct drawing *d, const json_t *feature)
{
    const json_t *properties = json_object_get(feature, "properties");
    const char *kind = kind_of(feature);
    char name[256];
    if (kind != NULL && strcmp(kind, "annotation") != 0) {
        pass_over(d, kind);
        return false;
    }
    class_name(properties, name, sizeof name);
    const size_t n = strlen(name);
    const bool is_wanted = d->classes != NULL ? is_listed(d->classes, name)
                                              : n == 0 || name[n - 1] != '*';
    if (!is_wanted)
        pass_over(d, n > 0 ? name : "without a class");
    return is_wanted;
}

static enum hrf_status list_passed_over(const struct drawing *d, char **out, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    *out = NULL;
    if (d->n_names == 0)
        return HRF_OK;
    for (size_t i = 0; i < d->n_names; i++)
        hrf_strbuf_addf(&text, "%s%lld %s", i > 0 ? ", " : "", (long long)d->passed_over[i].n,
                        d->passed_over[i].name);
    HRF_TRY(hrf_strbuf_status(&text, err));
    *out = hrf_text_printable(text.text);
    HRF_CHECK_MEMORY(*out != NULL, err, "no memory for a text");
    return HRF_OK;
}

/* ---- the file ---- */

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
    if (strcmp(type, "Feature") == 0) {
        const json_t *geometry = json_object_get(value, "geometry");
        const json_t *properties = json_object_get(value, "properties");
        if (!json_is_null(geometry) && is_tissue(d, value))
            HRF_TRY(draw_value(d, geometry, depth + 1, err));
        return draw_each(d, json_object_get(properties, "childObjects"), depth, err);
    }
    if (strcmp(type, "Polygon") == 0)
        return draw_polygon(d, places, err);
    for (size_t i = 0; strcmp(type, "MultiPolygon") == 0 && i < json_array_size(places); i++)
        HRF_TRY(draw_polygon(d, json_array_get(places, i), err));
    return HRF_OK;
}

enum hrf_status hrf_coords_draw_tissue(const char *path, int64_t slide_width, int64_t slide_height,
                                       const char *classes, unsigned char *mask, int64_t width,
                                       int64_t height, char **passed_over, struct hrf_error *err)
{
    HRF_AUTO_JSON root = NULL;
    HRF_AUTO_FREE char *others = NULL;
    HRF_TRY(hrf_json_read_file(path, &root, err));
    struct drawing d = { .path = path,
                         .classes = classes,
                         .scale_x = (double)width / (double)slide_width,
                         .scale_y = (double)height / (double)slide_height,
                         .mask = mask,
                         .width = width,
                         .height = height };
    memset(mask, 0, (size_t)(width * height));
    const enum hrf_status status = draw_value(&d, root, 0, err);
    hrf_free(d.crossings);
    HRF_TRY(status);
    HRF_TRY(list_passed_over(&d, &others, err));
    if (d.n_polygons == 0 && others != NULL)
        return hrf_error_set(
            err, HRF_E_USER, "'%s' has no polygon %s; there are: %s", path,
            classes != NULL ? "of the classes of tiler.tissue.classes" : "that is tissue", others);
    if (d.n_polygons == 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' has no polygon", path);
    if (d.n_drawn == 0)
        return hrf_error_set(err, HRF_E_USER,
                             "none of the %lld polygons of '%s' covers the slide of %lld x %lld "
                             "px: coordinates are level-0 px, or the file is another slide's",
                             (long long)d.n_polygons, path, (long long)slide_width,
                             (long long)slide_height);
    HRF_MOVE(*passed_over, others);
    return HRF_OK;
}
