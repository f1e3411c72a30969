/* metrics.c - AUC with its bootstrap interval, ROC curve and confusion matrix. */
#include "statistics/metrics.h"

#include "base/alloc.h"
#include "base/random.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Equal elements are the same in every field, so any correct sort gives the same array. */
static int by_score(const void *a, const void *b)
{
    const struct hrf_labelled *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return (int)x->positive - (int)y->positive;
}

/* A copy in rising order, or why there can be no curve. */
static enum hrf_status sorted_copy(const struct hrf_labelled *items, size_t n,
                                   struct hrf_labelled **out, size_t *n_positive,
                                   struct hrf_error *err)
{
    size_t positives = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(items[i].score))
            return hrf_error_set(err, HRF_E_USER, "the score of labelled slide %zu is not a number",
                                 i + 1);
        positives += items[i].positive;
    }
    if (n == 0)
        return hrf_error_set(err, HRF_E_USER, "no slide with a label was scored");
    if (positives == 0 || positives == n)
        return hrf_error_set(err, HRF_E_USER,
                             "only one class among the %zu labelled slide%s (all %s)", n,
                             n == 1 ? "" : "s", positives == 0 ? "negative" : "positive");
    struct hrf_labelled *sorted = hrf_alloc_array(n, sizeof *sorted);
    memcpy(sorted, items, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_score);
    *out = sorted;
    *n_positive = positives;
    return HRF_OK;
}

void hrf_pairs_count(const struct hrf_labelled *items, size_t n_items, struct hrf_pairs *out)
{
    struct hrf_pairs pairs = { 0 };
    HRF_AUTO_FREE struct hrf_labelled *sorted = hrf_alloc_array(n_items + 1, sizeof *sorted);
    int64_t below = 0, n_positive = 0; /* negatives of lower scores; positives so far */
    memcpy(sorted, items, n_items * sizeof *sorted);
    qsort(sorted, n_items, sizeof *sorted, by_score);
    for (size_t i = 0; i < n_items;) {
        int64_t group[2] = { 0, 0 }; /* of one score, by class */
        const double score = sorted[i].score;
        for (; i < n_items && sorted[i].score == score; i++)
            group[sorted[i].positive]++;
        pairs.in_order += group[1] * below;
        pairs.tied += group[1] * group[0];
        below += group[0];
        n_positive += group[1];
    }
    pairs.total = n_positive * below;
    *out = pairs;
}

/* counts[i]: how often sorted[i] is in the sample; NULL = once each. Pairs are counted twice
 * over, so that a tie is the whole number 1. */
static double auc_of_sorted(const struct hrf_labelled *sorted, const uint32_t *counts, size_t n)
{
    uint64_t twice_wins = 0, negatives = 0, positives = 0;
    for (size_t i = 0; i < n;) {
        uint64_t group[2] = { 0, 0 };
        size_t end = i;
        for (; end < n && sorted[end].score == sorted[i].score; end++)
            group[sorted[end].positive] += counts != NULL ? counts[end] : 1;
        twice_wins += group[1] * (2 * negatives + group[0]);
        negatives += group[0];
        positives += group[1];
        i = end;
    }
    return (double)twice_wins / (2.0 * (double)negatives * (double)positives);
}

enum hrf_status hrf_auc(const struct hrf_labelled *items, size_t n_items, double *out,
                        struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_labelled *sorted = NULL;
    size_t n_positive = 0;
    HRF_TRY(sorted_copy(items, n_items, &sorted, &n_positive, err));
    *out = auc_of_sorted(sorted, NULL, n_items);
    return HRF_OK;
}

/* Where the positives and the negatives stand in the sorted array: order[0..n_pos) are the
 * positives, the rest the negatives. */
static void split_classes(const struct hrf_labelled *sorted, size_t n, size_t n_positive,
                          size_t *order)
{
    size_t p = 0, q = n_positive;
    for (size_t i = 0; i < n; i++)
        order[sorted[i].positive ? p++ : q++] = i;
}

void hrf_resample(struct hrf_random *random, const size_t *order, size_t n, size_t n_positive,
                  uint32_t *counts)
{
    memset(counts, 0, n * sizeof *counts);
    for (size_t i = 0; i < n_positive; i++)
        counts[order[hrf_random_below(random, (int64_t)n_positive)]]++;
    for (size_t i = n_positive; i < n; i++)
        counts[order[n_positive + (size_t)hrf_random_below(random, (int64_t)(n - n_positive))]]++;
}

enum hrf_status hrf_auc_interval(const struct hrf_labelled *items, size_t n_items,
                                 int64_t n_resamples, uint64_t seed, struct hrf_interval *out,
                                 struct hrf_error *err)
{
    if (n_resamples < 1)
        return hrf_error_set(err, HRF_E_USER, "a bootstrap needs at least 1 resample, not %lld",
                             (long long)n_resamples);
    HRF_AUTO_FREE struct hrf_labelled *sorted = NULL;
    size_t n_positive = 0, n = (size_t)n_resamples;
    HRF_TRY(sorted_copy(items, n_items, &sorted, &n_positive, err));
    HRF_AUTO_FREE size_t *order = hrf_alloc_array(n_items, sizeof *order);
    HRF_AUTO_FREE uint32_t *counts = hrf_alloc_array(n_items, sizeof *counts);
    HRF_AUTO_FREE double *values = hrf_alloc_array(n, sizeof *values);
    split_classes(sorted, n_items, n_positive, order);
    struct hrf_random random = hrf_random_init(seed);
    for (size_t i = 0; i < n; i++) {
        hrf_resample(&random, order, n_items, n_positive, counts);
        values[i] = auc_of_sorted(sorted, counts, n_items);
    }
    qsort(values, n, sizeof *values, hrf_compare_doubles);
    *out = (struct hrf_interval){ hrf_quantile(values, n, 0.025), hrf_quantile(values, n, 0.975) };
    return HRF_OK;
}

