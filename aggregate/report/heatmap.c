/* heatmap.c - draws a slide's probability map over its thumbnail. */
#include "aggregate/report/heatmap.h"

#include "base/file.h"

#include <math.h>
#include <string.h>

static const struct hrf_rgb ink = { 30, 30, 34 }, gray = { 110, 110, 118 },
                            white = { 255, 255, 255 };

/* How much of the colour is put over the tissue: never hides it, never too faint to see where the
 * model is sure. */
static double tint(enum hrf_heat_scale scale, double t)
{
    return scale == HRF_HEAT_CENTRED ? 0.12 + 0.5 * fabs(2.0 * t - 1.0) : 0.10 + 0.68 * t;
}

static struct hrf_rgb colour_of(enum hrf_heat_scale scale, double t)
{
    return scale == HRF_HEAT_CENTRED ? hrf_colour_diverging(t) : hrf_colour_map(t);
}

static int32_t on_map(double level0, double downsample, int32_t limit)
{
    return (int32_t)fmin(fmax(round(level0 / downsample), 0.0), (double)limit);
}

/* Where patches overlap, each gets the middle part that is its own. */
static void draw_patches(const struct hrf_tile_plan *plan, const struct hrf_scores *scores,
                         size_t positive, enum hrf_heat_scale scale, struct hrf_image *map)
{
    double width = fmin((double)plan->patch_width0, plan->stride_x0);
    double height = fmin((double)plan->patch_height0, plan->stride_y0);
    double left = ((double)plan->patch_width0 - width) / 2.0;
    double top = ((double)plan->patch_height0 - height) / 2.0, d = plan->thumbnail_downsample;
    for (int64_t i = 0; i < plan->n_patches; i++) {
        double x = (double)plan->patches[i].x + left, y = (double)plan->patches[i].y + top;
        double p = (double)scores->probabilities[(size_t)i * (size_t)scores->n_classes + positive];
        const int32_t x0 = on_map(x, d, map->width), x1 = on_map(x + width, d, map->width);
        const int32_t y0 = on_map(y, d, map->height), y1 = on_map(y + height, d, map->height);
        hrf_image_fade(map, x0, y0, x1, y1);
        if (!isnan(p))
            hrf_image_blend(map, x0, y0, x1, y1, colour_of(scale, p),
                            tint(scale, fmin(fmax(p, 0.0), 1.0)));
    }
}

/* The map's value at (u, v) in its own px, between the four nearest centres. */
static double sample(const struct hrf_class_map *map, double u, double v)
{
    double x = fmin(fmax(u - 0.5, 0), map->columns - 1);
    double y = fmin(fmax(v - 0.5, 0), map->rows - 1);
    int32_t i = (int32_t)x, j = (int32_t)y;
    int32_t right = i + 1 < map->columns ? i + 1 : i, below = j + 1 < map->rows ? j + 1 : j;
    const float *top = map->values + (size_t)j * (size_t)map->columns;
    const float *bottom = map->values + (size_t)below * (size_t)map->columns;
    double a = x - i, b = y - j;
    return (1 - b) * ((1 - a) * (double)top[i] + a * (double)top[right]) +
           b * ((1 - a) * (double)bottom[i] + a * (double)bottom[right]);
}

/* Shows only positive evidence for the class, as a share of the largest. */
static void draw_class_map(const struct hrf_tile_plan *plan, const struct hrf_class_map *map,
                           struct hrf_image *image)
{
    size_t n = (size_t)map->rows * (size_t)map->columns;
    double d = plan->thumbnail_downsample, largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, (double)map->values[i]);
    double per_x = d * map->columns / (double)plan->patch_width0;
    double per_y = d * map->rows / (double)plan->patch_height0;
    for (int32_t y = 0; y < image->height; y++)
        for (int32_t x = 0; x < image->width; x++) {
            double u = (x + 0.5) * per_x - plan->patches[0].x / d * per_x;
            double v = (y + 0.5) * per_y - plan->patches[0].y / d * per_y;
            if (u < 0 || v < 0 || u >= map->columns || v >= map->rows)
                continue;
            double t = largest > 0 ? fmax(sample(map, u, v) / largest, 0) : 0;
            hrf_image_blend(image, x, y, x + 1, y + 1, hrf_colour_map(t), tint(HRF_HEAT_RISING, t));
        }
}

static void draw_mask(const struct hrf_image *mask, struct hrf_image *map)
{
    const unsigned char *m = mask->pixels;
    size_t w = (size_t)mask->width;
    for (int32_t y = 1; y + 1 < mask->height; y++)
        for (int32_t x = 1; x + 1 < mask->width; x++) {
            size_t at = (size_t)y * w + (size_t)x;
            bool rim = m[at] >= 128 &&
                       (m[at - 1] < 128 || m[at + 1] < 128 || m[at - w] < 128 || m[at + w] < 128);
            if (rim)
                hrf_image_blend(map, x, y, x + 1, y + 1, gray, 0.8);
        }
}

/* A dark line on a light one, to be seen on any colour below it. */
static void draw_outlines(const struct hrf_outlines *outlines, double downsample,
                          struct hrf_image *map)
{
    for (int pass = 0; pass < 2; pass++)
        for (size_t k = 0; k < outlines->n_items; k++) {
            const struct hrf_outline *o = &outlines->items[k];
            if (o->role == HRF_OUTLINE_OTHER)
                continue;
            for (size_t i = 0, j = o->n_points - 1; i < o->n_points; j = i++)
                hrf_image_line(map, o->points[j].x / downsample, o->points[j].y / downsample,
                               o->points[i].x / downsample, o->points[i].y / downsample,
                               pass == 0 ? 4 : 2, pass == 0 ? white : ink);
        }
}

