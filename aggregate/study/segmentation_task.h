/* segmentation_task.h - the regions of each class that a segmentation network finds on slides:
 * their areas, and how well they overlap with annotated ones (Dice and IoU).
 *
 * The truth of the positive class is what counts as lesion in an annotation (asap.h), of another
 * class the outlines whose group has the class's name; outlines drawn later lie over earlier ones,
 * and cut-outs over all. In a mask as annotation every value but 0 is the positive class; if it
 * has several values, value k is the k-th class. A negative slide has no truth of the positive
 * class, and then all that is found is wrong. Slides without truth are not judged.
 *
 * Overlap is counted on the finest level of the mask that has at most 2^26 pixels, on the whole
 * slide: what was not scored, because it was not seen as tissue, counts as not found.
 */
#ifndef HRF_AGGREGATE_STUDY_SEGMENTATION_TASK_H
#define HRF_AGGREGATE_STUDY_SEGMENTATION_TASK_H

#include "aggregate/study/cohort.h"
#include "aggregate/study/lesion_task.h"

/* Fills the areas and overlaps of a slide's score at one precision, and adds the overlaps to the
 * precision's. */
HRF_CHECKED enum hrf_status hrf_segmentation_task_add(struct hrf_cohort *cohort, size_t precision,
                                                      struct hrf_cohort_slide *slide,
                                                      const struct hrf_tile_plan *plan,
                                                      const struct hrf_scores *scores,
                                                      const struct hrf_lesion_truth *truth,
                                                      struct hrf_error *err);

#endif
