/* joins.h - inputs of a channel concatenation that are computed inside of its output.
 *
 * In memory a concatenation of images along their channels has the channels of its inputs side by
 * side in every pixel. An input with the pixel stride of the output can therefore be computed there
 * directly, and the concatenation has nothing to copy. If the output is itself an input of another
 * concatenation, or has the first inputs of a longer one (as in DenseNet), it lies inside of that
 * one's output likewise. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_JOINS_H
#define HRF_ENGINE_PLAN_JOINS_H

#include "engine/ir/graph.h"

/* Where a value lies. */
struct hrf_join {
    int32_t host;    /* the output that the value lies inside of, which itself lies in no other; -1:
                        none */
    int64_t channel; /* of the host at which the value begins */
};

/* True if the value may lie inside of the host. Called for values for which it is possible. */
typedef bool hrf_may_join(const void *context, int32_t value, int32_t host);

/* `joins`: [n_values of the graph]. */
void hrf_joins_find(const struct hrf_graph *graph, hrf_may_join *may_join, const void *context,
                    struct hrf_join *joins);
/* The same, derived from the pixel strides in the graph: a value lies in the host if both have the
 * same stride. */
void hrf_joins_of_strides(const struct hrf_graph *graph, struct hrf_join *joins);

#endif
