/* halves.h - a graph cut in two between two of its nodes. */
#ifndef HRF_ENGINE_PLAN_HALVES_H
#define HRF_ENGINE_PLAN_HALVES_H

#include "engine/ir/graph.h"

/* A value that is computed before the cut and read after it. */
struct hrf_crossing {
    int32_t in_head, in_tail; /* its indices in the two graphs */
    /* Its only reader is a global mean, so the head computes sums only (POOL_SUM). The value in the
     * tail holds the sums, and its reader there is a POOL_FINISH. */
    bool is_summed;
};

/* The head has nodes [0, cut) and the crossing values as outputs; the tail has nodes [cut, n) and
 * the crossing values as inputs, in the same order. Values keep their names. */
struct hrf_halves {
    struct hrf_graph *head, *tail;
    struct hrf_crossing *crossings; /* [head->n_outputs] */
    int32_t n_crossings;
};

/* The shapes of `graph` must be known, all its inputs read in the head and all its outputs computed
 * in the tail; otherwise HRF_E_UNSUPPORTED. `borrows`: the halves use the constants of `graph`,
 * which must outlive them. */
HRF_CHECKED enum hrf_status hrf_halves_create(const struct hrf_graph *graph, int32_t cut,
                                              bool borrows, struct hrf_halves *out,
                                              struct hrf_error *err);
void hrf_halves_release(struct hrf_halves *halves);
/* True if a single value crosses the cut; a cut within a block would also carry its branches.
 * last_readers: of hrf_graph_find_last_readers(). */
bool hrf_halves_is_single(const struct hrf_graph *graph, const int32_t *last_readers, int32_t cut);

#endif
