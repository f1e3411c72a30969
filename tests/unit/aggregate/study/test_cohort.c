/* The cohort's figures by value, and the way from a real store's records to them. */
#include "aggregate/study/cohort.h"
#include "aggregate/study/patch_task.h"

#include "schema/store/tasks.h"
#include "tests/unit/aggregate/study/stored.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- by value, without a store ---- */

struct by_hand {
    enum hrf_truth truth;
    enum hrf_slide_state state;
    double fp32, int8; /* NaN: no score */
};

static struct hrf_cohort *cohort_by_hand(const struct by_hand *slides, size_t n)
{
    struct hrf_cohort *cohort = NULL;
    MUST(hrf_cohort_create(&params, n, &cohort, err));
    for (size_t i = 0; i < n; i++) {
        struct hrf_cohort_slide *slide = &cohort->slides[i];
        slide->truth = slides[i].truth;
        slide->state = slides[i].state;
        const double scores[] = { slides[i].fp32, slides[i].int8 };
        for (size_t p = 0; p < 2; p++)
            if (!isnan(scores[p]))
                slide->scores[p] = (struct hrf_cohort_score){
                    .known = true, .value = scores[p], .positive = scores[p] >= params.threshold
                };
    }
    MUST(hrf_cohort_finish(cohort, err));
    return cohort;
}

static void figures_by_value(void **state)
{
    (void)state;
    static const struct by_hand slides[] = {
        { HRF_TRUTH_POSITIVE, HRF_SLIDE_DONE, 0.9, 0.9 },
        { HRF_TRUTH_POSITIVE, HRF_SLIDE_DONE, 0.6, 0.4 }, /* flips */
        { HRF_TRUTH_NEGATIVE, HRF_SLIDE_DONE, 0.7, 0.3 }, /* flips */
        { HRF_TRUTH_NEGATIVE, HRF_SLIDE_DONE, 0.0, 0.0 },
        { HRF_TRUTH_NEGATIVE, HRF_SLIDE_NO_TISSUE, NAN, NAN },
        { HRF_TRUTH_UNKNOWN, HRF_SLIDE_DONE, 0.8, 0.8 }, /* counts for flips only */
        { HRF_TRUTH_POSITIVE, HRF_SLIDE_FAILED, NAN, NAN },
        { HRF_TRUTH_POSITIVE, HRF_SLIDE_EXCLUDED, NAN, NAN },
        { HRF_TRUTH_POSITIVE, HRF_SLIDE_PENDING, NAN, NAN },
    };
    struct hrf_cohort *cohort = cohort_by_hand(slides, 9);
    const struct hrf_cohort_counts *counts = &cohort->counts;
    assert_int_equal(counts->total, 9);
    assert_int_equal(counts->done, 5);
    assert_int_equal(counts->no_tissue + counts->failed + counts->excluded + counts->pending, 4);
    const struct hrf_cohort_precision *fp32 = &cohort->precisions[0];
    const struct hrf_cohort_precision *int8 = &cohort->precisions[1];
    assert_int_equal(fp32->slides.n_labelled, 4);
    assert_int_equal(fp32->slides.n_unscored,
                     3); /* no tissue, failed, pending: of the labelled ones */
    assert_true(fp32->slides.auc.value == 0.75); /* 0.9 beats both, 0.6 beats one of two */
    assert_true(int8->slides.auc.value == 1.0);
    assert_true(fp32->slides.accuracy.value == 0.75); /* 0.7 is wrong */
    assert_true(int8->slides.accuracy.value == 0.75); /* 0.4 is wrong */
    assert_int_equal(fp32->slides.confusion.false_positive, 1);
    assert_int_equal(int8->slides.confusion.false_negative, 1);
    assert_int_equal(fp32->slides.n_flips, 0);
    assert_int_equal(int8->slides.n_flips, 2);
    assert_int_equal(int8->slides.flips[0], 1);
    assert_int_equal(int8->slides.flips[1], 2);
    assert_string_equal(hrf_cohort_label(cohort, true), "tumor");
    assert_string_equal(hrf_cohort_label(cohort, false), "normal");
    hrf_cohort_destroy(cohort);
}

