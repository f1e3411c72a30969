/* Cosines between embeddings by value. */
#include "aggregate/study/drift.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

static void cosines_by_hand(void **state)
{
    (void)state;
    /* Equal, at right angles, opposite, 3-4-5, two of zeros, one of zeros. */
    static const float a[] = { 1, 2, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0 };
    static const float b[] = { 2, 4, 0, 3, -1, -1, 3, 4, 0, 0, 0, 0 };
    static const float wanted[] = { -1, 0, 0, 0.6f, 1, 1 }; /* sorted */
    struct hrf_drift d = { .cosines = NULL };
    assert_int_equal(hrf_drift_add(&d, a, b, 4, 2, NULL), HRF_OK);
    assert_int_equal(hrf_drift_add(&d, a + 8, b + 8, 2, 2, NULL), HRF_OK);
    const struct hrf_drift_summary s = hrf_drift_summarise(&d);
    assert_int_equal(d.n_patches, 6);
    for (size_t i = 0; i < 6; i++)
        assert_true(fabsf(d.cosines[i] - wanted[i]) < 1e-6f);
    assert_true(fabs(s.mean - 1.6 / 6) < 1e-6 && fabs(s.median - 0.3) < 1e-6);
    assert_true(s.min == -1 && s.percentile1 == -1);
    hrf_drift_release(&d);
}

static void the_first_percentile_of_many(void **state)
{
    (void)state;
    struct hrf_drift d = { .cosines = NULL };
    for (int i = 0; i < 1000; i++) {
        const double angle = i * 1e-3;
        const float a[] = { 1, 0 }, b[] = { (float)cos(angle), (float)sin(angle) };
        assert_int_equal(hrf_drift_add(&d, a, b, 1, 2, NULL), HRF_OK);
    }
    const struct hrf_drift_summary s = hrf_drift_summarise(&d);
    assert_true(fabs(s.min - cos(0.999)) < 1e-6 && fabs(s.percentile1 - cos(0.990)) < 1e-6);
    assert_true(fabs(s.median - (cos(0.4995))) < 1e-6);
    hrf_drift_release(&d);
}

static void another_width_is_refused(void **state)
{
    (void)state;
    static const float a[4] = { 1, 1, 1, 1 };
    struct hrf_drift d = { .cosines = NULL };
    struct hrf_error err = { .status = HRF_OK };
    assert_true(isnan(hrf_drift_summarise(&d).mean));
    assert_int_equal(hrf_drift_add(&d, a, a, 1, 4, NULL), HRF_OK);
    assert_int_equal(hrf_drift_add(&d, a, a, 2, 2, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "2 numbers"));
    hrf_drift_release(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cosines_by_hand),
        cmocka_unit_test(the_first_percentile_of_many),
        cmocka_unit_test(another_width_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
