/* Levels compared: what sound pyramids differ by passes, lost and garbled tiles do not. */
#include "tests/unit/tiler/pyramid.h"
#include "tests/unit/unit.h"
#include "tiler/slide/slide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- two images ---- */

enum { WIDTH = 20, HEIGHT = 13 };

struct images {
    unsigned char one[HEIGHT][WIDTH][3], other[HEIGHT + 2][WIDTH + 2][3];
};

static void fill(struct images *images, int r, int g, int b)
{
    const unsigned char colour[3] = { (unsigned char)r, (unsigned char)g, (unsigned char)b };
    for (int i = 0; i < HEIGHT * WIDTH; i++)
        memcpy(images->one[0][0] + 3 * i, colour, 3);
    for (int i = 0; i < (HEIGHT + 2) * (WIDTH + 2); i++)
        memcpy(images->other[0][0] + 3 * i, colour, 3);
}

static void paint(struct images *images, int x0, int y0, int side, int r, int g, int b)
{
    const unsigned char colour[3] = { (unsigned char)r, (unsigned char)g, (unsigned char)b };
    for (int y = y0; y < y0 + side; y++)
        for (int x = x0; x < x0 + side; x++)
            memcpy(images->one[y][x], colour, 3);
}

static bool differ(const struct images *images, struct hrf_level_difference *d)
{
    return hrf_level_difference_find(images->one[0][0], images->other[0][0], WIDTH, HEIGHT, d);
}

static void a_white_square_on_tissue_is_found_where_it_is(void **state)
{
    (void)state;
    struct images images;
    struct hrf_level_difference d;
    fill(&images, 180, 110, 160);
    assert_false(differ(&images, &d));
    paint(&images, 11, 5, 8, 255, 255, 255);
    assert_true(differ(&images, &d));
    assert_true(d.column >= 8 && d.column <= 12 && d.row >= 4 && d.row <= 5);
    assert_int_equal(d.width, 8);
    assert_int_equal(d.height, 8);
    assert_int_equal(d.other[1], 110);
    assert_true(d.one[1] > 200);
}

static void the_last_columns_and_rows_are_compared_too(void **state)
{
    (void)state;
    struct images images;
    struct hrf_level_difference d;
    fill(&images, 180, 110, 160);
    paint(&images, WIDTH - 6, HEIGHT - 6, 6, 255, 255, 255);
    assert_true(differ(&images, &d));
}

static void left_out_glass_passes_and_pale_tissue_does_not(void **state)
{
    (void)state;
    struct images images;
    struct hrf_level_difference d;
    fill(&images, 228, 226, 229); /* glass */
    paint(&images, 4, 2, 10, 255, 255, 255);
    assert_false(differ(&images, &d));
    fill(&images, 232, 205, 226); /* faint tissue: the colour tells it from glass */
    paint(&images, 4, 2, 10, 255, 255, 255);
    assert_true(differ(&images, &d));
    fill(&images, 180, 110, 160);
    paint(&images, 4, 2, 10, 0, 0, 0);
    assert_true(differ(&images, &d));
}

static void a_shift_by_a_cell_passes(void **state)
{
    (void)state;
    struct images images;
    struct hrf_level_difference d;
    for (int y = 0; y < HEIGHT + 2; y++) /* the edge of the tissue, one column further on */
        for (int x = 0; x < WIDTH + 2; x++) {
            const unsigned char tissue[3] = { 170, 80, 150 }, glass[3] = { 242, 241, 243 };
            memcpy(images.other[y][x], x < 10 ? tissue : glass, 3);
            if (y < HEIGHT && x < WIDTH)
                memcpy(images.one[y][x], x < 10 ? tissue : glass, 3);
        }
    assert_false(differ(&images, &d));
}

/* ---- slides ---- */

/* A pyramid whose levels are made from the image of the level before: `filter` of 'm' mean of four
 * pixels, 'n' one of the four, 's' mean shifted by a pixel, 'x' mean, sharpened. */
struct made {
    struct pyramid pyramid;
    unsigned char *pixels[PYRAMID_MAX_LEVELS]; /* heap */
    char filter;
};

static const unsigned char *at(const struct made *m, int level, int64_t x, int64_t y)
{
    const int64_t w = m->pyramid.level[level].width, h = m->pyramid.level[level].height;
    x = x < 0 ? 0 : x < w ? x : w - 1;
    y = y < 0 ? 0 : y < h ? y : h - 1;
    return m->pixels[level] + (y * w + x) * 3;
}

