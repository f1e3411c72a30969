/* mask_read.c - reads a mask in bands of rows or in part, straight from OpenSlide's premultiplied
 * pixels. */
#include "tiler/slide/mask_read.h"

#include "tiler/slide/slide_private.h"

#include <math.h>
#include <string.h>

/* Returns the coarsest level whose downsample divides `step`, -1 if there is none; *skip gets the
 * quotient. */
static int32_t find_level(const struct hrf_slide_info *info, int32_t step, int64_t *skip)
{
    for (int32_t i = info->n_levels - 1; i >= 0; i--) {
        const double times = step / info->level[i].downsample;
        if (times > 0.99 && fabs(times - round(times)) < 0.01 * times) {
            *skip = llround(times);
            return i;
        }
    }
    return -1;
}

/* Reads rows [y, y + n) of the result. */
static enum hrf_status read_band(struct hrf_slide *slide, int32_t level, int64_t skip, int64_t y,
                                 int64_t n, int64_t width, unsigned char *out,
                                 struct hrf_error *err)
{
    const int64_t wide = slide->info.level[level].width, high = slide->info.level[level].height;
    const int64_t top = y * skip,
                  rows = (n - 1) * skip + 1 < high - top ? (n - 1) * skip + 1 : high - top;
    HRF_AUTO_FREE uint32_t *argb = hrf_try_alloc_array((size_t)(rows * wide), sizeof *argb);
    HRF_AUTO_FREE unsigned char *rgb = hrf_try_alloc_array((size_t)(rows * wide), 3);
    if (argb == NULL || rgb == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for %lld x %lld px of '%s'",
                             (long long)wide, (long long)rows, slide->shown);
    const int64_t y0 = llround((double)top * slide->info.level[level].downsample);
    HRF_TRY(hrf_slide_read_argb(slide, level, 0, y0, wide, rows, argb, rgb, NULL, err));
    for (int64_t i = 0; i < n; i++)
        for (int64_t x = 0; x < width; x++)
            out[i * width + x] = (unsigned char)(argb[i * skip * wide + x * skip] >> 16 & 255);
    return HRF_OK;
}

enum hrf_status hrf_slide_read_mask(struct hrf_slide *slide, int32_t step, unsigned char **out,
                                    int64_t *width, int64_t *height, struct hrf_error *err)
{
    enum { BAND_PIXELS = 1 << 20 };
    int64_t skip = 1;
    const int32_t level = find_level(&slide->info, step, &skip);
    if (level < 0)
        return hrf_error_set(err, HRF_E_USER, "mask '%s' has no level that is 1/%d of level 0",
                             slide->shown, step);
    const int64_t wide = slide->info.level[level].width, high = slide->info.level[level].height;
    const int64_t w = (wide + skip - 1) / skip, h = (high + skip - 1) / skip;
    const int64_t band = BAND_PIXELS / (wide * skip) > 0 ? BAND_PIXELS / (wide * skip) : 1;
    HRF_AUTO_FREE unsigned char *pixels = hrf_try_alloc_array((size_t)w, (size_t)h);
    if (pixels == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the mask '%s'", slide->shown);
    for (int64_t y = 0; y < h; y += band) {
        const int64_t n = h - y < band ? h - y : band;
        HRF_TRY(read_band(slide, level, skip, y, n, w, pixels + y * w, err));
    }
    *out = pixels;
    *width = w;
    *height = h;
    pixels = NULL;
    return HRF_OK;
}

/* The pixels of a level that are read along one axis. */
struct mask_axis {
    int64_t first, n;   /* n 0: none is on the mask */
    double scale;       /* level-0 px of a pixel of the level */
    double begin, step; /* of the result, in level-0 px */
};

static double centre_of(const struct mask_axis *a, int64_t i)
{
    return floor((a->begin + ((double)i + 0.5) * a->step) / a->scale);
}

static struct mask_axis axis_of(int64_t begin0, int64_t extent0, int64_t n, int64_t in_level,
                                double scale)
{
    struct mask_axis a = { .scale = scale,
                           .begin = (double)begin0,
                           .step = (double)extent0 / (double)n };
    const double first = fmax(centre_of(&a, 0), 0);
    const double last = fmin(centre_of(&a, n - 1), (double)in_level - 1);
    if (last < first)
        return a;
    a.first = (int64_t)first;
    a.n = (int64_t)(last - first) + 1;
    return a;
}

enum hrf_status hrf_slide_read_mask_part(struct hrf_slide *slide, int64_t x0, int64_t y0,
                                         int64_t width0, int64_t height0, unsigned char *out,
                                         int64_t width, int64_t height, struct hrf_error *err)
{
    const struct hrf_slide_info *info = &slide->info;
    const double step = fmin((double)width0 / (double)width, (double)height0 / (double)height);
    int32_t level = info->n_levels - 1;
    while (level > 0 && info->level[level].downsample > step * 1.01)
        level--;
    const double scale = info->level[level].downsample;
    const struct mask_axis x = axis_of(x0, width0, width, info->level[level].width, scale);
    const struct mask_axis y = axis_of(y0, height0, height, info->level[level].height, scale);
    memset(out, 0, (size_t)(width * height));
    if (x.n == 0 || y.n == 0)
        return HRF_OK;
    HRF_AUTO_FREE uint32_t *argb = hrf_try_alloc_array((size_t)(x.n * y.n), sizeof *argb);
    HRF_AUTO_FREE unsigned char *rgb = hrf_try_alloc_array((size_t)(x.n * y.n), 3);
    HRF_CHECK_MEMORY(argb != NULL && rgb != NULL, err, "no memory for %lld x %lld px of '%s'",
                     (long long)x.n, (long long)y.n, slide->shown);
    HRF_TRY(hrf_slide_read_argb(slide, level, llround((double)x.first * scale),
                                llround((double)y.first * scale), x.n, y.n, argb, rgb, NULL, err));
    for (int64_t i = 0; i < height; i++)
        for (int64_t k = 0; k < width; k++) {
            const int64_t row = (int64_t)centre_of(&y, i) - y.first;
            const int64_t column = (int64_t)centre_of(&x, k) - x.first;
            if (row >= 0 && row < y.n && column >= 0 && column < x.n)
                out[i * width + k] = (unsigned char)(argb[row * x.n + column] >> 16 & 255);
        }
    return HRF_OK;
}
