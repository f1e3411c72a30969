/* patch_task.h - judges the patches of a run by the outlines of its slides: the AUC of patches.
 *
 * A patch is positive if at least half of its area is in pixels of the mask that are in a lesion,
 * and negative otherwise; such a pixel is 32 level-0 px wide, and its centre decides, so that an
 * outline is known to half a pixel. All patches of a negative slide are negative. Slides that are
 * not part of the lesion task (lesion_task.h) are not part of this one.
 */
#ifndef HRF_AGGREGATE_STUDY_PATCH_TASK_H
#define HRF_AGGREGATE_STUDY_PATCH_TASK_H

#include "aggregate/study/cohort.h"

/* Appends the truth of all patches of a slide that is judged; `mask` is NULL for a negative slide.
 */
HRF_CHECKED enum hrf_status hrf_patch_task_add_slide(struct hrf_cohort *cohort, size_t slide,
                                                     const struct hrf_tile_plan *plan,
                                                     const struct hrf_lesion_mask *mask,
                                                     struct hrf_error *err);
/* Adds the scores of one precision of the slide that was added last. */
void hrf_patch_task_add_scores(struct hrf_cohort *cohort, size_t precision,
                               const struct hrf_scores *scores);
/* Computes the figures of a precision; hrf_cohort_finish() calls it, for the reference first. */
HRF_CHECKED enum hrf_status hrf_patch_task_finish(struct hrf_cohort *cohort, size_t precision,
                                                  struct hrf_error *err);
void hrf_patch_task_release(struct hrf_cohort *cohort);

#endif
