/* lower_rows.c - products that round the rows (tokens, pixels) of their input in float32 by scales
 * of their own, and norms that divide what they give to such products (lower_private.h). */
#include "engine/passes/lower_private.h"

#include "engine/ir/op.h"

static bool is_norm_of_rows(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    return (node->op == HRF_OP_LAYER_NORM || node->op == HRF_OP_RMS_NORM) &&
           (y->rank == 4 ? node->attributes.of_each_pixel : node->attributes.axis == y->rank - 1);
}

bool hrf_lower_is_of_rows(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    if (node->op == HRF_OP_GEMM)
        return !a->gemm.transpose_a && hrf_node_has_constant(graph, node, HRF_CONV_WEIGHTS);
    if (node->op != HRF_OP_CONV || a->group != 1 ||
        !hrf_node_has_constant(graph, node, HRF_CONV_WEIGHTS))
        return false;
    const int64_t *kernel = graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape.dims + 2;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++)
        if (kernel[i] != 1 || a->window.stride[i] != 1 || a->window.pad_begin[i] != 0 ||
            a->window.pad_end[i] != 0)
            return false;
    return true;
}

static bool keeps_rows(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_op_is_unary(node->op) || hrf_op_is_binary(node->op) || hrf_op_is_move(node->op) ||
           node->op == HRF_OP_SWIGLU || node->op == HRF_OP_MATMUL ||
           hrf_lower_is_of_rows(graph, node);
}

void hrf_lower_find_tokens(const struct hrf_graph *graph, bool *of_tokens)
{
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &graph->nodes[n];
        bool is = is_norm_of_rows(graph, node) || hrf_op_is_attention(node->op);
        for (int32_t i = 0; i < node->n_inputs && keeps_rows(graph, node); i++)
            is |= hrf_node_has_input(node, i) && of_tokens[node->inputs[i]];
        of_tokens[node->outputs[0]] = is;
    }
}

bool hrf_lower_can_round_rows(const struct hrf_graph *graph, const bool *of_tokens,
                              const struct hrf_node *node)
{
    return hrf_lower_is_of_rows(graph, node) && !hrf_node_has_constant(graph, node, HRF_CONV_X) &&
           (node->op == HRF_OP_GEMM || of_tokens[node->inputs[HRF_CONV_X]]);
}

bool hrf_lower_adds_to_tokens(const struct lowering *l, const struct hrf_node *node)
{
    return l->how->rounds_rows && l->how->type == HRF_S8 && !l->brings_scales &&
           node->op == HRF_OP_CONV && node->attributes.group > 1 &&
           hrf_node_has_input(node, HRF_CONV_RESIDUAL) &&
           l->of_tokens[node->inputs[HRF_CONV_RESIDUAL]];
}

static bool is_dividable_norm(const struct lowering *l, const struct hrf_node *node)
{
    return is_norm_of_rows(l->from, node) && hrf_node_has_constant(l->from, node, 1) &&
           (!hrf_node_has_input(node, 2) || hrf_node_has_constant(l->from, node, 2));
}

bool hrf_lower_rounds_rows(const struct lowering *l, const struct hrf_node *node)
{
    return l->how->rounds_rows && l->how->type == HRF_S8 && !l->brings_scales &&
           l->low[node->inputs[HRF_CONV_X]] < 0 &&
           hrf_lower_can_round_rows(l->from, l->of_tokens, node);
}

/* True if nothing but such products reads the value, so that its producer may divide it. */
static bool is_for_products(struct lowering *l, int32_t value)
{
    for (int32_t i = 0; i < l->from->n_outputs; i++)
        if (l->from->outputs[i] == value)
            return false;
    for (int32_t n = 0; n < l->from->n_nodes; n++) {
        const struct hrf_node *node = &l->from->nodes[n];
        for (int32_t i = 0; i < node->n_inputs; i++)
            if (node->inputs[i] == value &&
                (i != HRF_CONV_X || !hrf_lower_can_round_rows(l->from, l->of_tokens, node) ||
                 hrf_lower_why_kept(l, node) != NULL || hrf_lower_refuse_product(l, node) != NULL))
                return false;
    }
    return true;
}

