/* submission.h - evaluates a submission to CAMELYON16: the FROC of the lesion task, the AUC of the
 * slide task, and the slides that were judged. */
#ifndef HRF_ORCHESTRATOR_EVALUATE_SUBMISSION_H
#define HRF_ORCHESTRATOR_EVALUATE_SUBMISSION_H

#include "aggregate/camelyon16/detections.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "statistics/metrics.h"

struct hrf_evaluation_params {
    const char *truth;              /* folder; see truth.h */
    const char *lesions;            /* folder of a csv per slide; NULL = no lesion task */
    const char *slides;             /* csv of scores; NULL = no slide task */
    const char *column, *precision; /* of the scores; NULL = see slide_scores.h */
    const char *tuning; /* csv of scores of other slides, to choose the threshold; NULL = none */
    double specificity; /* that the threshold must reach on them; 0: Youden's J is used */
    enum hrf_froc_rule rule;
    bool prefer_xml;             /* uses the outlines of a slide that has a mask, too */
    bool no_exclusions;          /* judges the slides that are known to be wrong, too */
    const char *const *excluded; /* further slides that are left out */
    size_t n_excluded;
    int64_t n_resamples;
    uint64_t seed;
};

/* A slide that is left out of a figure. */
struct hrf_left_out {
    char *slide;
    const char *reason; /* static */
    bool lesions_only;
};

/* The slides of one task. */
struct hrf_evaluated {
    size_t n_used, n_positive;
    char **missing; /* slides with a truth that are not in the submission */
    size_t n_missing;
    char **unknown; /* slides of the submission without a truth */
    size_t n_unknown;
};

struct hrf_evaluation {
    struct hrf_evaluation_params params; /* borrowed texts */
    struct hrf_left_out *left_out;
    size_t n_left_out;
    struct hrf_strbuf warnings; /* lines */

    struct hrf_evaluated lesion_task;
    struct hrf_froc froc;
    char *froc_reason;          /* why there is no FROC; NULL = there is one */
    size_t n_masks, n_outlines; /* positive slides whose truth is a mask, or outlines */
    size_t n_ignored;           /* detections on ITC */

    struct hrf_evaluated slide_task;
    double auc, macro_auc, micro_auc; /* NaN: see auc_reason, or too few slides of that size */
    struct hrf_interval auc_interval, auc_bootstrap;
    char *auc_reason;

    struct hrf_evaluated tuning; /* the slides that the operating point was chosen on */
    struct hrf_roc_point operating_point;
    struct hrf_confusion confusion; /* of the judged slides, at its threshold */
    char *operating_point_reason;   /* NULL = there is one, or none was asked for */
};

HRF_CHECKED enum hrf_status hrf_evaluate(const struct hrf_evaluation_params *params,
                                         struct hrf_evaluation **out, struct hrf_error *err);
void hrf_evaluation_destroy(struct hrf_evaluation *evaluation);
HRF_DEFINE_AUTO(hrf_evaluation)

/* New reference. */
json_t *hrf_evaluation_json(const struct hrf_evaluation *evaluation);
void hrf_evaluation_text(const struct hrf_evaluation *evaluation, struct hrf_strbuf *out);

#endif
