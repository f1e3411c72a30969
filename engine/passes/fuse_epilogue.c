/* fuse_epilogue.c - fuses functions of one number into the convolution or matrix product before
 * them, whose epilogue computes them while the sums are in registers. */
#include "engine/passes/match.h"
#include "engine/passes/passes.h"

static enum hrf_activation activation_of(const struct hrf_node *node)
{
    switch (node->op) {
    case HRF_OP_SIGMOID:
        return HRF_ACT_SIGMOID;
    case HRF_OP_HARD_SIGMOID:
        return HRF_ACT_HARD_SIGMOID;
    case HRF_OP_SWISH:
        return node->attributes.alpha == 1 ? HRF_ACT_SWISH : HRF_ACT_NONE;
    case HRF_OP_HARD_SWISH:
        return HRF_ACT_HARD_SWISH;
    case HRF_OP_GELU:
        return HRF_ACT_GELU;
    case HRF_OP_GELU_TANH:
        return HRF_ACT_GELU_TANH;
    default:
        return HRF_ACT_NONE;
    }
}

/* Where the sums are stored in fewer bits before the function, as many are stored after it: what is
 * rounded in between is no part of the network. */
static bool keeps_type(const struct hrf_graph *graph, const struct hrf_node *function)
{
    const enum hrf_dtype type = graph->values[function->outputs[0]].dtype;
    return graph->values[function->inputs[0]].dtype == type &&
           (type == HRF_F32 || type == HRF_F16 || type == HRF_B16);
}

static const struct hrf_node *producer_of(const struct hrf_match *match,
                                          const struct hrf_node *function,
                                          enum hrf_activation activation,
                                          hrf_takes_activation *takes)
{
    const struct hrf_node *node = hrf_match_sole(match, function->inputs[0], HRF_OP_CONV);
    /* A GEMM's alpha and beta are its factors. */
    if (node == NULL && activation != HRF_ACT_HARD_SIGMOID)
        node = hrf_match_sole(match, function->inputs[0], HRF_OP_GEMM);
    if (node == NULL || node->attributes.activation != HRF_ACT_NONE ||
        !keeps_type(match->graph, function) || !takes(match->graph, node, activation))
        return NULL;
    return node;
}

enum hrf_status hrf_pass_fuse_epilogue(struct hrf_graph *graph, hrf_takes_activation *takes,
                                       struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_match) match = { 0 };
    HRF_TRY(hrf_match_init(graph, &match, err));
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *node = &graph->nodes[i];
        const enum hrf_activation activation = activation_of(node);
        const struct hrf_node *producer = activation != HRF_ACT_NONE
                                              ? producer_of(&match, node, activation, takes)
                                              : NULL;
        if (producer == NULL)
            continue;
        struct hrf_attributes attributes = producer->attributes;
        attributes.activation = activation;
        if (activation == HRF_ACT_HARD_SIGMOID) {
            attributes.alpha = node->attributes.alpha;
            attributes.beta = node->attributes.beta;
        }
        HRF_TRY(hrf_match_become(node, producer->op, producer->inputs, producer->n_inputs,
                                 &attributes, err));
    }
    return hrf_graph_compact(graph, err);
}
