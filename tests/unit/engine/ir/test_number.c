/* bfloat16 by its definition: the upper half of a float, rounded half to even. */
#include "engine/ir/number.h"

#include "base/float16.h"
#include "tests/unit/unit.h"

#include <math.h>

static void every_bfloat16_is_its_own_float(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits <= 0xffff; bits++) {
        const float value = hrf_b16_to_float((uint16_t)bits);
        assert_int_equal(hrf_float_bits(value), bits << 16);
        if (isnan(value))
            assert_true(isnan(hrf_round_to(HRF_B16, value)));
        else
            assert_int_equal(hrf_b16_from_float(value), bits);
    }
}

static void what_lies_between_two_goes_to_the_nearer_one_or_the_even_one(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x7f80; bits++) { /* beyond the last finite one is infinity */
        const uint32_t below = bits << 16, even = bits + (bits & 1);
        assert_int_equal(hrf_b16_from_float(hrf_float_of_bits(below + 0x7fff)), bits);
        assert_int_equal(hrf_b16_from_float(hrf_float_of_bits(below + 0x8000)), even);
        assert_int_equal(hrf_b16_from_float(hrf_float_of_bits(below + 0x8001)), bits + 1);
        assert_int_equal(hrf_b16_from_float(hrf_float_of_bits(0x80000000u | (below + 0x8001))),
                         0x8000u | (bits + 1));
    }
}

/* Rounded as numbers are, these would become infinity or 0. */
static void a_nan_stays_one_whatever_its_lower_bits(void **state)
{
    (void)state;
    static const uint32_t nans[] = { 0x7f800001, 0x7f807fff, 0x7fc00000, 0x7fffffff,
                                     0x7fff8000, 0xff800001, 0xffc00000, 0xffffffff };
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        const float nan = hrf_float_of_bits(nans[i]);
        uint16_t narrow[2];
        assert_true(isnan(hrf_b16_to_float(hrf_b16_from_float(nan))));
        assert_true(isnan(hrf_f16_to_float(hrf_f16_from_float(nan))));
        assert_int_equal(hrf_b16_from_float(nan) >> 15, nans[i] >> 31);
        hrf_floats_to(HRF_B16, &nan, narrow, 1);
        assert_true(isnan(hrf_b16_to_float(narrow[0])));
        hrf_floats_to(HRF_F16, &nan, narrow + 1, 1);
        assert_true(isnan(hrf_f16_to_float(narrow[1])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bfloat16_is_its_own_float),
        cmocka_unit_test(what_lies_between_two_goes_to_the_nearer_one_or_the_even_one),
        cmocka_unit_test(a_nan_stays_one_whatever_its_lower_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
