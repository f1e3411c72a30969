/* The grid of patches, by value. */
#include "base/alloc.h"
#include "base/random.h"
#include "tests/unit/unit.h"
#include "tiler/grid/grid.h"

#include <math.h>
#include <string.h>

static struct hrf_grid make(int64_t width, int64_t height, double mpp_x, double mpp_y, int64_t size,
                            double mpp, int64_t stride)
{
    struct hrf_grid grid;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_grid_make(width, height, mpp_x, mpp_y, size, mpp, stride, &grid, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return grid;
}

static void patches_are_laid_side_by_side_from_the_corner(void **state)
{
    (void)state;
    struct hrf_grid grid = make(2048, 1535, 0.25, 0.25, 256, 0.5, 256);
    assert_int_equal(grid.patch_width, 512);
    assert_int_equal(grid.patch_height, 512);
    assert_int_equal(grid.columns, 4);
    assert_int_equal(grid.rows, 2); /* 1535 = 2 * 512 + 511: the third is not whole */
    assert_int_equal(hrf_grid_x(&grid, 3), 1536);
    assert_int_equal(hrf_grid_y(&grid, 1), 512);
    assert_int_equal(make(2048, 1536, 0.25, 0.25, 256, 0.5, 256).rows, 3);
}

static void each_direction_has_its_own_resolution(void **state)
{
    (void)state;
    struct hrf_grid grid = make(10000, 10000, 0.25, 0.2, 200, 0.5, 100);
    assert_int_equal(grid.patch_width, 400);
    assert_int_equal(grid.patch_height, 500);
    assert_true(grid.stride_x == 200 && grid.stride_y == 250);
    assert_int_equal(grid.columns, (10000 - 400) / 200 + 1);
    assert_int_equal(grid.rows, (10000 - 500) / 250 + 1);
}

static void a_stride_that_is_no_whole_number_does_not_drift(void **state)
{
    (void)state;
    struct hrf_grid grid = make(97792, 221184, 0.2439, 0.2439, 256, 0.5, 256);
    double stride = 256 * 0.5 / 0.2439; /* 524.8 */
    assert_int_equal(grid.patch_width, 525);
    assert_int_equal(hrf_grid_x(&grid, 1), 525);
    assert_int_equal(hrf_grid_x(&grid, 2), 1050);
    assert_int_equal(hrf_grid_x(&grid, 100), llround(100 * stride));
    assert_true(hrf_grid_x(&grid, grid.columns - 1) + 525 <= 97792);
    assert_true(hrf_grid_x(&grid, grid.columns) + 525 > 97792);
}

static void a_slide_smaller_than_one_patch_has_none(void **state)
{
    (void)state;
    struct hrf_grid grid = make(511, 4000, 0.25, 0.25, 256, 0.5, 256);
    assert_int_equal(grid.columns, 0);
    assert_int_equal(grid.rows, 7);
    grid = make(1, 1, 0.25, 0.25, 256, 0.5, 256);
    assert_int_equal(grid.columns, 0);
    assert_int_equal(grid.rows, 0);
    assert_int_equal(make(512, 512, 0.25, 0.25, 256, 0.5, 256).columns, 1);
}

static void every_patch_is_inside_and_the_next_is_not_over_random_geometry(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(7);
    for (int i = 0; i < 2000; i++) {
        int64_t w = 1 + hrf_random_below(&random, 5000), h = 1 + hrf_random_below(&random, 5000);
        double mpp_x = 0.1 + hrf_random_unit(&random), mpp_y = 0.1 + hrf_random_unit(&random);
        double mpp = 0.1 + hrf_random_unit(&random);
        int64_t size = 1 + hrf_random_below(&random, 300);
        int64_t stride = 20 + hrf_random_below(&random, 300);
        struct hrf_grid grid = make(w, h, mpp_x, mpp_y, size, mpp, stride);
        if (grid.columns > 0)
            assert_true(hrf_grid_x(&grid, grid.columns - 1) + grid.patch_width <= w);
        if (grid.rows > 0)
            assert_true(hrf_grid_y(&grid, grid.rows - 1) + grid.patch_height <= h);
        assert_true(hrf_grid_x(&grid, grid.columns) + grid.patch_width > w);
        assert_true(hrf_grid_y(&grid, grid.rows) + grid.patch_height > h);
    }
}

/* Against every pixel of a line: which the patches cover, and where they are allowed to be. */
static void edges_cover_every_pixel_that_they_promise(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(11);
    for (int i = 0; i < 2000; i++) {
        const int64_t w = 1 + hrf_random_below(&random, 3000);
        const int64_t size = 1 + hrf_random_below(&random, 300);
        const int64_t stride = 1 + hrf_random_below(&random, size); /* no gaps between patches */
        const double mpp_x = 0.1 + hrf_random_unit(&random);
        const double mpp = mpp_x * (1 + hrf_random_unit(&random));
        for (int edge = HRF_EDGE_PAD; edge <= HRF_EDGE_SHIFT; edge++) {
            struct hrf_grid grid = make(w, w, mpp_x, mpp_x, size, mpp, stride);
            const int32_t whole = grid.columns;
            assert_int_equal(hrf_grid_cover_edge(&grid, (enum hrf_edge)edge, NULL), HRF_OK);
            assert_true(grid.columns == whole || grid.columns == whole + 1);
            int64_t covered = 0;
            for (int32_t c = 0; c < grid.columns; c++) {
                const int64_t x = hrf_grid_x(&grid, c);
                assert_true(x >= 0 && x < w && x <= covered + 1); /* strides are not rounded */
                assert_true(edge == HRF_EDGE_PAD || x + grid.patch_width <= w);
                assert_true(c == 0 || x > hrf_grid_x(&grid, c - 1));
                covered = x + grid.patch_width;
            }
            if (edge == HRF_EDGE_SHIFT && w < grid.patch_width)
                assert_int_equal(grid.columns, 0);
            else
                assert_true(covered + 1 >= w);
        }
    }
}

static void what_makes_no_grid_is_refused(void **state)
{
    (void)state;
    struct hrf_grid grid;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_grid_make(100, 100, 1, 1, 64, 0.5, 1, &grid, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "a stride of 1 px at 0.5 um/px is under one pixel"));
    assert_int_equal(hrf_grid_make(100000, 100000, 0.25, 0.25, 1, 0.25, 1, &grid, &err),
                     HRF_E_USER);
    assert_non_null(strstr(err.text, "a grid of 100000 x 100000 patches is more than 2^31"));
    assert_int_equal(hrf_grid_make(100, 100, 0, 1, 64, 0.5, 64, &grid, NULL), HRF_E_USER);
    assert_int_equal(hrf_grid_make(100, 100, 1, 1, 0, 0.5, 64, &grid, NULL), HRF_E_USER);
    assert_int_equal(hrf_grid_make(100, 100, 1, 1, 64, 0.5, 0, &grid, NULL), HRF_E_USER);
    assert_int_equal(hrf_grid_make(100, 100, 1, 1, 64, NAN, 64, &grid, NULL), HRF_E_USER);
}

