/* mask_outlines.c - the regions of each class on a slide's mask as GeoJSON. */
#include "aggregate/camelyon16/components.h"
#include "aggregate/report/geojson.h"
#include "aggregate/slide/cell_rings.h"

#include <string.h>

/* Outlines are traced on the finest level of a mask that has no more pixels: its labels are held in
 * memory, with 5 bytes for each pixel of a region's box. */
#define MAX_PIXELS ((int64_t)1 << 24)

struct tracing {
    struct hrf_out *out;
    const struct hrf_mask *mask;
    int32_t level;
    const struct hrf_components *components;
    const size_t *order; /* of the components' runs, by component */
    size_t n_polygons;
};

static int32_t choose_level(const struct hrf_mask *mask)
{
    int32_t level = 0;
    for (; level + 1 < mask->n_levels; level++) {
        const struct hrf_mask_size size = hrf_mask_level_size(mask, level);
        if (size.width * size.height <= MAX_PIXELS)
            break;
    }
    return level;
}

/* [[x, y], ..., the first again], level-0 px */
static void add_ring(const struct tracing *t, const struct hrf_component *box,
                     const struct hrf_cell_ring *ring)
{
    const double step = (double)((int64_t)1 << t->level);
    for (size_t i = 0; i <= ring->n; i++) {
        const struct hrf_corner c = ring->corners[i % ring->n];
        hrf_out_addf(t->out, "%s[%.1f, %.1f]", i == 0 ? "[" : ", ",
                     (double)(box->column_begin + c.column) * step * t->mask->down_x,
                     (double)(box->row_begin + c.row) * step * t->mask->down_y);
    }
    hrf_out_adds(t->out, "]");
}

/* The polygons of one component, drawn into its box. */
static enum hrf_status add_component(struct tracing *t, size_t index, size_t first_run,
                                     size_t end_run, struct hrf_error *err)
{
    const struct hrf_component *box = &t->components->items[index];
    const int32_t columns = box->column_end - box->column_begin;
    const int32_t rows = box->row_end - box->row_begin;
    HRF_AUTO_FREE unsigned char *cells = hrf_try_calloc((size_t)columns * (size_t)rows, 1);
    HRF_AUTO_RELEASE(hrf_cell_rings) rings = { .n = 0 };
    HRF_CHECK_MEMORY(cells != NULL, err, "no memory for a region of %d x %d px", columns, rows);
    for (size_t i = first_run; i < end_run; i++) {
        const struct hrf_pixel_run *run = &t->components->runs.items[t->order[i]];
        memset(cells + (size_t)(run->row - box->row_begin) * (size_t)columns +
                   (run->begin - box->column_begin),
               1, (size_t)(run->end - run->begin));
    }
    HRF_TRY(hrf_cell_rings_find(cells, columns, rows, &rings, err));
    for (size_t i = 0; i < rings.n; i++) {
        const bool is_outer = !rings.items[i].is_hole;
        hrf_out_adds(t->out, !is_outer ? ", " : t->n_polygons > 0 ? "], [" : "[");
        add_ring(t, box, &rings.items[i]);
        t->n_polygons += is_outer;
    }
    return HRF_OK;
}

/* ends[k]: where the runs of component k end in `order`. */
static void sort_runs(const struct hrf_components *components, size_t *order, size_t *ends)
{
    const struct hrf_pixel_runs *runs = &components->runs;
    for (size_t i = 0; i < runs->n; i++)
        ends[runs->items[i].label - 1]++;
    size_t at = 0;
    for (size_t k = 0; k < components->n_items; k++) {
        const size_t n = ends[k];
        ends[k] = at;
        at += n;
    }
    for (size_t i = 0; i < runs->n; i++)
        order[ends[runs->items[i].label - 1]++] = i;
}

