/* mask_read.c - reads a mask in bands of rows, straight from OpenSlide's premultiplied pixels. */
#include "tiler/slide/mask_read.h"

#include "tiler/slide/slide_private.h"

#include <math.h>

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
