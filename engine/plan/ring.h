/* ring.h - whether the ranks of a sequence gather keys and values, or pass them in a ring.
 *
 * A gather is one exchange; a ring is many small ones, and a rank holds one part of the keys at a
 * time. Both are simulated, and the faster one is taken. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_RING_H
#define HRF_ENGINE_PLAN_RING_H

#include "engine/plan/partition.h"
#include "engine/plan/simulate.h"

/* Sets layout->attention if it is AUTO and the graph, of one micro-batch, has attention over so
 * many tokens that a ring is possible. Devices have no kernel for a ring: they gather. */
HRF_CHECKED enum hrf_status hrf_ring_choose(const struct hrf_graph *graph,
                                            const struct hrf_cost_table *costs,
                                            const struct hrf_machine *machine,
                                            struct hrf_layout_plan *layout, struct hrf_error *err);

#endif
