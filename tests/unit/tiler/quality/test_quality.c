/* Blur, folds and bubbles on drawn examples, and limits that leave patches out. */
#include "base/alloc.h"
#include "base/random.h"
#include "tests/unit/tiler/pyramid.h"
#include "tests/unit/unit.h"
#include "tiler/plan/tile.h"
#include "tiler/quality/quality.h"

#include <math.h>
#include <string.h>

enum { SIDE = 96 };

/* As scikit-image 0.26's blur_effect(picture, channel_axis=2) of the same bytes. */
static void blur_is_what_scikit_image_measures(void **state)
{
    (void)state;
    static const struct {
        int width, height, smooth; /* how often a 3 x 3 mean is taken */
        double wanted;
    } cases[] = { { 96, 96, 0, 0.1259831 }, { 96, 96, 1, 0.1903817 }, { 96, 96, 4, 0.2707564 },
                  { 37, 90, 2, 0.2296852 }, { 96, 17, 0, 0.1224503 }, { 24, 24, 8, 0.3337634 } };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const int w = cases[k].width, h = cases[k].height;
        unsigned char rgb[SIDE * SIDE * 3], old[SIDE * SIDE * 3];
        double found;
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++)
                for (int c = 0; c < 3; c++)
                    rgb[(y * w + x) * 3 + c] =
                        (unsigned char)((x * x * 7 + y * y * 13 + x * y * 3 + c * 50) % 251);
        for (int i = 0; i < cases[k].smooth; i++) {
            memcpy(old, rgb, sizeof rgb);
            for (int y = 1; y < h - 1; y++)
                for (int x = 1; x < w - 1; x++)
                    for (int c = 0; c < 3; c++) {
                        int sum = 0;
                        for (int t = 0; t < 9; t++)
                            sum += old[((y + t / 3 - 1) * w + x + t % 3 - 1) * 3 + c];
                        rgb[(y * w + x) * 3 + c] = (unsigned char)(sum / 9);
                    }
        }
        assert_int_equal(hrf_blur_measure(rgb, w, h, &found, NULL), HRF_OK);
        if (fabs(found - cases[k].wanted) > 1e-5)
            fail_msg("case %zu: %.7f is not %.7f", k, found, cases[k].wanted);
    }
}

static void a_picture_without_edges_is_blurred(void **state)
{
    (void)state;
    unsigned char rgb[16 * 16 * 3];
    double found = 0;
    memset(rgb, 200, sizeof rgb);
    assert_int_equal(hrf_blur_measure(rgb, 16, 16, &found, NULL), HRF_OK);
    assert_true(found == 1);
}

/* A slide of 2,048 px at 0.5 um: tissue with a fold across it and a bubble on it. */
enum { FULL = 2048 };
static void scene_pixel(const void *context, int level, uint32_t x, uint32_t y,
                        unsigned char rgba[4])
{
    const struct pyramid *p = context;
    const double scale = (double)FULL / p->level[level].width;
    const double u = (x + 0.5) * scale, v = (y + 0.5) * scale;
    const int noise = pyramid_noise(level, x, y, 0) % 61 - 30;
    const bool tissue = u > 128 && u < 1920 && v > 128 && v < 1920;
    double rgb[3] = { 243, 242, 244 };
    if (tissue) {
        const double stain[3] = { 205, 150, 190 };
        for (int c = 0; c < 3; c++) {
            rgb[c] = stain[c] + noise;
            if (v > 1280 && v < 1408) /* folded: light passes twice */
                rgb[c] = rgb[c] * stain[c] / 243;
        }
    }
    const double r = hypot(u - 640, v - 640);
    if (r < 330 && r > 290) /* the rim of a bubble, 20 um wide */
        rgb[0] = rgb[1] = rgb[2] = 120;
    for (int c = 0; c < 3; c++)
        rgba[c] = (unsigned char)fmin(fmax(rgb[c], 0), 255);
}

static struct hrf_tile_plan *tile_scene(const char *path, struct hrf_workflow_quality limits)
{
    struct hrf_tile_plan *plan = NULL;
    struct hrf_error err = { .status = HRF_OK };
    const struct hrf_workflow_tiler params = { .patch = { .size = 128, .stride = 128, .mpp = 0.5 },
                                               .tissue = { .method = HRF_TISSUE_WSINFER,
                                                           .min_tissue = 0.5 },
                                               .quality = limits };
    if (hrf_tile_slide(path, &params, 0.5, 0, NULL, &plan, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return plan;
}

static int64_t count(const struct hrf_tile_plan *plan, enum hrf_drop_reason reason)
{
    int64_t n = 0;
    for (int64_t i = 0; i < plan->n_dropped; i++)
        n += plan->dropped[i].reason == (int32_t)reason;
    return n;
}

static void folds_and_bubbles_are_left_out_and_nothing_else(void **state)
{
    (void)state;
    struct pyramid p = { .n_levels = 0 };
    char path[128];
    pyramid_halve(&p, FULL, FULL, 512);
    p.jpeg = true;
    p.pixel = scene_pixel;
    p.context = &p;
    pyramid_path(test_folder, "scene.tif", path);
    pyramid_write(&p, path);
    HRF_AUTO(hrf_tile_plan) all = tile_scene(path, (struct hrf_workflow_quality){ 0 });
    HRF_AUTO(hrf_tile_plan)
    plan = tile_scene(path, (struct hrf_workflow_quality){ .fold = 0.5, .bubble = 0.3 });
    assert_int_equal(all->n_dropped, 0);
    assert_null(all->warning);
    assert_int_equal(plan->n_patches + plan->n_dropped, all->n_patches);
    assert_int_equal(count(plan, HRF_DROP_FOLD), 14);
    for (int64_t i = 0; i < plan->n_dropped; i++) {
        const struct hrf_dropped_patch *d = &plan->dropped[i];
        const double x = d->at.x + 64 - 640, y = d->at.y + 64 - 640;
        if (d->reason == HRF_DROP_FOLD)
            assert_int_equal(d->at.y, 1280);
        else
            assert_true(hypot(x, y) < 330 + 64 * 1.5);
    }
    for (int64_t i = 0; i < plan->n_patches; i++) { /* what lies wholly in the bubble is not kept */
        const double x = plan->patches[i].x + 64 - 640, y = plan->patches[i].y + 64 - 640;
        assert_true(hypot(x, y) > 330 - 64 * 1.5);
    }
    assert_true(count(plan, HRF_DROP_BUBBLE) >= 16);
    assert_non_null(strstr(plan->warning, " patches of tissue are left out: "));
    assert_non_null(strstr(plan->warning, " bubble, 14 fold"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blur_is_what_scikit_image_measures),
        cmocka_unit_test(a_picture_without_edges_is_blurred),
        cmocka_unit_test(folds_and_bubbles_are_left_out_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
