/* stages.h - cuts the nodes of a graph into consecutive pipeline stages of equal time.
 *
 * The cost of a stage is the time of its nodes plus the time of its messages: one for every value
 * that it receives from an earlier stage and one for every value that a later stage receives from
 * it (a skip connection counts in the stages where it begins and ends, not in those between). A
 * rank does one thing at a time, so the time that messages keep it busy adds up. The transit of
 * what it sends overlaps with its work; the stage costs the larger of the two (Narayanan et al.,
 * "PipeDream", SOSP 2019). Exact, by dynamic programming over the order of the nodes. A node of a
 * backward pass belongs to the stage of the node whose gradients it computes; its time is counted
 * there.
 */
#ifndef HRF_ENGINE_PLAN_STAGES_H
#define HRF_ENGINE_PLAN_STAGES_H

#include "engine/ir/graph.h"

struct hrf_stage_costs {
    const double *seconds;   /* [nodes] */
    double seconds_per_byte; /* busy time of the sender, and of the receiver, per byte of a value */
    double seconds_per_message;      /* busy time per message */
    double transit_seconds_per_byte; /* transit time per byte that is sent */
    int64_t memory_bytes;            /* limit of a stage, see below; 0: none */
};

/* stage_of[nodes]: the cut for which the slowest of the n_stages is as fast as possible; every
 * stage has at least one node. The memory of a stage is counted as its constants plus the largest
 * sum of live values at one of its nodes in the whole graph, which is an upper bound. HRF_E_USER,
 * with a suggestion: more stages than nodes, or no cut is within the memory. */
HRF_CHECKED enum hrf_status hrf_stages_cut(const struct hrf_graph *graph,
                                           const struct hrf_stage_costs *costs, int32_t n_stages,
                                           int32_t *stage_of, struct hrf_error *err);

/* Estimates for when nothing was measured: the time of a node on one core, and of sending a
 * value. */
double hrf_stages_rough_seconds(const struct hrf_graph *graph, const struct hrf_node *node);
#define HRF_STAGES_ROUGH_SECONDS_PER_BYTE (1 / 5e9)

#endif
