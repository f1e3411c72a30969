/* FROC by value, its quirks by rule, and the csv files of both tasks. */
#include "aggregate/camelyon16/detections.h"
#include "aggregate/camelyon16/exclusions.h"
#include "aggregate/camelyon16/slide_scores.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double false_positives[][4] = { { 0.3, 0.7 }, { 0.2, 0.8, 0.6 }, { 0.9 } };
static double hits[][3] = { { 0.5, 0.0, 0.9 }, { 0.4 } };
static bool itc[][3] = { { false, false, false }, { false } };
/* Two positive slides (3 lesions, one missed; 1 lesion) and one negative. */
static const struct hrf_froc_slide slides[] = {
    { true, hits[0], itc[0], 3, false_positives[0], 2, 0 },
    { true, hits[1], itc[1], 1, false_positives[1], 3, 0 },
    { false, NULL, NULL, 0, false_positives[2], 1, 0 },
};

static struct hrf_froc compute(const struct hrf_froc_slide *items, size_t n,
                               enum hrf_froc_rule rule)
{
    struct hrf_froc froc;
    struct hrf_error err;
    if (hrf_froc_compute(items, n, rule, 200, 1, &froc, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return froc;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-12;
}

/* By hand. Thresholds 0 (dropped) 0.2 0.3 0.4f 0.5 0.6 0.7 0.8 0.9f 0.9; FPs of 3 slides: 0.9 ->
 * 1/3 (the lesion's 0.9f is below 0.9 in double), ... */
static void the_curve_by_value(void **state)
{
    (void)state;
    struct hrf_froc f = compute(slides, 3, HRF_FROC_OFFICIAL);
    assert_int_equal(f.n_lesions, 4);
    assert_int_equal(f.n_hits, 3);
    assert_int_equal(f.n_false_positives, 6);
    assert_int_equal(f.n_points, 10);
    const double fps[] = { 0, 1, 1, 2, 3, 4, 4, 4, 5, 6 };
    const double tps[] = { 0, 1, 1, 1, 1, 1, 2, 3, 3, 3 };
    for (size_t i = 0; i < f.n_points; i++) {
        assert_true(near(f.curve[i].false_positives, fps[i] / 3));
        assert_true(near(f.curve[i].sensitivity, tps[i] / 4));
    }
    const double at[] = { 0.75 / 4, 0.25, 0.25, 0.75, 0.75, 0.75 };
    double sum = 0;
    for (int i = 0; i < HRF_FROC_RATES; i++) {
        assert_true(near(f.sensitivity[i], at[i]));
        sum += at[i];
    }
    assert_true(near(f.score, sum / 6));
    hrf_froc_release(&f);
}

static void the_interval_needs_20_slides_with_lesions_and_a_spread(void **state)
{
    (void)state;
    struct hrf_froc_slide many[41], hit[41];
    for (size_t i = 0; i < 41; i++)
        many[i] = slides[i < 20 ? i % 2 : 2];
    struct hrf_froc f = compute(many, 41, HRF_FROC_OFFICIAL);
    assert_string_equal(f.no_interval, "");
    assert_true(f.interval.low < f.score && f.score < f.interval.high && f.n_resamples == 200);
    hrf_froc_release(&f);
    f = compute(&many[1], 40, HRF_FROC_OFFICIAL); /* one slide less */
    assert_string_equal(f.no_interval, "37 lesions on 19 slides are too few: a bootstrap over "
                                       "slides needs 20 slides with lesions");
    assert_true(isnan(f.interval.low) && isnan(f.interval.high) && f.n_resamples == 0);
    hrf_froc_release(&f);
    double all = 0.9;
    bool no_itc = false;
    for (size_t i = 0; i < 41; i++)
        hit[i] = (struct hrf_froc_slide){ i < 20, &all, &no_itc, i < 20, NULL, 0, 0 };
    f = compute(hit, 41, HRF_FROC_STRICT);
    assert_true(f.score == 1 && isnan(f.interval.low));
    assert_non_null(strstr(f.no_interval, "has no width"));
    hrf_froc_release(&f);
}

/* 0.9 as float32 is 0.89999998: it is a threshold of its own, below 0.9. */
static void single_precision_makes_another_threshold(void **state)
{
    (void)state;
    struct hrf_froc f = compute(slides, 3, HRF_FROC_OFFICIAL);
    assert_true(f.curve[1].threshold == 0.9);
    assert_true(f.curve[2].threshold == (double)0.9F);
    hrf_froc_release(&f);
    f = compute(slides, 3, HRF_FROC_STRICT);
    assert_true(f.curve[1].threshold == 0.9 && f.curve[2].threshold == 0.8);
    hrf_froc_release(&f);
}

static void jama_counts_false_positives_of_negative_slides_only(void **state)
{
    (void)state;
    struct hrf_froc f = compute(slides, 3, HRF_FROC_JAMA);
    assert_int_equal(f.n_averaged, 1);
    assert_int_equal(f.n_false_positives, 1);
    assert_true(near(f.sensitivity[0], 0.25 * 0.25)); /* from (0, 0) to (1, 0.25) at 0.9 */
    assert_true(near(f.sensitivity[2], 0.75));
    hrf_froc_release(&f);
}

/* All lesions are hit and there is no ITC: the script drops the smallest confidence, a detection.
 */
static void the_smallest_confidence_is_dropped_by_the_script_only(void **state)
{
    (void)state;
    double all[] = { 0.6, 0.7 };
    bool none[] = { false, false };
    const struct hrf_froc_slide one = { true, all, none, 2, NULL, 0, 0 };
    struct hrf_froc f = compute(&one, 1, HRF_FROC_OFFICIAL);
    assert_true(near(f.score, 0.5));
    hrf_froc_release(&f);
    f = compute(&one, 1, HRF_FROC_STRICT);
    assert_true(near(f.score, 1.0));
    hrf_froc_release(&f);
}

static void itc_count_neither_way(void **state)
{
    (void)state;
    enum { SIDE = 200 };
    static unsigned char pixels[SIDE * SIDE];
    for (int y = 100; y < 150; y++)
        memset(pixels + y * SIDE + 100, 255, 60); /* a lesion */
    pixels[20 * SIDE + 20] = 255;                 /* an ITC */
    struct hrf_lesion_mask *mask = NULL;
    struct hrf_lesions *lesions = NULL;
    assert_int_equal(hrf_lesion_mask_crop(pixels, SIDE, SIDE, &mask, NULL), HRF_OK);
    assert_int_equal(hrf_lesions_find(mask, &lesions, NULL), HRF_OK);
    const struct hrf_detection detections[] = {
        { 0.8, 20 * 32, 20 * 32 },   { 0.4, 110 * 32, 110 * 32 }, { 0.6, 120 * 32, 120 * 32 },
        { 0.5, 130 * 32, 130 * 32 }, { 0.3, 60 * 32, 60 * 32 },   { 0.2, -40, 1 << 30 },
    };
    struct hrf_froc_slide slide;
    hrf_froc_slide_judge(lesions, true, detections, 6, &slide);
    assert_int_equal(slide.n_lesions, 2);
    assert_true(slide.is_itc[0] && !slide.is_itc[1]);
    assert_int_equal(slide.n_ignored, 1);
    assert_true(slide.confidence[0] == 0.0 && slide.confidence[1] == 0.6); /* the highest */
    assert_int_equal(slide.n_false_positives, 2);
    struct hrf_froc f = compute(&slide, 1, HRF_FROC_OFFICIAL);
    assert_int_equal(f.n_lesions, 1);
    assert_int_equal(f.n_itc, 1);
    hrf_froc_release(&f);
    hrf_froc_slide_release(&slide);
    hrf_lesions_destroy(lesions);
    hrf_lesion_mask_destroy(mask);
}

static void what_cannot_be_computed_has_a_reason(void **state)
{
    (void)state;
    struct hrf_froc f;
    struct hrf_error err;
    assert_int_equal(hrf_froc_compute(&slides[2], 1, HRF_FROC_OFFICIAL, 10, 1, &f, &err),
                     HRF_E_USER);
    assert_non_null(strstr(err.text, "no lesion that counts on the 1 slides"));
    assert_int_equal(hrf_froc_compute(slides, 2, HRF_FROC_JAMA, 10, 1, &f, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "no slide without metastases"));
}

static void detections_are_read_or_refused_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wrong; /* NULL: n are read */
        size_t n;
    } cases[] = {
        { "", NULL, 0 },
        { "0.50000,12,34\n1e-3, 5 ,6\r\n", NULL, 2 },
        { "0.5,1.5,2\n", "d.csv:1: x = '1.5' is not a whole number", 0 },
        { "0.5,1,2\n0.5,1\n", "d.csv:2: 2 fields", 0 },
        { "confidence,x,y\n", "d.csv:1: the confidence 'confidence' is not a number", 0 },
        { "nan,1,2\n", "the confidence 'nan'", 0 },
        { "0.5,1,99999999999999999999\n", "y = '99999999999999999999'", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hrf_detection *items = NULL;
        size_t n = 0;
        struct hrf_error err = { .status = HRF_OK };
        const enum hrf_status status = hrf_detections_parse(cases[i].text, strlen(cases[i].text),
                                                            "d.csv", &items, &n, &err);
        assert_int_equal(status, cases[i].wrong == NULL ? HRF_OK : HRF_E_USER);
        if (cases[i].wrong == NULL)
            assert_int_equal(n, cases[i].n);
        else if (strstr(err.text, cases[i].wrong) == NULL)
            fail_msg("'%s' does not say '%s'", err.text, cases[i].wrong);
        hrf_free(items);
    }
}

static void slide_scores_are_read_or_refused_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *column, *wrong;
        double first; /* the score of test_001 */
    } cases[] = {
        { "Test_001.tif,0.25\ntest_002,1\n", NULL, NULL, 0.25 },
        { "score,slide\n0.5,test_1\n", NULL, NULL, 0.5 },
        { "a,b,c\ntest_001,0.1,0.7\n", "c", NULL, 0.7 },
        { "test_001,0.3\ntest_001,0.3\n", NULL, NULL, 0.3 },
        { "test_001,0.3\ntest_001,0.4\n", NULL,
          "s.csv: test_001 has the score 0.3 in line 1 and 0.4 in line 2", 0 },
        { "slide,score\ntest_001,high\n", NULL, "s.csv:2: the score 'high' of test_001", 0 },
        { "slide,score\ntest_001\n", NULL, "s.csv:2: the score '' of test_001", 0 },
        { "a,b\ntest_001,1\n", "z", "s.csv:1: no column 'z'", 0 },
        { "", NULL, "s.csv: no slide", 0 },
        { "slide,score,precision,state\ntest_002,,fp32,failed\ntest_001,0.4,fp32,done\n"
          "test_001,0.5,int8,done\n",
          NULL, NULL, 0.4 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        HRF_AUTO(hrf_slide_scores) scores = NULL;
        struct hrf_error err = { .status = HRF_OK };
        const enum hrf_status status = hrf_slide_scores_parse(
            cases[i].text, strlen(cases[i].text), "s.csv", cases[i].column, NULL, &scores, &err);
        if (cases[i].wrong == NULL) {
            assert_int_equal(status, HRF_OK);
            assert_string_equal(scores->items[0].name, "test_001");
            assert_true(scores->items[0].score == cases[i].first);
        } else if (status != HRF_E_USER || strstr(err.text, cases[i].wrong) == NULL) {
            fail_msg("'%s' does not say '%s'", err.text, cases[i].wrong);
        }
    }
}

