/* Levels compared: what sound pyramids differ by passes, lost and garbled tiles do not. */
#include "base/min_max.h"
#include "base/processor.h"
#include "base/random.h"
#include "tests/unit/real_data.h"
#include "tests/unit/tiler/pyramid.h"
#include "tests/unit/tiler/synthetic_patches.h"
#include "tests/unit/unit.h"
#include "tiler/slide/column_sums.h"
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
    return hrf_level_difference_find(images->one[0][0], images->other[0][0], WIDTH, HEIGHT, 8, d);
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

/* ---- sums ---- */

enum { PIXELS = 96, STRIDE = 3 * PIXELS + 7, ROWS = HRF_COLUMN_SUMS_MAX_ROWS };

static void sum_by_hand(const unsigned char *rgb, int64_t n_rows, const int32_t *begins, int64_t n,
                        int32_t *sums)
{
    for (int64_t y = 0; y < n_rows; y++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 3 * begins[i]; k < 3 * begins[i + 1]; k++)
                sums[3 * i + k % 3] += rgb[y * STRIDE + k];
}

/* Cells of all widths and places, rows of all numbers in one or two parts, by an instance and by
 * hand. */
static void check_columns(const struct hrf_column_sums *adder, const unsigned char *rgb,
                          struct hrf_random *random)
{
    for (int round = 0; round < 3000; round++) {
        const int64_t n_pixels = 1 + hrf_random_below(random, PIXELS);
        const int64_t n_rows = 1 + hrf_random_below(random, ROWS);
        const int64_t n_before = hrf_random_below(random, n_rows);
        const bool is_first = round % 4 != 0;
        uint16_t columns[6 * PIXELS];
        int32_t begins[PIXELS + 1] = { (int32_t)hrf_random_below(random, n_pixels) };
        int32_t found[3 * PIXELS], wanted[3 * PIXELS];
        int64_t n = 0;
        for (; begins[n] < n_pixels; n++)
            begins[n + 1] = (int32_t)hrf_min(
                n_pixels, begins[n] + 1 + hrf_random_below(random, round % 2 == 0 ? 70 : 20));
        for (int64_t i = 0; i < 3 * PIXELS; i++) {
            found[i] = (int32_t)i;
            wanted[i] = is_first && i < 3 * n ? 0 : found[i];
        }
        assert_true(hrf_column_sums_size(n_pixels) <= 6 * PIXELS);
        memset(columns, 0xa5, sizeof columns);
        adder->add(rgb, STRIDE, n_rows - n_before, n_pixels, true, columns);
        adder->add(rgb + (n_rows - n_before) * STRIDE, STRIDE, n_before, n_pixels, false, columns);
        adder->fold(columns, n_pixels, begins, n, is_first, found);
        sum_by_hand(rgb, n_rows, begins, n, wanted);
        assert_memory_equal(found, wanted, sizeof found);
    }
}

/* Eight rows of whole blocks, for both widths of cells. */
static void check_blocks(const struct hrf_column_sums *adder, const unsigned char *rgb,
                         struct hrf_random *random)
{
    for (int round = 0; round < 300 && adder->add_blocks != NULL; round++) {
        const int64_t n_pixels = HRF_COLUMN_SUMS_BLOCK * (1 + hrf_random_below(random, 3));
        const int64_t width = round % 2 == 0 ? 8 : 16, n = n_pixels / width;
        const unsigned char *rows = rgb + hrf_random_below(random, ROWS - 8) * STRIDE;
        int32_t begins[PIXELS + 1], found[3 * PIXELS], wanted[3 * PIXELS];
        for (int64_t i = 0; i <= n; i++)
            begins[i] = (int32_t)(i * width);
        for (int64_t i = 0; i < 3 * PIXELS; i++) {
            found[i] = (int32_t)i;
            wanted[i] = i < 3 * n ? 0 : found[i];
        }
        adder->add_blocks(rows, STRIDE, n_pixels, width, true, found);
        adder->add_blocks(rgb, STRIDE, n_pixels, width, false, found);
        sum_by_hand(rows, 8, begins, n, wanted);
        sum_by_hand(rgb, 8, begins, n, wanted);
        assert_memory_equal(found, wanted, sizeof found);
    }
}

static void check_sums(const struct hrf_column_sums *adder)
{
    static unsigned char rgb[ROWS * STRIDE];
    struct hrf_random random = hrf_random_init(5);
    for (size_t i = 0; i < sizeof rgb; i++) /* many of the largest values: sums that overflow */
        rgb[i] = (unsigned char)(i % 3 == 0 ? 255 : hrf_random_below(&random, 256));
    check_columns(adder, rgb, &random);
    check_blocks(adder, rgb, &random);
}

static void every_instance_sums_up_every_pixel(void **state)
{
    (void)state;
    check_sums(&hrf_column_sums_plain);
#ifdef HRF_BUILD_X86
    if (hrf_processor_has_avx2())
        check_sums(&hrf_column_sums_avx2);
    if (hrf_processor_has_avx512())
        check_sums(&hrf_column_sums_avx512);
#endif
}

