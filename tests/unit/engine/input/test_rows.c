/* Parts of a large region, read by any number of threads, against the region's own pixels. */
#include "tests/unit/directory.h"
#include "tests/unit/unit.h"

#include "engine/input/rows.h"
#include "engine/plan/region.h"
#include "tests/unit/tiler/pyramid.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIDE = 1500, SIZE = 1100, LEFT = -60, TOP = 90 };

/* Where a pixel is, in its colours. */
static void place_pixel(const void *context, int level, uint32_t x, uint32_t y,
                        unsigned char rgba[4])
{
    (void)context;
    (void)level;
    rgba[0] = (unsigned char)x;
    rgba[1] = (unsigned char)y;
    rgba[2] = (unsigned char)((x >> 8) * 16 + (y >> 8));
}

static struct hrf_slide *open_slide(void)
{
    struct pyramid p = {
        .n_levels = 1, .level = { { SIDE, SIDE } }, .tile = 128, .pixel = place_pixel
    };
    struct hrf_slide *slide = NULL;
    char path[128];
    pyramid_path(directory, "rows.tif", path);
    pyramid_write(&p, path);
    assert_int_equal(hrf_slide_open(path, &slide, NULL), HRF_OK);
    return slide;
}

/* The value of a channel of the region's pixel, normalised; white left of the slide. */
static float expected(int64_t row, int64_t column, int c)
{
    unsigned char rgba[4] = { 255, 255, 255, 255 };
    if (LEFT + column >= 0)
        place_pixel(NULL, 0, (uint32_t)(LEFT + column), (uint32_t)(TOP + row), rgba);
    return (float)((rgba[c] / 255.0 - 0.5) / 0.25);
}

static void check_part(struct hrf_slide *slide, const struct hrf_box *box, int32_t n_readers)
{
    static float out[(SIZE * SIZE + 1) * 3];
    struct hrf_patch patch = { LEFT, TOP };
    const struct hrf_tile_plan plan = { .mpp_x = 0.5,
                                        .mpp_y = 0.5,
                                        .patch_size = SIZE,
                                        .patch_mpp = 0.5,
                                        .n_patches = 1,
                                        .patches = &patch };
    const int64_t rows = box->hi[0] - box->lo[0], columns = box->hi[1] - box->lo[1];
    const struct hrf_rows_config config = { .slide = slide,
                                            .plan = &plan,
                                            .first_row = box->lo[0],
                                            .n_rows = rows,
                                            .first_column = box->lo[1],
                                            .n_columns = columns,
                                            .mean = { 0.5, 0.5, 0.5 },
                                            .std = { 0.25, 0.25, 0.25 },
                                            .n_readers = n_readers };
    struct hrf_feed_times times = { 0 };
    out[rows * columns * 3] = 77;
    assert_int_equal(hrf_rows_read(&config, out, &times, NULL), HRF_OK);
    for (int64_t r = 0; r < rows; r += 7)
        for (int64_t c = 0; c < columns; c += c < 4 || c > columns - 6 ? 1 : 13)
            for (int k = 0; k < 3; k++) {
                const float wanted = expected(box->lo[0] + r, box->lo[1] + c, k);
                if (fabsf(out[(r * columns + c) * 3 + k] - wanted) > 1e-6f)
                    fail_msg("row %d, column %d, channel %d", (int)r, (int)c, k);
            }
    assert_true(out[rows * columns * 3] == 77); /* and nothing beyond */
    assert_true(times.decode > 0 && times.wait > 0);
}

static void every_part_is_what_the_region_has_there(void **state)
{
    (void)state;
    static const struct hrf_box boxes[] = {
        { { 0, 0 }, { SIZE, SIZE } },   /* the whole */
        { { 511, 0 }, { 514, SIZE } },  /* rows of two threads' strips */
        { { 0, 550 }, { 640, SIZE } },  /* the upper right of a grid */
        { { 1099, 37 }, { SIZE, 38 } }, /* one pixel */
    };
    HRF_AUTO(hrf_slide) slide = open_slide();
    for (size_t i = 0; i < sizeof boxes / sizeof boxes[0]; i++)
        for (int32_t n = 1; n <= 3; n += 2)
            check_part(slide, &boxes[i], n);
}

/* Of one colour at level 1; at level 0 a tile in its lower right is left out. */
static void tissue_pixel(const void *context, int level, uint32_t x, uint32_t y,
                         unsigned char rgba[4])
{
    const unsigned char tissue[3] = { 180, 110, 160 };
    (void)context, (void)level, (void)x, (void)y;
    memcpy(rgba, tissue, sizeof tissue);
}

static bool is_left_out(const void *context, int level, uint32_t column, uint32_t row)
{
    (void)context;
    return level == 0 && column == 3 && row == 6;
}

static void rows_on_a_left_out_tile_are_told_from_a_coarser_level(void **state)
{
    (void)state;
    static float out[1024 * 1024 * 3];
    struct pyramid p = { .tile = 128, .pixel = tissue_pixel, .is_sparse = is_left_out };
    char path[128];
    struct hrf_patch patch = { 0, 0 };
    const struct hrf_tile_plan plan = { .mpp_x = 0.5,
                                        .mpp_y = 0.5,
                                        .patch_size = 1024,
                                        .patch_mpp = 0.5,
                                        .n_patches = 1,
                                        .patches = &patch };
    struct hrf_rows_config config = {
        .plan = &plan, .n_rows = 512, .std = { 1, 1, 1 }, .n_readers = 2
    };
    struct hrf_feed_times times = { 0 };
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_slide) slide = NULL;
    pyramid_halve(&p, 1024, 1024, 128);
    pyramid_path(directory, "left-out.tif", path);
    pyramid_write(&p, path);
    assert_int_equal(hrf_slide_open(path, &slide, NULL), HRF_OK);
    config.slide = slide;
    assert_int_equal(hrf_rows_read(&config, out, &times, NULL), HRF_OK); /* the upper half */
    config.first_row = 512;
    assert_int_equal(hrf_rows_read(&config, out, &times, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "do not show the same at x 384, y 768"));
    struct hrf_tile_plan other = plan; /* as if another reader of slides had made it */
    other.read_level = 1;
    config.plan = &other;
    config.first_row = 0;
    assert_int_equal(hrf_rows_read(&config, out, &times, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "read from level 0, and the tile plan was made from level 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_is_what_the_region_has_there),
        cmocka_unit_test(rows_on_a_left_out_tile_are_told_from_a_coarser_level),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
