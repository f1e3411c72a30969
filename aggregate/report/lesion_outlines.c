/* lesion_outlines.c - lesions of a slide as GeoJSON: found ones from regions of patches, annotated
 * ones as they were drawn. */
#include "aggregate/camelyon16/components.h"
#include "aggregate/report/geojson.h"
#include "aggregate/report/tables.h"
#include "aggregate/slide/cell_rings.h"
#include "image/colours.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum hrf_status hrf_geojson_id(struct hrf_hash *hash, char id[37], struct hrf_error *err)
{
    char hex[HRF_HASH_HEX];
    hrf_hash_hex(hash, hex);
    if (hex[0] == '\0')
        return hrf_error_set(err, HRF_E_NOMEM, "cannot hash the name of a feature");
    hex[12] = '4';
    hex[16] = "89ab"[(hex[16] <= '9' ? hex[16] - '0' : hex[16] - 'a' + 10) & 3];
    snprintf(id, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
    return HRF_OK;
}

static void classification(struct hrf_out *out, const char *name, struct hrf_rgb colour)
{
    hrf_out_adds(out, "\"classification\": {\"name\": ");
    hrf_out_json(out, name);
    hrf_out_addf(out, ", \"color\": [%d, %d, %d]}", colour.r, colour.g, colour.b);
}

void hrf_geojson_class(struct hrf_out *out, const struct hrf_cohort *cohort, size_t class)
{
    classification(out, cohort->classes[class], hrf_colour_of_class(class, cohort->positive));
}

/* ---- found lesions ---- */

/* Patches at or above the threshold on the part of the grid that holds them. */
struct field {
    int64_t column, row; /* of its first cell on the plan's grid */
    int32_t columns, rows;
    unsigned char *cells; /* [rows * columns] */
    float *probabilities; /* likewise; of cells that are set */
    double left, top;     /* level-0 px of the first cell's corner */
};

struct lesion {
    int32_t label;
    size_t n_patches;
    double highest, sum;
};

static void field_release(struct field *field)
{
    hrf_free(field->cells);
    hrf_free(field->probabilities);
}

static bool bounds(const struct hrf_tile_plan *plan, const struct hrf_scores *scores,
                   size_t positive, double threshold, struct field *f)
{
    int64_t right = INT64_MIN, bottom = INT64_MIN;
    f->column = f->row = INT64_MAX;
    for (int64_t i = 0; i < plan->n_patches; i++) {
        const float p = scores->probabilities[(size_t)i * (size_t)scores->n_classes + positive];
        const struct hrf_grid_cell at = hrf_tile_plan_cell(plan, &plan->patches[i]);
        if (!((double)p >= threshold))
            continue;
        f->column = at.column < f->column ? at.column : f->column;
        f->row = at.row < f->row ? at.row : f->row;
        right = at.column > right ? at.column : right;
        bottom = at.row > bottom ? at.row : bottom;
        /* The middle of the cell is the middle of its patch, wherever the grid begins. */
        f->left = (double)plan->patches[i].x + (double)plan->patch_width0 / 2.0 -
                  plan->stride_x0 * ((double)at.column + 0.5);
        f->top = (double)plan->patches[i].y + (double)plan->patch_height0 / 2.0 -
                 plan->stride_y0 * ((double)at.row + 0.5);
    }
    if (right < f->column || right - f->column >= 1 << 16 || bottom - f->row >= 1 << 16)
        return false;
    f->left += plan->stride_x0 * (double)f->column;
    f->top += plan->stride_y0 * (double)f->row;
    f->columns = (int32_t)(right - f->column + 1);
    f->rows = (int32_t)(bottom - f->row + 1);
    return (int64_t)f->columns * f->rows <= 1 << 28;
}

static void fill_field(const struct hrf_tile_plan *plan, const struct hrf_scores *scores,
                       size_t positive, double threshold, struct field *f)
{
    const size_t n = (size_t)f->columns * (size_t)f->rows;
    f->cells = hrf_calloc(n, 1);
    f->probabilities = hrf_calloc(n, sizeof *f->probabilities);
    for (int64_t i = 0; i < plan->n_patches; i++) {
        const float p = scores->probabilities[(size_t)i * (size_t)scores->n_classes + positive];
        const struct hrf_grid_cell at = hrf_tile_plan_cell(plan, &plan->patches[i]);
        if (!((double)p >= threshold))
            continue;
        const size_t cell = (size_t)(at.row - f->row) * (size_t)f->columns +
                            (size_t)(at.column - f->column);
        f->cells[cell] = 1;
        f->probabilities[cell] = fmaxf(f->probabilities[cell], p);
    }
}

static int surest_first(const void *a, const void *b)
{
    const struct lesion *x = a, *y = b;
    if (x->highest != y->highest)
        return x->highest > y->highest ? -1 : 1;
    return x->label - y->label;
}

static void measure(const struct field *f, const struct hrf_components *components,
                    struct lesion *lesions)
{
    for (size_t i = 0; i < components->n_items; i++)
        lesions[i] = (struct lesion){ .label = (int32_t)i + 1 };
    for (size_t i = 0; i < components->runs.n; i++) {
        const struct hrf_pixel_run *run = &components->runs.items[i];
        struct lesion *lesion = &lesions[run->label - 1];
        for (int32_t c = run->begin; c < run->end; c++) {
            const double p =
                (double)f->probabilities[(size_t)run->row * (size_t)f->columns + (size_t)c];
            lesion->n_patches++;
            lesion->sum += p;
            lesion->highest = fmax(lesion->highest, p);
        }
    }
    qsort(lesions, components->n_items, sizeof *lesions, surest_first);
}

/* [[x, y], ..., the first again] */
static void add_ring(struct hrf_out *out, const struct hrf_tile_plan *plan, const struct field *f,
                     const struct hrf_component *box, const struct hrf_cell_ring *ring)
{
    for (size_t i = 0; i <= ring->n; i++) {
        const struct hrf_corner c = ring->corners[i % ring->n];
        hrf_out_addf(out, "%s[%.1f, %.1f]", i == 0 ? "[" : ", ",
                     f->left + plan->stride_x0 * (box->column_begin + c.column),
                     f->top + plan->stride_y0 * (box->row_begin + c.row));
    }
    hrf_out_adds(out, "]");
}

/* Of one lesion: its cells, in its bounding box. */
static enum hrf_status add_geometry(struct hrf_out *out, const struct hrf_tile_plan *plan,
                                    const struct field *f, const struct hrf_components *components,
                                    int32_t label, struct hrf_error *err)
{
    const struct hrf_component *box = &components->items[label - 1];
    const int32_t columns = box->column_end - box->column_begin;
    const int32_t rows = box->row_end - box->row_begin;
    HRF_AUTO_FREE unsigned char *cells = hrf_try_calloc((size_t)columns * (size_t)rows, 1);
    HRF_AUTO_RELEASE(hrf_cell_rings) rings = { .n = 0 };
    HRF_CHECK_MEMORY(cells != NULL, err, "no memory for %d x %d patches", columns, rows);
    for (size_t i = 0; i < components->runs.n; i++) {
        const struct hrf_pixel_run *run = &components->runs.items[i];
        if (run->label == label)
            memset(cells + (size_t)(run->row - box->row_begin) * (size_t)columns +
                       (run->begin - box->column_begin),
                   1, (size_t)(run->end - run->begin));
    }
    HRF_TRY(hrf_cell_rings_find(cells, columns, rows, &rings, err));
    hrf_out_adds(out, "{\"type\": \"MultiPolygon\", \"coordinates\": [");
    for (size_t i = 0; i < rings.n; i++) {
        if (!rings.items[i].is_hole)
            hrf_out_adds(out, i > 0 ? "], [" : "[");
        else
            hrf_out_adds(out, ", ");
        add_ring(out, plan, f, box, &rings.items[i]);
    }
    hrf_out_adds(out, "]]}");
    return HRF_OK;
}

static enum hrf_status begin_feature(struct hrf_out *out, const char *slide, const char *what,
                                     size_t number, struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    char id[37];
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, what);
    hrf_hash_text(hash, slide);
    hrf_hash_int(hash, (int64_t)number);
    HRF_TRY(hrf_geojson_id(hash, id, err));
    hrf_out_addf(out, "{\"type\": \"Feature\", \"id\": \"%s\", \"geometry\": ", id);
    return HRF_OK;
}

