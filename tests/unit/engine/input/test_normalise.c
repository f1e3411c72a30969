/* The table of host memory and the form of a device make the same number of a byte, up to
 * roundings. */
#include "engine/input/normalise.h"

#include "tests/unit/unit.h"

#include <math.h>

static const double mean[3] = { 0.485, 0.456, 0.406 }, std[3] = { 0.229, 0.224, 0.225 };

static void a_table_holds_the_byte_less_the_mean_over_the_deviation(void **state)
{
    (void)state;
    float table[3][256];
    hrf_normalise_table(mean, std, table);
    assert_true(table[0][0] == (float)(-0.485 / 0.229));
    assert_true(table[1][255] == (float)((1 - 0.456) / 0.224));
    assert_true(table[2][51] == (float)((0.2 - 0.406) / 0.225));
}

static void a_device_computes_what_the_table_holds(void **state)
{
    (void)state;
    float table[3][256];
    hrf_normalise_table(mean, std, table);
    const struct hrf_pixel_form form = hrf_normalise_form(mean, std);
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            if (!(fabsf(fmaf((float)v, form.scale[c], form.shift[c]) - table[c][v]) < 1e-6f))
                fail_msg("byte %d of channel %d: %.9g", v, c, (double)table[c][v]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_holds_the_byte_less_the_mean_over_the_deviation),
        cmocka_unit_test(a_device_computes_what_the_table_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
