/* asap.c - parses and checks ASAP annotation files, and tests points against their outlines. */
#include "aggregate/camelyon16/asap.h"

#include "base/array.h"
#include "base/file.h"
#include "base/path.h"
#include "base/text.h"

#include <expat.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The largest annotation of CAMELYON16 (test_021) is 12 MB with some 300,000 vertices. */
#define ASAP_FILE_LIMIT   ((size_t)256 << 20)
#define ASAP_MAX_OUTLINES ((size_t)1000000)
#define ASAP_MAX_POINTS   ((size_t)50000000)
#define ASAP_MAX_DEPTH    32

struct vertex {
    int64_t order; /* @Order, or the position in the file when it is not given */
    size_t serial; /* keeps equal orders as they stand in the file */
    struct hrf_point at;
};

struct parser {
    XML_Parser xml;
    const char *where;
    struct hrf_outlines *outlines;
    size_t capacity;         /* of outlines->items */
    struct vertex *vertices; /* of the annotation being read */
    size_t n_vertices, vertices_capacity, n_points;
    char *name, *group;
    int depth;
    bool seen_root, in_annotation, is_area;
    enum hrf_status status;
    struct hrf_error *err;
};

void hrf_outlines_destroy(struct hrf_outlines *outlines)
{
    if (outlines == NULL)
        return;
    for (size_t i = 0; i < outlines->n_items; i++) {
        hrf_free(outlines->items[i].name);
        hrf_free(outlines->items[i].group);
        hrf_free(outlines->items[i].points);
    }
    hrf_free(outlines->items);
    hrf_free(outlines);
}

static void stop(struct parser *p, enum hrf_status status)
{
    p->status = status;
    XML_StopParser(p->xml, XML_FALSE);
}

static unsigned long line_of(const struct parser *p)
{
    return (unsigned long)XML_GetCurrentLineNumber(p->xml);
}

static const char *attribute(const XML_Char **attributes, const char *name)
{
    for (size_t i = 0; attributes[i] != NULL; i += 2)
        if (strcmp(attributes[i], name) == 0)
            return attributes[i + 1];
    return NULL;
}

static enum hrf_outline_role role_of(const char *group)
{
    static const char *const lesions[] = { "_0", "_1", "Tumor", "Tumour", "None", "" };
    static const char *const cutouts[] = { "_2", "Exclusion" };
    for (size_t i = 0; i < sizeof lesions / sizeof lesions[0]; i++)
        if (strcasecmp(group, lesions[i]) == 0)
            return HRF_OUTLINE_LESION;
    for (size_t i = 0; i < sizeof cutouts / sizeof cutouts[0]; i++)
        if (strcasecmp(group, cutouts[i]) == 0)
            return HRF_OUTLINE_CUTOUT;
    return HRF_OUTLINE_OTHER;
}

static void start_annotation(struct parser *p, const XML_Char **attributes)
{
    if (p->in_annotation) {
        stop(p, hrf_error_set(p->err, HRF_E_USER, "%s:%lu: an Annotation inside an Annotation",
                              p->where, line_of(p)));
        return;
    }
    const char *name = attribute(attributes, "Name"), *group = attribute(attributes, "PartOfGroup");
    const char *type = attribute(attributes, "Type");
    hrf_free(p->name);
    hrf_free(p->group);
    p->name = hrf_strdup(name != NULL ? name : "");
    p->group = hrf_strdup(group != NULL ? group : "");
    p->in_annotation = true;
    p->is_area = type == NULL || strcmp(type, "Polygon") == 0 || strcmp(type, "Spline") == 0 ||
                 strcmp(type, "Rectangle") == 0;
    p->n_vertices = 0;
}

/* The whole text as a number no larger than a coordinate. */
static bool take_number(const char *text, double *out)
{
    if (text == NULL || *text == '\0')
        return false;
    char *end = NULL;
    *out = strtod(text, &end);
    return *end == '\0' && hrf_is_place(*out);
}

static void take_coordinate(struct parser *p, const XML_Char **attributes)
{
    if (!p->in_annotation || !p->is_area)
        return;
    const char *x = attribute(attributes, "X"), *y = attribute(attributes, "Y");
    struct vertex vertex = { .order = (int64_t)p->n_vertices, .serial = p->n_vertices };
    double order = 0.0;
    if (!take_number(x, &vertex.at.x) || !take_number(y, &vertex.at.y)) {
        stop(p, hrf_error_set(p->err, HRF_E_USER,
                              "%s:%lu: Coordinate X=\"%.40s\" Y=\"%.40s\" is not a place in "
                              "level-0 pixels",
                              p->where, line_of(p), x != NULL ? x : "", y != NULL ? y : ""));
        return;
    }
    if (take_number(attribute(attributes, "Order"), &order))
        vertex.order = (int64_t)order;
    if (++p->n_points > ASAP_MAX_POINTS) {
        stop(p, hrf_error_set(p->err, HRF_E_USER, "%s:%lu: more than %zu points", p->where,
                              line_of(p), ASAP_MAX_POINTS));
        return;
    }
    HRF_RESERVE(p->vertices, p->vertices_capacity, p->n_vertices + 1);
    p->vertices[p->n_vertices++] = vertex;
}

