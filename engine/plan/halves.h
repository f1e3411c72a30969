/* halves.h - a graph cut in two between two of its nodes. */
#ifndef HRF_ENGINE_PLAN_HALVES_H
#define HRF_ENGINE_PLAN_HALVES_H

#include "engine/ir/graph.h"

/* A value that is made before the cut and read after it. */
struct hrf_crossing {
    int32_t in_head, in_tail; /* values of the halves */
    /* All that reads it is a global mean, so the head's parts need give their sums only (POOL_SUM):
     * the tail's value holds those, and its first node there is POOL_FINISH. */
    bool is_summed;
};

/* Nodes [0, cut) with what crosses as outputs, and nodes [cut, n) with what crosses as inputs, in
 * the same order. Values keep their names. */
struct hrf_halves {
    struct hrf_graph *head, *tail;
    struct hrf_crossing *crossings; /* [head->n_outputs] */
    int32_t n_crossings;
};

/* `graph`: shapes known; its outputs are made, and its inputs read, on one side each:
 * HRF_E_UNSUPPORTED otherwise. `borrows`: constants stay the graph's, which then outlives the
 * halves. */
HRF_CHECKED enum hrf_status hrf_halves_create(const struct hrf_graph *graph, int32_t cut,
                                              bool borrows, struct hrf_halves *out,
                                              struct hrf_error *err);
void hrf_halves_release(struct hrf_halves *halves);

#endif
