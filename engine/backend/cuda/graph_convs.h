/* graph_convs.h - the convolutions of a graph that cuDNN is asked for. Needs no GPU. */
#ifndef HRF_ENGINE_BACKEND_CUDA_GRAPH_CONVS_H
#define HRF_ENGINE_BACKEND_CUDA_GRAPH_CONVS_H

#include "engine/backend/cuda/cudnn_conv.h"

/* Where the convolutions run, and which of them have a plan. */
struct hrf_conv_target {
    int64_t memory_bytes; /* of the device */
    bool allow_tf32;
    bool (*has_plan)(void *context, const struct hrf_cudnn_conv *conv);
    void *context;
};

/* Whether `conv`, which is `node`, runs in strips (conv_strips.h): no engine takes all of it. */
bool hrf_cuda_runs_in_strips(const struct hrf_conv_target *target, const struct hrf_node *node,
                             const struct hrf_cudnn_conv *conv);
/* Fills convs[graph->n_nodes at most] with the convolutions that are asked for first, or
 * (in_strips) with those of the strips in the place of the ones that have no plan by then. */
HRF_CHECKED enum hrf_status hrf_cuda_graph_convs(const struct hrf_conv_target *target,
                                                 const struct hrf_graph *graph, bool in_strips,
                                                 struct hrf_cudnn_conv *convs, int32_t *n,
                                                 struct hrf_error *err);

#endif
