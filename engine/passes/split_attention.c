/* split_attention.c - splits linear attention into a sum over all pixels and a pointwise operator.
 */
#include "engine/passes/passes.h"

static enum hrf_status insert(struct hrf_graph *graph, int32_t at, enum hrf_op op,
                              const char *suffix, enum hrf_dtype dtype,
                              const struct hrf_shape *shape, const int32_t *inputs,
                              int32_t n_inputs, int32_t *output, struct hrf_error *err)
{
    const struct hrf_attributes attributes = graph->nodes[at].attributes;
    HRF_AUTO_FREE char *name = hrf_format("%s.%s", graph->nodes[at].name, suffix);
    HRF_TRY(hrf_graph_add_value(graph, name, dtype, shape, NULL, output, err));
    return hrf_graph_insert_node(graph, at, op, name, inputs, n_inputs, output, 1, &attributes,
                                 err);
}

/* Inserts the new nodes before node `at`, which becomes PERFORMER_APPLY. */
static enum hrf_status split(struct hrf_graph *graph, int32_t at, struct hrf_error *err)
{
    const struct hrf_node *node = &graph->nodes[at];
    const int32_t q = node->inputs[HRF_PERFORMER_Q], k = node->inputs[HRF_PERFORMER_K];
    const int32_t v = node->inputs[HRF_PERFORMER_V];
    const int32_t projection = node->inputs[HRF_PERFORMER_PROJECTION];
    const struct hrf_shape p = graph->values[projection].shape;
    const struct hrf_shape largest = {
        .rank = 2, .dims = { graph->values[q].shape.dims[0], node->attributes.performer.heads }
    };
    const struct hrf_shape state = {
        .rank = 3, .dims = { largest.dims[0], largest.dims[1], (p.dims[1] + 1) * p.dims[0] }
    };
    int32_t inputs[] = { k, v, projection, HRF_NO_VALUE }, sum;
    if (node->attributes.performer.exponential) {
        const int32_t of_max[] = { k, projection };
        HRF_TRY(insert(graph, at, HRF_OP_PERFORMER_MAX, "max", HRF_F32, &largest, of_max, 2,
                       &inputs[HRF_STATE_MAX], err));
    }
    HRF_TRY(insert(graph, at, HRF_OP_PERFORMER_STATE, "state", HRF_F64, &state, inputs,
                   inputs[HRF_STATE_MAX] >= 0 ? 4 : 3, &sum, err));
    struct hrf_node *apply = &graph->nodes[at];
    apply->op = HRF_OP_PERFORMER_APPLY;
    apply->inputs[0] = q;
    apply->inputs[1] = sum;
    apply->inputs[HRF_STATE_PROJECTION] = projection;
    apply->n_inputs = HRF_STATE_PROJECTION + 1;
    return HRF_OK;
}

enum hrf_status hrf_pass_split_attention(struct hrf_graph *graph, struct hrf_error *err)
{
    const int32_t n = graph->n_nodes;
    for (int32_t i = 0; i < n; i++)
        if (graph->nodes[i].op == HRF_OP_PERFORMER)
            HRF_TRY(split(graph, i, err));
    hrf_graph_place_nodes(graph);
    return HRF_OK;
}
