/* Fitting: the four methods on distributions whose answers are known, and the affine form. */
#include "base/random.h"
#include "calibrate/fit/fit.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

enum { N = 200000 };
static float numbers[N];

static void fill_normal(struct hrf_random *random, float outlier)
{
    for (int i = 0; i < N; i++) {
        double sum = -6; /* twelve uniform numbers: a normal one */
        for (int k = 0; k < 12; k++)
            sum += hrf_random_unit(random);
        numbers[i] = (float)sum;
    }
    numbers[N / 2] = outlier;
}

static struct hrf_fit fit(enum hrf_fit_method kind)
{
    struct hrf_observations all = { .items = NULL };
    struct hrf_fit out;
    assert_int_equal(hrf_observe(&all, "x", numbers, N, 1, NULL), HRF_OK);
    assert_int_equal(hrf_fit_range(&all.items[0], kind, &out, NULL), HRF_OK);
    hrf_observations_release(&all);
    return out;
}

/* The error of really rounding to 8 bits within the range. */
static double real_error(const struct hrf_fit *f)
{
    const double steps = f->low < 0 ? 127 : 255, scale = (double)f->high / steps;
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double q = rint((double)numbers[i] / scale);
        q = q > steps ? steps : q < (f->low < 0 ? -steps : 0) ? (f->low < 0 ? -steps : 0) : q;
        sum += (q * scale - (double)numbers[i]) * (q * scale - (double)numbers[i]);
    }
    return sum / N;
}

static void minmax_takes_all(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(1);
    fill_normal(&random, -40);
    const struct hrf_fit f = fit(HRF_FIT_MINMAX);
    assert_true(f.high == 40 && f.low == -40);
}

static void the_others_leave_an_outlier_out(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(2);
    fill_normal(&random, 300);
    const double all = real_error(&(struct hrf_fit){ .low = -300, .high = 300 });
    for (int k = HRF_FIT_PERCENTILE; k < HRF_FIT_MSE; k++) {
        const struct hrf_fit f = fit((enum hrf_fit_method)k);
        assert_true(f.high < 20 && f.high > 2);
    }
    /* One number in 200,000 that is off by 100 costs as much as all the rounding does. */
    const struct hrf_fit mse = fit(HRF_FIT_MSE);
    assert_true(real_error(&mse) <= all * 1.01);
}

static void mse_is_near_the_best_clip_there_is(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(3);
    fill_normal(&random, 0);
    const struct hrf_fit f = fit(HRF_FIT_MSE);
    double least = INFINITY;
    for (float clip = 1; clip < 7; clip += 0.05f)
        least = fmin(least, real_error(&(struct hrf_fit){ .low = -clip, .high = clip }));
    assert_true(real_error(&f) < 1.2 * least);
    assert_true(fabs(f.sqnr_db - 10 * log10(1 / real_error(&f))) < 0.5);
}

/* But for the 15 % of squared error (0.6 dB) that a wider clip may cost. */
static void best_is_no_worse_than_any(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(4);
    fill_normal(&random, 30);
    const struct hrf_fit best = fit(HRF_FIT_AUTO);
    assert_true(best.high >= fit(HRF_FIT_MSE).high);
    for (int k = 0; k < HRF_FIT_AUTO; k++)
        assert_true(best.sqnr_db >= fit((enum hrf_fit_method)k).sqnr_db - 0.61);
}

/* 0.03 dB is one step more or less of 255. */
static void positive_tensors_use_all_255_steps(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++)
        numbers[i] = ((float)i + 0.5f) / N;
    const struct hrf_fit f = fit(HRF_FIT_MSE);
    assert_true(f.low == 0 && f.high > 0.99f);
    assert_true(fabs(f.sqnr_db - 10 * log10(1.0 / 3 * 12 * 255 * 255)) < 0.01);
}

static void signed_tensors_use_127_steps_on_either_side(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++)
        numbers[i] = ((float)i + 0.5f) / (N / 2) - 1;
    const struct hrf_fit f = fit(HRF_FIT_MSE);
    assert_true(f.low == -f.high && f.high > 0.99f);
    assert_true(fabs(f.sqnr_db - 10 * log10(1.0 / 3 * 12 * 127 * 127)) < 0.01);
}

static void broken_empty_and_zero_tensors_have_their_words(void **state)
{
    (void)state;
    struct hrf_observations all = { .items = NULL };
    struct hrf_fit f;
    struct hrf_error err = { .status = HRF_OK };
    const float nan[] = { 1, NAN }, zeros[] = { 0, 0 };
    assert_int_equal(hrf_observe(&all, "nan", nan, 2, 1, NULL), HRF_OK);
    assert_int_equal(hrf_observe(&all, "zeros", zeros, 2, 1, NULL), HRF_OK);
    assert_int_equal(hrf_observe(&all, "none", zeros, 0, 1, NULL), HRF_OK);
    assert_int_equal(hrf_fit_range(&all.items[0], HRF_FIT_MSE, &f, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "'nan' held 1 numbers that are NaN"));
    assert_int_equal(hrf_fit_range(&all.items[1], HRF_FIT_MSE, &f, &err), HRF_OK);
    assert_true(f.low == 0 && f.high == 0);
    assert_int_equal(hrf_fit_range(&all.items[2], HRF_FIT_MSE, &f, &err), HRF_E_USER);
    hrf_observations_release(&all);
}

/* As after a RELU: nine of ten numbers are 0, the others the upper half of a normal one. No method
 * may take the zeros for what matters. */
static void sparse_tensors_keep_their_large_numbers(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(9);
    fill_normal(&random, 0);
    for (int i = 0; i < N; i++)
        numbers[i] = i % 10 == 0 ? fabsf(numbers[i]) : 0;
    for (int k = 0; k <= HRF_FIT_AUTO; k++) {
        const struct hrf_fit f = fit((enum hrf_fit_method)k);
        assert_true(f.low == 0 && f.high > 2.5f);
        assert_true(f.sqnr_db > 30);
    }
}

