/* Tissue detection on made pictures, by value, and on real ones with pen marks. */
#include "base/alloc.h"
#include "base/random.h"
#include "tests/unit/real_data.h"
#include "tests/unit/tiler/pyramid.h"
#include "tests/unit/unit.h"
#include "tiler/tissue/tissue.h"

#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

/* A picture on which tests paint rectangles. */
struct picture {
    int64_t width, height;
    double mpp;
    unsigned char *rgb, *mask;
    struct hrf_tissue_result result;
};

static struct picture make(int64_t width, int64_t height, double mpp, int r, int g, int b)
{
    struct picture p = { .width = width, .height = height, .mpp = mpp };
    p.rgb = hrf_alloc((size_t)(width * height * 3));
    p.mask = hrf_alloc((size_t)(width * height));
    assert_true(p.rgb != NULL && p.mask != NULL);
    for (int64_t i = 0; i < width * height; i++) {
        p.rgb[3 * i] = (unsigned char)r;
        p.rgb[3 * i + 1] = (unsigned char)g;
        p.rgb[3 * i + 2] = (unsigned char)b;
    }
    return p;
}

static void release(struct picture *p)
{
    hrf_free(p->rgb);
    hrf_free(p->mask);
}

static void paint(struct picture *p, int64_t x, int64_t y, int64_t w, int64_t h, int r, int g,
                  int b)
{
    for (int64_t v = y; v < y + h; v++)
        for (int64_t u = x; u < x + w; u++) {
            unsigned char *q = p->rgb + 3 * (v * p->width + u);
            q[0] = (unsigned char)r, q[1] = (unsigned char)g, q[2] = (unsigned char)b;
        }
}