/* ---- slides ---- */

/* How levels may be reduced, and what may be wrong with them (struct made, do_damage()): one of
 * each where AddressSanitizer makes it ten times as slow. */
#ifdef __SANITIZE_ADDRESS__
static const char filters[] = "x", damages[] = "m", moved_filters[] = "n";
#else
static const char filters[] = "mnsx", damages[] = "wbmh", moved_filters[] = "mnx";
#endif

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

static unsigned char *drawn; /* once: that takes a third of a second */

static int leave(void **state)
{
    hrf_free(drawn);
    return remove_test_folder(state);
}

static unsigned char *draw_picture(int64_t *w, int64_t *h)
{
    *w = *h = 2400;
    if (drawn == NULL)
        drawn = synthetic_patches(1, *h, true);
    assert_non_null(drawn);
    unsigned char *rgb = hrf_alloc_array((size_t)(*w * *h), 3);
    assert_non_null(rgb);
    memcpy(rgb, drawn, (size_t)(*w * *h) * 3);
    return rgb;
}

static bool find_real_picture(char path[REAL_DATA_PATH])
{
    const char *folder = getenv("HRF_SHARED_DATA");
    snprintf(path, REAL_DATA_PATH, "%s/slides/cmu-1-small-region.svs",
             folder != NULL ? folder : "../shared/data");
    return hrf_path_exists(path);
}

/* The picture of a real slide, or a made-up one where that is not there: w x h RGB. */
static unsigned char *read_picture(int64_t *w, int64_t *h)
{
    HRF_AUTO(hrf_slide) slide = NULL;
    char from[REAL_DATA_PATH];
    if (!find_real_picture(from)) {
        print_message("skipped: '%s' is not there; a made-up slide instead\n", from);
        return draw_picture(w, h);
    }
    assert_int_equal(hrf_slide_open(from, &slide, NULL), HRF_OK);
    *w = hrf_slide_info(slide)->width;
    *h = hrf_slide_info(slide)->height;
    unsigned char *rgb = hrf_alloc_array((size_t)(*w * *h), 3);
    assert_int_equal(hrf_slide_read(slide, 0, 0, 0, *w, *h, rgb, NULL, NULL), HRF_OK);
    return rgb;
}

/* Of level 0 alone: every odd row white, black or mirrored, or the right half moved by 64 px. */
static void do_damage(unsigned char *rgb, int64_t width, int64_t height, char damage)
{
    for (int64_t y = 0; y < height; y++) {
        unsigned char *row = rgb + y * width * 3;
        if (damage == 'h')
            memmove(row + width / 2 * 3, row + (width / 2 + 64) * 3,
                    (size_t)(width - width / 2 - 64) * 3);
        if (y % 2 == 0)
            continue;
        if (damage == 'w' || damage == 'b')
            memset(row, damage == 'w' ? 255 : 0, (size_t)width * 3);
        for (int64_t x = 0; damage == 'm' && x < width / 2; x++) {
            unsigned char pixel[3];
            memcpy(pixel, row + 3 * x, 3);
            memcpy(row + 3 * x, row + 3 * (width - 1 - x), 3);
            memcpy(row + 3 * (width - 1 - x), pixel, 3);
        }
    }
}

/* `damage`: do_damage(); 0: none. A pyramid over a picture, which it takes over, as JPEG at
 * libtiff's quality of 75. */
static void make_pyramid(unsigned char *rgb, int64_t width, int64_t height, char filter,
                         char damage, const char *path)
{
    struct made m = { .filter = filter };
    m.pyramid = (struct pyramid){ .tile = 256, .jpeg = true, .pixel = made_pixel, .context = &m };
    pyramid_halve(&m.pyramid, (uint32_t)width, (uint32_t)height, 128);
    m.pixels[0] = rgb;
    for (int level = 1; level < m.pyramid.n_levels; level++) {
        const int64_t w = m.pyramid.level[level].width, h = m.pyramid.level[level].height;
        m.pixels[level] = hrf_alloc_array((size_t)(w * h), 3);
        assert_non_null(m.pixels[level]);
        for (int64_t i = 0; i < w * h * 3; i++)
            m.pixels[level][i] = filtered(&m, level - 1, i / 3 % w, i / 3 / w, (int)(i % 3));
    }
    do_damage(rgb, width, height, damage);
    pyramid_write(&m.pyramid, path);
    for (int level = 0; level < m.pyramid.n_levels; level++)
        hrf_free(m.pixels[level]);
}

/* Compares every patch of a slide; the number compared. n_refused NULL: none may be. */
static int64_t compare_all(const char *path, double mpp, int64_t size, double patch_mpp,
                           int64_t *n_refused)
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
            if (hrf_level_check_rows(check, x, y, 0, size, rgb, &err) == HRF_OK)
                continue;
            if (n_refused == NULL)
                fail_msg("%lld px at %g: %s", (long long)size, patch_mpp, err.text);
            ++*n_refused;
        }
    return n;
}

