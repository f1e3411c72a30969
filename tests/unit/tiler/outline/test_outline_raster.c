/* test_outline_raster.c - areas as pixels: against the rule for single points, and how much is
 * looked at. */
#include "tiler/outline/outline_raster.h"

#include "base/random.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

static void add(struct hrf_outline_raster *raster, bool is_new, unsigned char value,
                const struct hrf_point *points, size_t n)
{
    struct hrf_error err = { .status = HRF_OK };
    if (is_new)
        assert_int_equal(hrf_outline_raster_add_area(raster, value, &err), HRF_OK);
    if (hrf_outline_raster_add_ring(raster, points, n, &err) != HRF_OK)
        fail_msg("%s", err.text);
}

static bool is_in_ring(const struct hrf_point *points, size_t n, double x, double y)
{
    bool inside = false;
    for (size_t i = 0, j = n - 1; i < n; j = i++) {
        const struct hrf_point *a = &points[i], *b = &points[j];
        if ((a->y > y) != (b->y > y) && x < (b->x - a->x) * (y - a->y) / (b->y - a->y) + a->x)
            inside = !inside;
    }
    return inside;
}

enum { SIDE = 48, AREAS = 5, RINGS = 2, POINTS = 40 };

/* Steps that are no powers of two, a part of a grid, vertices on centres and far outside, and rings
 * with few and with many crossings in a row. */
static void a_pixel_has_the_value_of_the_last_area_that_its_centre_is_in(void **state)
{
    (void)state;
    static struct hrf_point points[AREAS][RINGS][POINTS];
    struct hrf_random random = hrf_random_init(16);
    for (int round = 0; round < 200; round++) {
        const struct hrf_raster_grid grid = {
            .x = { 1.0 + hrf_random_unit(&random) * 40.0, 0.5 },
            .y = { round % 2 == 0 ? 16.0 : 1.0 + hrf_random_unit(&random) * 40.0, 0.625 },
            .x0 = round % 3 == 0 ? 7 : -7,
            .y0 = 11,
            .width = SIDE - round % 5,
            .height = SIDE - round % 7
        };
        unsigned char pixels[SIDE * SIDE];
        int64_t n_painted = 0, n_wanted = 0;
        size_t n_points[AREAS][RINGS];
        HRF_AUTO_RELEASE(hrf_outline_raster) raster;
        hrf_outline_raster_init(&raster, &grid);
        memset(pixels, 99, sizeof pixels);
        for (int a = 0; a < AREAS; a++)
            for (int r = 0; r < RINGS; r++) {
                struct hrf_point *ring = points[a][r];
                const size_t n = n_points[a][r] = 1 + (size_t)(hrf_random_unit(&random) * POINTS);
                for (size_t i = 0; i < n; i++) {
                    const double outside = i == 3 && round % 4 == 0 ? HRF_PLACE_FARTHEST : 1.0;
                    ring[i] = (struct hrf_point){
                        (hrf_random_unit(&random) * SIDE * 1.4 - 10) * grid.x.step,
                        (hrf_random_unit(&random) * SIDE * 1.4) * grid.y.step
                    };
                    if (i % 4 == 0) /* on a centre */
                        ring[i] = (struct hrf_point){
                            (floor(ring[i].x / grid.x.step) + grid.x.phase) * grid.x.step,
                            (floor(ring[i].y / grid.y.step) + grid.y.phase) * grid.y.step
                        };
                    if (outside > 1.0)
                        ring[i] = (struct hrf_point){ outside,
                                                      round % 8 == 0 ? outside : -outside };
                }
                add(&raster, r == 0, (unsigned char)a, ring, n);
            }
        assert_int_equal(hrf_outline_raster_paint(&raster, pixels, &n_painted, NULL), HRF_OK);
        for (int64_t row = 0; row < grid.height; row++)
            for (int64_t column = 0; column < grid.width; column++) {
                const double x = ((double)(column + grid.x0) + grid.x.phase) * grid.x.step;
                const double y = ((double)(row + grid.y0) + grid.y.phase) * grid.y.step;
                int wanted = 99;
                for (int a = 0; a < AREAS; a++)
                    if (is_in_ring(points[a][0], n_points[a][0], x, y) !=
                        is_in_ring(points[a][1], n_points[a][1], x, y))
                        wanted = a;
                assert_int_equal(pixels[row * grid.width + column], wanted);
                n_wanted += wanted != 99;
            }
        assert_int_equal(n_painted, n_wanted);
    }
}