static enum hrf_status draw_on(const struct hrf_tile_plan *plan, const struct hrf_scores *scores,
                               size_t positive, enum hrf_heat_scale scale,
                               const struct hrf_outlines *outlines, struct hrf_image *map,
                               struct hrf_error *err)
{
    if (!(plan->thumbnail_downsample > 0.0))
        return hrf_error_set(err, HRF_E_USER, "the tile plan's thumbnail has a downsample of %g",
                             plan->thumbnail_downsample);
    if (scores->class_map.values != NULL && plan->n_patches == 1)
        draw_class_map(plan, &scores->class_map, map);
    else
        draw_patches(plan, scores, positive, scale, map);
    if (plan->mask_png.n_bytes > 0) {
        struct hrf_image mask = { 0 };
        HRF_TRY(hrf_image_decode(&plan->mask_png, 1, &mask, err));
        bool same = mask.width == map->width && mask.height == map->height;
        if (same)
            draw_mask(&mask, map);
        int32_t width = mask.width, height = mask.height;
        hrf_image_release(&mask);
        if (!same)
            return hrf_error_set(err, HRF_E_USER,
                                 "the tissue mask has %d x %d px, the thumbnail %d x %d", width,
                                 height, map->width, map->height);
    }
    if (outlines != NULL)
        draw_outlines(outlines, plan->thumbnail_downsample, map);
    return HRF_OK;
}

enum hrf_status hrf_heatmap_draw(const struct hrf_tile_plan *plan, const struct hrf_scores *scores,
                                 size_t positive, enum hrf_heat_scale scale,
                                 const struct hrf_outlines *outlines, struct hrf_image *out,
                                 struct hrf_error *err)
{
    if (plan->thumbnail_png.n_bytes == 0)
        return hrf_error_set(err, HRF_E_USER, "the tile plan has no thumbnail");
    if (scores->n_patches != plan->n_patches || scores->n_classes < 1 ||
        positive >= (size_t)scores->n_classes)
        return hrf_error_set(err, HRF_E_USER, "%lld scores of %d classes for %lld patches",
                             (long long)scores->n_patches, scores->n_classes,
                             (long long)plan->n_patches);
    struct hrf_image map = { 0 };
    HRF_TRY(hrf_image_decode(&plan->thumbnail_png, 3, &map, err));
    enum hrf_status status = draw_on(plan, scores, positive, scale, outlines, &map, err);
    if (status != HRF_OK) {
        hrf_image_release(&map);
        return status;
    }
    *out = map;
    return HRF_OK;
}

enum { BAR_TOP = 10, BAR_HEIGHT = 10, LEGEND_HEIGHT = 40, MARGIN = 12 };

static void draw_legend(struct hrf_image *image, int32_t top, enum hrf_heat_scale scale,
                        double threshold)
{
    int32_t width = image->width - 2 * MARGIN;
    width = width > 320 ? 320 : width;
    for (int32_t x = 0; x < width; x++) {
        double t = width > 1 ? (double)x / (double)(width - 1) : 0.0;
        hrf_image_blend(image, MARGIN + x, top + BAR_TOP, MARGIN + x + 1,
                        top + BAR_TOP + BAR_HEIGHT, colour_of(scale, t), 1.0);
    }
    static const char *const ticks[] = { "0", "0.5", "1" };
    for (int32_t i = 0; i < 3; i++) {
        int32_t x = MARGIN + (width - 1) * i / 2, n = (int32_t)strlen(ticks[i]) * 6 - 1;
        hrf_image_blend(image, x, top + BAR_TOP + BAR_HEIGHT, x + 1, top + BAR_TOP + BAR_HEIGHT + 3,
                        ink, 1.0);
        hrf_image_digits(image, x - n / 2, top + BAR_TOP + BAR_HEIGHT + 6, ticks[i], ink);
    }
    if (!(threshold >= 0.0 && threshold <= 1.0))
        return;
    int32_t at = MARGIN + (int32_t)lround(threshold * (double)(width - 1));
    for (int32_t i = 0; i < 5; i++) /* a triangle that points down at the bar */
        hrf_image_blend(image, at - i, top + BAR_TOP - 2 - i, at + i + 1, top + BAR_TOP - 1 - i,
                        ink, 1.0);
}

enum hrf_status hrf_heatmap_write(const struct hrf_image *map, enum hrf_heat_scale scale,
                                  double threshold, const char *path, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_image) page = { 0 };
    HRF_TRY(hrf_image_create(map->width, map->height + LEGEND_HEIGHT, 3, &page, err));
    memcpy(page.pixels, map->pixels, (size_t)map->width * (size_t)map->height * 3);
    draw_legend(&page, map->height, scale, threshold);
    struct hrf_bytes png = { 0 };
    enum hrf_status status = hrf_image_encode(&page, HRF_PNG_PHOTO, &png, err);
    if (status == HRF_OK)
        status = hrf_file_write_atomic(path, png.data, png.n_bytes, err);
    hrf_free(png.data);
    return status;
}
