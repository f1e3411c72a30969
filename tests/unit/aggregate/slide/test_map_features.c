/* Heat-map features against scikit-image's (tools/reference/map_features_goldens.py). */
#include "aggregate/slide/map_features.h"

#include "base/alloc.h"
#include "base/csv.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void features_are_those_of_scikit_image(void **state)
{
    (void)state;
    HRF_AUTO(hrf_csv) csv = NULL;
    assert_int_equal(hrf_csv_read("tests/golden/map_features.csv", &csv, NULL), HRF_OK);
    assert_true(csv->n_rows > 20);
    for (size_t i = 0; i < csv->n_rows; i++) {
        char **cells = csv->rows[i].fields;
        const int width = (int)strtol(cells[0], NULL, 10), height = (int)strtol(cells[1], NULL, 10);
        const size_t n = (size_t)width * (size_t)height;
        double map[2048], found[HRF_MAP_FEATURES];
        assert_int_equal(csv->rows[i].n_fields, 2 + HRF_MAP_FEATURES + n);
        for (size_t k = 0; k < n; k++) {
            const long value = strtol(cells[2 + HRF_MAP_FEATURES + k], NULL, 10);
            map[k] = value < 0 ? (double)NAN : (double)value / 1000.0;
        }
        assert_int_equal(hrf_map_features_compute(map, width, height, 0.7, found, NULL), HRF_OK);
        for (size_t k = 0; k < HRF_MAP_FEATURES; k++) {
            const double wanted = strtod(cells[2 + k], NULL);
            if (!(fabs(found[k] - wanted) <= 1e-9 * fmax(1.0, fabs(wanted))))
                fail_msg("map %zu: %s is %.17g, not %.17g", i, hrf_map_feature_names[k], found[k],
                         wanted);
        }
    }
}

static void patches_are_put_on_their_grid(void **state)
{
    (void)state;
    struct hrf_patch patches[] = { { .x = 300, .y = 200 },
                                   { .x = 300, .y = 300 },
                                   { .x = 500, .y = 200 } };
    const float probabilities[] = { 0.9F, 0.75F, 0.8F };
    const struct hrf_tile_plan plan = {
        .stride_x0 = 100.0, .stride_y0 = 100.0, .patches = patches, .n_patches = 3
    };
    double found[HRF_MAP_FEATURES];
    assert_int_equal(hrf_map_features_of_patches(&plan, probabilities, 1, 0.7, found, NULL),
                     HRF_OK);
    assert_true(found[0] == 1.0); /* of three patches, not of the 3 x 2 grid */
    assert_true(found[10] == 2.0 && found[20] == 1.0);
    assert_true(found[18] == 2.0); /* height over width */
    struct hrf_error err;
    const struct hrf_tile_plan none = { .stride_x0 = 100.0, .stride_y0 = 100.0 };
    assert_int_equal(hrf_map_features_of_patches(&none, probabilities, 1, 0.7, found, &err),
                     HRF_E_USER);
    const double glass[] = { NAN, NAN };
    assert_int_equal(hrf_map_features_compute(glass, 2, 1, 0.7, found, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "without tissue"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_those_of_scikit_image),
        cmocka_unit_test(patches_are_put_on_their_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