/* Four classes: the label is the class with the highest score, a word of the user's; "b" is the
 * positive one. Truths b, a, c, c, d; the last is only known not to be b. */
static void many_classes_by_value(void **state)
{
    (void)state;
    static const char *const four[] = { "a", "b", "c", "d" };
    static const double scores[6][4] = { { 0.1, 0.6, 0.2, 0.1 }, { 0.5, 0.3, 0.1, 0.1 },
                                         { 0.2, 0.1, 0.6, 0.1 }, { 0.4, 0.1, 0.3, 0.2 },
                                         { 0.1, 0.2, 0.2, 0.5 }, { 0.3, 0.1, 0.35, 0.25 } };
    static const char *const truths[] = { "B", "a", "c", "c", "d", "normal" };
    struct hrf_aggregate_params many = params;
    many.classes = four;
    many.n_classes = 4;
    many.n_precisions = 1;
    struct hrf_cohort *cohort = NULL;
    MUST(hrf_cohort_create(&many, 6, &cohort, err));
    for (size_t i = 0; i < 6; i++) {
        struct hrf_cohort_slide *slide = &cohort->slides[i];
        struct hrf_cohort_score *score = &slide->scores[0];
        slide->state = HRF_SLIDE_DONE;
        slide->truth = i == 0 ? HRF_TRUTH_POSITIVE : HRF_TRUTH_NEGATIVE;
        slide->label_text = hrf_strdup(truths[i]);
        hrf_cohort_set_truth_class(cohort, slide);
        score->known = true;
        score->value = scores[i][1];
        score->positive = score->value >= 0.5;
        score->classes = hrf_alloc_array(4, sizeof *score->classes);
        memcpy(score->classes, scores[i], sizeof scores[i]);
    }
    MUST(hrf_cohort_finish(cohort, err));
    const struct hrf_cohort_precision *p = &cohort->precisions[0];
    static const char *const labels[] = { "b", "a", "c", "a", "d", "c" };
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(hrf_cohort_slide_label(cohort, &cohort->slides[i].scores[0]),
                            labels[i]);
    assert_string_equal(hrf_cohort_truth_label(cohort, &cohort->slides[0]), "b");
    assert_string_equal(hrf_cohort_truth_label(cohort, &cohort->slides[5]), "negative");
    assert_true(hrf_cohort_is_wrong(cohort, &cohort->slides[3]));
    assert_true(hrf_cohort_is_right(cohort, &cohort->slides[5], 0)); /* it is not called b */
    assert_true(fabs(p->slides.accuracy.value - 5.0 / 6.0) < 1e-12);
    assert_true(fabs(p->slides.balanced_accuracy.value - (1 + 1 + 0.5 + 1) / 4) < 1e-12);
    assert_int_equal(p->slides.class_confusion[2 * 4 + 0], 1); /* a slide of c, called a */
    assert_int_equal(p->slides.by_class[2].n_slides, 2);
    /* c: 0.6 and 0.3 against 0.2, 0.1, 0.2: all six pairs. a: 0.5 beats all. */
    assert_true(p->slides.by_class[2].auc.value == 1.0 && p->slides.by_class[0].auc.value == 1.0);
    assert_true(p->slides.macro_auc.value == 1.0);
    assert_true(p->slides.by_class[2].auc_interval.low > 0.1 &&
                p->slides.by_class[2].auc_interval.low < 0.9);
    hrf_cohort_destroy(cohort);
}

