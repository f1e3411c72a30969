/* lower_rows.c - products that round the rows (tokens) of their input in float32 by scales of their
 * own, and norms that divide what they give to such products (lower_private.h). */
#include "engine/passes/lower_private.h"

static bool is_dividable_norm(const struct lowering *l, const struct hrf_node *node)
{
    return (node->op == HRF_OP_LAYER_NORM || node->op == HRF_OP_RMS_NORM) &&
           hrf_lower_has_constant(l->from, node, 1) &&
           (!hrf_lower_has(node, 2) || hrf_lower_has_constant(l->from, node, 2)) &&
           node->attributes.axis == l->from->values[node->outputs[0]].shape.rank - 1;
}

bool hrf_lower_rounds_rows(const struct lowering *l, const struct hrf_node *node)
{
    return l->how->rounds_rows && l->how->type == HRF_S8 && !l->brings_scales &&
           node->op == HRF_OP_GEMM && l->low[node->inputs[HRF_CONV_X]] < 0;
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
                (i != HRF_CONV_X || node->op != HRF_OP_GEMM ||
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
    HRF_CHECK_MEMORY(own != NULL, err, "no memory to lower a graph");
    return hrf_graph_add_value(l->to, own, HRF_F32, &shape, row, index, err);
}

enum hrf_status hrf_lower_divide_norm(struct lowering *l, const struct hrf_node *node,
                                      int32_t *inputs, struct hrf_error *err)
{
    const int32_t y = node->outputs[0];
    const int64_t n = hrf_shape_last(&l->from->values[y].shape);
    if (!l->how->rounds_rows || l->how->type != HRF_S8 || !is_dividable_norm(l, node) ||
        hrf_shape_count(&l->from->values[node->inputs[1]].shape) != n || !is_for_products(l, y))
        return HRF_OK;
    HRF_TRY(hrf_lower_find_smoothing(l->from, y, hrf_lower_range(l, y), &l->smoothing[y], err));
    const float *smoothing = l->smoothing[y];
    HRF_AUTO_FREE float *row = hrf_alloc_array((size_t)n, sizeof *row);
    HRF_CHECK_MEMORY(row != NULL, err, "no memory to lower a graph");
    for (int32_t i = 1; i <= 2 && smoothing != NULL; i++) {
        if (!hrf_lower_has(node, i))
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
    const int64_t depth = hrf_shape_last(&l->from->values[x].shape);
    const struct hrf_range *range = hrf_lower_range(l, x);
    int32_t inputs[HRF_CONV_FACTORS + 1], output;
    for (int32_t i = 0; i <= HRF_CONV_FACTORS; i++)
        inputs[i] = HRF_NO_VALUE;
    HRF_TRY(hrf_lower_get_full(l, x, &inputs[HRF_CONV_X], err));
    if (hrf_lower_has(node, HRF_CONV_RESIDUAL))
        HRF_TRY(hrf_lower_get_full(l, node->inputs[HRF_CONV_RESIDUAL], &inputs[HRF_CONV_RESIDUAL],
                                   err));
    if (l->smoothing[x] == NULL)
        HRF_TRY(hrf_lower_find_smoothing(l->from, x, range, &l->smoothing[x], err));
    HRF_TRY(hrf_lower_integer_weights(l->from, node, range, l->smoothing[x], l->to, inputs, err));
    if (l->smoothing[x] != NULL && !l->is_smoothed[x]) {
        HRF_AUTO_FREE float *factors = hrf_alloc_array((size_t)depth, sizeof *factors);
        HRF_CHECK_MEMORY(factors != NULL, err, "no memory to lower a graph");
        for (int64_t k = 0; k < depth; k++)
            factors[k] = 1 / l->smoothing[x][k];
        HRF_TRY(add_row(l, node->name, "factors", factors, depth, &inputs[HRF_CONV_FACTORS], err));
    }
    struct hrf_attributes attributes = node->attributes;
    attributes.transpose_b = true; /* hrf_lower_integer_weights() transposes the weights ... */
    attributes.alpha = attributes.beta = 1.0f; /* ... and applies alpha and beta */
    HRF_TRY(hrf_lower_add_value(l, value, "", HRF_F32, (struct hrf_quantization){ .scale = 0 },
                                &output, err));
    HRF_TRY(hrf_graph_add_node(l->to, node->op, node->name, inputs, HRF_CONV_FACTORS + 1, &output,
                               1, &attributes, err));
    l->full[value] = output;
    return HRF_OK;
}