static void tissue_under_a_rectangle_is_what_counting_gives(void **state)
{
    (void)state;
    enum { W = 37, H = 29 };
    unsigned char mask[W * H];
    struct hrf_random random = hrf_random_init(9);
    struct hrf_mask_sums sums;
    for (int i = 0; i < W * H; i++)
        mask[i] = hrf_random_unit(&random) < 0.4 ? 255 : 0;
    assert_int_equal(hrf_mask_sums_make(mask, W, H, &sums, NULL), HRF_OK);
    for (int i = 0; i < 500; i++) {
        int64_t x = hrf_random_below(&random, W), y = hrf_random_below(&random, H);
        int64_t w = 1 + hrf_random_below(&random, W - x), h = 1 + hrf_random_below(&random, H - y);
        int64_t n = 0;
        for (int64_t v = y; v < y + h; v++)
            for (int64_t u = x; u < x + w; u++)
                n += mask[v * W + u] != 0;
        double got = hrf_mask_fraction(&sums, (double)x / W, (double)(x + w) / W, (double)y / H,
                                       (double)(y + h) / H);
        assert_true(fabs(got - (double)n / (double)(w * h)) < 1e-12);
    }
    hrf_mask_sums_release(&sums);
}

static void a_rectangle_smaller_than_a_mask_pixel_takes_the_one_it_lies_on(void **state)
{
    (void)state;
    unsigned char mask[4] = { 0, 255, 0, 0 };
    struct hrf_mask_sums sums;
    assert_int_equal(hrf_mask_sums_make(mask, 2, 2, &sums, NULL), HRF_OK);
    assert_true(hrf_mask_fraction(&sums, 0.7, 0.72, 0.1, 0.12) == 1);
    assert_true(hrf_mask_fraction(&sums, 0.1, 0.12, 0.1, 0.12) == 0);
    assert_true(hrf_mask_fraction(&sums, 0.99, 1.0, 0.1, 0.12) == 1);
    assert_true(hrf_mask_fraction(&sums, 0.99, 1.0, 0.99, 1.0) == 0);
    hrf_mask_sums_release(&sums);
    hrf_alloc_fail_after(1);
    assert_int_equal(hrf_mask_sums_make(mask, 2, 2, &sums, NULL), HRF_E_NOMEM);
    hrf_alloc_fail_after(0);
}

