/* find_lesions.h - lesions of a slide from the positive-class probabilities of its patches.
 *
 * Either connected components of patches at or above a threshold (8-connected on the grid of
 * patches), or non-maximum suppression: the highest patch is a lesion, those within a radius of it
 * (a square, as NCRF does) are not, and so on down to the threshold. The position of a lesion is
 * the centre of its highest patch, which is inside the lesion even if a component is bent, and its
 * confidence is that patch's probability. Pure.
 */
#ifndef HRF_AGGREGATE_SLIDE_FIND_LESIONS_H
#define HRF_AGGREGATE_SLIDE_FIND_LESIONS_H

#include "aggregate/camelyon16/detections.h"
#include "schema/record/tile_plan.h"

enum hrf_lesion_method { HRF_LESIONS_NONE, HRF_LESIONS_COMPONENTS, HRF_LESIONS_NMS };

struct hrf_lesion_rule {
    enum hrf_lesion_method method;
    double threshold; /* least probability */
    double radius;    /* nms: um at level 0 */
};

/* probabilities[n_patches * step], as for hrf_slide_score_compute(). *out (heap) is sorted by
 * confidence, highest first; of equal ones the earlier patch is first. HRF_E_USER: a plan without a
 * grid, or one whose grid is larger than any slide's. */
HRF_CHECKED enum hrf_status hrf_lesions_of_patches(const struct hrf_tile_plan *plan,
                                                   const float *probabilities, size_t step,
                                                   const struct hrf_lesion_rule *rule,
                                                   struct hrf_detection **out, size_t *n_out,
                                                   struct hrf_error *err);

#endif