/* Hanley and McNeil's variance for exponential scores, with Newcombe's N*. */
static double auc_variance(double auc, double n_positive, double n_negative)
{
    const double n = (n_positive + n_negative) / 2.0 - 1.0;
    return auc * (1.0 - auc) * (1.0 + n * (1.0 - auc) / (2.0 - auc) + n * auc / (1.0 + auc)) /
           (n_positive * n_negative);
}

/* The theta between the AUC found and `end` (0 or 1) that is 1.96 of its own errors away. */
static double auc_limit(double auc, double end, double n_positive, double n_negative)
{
    const double z = 1.959963984540054; /* of the normal distribution, 97.5 % */
    double near = auc, far = end;
    for (int i = 0; i < 200 && near != far; i++) {
        const double middle = near + (far - near) / 2.0;
        if (middle == near || middle == far)
            break;
        if (fabs(auc - middle) < z * sqrt(auc_variance(middle, n_positive, n_negative)))
            near = middle;
        else
            far = middle;
    }
    return far;
}

struct hrf_interval hrf_auc_newcombe(double auc, int64_t n_positive, int64_t n_negative)
{
    const double p = (double)n_positive, n = (double)n_negative;
    return (struct hrf_interval){ auc_limit(auc, 0.0, p, n), auc_limit(auc, 1.0, p, n) };
}

enum hrf_status hrf_roc_curve(const struct hrf_labelled *items, size_t n_items,
                              struct hrf_roc_point **out, size_t *n_points, struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_labelled *sorted = NULL;
    size_t n_positive = 0;
    HRF_TRY(sorted_copy(items, n_items, &sorted, &n_positive, err));
    struct hrf_roc_point *points = hrf_alloc_array(n_items + 1, sizeof *points);
    points[0] = (struct hrf_roc_point){ 0.0, 0.0, INFINITY };
    size_t n = 1, count[2] = { 0, 0 };
    for (size_t i = n_items; i > 0;) {
        double score = sorted[i - 1].score;
        for (; i > 0 && sorted[i - 1].score == score; i--)
            count[sorted[i - 1].positive]++;
        points[n++] = (struct hrf_roc_point){ (double)count[0] / (double)(n_items - n_positive),
                                              (double)count[1] / (double)n_positive, score };
    }
    *out = points;
    *n_points = n;
    return HRF_OK;
}

enum hrf_status hrf_operating_point(const struct hrf_labelled *items, size_t n_items,
                                    double specificity, struct hrf_roc_point *out,
                                    struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_roc_point *points = NULL;
    size_t n = 0, best = 0;
    double best_value = 0.0; /* of (0, 0), where nothing is called positive */
    HRF_TRY(hrf_roc_curve(items, n_items, &points, &n, err));
    for (size_t i = 1; i < n; i++) {
        const double sensitivity = points[i].true_positive_rate;
        const double false_rate = points[i].false_positive_rate;
        const double value = specificity > 0.0 ? sensitivity : sensitivity - false_rate;
        if (specificity > 0.0 && 1.0 - false_rate < specificity)
            continue;
        if (value > best_value) {
            best = i;
            best_value = value;
        }
    }
    if (best == 0 && specificity > 0.0)
        return hrf_error_set(err, HRF_E_USER,
                             "no score finds a positive slide at a specificity of %g", specificity);
    if (best == 0)
        return hrf_error_set(err, HRF_E_USER, "no score is better than chance");
    *out = points[best];
    return HRF_OK;
}

struct hrf_confusion hrf_confusion_count(const struct hrf_labelled *items, size_t n_items,
                                         double threshold)
{
    struct hrf_confusion c = { 0 };
    for (size_t i = 0; i < n_items; i++) {
        bool called = items[i].score >= threshold;
        if (items[i].positive)
            *(called ? &c.true_positive : &c.false_negative) += 1;
        else
            *(called ? &c.false_positive : &c.true_negative) += 1;
    }
    return c;
}

static double ratio(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : NAN;
}

double hrf_confusion_accuracy(const struct hrf_confusion *c)
{
    return ratio(c->true_positive + c->true_negative,
                 c->true_positive + c->true_negative + c->false_positive + c->false_negative);
}

double hrf_confusion_sensitivity(const struct hrf_confusion *c)
{
    return ratio(c->true_positive, c->true_positive + c->false_negative);
}

double hrf_confusion_specificity(const struct hrf_confusion *c)
{
    return ratio(c->true_negative, c->true_negative + c->false_positive);
}

double hrf_confusion_positive_value(const struct hrf_confusion *c)
{
    return ratio(c->true_positive, c->true_positive + c->false_positive);
}

double hrf_confusion_negative_value(const struct hrf_confusion *c)
{
    return ratio(c->true_negative, c->true_negative + c->false_negative);
}

double hrf_confusion_f1(const struct hrf_confusion *c)
{
    return ratio(2 * c->true_positive,
                 2 * c->true_positive + c->false_positive + c->false_negative);
}
