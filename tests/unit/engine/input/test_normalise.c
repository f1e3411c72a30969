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

/* Whichever way the processor takes, at any alignment and length. */
static void what_the_processor_computes_is_the_table(void **state)
{
    (void)state;
    enum { MOST = 1000 };
    static unsigned char rgb[MOST];
    static float out[MOST + 17];
    const double means[3] = { 0.7, 0.1234567, 0.5 }, deviations[3] = { 0.3, 0.017, 1 / 255.0 };
    struct hrf_normaliser normaliser;
    hrf_normaliser_init(&normaliser, means, deviations);
    print_message("computed: %s\n", normaliser.is_wide ? "AVX-512" : "table");
    for (int i = 0; i < MOST; i++)
        rgb[i] = (unsigned char)(i * 7 % 256);
    for (int64_t n = 0; n <= MOST; n += 37)
        for (int from = 0; from <= 16; from += 8) {
            out[from + n] = 4711;
            hrf_normalise(&normaliser, rgb, n, out + from);
            for (int64_t i = 0; i < n; i++)
                assert_true(out[from + i] == normaliser.table[i % 3][rgb[i]]);
            assert_true(out[from + n] == 4711);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_holds_the_byte_less_the_mean_over_the_deviation),
        cmocka_unit_test(a_device_computes_what_the_table_holds),
        cmocka_unit_test(what_the_processor_computes_is_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