static unsigned char filtered(const struct made *m, int below, int64_t x, int64_t y, int c)
{
    x = 2 * x + (m->filter == 's');
    y = 2 * y + (m->filter == 's');
    if (m->filter == 'n')
        return at(m, below, x, y)[c];
    int mean = (at(m, below, x, y)[c] + at(m, below, x + 1, y)[c] + at(m, below, x, y + 1)[c] +
                at(m, below, x + 1, y + 1)[c] + 2) /
               4;
    if (m->filter == 'x') {
        int around = (at(m, below, x - 2, y)[c] + at(m, below, x + 3, y)[c] +
                      at(m, below, x, y - 2)[c] + at(m, below, x, y + 3)[c]) /
                     4;
        mean += (mean - around) / 2;
    }
    return (unsigned char)(mean < 0 ? 0 : mean > 255 ? 255 : mean);
}

static void made_pixel(const void *context, int level, uint32_t x, uint32_t y,
                       unsigned char rgba[4])
{
    memcpy(rgba, at(context, level, x, y), 3);
}

/* From the pixels of a real slide's level 0, as JPEG at libtiff's quality of 75. */
static void make_pyramid(const char *real, char filter, const char *path)
{
    struct hrf_slide *slide = NULL;
    char from[512];
    struct made m = { .filter = filter };
    pyramid_real(real, from);
    assert_int_equal(hrf_slide_open(from, &slide, NULL), HRF_OK);
    const struct hrf_slide_info *info = hrf_slide_info(slide);
    m.pyramid = (struct pyramid){ .tile = 256, .jpeg = true, .pixel = made_pixel, .context = &m };
    pyramid_halve(&m.pyramid, (uint32_t)info->width, (uint32_t)info->height, 128);
    for (int level = 0; level < m.pyramid.n_levels; level++) {
        const int64_t w = m.pyramid.level[level].width, h = m.pyramid.level[level].height;
        m.pixels[level] = hrf_alloc_array((size_t)(w * h), 3);
        assert_non_null(m.pixels[level]);
        if (level == 0)
            assert_int_equal(hrf_slide_read(slide, 0, 0, 0, w, h, m.pixels[0], NULL), HRF_OK);
        for (int64_t i = 0; level > 0 && i < w * h * 3; i++)
            m.pixels[level][i] = filtered(&m, level - 1, i / 3 % w, i / 3 / w, (int)(i % 3));
    }
    pyramid_write(&m.pyramid, path);
    for (int level = 0; level < m.pyramid.n_levels; level++)
        hrf_free(m.pixels[level]);
    hrf_slide_close(slide);
}

/* Compares every patch of a slide; the number compared. */
static int64_t check_all(const char *path, double mpp, int64_t size, double patch_mpp)
{
    HRF_AUTO(hrf_slide) slide = NULL;
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    HRF_AUTO(hrf_level_check) check = NULL;
    struct hrf_error err = { .status = HRF_OK };
    const int64_t side = (int64_t)((double)size * patch_mpp / mpp);
    HRF_AUTO_FREE unsigned char *rgb = hrf_alloc((size_t)(size * size * 3));
    int64_t n = 0;
    assert_int_equal(hrf_slide_open(path, &slide, NULL), HRF_OK);
    assert_int_equal(hrf_patch_reader_create(slide, mpp, mpp, size, patch_mpp, &reader, NULL),
                     HRF_OK);
    assert_int_equal(hrf_level_check_create(slide, mpp, mpp, size, patch_mpp, &check, NULL),
                     HRF_OK);
    if (check == NULL)
        return 0;
    for (int64_t y = 0; y < hrf_slide_info(slide)->height; y += side)
        for (int64_t x = 0; x < hrf_slide_info(slide)->width; x += side, n++) {
            assert_int_equal(hrf_patch_reader_read(reader, x, y, rgb, NULL, NULL, NULL), HRF_OK);
            if (hrf_level_check_rows(check, x, y, 0, size, rgb, &err) != HRF_OK)
                fail_msg("%lld px at %g: %s", (long long)size, patch_mpp, err.text);
        }
    return n;
}

static void need_real(void)
{
    if (!pyramid_has_real()) {
        print_message("skipped: no real slides in HRF_SHARED_DATA\n");
        skip();
    }
}

static void real_slides_agree_with_themselves(void **state)
{
    (void)state;
    char path[512];
    need_real();
    pyramid_real("tcga-cr-7395-01a-01-ts1.svs", path); /* two levels, 2.0005 apart */
    assert_true(check_all(path, 0.5, 256, 0.5) > 200);
    pyramid_real("cmu-1-small-region.svs", path); /* one level: nothing to compare */
    assert_int_equal(check_all(path, 0.499, 256, 0.5), 0);
}