static void a_degenerate_comparison_has_no_p(void **state)
{
    (void)state;
    static const struct by_hand slides[] = { { HRF_TRUTH_POSITIVE, HRF_SLIDE_DONE, 0.9, 0.8 },
                                             { HRF_TRUTH_POSITIVE, HRF_SLIDE_DONE, 0.7, 0.6 },
                                             { HRF_TRUTH_NEGATIVE, HRF_SLIDE_DONE, 0.3, 0.2 },
                                             { HRF_TRUTH_NEGATIVE, HRF_SLIDE_DONE, 0.1, 0.1 } };
    struct hrf_cohort *cohort = cohort_by_hand(slides, 4);
    const struct hrf_cohort_precision *int8 = &cohort->precisions[1];
    assert_true(int8->slides.auc_difference.value == 0.0);
    assert_true(isnan(int8->slides.delong_p.value));
    assert_non_null(
        strstr(int8->slides.delong_p.reason, "degenerate: both precisions order every pair"));
    /* An AUC of 1 has an interval, and says that its bootstrap has none. */
    assert_true(int8->slides.auc.value == 1.0 && int8->slides.auc_interval.low < 0.5);
    assert_true(int8->slides.auc_bootstrap.low == 1.0);
    hrf_cohort_destroy(cohort);
}

/* Tenths of the score: 0.9 twice (one positive), 0.1 once (negative): |1.8 - 1| + |0.1 - 0| over 3.
 */
static void calibration_error_by_hand(void **state)
{
    (void)state;
    static const struct by_hand slides[] = { { HRF_TRUTH_POSITIVE, HRF_SLIDE_DONE, 0.9, 1.0 },
                                             { HRF_TRUTH_NEGATIVE, HRF_SLIDE_DONE, 0.9, 0.0 },
                                             { HRF_TRUTH_NEGATIVE, HRF_SLIDE_DONE, 0.1, 0.0 },
                                             { HRF_TRUTH_UNKNOWN, HRF_SLIDE_DONE, 0.5, 0.5 } };
    struct hrf_cohort *cohort = cohort_by_hand(slides, 4);
    const struct hrf_cohort_precision *fp32 = &cohort->precisions[0];
    assert_true(fabs(fp32->slides.calibration_error.value - 0.9 / 3) < 1e-12);
    assert_int_equal(fp32->slides.reliability[9].n_slides, 2);
    assert_int_equal(fp32->slides.reliability[9].n_positive, 1);
    assert_int_equal(fp32->slides.reliability[1].n_slides, 1);
    assert_true(cohort->precisions[1].slides.calibration_error.value ==
                0.0); /* 1.0 is in the last tenth */
    hrf_cohort_destroy(cohort);
}

static void what_is_gained_is_told_against_the_reference(void **state)
{
    (void)state;
    struct hrf_cohort *cohort = NULL;
    MUST(hrf_cohort_create(&params, 1, &cohort, err));
    struct hrf_cohort_precision *p = cohort->precisions;
    p[0].jobs.n_patches = 100;
    p[0].jobs.timing = (struct hrf_timing){ .compute = 8.0, .total = 10.0 };
    p[0].speed.peak_memory.value = 4000;
    p[0].jobs.energy_joules = p[0].jobs.gpu_energy_joules = p[0].jobs.timing.kernels = NAN;
    p[1].jobs.n_patches = 50;
    p[1].jobs.timing = (struct hrf_timing){ .compute = 0.5, .total = 1.0 };
    p[1].speed.peak_memory.value = 1000;
    p[1].jobs.energy_joules = 25.0;
    p[1].jobs.gpu_energy_joules = 6.25;
    MUST(hrf_cohort_finish(cohort, err));
    assert_true(p[0].speed.speedup.value == 1.0 && p[1].speed.speedup.value == 5.0);
    assert_true(p[1].speed.compute_speedup.value == 8.0);
    assert_true(p[1].speed.memory_ratio.value == 0.25);
    assert_true(p[1].speed.energy.value == 0.5);
    assert_true(isnan(p[0].speed.energy.value));
    assert_non_null(strstr(p[0].speed.energy.reason, "not measured"));
    assert_true(p[1].speed.gpu_energy.value == 0.125);
    assert_string_equal(p[0].speed.gpu_energy.reason, "no GPU computed");
    hrf_cohort_destroy(cohort);
}

