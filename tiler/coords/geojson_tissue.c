/* geojson_tissue.c - polygons of a GeoJSON file as areas, and as a mask. */
#include "base/array.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "tiler/coords/coords.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many objects of one class or kind are not drawn. */
struct passed_over {
    char name[64];
    int64_t n;
};
enum { MAX_NAMES = 16 }; /* those that come later are counted together */

struct drawing {
    const char *path;
    const struct hrf_text_list *classes; /* none: all but ignored ones */
    struct passed_over passed_over[MAX_NAMES];
    size_t n_names;
    unsigned char value;
    struct hrf_outline_areas *areas; /* which the polygons are added to */
    struct hrf_point *points;        /* of one ring */
    size_t capacity;
    int64_t n_polygons;
};

static enum hrf_status wrong(const struct drawing *d, const char *what, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_USER, "'%s' is not GeoJSON: %s", d->path, what);
}

static enum hrf_status read_point(const struct drawing *d, const json_t *point,
                                  struct hrf_point *out, struct hrf_error *err)
{
    const json_t *x = json_array_get(point, 0), *y = json_array_get(point, 1);
    if (!json_is_number(x) || !json_is_number(y))
        return wrong(d, "a polygon has a point that is not two numbers", err);
    *out = (struct hrf_point){ json_number_value(x), json_number_value(y) };
    if (!hrf_is_place(out->x) || !hrf_is_place(out->y))
        return hrf_error_set(err, HRF_E_USER,
                             "'%s': polygon %lld has a point at %g, %g, and no slide has more than "
                             "%g px: coordinates are level-0 px",
                             d->path, (long long)d->n_polygons, out->x, out->y, HRF_PLACE_FARTHEST);
    return HRF_OK;
}

static enum hrf_status add_polygon(struct drawing *d, const json_t *rings, struct hrf_error *err)
{
    d->n_polygons++;
    hrf_outline_areas_add(d->areas, d->value);
    for (size_t r = 0; r < json_array_size(rings); r++) {
        const json_t *ring = json_array_get(rings, r);
        const size_t n = json_array_size(ring);
        if (n == 0)
            return wrong(d, "a polygon has a ring that is not a list of points", err);
        HRF_RESERVE(d->points, d->capacity, n);
        for (size_t i = 0; i < n; i++)
            HRF_TRY(read_point(d, json_array_get(ring, i), &d->points[i], err));
        hrf_outline_areas_add_ring(d->areas, d->points, n);
    }
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
    if (i == MAX_NAMES)
        i = MAX_NAMES - 1;
    else if (i == d->n_names) {
        d->n_names++;
        snprintf(d->passed_over[i].name, sizeof shown, "%s", i < MAX_NAMES - 1 ? shown : "other");
    }
    d->passed_over[i].n++;
}

/* True if one of the classes is `name`, or all of it before a ": ". */
static bool is_listed(const struct hrf_text_list *classes, const char *name)
{
    for (size_t i = 0; i < classes->n_items; i++) {
        const size_t n = strlen(classes->items[i]);
        if (strncmp(classes->items[i], name, n) == 0 &&
            (name[n] == '\0' || strncmp(name + n, ": ", 2) == 0))
            return true;
    }
    return false;
}

/* Writes the name of an object's class as QuPath shows it: "Tumor: Positive" for a derived class,
 * which has `names` (earlier versions: `parentClass`); other classes have `name`. An object without
 * a class gets "". */
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

/* Returns QuPath's kind of an object. NULL: another program wrote it. */
static const char *kind_of(const json_t *feature)
{
    /* QuPath 0.2 states the kind in the id. */
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

/* True if a feature's outline is drawn. Other programs' features have neither kind nor class. */
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
    const bool is_wanted = d->classes->n_items > 0 ? is_listed(d->classes, name)
                                                   : n == 0 || name[n - 1] != '*';
    if (!is_wanted)
        pass_over(d, n > 0 ? name : "without a class");
    return is_wanted;
}

static void list_passed_over(const struct drawing *d, char **out)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    *out = NULL;
    if (d->n_names == 0)
        return;
    for (size_t i = 0; i < d->n_names; i++)
        hrf_strbuf_addf(&text, "%s%lld %s", i > 0 ? ", " : "", (long long)d->passed_over[i].n,
                        d->passed_over[i].name);
    *out = hrf_text_escaped(text.text);
}

/* ---- the file ---- */

enum { MAX_DEPTH = 16 };

static enum hrf_status add_value(struct drawing *d, const json_t *value, int depth,
                                 struct hrf_error *err);

