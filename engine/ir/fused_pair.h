/* fused_pair.h - two consecutive nodes whose kernels run as one, part by part, so that the second
 * finds in the caches what the first has just written. The plan decides which nodes (engine/plan),
 * the kernels say whether they can (engine/backend).
 */
#ifndef HRF_ENGINE_IR_FUSED_PAIR_H
#define HRF_ENGINE_IR_FUSED_PAIR_H

#include <stdbool.h>

/* What a kernel has to know of the pair that it is the first of. */
struct hrf_fused_pair {
    bool is_kept;     /* others read the first's output, too; if not, that may hold anything */
    bool overlaps;    /* the second's output lies where the first's inputs do */
    bool is_residual; /* the second adds to the first's output, in place; its image is another */
};

#endif