/* A mask pixel is 100 px of a slide of 1000; patches of 70 px, one of them with 1 px of tissue. */
static void with_least_0_a_patch_that_touches_tissue_is_kept(void **state)
{
    (void)state;
    unsigned char mask[100] = { 0 };
    struct hrf_mask_sums sums;
    const struct hrf_grid grid = make(1000, 1000, 0.5, 0.5, 70, 0.5, 70);
    int n = 0;
    mask[5 * 10 + 3] = 255; /* x 300 to 399, y 500 to 599 */
    assert_int_equal(hrf_mask_sums_make(mask, 10, 10, &sums, NULL), HRF_OK);
    for (int64_t x = 0; x <= 930; x++)
        for (int64_t y = 480; y < 482; y++) {
            const bool touches = x + 70 > 300 && x < 400;
            assert_int_equal(hrf_grid_keeps(&grid, &sums, x, y, 0), touches);
            assert_true(touches || !hrf_grid_keeps(&grid, &sums, x, y, 1e-9));
            n += touches && hrf_grid_tissue(&grid, &sums, x, y) == 0;
        }
    assert_true(n > 0); /* which a fraction of whole mask pixels leaves out */
    assert_false(hrf_grid_keeps(&grid, &sums, 310, 430, 0));
    assert_true(hrf_grid_keeps(&grid, &sums, 310, 431, 0));
    assert_true(hrf_grid_keeps(&grid, &sums, 310, 599, 0));
    assert_false(hrf_grid_keeps(&grid, &sums, 310, 600, 0));
    hrf_mask_sums_release(&sums);
}

static void what_no_slide_can_hold_is_refused_and_not_counted(void **state)
{
    (void)state;
    struct hrf_grid grid;
    struct hrf_error err;
    assert_int_equal(hrf_grid_make(1500, 1452, 0.25, 0.25, 256, (double)INFINITY, 256, &grid, &err),
                     HRF_E_USER);
    assert_int_equal(hrf_grid_make(1500, 1452, 0.25, 0.25, 64, 0.5, INT64_MAX, &grid, &err),
                     HRF_E_USER);
    assert_int_equal(hrf_grid_make(1500, 1452, 0.25, 0.25, INT64_MAX, 0.5, 64, &grid, &err),
                     HRF_E_USER);
    assert_non_null(strstr(err.text, "2^31 are the most"));
    assert_int_equal(hrf_grid_make(1500, 1452, 0.25, 0.25, 64, 0.5, 1 << 29, &grid, &err), HRF_OK);
    assert_int_equal(grid.columns * grid.rows, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patches_are_laid_side_by_side_from_the_corner),
        cmocka_unit_test(each_direction_has_its_own_resolution),
        cmocka_unit_test(a_stride_that_is_no_whole_number_does_not_drift),
        cmocka_unit_test(a_slide_smaller_than_one_patch_has_none),
        cmocka_unit_test(every_patch_is_inside_and_the_next_is_not_over_random_geometry),
        cmocka_unit_test(edges_cover_every_pixel_that_they_promise),
        cmocka_unit_test(what_makes_no_grid_is_refused),
        cmocka_unit_test(tissue_under_a_rectangle_is_what_counting_gives),
        cmocka_unit_test(a_rectangle_smaller_than_a_mask_pixel_takes_the_one_it_lies_on),
        cmocka_unit_test(with_least_0_a_patch_that_touches_tissue_is_kept),
        cmocka_unit_test(what_no_slide_can_hold_is_refused_and_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
