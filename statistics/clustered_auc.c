/* clustered_auc.c - Obuchowski's interval for the AUC of clustered items. */
#include "statistics/clustered_auc.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>

/* What a cluster's items add up to: the share of items of the other class that each beats. */
struct cluster {
    double positive, negative; /* sums of components of the first scores */
    double second_positive, second_negative;
    size_t n_positive, n_negative;
};

struct ranked {
    float score;
    uint32_t item;
};

static int by_score(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

static enum hrf_status check(const struct hrf_clustered_items *items, const float *scores,
                             struct hrf_error *err)
{
    for (size_t i = 0; scores != NULL && i < items->n_items; i++)
        if (isnan(scores[i]))
            return hrf_error_set(err, HRF_E_USER, "the score of labelled patch %zu is not a number",
                                 i + 1);
    return items->n_items <= UINT32_MAX
               ? HRF_OK
               : hrf_error_set(err, HRF_E_USER, "%zu patches are too many", items->n_items);
}

/* Adds the components of one score: of a positive item the share of negatives below it, of a
 * negative one the share of positives above it; a tie is one half. */
static void add_components(const struct hrf_clustered_items *items, const struct ranked *ranked,
                           struct cluster *clusters, size_t n_positive, size_t n_negative,
                           bool is_second)
{
    double below[2] = { 0, 0 }; /* items of each class with a smaller score */
    for (size_t i = 0, end; i < items->n_items; i = end) {
        double group[2] = { 0, 0 };
        for (end = i; end < items->n_items && ranked[end].score == ranked[i].score; end++)
            group[items->is_positive[ranked[end].item]]++;
        const double beaten = (below[0] + group[0] / 2) / (double)n_negative;
        const double beats = ((double)n_positive - below[1] - group[1] / 2) / (double)n_positive;
        for (size_t k = i; k < end; k++) {
            struct cluster *c = &clusters[items->clusters[ranked[k].item]];
            if (items->is_positive[ranked[k].item])
                *(is_second ? &c->second_positive : &c->positive) += beaten;
            else
                *(is_second ? &c->second_negative : &c->negative) += beats;
        }
        below[0] += group[0];
        below[1] += group[1];
    }
}

static void add_scores(const struct hrf_clustered_items *items, const float *scores,
                       struct cluster *clusters, const struct hrf_clustered_auc *counts,
                       bool is_second)
{
    HRF_AUTO_FREE struct ranked *ranked = hrf_alloc_array(items->n_items, sizeof *ranked);
    for (size_t i = 0; i < items->n_items; i++)
        ranked[i] = (struct ranked){ scores[i], (uint32_t)i };
    qsort(ranked, items->n_items, sizeof *ranked, by_score);
    add_components(items, ranked, clusters, counts->n_positive, counts->n_negative, is_second);
}

/* The variance of `auc` when each cluster has these sums of components. */
static double variance(const struct cluster *clusters, size_t n, bool is_difference, double auc,
                       const struct hrf_clustered_auc *counts)
{
    double s10 = 0, s01 = 0, s11 = 0, with_positive = 0, with_negative = 0, all = 0;
    const double m = (double)counts->n_positive, k = (double)counts->n_negative;
    for (size_t i = 0; i < n; i++) {
        const struct cluster *c = &clusters[i];
        if (c->n_positive + c->n_negative == 0)
            continue;
        const double x = (is_difference ? c->second_positive : 0) +
                         (is_difference ? -c->positive : c->positive) - (double)c->n_positive * auc;
        const double y = (is_difference ? c->second_negative : 0) +
                         (is_difference ? -c->negative : c->negative) - (double)c->n_negative * auc;
        s10 += x * x;
        s01 += y * y;
        s11 += x * y;
        with_positive += c->n_positive > 0;
        with_negative += c->n_negative > 0;
        all++;
    }
    s10 *= with_positive / ((with_positive - 1) * m);
    s01 *= with_negative / ((with_negative - 1) * k);
    s11 *= all / (all - 1);
    return s10 / m + s01 / k + 2 * s11 / (m * k);
}

static enum hrf_status count(const struct hrf_clustered_items *items, struct cluster *clusters,
                             struct hrf_clustered_auc *out, struct hrf_error *err)
{
    size_t with[2] = { 0, 0 };
    for (size_t i = 0; i < items->n_items; i++) {
        struct cluster *c = &clusters[items->clusters[i]];
        *(items->is_positive[i] ? &c->n_positive : &c->n_negative) += 1;
        *(items->is_positive[i] ? &out->n_positive : &out->n_negative) += 1;
    }
    for (size_t i = 0; i < items->n_clusters; i++) {
        with[0] += clusters[i].n_negative > 0;
        with[1] += clusters[i].n_positive > 0;
    }
    if (items->n_items == 0)
        return hrf_error_set(err, HRF_E_USER, "no patch with a truth was scored");
    if (with[0] < 2 || with[1] < 2)
        return hrf_error_set(err, HRF_E_USER,
                             "the AUC of patches needs two slides with patches of each class; "
                             "there are %zu with lesion and %zu with tissue outside lesions",
                             with[1], with[0]);
    return HRF_OK;
}

enum hrf_status hrf_clustered_auc(const struct hrf_clustered_items *items, const float *first,
                                  const float *second, struct hrf_clustered_auc *out,
                                  struct hrf_error *err)
{
    struct hrf_clustered_auc result = { 0 };
    HRF_AUTO_FREE struct cluster *clusters = hrf_calloc(items->n_clusters + 1, sizeof *clusters);
    HRF_TRY(check(items, first, err));
    HRF_TRY(check(items, second, err));
    HRF_TRY(count(items, clusters, &result, err));
    add_scores(items, first, clusters, &result, false);
    if (second != NULL)
        add_scores(items, second, clusters, &result, true);
    double other = 0;
    for (size_t i = 0; i < items->n_clusters; i++) {
        result.auc += clusters[i].positive / (double)result.n_positive;
        other += clusters[i].second_positive / (double)result.n_positive;
    }
    result.difference = second != NULL ? other - result.auc : 0;
    result.variance = variance(clusters, items->n_clusters, false, result.auc, &result);
    if (second != NULL)
        result.difference_variance = variance(clusters, items->n_clusters, true, result.difference,
                                              &result);
    *out = result;
    return HRF_OK;
}
