/* stages.h - a graph's nodes cut into consecutive stages that take equally long.
 *
 * A stage costs its nodes' seconds and those of what crosses its ends: every value that it takes
 * from an earlier stage and every one that a later stage takes from it (a skip connection counts
 * where it begins and where it ends, not in the stages between). A rank does one thing at a time,
 * so what a message keeps it busy for adds up; the way of what it gives lies beside, and takes part
 * only when it is the slower of the two (Narayanan et al., "PipeDream", SOSP 2019). Exact, by
 * dynamic programming over the order of the nodes.
 */
#ifndef HRF_ENGINE_PLAN_STAGES_H
#define HRF_ENGINE_PLAN_STAGES_H

#include "engine/ir/graph.h"

struct hrf_stage_costs {
    const double *seconds;   /* [nodes] */
    double seconds_per_byte; /* of a value, busy: for the one that gives and the one that takes */
    double seconds_per_message;  /* likewise */
    double way_seconds_per_byte; /* of what is given: on its way */
    int64_t memory_bytes;        /* that a stage may hold, see below; 0 = any */
};

/* stage_of[nodes]: so that the slowest of the n_stages is as fast as can be; every stage gets a
 * node. A stage holds its constants and the most that is alive at one of its nodes in the whole
 * graph: no less than it will need. HRF_E_USER: more stages than nodes, or no cut keeps to the
 * memory; says what would do. */
HRF_CHECKED enum hrf_status hrf_stages_cut(const struct hrf_graph *graph,
                                           const struct hrf_stage_costs *costs, int32_t n_stages,
                                           int32_t *stage_of, struct hrf_error *err);
/* What a stage of the nodes [begin, end) costs by the above, in seconds. */
double hrf_stages_cost(const struct hrf_graph *graph, const struct hrf_stage_costs *costs,
                       int32_t begin, int32_t end);

/* Where nothing was measured: of a node on one core, and of moving a value. */
double hrf_stages_rough_seconds(const struct hrf_graph *graph, const struct hrf_node *node);
#define HRF_STAGES_ROUGH_SECONDS_PER_BYTE (1 / 5e9)

#endif
