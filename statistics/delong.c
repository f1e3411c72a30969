/* delong.c - DeLong's paired test for two areas under the ROC curve. */
#include "statistics/delong.h"

#include "base/alloc.h"

#include <math.h>

static enum hrf_status count_classes(const struct hrf_paired *items, size_t n, size_t counts[2],
                                     struct hrf_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (isnan(items[i].a) || isnan(items[i].b))
            return hrf_error_set(err, HRF_E_USER, "a score of labelled slide %zu is not a number",
                                 i + 1);
        counts[items[i].positive]++;
    }
    if (counts[0] < 2 || counts[1] < 2)
        return hrf_error_set(err, HRF_E_USER,
                             "DeLong's test needs two slides of each class; there are %zu positive "
                             "and %zu negative",
                             counts[1], counts[0]);
    return HRF_OK;
}

/* 1 when the positive one scores higher, 1/2 in a tie. */
static double wins(double positive, double negative)
{
    return positive > negative ? 1.0 : positive < negative ? 0.0 : 0.5;
}

/* The two means of a slide over all slides of the other class: the structural components. */
struct component {
    double a, b;
};

static struct component component_of(const struct hrf_paired *items, size_t n, size_t i,
                                     size_t n_others)
{
    struct component sum = { 0.0, 0.0 };
    const struct hrf_paired *me = &items[i];
    for (size_t k = 0; k < n; k++) {
        const struct hrf_paired *other = &items[k];
        if (other->positive == me->positive)
            continue;
        sum.a += me->positive ? wins(me->a, other->a) : wins(other->a, me->a);
        sum.b += me->positive ? wins(me->b, other->b) : wins(other->b, me->b);
    }
    return (struct component){ sum.a / (double)n_others, sum.b / (double)n_others };
}

enum hrf_status hrf_delong_test(const struct hrf_paired *items, size_t n_items,
                                struct hrf_delong *out, struct hrf_error *err)
{
    size_t counts[2] = { 0, 0 };
    HRF_TRY(count_classes(items, n_items, counts, err));
    HRF_AUTO_FREE struct component *parts = hrf_alloc_array(n_items, sizeof *parts);
    struct hrf_delong d = { 0 };
    for (size_t i = 0; i < n_items; i++) {
        parts[i] = component_of(items, n_items, i, counts[!items[i].positive]);
        d.auc_a += items[i].positive ? parts[i].a / (double)counts[1] : 0.0;
        d.auc_b += items[i].positive ? parts[i].b / (double)counts[1] : 0.0;
    }
    d.difference = d.auc_b - d.auc_a;
    for (size_t i = 0; i < n_items; i++) {
        const double n = (double)counts[items[i].positive];
        const double off = parts[i].b - parts[i].a - d.difference;
        d.variance += off * off / (n - 1.0) / n;
    }
    if (d.variance <= 0.0 && d.difference != 0.0)
        return hrf_error_set(err, HRF_E_USER, "the difference of the AUCs, %.4g, has no spread",
                             d.difference);
    d.p = d.variance > 0.0 ? erfc(fabs(d.difference) / sqrt(2.0 * d.variance)) : 1.0;
    *out = d;
    return HRF_OK;
}
