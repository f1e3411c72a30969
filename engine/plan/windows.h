/* windows.h - attention in windows rewritten so that ranks can divide the windows' tokens.
 *
 * Attention in windows (Swin) is written as [N * windows][T][C], which has no axis along which each
 * rank could have its part of every image. The same numbers in the same order are N sequences of
 * all windows' tokens, [N][windows * T][C]: products and functions work on each token by itself,
 * and an attention sees the T tokens of its window. hrf_value.grain says that ranks do not part
 * these. A rewrite of the prepared graph, before it is partitioned.
 */
#ifndef HRF_ENGINE_PLAN_WINDOWS_H
#define HRF_ENGINE_PLAN_WINDOWS_H

#include "engine/ir/graph.h"

/* Rewrites the attention of at least n_ranks windows an image whose neighbours can be rewritten,
 * too, as far as the copies of rows (region_rows.h) into windows and out of them. */
void hrf_windows_join(struct hrf_graph *graph, int32_t n_ranks);

#endif
