/* patch_labels.c - see patch_labels.h. */
#include "training/cutting/patch_labels.h"

#include "aggregate/camelyon16/asap.h"
#include "base/min_max.h"
#include "base/path.h"
#include "tiler/coords/coords.h"
#include "tiler/slide/mask_read.h"

#include <string.h>

enum { MAX_CLASSES = 255 };

struct hrf_patch_labels {
    struct hrf_outline_areas areas; /* the last one is on top; what is in none is of the class 0 */
    struct hrf_slide *mask;         /* instead of areas, or NULL */
    int64_t width, height;
    unsigned char *map; /* [height][width]: classes */
    int64_t n_classes;
};

void hrf_patch_labels_destroy(struct hrf_patch_labels *labels)
{
    if (labels == NULL)
        return;
    hrf_outline_areas_release(&labels->areas);
    hrf_slide_close(labels->mask);
    hrf_free(labels->map);
    hrf_free(labels);
}

/* ---- an annotation ---- */

static enum hrf_status read_asap(struct hrf_patch_labels *l, const char *path,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_outlines) outlines = NULL;
    HRF_TRY(hrf_outlines_read(path, &outlines, err));
    hrf_outlines_add_lesions(outlines, (unsigned char)(l->n_classes - 1), &l->areas);
    return HRF_OK;
}

static enum hrf_status read_geojson(struct hrf_patch_labels *l, const char *path,
                                    const struct hrf_text_list *classes, struct hrf_error *err)
{
    HRF_AUTO_FREE char *others = NULL;
    if (l->n_classes == 2)
        HRF_TRY(hrf_coords_read_areas(path, NULL, 1, &l->areas, &others, err));
    for (size_t k = 0; l->n_classes > 2 && k < classes->n_items; k++) {
        const struct hrf_text_list one = { &classes->items[k], 1 };
        hrf_free(others);
        HRF_TRY(hrf_coords_read_areas(path, &one, (unsigned char)k, &l->areas, &others, err));
    }
    if (l->areas.n_items == 0)
        return hrf_error_set(err, HRF_E_USER, "'%s' has no polygon of the classes%s%s", path,
                             others != NULL ? "; there are: " : "", others != NULL ? others : "");
    return HRF_OK;
}

/* ---- the map ---- */

static enum hrf_status paint_map(struct hrf_patch_labels *l, const char *annotation,
                                 const struct hrf_tile_plan *plan, struct hrf_error *err)
{
    const struct hrf_raster_axis axis = { HRF_MAP_STEP, 0.5 };
    const struct hrf_raster_grid grid = {
        .x = axis, .y = axis, .width = l->width, .height = l->height
    };
    return hrf_coords_is_geojson(annotation)
               ? hrf_coords_paint_areas(annotation, &l->areas, plan->width, plan->height, &grid,
                                        l->map, err)
               : hrf_outline_areas_paint(&l->areas, &grid, l->map, NULL, err);
}

static unsigned char class_of_mask(const struct hrf_patch_labels *l, unsigned char pixel)
{
    return (unsigned char)(pixel != 0 ? l->n_classes - 1 : 0);
}

static enum hrf_status read_mask(struct hrf_patch_labels *l, const char *path,
                                 struct hrf_error *err)
{
    HRF_AUTO_FREE unsigned char *pixels = NULL;
    int64_t width = 0, height = 0;
    HRF_TRY(hrf_slide_open(path, &l->mask, err));
    HRF_TRY(hrf_slide_read_mask(l->mask, HRF_MAP_STEP, &pixels, &width, &height, err));
    for (int64_t y = 0; y < hrf_min(height, l->height); y++)
        for (int64_t x = 0; x < hrf_min(width, l->width); x++)
            l->map[y * l->width + x] = class_of_mask(l, pixels[y * width + x]);
    return HRF_OK;
}

enum hrf_status hrf_patch_labels_read(const char *annotation, const struct hrf_text_list *classes,
                                      const struct hrf_tile_plan *plan,
                                      struct hrf_patch_labels **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_patch_labels) l = hrf_calloc(1, sizeof *l);
    l->width = (plan->width + HRF_MAP_STEP - 1) / HRF_MAP_STEP;
    l->height = (plan->height + HRF_MAP_STEP - 1) / HRF_MAP_STEP;
    l->n_classes = (int64_t)classes->n_items;
    if (l->n_classes > MAX_CLASSES)
        return hrf_error_set(err, HRF_E_USER, "outlines are read of at most %d classes",
                             (int)MAX_CLASSES);
    l->map = hrf_try_calloc((size_t)l->height, (size_t)l->width);
    HRF_CHECK_MEMORY(l->map != NULL, err, "no memory for a map of %lld x %lld px",
                     (long long)l->width, (long long)l->height);
    if (annotation != NULL && hrf_annotation_is_mask(annotation))
        HRF_TRY(read_mask(l, annotation, err));
    else if (annotation != NULL) {
        HRF_TRY(hrf_coords_is_geojson(annotation) ? read_geojson(l, annotation, classes, err)
                                                  : read_asap(l, annotation, err));
        HRF_TRY(paint_map(l, annotation, plan, err));
    }
    HRF_MOVE(*out, l);
    return HRF_OK;
}

/* ---- a patch ---- */

int64_t hrf_patch_labels_find(const struct hrf_patch_labels *l, const struct hrf_tile_plan *plan,
                              const struct hrf_patch *patch, double least)
{
    int64_t counts[MAX_CLASSES] = { 0 }, n = 0, best = 0;
    const int64_t right = patch->x + plan->patch_width0, below = patch->y + plan->patch_height0;
    for (int64_t y = patch->y / HRF_MAP_STEP; y * HRF_MAP_STEP < below && y < l->height; y++)
        for (int64_t x = patch->x / HRF_MAP_STEP; x * HRF_MAP_STEP < right && x < l->width; x++)
            if (x >= 0 && y >= 0) {
                counts[l->map[y * l->width + x]]++;
                n++;
            }
    if (n == 0 || counts[0] == n)
        return 0;
    for (int64_t k = 1; k < l->n_classes; k++)
        best = best == 0 || counts[k] > counts[best] ? k : best;
    return (double)counts[best] >= least * (double)n ? best : -1;
}

enum hrf_status hrf_patch_labels_draw(const struct hrf_patch_labels *l,
                                      const struct hrf_tile_plan *plan,
                                      const struct hrf_patch *patch, unsigned char *mask,
                                      struct hrf_error *err)
{
    const int64_t side = plan->patch_size;
    const double step_x = (double)plan->patch_width0 / (double)side;
    const double step_y = (double)plan->patch_height0 / (double)side;
    const struct hrf_raster_grid grid = { .x = { step_x, 0.5 + (double)patch->x / step_x },
                                          .y = { step_y, 0.5 + (double)patch->y / step_y },
                                          .width = side,
                                          .height = side };
    memset(mask, 0, (size_t)(side * side));
    if (l->mask == NULL)
        return hrf_outline_areas_paint(&l->areas, &grid, mask, NULL, err);
    HRF_TRY(hrf_slide_read_mask_part(l->mask, patch->x, patch->y, plan->patch_width0,
                                     plan->patch_height0, mask, side, side, err));
    for (int64_t i = 0; i < side * side; i++)
        mask[i] = class_of_mask(l, mask[i]);
    return HRF_OK;
}