static enum hrf_status found(struct hrf_out *out, const struct hrf_cohort *cohort,
                             const char *slide, const struct hrf_tile_plan *plan,
                             const struct field *f, size_t *n, struct hrf_error *err)
{
    HRF_AUTO(hrf_components) components = NULL;
    const double area = plan->stride_x0 * plan->mpp_x * plan->stride_y0 * plan->mpp_y * 1e-6;
    HRF_TRY(hrf_components_find(f->cells, f->columns, f->rows, 1, true, &components, err));
    HRF_AUTO_FREE struct lesion *lesions = hrf_calloc(components->n_items + 1, sizeof *lesions);
    measure(f, components, lesions);
    for (size_t i = 0; i < components->n_items; i++) {
        const struct lesion *l = &lesions[i];
        hrf_out_adds(out, (*n)++ > 0 ? ", " : "");
        HRF_TRY(begin_feature(out, slide, "hires-flow lesion", i + 1, err));
        HRF_TRY(add_geometry(out, plan, f, components, l->label, err));
        hrf_out_addf(
            out, ", \"properties\": {\"objectType\": \"annotation\", \"name\": \"lesion %zu\", ",
            i + 1);
        hrf_geojson_class(out, cohort, cohort->positive);
        hrf_out_adds(out, ", \"measurements\": {\"confidence\": ");
        hrf_out_number(out, l->highest);
        hrf_out_adds(out, ", \"mean\": ");
        hrf_out_number(out, l->sum / (double)l->n_patches);
        hrf_out_addf(out, ", \"patches\": %zu", l->n_patches);
        if (area > 0.0) {
            hrf_out_adds(out, ", \"area mm2\": ");
            hrf_out_number(out, area * (double)l->n_patches);
        }
        hrf_out_adds(out, "}}}");
    }
    return HRF_OK;
}