static void what_cannot_be_computed_has_a_reason(void **state)
{
    (void)state;
    static const struct by_hand slides[] = { { HRF_TRUTH_NEGATIVE, HRF_SLIDE_DONE, 0.1, NAN },
                                             { HRF_TRUTH_NEGATIVE, HRF_SLIDE_DONE, 0.2, NAN },
                                             { HRF_TRUTH_NEGATIVE, HRF_SLIDE_DONE, 0.3, NAN } };
    struct hrf_cohort *cohort = cohort_by_hand(slides, 3);
    const struct hrf_cohort_precision *fp32 = &cohort->precisions[0];
    const struct hrf_cohort_precision *int8 = &cohort->precisions[1];
    assert_true(isnan(fp32->slides.auc.value));
    assert_string_equal(fp32->slides.auc.reason,
                        "only one class among the 3 labelled slides (all negative)");
    assert_true(fp32->slides.accuracy.value == 1.0 && fp32->slides.accuracy.reason == NULL);
    assert_string_equal(int8->slides.auc.reason, "no slide with a label was scored");
    assert_string_equal(int8->slides.accuracy.reason, "no slide with a label was scored");
    assert_string_equal(int8->speed.patches_per_second.reason, "no patch was scored");
    assert_non_null(int8->moved.patch_agreement.reason);
    hrf_cohort_destroy(cohort);
}

static void senseless_params_are_refused(void **state)
{
    (void)state;
    struct hrf_aggregate_params bad = params;
    struct hrf_cohort *cohort = NULL;
    struct hrf_error err = { .status = HRF_OK };
    bad.positive = 2;
    assert_int_equal(hrf_cohort_create(&bad, 1, &cohort, &err), HRF_E_USER);
    assert_string_equal(err.text, "the positive class is number 3 of 2 classes");
    bad = params;
    bad.n_precisions = 0;
    assert_int_equal(hrf_cohort_create(&bad, 1, &cohort, &err), HRF_E_USER);
    assert_null(cohort);
}

/* ---- from a store ---- */

static int open_store(void **state)
{
    static struct stored s;
    stored_open(&s);
    stored_put_slide(&s, 1, "a", HRF_TRUTH_POSITIVE, HRF_SLIDE_DONE, NULL);
    stored_put_slide(&s, 2, "b", HRF_TRUTH_NEGATIVE, HRF_SLIDE_DONE, NULL);
    stored_put_slide(&s, 3, "c", HRF_TRUTH_NEGATIVE, HRF_SLIDE_NO_TISSUE, "no tissue");
    stored_put_slide(&s, 4, "d", HRF_TRUTH_POSITIVE, HRF_SLIDE_FAILED, "broken");
    stored_put_plan(&s, 1, 3);
    stored_put_plan(&s, 2, 3);
    stored_put_plan(&s, 3, 0);
    static const float a[2][3] = { { 0.25f, 0.5f, 0.875f }, { 0.25f, 0.25f, 0.75f } };
    static const float b[2][3] = { { 0.0f, 0.125f, 0.25f }, { 0.0f, 0.125f, 0.25f } };
    stored_put_scores(&s, 1, a[0], a[1]);
    stored_put_scores(&s, 2, b[0], b[1]);
    const struct hrf_phase_row phase = { "infer", 2.5, false, 8, 0 };
    MUST(hrf_store_put_phase(s.store, &phase, err));
    *state = &s;
    return 0;
}

static int close_store(void **state)
{
    stored_close(*state);
    return 0;
}