/* Gray noise of +-`amplitude`, each channel its own. */
static void add_noise(struct picture *p, int amplitude, uint64_t seed)
{
    struct hrf_random random = hrf_random_init(seed);
    for (int64_t i = 0; i < p->width * p->height * 3; i++) {
        int64_t v = p->rgb[i] + hrf_random_below(&random, 2 * amplitude + 1) - amplitude;
        p->rgb[i] = (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
}

static enum hrf_status detect(struct picture *p, const char *method, bool relaxed)
{
    struct hrf_tissue_image image = { .rgb = p->rgb,
                                      .width = p->width,
                                      .height = p->height,
                                      .mpp_x = p->mpp,
                                      .mpp_y = p->mpp,
                                      .level0_mpp = 0.25 };
    return hrf_tissue_detect(&image, method, relaxed, p->mask, &p->result, NULL);
}

static double fraction(struct picture *p, const char *method, bool relaxed)
{
    assert_int_equal(detect(p, method, relaxed), HRF_OK);
    return p->result.fraction;
}

/* Fraction of a rectangle that is tissue. */
static double inside(const struct picture *p, int64_t x, int64_t y, int64_t w, int64_t h)
{
    int64_t n = 0;
    for (int64_t v = y; v < y + h; v++)
        for (int64_t u = x; u < x + w; u++)
            n += p->mask[v * p->width + u] == 255;
    return (double)n / (double)(w * h);
}

static void otsu_splits_a_histogram_where_the_classes_are_farthest_apart(void **state)
{
    (void)state;
    int64_t histogram[256] = { 0 };
    double contrast = -1;
    assert_int_equal(hrf_otsu(histogram, &contrast), 0);
    histogram[30] = 1000;
    assert_int_equal(hrf_otsu(histogram, &contrast), 0);
    assert_true(contrast == 0);
    histogram[10] = 50, histogram[12] = 50, histogram[30] = 0;
    histogram[100] = 60, histogram[110] = 40;
    assert_int_equal(hrf_otsu(histogram, &contrast), 12);
    assert_true(fabs(contrast - (104 - 11)) < 1e-9);
    memset(histogram, 0, sizeof histogram);
    histogram[180] = 60, histogram[253] = 20, histogram[255] = 20; /* as bright as glass is */
    assert_int_equal(hrf_otsu(histogram, &contrast), 180);
    assert_true(fabs(contrast - (254 - 180)) < 1e-9);
    histogram[180] = 0;
    assert_int_equal(hrf_otsu(histogram, NULL), 253);
}

static void saturation_is_rounded_as_opencv_rounds_it(void **state)
{
    (void)state;
    /* S of (250, 243, 243) is 7, of (200, 194, 194) is 8: 6 * 5222 + 2048 >> 12. */
    struct picture seven = make(64, 64, 10, 250, 243, 243);
    assert_true(fraction(&seven, "wsinfer", false) == 0);
    struct picture eight = make(64, 64, 10, 200, 194, 194);
    assert_true(fraction(&eight, "wsinfer", false) == 1);
    assert_true(eight.result.threshold == 7);
    struct picture clam = make(64, 64, 10, 200, 194, 194);
    assert_true(fraction(&clam, "clam", false) == 0);
    assert_true(clam.result.threshold == 8);
    release(&seven), release(&eight), release(&clam);
}

static void wsinfer_drops_objects_under_200_um_and_fills_holes_under_190_um(void **state)
{
    (void)state;
    struct picture p = make(300, 200, 10, 245, 245, 245);
    paint(&p, 10, 10, 17, 17, 200, 100, 180);   /* 170 um: goes */
    paint(&p, 50, 10, 24, 24, 200, 100, 180);   /* 240 um: stays */
    paint(&p, 10, 60, 100, 100, 200, 100, 180); /* holes of 150 and 250 um */
    paint(&p, 30, 80, 15, 15, 245, 245, 245);
    paint(&p, 60, 110, 25, 25, 245, 245, 245);
    fraction(&p, "wsinfer", false);
    assert_true(inside(&p, 10, 10, 17, 17) == 0);
    assert_true(inside(&p, 52, 12, 20, 20) == 1);
    assert_true(inside(&p, 30, 80, 15, 15) == 1);
    assert_true(inside(&p, 65, 115, 15, 15) == 0);
    release(&p);
}

/* A reference patch is 512 level-0 px: at 0.25 um/px and 16 um/px 8 x 8 px, so objects stay from
 * 100 * 64 px and holes from 16 * 64. */
static void clam_keeps_large_objects_and_of_their_holes_the_ten_largest(void **state)
{
    (void)state;
    struct picture p = make(700, 300, 16, 245, 245, 245);
    paint(&p, 5, 5, 70, 70, 200, 100, 180); /* 4900 px: goes */
    paint(&p, 100, 10, 590, 280, 200, 100, 180);
    for (int i = 0; i < 12; i++) /* two rows of holes, 36 to 47 px a side: all over 1024 px */
        paint(&p, 115 + i % 6 * 90, 30 + i / 6 * 130, 36 + i, 36 + i, 245, 245, 245);
    paint(&p, 650, 240, 20, 20, 245, 245, 245); /* 400 px: filled */
    fraction(&p, "clam", false);
    assert_true(inside(&p, 5, 5, 70, 70) == 0);
    assert_true(inside(&p, 650, 240, 20, 20) == 1);
    for (int i = 0; i < 12; i++) {
        double hole = inside(&p, 120 + i % 6 * 90, 35 + i / 6 * 130, 20, 20);
        assert_true(hole == (i < 2 ? 1 : 0)); /* the two smallest are filled */
    }
    /* The second look keeps objects of a sixteenth. */
    fraction(&p, "clam", true);
    assert_true(inside(&p, 10, 10, 50, 50) == 1);
    release(&p);
}

static void ncrf_wants_saturation_and_no_white_and_no_black(void **state)
{
    (void)state;
    struct picture p = make(100, 100, 16, 240, 240, 242);
    paint(&p, 0, 0, 40, 100, 180, 90, 160);   /* tissue */
    paint(&p, 40, 0, 10, 100, 90, 20, 40);    /* dark: G and B are not over 50 */
    paint(&p, 50, 0, 10, 100, 255, 200, 254); /* saturated a little, but bright */
    fraction(&p, "ncrf", false);
    assert_true(inside(&p, 0, 0, 40, 100) == 1);
    assert_true(inside(&p, 40, 0, 60, 100) == 0);
    release(&p);
}

static void an_empty_slide_s_noise_is_not_tissue(void **state)
{
    (void)state;
    static const unsigned char glass[][3] = {
        { 243, 243, 243 }, { 240, 236, 228 }, { 245, 240, 245 }, { 225, 230, 228 }
    };
    for (size_t i = 0; i < 4; i++) {
        struct picture p = make(400, 300, 8, glass[i][0], glass[i][1], glass[i][2]);
        add_noise(&p, 5, i);
        assert_true(fraction(&p, "otsu", false) == 0);
        assert_true(fraction(&p, "otsu", true) < 0.02);
        assert_true(fraction(&p, "none", false) == 1);
        release(&p);
    }
}

static void pale_tissue_on_nearly_empty_glass_is_found(void **state)
{
    (void)state;
    struct picture p = make(800, 800, 8, 242, 241, 243);
    paint(&p, 300, 300, 40, 40, 228, 188, 215); /* 0.25 % of the slide, S 45 */
    add_noise(&p, 4, 3);
    fraction(&p, "otsu", false);
    assert_true(inside(&p, 302, 302, 36, 36) > 0.99);
    assert_true(p.result.fraction < 0.004);
    release(&p);
}

static void the_second_look_finds_what_is_fainter(void **state)
{
    (void)state;
    struct picture p = make(400, 400, 8, 242, 241, 243);
    paint(&p, 100, 100, 200, 200, 238, 224, 234); /* S 15: hardly stained */
    add_noise(&p, 2, 3);
    fraction(&p, "otsu", false);
    assert_true(inside(&p, 110, 110, 180, 180) < 0.01);
    double threshold = p.result.threshold;
    fraction(&p, "otsu", true);
    assert_true(inside(&p, 110, 110, 180, 180) > 0.99);
    assert_true(p.result.threshold < threshold);
    release(&p);
}

static void a_slide_full_of_tissue_keeps_its_paler_half(void **state)
{
    (void)state;
    struct picture p = make(400, 400, 8, 220, 150, 195);
    paint(&p, 0, 0, 200, 400, 120, 40, 110);
    add_noise(&p, 6, 3);
    assert_true(fraction(&p, "otsu", false) > 0.99);
    release(&p);
}

static void ink_and_black_are_not_tissue_and_tissue_beside_them_is(void **state)
{
    (void)state;
    static const unsigned char inks[][3] = { { 30, 60, 190 }, { 20, 30, 150 },  { 40, 120, 200 },
                                             { 20, 130, 60 }, { 60, 160, 110 }, { 30, 110, 110 },
                                             { 200, 20, 30 }, { 230, 40, 50 },  { 10, 10, 12 },
                                             { 60, 58, 66 },  { 0, 0, 0 },      { 30, 5, 10 } };
    for (size_t i = 0; i < sizeof inks / sizeof inks[0]; i++) {
        struct picture p = make(400, 400, 8, 243, 242, 244);
        paint(&p, 200, 50, 150, 300, 205, 130, 185);
        paint(&p, 20, 20, 360, 60, inks[i][0], inks[i][1], inks[i][2]);
        /* its edge fades into the glass over 4 px */
        for (int k = 1; k < 5; k++)
            paint(&p, 20, 79 + k, 170, 1, inks[i][0] + (243 - inks[i][0]) * k / 5,
                  inks[i][1] + (242 - inks[i][1]) * k / 5, inks[i][2] + (244 - inks[i][2]) * k / 5);
        add_noise(&p, 3, i);
        fraction(&p, "otsu", false);
        if (inside(&p, 0, 0, 400, 80) > 0.005 || inside(&p, 0, 0, 190, 400) > 0)
            fail_msg("ink %d %d %d is taken for tissue: %g %g", inks[i][0], inks[i][1], inks[i][2],
                     inside(&p, 0, 0, 400, 80), inside(&p, 0, 0, 190, 400));
        assert_true(inside(&p, 202, 95, 146, 250) > 0.99);
        release(&p);
    }
}

static void blood_in_small_spots_stays_with_the_tissue_around_it(void **state)
{
    (void)state;
    struct picture p = make(300, 300, 8, 243, 242, 244);
    paint(&p, 50, 50, 200, 200, 205, 130, 185);
    for (int i = 0; i < 8; i++)
        paint(&p, 60 + 22 * i, 60 + 20 * i, 12, 12, 200, 30, 50); /* 0.1 mm */
    fraction(&p, "otsu", false);
    assert_true(inside(&p, 52, 52, 196, 196) == 1);
    release(&p);
}

static void a_black_slide_and_a_white_one_have_no_tissue(void **state)
{
    (void)state;
    static const char *const methods[] = { "otsu", "wsinfer", "clam", "ncrf" };
    for (int m = 0; m < 4; m++) {
        for (int v = 0; v <= 255; v += 255) {
            struct picture p = make(80, 60, 8, v, v, v);
            assert_true(fraction(&p, methods[m], false) == 0);
            assert_true(fraction(&p, methods[m], true) == 0);
            release(&p);
        }
        struct picture dot = make(1, 1, 8, 200, 100, 180);
        assert_true(fraction(&dot, methods[m], false) <= 1);
        release(&dot);
    }
}

static void an_unknown_method_is_refused_with_the_known_ones(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    double reduction = -1;
    assert_int_equal(hrf_tissue_reduction("otus", 100, 100, 0.25, &reduction, &err), HRF_E_USER);
    assert_string_equal(
        err.text, "unknown tissue method 'otus'; there are otsu, wsinfer, clam, ncrf and none");
    assert_true(reduction == -1);
}

static void each_method_sees_the_overview_that_its_authors_use(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        int64_t side;
        double mpp, reduction;
    } cases[] = { { "otsu", 100000, 0.25, 32 },    { "otsu", 100000, 0.5, 16 },
                  { "otsu", 2048, 0.5, 2 },        { "otsu", 500, 0.5, 1 },
                  { "wsinfer", 102400, 0.25, 50 }, { "wsinfer", 1000, 0.25, 1 },
                  { "clam", 100000, 0.25, 64 },    { "ncrf", 100000, 0.25, 64 },
                  { "ncrf", 5120, 0.25, 10 },      { "clam", 100, 0.25, 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double reduction;
        assert_int_equal(hrf_tissue_reduction(cases[i].method, cases[i].side, cases[i].side / 2,
                                              cases[i].mpp, &reduction, NULL),
                         HRF_OK);
        assert_true(fabs(reduction - cases[i].reduction) < 1e-9);
    }
}

static void running_out_of_memory_is_a_status(void **state)
{
    (void)state;
    static const char *const methods[] = { "otsu", "wsinfer", "clam", "ncrf" };
    for (int m = 0; m < 4; m++) {
        struct picture p = make(60, 60, 16, 243, 242, 244);
        paint(&p, 10, 10, 40, 40, 205, 130, 185);
        paint(&p, 20, 20, 10, 10, 243, 242, 244);
        paint(&p, 35, 35, 12, 12, 30, 60, 190);
        enum hrf_status status = HRF_E_NOMEM;
        for (int n = 1; status != HRF_OK; n++) {
            hrf_alloc_fail_after(n);
            status = detect(&p, methods[m], true);
            hrf_alloc_fail_after(0);
            assert_true(status == HRF_OK || status == HRF_E_NOMEM);
            assert_true(n < 200);
        }
        release(&p);
    }
}

static struct picture load(const char *name, double mpp)
{
    char path[REAL_DATA_PATH];
    png_image png = { .version = PNG_IMAGE_VERSION };
    png_color white = { 255, 255, 255 };
    real_data(name, path);
    assert_true(png_image_begin_read_from_file(&png, path));
    png.format = PNG_FORMAT_RGB;
    struct picture p = make(png.width, png.height, mpp, 0, 0, 0);
    assert_true(png_image_finish_read(&png, &white, p.rgb, 0, NULL));
    return p;
}

static void real_pen_marks_are_not_tissue(void **state)
{
    (void)state;
    struct picture blue = load("slides/wsi-blue-pen.png", 100);
    fraction(&blue, "otsu", false);
    int64_t n_ink = 0, n_taken = 0, n_pink = 0, n_kept = 0;
    for (int64_t i = 0; i < blue.width * blue.height; i++) {
        const unsigned char *q = blue.rgb + 3 * i;
        bool ink = q[2] > q[0] + 50, pink = q[0] > q[1] + 50 && q[2] > q[1] + 20;
        n_ink += ink, n_taken += ink && blue.mask[i];
        n_pink += pink, n_kept += pink && blue.mask[i];
    }
    print_message("blue pen: %d px of ink, %d taken; %d px of tissue, %d kept\n", (int)n_ink,
                  (int)n_taken, (int)n_pink, (int)n_kept);
    assert_true(n_ink > 300 && n_taken == 0);
    assert_true(n_pink > 1000 && (double)n_kept > 0.97 * (double)n_pink);
    struct picture red = load("slides/tcga-red-pen.png", 50);
    fraction(&red, "otsu", false);
    assert_true(inside(&red, 60, 180, 80, 120) == 0);     /* ink */
    assert_true(inside(&red, 260, 150, 200, 100) > 0.97); /* tissue */
    release(&blue), release(&red);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(otsu_splits_a_histogram_where_the_classes_are_farthest_apart),
        cmocka_unit_test(saturation_is_rounded_as_opencv_rounds_it),
        cmocka_unit_test(wsinfer_drops_objects_under_200_um_and_fills_holes_under_190_um),
        cmocka_unit_test(clam_keeps_large_objects_and_of_their_holes_the_ten_largest),
        cmocka_unit_test(ncrf_wants_saturation_and_no_white_and_no_black),
        cmocka_unit_test(an_empty_slide_s_noise_is_not_tissue),
        cmocka_unit_test(pale_tissue_on_nearly_empty_glass_is_found),
        cmocka_unit_test(the_second_look_finds_what_is_fainter),
        cmocka_unit_test(a_slide_full_of_tissue_keeps_its_paler_half),
        cmocka_unit_test(ink_and_black_are_not_tissue_and_tissue_beside_them_is),
        cmocka_unit_test(blood_in_small_spots_stays_with_the_tissue_around_it),
        cmocka_unit_test(a_black_slide_and_a_white_one_have_no_tissue),
        cmocka_unit_test(an_unknown_method_is_refused_with_the_known_ones),
        cmocka_unit_test(each_method_sees_the_overview_that_its_authors_use),
        cmocka_unit_test(running_out_of_memory_is_a_status),
        cmocka_unit_test(real_pen_marks_are_not_tissue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