static enum hrf_status add_row(struct lowering *l, const char *name, const char *suffix,
                               const float *row, int64_t n, int32_t *index, struct hrf_error *err)
{
    const struct hrf_shape shape = { .rank = 1, .dims = { n } };
    HRF_AUTO_FREE char *own = hrf_format("%s.%s", name, suffix);
    return hrf_graph_add_value(l->to, own, HRF_F32, &shape, row, index, err);
}

enum hrf_status hrf_lower_divide_norm(struct lowering *l, const struct hrf_node *node,
                                      int32_t *inputs, struct hrf_error *err)
{
    const int32_t y = node->outputs[0];
    const int64_t n = hrf_shape_innermost(&l->from->values[y].shape);
    if (!l->how->rounds_rows || l->how->type != HRF_S8 || !is_dividable_norm(l, node) ||
        hrf_shape_count(&l->from->values[node->inputs[1]].shape) != n || !is_for_products(l, y))
        return HRF_OK;
    HRF_TRY(hrf_lower_find_smoothing(l->from, y, hrf_lower_range(l, y), &l->smoothing[y], err));
    const float *smoothing = l->smoothing[y];
    HRF_AUTO_FREE float *row = hrf_try_alloc_array((size_t)n, sizeof *row);
    HRF_CHECK_MEMORY(row != NULL, err, "no memory to lower a graph");
    for (int32_t i = 1; i <= 2 && smoothing != NULL; i++) {
        if (!hrf_node_has_input(node, i))
            continue;
        const float *from = l->from->values[node->inputs[i]].data;
        for (int64_t k = 0; k < n; k++)
            row[k] = from[k] / smoothing[k];
        HRF_TRY(add_row(l, node->name, i == 1 ? "scale.smoothed" : "bias.smoothed", row, n,
                        &inputs[i], err));
    }
    l->is_smoothed[y] = smoothing != NULL;
    return HRF_OK;
}

enum hrf_status hrf_lower_row_product(struct lowering *l, const struct hrf_node *node,
                                      struct hrf_error *err)
{
    const int32_t x = node->inputs[HRF_CONV_X], value = node->outputs[0];
    const int64_t depth = hrf_shape_innermost(&l->from->values[x].shape);
    const struct hrf_range *range = hrf_lower_range(l, x);
    int32_t inputs[HRF_CONV_FACTORS + 1], output;
    for (int32_t i = 0; i <= HRF_CONV_FACTORS; i++)
        inputs[i] = HRF_NO_VALUE;
    HRF_TRY(hrf_lower_get_full(l, x, &inputs[HRF_CONV_X], err));
    if (hrf_node_has_input(node, HRF_CONV_RESIDUAL))
        HRF_TRY(hrf_lower_get_full(l, node->inputs[HRF_CONV_RESIDUAL], &inputs[HRF_CONV_RESIDUAL],
                                   err));
    if (l->smoothing[x] == NULL)
        HRF_TRY(hrf_lower_find_smoothing(l->from, x, range, &l->smoothing[x], err));
    HRF_TRY(hrf_lower_integer_weights(l->from, node, range, l->smoothing[x], l->to, inputs, err));
    if (l->smoothing[x] != NULL && !l->is_smoothed[x]) {
        HRF_AUTO_FREE float *factors = hrf_try_alloc_array((size_t)depth, sizeof *factors);
        HRF_CHECK_MEMORY(factors != NULL, err, "no memory to lower a graph");
        for (int64_t k = 0; k < depth; k++)
            factors[k] = 1 / l->smoothing[x][k];
        HRF_TRY(add_row(l, node->name, "factors", factors, depth, &inputs[HRF_CONV_FACTORS], err));
    }
    l->to->values[inputs[HRF_CONV_WEIGHTS]].shape.rank = 2; /* a window is of one pixel */
    HRF_TRY(hrf_lower_add_value(l, value, "", HRF_F32, (struct hrf_quantization){ .scale = 0 },
                                &output, err));
    HRF_TRY(hrf_lower_add_node(l, HRF_OP_TOKEN_PRODUCT, node->name, inputs, HRF_CONV_FACTORS + 1,
                               output, &node->attributes, err));
    l->full[value] = output;
    return HRF_OK;
}