static void pyramids_of_real_slides_pass_however_they_are_reduced(void **state)
{
    (void)state;
    static const char filters[] = "mnsx";
    char path[128];
    need_real();
    for (const char *filter = filters; *filter != '\0'; filter++) {
        pyramid_path(test_folder, "made.tif", path);
        make_pyramid("cmu-1-small-region.svs", *filter, path);
        assert_true(check_all(path, 0.499, 256, 0.5) > 90);
        assert_true(check_all(path, 0.499, 224, 0.25) > 400);
        assert_true(check_all(path, 0.499, 64, 0.5) > 1500);
        assert_true(check_all(path, 0.499, 512, 2) > 1);
    }
}

/* Tissue on the left; the tile in column 1, row 1 of level 0 is left out. */
static void lost_pixel(const void *context, int level, uint32_t x, uint32_t y,
                       unsigned char rgba[4])
{
    (void)context;
    const bool is_tissue = x << level < 1024;
    const unsigned char tissue[3] = { 180, 110, 160 }, glass[3] = { 240, 240, 241 };
    (void)y;
    memcpy(rgba, is_tissue ? tissue : glass, 3);
}

static bool tile_lost(const void *context, int level, uint32_t column, uint32_t row)
{
    const uint32_t *lost = context;
    return level == 0 && column == lost[0] && row == lost[1];
}

static enum hrf_status check_with_a_lost_tile(uint32_t column, uint32_t row, int64_t first_row,
                                              int64_t n_rows, struct hrf_error *err)
{
    const uint32_t lost[2] = { column, row };
    struct pyramid p = {
        .tile = 256, .jpeg = true, .pixel = lost_pixel, .is_sparse = tile_lost, .context = lost
    };
    char path[128];
    HRF_AUTO(hrf_slide) slide = NULL;
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    HRF_AUTO(hrf_level_check) check = NULL;
    HRF_AUTO_FREE unsigned char *rgb = hrf_alloc(512 * 512 * 3);
    pyramid_halve(&p, 2048, 2048, 64);
    pyramid_path(test_folder, "lost.tif", path);
    pyramid_write(&p, path);
    assert_int_equal(hrf_slide_open(path, &slide, NULL), HRF_OK);
    assert_int_equal(hrf_patch_reader_create(slide, 0.25, 0.25, 512, 0.25, &reader, NULL), HRF_OK);
    assert_int_equal(hrf_level_check_create(slide, 0.25, 0.25, 512, 0.25, &check, NULL), HRF_OK);
    assert_non_null(check);
    const int64_t x0 = column / 2 * 512;
    assert_int_equal(
        hrf_patch_reader_read_rows(reader, x0, 0, first_row, n_rows, rgb, NULL, NULL, NULL),
        HRF_OK);
    return hrf_level_check_rows(check, x0, 0, first_row, n_rows, rgb, err);
}

static void a_left_out_tile_is_told_in_tissue_and_passes_on_glass(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(check_with_a_lost_tile(1, 1, 0, 512, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "lost.tif' is damaged: levels 0 and 5 do not show the same at "
                                     "x 256, y 256 (256 x 256 px of level 0): R 255 G 255 B 255 on "
                                     "level 0, R 18"));
    assert_int_equal(check_with_a_lost_tile(6, 1, 0, 512, &err), HRF_OK);
}

static void rows_of_a_patch_are_checked_by_themselves(void **state)
{
    (void)state;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(check_with_a_lost_tile(1, 1, 0, 256, &err), HRF_OK);
    assert_int_equal(check_with_a_lost_tile(1, 1, 250, 200, &err), HRF_E_USER);
    assert_int_equal(check_with_a_lost_tile(1, 1, 257, 20, &err), HRF_OK); /* not a cell high */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_white_square_on_tissue_is_found_where_it_is),
        cmocka_unit_test(the_last_columns_and_rows_are_compared_too),
        cmocka_unit_test(left_out_glass_passes_and_pale_tissue_does_not),
        cmocka_unit_test(a_shift_by_a_cell_passes),
        cmocka_unit_test(real_slides_agree_with_themselves),
        cmocka_unit_test(pyramids_of_real_slides_pass_however_they_are_reduced),
        cmocka_unit_test(a_left_out_tile_is_told_in_tissue_and_passes_on_glass),
        cmocka_unit_test(rows_of_a_patch_are_checked_by_themselves),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
