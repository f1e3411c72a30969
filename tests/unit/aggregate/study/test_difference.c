/* Differences of probabilities by value: sums, bins, flips, and what is shown of many flips. */
#include "aggregate/study/cohort.h"
#include "tests/unit/unit.h"

static void two_classes_by_hand(void **state)
{
    (void)state;
    static const struct hrf_patch at[] = { { 0, 0 }, { 512, 0 }, { 0, 512 }, { 512, 512 } };
    static const float a[] = { 0.75f, 0.25f, 0.5f, 0.5f, 0.25f, 0.75f, 1.0f, 0.0f };
    static const float b[] = { 0.75f, 0.25f, 0.25f, 0.75f, 0.5f, 0.5f, 0.75f, 0.0f };
    const struct hrf_probabilities p = { at, a, b, 4, 2, 1 };
    struct hrf_difference d = { .n_patches = 0 };
    hrf_difference_add(&d, 7, &p);
    assert_int_equal(d.n_patches, 4);
    assert_int_equal(d.n_probabilities, 8);
    assert_true(d.sum == 1.25 && d.largest == 0.25);
    assert_int_equal(d.bins[0], 1);
    assert_int_equal(d.n_flips, 2); /* a tie is the first class: patches 1 and 2 */
    assert_int_equal(d.flips[0].slide, 7);
    assert_int_equal(d.flips[0].at.x, 512);
    assert_int_equal(d.flips[0].reference_class, 0);
    assert_int_equal(d.flips[0].new_class, 1);
    assert_true(d.flips[0].reference_score == 0.5f && d.flips[0].score == 0.75f);
    assert_int_equal(d.flips[1].reference_class, 1);
    assert_int_equal(d.flips[1].new_class, 0);
    hrf_difference_release(&d);
}

static void one_output_flips_at_a_half(void **state)
{
    (void)state;
    static const struct hrf_patch at[] = { { 0, 0 }, { 1, 0 }, { 2, 0 } };
    static const float a[] = { 0.4375f, 0.5f, 0.9f }, b[] = { 0.5f, 0.4375f, 0.6f };
    const struct hrf_probabilities p = { at, a, b, 3, 1, 0 };
    struct hrf_difference d = { .n_patches = 0 };
    hrf_difference_add(&d, 0, &p);
    assert_int_equal(d.n_flips, 2);
    assert_int_equal(d.flips[0].new_class, 1);
    assert_int_equal(d.flips[1].new_class, 0);
    hrf_difference_release(&d);
}

static void every_difference_has_its_bin(void **state)
{
    (void)state;
    static const struct hrf_patch at[] = { { 0, 0 } };
    static const struct {
        float difference;
        int bin;
    } cases[] = { { 0.0f, 0 },   { 9e-7f, 0 },  { 1.1e-6f, 1 }, { 2e-6f, 2 },
                  { 0.09f, 20 }, { 0.11f, 21 }, { 0.99f, 24 },  { 1.0f, 24 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const float zero = 0.0f;
        const struct hrf_probabilities p = { at, &zero, &cases[i].difference, 1, 1, 0 };
        struct hrf_difference d = { .n_patches = 0 };
        hrf_difference_add(&d, 0, &p);
        assert_int_equal(d.bins[cases[i].bin], 1);
        hrf_difference_release(&d);
    }
}

/* 100 flips in a scrambled order: the 20 largest are shown, the largest first. */
static void the_largest_of_many_flips_are_shown(void **state)
{
    (void)state;
    static const char *const classes[] = { "normal", "tumor" }, *const names[] = { "fp32", "int8" };
    const struct hrf_aggregate_params params = { .classes = classes,
                                                 .n_classes = 2,
                                                 .positive = 1,
                                                 .precisions = names,
                                                 .n_precisions = 2,
                                                 .threshold = 0.5 };
    struct hrf_cohort *cohort = NULL;
    assert_int_equal(hrf_cohort_create(&params, 1, &cohort, NULL), HRF_OK);
    struct hrf_cohort_precision *int8 = &cohort->precisions[1];
    for (int i = 0; i < 100; i++) {
        const struct hrf_patch at = { i, 0 };
        const float low = 0.4f - 0.001f * (float)(i * 37 % 100);
        const float a[] = { 1.0f - low, low }, b[] = { 0.4f, 0.6f };
        const struct hrf_probabilities p = { &at, a, b, 1, 2, 1 };
        hrf_difference_add(&int8->moved.difference, 0, &p);
    }
    assert_int_equal(hrf_cohort_finish(cohort, NULL), HRF_OK);
    assert_int_equal(int8->moved.difference.n_flips, 100);
    assert_true(int8->moved.patch_agreement.value == 0.0);
    assert_int_equal(int8->moved.n_top_flips, HRF_TOP_FLIPS);
    for (size_t i = 0; i < HRF_TOP_FLIPS; i++) {
        const struct hrf_patch_flip *flip = &int8->moved.difference.flips[int8->moved.top_flips[i]];
        assert_int_equal(flip->at.x * 37 % 100, 99 - (int)i);
    }
    hrf_cohort_destroy(cohort);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_classes_by_hand),
        cmocka_unit_test(one_output_flips_at_a_half),
        cmocka_unit_test(every_difference_has_its_bin),
        cmocka_unit_test(the_largest_of_many_flips_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
