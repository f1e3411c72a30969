/* patch_labels.c - see patch_labels.h. */
#include "training/cutting/patch_labels.h"

#include "aggregate/camelyon16/lesion_mask.h"
#include "base/path.h"
#include "tiler/coords/coords.h"
#include "tiler/slide/mask_read.h"

#include <string.h>

enum { MOST_CLASSES = 255 };

struct hrf_patch_labels {
    int64_t width, height;
    unsigned char *map; /* [height][width]: classes */
    int64_t n_classes;
};

void hrf_patch_labels_destroy(struct hrf_patch_labels *labels)
{
    if (labels == NULL)
        return;
    hrf_free(labels->map);
    hrf_free(labels);
}

/* ---- the map ---- */

static void put_lesions(struct hrf_patch_labels *l, const struct hrf_lesion_mask *mask)
{
    for (int64_t y = 0; y < mask->height; y++)
        for (int64_t x = 0; x < mask->width; x++) {
            const int64_t row = mask->y0 + y, column = mask->x0 + x;
            if (mask->pixels[y * mask->width + x] != 0 && row >= 0 && row < l->height &&
                column >= 0 && column < l->width)
                l->map[row * l->width + column] = (unsigned char)(l->n_classes - 1);
        }
}

static enum hrf_status read_asap(struct hrf_patch_labels *l, const char *path,
                                 const struct hrf_tile_plan *plan, struct hrf_error *err)
{
    HRF_AUTO(hrf_outlines) outlines = NULL;
    HRF_AUTO(hrf_lesion_mask) mask = NULL;
    HRF_TRY(hrf_outlines_read(path, &outlines, err));
    HRF_TRY(hrf_lesion_mask_draw(outlines, plan->width, plan->height, &mask, NULL, err));
    put_lesions(l, mask);
    return HRF_OK;
}

static enum hrf_status read_mask(struct hrf_patch_labels *l, const char *path,
                                 struct hrf_error *err)
{
    HRF_AUTO(hrf_slide) slide = NULL;
    HRF_AUTO(hrf_lesion_mask) mask = NULL;
    HRF_AUTO_FREE unsigned char *pixels = NULL;
    int64_t width = 0, height = 0;
    HRF_TRY(hrf_slide_open(path, &slide, err));
    HRF_TRY(hrf_slide_read_mask(slide, HRF_MAP_STEP, &pixels, &width, &height, err));
    HRF_TRY(hrf_lesion_mask_crop(pixels, width, height, &mask, err));
    put_lesions(l, mask);
    return HRF_OK;
}

/* Draws what is of one class, or of any (NULL), as class k. */
static enum hrf_status draw_geojson(struct hrf_patch_labels *l, const char *path,
                                    const struct hrf_tile_plan *plan, char *class, int64_t k,
                                    struct hrf_error *err)
{
    const struct hrf_text_list one = { &class, 1 };
    HRF_AUTO_FREE char *passed_over = NULL;
    HRF_AUTO_FREE unsigned char *drawn = hrf_try_calloc((size_t)l->height, (size_t)l->width);
    HRF_CHECK_MEMORY(drawn != NULL, err, "no memory for the areas of '%s'", path);
    HRF_TRY(hrf_coords_draw_tissue(path, plan->width, plan->height, class != NULL ? &one : NULL,
                                   drawn, l->width, l->height, &passed_over, err));
    for (int64_t i = 0; i < l->width * l->height; i++)
        if (drawn[i] != 0)
            l->map[i] = (unsigned char)k;
    return HRF_OK;
}

static enum hrf_status read_geojson(struct hrf_patch_labels *l, const char *path,
                                    const struct hrf_text_list *classes,
                                    const struct hrf_tile_plan *plan, struct hrf_error *err)
{
    if (l->n_classes == 2)
        return draw_geojson(l, path, plan, NULL, 1, err);
    struct hrf_error why = { .status = HRF_OK };
    int64_t n_drawn = 0;
    for (int64_t k = 0; k < l->n_classes; k++) {
        const enum hrf_status status = draw_geojson(l, path, plan, classes->items[k], k, &why);
        if (status != HRF_OK && status != HRF_E_USER)
            return hrf_error_pass(err, &why);
        n_drawn += status == HRF_OK; /* a slide need not have every class */
    }
    return n_drawn > 0 ? HRF_OK : hrf_error_pass(err, &why);
}

enum hrf_status hrf_patch_labels_read(const char *annotation, const struct hrf_text_list *classes,
                                      const struct hrf_tile_plan *plan,
                                      struct hrf_patch_labels **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_patch_labels) l = hrf_calloc(1, sizeof *l);
    l->width = (plan->width + HRF_MAP_STEP - 1) / HRF_MAP_STEP;
    l->height = (plan->height + HRF_MAP_STEP - 1) / HRF_MAP_STEP;
    l->n_classes = (int64_t)classes->n_items;
    if (l->n_classes > MOST_CLASSES)
        return hrf_error_set(err, HRF_E_USER, "outlines are read of at most %d classes",
                             (int)MOST_CLASSES);
    l->map = hrf_try_calloc((size_t)l->height, (size_t)l->width);
    HRF_CHECK_MEMORY(l->map != NULL, err, "no memory for a map of %lld x %lld px",
                     (long long)l->width, (long long)l->height);
    if (annotation != NULL)
        HRF_TRY(hrf_annotation_is_mask(annotation) ? read_mask(l, annotation, err)
                : hrf_coords_is_geojson(annotation)
                    ? read_geojson(l, annotation, classes, plan, err)
                    : read_asap(l, annotation, plan, err));
    HRF_MOVE(*out, l);
    return HRF_OK;
}

/* ---- a patch ---- */

int64_t hrf_patch_labels_find(const struct hrf_patch_labels *l, const struct hrf_tile_plan *plan,
                              const struct hrf_patch *patch, double least)
{
    int64_t counts[MOST_CLASSES] = { 0 }, n = 0, best = 0;
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
