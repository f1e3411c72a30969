/* Stains moved as scikit-image has them (tools/reference/stain_jitter_goldens.py). */
#include "engine/input/stain_jitter.h"

#include "base/csv.h"
#include "base/random.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>

static void pixels_are_those_of_scikit_image(void **state)
{
    (void)state;
    HRF_AUTO(hrf_csv) csv = NULL;
    assert_int_equal(hrf_csv_read("tests/golden/stain_jitter.csv", &csv, NULL), HRF_OK);
    assert_true(csv->n_rows >= 300);
    for (size_t i = 0; i < csv->n_rows; i++) {
        double cells[12];
        unsigned char rgb[3];
        struct hrf_stain_jitter jitter;
        assert_int_equal(csv->rows[i].n_fields, 12);
        for (int k = 0; k < 12; k++)
            cells[k] = strtod(csv->rows[i].fields[k], NULL);
        for (int c = 0; c < 3; c++)
            rgb[c] = (unsigned char)cells[c];
        hrf_stain_jitter_init(&jitter, cells + 3, cells + 6);
        hrf_stain_jitter_apply(&jitter, rgb, 3, rgb);
        for (int c = 0; c < 3; c++)
            if (rgb[c] != (unsigned char)cells[9 + c])
                fail_msg("row %zu, channel %d: %d, not %g", i, c, rgb[c], cells[9 + c]);
    }
}

/* Against 255 exp(-density) in double, for densities far outside, too. */
static void bytes_are_rounded_as_the_formula_says(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(11);
    for (int round = 0; round < 20; round++) {
        const double scale = round < 10 ? 0.1 : 2;
        unsigned char rgb[300], found[300];
        double a[3], b[3];
        struct hrf_stain_jitter jitter;
        for (int s = 0; s < 3; s++) {
            a[s] = scale * (2 * hrf_random_unit(&random) - 1);
            b[s] = scale * (2 * hrf_random_unit(&random) - 1);
        }
        for (int i = 0; i < 300; i++)
            rgb[i] = (unsigned char)hrf_random_below(&random, 256);
        hrf_stain_jitter_init(&jitter, a, b);
        hrf_stain_jitter_apply(&jitter, rgb, 300, found);
        for (int i = 0; i < 300; i++) {
            double density = (double)jitter.offset[i % 3];
            for (int c = 0; c < 3; c++) {
                const unsigned char v = rgb[i - i % 3 + c];
                density -= (double)jitter.matrix[c][i % 3] * log((v > 0 ? v : 1) / 255.0);
            }
            const double exact = fmin(255, 255 * exp(-density));
            assert_true(fabs((double)found[i] - exact) <= 0.5 + 1e-3);
        }
    }
}

static void a_sigma_of_0_changes_nothing(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(7);
    unsigned char rgb[3000], found[3000];
    struct hrf_stain_jitter jitter;
    for (int i = 0; i < 3000; i++)
        rgb[i] = (unsigned char)(1 + hrf_random_below(&random, 255));
    hrf_stain_jitter_draw(&jitter, 0, 1, "slide");
    hrf_stain_jitter_apply(&jitter, rgb, 3000, found);
    assert_memory_equal(rgb, found, sizeof rgb);
}

static void slides_and_seeds_draw_their_own(void **state)
{
    (void)state;
    struct hrf_stain_jitter one, again, slide, seed;
    hrf_stain_jitter_draw(&one, 0.05, 1, "a");
    hrf_stain_jitter_draw(&again, 0.05, 1, "a");
    hrf_stain_jitter_draw(&slide, 0.05, 1, "b");
    hrf_stain_jitter_draw(&seed, 0.05, 2, "a");
    assert_memory_equal(&one, &again, sizeof one);
    assert_memory_not_equal(&one, &slide, sizeof one);
    assert_memory_not_equal(&one, &seed, sizeof one);
    for (int c = 0; c < 3; c++)
        assert_true(fabsf(one.offset[c]) <=
                    0.05F * 2.26F); /* the most that stains take of a channel */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_are_those_of_scikit_image),
        cmocka_unit_test(bytes_are_rounded_as_the_formula_says),
        cmocka_unit_test(a_sigma_of_0_changes_nothing),
        cmocka_unit_test(slides_and_seeds_draw_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
