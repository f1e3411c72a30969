/* lesion_task.h - the lesion task of a run, from which the FROC figures are computed.
 *
 * The truth is the outlines of slide.annotation, or its mask, in which every value but 0 is tumour;
 * a positive slide without them, and with is_camelyon16 one that is known to be wrong, is left out
 * and named. For the other rules of evaluation there is `hires-flow evaluate`.
 */
#ifndef HRF_AGGREGATE_STUDY_LESION_TASK_H
#define HRF_AGGREGATE_STUDY_LESION_TASK_H

#include "aggregate/study/cohort.h"

/* The annotated lesions of a slide. */
struct hrf_lesion_truth {
    bool is_judged;                /* the slide is part of the task */
    struct hrf_lesion_mask *mask;  /* NULL for a negative slide */
    struct hrf_lesions *lesions;   /* NULL for a negative slide, and if lesions are not needed */
    bool are_classes;              /* the values of the mask are numbers of classes, from 1 */
    struct hrf_outlines *outlines; /* as they are in the file; NULL: it is a mask, or negative */
};
void hrf_lesion_truth_release(struct hrf_lesion_truth *truth);

/* A slide that is left out although it has a truth is noted in the cohort. */
HRF_CHECKED enum hrf_status hrf_lesion_truth_load(struct hrf_cohort *cohort,
                                                  const struct hrf_cohort_slide *slide,
                                                  struct hrf_lesion_truth *out,
                                                  struct hrf_error *err);
/* Adds the lesions that one precision finds on a slide that is judged. */
HRF_CHECKED enum hrf_status hrf_lesion_task_add(struct hrf_cohort *cohort, size_t precision,
                                                const struct hrf_cohort_slide *slide,
                                                const struct hrf_tile_plan *plan,
                                                const struct hrf_scores *scores,
                                                const struct hrf_lesions *lesions,
                                                struct hrf_error *err);
/* Computes the figures of a precision; hrf_cohort_finish() calls it. */
HRF_CHECKED enum hrf_status hrf_lesion_task_finish(struct hrf_cohort *cohort, size_t precision,
                                                   struct hrf_error *err);
void hrf_lesion_task_release(struct hrf_cohort *cohort);

#endif