static int by_order(const void *a, const void *b)
{
    const struct vertex *x = a, *y = b;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return (x->serial > y->serial) - (x->serial < y->serial);
}

static void fill_points(struct hrf_outline *outline, const struct vertex *vertices)
{
    outline->low = outline->high = vertices[0].at;
    for (size_t i = 0; i < outline->n_points; i++) {
        struct hrf_point at = vertices[i].at;
        outline->points[i] = at;
        outline->low = (struct hrf_point){ fmin(outline->low.x, at.x), fmin(outline->low.y, at.y) };
        outline->high = (struct hrf_point){ fmax(outline->high.x, at.x),
                                            fmax(outline->high.y, at.y) };
    }
}

static enum hrf_status keep_outline(struct parser *p)
{
    struct hrf_outlines *all = p->outlines;
    if (!p->is_area || p->n_vertices < 3) {
        all->n_skipped++;
        return HRF_OK;
    }
    if (all->n_items >= ASAP_MAX_OUTLINES)
        return hrf_error_set(p->err, HRF_E_USER, "%s:%lu: more than %zu annotations", p->where,
                             line_of(p), ASAP_MAX_OUTLINES);
    HRF_RESERVE(all->items, p->capacity, all->n_items + 1);
    struct hrf_outline outline = { .role = role_of(p->group), .n_points = p->n_vertices };
    outline.points = hrf_alloc_array(p->n_vertices, sizeof *outline.points);
    qsort(p->vertices, p->n_vertices, sizeof *p->vertices, by_order);
    fill_points(&outline, p->vertices);
    outline.name = p->name;
    outline.group = p->group;
    p->name = p->group = NULL;
    all->items[all->n_items++] = outline;
    return HRF_OK;
}

static void XMLCALL on_start(void *data, const XML_Char *name, const XML_Char **attributes)
{
    struct parser *p = data;
    if (p->status != HRF_OK)
        return;
    if (++p->depth > ASAP_MAX_DEPTH) {
        stop(p, hrf_error_set(p->err, HRF_E_USER, "%s:%lu: nested deeper than %d elements",
                              p->where, line_of(p), ASAP_MAX_DEPTH));
        return;
    }
    if (!p->seen_root && strcmp(name, "ASAP_Annotations") != 0) {
        stop(p, hrf_error_set(p->err, HRF_E_USER,
                              "%s:%lu: the outermost element is '%.60s'; ASAP's files begin with "
                              "'ASAP_Annotations'",
                              p->where, line_of(p), name));
        return;
    }
    p->seen_root = true;
    if (strcmp(name, "Annotation") == 0)
        start_annotation(p, attributes);
    else if (strcmp(name, "Coordinate") == 0)
        take_coordinate(p, attributes);
}

static void XMLCALL on_end(void *data, const XML_Char *name)
{
    struct parser *p = data;
    if (p->status != HRF_OK)
        return;
    p->depth--;
    if (strcmp(name, "Annotation") != 0 || !p->in_annotation)
        return;
    p->in_annotation = false;
    enum hrf_status status = keep_outline(p);
    if (status != HRF_OK)
        stop(p, status);
}

/* ASAP declares none; expanding them is how small files become gigabytes. */
static void XMLCALL on_entity(void *data, const XML_Char *name, int is_parameter,
                              const XML_Char *value, int n_value, const XML_Char *base,
                              const XML_Char *system_id, const XML_Char *public_id,
                              const XML_Char *notation)
{
    (void)is_parameter, (void)value, (void)n_value, (void)base;
    (void)system_id, (void)public_id, (void)notation;
    struct parser *p = data;
    if (p->status == HRF_OK)
        stop(p, hrf_error_set(p->err, HRF_E_USER,
                              "%s:%lu: declares the entity '%.60s'; annotation files with entities "
                              "are not accepted",
                              p->where, line_of(p), name));
}

static void *expat_alloc(size_t n_bytes)
{
    return hrf_try_alloc(n_bytes);
}

static void *expat_realloc(void *old, size_t n_bytes)
{
    return hrf_try_realloc_array(old, n_bytes, 1);
}