static int64_t check_all(const char *path, double mpp, int64_t size, double patch_mpp)
{
    return compare_all(path, mpp, size, patch_mpp, NULL);
}

static void real_slides_agree_with_themselves(void **state)
{
    (void)state;
    char path[REAL_DATA_PATH];
    real_data("slides/tcga-cr-7395-01a-01-ts1.svs", path); /* two levels, 2.0005 apart */
    assert_true(check_all(path, 0.5, 256, 0.5) > 200);
    real_data("slides/cmu-1-small-region.svs", path); /* one level: nothing to compare */
    assert_int_equal(check_all(path, 0.499, 256, 0.5), 0);
}

/* Patches of `side` pixels of level 0 that cover w x h pixels. */
static int64_t count_patches(int64_t w, int64_t h, int64_t side)
{
    return hrf_ceil_div(w, side) * hrf_ceil_div(h, side);
}

static void pyramids_of_a_slide_pass_however_they_are_reduced(void **state)
{
    (void)state;
    char path[128];
    int64_t w, h;
    for (const char *filter = filters; *filter != '\0'; filter++) {
        pyramid_path(test_folder, "made.tif", path);
        unsigned char *rgb = read_picture(&w, &h);
        make_pyramid(rgb, w, h, *filter, 0, path);
        assert_int_equal(check_all(path, 0.499, 256, 0.5), count_patches(w, h, 256));
        assert_int_equal(check_all(path, 0.499, 224, 0.25), count_patches(w, h, 112));
        assert_int_equal(check_all(path, 0.499, 64, 0.5), count_patches(w, h, 64));
        assert_int_equal(check_all(path, 0.499, 512, 2), count_patches(w, h, 2052));
    }
}

/* Half of the rows are sound; the half that is not counts as much. */
static void level_0_of_which_every_other_row_is_wrong_is_refused(void **state)
{
    (void)state;
    char path[128];
    pyramid_path(test_folder, "wrong.tif", path);
    for (const char *damage = damages; *damage != '\0'; damage++) {
        int64_t w, h, n_refused = 0;
        unsigned char *rgb = read_picture(&w, &h);
        for (int64_t i = 0; i < w * h; i++) /* glass: a made-up slide is the same everywhere */
            if (i % w < w / 3 || (i % w > w * 7 / 10 && i % w < w * 8 / 10))
                memset(rgb + 3 * i, 240, 3);
        make_pyramid(rgb, w, h, 'm', *damage, path);
        const int64_t n = compare_all(path, 0.499, 256, 0.5, &n_refused);
        print_message("damage '%c': %lld of %lld patches refused\n", *damage, (long long)n_refused,
                      (long long)n);
        assert_true(n_refused >= 3);
    }
}

/* Tissue of one colour everywhere: no mean tells that half of the level is moved by 64 px (32 um),
 * its texture does. */
static void a_move_within_even_tissue_is_refused(void **state)
{
    (void)state;
    unsigned char *(*const pictures[])(int64_t *, int64_t *) = { draw_picture, read_picture };
    char path[128], real[REAL_DATA_PATH];
    const int n_pictures = find_real_picture(real) ? 2 : 1;
    pyramid_path(test_folder, "moved.tif", path);
    for (const char *filter = moved_filters; *filter != '\0'; filter++)
        for (int i = 0; i < n_pictures; i++) {
            int64_t w, h, n_refused = 0, n_squares = 0;
            unsigned char *rgb = pictures[i](&w, &h);
            make_pyramid(rgb, w, h, *filter, 'h', path);
            const int64_t n = compare_all(path, 0.499, 256, 0.5, &n_refused);
            const int64_t all = compare_all(path, 0.499, 128, 0.5, &n_squares);
            print_message(
                "filter '%c', picture %d: %lld of %lld patches of 128 um refused, %lld of "
                "%lld of one square\n",
                *filter, i, (long long)n_refused, (long long)n, (long long)n_squares,
                (long long)all);
            assert_true(n_refused >= 10 && n_squares >= 20);
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
    assert_non_null(strstr(err.text, "lost.tif' is damaged: levels 0 and 4 do not show the same at "
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
        cmocka_unit_test(every_instance_sums_up_every_pixel),
        cmocka_unit_test(real_slides_agree_with_themselves),
        cmocka_unit_test(pyramids_of_a_slide_pass_however_they_are_reduced),
        cmocka_unit_test(level_0_of_which_every_other_row_is_wrong_is_refused),
        cmocka_unit_test(a_move_within_even_tissue_is_refused),
        cmocka_unit_test(a_left_out_tile_is_told_in_tissue_and_passes_on_glass),
        cmocka_unit_test(rows_of_a_patch_are_checked_by_themselves),
    };
    return cmocka_run_group_tests(tests, make_test_folder, leave);
}
