/* lesion_mask.c - draws outlines at level 5, and finds lesions in the bitmap. */
#include "aggregate/camelyon16/lesion_mask.h"

#include "tiler/outline/outline_raster.h"

#include <math.h>
#include <string.h>

/* The growth: distance < 75 / (0.243 * 32 * 2) = 4.8225 px. Of whole distances squared that is
 * d * d <= 20: 25 is the next sum of two squares. */
enum { GROWTH_SQUARED = 20, GROWTH = 4, MARGIN = GROWTH + 2 };
#define ITC_AXIS (275.0 / (HRF_MASK_MPP * HRF_MASK_STEP)) /* 35.365 px */
/* CAMELYON16's largest slide has 50 million pixels at level 5, 7000 a side; see components.h. */
#define MAX_PIXELS ((int64_t)1 << 28)
#define MAX_SIDE   ((int64_t)1 << 16)

void hrf_lesion_mask_destroy(struct hrf_lesion_mask *mask)
{
    if (mask == NULL)
        return;
    hrf_free(mask->pixels);
    hrf_free(mask);
}

void hrf_lesions_destroy(struct hrf_lesions *lesions)
{
    if (lesions == NULL)
        return;
    hrf_components_destroy(lesions->components);
    hrf_free(lesions->is_itc);
    hrf_free(lesions);
}

/* Half-open, in px of level 5. */
struct box {
    int64_t x0, y0, x1, y1;
};

static bool box_is_empty(const struct box *box)
{
    return box->x0 >= box->x1 || box->y0 >= box->y1;
}

static struct box box_intersect(struct box a, struct box b)
{
    return (struct box){ a.x0 > b.x0 ? a.x0 : b.x0, a.y0 > b.y0 ? a.y0 : b.y0,
                         a.x1 < b.x1 ? a.x1 : b.x1, a.y1 < b.y1 ? a.y1 : b.y1 };
}

static enum hrf_status mask_create(struct box box, struct hrf_lesion_mask **out,
                                   struct hrf_error *err)
{
    if (box_is_empty(&box))
        box = (struct box){ 0, 0, 1, 1 };
    const int64_t width = box.x1 - box.x0, height = box.y1 - box.y0;
    if (width > MAX_SIDE || height > MAX_SIDE || width * height > MAX_PIXELS)
        return hrf_error_set(err, HRF_E_USER,
                             "the outlines span %lld x %lld px of level 0, more than any slide",
                             (long long)width * HRF_MASK_STEP, (long long)height * HRF_MASK_STEP);
    HRF_AUTO(hrf_lesion_mask) mask = hrf_calloc(1, sizeof *mask);
    mask->pixels = hrf_try_calloc((size_t)(width * height), 1);
    HRF_CHECK_MEMORY(mask->pixels != NULL, err, "no memory for a mask of %lld x %lld px",
                     (long long)width, (long long)height);
    mask->x0 = box.x0;
    mask->y0 = box.y0;
    mask->width = (int32_t)width;
    mask->height = (int32_t)height;
    HRF_MOVE(*out, mask);
    return HRF_OK;
}

/* ---- drawing ---- */

/* The slide, or all places that are not negative when its size is not known. */
static struct box slide_box(int64_t width, int64_t height)
{
    const int64_t unbounded = INT64_MAX / 4;
    return (struct box){ 0, 0, width > 0 ? (width + HRF_MASK_STEP - 1) / HRF_MASK_STEP : unbounded,
                         height > 0 ? (height + HRF_MASK_STEP - 1) / HRF_MASK_STEP : unbounded };
}

/* With room for the growth and a rim around it. */
static struct box outline_box(const struct hrf_outline *outline)
{
    return (struct box){ (int64_t)floor(outline->low.x / HRF_MASK_STEP) - MARGIN,
                         (int64_t)floor(outline->low.y / HRF_MASK_STEP) - MARGIN,
                         (int64_t)floor(outline->high.x / HRF_MASK_STEP) + 1 + MARGIN,
                         (int64_t)floor(outline->high.y / HRF_MASK_STEP) + 1 + MARGIN };
}

