/* joins.h - inputs of a channel concatenation that are computed inside of its output.
 *
 * In memory a concatenation of images along their channels has the channels of its inputs side by
 * side in every pixel. An input whose pixel stride is that of the output can therefore be written
 * there at once by whoever computes it, and the concatenation has nothing to copy. The output that
 * is the input of another concatenation lies inside of that one's output likewise, and so does one
 * that has the first inputs of a longer one, as in DenseNet. Pure arithmetic.
 */
#ifndef HRF_ENGINE_PLAN_JOINS_H
#define HRF_ENGINE_PLAN_JOINS_H

#include "engine/ir/graph.h"

/* Where a value lies. */
struct hrf_join {
    int32_t host;    /* the output that it lies inside of, which lies in no other one; -1: none */
    int64_t channel; /* of the host at which it begins */
};

/* True if the value may lie inside of the host. Asked of values for which it is possible. */
typedef bool hrf_may_join(const void *context, int32_t value, int32_t host);

/* `joins`: [n_values of the graph]. */
void hrf_joins_find(const struct hrf_graph *graph, hrf_may_join *may_join, const void *context,
                    struct hrf_join *joins);
/* The same of the pixel strides that the graph has: a value lies in the host if the strides of both
 * are equal. */
void hrf_joins_of_strides(const struct hrf_graph *graph, struct hrf_join *joins);

#endif
