/* score.h - one number for a slide from the positive-class probabilities of its patches.
 *
 * Pure arithmetic on the grid positions of a tile plan: no store, no files, no clock. Sums run
 * in patch order in double, so the same input gives the same bits everywhere.
 */
#ifndef HRF_AGGREGATE_SLIDE_SCORE_H
#define HRF_AGGREGATE_SLIDE_SCORE_H

#include "base/error.h"
#include "schema/record/tile_plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hrf_slide_rule_kind {
    HRF_SLIDE_RULE_MAX,         /* the largest probability */
    HRF_SLIDE_RULE_MEAN,        /* the mean over all patches */
    HRF_SLIDE_RULE_TOP_K_MEAN,  /* the mean of the top_k largest, or of all if there are fewer */
    HRF_SLIDE_RULE_PERCENTILE,  /* linear between order statistics, as numpy.percentile */
    HRF_SLIDE_RULE_MAX_SMOOTHED /* the default: see below */
};

/* max_smoothed: the largest value of the map smoothed over 3x3 grid neighbours,
 *
 *     s(i) = sum of p over the n(i) patches present in the 3x3 block around i (i included)
 *            / max(n(i), min(3, n_patches))
 *
 * Places without a patch (no tissue) are not counted, so a lesion at the rim of the tissue is
 * not diluted by glass. The floor of 3 damps a lone patch (to a third) and a pair (to two
 * thirds): a single bright patch off the tissue is the usual false positive (ink, dust, a
 * fold), and three is what a biopsy core one patch wide still has in a row. A slide with fewer
 * than 3 patches in all cannot do better than all of them, hence the min. */
struct hrf_slide_rule {
    enum hrf_slide_rule_kind kind;
    int64_t top_k;     /* top_k_mean: >= 1 */
    double percentile; /* percentile: 0..100 */
    bool any_number;   /* patches have numbers, not probabilities: they need only be finite */
};

const char *hrf_slide_rule_name(enum hrf_slide_rule_kind kind);

/* probabilities[n_patches * step]: that of patch i at [i * step]; step is the number of
 * classes when the array is [patch][class] and the pointer stands at the positive class.
 * HRF_E_USER: there are no patches, a probability is not in 0..1 (the text names the patch), the
 * rule is out of its range, the stride is below one pixel, or two patches are at one grid position.
 */
HRF_CHECKED enum hrf_status hrf_slide_score_compute(const struct hrf_tile_plan *plan,
                                                    const float *probabilities, size_t step,
                                                    const struct hrf_slide_rule *rule, double *out,
                                                    struct hrf_error *err);

#endif
