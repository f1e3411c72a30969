/* split_transpose.c - replaces transposed convolutions whose windows do not overlap by a 1x1
 * convolution and DEPTH_TO_SPACE. */
#include "engine/passes/passes.h"

#include <string.h>

static bool lies_side_by_side(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_window *w = &a->window;
    if (node->op != HRF_OP_CONV_TRANSPOSE || a->group != 1 || w->kernel[0] != w->kernel[1])
        return false;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++)
        if (w->kernel[i] != w->stride[i] || w->pad_begin[i] != 0 || w->pad_end[i] != 0 ||
            graph->values[node->outputs[0]].shape.dims[2 + i] !=
                graph->values[node->inputs[0]].shape.dims[2 + i] * w->stride[i])
            return false;
    for (int32_t k = HRF_CONV_WEIGHTS; k < node->n_inputs; k++)
        if (node->inputs[k] >= 0 && graph->values[node->inputs[k]].data == NULL)
            return false;
    return true;
}

/* Reorders [C][M][s][s] to [s][s][M][C]: one output channel for each position in the block and each
 * m. */
static void transpose_weights(const float *from, int64_t n_in, int64_t n_out, int64_t area,
                              float *to)
{
    for (int64_t c = 0; c < n_in; c++)
        for (int64_t m = 0; m < n_out; m++)
            for (int64_t i = 0; i < area; i++)
                to[(i * n_out + m) * n_in + c] = from[(c * n_out + m) * area + i];
}

static enum hrf_status add_constant(struct hrf_graph *graph, const struct hrf_node *node,
                                    const char *what, const struct hrf_shape *shape, void **data,
                                    int32_t *index, struct hrf_error *err)
{
    HRF_AUTO_FREE char *name = hrf_format("%s.%s", node->name, what);
    return hrf_graph_take_value(graph, name, HRF_F32, shape, data, index, err);
}

static enum hrf_status make_constants(struct hrf_graph *graph, const struct hrf_node *node,
                                      int32_t *inputs, struct hrf_error *err)
{
    const struct hrf_value *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]];
    const bool has_bias = node->n_inputs > HRF_CONV_BIAS && node->inputs[HRF_CONV_BIAS] >= 0;
    const int64_t n_in = w->shape.dims[0], n_out = w->shape.dims[1];
    const int64_t area = w->shape.dims[2] * w->shape.dims[3];
    const struct hrf_shape shape = { .rank = 4, .dims = { area * n_out, n_in, 1, 1 } };
    const struct hrf_shape row = { .rank = 1, .dims = { area * n_out } };
    HRF_AUTO_FREE void *weights = hrf_try_alloc_array((size_t)hrf_shape_count(&shape),
                                                      sizeof(float));
    HRF_AUTO_FREE void *biases = hrf_try_alloc_array((size_t)(area * n_out), sizeof(float));
    HRF_CHECK_MEMORY(weights != NULL && biases != NULL, err, "no memory to rewrite node '%s'",
                     node->name);
    transpose_weights(w->data, n_in, n_out, area, weights);
    for (int64_t i = 0; i < area && has_bias; i++)
        memcpy((float *)biases + i * n_out, graph->values[node->inputs[HRF_CONV_BIAS]].data,
               (size_t)n_out * sizeof(float));
    HRF_TRY(add_constant(graph, node, "weights.blocks", &shape, &weights, &inputs[1], err));
    inputs[HRF_CONV_BIAS] = HRF_NO_VALUE;
    return has_bias ? add_constant(graph, node, "bias.blocks", &row, &biases,
                                   &inputs[HRF_CONV_BIAS], err)
                    : HRF_OK;
}

/* Inserts a convolution before node `at`, which becomes DEPTH_TO_SPACE. */
static enum hrf_status split(struct hrf_graph *graph, int32_t at, struct hrf_error *err)
{
    struct hrf_node *node = &graph->nodes[at];
    int32_t inputs[HRF_CONV_BIAS + 1] = { node->inputs[HRF_CONV_X] }, middle;
    struct hrf_attributes conv = hrf_attributes_default(), move = hrf_attributes_default();
    struct hrf_shape shape = graph->values[node->inputs[HRF_CONV_X]].shape;
    move.block.size = node->attributes.window.kernel[0];
    shape.dims[1] = move.block.size * move.block.size *
                    graph->values[node->outputs[0]].shape.dims[1];
    conv.window.kernel[0] = conv.window.kernel[1] = 1;
    conv.activation = node->attributes.activation;
    conv.activation_min = node->attributes.activation_min;
    conv.activation_max = node->attributes.activation_max;
    conv.alpha = node->attributes.alpha;
    HRF_AUTO_FREE char *name = hrf_format("%s.blocks", node->name);
    HRF_TRY(make_constants(graph, node, inputs, err));
    HRF_TRY(hrf_graph_add_value(graph, name, HRF_F32, &shape, NULL, &middle, err));
    HRF_TRY(hrf_graph_insert_node(graph, at, HRF_OP_CONV, name, inputs,
                                  inputs[HRF_CONV_BIAS] >= 0 ? 3 : 2, &middle, 1, &conv, err));
    node = &graph->nodes[at];
    node->op = HRF_OP_DEPTH_TO_SPACE;
    node->attributes = move;
    node->inputs[0] = middle;
    node->n_inputs = 1;
    return HRF_OK;
}

enum hrf_status hrf_pass_split_conv_transpose(struct hrf_graph *graph, struct hrf_error *err)
{
    const int32_t n = graph->n_nodes;
    for (int32_t i = 0; i < n; i++)
        if (lies_side_by_side(graph, &graph->nodes[i]))
            HRF_TRY(split(graph, i, err));
    hrf_graph_place_nodes(graph);
    return hrf_graph_compact(graph, err);
}
