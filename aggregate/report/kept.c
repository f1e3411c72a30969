/* kept.c - see kept.h. */
#include "aggregate/report/kept.h"

#include "aggregate/report/image.h"

#include <math.h>

static const struct hrf_rgb scored = { 20, 130, 40 }, white = { 110, 110, 110 };
static const struct hrf_rgb reasons[HRF_N_DROP_REASONS] = { [HRF_DROP_PEN] = { 20, 70, 220 },
                                                            [HRF_DROP_BUBBLE] = { 230, 180, 0 },
                                                            [HRF_DROP_FOLD] = { 210, 20, 20 },
                                                            [HRF_DROP_BLUR] = { 140, 30, 190 } };

/* A tint, with a frame one pixel inside it. */
static void draw(const struct hrf_tile_plan *plan, const struct hrf_patch *at,
                 struct hrf_rgb colour, double alpha, struct hrf_image *image)
{
    const double d = plan->thumbnail_downsample;
    const int32_t x0 = (int32_t)lround(at->x / d), y0 = (int32_t)lround(at->y / d);
    const int32_t x1 = (int32_t)lround((double)(at->x + plan->patch_width0) / d);
    const int32_t y1 = (int32_t)lround((double)(at->y + plan->patch_height0) / d);
    hrf_image_blend(image, x0, y0, x1, y1, colour, alpha);
    hrf_image_blend(image, x0, y0, x1, y0 + 1, colour, 0.7);
    hrf_image_blend(image, x0, y0, x0 + 1, y1, colour, 0.7);
}

enum hrf_status hrf_kept_draw(const struct hrf_tile_plan *plan, struct hrf_bytes *png,
                              struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_image) image = { .width = 0 };
    HRF_TRY(hrf_image_decode(&plan->thumbnail_png, 3, &image, err));
    for (int64_t i = 0; i < plan->n_patches; i++)
        draw(plan, &plan->patches[i], hrf_tile_plan_is_white(plan, i) ? white : scored, 0.12,
             &image);
    for (int64_t i = 0; i < plan->n_dropped; i++)
        draw(plan, &plan->dropped[i].at, reasons[plan->dropped[i].reason], 0.4, &image);
    return hrf_image_encode(&image, HRF_PNG_PHOTO, png, err);
}
