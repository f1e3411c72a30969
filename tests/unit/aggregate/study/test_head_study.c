/* Slide scores of heads by precision, by hand. */
#include "aggregate/study/head_study.h"
#include "tests/unit/unit.h"

#include <math.h>

static void differences_and_figures_are_of_slides_with_both_scores(void **state)
{
    (void)state;
    const struct hrf_head_pair pairs[] = {
        { 0.9, 0.8, true, true },  { 0.6, 0.4, true, true },   { 0.2, 0.3, true, false },
        { 0.1, 0.5, true, false }, { 0.7, 0.7, false, false }, { NAN, 0.1, true, true },
        { 0.3, NAN, true, false },
    };
    struct hrf_head_study s = hrf_head_study_of(pairs, 7, 0.5);
    assert_int_equal(s.n_slides, 5);
    assert_int_equal(s.n_labelled, 4);
    assert_int_equal(s.n_flips, 2); /* 0.6 to 0.4, 0.1 to 0.5 */
    assert_float_equal(s.mean_difference, (0.1 + 0.2 + 0.1 + 0.4) / 5, 1e-12);
    assert_float_equal(s.largest, 0.4, 1e-12);
    assert_float_equal(s.auc, 0.75, 1e-12); /* 0.4 is below 0.5 */
    assert_float_equal(s.auc_difference, -0.25, 1e-12);
    assert_float_equal(s.balanced_accuracy, 0.5, 1e-12);
    assert_true(s.auc_difference_interval.low < -0.25 && s.auc_difference_interval.high > -0.25);
}

static void what_cannot_be_computed_says_why(void **state)
{
    (void)state;
    const struct hrf_head_pair pairs[] = { { 0.9, 0.8, true, true }, { 0.6, 0.4, true, true } };
    struct hrf_head_study s = hrf_head_study_of(pairs, 2, 0.5);
    assert_true(isnan(s.auc) && isnan(s.auc_difference) && s.why[0] != '\0');
    assert_int_equal(s.n_flips, 1);
    s = hrf_head_study_of(pairs, 0, 0.5);
    assert_true(isnan(s.mean_difference) && s.n_slides == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_and_figures_are_of_slides_with_both_scores),
        cmocka_unit_test(what_cannot_be_computed_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
