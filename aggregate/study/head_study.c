/* head_study.c - slide scores of heads by the precision of the encoder (head_study.h). */
#include "aggregate/study/head_study.h"

#include "base/alloc.h"
#include "statistics/delong.h"

#include <math.h>
#include <stdio.h>

static void count(const struct hrf_head_pair *pairs, size_t n, double threshold,
                  struct hrf_head_study *out)
{
    double sum = 0, max = 0;
    for (size_t i = 0; i < n; i++) {
        const struct hrf_head_pair *p = &pairs[i];
        if (isnan(p->reference) || isnan(p->value))
            continue;
        const double difference = fabs(p->value - p->reference);
        sum += difference;
        max = fmax(max, difference);
        out->n_slides++;
        out->n_labelled += p->has_truth;
        out->n_flips += (p->value >= threshold) != (p->reference >= threshold);
    }
    out->mean_difference = out->n_slides > 0 ? sum / (double)out->n_slides : NAN;
    out->largest = out->n_slides > 0 ? max : NAN;
}

/* Labelled slides that have both scores. */
static size_t collect(const struct hrf_head_pair *pairs, size_t n, struct hrf_labelled *items,
                      struct hrf_paired *paired)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        const struct hrf_head_pair *p = &pairs[i];
        if (isnan(p->reference) || isnan(p->value) || !p->has_truth)
            continue;
        items[found] = (struct hrf_labelled){ p->value, p->is_positive };
        paired[found++] = (struct hrf_paired){ p->reference, p->value, p->is_positive };
    }
    return found;
}

static void compare(const struct hrf_paired *paired, size_t n, struct hrf_head_study *out)
{
    struct hrf_error why = { .status = HRF_OK };
    struct hrf_delong test;
    if (hrf_delong_test(paired, n, &test, &why) != HRF_OK) {
        if (out->why[0] == '\0')
            snprintf(out->why, sizeof out->why, "%.159s", why.text);
        return;
    }
    out->auc_difference = test.difference;
    if (test.variance <= 0)
        return;
    const double reach = HRF_NORMAL_95 * sqrt(test.variance);
    out->auc_difference_interval = (struct hrf_interval){ test.difference - reach,
                                                          test.difference + reach };
}

struct hrf_head_study hrf_head_study_of(const struct hrf_head_pair *pairs, size_t n,
                                        double threshold)
{
    struct hrf_error why = { .status = HRF_OK };
    struct hrf_head_study study = { .auc = NAN,
                                    .balanced_accuracy = NAN,
                                    .auc_difference = NAN,
                                    .auc_difference_interval = { NAN, NAN } };
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_alloc_array(n + 1, sizeof *items);
    HRF_AUTO_FREE struct hrf_paired *paired = hrf_alloc_array(n + 1, sizeof *paired);
    count(pairs, n, threshold, &study);
    const size_t n_labelled = collect(pairs, n, items, paired);
    if (hrf_auc(items, n_labelled, &study.auc, &why) != HRF_OK) {
        study.auc = NAN;
        snprintf(study.why, sizeof study.why, "%.159s", why.text);
    }
    const struct hrf_confusion c = hrf_confusion_count(items, n_labelled, threshold);
    study.balanced_accuracy = (hrf_confusion_sensitivity(&c) + hrf_confusion_specificity(&c)) / 2;
    compare(paired, n_labelled, &study);
    return study;
}