static struct box lesions_box(const struct hrf_outlines *outlines, struct box slide)
{
    struct box all = { INT64_MAX, INT64_MAX, INT64_MIN, INT64_MIN };
    for (size_t i = 0; i < outlines->n_items; i++) {
        if (outlines->items[i].role != HRF_OUTLINE_LESION)
            continue;
        const struct box one = outline_box(&outlines->items[i]);
        all = (struct box){ one.x0 < all.x0 ? one.x0 : all.x0, one.y0 < all.y0 ? one.y0 : all.y0,
                            one.x1 > all.x1 ? one.x1 : all.x1, one.y1 > all.y1 ? one.y1 : all.y1 };
    }
    return box_intersect(all, slide);
}

static int64_t count_outside(const struct hrf_outlines *outlines, int64_t width, int64_t height)
{
    int64_t n = 0;
    for (size_t i = 0; i < outlines->n_items; i++) {
        const struct hrf_outline *o = &outlines->items[i];
        for (size_t k = 0; k < o->n_points; k++)
            n += o->points[k].x < 0 || o->points[k].y < 0 ||
                 (width > 0 && o->points[k].x > (double)width) ||
                 (height > 0 && o->points[k].y > (double)height);
    }
    return n;
}

enum hrf_status hrf_lesion_mask_draw(const struct hrf_outlines *outlines, int64_t slide_width,
                                     int64_t slide_height, struct hrf_lesion_mask **out,
                                     int64_t *n_outside, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_outline_areas) areas = { .items = NULL };
    HRF_AUTO(hrf_lesion_mask) mask = NULL;
    HRF_TRY(mask_create(lesions_box(outlines, slide_box(slide_width, slide_height)), &mask, err));
    const struct hrf_raster_axis axis = { HRF_MASK_STEP, 0.5 };
    const struct hrf_raster_grid grid = {
        axis, axis, mask->x0, mask->y0, mask->width, mask->height
    };
    hrf_outlines_add_lesions(outlines, 1, &areas);
    HRF_TRY(hrf_outline_areas_paint(&areas, &grid, mask->pixels, NULL, err));
    if (n_outside != NULL)
        *n_outside = count_outside(outlines, slide_width, slide_height);
    HRF_MOVE(*out, mask);
    return HRF_OK;
}

/* ---- a mask that is there ---- */

static struct box used_box(const unsigned char *pixels, int64_t width, int64_t height)
{
    struct box used = { width, height, 0, 0 };
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            if (pixels[y * width + x] == 0)
                continue;
            used.x0 = x < used.x0 ? x : used.x0;
            used.x1 = x >= used.x1 ? x + 1 : used.x1;
            used.y0 = y < used.y0 ? y : used.y0;
            used.y1 = y + 1;
        }
    return used;
}

enum hrf_status hrf_lesion_mask_crop(const unsigned char *pixels, int64_t width, int64_t height,
                                     struct hrf_lesion_mask **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_lesion_mask) mask = NULL;
    struct box box = used_box(pixels, width, height);
    if (!box_is_empty(&box)) {
        box = (struct box){ box.x0 - MARGIN, box.y0 - MARGIN, box.x1 + MARGIN, box.y1 + MARGIN };
        box = box_intersect(box, (struct box){ 0, 0, width, height });
    }
    HRF_TRY(mask_create(box, &mask, err));
    for (int32_t y = 0; y < mask->height && !box_is_empty(&box); y++)
        for (int32_t x = 0; x < mask->width; x++)
            mask->pixels[(size_t)y * (size_t)mask->width + (size_t)x] =
                pixels[(mask->y0 + y) * width + mask->x0 + x] != 0;
    HRF_MOVE(*out, mask);
    return HRF_OK;
}

/* ---- lesions ---- */