static void a_slide_is_scored_from_its_shards(void **state)
{
    struct stored *s = *state;
    struct hrf_slide_score score = { 0 };
    MUST(hrf_aggregate_slide(s->store, &params, 1, "fp32", &score, err));
    assert_true(score.score == 0.875 && score.positive);
    assert_int_equal(score.n_patches, 3);
    assert_string_equal(score.precision, "fp32");
    MUST(hrf_aggregate_slide(s->store, &params, 2, "int8", &score, err));
    assert_true(score.score == 0.25 && !score.positive);
    assert_int_equal(hrf_aggregate_slide(s->store, &params, 3, "fp32", &score, NULL), HRF_E_USER);
    assert_int_equal(hrf_aggregate_slide(s->store, &params, 4, "fp32", &score, NULL), HRF_E_AGAIN);
    assert_int_equal(hrf_aggregate_slide(s->store, &params, 1, "fp16", &score, NULL), HRF_E_AGAIN);
}

/* Slide 2 again, with int8's second shard given up: its fp32 stands. */
static void a_failure_of_one_precision_leaves_the_others(void **state)
{
    struct stored *s = *state;
    static const char *const why = "the model gives patch 2 the probability NaN";
    struct hrf_task_rows tasks = { 0 };
    MUST(hrf_store_get_tasks(s->store, &tasks, err));
    int64_t broken = 0;
    for (size_t i = 0; i < tasks.n_items; i++)
        if (tasks.items[i].slide_id == 2 && strcmp(tasks.items[i].precision, "int8") == 0)
            broken = tasks.items[i].id; /* the last shard */
    hrf_task_rows_release(&tasks);
    MUST(hrf_store_set_task(s->store, broken, HRF_TASK_BROKEN, 1, why, err));
    enum hrf_slide_state outcome;
    HRF_AUTO_FREE char *reason = NULL;
    MUST(hrf_store_slide_outcome(s->store, 2, NULL, &outcome, &reason, err));
    assert_int_equal(outcome, HRF_SLIDE_FAILED);
    assert_string_equal(reason, "int8: the model gives patch 2 the probability NaN");
    MUST(hrf_store_set_slide_state(s->store, 2, outcome, reason, err));
    struct hrf_slide_score score;
    MUST(hrf_aggregate_slide(s->store, &params, 2, "fp32", &score, err));
    MUST(hrf_store_put_slide_score(s->store, &score, err));
    struct hrf_cohort *cohort = NULL;
    MUST(hrf_cohort_load(s->store, &params, &cohort, err));
    const struct hrf_cohort_slide *slide = &cohort->slides[1];
    const char *said;
    assert_true(slide->scores[0].known && slide->scores[0].value == 0.25);
    assert_int_equal(hrf_cohort_outcome(slide, 0, &said), HRF_SLIDE_DONE);
    assert_null(said);
    assert_false(slide->scores[1].known);
    assert_int_equal(hrf_cohort_outcome(slide, 1, &said), HRF_SLIDE_FAILED);
    assert_string_equal(said, why);
    assert_int_equal(cohort->precisions[0].jobs.n_patches, 6);
    assert_int_equal(cohort->precisions[1].jobs.n_patches, 3);
    assert_int_equal(hrf_cohort_outcome(&cohort->slides[2], 0, &said), HRF_SLIDE_NO_TISSUE);
    assert_string_equal(said, "no tissue");
    hrf_cohort_destroy(cohort);
}

