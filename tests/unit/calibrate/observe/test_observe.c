/* Observing: ranges and counts by value, and merging that no order can change. */
#include "base/random.h"
#include "calibrate/observe/observations.h"
#include "tests/unit/unit.h"

#include <math.h>

static void numbers_fall_into_bins_of_a_power_of_two(void **state)
{
    (void)state;
    struct hrf_observations all = { .items = NULL };
    const float numbers[] = { 0, -1, 3, 0.5f, 3.9995f, -2 };
    assert_int_equal(hrf_observe(&all, "x", numbers, 6, 2, NULL), HRF_OK);
    const struct hrf_observation *o = &all.items[0];
    assert_int_equal(o->exponent, -10); /* 4096 bins of 2^-10 reach 4 */
    assert_true(o->low == -2 && o->high == 3.9995f);
    assert_int_equal(o->n, 6);
    assert_int_equal(o->bins[0], 1);
    assert_int_equal(o->bins[512], 1);
    assert_int_equal(o->bins[1024], 1);
    assert_int_equal(o->bins[2048], 1);
    assert_int_equal(o->bins[3072], 1);
    assert_int_equal(o->bins[4095], 1);
    assert_true(fabs(o->sums[0] - 6.9995) < 1e-6 && o->sums[1] == -2.5);
    hrf_observations_release(&all);
}

static void what_is_not_finite_is_counted_apart(void **state)
{
    (void)state;
    struct hrf_observations all = { .items = NULL };
    const float numbers[] = { NAN, 1, INFINITY, -INFINITY };
    assert_int_equal(hrf_observe(&all, "x", numbers, 4, 1, NULL), HRF_OK);
    const struct hrf_observation *o = &all.items[0];
    assert_int_equal(o->n_broken, 3);
    assert_int_equal(o->n, 1);
    assert_true(o->low == 1 && o->high == 1);
    hrf_observations_release(&all);
}

static void a_tensor_keeps_its_channels(void **state)
{
    (void)state;
    struct hrf_observations all = { .items = NULL };
    struct hrf_error err = { .status = HRF_OK };
    const float numbers[6] = { 0 };
    assert_int_equal(hrf_observe(&all, "x", numbers, 6, 2, NULL), HRF_OK);
    assert_int_equal(hrf_observe(&all, "x", numbers, 6, 3, &err), HRF_E_BUG);
    hrf_observations_release(&all);
}

static void merging_in_any_order_and_cut_gives_the_same_counts(void **state)
{
    (void)state;
    enum { N = 5000 };
    struct hrf_random random = hrf_random_init(7);
    for (int round = 0; round < 50; round++) {
        static float numbers[N];
        for (int i = 0; i < N; i++) /* magnitudes over forty powers of two */
            numbers[i] = (float)((hrf_random_unit(&random) - 0.5) *
                                 ldexp(1, (int)(hrf_random_unit(&random) * 40) - 30));
        struct hrf_observations whole = { .items = NULL }, parts[3] = { { .items = NULL } };
        struct hrf_observations merged = { .items = NULL };
        assert_int_equal(hrf_observe(&whole, "x", numbers, N, 1, NULL), HRF_OK);
        const int a = (int)(hrf_random_unit(&random) * N), b = a + (N - a) / 2;
        assert_int_equal(hrf_observe(&parts[0], "x", numbers, a, 1, NULL), HRF_OK);
        assert_int_equal(hrf_observe(&parts[1], "x", numbers + a, b - a, 1, NULL), HRF_OK);
        assert_int_equal(hrf_observe(&parts[2], "x", numbers + b, N - b, 1, NULL), HRF_OK);
        for (int i = 0; i < 3; i++)
            assert_int_equal(hrf_observations_merge(&merged, &parts[(i + round) % 3], NULL),
                             HRF_OK);
        const struct hrf_observation *w = &whole.items[0], *m = &merged.items[0];
        assert_int_equal(w->exponent, m->exponent);
        assert_memory_equal(w->bins, m->bins, sizeof w->bins);
        assert_true(w->low == m->low && w->high == m->high && w->n == m->n);
        for (int i = 0; i < 3; i++)
            hrf_observations_release(&parts[i]);
        hrf_observations_release(&whole);
        hrf_observations_release(&merged);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_fall_into_bins_of_a_power_of_two),
        cmocka_unit_test(what_is_not_finite_is_counted_apart),
        cmocka_unit_test(a_tensor_keeps_its_channels),
        cmocka_unit_test(merging_in_any_order_and_cut_gives_the_same_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
