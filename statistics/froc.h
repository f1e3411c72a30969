/* froc.h - the free-response ROC of CAMELYON16's lesion task, by the arithmetic of the official
 * script (Evaluation_FROC.py).
 *
 * A detection that hits a lesion counts for it with the highest confidence; one that hits an ITC
 * counts for nothing; every other one is a false positive. The score is the mean of the
 * sensitivities at 1/4, 1/2, 1, 2, 4 and 8 false positives per slide, read off the curve by linear
 * interpolation. Pure.
 */
#ifndef HRF_STATISTICS_FROC_H
#define HRF_STATISTICS_FROC_H

#include "statistics/metrics.h"

/* How the script's quirks are treated. */
enum hrf_froc_rule {
    /* As the script: the smallest of all confidences is no threshold, even if it is a detection's;
     * a lesion's confidence is kept in single precision, a false positive's in double; false
     * positives are averaged over the slides that have a file of detections. */
    HRF_FROC_OFFICIAL,
    /* As JAMA 2017 describes it: false positives are counted on, and averaged over, the slides
     * without metastases only. Otherwise as the script. */
    HRF_FROC_JAMA,
    /* Every detection is a threshold, all confidences are double, and slides without a file count
     * as slides without detections. */
    HRF_FROC_STRICT
};
extern const char *const hrf_froc_rule_names[]; /* by rule; NULL ends them */

/* The detections of one slide after they were matched with its lesions. */
struct hrf_froc_slide {
    bool is_positive;   /* the truth has metastases, ITC included */
    double *confidence; /* [n_lesions]: the highest that hit the lesion; 0 = missed, or an ITC */
    bool *is_itc;       /* [n_lesions] */
    size_t n_lesions;
    double *false_positives; /* confidences */
    size_t n_false_positives;
    size_t n_ignored; /* detections that hit an ITC */
};
void hrf_froc_slide_release(struct hrf_froc_slide *slide);

enum { HRF_FROC_RATES = 6 };
extern const double hrf_froc_rates[HRF_FROC_RATES]; /* 0.25 ... 8 false positives per slide */

struct hrf_froc_point {
    double false_positives; /* per slide */
    double sensitivity;
    double threshold; /* confidence >= threshold counts; +inf at (0, 0) */
};

struct hrf_froc {
    double score, sensitivity[HRF_FROC_RATES];
    size_t n_lesions, n_itc;     /* lesions without ITC; ITC */
    size_t n_slides, n_averaged; /* slides; those that false positives are averaged over */
    size_t n_false_positives, n_hits;
    struct hrf_froc_point *curve; /* from (0, 0) on, thresholds falling */
    size_t n_points;
    /* The 95 % interval by a percentile bootstrap over slides, positive and negative ones apart.
     * NaN if there is none; no_interval then says why. */
    struct hrf_interval interval;
    int64_t n_resamples; /* resamples that had a lesion; 0 without an interval */
    char no_interval[160];
};
/* Lesions of a slide resemble each other, so that slides are drawn; of few slides a bootstrap's
 * intervals are too narrow, and where all lesions are hit they have no width. Cameron, Gelbach and
 * Miller, "Bootstrap-based improvements for inference with clustered errors", Review of Economics
 * and Statistics 90 (2008), find this of percentile bootstraps with fewer than about 20 clusters.
 */
enum { HRF_FROC_MIN_SLIDES = 20 }; /* with a lesion that counts */
void hrf_froc_release(struct hrf_froc *froc);

/* HRF_E_USER, with a text fit for a report: there are no slides, or no lesion that counts. The same
 * input and seed give the same bits. */
HRF_CHECKED enum hrf_status hrf_froc_compute(const struct hrf_froc_slide *slides, size_t n_slides,
                                             enum hrf_froc_rule rule, int64_t n_resamples,
                                             uint64_t seed, struct hrf_froc *out,
                                             struct hrf_error *err);

#endif