static void names_of_all_releases_are_one(void **state)
{
    (void)state;
    char name[HRF_CAMELYON16_NAME];
    static const char *const same[] = { "test_001", "Test_001.tif", "a/b/TEST_1_mask.TIF",
                                        "test_001.csv" };
    for (size_t i = 0; i < 4; i++) {
        hrf_camelyon16_name(same[i], name);
        assert_string_equal(name, "test_001");
    }
    hrf_camelyon16_name("Test_x1.svs", name);
    assert_string_equal(name, "test_x1.svs");
    assert_string_equal(hrf_camelyon16_exclusion("Normal_86")->slide, "normal_086");
    assert_true(hrf_camelyon16_exclusion("test_114.tif")->lesions_only);
    assert_null(hrf_camelyon16_exclusion("test_001"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_curve_by_value),
        cmocka_unit_test(the_interval_needs_20_slides_with_lesions_and_a_spread),
        cmocka_unit_test(single_precision_makes_another_threshold),
        cmocka_unit_test(jama_counts_false_positives_of_negative_slides_only),
        cmocka_unit_test(the_smallest_confidence_is_dropped_by_the_script_only),
        cmocka_unit_test(itc_count_neither_way),
        cmocka_unit_test(what_cannot_be_computed_has_a_reason),
        cmocka_unit_test(detections_are_read_or_refused_by_line),
        cmocka_unit_test(slide_scores_are_read_or_refused_by_line),
        cmocka_unit_test(names_of_all_releases_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