/* ---- annotated lesions ---- */

static enum hrf_status drawn(struct hrf_out *out, const char *slide,
                             const struct hrf_outlines *outlines, size_t *n, struct hrf_error *err)
{
    static const struct hrf_rgb ink = { 30, 30, 34 }, gray = { 140, 140, 140 };
    for (size_t i = 0; i < outlines->n_items; i++) {
        const struct hrf_outline *o = &outlines->items[i];
        if (o->role == HRF_OUTLINE_OTHER)
            continue;
        const bool is_lesion = o->role == HRF_OUTLINE_LESION;
        hrf_out_adds(out, (*n)++ > 0 ? ", " : "");
        HRF_TRY(begin_feature(out, slide, "hires-flow annotation", i + 1, err));
        hrf_out_adds(out, "{\"type\": \"Polygon\", \"coordinates\": [[");
        for (size_t k = 0; k <= o->n_points; k++) {
            const struct hrf_point *p = &o->points[k % o->n_points];
            hrf_out_adds(out, k > 0 ? ", [" : "[");
            hrf_out_number(out, p->x);
            hrf_out_adds(out, ", ");
            hrf_out_number(out, p->y);
            hrf_out_adds(out, "]");
        }
        hrf_out_adds(out, "]]}, \"properties\": {\"objectType\": \"annotation\", \"name\": ");
        hrf_out_json(out, o->name);
        hrf_out_adds(out, ", ");
        classification(out, is_lesion ? "annotated lesion" : "annotated exclusion",
                       is_lesion ? ink : gray);
        hrf_out_adds(out, ", \"isLocked\": true}}");
    }
    return HRF_OK;
}

enum hrf_status hrf_report_lesion_outlines(const struct hrf_cohort *cohort, const char *slide_name,
                                           const struct hrf_tile_plan *plan,
                                           const struct hrf_scores *scores,
                                           const struct hrf_outlines *annotated, const char *path,
                                           struct hrf_error *err)
{
    struct field field = { .columns = 0 };
    size_t n = 0;
    HRF_AUTO(hrf_out) out = NULL;
    HRF_TRY(hrf_report_check_scores(cohort, plan, scores, err));
    HRF_TRY(hrf_out_create(path, HRF_OUT_PLAIN, &out, err));
    hrf_out_adds(out, "{\"type\": \"FeatureCollection\", \"features\": [");
    const double threshold = cohort->lesion_rule.threshold;
    enum hrf_status status = HRF_OK;
    if (plan->stride_x0 >= 1.0 && plan->stride_y0 >= 1.0 &&
        bounds(plan, scores, cohort->positive, threshold, &field)) {
        fill_field(plan, scores, cohort->positive, threshold, &field);
        if (status == HRF_OK)
            status = found(out, cohort, slide_name, plan, &field, &n, err);
        field_release(&field);
    }
    HRF_TRY(status);
    if (annotated != NULL)
        HRF_TRY(drawn(out, slide_name, annotated, &n, err));
    hrf_out_adds(out, "]}");
    return hrf_out_commit(out, err);
}
