/* metrics.h - how well slide scores tell positive slides from negative ones.
 *
 * Pure arithmetic, exact where it can be: the AUC counts pairs in integers. Formulas: AUC is
 * the Mann-Whitney statistic with ties worth one half (Hanley and McNeil, Radiology 143, 1982);
 * its interval is the percentile bootstrap (Efron and Tibshirani 1993, ch. 13), stratified, so
 * that every resample has the cohort's own numbers of positive and negative slides.
 */
#ifndef HRF_STATISTICS_METRICS_H
#define HRF_STATISTICS_METRICS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A slide whose truth is known. Scores must not be NaN. */
struct hrf_labelled {
    double score;
    bool positive;
};

struct hrf_interval {
    double low, high;
};

#define HRF_BOOTSTRAP_RESAMPLES 2000

/* Pairs of a positive and a negative slide: an AUC is (in_order + tied / 2) / total. */
struct hrf_pairs {
    int64_t in_order, tied, total;
};
/* No score may be NaN. */
void hrf_pairs_count(const struct hrf_labelled *items, size_t n_items, struct hrf_pairs *out);

/* Computes the AUC; the order of the items does not matter. HRF_E_USER, with a text fit for a
 * report: a class has no slide, or a score is NaN. */
HRF_CHECKED enum hrf_status hrf_auc(const struct hrf_labelled *items, size_t n_items, double *out,
                                    struct hrf_error *err);

/* The 2.5 and 97.5 percentiles (linear between order statistics) of the AUC of `n_resamples`
 * resamples (>= 1). The same seed and items give the same interval on every machine. A class
 * of one slide is legal, but says nothing of its own spread. Errors as hrf_auc(). */
HRF_CHECKED enum hrf_status hrf_auc_interval(const struct hrf_labelled *items, size_t n_items,
                                             int64_t n_resamples, uint64_t seed,
                                             struct hrf_interval *out, struct hrf_error *err);

/* The 95 % interval of an AUC by Newcombe's method 5: the AUCs theta that differ from the one found
 * by no more than 1.96 standard errors, with Hanley and McNeil's variance at theta itself and
 * (positives + negatives) / 2 in place of either count. It needs the two counts only, is right for
 * few slides (his simulations start at 5 a class), keeps to 0..1, and has a width where the AUC is
 * 0 or 1 and a bootstrap has none. Newcombe, "Confidence intervals for an effect size measure based
 * on the Mann-Whitney statistic. Part 2", Statistics in Medicine 25, 2006. Counts >= 1. */
struct hrf_interval hrf_auc_newcombe(double auc, int64_t n_positive, int64_t n_negative);
#define HRF_AUC_INTERVAL_METHOD "Newcombe 2006, method 5"

/* A point of the ROC curve, which goes from (0,0) to (1,1) with one corner for each different
 * score, the highest first. */
struct hrf_roc_point {
    double false_positive_rate, true_positive_rate;
    double threshold; /* score >= threshold is positive; +inf at (0,0) */
};
/* *out is a heap array (hrf_free). Errors as hrf_auc(). */
HRF_CHECKED enum hrf_status hrf_roc_curve(const struct hrf_labelled *items, size_t n_items,
                                          struct hrf_roc_point **out, size_t *n_points,
                                          struct hrf_error *err);

/* Where to cut: the score of the ROC curve's point with the largest sensitivity + specificity
 * (Youden's J; of equal ones the highest score), or, with `specificity` in (0, 1], the one with the
 * largest sensitivity at that specificity or above. `specificity` 0: Youden. HRF_E_USER as
 * hrf_auc(), or when no score reaches the specificity. */
HRF_CHECKED enum hrf_status hrf_operating_point(const struct hrf_labelled *items, size_t n_items,
                                                double specificity, struct hrf_roc_point *out,
                                                struct hrf_error *err);

struct hrf_confusion {
    int64_t true_positive, false_positive, true_negative, false_negative;
};
/* Counts the slides; one with score >= threshold is called positive. */
struct hrf_confusion hrf_confusion_count(const struct hrf_labelled *items, size_t n_items,
                                         double threshold);
/* Each is NaN if its denominator is 0: no slides, no positive slides, no negative slides. */
double hrf_confusion_accuracy(const struct hrf_confusion *confusion);
double hrf_confusion_sensitivity(const struct hrf_confusion *confusion);
double hrf_confusion_specificity(const struct hrf_confusion *confusion);
/* The positive and the negative predictive value, and F1, the harmonic mean of the former and the
 * sensitivity. NaN if no slide was called so. */
double hrf_confusion_positive_value(const struct hrf_confusion *confusion);
double hrf_confusion_negative_value(const struct hrf_confusion *confusion);
double hrf_confusion_f1(const struct hrf_confusion *confusion);

/* Draws as many positives and as many negatives as there are, with replacement: counts[n], how
 * often each is drawn. order[0..n_positive) are the positives, the rest the negatives. */
struct hrf_random;
void hrf_resample(struct hrf_random *random, const size_t *order, size_t n, size_t n_positive,
                  uint32_t *counts);

#endif