/* distances[x]: to the nearest set pixel of the row, no more than GROWTH + 1. */
static void row_distances(const unsigned char *line, int32_t width, unsigned char *distances)
{
    unsigned char d = GROWTH + 1;
    for (int32_t x = 0; x < width; x++) {
        d = line[x] ? 0 : d <= GROWTH ? (unsigned char)(d + 1) : d;
        distances[x] = d;
    }
    d = GROWTH + 1;
    for (int32_t x = width - 1; x >= 0; x--) {
        d = line[x] ? 0 : d <= GROWTH ? (unsigned char)(d + 1) : d;
        if (d < distances[x])
            distances[x] = d;
    }
}

/* out: 1 within the growth of a set pixel. */
static void grow(const struct hrf_lesion_mask *mask, const unsigned char *distances,
                 unsigned char *out)
{
    const size_t width = (size_t)mask->width;
    for (int32_t dy = -GROWTH; dy <= GROWTH; dy++) {
        unsigned char reach = 0;
        while ((reach + 1) * (reach + 1) + dy * dy <= GROWTH_SQUARED)
            reach++;
        for (int32_t y = 0; y < mask->height; y++) {
            if (y + dy < 0 || y + dy >= mask->height)
                continue;
            const unsigned char *from = distances + (size_t)(y + dy) * width;
            unsigned char *to = out + (size_t)y * width;
            for (size_t x = 0; x < width; x++)
                to[x] |= from[x] <= reach;
        }
    }
}

/* Background that is not connected to the edge, corners not counted, becomes tumour. */
static enum hrf_status fill_holes(unsigned char *pixels, int32_t width, int32_t height,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_components) empty = NULL;
    HRF_TRY(hrf_components_find(pixels, width, height, 0, false, &empty, err));
    for (size_t i = 0; i < empty->runs.n; i++) {
        const struct hrf_pixel_run *run = &empty->runs.items[i];
        const struct hrf_component *c = &empty->items[run->label - 1];
        if (c->row_begin > 0 && c->row_end < height && c->column_begin > 0 && c->column_end < width)
            memset(pixels + (size_t)run->row * (size_t)width + run->begin, 1,
                   (size_t)(run->end - run->begin));
    }
    return HRF_OK;
}

static void judge(struct hrf_lesions *lesions)
{
    const size_t n = lesions->components->n_items;
    lesions->is_itc = hrf_calloc(n + 1, sizeof *lesions->is_itc);
    for (size_t i = 0; i < n; i++) {
        lesions->is_itc[i] = lesions->components->items[i].major_axis < ITC_AXIS;
        lesions->n_itc += lesions->is_itc[i];
    }
}

enum hrf_status hrf_lesions_find(const struct hrf_lesion_mask *mask, struct hrf_lesions **out,
                                 struct hrf_error *err)
{
    const size_t n_pixels = (size_t)mask->width * (size_t)mask->height;
    HRF_AUTO(hrf_lesions) lesions = hrf_calloc(1, sizeof *lesions);
    HRF_AUTO_FREE unsigned char *distances = hrf_try_alloc(n_pixels);
    HRF_AUTO_FREE unsigned char *grown = hrf_try_calloc(n_pixels, 1);
    HRF_CHECK_MEMORY(distances != NULL && grown != NULL, err,
                     "no memory for the lesions of %zu pixels", n_pixels);
    for (size_t y = 0; y < (size_t)mask->height; y++)
        row_distances(mask->pixels + y * (size_t)mask->width, mask->width,
                      distances + y * (size_t)mask->width);
    grow(mask, distances, grown);
    HRF_TRY(fill_holes(grown, mask->width, mask->height, err));
    lesions->x0 = mask->x0;
    lesions->y0 = mask->y0;
    HRF_TRY(
        hrf_components_find(grown, mask->width, mask->height, 1, true, &lesions->components, err));
    judge(lesions);
    HRF_MOVE(*out, lesions);
    return HRF_OK;
}

int32_t hrf_lesions_at(const struct hrf_lesions *lesions, int64_t x, int64_t y)
{
    const int64_t column = x / HRF_MASK_STEP - lesions->x0, row = y / HRF_MASK_STEP - lesions->y0;
    if (column < 0 || row < 0 || column > INT32_MAX || row > INT32_MAX)
        return 0;
    return hrf_components_at(lesions->components, (int32_t)row, (int32_t)column);
}
