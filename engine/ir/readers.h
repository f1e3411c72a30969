/* readers.h - an index of the nodes that read each value, so that a pass over all nodes is linear.
 *
 * The index describes the graph at the time of hrf_readers_init(). A pass that lets a consumer take
 * over the inputs of its producer may keep using it, because it stays correct for all other values.
 */
#ifndef HRF_ENGINE_IR_READERS_H
#define HRF_ENGINE_IR_READERS_H

#include "engine/ir/graph.h"

struct hrf_readers {
    int32_t *first; /* [n_values + 1]: value v's readers are nodes[first[v]] to nodes[first[v+1]-1],
                     * in order; a node that reads v twice is there twice */
    int32_t *nodes;
    bool *is_output; /* [n_values]: whether the value is an output of the graph */
    int32_t n_values;
};

void hrf_readers_init(const struct hrf_graph *graph, struct hrf_readers *out);
void hrf_readers_release(struct hrf_readers *readers);

static inline int32_t hrf_readers_count(const struct hrf_readers *readers, int32_t value)
{
    return readers->first[value + 1] - readers->first[value];
}

/* Frees a constant that only one node has read, which now reads another in its place, so that
 * weights are not held twice until a pass ends. Nothing for values that are newer than the index.
 */
void hrf_readers_drop_constant(const struct hrf_readers *readers, struct hrf_graph *graph,
                               int32_t value);

/* True if one node reads the value exactly once and it is no output of the graph. */
static inline bool hrf_readers_is_one(const struct hrf_readers *readers, int32_t value)
{
    return hrf_readers_count(readers, value) == 1 && !readers->is_output[value];
}

#endif
