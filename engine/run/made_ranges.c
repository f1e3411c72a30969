/* made_ranges.c - invents an INT8 range for every value, by the signs that operators can give
 * (made_ranges.h). */
#include "engine/run/made_ranges.h"

#include "engine/ir/op.h"
#include "engine/passes/passes.h"

/* True if the node's output is never negative, given which of its inputs are never negative. */
static bool gives_positive(const struct hrf_graph *graph, const struct hrf_node *node,
                           const bool *positive)
{
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_op_info *row = hrf_op_info(node->op);
    const bool is_cut_off = node->op == HRF_OP_CLIP || a->activation == HRF_ACT_CLIP;
    bool all = node->n_inputs > 0;
    for (int32_t i = 0; i < node->n_inputs; i++)
        all = all && hrf_graph_is_variable(graph, node->inputs[i]) && positive[node->inputs[i]];
    if (node->op == HRF_OP_RELU || node->op == HRF_OP_SIGMOID || node->op == HRF_OP_SOFTMAX ||
        a->activation == HRF_ACT_RELU || (is_cut_off && a->activation_min >= 0))
        return true;
    if (node->op == HRF_OP_ADD || node->op == HRF_OP_CONCAT || row->op_class == HRF_CLASS_POOL)
        return all;
    return hrf_op_is_move(node->op) && node->op != HRF_OP_PAD && node->inputs[0] >= 0 &&
           positive[node->inputs[0]];
}

static enum hrf_status fuse(const struct hrf_graph *graph, struct hrf_graph **out,
                            struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_TRY(hrf_graph_copy(graph, &copy, err));
    HRF_TRY(hrf_graph_infer_shapes(copy, err));
    HRF_TRY(hrf_passes_run(copy, err));
    HRF_MOVE(*out, copy);
    return HRF_OK;
}

enum hrf_status hrf_made_ranges_init(const struct hrf_graph *graph, struct hrf_made_ranges *out,
                                     struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) fused = NULL;
    HRF_TRY(fuse(graph, &fused, err));
    const size_t n = (size_t)fused->n_values + 1;
    HRF_AUTO_FREE bool *positive = hrf_calloc(n, sizeof *positive);
    struct hrf_range *ranges = hrf_calloc(n, sizeof *ranges);
    for (int32_t i = 0; i < fused->n_nodes; i++)
        positive[fused->nodes[i].outputs[0]] = gives_positive(fused, &fused->nodes[i], positive);
    for (int32_t v = 0; v < fused->n_values; v++)
        ranges[v] = (struct hrf_range){ .value = fused->values[v].name,
                                        .low = positive[v] ? 0 : -4,
                                        .high = 4 };
    *out = (struct hrf_made_ranges){ fused, ranges, fused->n_values };
    fused = NULL;
    return HRF_OK;
}

void hrf_made_ranges_release(struct hrf_made_ranges *made)
{
    hrf_graph_destroy(made->fused);
    hrf_free(made->ranges);
    *made = (struct hrf_made_ranges){ .fused = NULL };
}
