/* weights.h - all weights of a network as one array of numbers, in the order of its values. */
#ifndef HRF_TRAINING_LOOP_WEIGHTS_H
#define HRF_TRAINING_LOOP_WEIGHTS_H

#include "engine/ir/graph.h"

int64_t hrf_weights_count(const struct hrf_graph *graph);
/* Writes the weights that `source`, a copy of the network with other numbers, has for those of
 * `graph`. HRF_E_BUG: it lacks one. */
HRF_CHECKED enum hrf_status hrf_weights_get(const struct hrf_graph *graph,
                                            const struct hrf_graph *source, float *out,
                                            struct hrf_error *err);
/* A copy of `graph` with these weights. */
HRF_CHECKED enum hrf_status hrf_weights_set(const struct hrf_graph *graph, const float *numbers,
                                            struct hrf_graph **out, struct hrf_error *err);

#endif
