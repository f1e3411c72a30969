/* AUC, its interval, the curve and the confusion matrix: by value, by a plain reference, and
 * against the published scores of the 129 test slides. */
#include "statistics/metrics.h"

#include "base/alloc.h"
#include "base/csv.h"
#include "base/random.h"
#include "tests/unit/real_data.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SLIDES = 200 };

static double auc(const struct hrf_labelled *items, size_t n)
{
    double value = -1.0;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_auc(items, n, &value, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return value;
}

static void auc_by_value(void **state)
{
    (void)state;
    const struct hrf_labelled perfect[] = { { 0.9, true }, { 0.1, false }, { 0.8, true } };
    const struct hrf_labelled wrong[] = { { 0.1, true }, { 0.9, false } };
    const struct hrf_labelled tied[] = { { 0.5, true }, { 0.5, false }, { 0.5, false } };
    /* pairs: 0.8>0.4, 0.8>0.6, 0.6>0.4 win; 0.6=0.6 ties; (3 + 1/2) / 4 */
    const struct hrf_labelled mixed[] = {
        { 0.8, true }, { 0.6, true }, { 0.6, false }, { 0.4, false }
    };
    assert_true(auc(perfect, 3) == 1.0);
    assert_true(auc(wrong, 2) == 0.0);
    assert_true(auc(tied, 3) == 0.5);
    assert_true(auc(mixed, 4) == 0.875);
}

static size_t random_slides(struct hrf_random *random, struct hrf_labelled *items)
{
    size_t n = 2 + (size_t)hrf_random_below(random, MAX_SLIDES - 2);
    int64_t steps = 1 + hrf_random_below(random, 50); /* few steps: many ties */
    for (size_t i = 0; i < n; i++)
        items[i] = (struct hrf_labelled){ (double)hrf_random_below(random, steps + 1),
                                          hrf_random_below(random, 2) == 1 };
    items[0].positive = true;
    items[1].positive = false;
    return n;
}

static double all_pairs(const struct hrf_labelled *items, size_t n)
{
    double wins = 0.0, pairs = 0.0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            if (items[i].positive && !items[j].positive) {
                pairs += 1.0;
                wins += items[i].score > items[j].score    ? 1.0
                        : items[i].score == items[j].score ? 0.5
                                                           : 0.0;
            }
    return wins / pairs;
}

static double area_under(const struct hrf_roc_point *points, size_t n)
{
    double area = 0.0;
    for (size_t i = 1; i < n; i++)
        area += (points[i].false_positive_rate - points[i - 1].false_positive_rate) *
                (points[i].true_positive_rate + points[i - 1].true_positive_rate) / 2.0;
    return area;
}

static void auc_is_all_pairs_and_the_area_under_the_curve(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(3);
    for (int round = 0; round < 200; round++) {
        struct hrf_labelled items[MAX_SLIDES];
        size_t n = random_slides(&random, items), n_points = 0;
        double value = auc(items, n);
        assert_true(fabs(value - all_pairs(items, n)) < 1e-12);
        struct hrf_pairs pairs;
        int64_t n_positive = 0;
        for (size_t i = 0; i < n; i++)
            n_positive += items[i].positive;
        hrf_pairs_count(items, n, &pairs);
        assert_int_equal(pairs.total, n_positive * ((int64_t)n - n_positive));
        assert_true(fabs(((double)pairs.in_order + (double)pairs.tied / 2) / (double)pairs.total -
                         all_pairs(items, n)) < 1e-12);
        struct hrf_roc_point *points = NULL;
        assert_int_equal(hrf_roc_curve(items, n, &points, &n_points, NULL), HRF_OK);
        double area = area_under(points, n_points);
        bool ends = points[0].threshold == INFINITY && points[0].true_positive_rate == 0.0 &&
                    points[n_points - 1].true_positive_rate == 1.0 &&
                    points[n_points - 1].false_positive_rate == 1.0;
        hrf_free(points);
        assert_true(ends);
        assert_true(fabs(value - area) < 1e-12);
    }
}

static void no_auc_without_both_classes(void **state)
{
    (void)state;
    const struct hrf_labelled items[] = { { 0.9, false }, { 0.1, false }, { 0.8, false } };
    struct hrf_error err = { .status = HRF_OK };
    double value = -1.0;
    assert_int_equal(hrf_auc(items, 3, &value, &err), HRF_E_USER);
    assert_string_equal(err.text, "only one class among the 3 labelled slides (all negative)");
    assert_int_equal(hrf_auc(items, 0, &value, &err), HRF_E_USER);
    assert_string_equal(err.text, "no slide with a label was scored");
    const struct hrf_labelled bad[] = { { 0.9, true }, { NAN, false } };
    assert_int_equal(hrf_auc(bad, 2, &value, &err), HRF_E_USER);
    assert_true(value < 0.0);
}

static void the_interval_holds_the_auc_and_repeats(void **state)
{
    (void)state;
    struct hrf_random random = hrf_random_init(11);
    struct hrf_labelled items[120], reversed[120];
    for (size_t i = 0; i < 120; i++)
        items[i] = (struct hrf_labelled){ hrf_random_normal(&random) + (i % 3 == 0 ? 1.2 : 0.0),
                                          i % 3 == 0 };
    for (size_t i = 0; i < 120; i++)
        reversed[i] = items[119 - i];
    struct hrf_interval a, b, c;
    assert_int_equal(hrf_auc_interval(items, 120, 2000, 1, &a, NULL), HRF_OK);
    assert_int_equal(hrf_auc_interval(reversed, 120, 2000, 1, &b, NULL), HRF_OK);
    assert_int_equal(hrf_auc_interval(items, 120, 2000, 2, &c, NULL), HRF_OK);
    double value = auc(items, 120);
    assert_true(a.low < value && value < a.high);
    assert_true(a.low == b.low && a.high == b.high); /* the order does not matter */
    assert_true(a.low != c.low && fabs(a.low - c.low) < 0.02);
    /* Hanley and McNeil's standard error for these sizes is about 0.045. */
    assert_true(a.high - a.low > 0.12 && a.high - a.low < 0.26);
}

static void a_perfect_cohort_has_a_point_interval(void **state)
{
    (void)state;
    const struct hrf_labelled items[] = { { 0.9, true }, { 0.1, false }, { 0.8, true } };
    struct hrf_interval interval = { 0 };
    assert_int_equal(hrf_auc_interval(items, 3, 50, 1, &interval, NULL), HRF_OK);
    assert_true(interval.low == 1.0 && interval.high == 1.0);
    assert_int_equal(hrf_auc_interval(items, 3, 0, 1, &interval, NULL), HRF_E_USER);
}

/* The roots as scipy.optimize.brentq finds them; simulated coverage:
 * tools/reference/auc_coverage.py. */
static void newcombes_interval_by_value(void **state)
{
    (void)state;
    static const struct {
        double auc;
        int64_t n_positive, n_negative;
        double low, high;
    } cases[] = { { 1.0, 5, 5, 0.6427028239310432, 1.0 },
                  { 0.9839285714285714, 49, 80, 0.9395548478220157, 0.9956945685028832 },
                  { 0.5, 10, 10, 0.27351558818989397, 0.726484411810106 },
                  { 1.0, 1, 1, 0.2065493143772372, 1.0 },
                  { 0.0, 3, 8, 0.0, 0.38833867965220803 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct hrf_interval found = hrf_auc_newcombe(cases[i].auc, cases[i].n_positive,
                                                           cases[i].n_negative);
        assert_true(fabs(found.low - cases[i].low) < 1e-12);
        assert_true(fabs(found.high - cases[i].high) < 1e-12);
    }
}

static void operating_points_by_value(void **state)
{
    (void)state;
    /* Falling: + 0.9, - 0.8, + 0.7, + 0.6, - 0.5, - 0.4. Youden: 3/3 - 1/3 at 0.6. */
    const struct hrf_labelled items[] = { { 0.5, false }, { 0.9, true }, { 0.8, false },
                                          { 0.6, true },  { 0.7, true }, { 0.4, false } };
    struct hrf_roc_point point;
    struct hrf_error err;
    assert_int_equal(hrf_operating_point(items, 6, 0.0, &point, NULL), HRF_OK);
    assert_true(point.threshold == 0.6 && point.true_positive_rate == 1.0);
    assert_int_equal(hrf_operating_point(items, 6, 0.9, &point, NULL), HRF_OK);
    assert_true(point.threshold == 0.9 && point.false_positive_rate == 0.0);
    assert_int_equal(hrf_operating_point(items, 6, 0.6, &point, NULL), HRF_OK);
    assert_true(point.threshold == 0.6);
    const struct hrf_labelled reversed[] = { { 0.1, true }, { 0.9, false } };
    assert_int_equal(hrf_operating_point(reversed, 2, 0.0, &point, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "no score is better than chance"));
    assert_int_equal(hrf_operating_point(reversed, 2, 0.5, &point, &err), HRF_E_USER);
    assert_int_equal(hrf_operating_point(reversed, 1, 0.5, &point, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "only one class"));
}

static void confusion_by_value(void **state)
{
    (void)state;
    const struct hrf_labelled items[] = { { 0.9, true },  { 0.5, true },  { 0.4, true },
                                          { 0.6, false }, { 0.2, false }, { 0.1, false },
                                          { 0.0, false } };
    struct hrf_confusion c = hrf_confusion_count(items, 7, 0.5);
    assert_int_equal(c.true_positive, 2); /* 0.5 is at the threshold: positive */
    assert_int_equal(c.false_negative, 1);
    assert_int_equal(c.false_positive, 1);
    assert_int_equal(c.true_negative, 3);
    assert_true(hrf_confusion_accuracy(&c) == 5.0 / 7.0);
    assert_true(hrf_confusion_sensitivity(&c) == 2.0 / 3.0);
    assert_true(hrf_confusion_specificity(&c) == 0.75);
    c = hrf_confusion_count(items, 3, 0.5);
    assert_true(isnan(hrf_confusion_specificity(&c)));
    c = hrf_confusion_count(items, 0, 0.5);
    assert_true(isnan(hrf_confusion_accuracy(&c)));
}

/* Columns 7.. of the real file against the published figures (4 decimals). */
static void real_scores_of_129_slides_give_the_published_auc(void **state)
{
    (void)state;
    char path[REAL_DATA_PATH];
    real_data("camelyon16-scores/test_truth_and_scores.csv", path);
    static const double published[] = { 0.8821, 0.7915, 0.8978, 0.9839, 0.9421, 0.9156 };
    struct hrf_csv *csv = NULL;
    struct hrf_error err;
    if (hrf_csv_read(path, &csv, &err) != HRF_OK)
        fail_msg("%s", err.text);
    assert_int_equal(csv->n_rows, 130);
    for (size_t column = 0; column < 6; column++) {
        struct hrf_labelled items[129];
        for (size_t i = 0; i < 129; i++) {
            char *const *fields = csv->rows[i + 1].fields;
            items[i] = (struct hrf_labelled){ strtod(fields[7 + column], NULL),
                                              strcmp(fields[3], "Tumor") == 0 };
        }
        double value = auc(items, 129);
        print_message("%s: AUC %.4f\n", csv->rows[0].fields[7 + column], value);
        assert_true(fabs(value - published[column]) < 5e-5);
        struct hrf_interval interval;
        assert_int_equal(hrf_auc_interval(items, 129, 2000, 1, &interval, NULL), HRF_OK);
        assert_true(interval.low < value && value < interval.high);
        struct hrf_confusion c = hrf_confusion_count(items, 129, 0.5);
        assert_int_equal(c.true_positive + c.false_negative, 49);
        assert_int_equal(c.true_negative + c.false_positive, 80);
    }
    hrf_csv_destroy(csv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auc_by_value),
        cmocka_unit_test(auc_is_all_pairs_and_the_area_under_the_curve),
        cmocka_unit_test(no_auc_without_both_classes),
        cmocka_unit_test(the_interval_holds_the_auc_and_repeats),
        cmocka_unit_test(a_perfect_cohort_has_a_point_interval),
        cmocka_unit_test(newcombes_interval_by_value),
        cmocka_unit_test(operating_points_by_value),
        cmocka_unit_test(confusion_by_value),
        cmocka_unit_test(real_scores_of_129_slides_give_the_published_auc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
