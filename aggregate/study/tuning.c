/* tuning.c - the operating point of a cohort, chosen on slides that are part of no figure. */
#include "aggregate/study/cohort.h"

#include <fnmatch.h>

void hrf_cohort_set_tuning(const struct hrf_aggregate_params *params,
                           struct hrf_cohort_slide *slide)
{
    for (size_t i = 0; i < params->n_tuning_slides && !slide->is_tuning; i++)
        slide->is_tuning = fnmatch(params->tuning_slides[i], slide->name, 0) == 0;
    if (!slide->is_tuning)
        return;
    slide->tuning_truth = slide->truth;
    slide->truth = HRF_TRUTH_UNKNOWN;
}

enum hrf_status hrf_cohort_tune(struct hrf_cohort *cohort, struct hrf_error *err)
{
    struct hrf_tuning *t = &cohort->tuning;
    struct hrf_error why = { .status = HRF_OK };
    if (!t->is_asked_for)
        return HRF_OK;
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_alloc_array(cohort->n_slides + 1, sizeof *items);
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        if (!slide->is_tuning || slide->tuning_truth == HRF_TRUTH_UNKNOWN ||
            !slide->scores[0].known)
            continue;
        const bool is_positive = slide->tuning_truth == HRF_TRUTH_POSITIVE;
        items[t->n_slides++] = (struct hrf_labelled){ slide->scores[0].value, is_positive };
        t->n_positive += is_positive;
    }
    const enum hrf_status status = hrf_operating_point(items, t->n_slides, t->specificity,
                                                       &t->point, &why);
    if (status != HRF_OK && status != HRF_E_USER)
        return hrf_error_set(err, status, "%s", why.text);
    if (status == HRF_E_USER) {
        t->reason = hrf_strdup(why.text);
        return HRF_OK;
    }
    cohort->threshold = t->point.threshold;
    for (size_t i = 0; i < cohort->n_slides; i++)
        for (size_t p = 0; p < cohort->n_precisions; p++) {
            struct hrf_cohort_score *score = &cohort->slides[i].scores[p];
            score->positive = score->known && score->value >= cohort->threshold;
        }
    return HRF_OK;
}