static enum hrf_status add_each(struct drawing *d, const json_t *values, int depth,
                                struct hrf_error *err)
{
    for (size_t i = 0; i < json_array_size(values); i++)
        HRF_TRY(add_value(d, json_array_get(values, i), depth + 1, err));
    return HRF_OK;
}

/* A feature collection, feature, geometry, or (QuPath) a bare list of features. */
static enum hrf_status add_value(struct drawing *d, const json_t *value, int depth,
                                 struct hrf_error *err)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    const json_t *places = json_object_get(value, "coordinates");
    if (depth > MAX_DEPTH)
        return wrong(d, "its collections are nested too deep", err);
    if (json_is_array(value))
        return add_each(d, value, depth, err);
    if (type == NULL)
        return wrong(d, "an object has no 'type'", err);
    if (strcmp(type, "FeatureCollection") == 0)
        return add_each(d, json_object_get(value, "features"), depth, err);
    if (strcmp(type, "GeometryCollection") == 0)
        return add_each(d, json_object_get(value, "geometries"), depth, err);
    if (strcmp(type, "Feature") == 0) {
        const json_t *geometry = json_object_get(value, "geometry");
        const json_t *properties = json_object_get(value, "properties");
        if (!json_is_null(geometry) && is_tissue(d, value))
            HRF_TRY(add_value(d, geometry, depth + 1, err));
        return add_each(d, json_object_get(properties, "childObjects"), depth, err);
    }
    if (strcmp(type, "Polygon") == 0)
        return add_polygon(d, places, err);
    for (size_t i = 0; strcmp(type, "MultiPolygon") == 0 && i < json_array_size(places); i++)
        HRF_TRY(add_polygon(d, json_array_get(places, i), err));
    return HRF_OK;
}

enum hrf_status hrf_coords_read_areas(const char *path, const struct hrf_text_list *classes,
                                      unsigned char value, struct hrf_outline_areas *areas,
                                      char **passed_over, struct hrf_error *err)
{
    static const struct hrf_text_list none;
    HRF_AUTO_JSON root = NULL;
    HRF_TRY(hrf_json_read_file(path, &root, err));
    struct drawing d = {
        .path = path, .classes = classes != NULL ? classes : &none, .value = value, .areas = areas
    };
    const enum hrf_status status = add_value(&d, root, 0, err);
    hrf_free(d.points);
    HRF_TRY(status);
    list_passed_over(&d, passed_over);
    return HRF_OK;
}

enum hrf_status hrf_coords_paint_areas(const char *path, const struct hrf_outline_areas *areas,
                                       int64_t slide_width, int64_t slide_height,
                                       const struct hrf_raster_grid *grid, unsigned char *pixels,
                                       struct hrf_error *err)
{
    int64_t n_painted = 0;
    HRF_TRY(hrf_outline_areas_paint(areas, grid, pixels, &n_painted, err));
    return n_painted > 0
               ? HRF_OK
               : hrf_error_set(err, HRF_E_USER,
                               "none of the %zu polygons of '%s' covers the slide of %lld x %lld "
                               "px: coordinates are level-0 px, or the file is another slide's",
                               areas->n_items, path, (long long)slide_width,
                               (long long)slide_height);
}

enum hrf_status hrf_coords_draw_tissue(const char *path, int64_t slide_width, int64_t slide_height,
                                       const struct hrf_text_list *classes, unsigned char *mask,
                                       int64_t width, int64_t height, char **passed_over,
                                       struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_outline_areas) areas = { .items = NULL };
    HRF_AUTO_FREE char *others = NULL;
    const struct hrf_raster_grid grid = { .x = { (double)slide_width / (double)width, 0.5 },
                                          .y = { (double)slide_height / (double)height, 0.5 },
                                          .width = width,
                                          .height = height };
    HRF_TRY(hrf_coords_read_areas(path, classes, 255, &areas, &others, err));
    memset(mask, 0, (size_t)(width * height));
    if (areas.n_items == 0 && others != NULL && classes->n_items > 0)
        return hrf_error_set(
            err, HRF_E_USER,
            "'%s' has no polygon of the classes of {tiler.tissue.classes}; there are: %s", path,
            others);
    if (areas.n_items == 0 && others != NULL)
        return hrf_error_set(err, HRF_E_USER, "'%s' has no polygon that is tissue; there are: %s",
                             path, others);
    if (areas.n_items == 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' has no polygon", path);
    HRF_TRY(hrf_coords_paint_areas(path, &areas, slide_width, slide_height, &grid, mask, err));
    HRF_MOVE(*passed_over, others);
    return HRF_OK;
}