/* Of a shape with very many vertices those edges count that cross a row, and areas that lie over
 * each other paint a pixel once. */
static void what_is_looked_at_is_rows_and_crossings(void **state)
{
    (void)state;
    enum { N_POINTS = 400000, N_AREAS = 20000, SIZE = 500 };
    const struct hrf_raster_axis axis = { 100.0, 0.5 };
    const struct hrf_raster_grid grid = { .x = axis, .y = axis, .width = SIZE, .height = SIZE };
    HRF_AUTO_FREE unsigned char *pixels = hrf_calloc((size_t)SIZE * SIZE, 1);
    HRF_AUTO_FREE struct hrf_point *circle = hrf_alloc_array(N_POINTS, sizeof *circle);
    HRF_AUTO_RELEASE(hrf_outline_raster) raster;
    int64_t n_painted = 0;
    assert_true(pixels != NULL && circle != NULL);
    for (size_t i = 0; i < N_POINTS; i++) {
        const double angle = 2.0 * 3.14159265358979 * (double)i / N_POINTS;
        circle[i] = (struct hrf_point){ 25000.0 + 20000.0 * cos(angle),
                                        25000.0 + 20000.0 * sin(angle) };
    }
    hrf_outline_raster_init(&raster, &grid);
    add(&raster, true, 1, circle, N_POINTS);
    assert_in_range(raster.n_crossings, 2 * 398, 2 * 402);
    assert_in_range(raster.n_edges, 2 * 398, 2 * 402);
    for (int i = 0; i < N_AREAS; i++) {
        const double top = (i % 50) * 1000.0;
        const struct hrf_point bar[] = {
            { -1e6, top }, { 1e6, top }, { 1e6, top + 100.0 }, { -1e6, top + 100.0 }
        };
        add(&raster, true, 2, bar, 4);
    }
    assert_in_range(raster.n_crossings, 2 * 398 + 2 * N_AREAS, 2 * 402 + 2 * N_AREAS);
    assert_int_equal(hrf_outline_raster_paint(&raster, pixels, &n_painted, NULL), HRF_OK);
    int64_t n[3] = { 0 };
    for (size_t i = 0; i < (size_t)SIZE * SIZE; i++)
        n[pixels[i]]++;
    assert_int_equal(n[2], 50 * SIZE);
    assert_int_equal(n_painted, n[1] + n[2]);
    assert_true(fabs((double)n[1] / (0.9 * 3.14159265 * 200 * 200) - 1.0) < 0.02);
}

static void more_crossings_than_any_slide_has_are_refused(void **state)
{
    (void)state;
    enum { N_POINTS = 1001 };
    const struct hrf_raster_axis axis = { 0.5, 0.5 };
    const struct hrf_raster_grid grid = { .x = axis, .y = axis, .width = 1, .height = 1 << 20 };
    struct hrf_point zigzag[N_POINTS];
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO_RELEASE(hrf_outline_raster) raster;
    for (size_t i = 0; i < N_POINTS; i++)
        zigzag[i] = (struct hrf_point){ (double)i, i % 2 == 0 ? -1.0 : 1e6 };
    hrf_outline_raster_init(&raster, &grid);
    add(&raster, true, 1, zigzag, N_POINTS);
    enum hrf_status status = HRF_OK;
    for (int i = 0; i < 10 && status == HRF_OK; i++)
        status = hrf_outline_raster_add_ring(&raster, zigzag, N_POINTS, &err);
    assert_int_equal(status, HRF_E_USER);
    assert_non_null(strstr(err.text, "1048576 rows more than 4294967296 times"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pixel_has_the_value_of_the_last_area_that_its_centre_is_in),
        cmocka_unit_test(what_is_looked_at_is_rows_and_crossings),
        cmocka_unit_test(more_crossings_than_any_slide_has_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