/* "coordinates" of all regions with that label. */
static enum hrf_status add_regions(struct hrf_out *out, const struct hrf_mask *mask, int32_t level,
                                   const unsigned char *labels, unsigned char label,
                                   struct hrf_error *err)
{
    const struct hrf_mask_size size = hrf_mask_level_size(mask, level);
    HRF_AUTO(hrf_components) components = NULL;
    HRF_TRY(hrf_components_find(labels, (int32_t)size.width, (int32_t)size.height, label, false,
                                &components, err));
    HRF_AUTO_FREE size_t *order = hrf_alloc_array(components->runs.n + 1, sizeof *order);
    HRF_AUTO_FREE size_t *ends = hrf_calloc(components->n_items + 1, sizeof *ends);
    sort_runs(components, order, ends);
    struct tracing t = {
        .out = out, .mask = mask, .level = level, .components = components, .order = order
    };
    hrf_out_adds(out, "[");
    for (size_t k = 0; k < components->n_items; k++)
        HRF_TRY(add_component(&t, k, k > 0 ? ends[k - 1] : 0, ends[k], err));
    hrf_out_adds(out, t.n_polygons > 0 ? "]]" : "]");
    return HRF_OK;
}

static enum hrf_status begin_feature(struct hrf_out *out, const char *slide, size_t class,
                                     struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    char id[37];
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_text(hash, "hires-flow segmentation");
    hrf_hash_text(hash, slide);
    hrf_hash_int(hash, (int64_t) class);
    HRF_TRY(hrf_geojson_id(hash, id, err));
    hrf_out_addf(out,
                 "{\"type\": \"Feature\", \"id\": \"%s\", \"geometry\": {\"type\": "
                 "\"MultiPolygon\", \"coordinates\": ",
                 id);
    return HRF_OK;
}

static enum hrf_status add_features(struct hrf_out *out, const struct hrf_cohort *cohort,
                                    const char *slide, const struct hrf_mask *mask,
                                    const struct hrf_cohort_score *score, struct hrf_error *err)
{
    const int32_t level = choose_level(mask);
    const struct hrf_mask_size size = hrf_mask_level_size(mask, level);
    HRF_AUTO_FREE unsigned char *labels = hrf_try_alloc_array((size_t)size.width,
                                                              (size_t)size.height);
    HRF_CHECK_MEMORY(labels != NULL, err, "no memory for a mask of %lld x %lld px",
                     (long long)size.width, (long long)size.height);
    HRF_TRY(hrf_mask_rows(mask, level, 0, size.height, labels, err));
    size_t n = 0;
    for (size_t c = 0; c < cohort->n_classes; c++) {
        if (memchr(labels, (int)c + 1, (size_t)(size.width * size.height)) == NULL)
            continue;
        hrf_out_adds(out, n++ > 0 ? ", " : "");
        HRF_TRY(begin_feature(out, slide, c, err));
        HRF_TRY(add_regions(out, mask, level, labels, (unsigned char)(c + 1), err));
        hrf_out_adds(out, "}, \"properties\": {\"objectType\": \"annotation\", \"name\": ");
        hrf_out_json(out, cohort->classes[c]);
        hrf_out_adds(out, ", ");
        hrf_geojson_class(out, cohort, c);
        hrf_out_adds(out, ", \"measurements\": {\"area mm2\": ");
        hrf_out_number(out, hrf_cohort_area(score, c));
        hrf_out_addf(out, ", \"um per px of the outline\": ");
        hrf_out_number(out, mask->mpp * (double)((int64_t)1 << level));
        hrf_out_adds(out, "}, \"isLocked\": true}}");
    }
    return HRF_OK;
}

enum hrf_status hrf_report_mask_outlines(const struct hrf_cohort *cohort, const char *slide_name,
                                         const struct hrf_mask *mask,
                                         const struct hrf_cohort_score *score, const char *path,
                                         struct hrf_error *err)
{
    HRF_AUTO(hrf_out) out = NULL;
    HRF_TRY(hrf_out_create(path, HRF_OUT_GZIP, &out, err));
    hrf_out_adds(out, "{\"type\": \"FeatureCollection\", \"features\": [");
    HRF_TRY(add_features(out, cohort, slide_name, mask, score, err));
    hrf_out_adds(out, "]}");
    return hrf_out_commit(out, err);
}
