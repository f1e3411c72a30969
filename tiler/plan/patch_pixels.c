/* patch_pixels.c - see patch_pixels.h. */
#include "tiler/plan/patch_pixels.h"

#include "base/min_max.h"
#include "tiler/slide/slide.h"

#include <math.h>

enum { SQUARE = 256, MAX_SQUARES = 4 /* a side */ };

/* n squares of `size` px from end to end of `length` px: the position of square i. */
struct spread {
    int64_t n, size, length;
};

static struct spread spread_over(int64_t length0, double downsample)
{
    const int64_t length = hrf_max(1, (int64_t)floor((double)length0 / downsample));
    return (struct spread){ .n = hrf_min(MAX_SQUARES, (length + SQUARE - 1) / SQUARE),
                            .size = hrf_min(SQUARE, length),
                            .length = length };
}

static int64_t position_of(const struct spread *s, int64_t i, double downsample)
{
    const int64_t at = s->n > 1 ? (s->length - s->size) * i / (s->n - 1) : 0;
    return llround((double)at * downsample);
}

enum hrf_status hrf_tile_plan_hash_pixels(const struct hrf_tile_plan *plan, char out[HRF_HASH_HEX],
                                          struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_AUTO(hrf_slide) slide = NULL;
    HRF_TRY(hrf_hash_create(&hash, err));
    HRF_TRY(hrf_slide_open(plan->slide_path, &slide, err));
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    if (plan->read_level >= info->n_levels || info->width != plan->width ||
        info->height != plan->height)
        return hrf_error_set(err, HRF_E_USER, "'%s' is not the file that was tiled; run again",
                             plan->slide_path);
    const double downsample = info->level[plan->read_level].downsample;
    const struct spread x = spread_over(plan->patch_width0, downsample);
    const struct spread y = spread_over(plan->patch_height0, downsample);
    HRF_AUTO_FREE unsigned char *rgb = hrf_alloc_array(SQUARE * SQUARE, 3);
    for (int64_t i = 0; i < plan->n_patches; i++)
        for (int64_t k = 0; k < x.n * y.n; k++) {
            HRF_TRY(hrf_slide_read(slide, plan->read_level,
                                   plan->patches[i].x + position_of(&x, k % x.n, downsample),
                                   plan->patches[i].y + position_of(&y, k / x.n, downsample),
                                   x.size, y.size, rgb, NULL, err));
            hrf_hash_bytes(hash, rgb, (size_t)(x.size * y.size * 3));
        }
    hrf_hash_hex(hash, out);
    return HRF_OK;
}
