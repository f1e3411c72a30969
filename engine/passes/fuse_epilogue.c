/* fuse_epilogue.c - fuses functions of one number into the convolution or matrix product before
 * them, whose epilogue computes them while the sums are in registers. */
#include "engine/ir/op.h"
#include "engine/passes/match.h"
#include "engine/passes/passes.h"

/* The activation as which the node can be fused in floats; NONE. */
static enum hrf_activation activation_of(const struct hrf_node *node)
{
    const enum hrf_activation activation = hrf_op_info(node->op)->activation;
    const bool has_other_alpha = activation == HRF_ACT_SWISH && node->attributes.alpha != 1;
    return activation < HRF_ACT_SIGMOID || has_other_alpha ? HRF_ACT_NONE : activation;
}

/* True if the function stores as many bits as its input: a rounding in between is not part of the
 * network. */
static bool keeps_type(const struct hrf_graph *graph, const struct hrf_node *function)
{
    const enum hrf_dtype type = graph->values[function->outputs[0]].dtype;
    return graph->values[function->inputs[0]].dtype == type && hrf_dtype_is_float(type);
}

static const struct hrf_node *producer_of(const struct hrf_match *match,
                                          const struct hrf_node *function,
                                          enum hrf_activation activation,
                                          const struct hrf_kernel_table *kernels)
{
    static const enum hrf_op ops[] = { HRF_OP_CONV, HRF_OP_TOKEN_PRODUCT, HRF_OP_GEMM };
    /* A GEMM's alpha and beta are its factors. */
    const int n_ops = activation == HRF_ACT_HARD_SIGMOID ? 2 : 3;
    const struct hrf_node *node = NULL;
    for (int i = 0; i < n_ops && node == NULL; i++)
        node = hrf_match_sole(match, function->inputs[0], ops[i]);
    if (node == NULL || node->attributes.activation != HRF_ACT_NONE ||
        !keeps_type(match->graph, function) ||
        !hrf_kernels_take_activation(kernels, match->graph, node, activation))
        return NULL;
    return node;
}

enum hrf_status hrf_pass_fuse_epilogue(struct hrf_graph *graph,
                                       const struct hrf_kernel_table *kernels,
                                       struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_match) match = { 0 };
    hrf_match_init(graph, &match);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *node = &graph->nodes[i];
        const enum hrf_activation activation = activation_of(node);
        const struct hrf_node *producer = activation != HRF_ACT_NONE
                                              ? producer_of(&match, node, activation, kernels)
                                              : NULL;
        if (producer == NULL)
            continue;
        struct hrf_attributes attributes = producer->attributes;
        attributes.activation = activation;
        if (activation == HRF_ACT_HARD_SIGMOID) {
            attributes.alpha = node->attributes.alpha;
            attributes.beta = node->attributes.beta;
        }
        hrf_match_become(node, producer->op, producer->inputs, producer->n_inputs, &attributes);
    }
    return hrf_graph_compact(graph, err);
}