/* Feeds the text in pieces: expat counts in int. */
static enum hrf_status feed(struct parser *p, const char *text, size_t n_bytes)
{
    enum { PIECE = 1 << 20 };
    size_t at = 0;
    do {
        size_t n = n_bytes - at < PIECE ? n_bytes - at : PIECE;
        if (XML_Parse(p->xml, text + at, (int)n, at + n == n_bytes) != XML_STATUS_OK) {
            if (p->status != HRF_OK)
                return p->status;
            enum XML_Error code = XML_GetErrorCode(p->xml);
            return hrf_error_set_foreign(
                p->err, code == XML_ERROR_NO_MEMORY ? HRF_E_NOMEM : HRF_E_USER, "expat", (int)code,
                "%s:%lu: not well-formed XML: %s", p->where, line_of(p), XML_ErrorString(code));
        }
        at += n;
    } while (at < n_bytes);
    return HRF_OK;
}

enum hrf_status hrf_outlines_parse(const char *text, size_t n_bytes, const char *where,
                                   struct hrf_outlines **out, struct hrf_error *err)
{
    static const XML_Memory_Handling_Suite memory = { expat_alloc, expat_realloc, hrf_free };
    HRF_AUTO(hrf_outlines) outlines = hrf_calloc(1, sizeof *outlines);
    struct parser p = { .where = where, .outlines = outlines, .status = HRF_OK, .err = err };
    p.xml = XML_ParserCreate_MM(NULL, &memory, NULL);
    HRF_CHECK_MEMORY(p.xml != NULL, err, "no memory to read %s", where);
    XML_SetUserData(p.xml, &p);
    XML_SetElementHandler(p.xml, on_start, on_end);
    XML_SetEntityDeclHandler(p.xml, on_entity);
    enum hrf_status status = feed(&p, text, n_bytes);
    XML_ParserFree(p.xml);
    hrf_free(p.vertices);
    hrf_free(p.name);
    hrf_free(p.group);
    HRF_TRY(status);
    HRF_MOVE(*out, outlines);
    return HRF_OK;
}

enum hrf_status hrf_outlines_read(const char *path, struct hrf_outlines **out,
                                  struct hrf_error *err)
{
    HRF_AUTO_FREE char *text = NULL;
    size_t n_bytes = 0;
    HRF_TRY(hrf_file_read(path, ASAP_FILE_LIMIT, &text, &n_bytes, err));
    return hrf_outlines_parse(text, n_bytes, path, out, err);
}

bool hrf_outline_contains(const struct hrf_outline *outline, double x, double y)
{
    if (x < outline->low.x || x > outline->high.x || y < outline->low.y || y > outline->high.y)
        return false;
    bool inside = false;
    const struct hrf_point *points = outline->points;
    for (size_t i = 0, j = outline->n_points - 1; i < outline->n_points; j = i++) {
        const struct hrf_point *a = &points[i], *b = &points[j];
        if ((a->y > y) != (b->y > y) && x < (b->x - a->x) * (y - a->y) / (b->y - a->y) + a->x)
            inside = !inside;
    }
    return inside;
}

void hrf_outlines_add_areas(const struct hrf_outlines *outlines,
                            int32_t (*value_of)(const void *context,
                                                const struct hrf_outline *outline),
                            const void *context, struct hrf_outline_areas *areas)
{
    for (int are_cut_out = 0; are_cut_out < 2; are_cut_out++)
        for (size_t i = 0; i < outlines->n_items; i++) {
            const struct hrf_outline *o = &outlines->items[i];
            const int32_t value = value_of(context, o);
            if (are_cut_out ? value >= 0 || o->role != HRF_OUTLINE_CUTOUT : value < 0)
                continue;
            hrf_outline_areas_add(areas, are_cut_out ? 0 : (unsigned char)value);
            hrf_outline_areas_add_ring(areas, o->points, o->n_points);
        }
}

static int32_t lesion_value(const void *context, const struct hrf_outline *outline)
{
    const unsigned char *value = context;
    return outline->role == HRF_OUTLINE_LESION ? *value : -1;
}

void hrf_outlines_add_lesions(const struct hrf_outlines *outlines, unsigned char value,
                              struct hrf_outline_areas *areas)
{
    hrf_outlines_add_areas(outlines, lesion_value, &value, areas);
}

bool hrf_outlines_in_lesion(const struct hrf_outlines *outlines, double x, double y)
{
    bool inside = false;
    for (size_t i = 0; i < outlines->n_items; i++) {
        const struct hrf_outline *outline = &outlines->items[i];
        if (outline->role == HRF_OUTLINE_OTHER || !hrf_outline_contains(outline, x, y))
            continue;
        if (outline->role == HRF_OUTLINE_CUTOUT)
            return false;
        inside = true;
    }
    return inside;
}

bool hrf_annotation_is_mask(const char *path)
{
    HRF_AUTO_FREE char *extension = hrf_path_extension(path);
    static const char *const images[] = { "tif", "tiff", "png" };
    return hrf_text_is_among(extension, images, sizeof images / sizeof images[0]);
}
