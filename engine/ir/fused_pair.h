/* fused_pair.h - two consecutive nodes whose kernels run as one, tile by tile, so that the second
 * kernel reads its input from the caches, or has it in registers. The plan chooses the pairs
 * (engine/plan); each kernel says whether it supports being fused (engine/backend).
 */
#ifndef HRF_ENGINE_IR_FUSED_PAIR_H
#define HRF_ENGINE_IR_FUSED_PAIR_H

#include <stdbool.h>

/* What the first kernel of a fused pair must know about the pair. Both outputs are written, except
 * that the first need not be if nothing else reads it. */
struct hrf_fused_pair {
    bool overlaps; /* the second output overlaps the memory of the first node's inputs */
    /* The second node reads another image and adds to the first output in place. */
    bool is_residual;
    bool reads_residual; /* the second node adds another image to its result
                          */
    bool is_sole_reader; /* nothing but the second node, once, reads the first output */
};

#endif
