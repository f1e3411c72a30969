/* patch_task.h - the patches of a run against the outlines of its slides: cohort.h's patch_auc.
 *
 * A patch is positive if at least half of the level-5 pixels of the mask that it covers are in a
 * lesion, and negative otherwise; all patches of a negative slide are negative. Slides that are
 * not part of the lesion task (lesion_task.h) are not part of this one.
 */
#ifndef HRF_AGGREGATE_STUDY_PATCH_TASK_H
#define HRF_AGGREGATE_STUDY_PATCH_TASK_H

#include "aggregate/study/cohort.h"

/* Appends the truth of all patches of a slide that is judged; `mask` is NULL of a negative one. */
HRF_CHECKED enum hrf_status hrf_patch_task_add_slide(struct hrf_cohort *cohort, size_t slide,
                                                     const struct hrf_tile_plan *plan,
                                                     const struct hrf_lesion_mask *mask,
                                                     struct hrf_error *err);
/* Adds the scores of one precision of the slide that was added last. */
void hrf_patch_task_add_scores(struct hrf_cohort *cohort, size_t precision,
                               const struct hrf_scores *scores);
/* Part of hrf_cohort_finish(): the reference has to be finished first. */
HRF_CHECKED enum hrf_status hrf_patch_task_finish(struct hrf_cohort *cohort, size_t precision,
                                                  struct hrf_error *err);
void hrf_patch_task_release(struct hrf_cohort *cohort);

#endif
