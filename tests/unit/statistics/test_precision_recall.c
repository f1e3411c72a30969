/* The precision-recall curve and its average precision against scikit-learn's
 * (tools/reference/metrics_goldens.py), and by value. */
#include "statistics/precision_recall.h"

#include "base/alloc.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void near(double found, double wanted)
{
    if (!(fabs(found - wanted) <= 1e-12))
        fail_msg("%.17g, not %.17g", found, wanted);
}

/* Reads "point recall precision threshold" lines and compares each. */
static void compare_points(FILE *file, const struct hrf_recall_point *points, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double recall, precision, threshold;
        assert_int_equal(fscanf(file, " point %lf %lf %lf", &recall, &precision, &threshold), 3);
        near(points[i].recall, recall);
        near(points[i].precision, precision);
        near(points[i].threshold, threshold);
    }
}

static void compare_case(FILE *file, size_t n, double average, double auc)
{
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_calloc(n, sizeof *items);
    HRF_AUTO_FREE struct hrf_recall_point *points = NULL;
    size_t n_points = 0;
    double found;
    for (size_t i = 0; i < n; i++) {
        int is_positive;
        assert_int_equal(fscanf(file, " %lf %d", &items[i].score, &is_positive), 2);
        items[i].positive = is_positive != 0;
    }
    assert_int_equal(hrf_average_precision(items, n, &found, NULL), HRF_OK);
    near(found, average);
    assert_int_equal(hrf_auc(items, n, &found, NULL), HRF_OK);
    near(found, auc);
    assert_int_equal(hrf_precision_recall_curve(items, n, &points, &n_points, NULL), HRF_OK);
    compare_points(file, points, n_points);
}

static void curve_and_average_are_those_of_scikit_learn(void **state)
{
    (void)state;
    FILE *file = fopen("tests/golden/metrics/precision_recall.txt", "r");
    assert_non_null(file);
    size_t n, n_cases = 0;
    double average, auc;
    while (fscanf(file, " case %zu %lf %lf", &n, &average, &auc) == 3) {
        compare_case(file, n, average, auc);
        n_cases++;
    }
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    assert_int_equal(n_cases, 40);
}

static void by_value(void **state)
{
    (void)state;
    /* Called in this order: 1 of 1, 1 of 2, 3 of 4 (a tie of both), so (1 + 2 * 3/4) / 3. */
    const struct hrf_labelled items[] = {
        { 0.2, true }, { 0.9, true }, { 0.2, true }, { 0.5, false }
    };
    double average;
    assert_int_equal(hrf_average_precision(items, 4, &average, NULL), HRF_OK);
    near(average, (1.0 + 2.0 * 0.75) / 3.0);
    const struct hrf_confusion c = {
        .true_positive = 3, .false_positive = 1, .true_negative = 5, .false_negative = 2
    };
    near(hrf_confusion_positive_value(&c), 0.75);
    near(hrf_confusion_negative_value(&c), 5.0 / 7.0);
    near(hrf_confusion_f1(&c), 2.0 / (1.0 / 0.75 + 1.0 / 0.6));
    const struct hrf_confusion none = { .true_negative = 1 };
    assert_true(isnan(hrf_confusion_positive_value(&none)) && isnan(hrf_confusion_f1(&none)));
}

static void one_class_has_no_curve(void **state)
{
    (void)state;
    const struct hrf_labelled items[] = { { 0.2, true }, { 0.9, true } };
    struct hrf_error err;
    double average = -1.0;
    assert_int_equal(hrf_average_precision(items, 2, &average, &err), HRF_E_USER);
    assert_non_null(strstr(err.text, "only one class"));
    assert_true(average < 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curve_and_average_are_those_of_scikit_learn),
        cmocka_unit_test(by_value),
        cmocka_unit_test(one_class_has_no_curve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