static void the_cohort_is_what_the_store_says(void **state)
{
    struct stored *s = *state;
    for (int64_t slide = 1; slide <= 2; slide++)
        for (size_t p = 0; p < 2; p++) {
            struct hrf_slide_score score;
            MUST(hrf_aggregate_slide(s->store, &params, slide, precisions[p], &score, err));
            MUST(hrf_store_put_slide_score(s->store, &score, err));
        }
    struct hrf_cohort *cohort = NULL;
    MUST(hrf_cohort_load(s->store, &params, &cohort, err));
    assert_int_equal(cohort->counts.total, 4);
    assert_int_equal(cohort->counts.done, 2);
    const struct hrf_cohort_slide *slide = &cohort->slides[0];
    assert_string_equal(slide->name, "a");
    assert_string_equal(slide->mpp_source, "csv");
    assert_int_equal(slide->n_patches, 3);
    assert_true(slide->mpp == 0.5 && slide->scores[1].value == 0.75);
    assert_string_equal(cohort->slides[3].reason, "broken");
    assert_false(cohort->slides[3].scores[0].known);
    assert_int_equal(cohort->slides[3].n_patches, -1);
    const struct hrf_cohort_precision *int8 = &cohort->precisions[1];
    assert_int_equal(int8->jobs.n_patches, 6);
    assert_true(int8->jobs.timing.total == 4.0 && int8->speed.patches_per_second.value == 1.5);
    assert_int_equal(int8->jobs.n_slides, 2);
    assert_true(int8->speed.slides_per_hour.value == 1800.0);
    assert_true(int8->speed.peak_memory.value == 2000);
    assert_string_equal(int8->jobs.device, "cpu");
    /* Patch 1 of slide a: 0.5 against 0.5 at fp32 is class 0 (the first of equals), as at int8. */
    assert_true(int8->moved.patch_agreement.value == 1.0);
    assert_true(int8->moved.max_abs_difference.value == 0.25);
    assert_true(cohort->precisions[0].moved.max_abs_difference.value == 0.0);
    assert_true(int8->slides.auc.value == 1.0);
    assert_int_equal(cohort->n_phases, 1);
    assert_true(cohort->phases[0].seconds == 2.5);
    hrf_cohort_destroy(cohort);
}

/* Of a lesion in the first four columns, 128 px wide, and six rows. */
static void a_patch_is_positive_from_half_of_its_area_on(void **state)
{
    (void)state;
    static const struct {
        int32_t x, y;
        bool is_positive;
    } cases[] = {
        { 63, 0, true },     /* 65 of 130 px, exactly half */
        { 64, 0, false },    /* 49.2 %, and the centres of two pixels in four */
        { 0, 0, true },      /* nearly all of it */
        { 63, 64, false },   /* half, and a part below the lesion */
        { -30, 0, true },    /* what is outside of the slide does not count */
        { 10, 140, false },  /* 52 of 130 rows */
        { 700, 700, false }, /* beyond the mask */
    };
    enum { N = sizeof cases / sizeof cases[0] };
    unsigned char pixels[6 * 4];
    struct hrf_patch patches[N];
    struct hrf_error err = { .status = HRF_OK };
    memset(pixels, 1, sizeof pixels);
    for (size_t i = 0; i < N; i++)
        patches[i] = (struct hrf_patch){ cases[i].x, cases[i].y };
    const struct hrf_lesion_mask mask = { .width = 4, .height = 6, .pixels = pixels };
    const struct hrf_tile_plan plan = {
        .patch_width0 = 130, .patch_height0 = 130, .n_patches = N, .patches = patches
    };
    struct hrf_cohort cohort = { .n_precisions = 0 };
    assert_int_equal(hrf_patch_task_add_slide(&cohort, 0, &plan, &mask, &err), HRF_OK);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(cohort.patches.is_positive[i], cases[i].is_positive);
    hrf_patch_task_release(&cohort);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_by_value),
        cmocka_unit_test(many_classes_by_value),
        cmocka_unit_test(a_patch_is_positive_from_half_of_its_area_on),
        cmocka_unit_test(a_degenerate_comparison_has_no_p),
        cmocka_unit_test(calibration_error_by_hand),
        cmocka_unit_test(what_is_gained_is_told_against_the_reference),
        cmocka_unit_test(what_cannot_be_computed_has_a_reason),
        cmocka_unit_test(senseless_params_are_refused),
        cmocka_unit_test_setup_teardown(a_slide_is_scored_from_its_shards, open_store, close_store),
        cmocka_unit_test_setup_teardown(a_failure_of_one_precision_leaves_the_others, open_store,
                                        close_store),
        cmocka_unit_test_setup_teardown(the_cohort_is_what_the_store_says, open_store, close_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
