/* DeLong's test against an independent form of it (midranks, in Python) and by hand. */
#include "statistics/delong.h"

#include "base/csv.h"
#include "base/random.h"
#include "tests/unit/real_data.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void by_hand_on_five_slides(void **state)
{
    (void)state;
    /* a orders all six pairs right; b gets 0.4 against 0.5 wrong: 5 of 6. Components of b - a:
     * positives (0.9: 0, 0.4: -1/3 each...) worked out in fractions below. */
    static const struct hrf_paired items[] = { { 0.9, 0.9, true },
                                               { 0.8, 0.4, true },
                                               { 0.1, 0.1, false },
                                               { 0.2, 0.5, false },
                                               { 0.3, 0.3, false } };
    struct hrf_delong d;
    assert_int_equal(hrf_delong_test(items, 5, &d, NULL), HRF_OK);
    assert_true(d.auc_a == 1.0);
    assert_true(fabs(d.auc_b - 5.0 / 6) < 1e-15);
    /* positives: 0, -1/3 (mean -1/6): variance 1/18, over 2; negatives: 0, -1/2, 0 (mean -1/6):
     * variance 1/12, over 3. */
    const double variance = 1.0 / 18 / 2 + 1.0 / 12 / 3;
    assert_true(fabs(d.variance - variance) < 1e-15);
    assert_true(fabs(d.p - erfc(1.0 / 6 / sqrt(2 * variance))) < 1e-15);
}

static void a_tie_counts_half(void **state)
{
    (void)state;
    /* a gives the second positive and the first negative the same score: 3.5 of 4 pairs. */
    static const struct hrf_paired items[] = {
        { 0.9, 0.9, true }, { 0.5, 0.5, true }, { 0.5, 0.1, false }, { 0.2, 0.2, false }
    };
    struct hrf_delong d;
    assert_int_equal(hrf_delong_test(items, 4, &d, NULL), HRF_OK);
    assert_true(d.auc_a == 0.875 && d.auc_b == 1.0);
    /* b - a of either class: 0 and 1/4, variance 1/32, over 2. */
    assert_true(d.variance == 2 * (1.0 / 32 / 2));
}

static void two_scores_of_one_order_do_not_differ(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(1);
    struct hrf_paired items[60];
    for (size_t i = 0; i < 60; i++) {
        const double score = hrf_random_unit(&random);
        items[i] = (struct hrf_paired){ score, score * score, i % 3 == 0 };
    }
    struct hrf_delong d;
    assert_int_equal(hrf_delong_test(items, 60, &d, NULL), HRF_OK);
    assert_true(d.difference == 0 && d.variance == 0 && d.p == 1);
}

/* Under the null hypothesis p is uniform: about a twentieth of all tests is below 0.05. */
static void p_is_small_as_often_as_it_says(void **state)
{
    (void)state;
    enum { TRIALS = 600, N = 80 };
    struct hrf_random random = hrf_random_init(7);
    int n_small = 0;
    for (int t = 0; t < TRIALS; t++) {
        struct hrf_paired items[N];
        for (size_t i = 0; i < N; i++) {
            const double truth = i % 2 == 0 ? 0.5 : 0.0, common = hrf_random_unit(&random);
            items[i] = (struct hrf_paired){ truth + common + hrf_random_unit(&random),
                                            truth + common + hrf_random_unit(&random), i % 2 == 0 };
        }
        struct hrf_delong d;
        assert_int_equal(hrf_delong_test(items, N, &d, NULL), HRF_OK);
        n_small += d.p < 0.05;
    }
    assert_in_range(n_small, TRIALS * 2 / 100, TRIALS * 9 / 100);
}

static void what_cannot_be_tested_has_a_reason(void **state)
{
    (void)state;
    static const struct hrf_paired one[] = { { 0.9, 0.9, true }, { 0.1, 0.2, false } };
    static const struct hrf_paired nan[] = { { 0.9, NAN, true } };
    struct hrf_delong d;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_delong_test(one, 2, &d, &err), HRF_E_USER);
    assert_string_equal(err.text, "DeLong's test needs two slides of each class; there are 1 "
                                  "positive and 1 negative");
    assert_int_equal(hrf_delong_test(nan, 1, &d, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "not a number"));
}

/* Real scores of the 129 official test slides of CAMELYON16, six systems; the wanted p come from
 * an independent program (Sun and Xu's midrank form, IEEE SPL 21, 2014). */
static void real_scores_give_what_an_independent_program_gives(void **state)
{
    (void)state;
    static const double wanted[5] = { 0.0301417050476359, 0.499453917261173, 0.00187523641814062,
                                      0.0829591663857465, 0.120626192013384 };
    char path[REAL_DATA_PATH];
    HRF_AUTO(hrf_csv) csv = NULL;
    real_data("camelyon16-scores/test_truth_and_scores.csv", path);
    assert_int_equal(hrf_csv_read(path, &csv, NULL), HRF_OK);
    for (size_t k = 0; k < 5; k++) {
        struct hrf_paired items[200];
        size_t n = 0;
        for (size_t i = 1; i < csv->n_rows; i++, n++) {
            char **f = csv->rows[i].fields;
            items[n] = (struct hrf_paired){ strtod(f[7], NULL), strtod(f[8 + k], NULL),
                                            strcmp(f[3], "Tumor") == 0 };
        }
        struct hrf_delong d;
        assert_int_equal(hrf_delong_test(items, n, &d, NULL), HRF_OK);
        assert_true(fabs(d.p - wanted[k]) < 1e-9 + 1e-6 * wanted[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand_on_five_slides),
        cmocka_unit_test(a_tie_counts_half),
        cmocka_unit_test(two_scores_of_one_order_do_not_differ),
        cmocka_unit_test(p_is_small_as_often_as_it_says),
        cmocka_unit_test(what_cannot_be_tested_has_a_reason),
        cmocka_unit_test(real_scores_give_what_an_independent_program_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
