/* Figures of a regression against NumPy's (definitions of mean absolute error and R2) and SciPy's
 * (spearmanr). */
#include "statistics/regression.h"

#include "tests/unit/unit.h"

#include <math.h>

/* import numpy as np; i = np.arange(12); t = (i * 5 % 7) / 2; v = t * 0.8 + (i * 3 % 5) / 4 */
static void figures_are_those_of_other_programs(void **state)
{
    (void)state;
    struct hrf_number_pair pairs[12];
    struct hrf_regression r;
    for (int i = 0; i < 12; i++) {
        pairs[i].truth = (i * 5 % 7) / 2.0;
        pairs[i].value = pairs[i].truth * 0.8 + (i * 3 % 5) / 4.0;
    }
    assert_int_equal(hrf_regression_compute(pairs, 12, &r, NULL), HRF_OK);
    assert_int_equal(r.n, 12);
    assert_true(fabs(r.mean_absolute_error - 0.2875) < 1e-14);
    assert_true(fabs(r.r2 - 0.8716666666666667) < 1e-14);
    assert_true(fabs(r.spearman - 0.9559454586332539) < 1e-14);
}

static void numbers_that_are_all_alike_have_no_correlation(void **state)
{
    (void)state;
    const struct hrf_number_pair pairs[] = { { 2, 1 }, { 2, 3 }, { 2, 2 } };
    struct hrf_regression r;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_regression_compute(pairs, 3, &r, NULL), HRF_OK);
    assert_true(isnan(r.r2) && isnan(r.spearman) && fabs(r.mean_absolute_error - 2.0 / 3) < 1e-15);
    assert_int_equal(hrf_regression_compute(pairs, 1, &r, &err), HRF_E_USER);
    assert_string_equal(err.text, "1 slide with a number as truth was scored; two are needed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_other_programs),
        cmocka_unit_test(numbers_that_are_all_alike_have_no_correlation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
