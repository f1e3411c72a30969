/* Two runs against each other: what is matched, what is named, and figures by value. */
#include "aggregate/study/run_pair.h"

#include "tests/unit/aggregate/study/stored.h"

#include <string.h>

struct two {
    struct stored a, b;
};

/* A: slides x, y, gone, broken. B: x with its patches one place further, y, new, broken (done). */
static int open_stores(void **state)
{
    static struct two s;
    static const float low[3] = { 0.0f, 0.125f, 0.25f }, high[3] = { 0.25f, 0.5f, 0.875f };
    static const float other[3] = { 0.75f, 0.25f, 0.0f };
    stored_open(&s.a);
    stored_open(&s.b);
    stored_put_slide(&s.a, 1, "x", HRF_TRUTH_POSITIVE, HRF_SLIDE_DONE, NULL);
    stored_put_slide(&s.a, 2, "y", HRF_TRUTH_NEGATIVE, HRF_SLIDE_DONE, NULL);
    stored_put_slide(&s.a, 3, "gone", HRF_TRUTH_NEGATIVE, HRF_SLIDE_NO_TISSUE, "no tissue");
    stored_put_slide(&s.a, 4, "broken", HRF_TRUTH_POSITIVE, HRF_SLIDE_FAILED, "broken");
    stored_put_slide(&s.b, 1, "broken", HRF_TRUTH_POSITIVE, HRF_SLIDE_NO_TISSUE, "no tissue");
    stored_put_slide(&s.b, 2, "y", HRF_TRUTH_POSITIVE, HRF_SLIDE_DONE, NULL);
    stored_put_slide(&s.b, 3, "x", HRF_TRUTH_UNKNOWN, HRF_SLIDE_DONE, NULL);
    stored_put_slide(&s.b, 4, "new", HRF_TRUTH_UNKNOWN, HRF_SLIDE_NO_TISSUE, "no tissue");
    stored_put_plan(&s.a, 1, 3);
    stored_put_plan(&s.a, 2, 3);
    stored_put_plan_at(&s.b, 2, 3, 0, 512);
    stored_put_plan_at(&s.b, 3, 3, 256, 256);
    stored_put_scores(&s.a, 1, high, high);
    stored_put_scores(&s.a, 2, low, low);
    stored_put_scores(&s.b, 2, low, low);
    stored_put_scores(&s.b, 3, other, high);
    *state = &s;
    return 0;
}

static int close_stores(void **state)
{
    struct two *s = *state;
    stored_close(&s->a);
    stored_close(&s->b);
    return 0;
}

static const char *note_of(const struct hrf_run_pair *pair, const char *slide)
{
    for (size_t i = 0; i < pair->n_notes; i++)
        if (strcmp(pair->notes[i].slide, slide) == 0)
            return pair->notes[i].text;
    return "none";
}

static void slides_and_patches_are_matched_and_the_rest_is_named(void **state)
{
    struct two *s = *state;
    const struct hrf_run_pair_side runs[2] = { { s->a.store, &params }, { s->b.store, &params } };
    struct hrf_run_pair *pair = NULL;
    MUST(hrf_run_pair_load(runs, &pair, err));
    const struct hrf_cohort *c = pair->cohort;
    assert_int_equal(c->n_slides, 2);
    assert_string_equal(c->slides[0].name, "x");
    assert_int_equal(c->n_precisions, 4);
    assert_string_equal(c->precisions[0].name, "A:fp32");
    assert_string_equal(c->precisions[3].name, "B:int8");
    assert_string_equal(note_of(pair, "gone"), "only in A");
    assert_string_equal(note_of(pair, "new"), "only in B");
    assert_string_equal(note_of(pair, "broken"), "failed in A");
    assert_string_equal(note_of(pair, "x"), "2 patches in both, 1 only in A, 1 only in B");
    assert_string_equal(note_of(pair, "y"), "the runs have different truths; A's was taken");
    assert_int_equal(pair->n_patches, 2); /* y has patches of other sizes */
    assert_int_equal(pair->n_only[0], 4);
    assert_int_equal(pair->n_only[1], 4);
    hrf_run_pair_destroy(pair);
}

/* x in A: 0.25 0.5 0.875; in B, one place on: 0.75 0.25 0 (fp32). In both: 0.5 against 0.75 and
 * 0.875 against 0.25. 0.5 is the first class, so both change label. */
static void figures_are_of_what_is_matched(void **state)
{
    struct two *s = *state;
    const struct hrf_run_pair_side runs[2] = { { s->a.store, &params }, { s->b.store, &params } };
    struct hrf_run_pair *pair = NULL;
    MUST(hrf_run_pair_load(runs, &pair, err));
    const struct hrf_cohort_precision *p = &pair->cohort->precisions[2];
    assert_int_equal(p->moved.difference.n_patches, 2);
    assert_int_equal(p->moved.difference.n_flips, 2);
    assert_true(p->moved.max_abs_difference.value == 0.625);
    assert_true(p->moved.mean_abs_difference.value == (0.25 + 0.625) / 2);
    assert_int_equal(p->moved.difference.flips[p->moved.top_flips[0]].at.y, 512);
    assert_int_equal(p->jobs.n_patches, 6); /* speed is of all of its patches */
    assert_true(pair->cohort->precisions[1].moved.patch_agreement.value == 1.0);
    assert_true(pair->cohort->slides[0].scores[0].value == 0.875);
    assert_true(pair->cohort->slides[0].scores[2].value == 0.75);
    assert_true(pair->cohort->slides[0].truth == HRF_TRUTH_POSITIVE);
    hrf_run_pair_destroy(pair);
}

static void what_cannot_be_compared_is_said(void **state)
{
    struct two *s = *state;
    static const char *const others[] = { "normal", "metastasis" };
    struct hrf_aggregate_params other = params;
    struct hrf_run_pair_side runs[2] = { { s->a.store, &params }, { s->b.store, &other } };
    struct hrf_run_pair *pair = NULL;
    struct hrf_error err = { .status = HRF_OK };
    other.classes = others;
    assert_int_equal(hrf_run_pair_load(runs, &pair, &err), HRF_E_USER);
    assert_string_equal(err.text, "class 2 is 'tumor' in A and 'metastasis' in B");
    other = params;
    other.n_classes = 1;
    assert_int_equal(hrf_run_pair_load(runs, &pair, &err), HRF_E_USER);
    assert_string_equal(err.text, "the runs' models have 2 and 1 classes");
    struct stored empty;
    stored_open(&empty);
    stored_put_slide(&empty, 1, "x", HRF_TRUTH_POSITIVE, HRF_SLIDE_PENDING, NULL);
    runs[1] = (struct hrf_run_pair_side){ empty.store, &params };
    assert_int_equal(hrf_run_pair_load(runs, &pair, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "no finished slide of one name in common"));
    stored_close(&empty);
    assert_null(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slides_and_patches_are_matched_and_the_rest_is_named),
        cmocka_unit_test(figures_are_of_what_is_matched),
        cmocka_unit_test(what_cannot_be_compared_is_said),
    };
    return cmocka_run_group_tests(tests, open_stores, close_stores);
}