/* Ten numbers of 3000 among many near 10: whatever the range, 8 bits hold one or the other. */
static void a_tensor_that_8_bits_cannot_hold_is_kept(void **state)
{
    (void)state;
    struct hrf_observations all = { .items = NULL };
    HRF_AUTO(hrf_calibration) c = NULL;
    struct hrf_random random = hrf_random_init(8);
    for (int i = 0; i < N; i++)
        numbers[i] = (float)hrf_random_unit(&random);
    assert_int_equal(hrf_observe(&all, "good", numbers, N, 1, NULL), HRF_OK);
    for (int i = 0; i < N; i++)
        numbers[i] = i % 20000 == 0 ? 3000.0f : 10.0f + numbers[i];
    assert_int_equal(hrf_observe(&all, "bad", numbers, N, 1, NULL), HRF_OK);
    assert_int_equal(hrf_fit_all(&all, HRF_FIT_MINMAX, &c, NULL), HRF_OK);
    const double bad = c->tensors[1].sqnr_db;
    assert_true(c->tensors[0].sqnr_db > bad + 10);
    hrf_fit_keep_noisy(c, bad); /* not under it */
    assert_int_equal(c->n_keep, 0);
    hrf_fit_keep_noisy(c, bad + 0.1);
    assert_int_equal(c->n_keep, 1);
    assert_string_equal(c->keep[0].name, "bad");
    assert_non_null(strstr(c->keep[0].reason, "dB of signal to noise"));
    hrf_observations_release(&all);
}

static void a_tensor_of_zeros_has_no_scale_and_is_kept(void **state)
{
    (void)state;
    struct hrf_observations all = { .items = NULL };
    HRF_AUTO(hrf_calibration) c = NULL;
    const float zeros[] = { 0, 0, 0 }, others[] = { -1, 0, 2 };
    assert_int_equal(hrf_observe(&all, "zeros", zeros, 3, 1, NULL), HRF_OK);
    assert_int_equal(hrf_observe(&all, "others", others, 3, 1, NULL), HRF_OK);
    assert_int_equal(hrf_fit_all(&all, HRF_FIT_AUTO, &c, NULL), HRF_OK);
    assert_int_equal(c->n_keep, 1);
    assert_string_equal(c->keep[0].name, "zeros");
    assert_string_equal(c->keep[0].reason, "it held nothing but zeros");
    assert_true(c->tensors[1].is_observed && c->tensors[1].observed_low == -1 &&
                c->tensors[1].observed_high == 2);
    hrf_observations_release(&all);
}

/* Whatever the data, every method gives ranges that the store takes back. */
static void what_is_fitted_is_never_in_doubt(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(9);
    for (int round = 0; round < 60; round++) {
        struct hrf_observations all = { .items = NULL };
        HRF_AUTO(hrf_calibration) c = NULL;
        const double power = 40 * hrf_random_unit(&random), size = exp(round % 60 - 30);
        for (int i = 0; i < N; i++)
            numbers[i] = (float)(size * pow(hrf_random_unit(&random), power) *
                                 (round % 2 == 0 && i % 3 == 0 ? -1 : 1));
        assert_int_equal(hrf_observe(&all, "x", numbers, N, 1, NULL), HRF_OK);
        assert_int_equal(
            hrf_fit_all(&all, (enum hrf_fit_method)(round % HRF_N_FIT_METHODS), &c, NULL), HRF_OK);
        const char *doubt = hrf_calibration_doubt(&c->tensors[0]);
        if (doubt != NULL)
            fail_msg("round %d: %g to %g of %g to %g: %s", round, (double)c->tensors[0].low,
                     (double)c->tensors[0].high, (double)c->tensors[0].observed_low,
                     (double)c->tensors[0].observed_high, doubt);
        hrf_observations_release(&all);
    }
}

static void constant_tensors_are_warned_of(void **state)
{
    (void)state;
    struct hrf_observations all = { .items = NULL };
    const float zeros[] = { 0, 0 }, threes[] = { 3, 3, 3 }, others[] = { 0, 1 };
    assert_int_equal(hrf_observe(&all, "zeros", zeros, 2, 1, NULL), HRF_OK);
    assert_int_equal(hrf_observe(&all, "threes", threes, 3, 1, NULL), HRF_OK);
    assert_int_equal(hrf_observe(&all, "others", others, 2, 1, NULL), HRF_OK);
    HRF_AUTO_FREE char *text = hrf_fit_warnings(&all);
    assert_string_equal(text, "tensor 'zeros' was 0 throughout the sample (2 numbers)\n"
                              "tensor 'threes' was 3 throughout the sample (3 numbers)\n");
    hrf_observations_release(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(minmax_takes_all),
        cmocka_unit_test(the_others_leave_an_outlier_out),
        cmocka_unit_test(mse_is_near_the_best_clip_there_is),
        cmocka_unit_test(best_is_no_worse_than_any),
        cmocka_unit_test(positive_tensors_use_all_255_steps),
        cmocka_unit_test(signed_tensors_use_127_steps_on_either_side),
        cmocka_unit_test(broken_empty_and_zero_tensors_have_their_words),
        cmocka_unit_test(sparse_tensors_keep_their_large_numbers),
        cmocka_unit_test(a_tensor_that_8_bits_cannot_hold_is_kept),
        cmocka_unit_test(a_tensor_of_zeros_has_no_scale_and_is_kept),
        cmocka_unit_test(what_is_fitted_is_never_in_doubt),
        cmocka_unit_test(constant_tensors_are_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
