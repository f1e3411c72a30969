#include "engine/backend/cuda/graph_convs.h"

#include "engine/backend/cuda/conv_strips.h"
#include "engine/backend/cuda/cudnn_choose.h"

bool hrf_cuda_runs_in_strips(const struct hrf_conv_target *target, const struct hrf_node *node,
                             const struct hrf_cudnn_conv *conv)
{
    const int64_t strip_bytes = hrf_cuda_strip_bytes(target->memory_bytes);
    if (node->op != HRF_OP_CONV || !hrf_cuda_strips_help(conv, strip_bytes))
        return false;
    return (conv->has_prologue && !hrf_cudnn_conv_takes_prologue(conv)) ||
           !target->has_plan(target->context, conv);
}

enum hrf_status hrf_cuda_graph_convs(const struct hrf_conv_target *target,
                                     const struct hrf_graph *graph, bool in_strips,
                                     struct hrf_cudnn_conv *convs, int32_t *n,
                                     struct hrf_error *err)
{
    const int64_t strip_bytes = hrf_cuda_strip_bytes(target->memory_bytes);
    *n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const struct hrf_node *node = &graph->nodes[i];
        bool is_one = hrf_cudnn_conv_describe(graph, node, target->allow_tf32, &convs[*n]);
        const bool is_asked = is_one && (!convs[*n].has_prologue ||
                                         hrf_cudnn_conv_takes_prologue(&convs[*n]));
        if (in_strips && is_one && hrf_cuda_runs_in_strips(target, node, &convs[*n]))
            HRF_TRY(hrf_cuda_strips_describe(graph, node, strip_bytes, target->allow_tf32,
                                             &convs[*n], &is_one, err));
        else
            is_one = is_asked && !in_strips;
        *n += is_one;
        const struct hrf_node *second = hrf_graph_second_of(graph, node);
        if (is_asked && !in_strips && second != NULL)
            *n += hrf_cudnn_conv_describe_both(graph, node, second, target->allow_tf32, &convs[*n]);
    }
    return HRF_OK;
}
