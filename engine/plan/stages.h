/* stages.h - a graph's nodes cut into consecutive stages of even cost. */
#ifndef HRF_ENGINE_PLAN_STAGES_H
#define HRF_ENGINE_PLAN_STAGES_H

#include "engine/ir/graph.h"

/* stage_of[i] for each of n costs (in order, >= 0), so that the most expensive of the n_stages is
 * as cheap as can be; every stage gets a node. Exact, by dynamic programming. */
HRF_CHECKED enum hrf_status hrf_stages_cut(const double *costs, int32_t n, int32_t n_stages,
                                           int32_t *stage_of, struct hrf_error *err);
/* A node's cost by its operations and the bytes it moves, in arbitrary units. */
double hrf_stages_cost(const struct hrf_graph *graph, const struct hrf_node *node);

#endif
