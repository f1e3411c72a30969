/* batch_first.c - PyTorch's MultiheadAttention computes on [T][N][C]: its inputs and its output are
 * transposed. Products work on each row by itself, so that the transposes can be moved to where the
 * heads are cut, and those moves go away (attention_of_tokens.c). */
#include "engine/passes/match.h"
#include "engine/passes/passes.h"

#include <string.h>

static const int64_t swap[] = { 1, 0, 2 };

static bool transposes(const struct hrf_node *node, const int64_t *axes, int32_t n)
{
    return node != NULL && node->attributes.n_axes == n &&
           memcmp(node->attributes.axes, axes, (size_t)n * sizeof *axes) == 0;
}

static struct hrf_attributes transpose_by(const int64_t *axes, int32_t n)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_axes = n;
    memcpy(a.axes, axes, (size_t)n * sizeof *axes);
    return a;
}

/* ---- inputs: a transpose before a product becomes one behind it ---- */

/* The transposed input of a node that works on each row by itself; -1: it is no such node. */
static int32_t find_transposed(const struct hrf_match *m, const struct hrf_node *node)
{
    const struct hrf_shape *y = &hrf_match_value(m, node->outputs[0])->shape;
    if (y->rank != 3 || node->n_inputs != 2)
        return -1;
    if (node->op == HRF_OP_MATMUL) {
        const struct hrf_value *w = hrf_match_value(m, node->inputs[1]);
        const struct hrf_node *transpose = hrf_match_any(m, node->inputs[0], HRF_OP_TRANSPOSE);
        return transposes(transpose, swap, 3) && w->data != NULL && w->shape.rank == 2 ? 0 : -1;
    }
    for (int32_t k = 0; k < 2 && node->op == HRF_OP_ADD; k++) {
        const struct hrf_value *row = hrf_match_value(m, node->inputs[1 - k]);
        const struct hrf_node *transpose = hrf_match_sole(m, node->inputs[k], HRF_OP_TRANSPOSE);
        if (transposes(transpose, swap, 3) && row->data != NULL &&
            hrf_shape_count(&row->shape) == hrf_shape_last(&row->shape) &&
            hrf_shape_equal(&hrf_match_value(m, node->inputs[k])->shape, y))
            return k;
    }
    return -1;
}

static enum hrf_status transpose_behind(struct hrf_match *m, int32_t n, int32_t k,
                                        struct hrf_error *err)
{
    const struct hrf_node *node = &m->graph->nodes[n];
    const struct hrf_node *transpose = hrf_match_any(m, node->inputs[k], HRF_OP_TRANSPOSE);
    const struct hrf_attributes a = node->attributes, back = transpose_by(swap, 3);
    struct hrf_shape shape = hrf_match_value(m, node->outputs[0])->shape;
    int32_t inputs[] = { node->inputs[0], node->inputs[1] }, y;
    inputs[k] = transpose->inputs[0];
    const int64_t n_tokens = shape.dims[0];
    shape.dims[0] = shape.dims[1];
    shape.dims[1] = n_tokens;
    HRF_AUTO_FREE char *name = hrf_format("%s.batch first", node->name);
    if (k == 1) { /* the sum takes its type from its first input */
        inputs[1] = inputs[0];
        inputs[0] = transpose->inputs[0];
    }
    HRF_TRY(hrf_match_insert(m->graph, n, node->op, name, inputs, 2, &shape, &a, &y, err));
    hrf_match_become(&m->graph->nodes[n], HRF_OP_TRANSPOSE, &y, 1, &back);
    return HRF_OK;
}

/* ---- the output: heads [N][heads][T][d] as rows [T * N][C], a product, and back ---- */

/* The attention whose heads the product reads in this form, if `transpose` transposes the product's
 * result; NULL: none. */
static const struct hrf_node *find_attention(const struct hrf_match *m,
                                             const struct hrf_node *transpose,
                                             const struct hrf_node **product)
{
    static const int64_t to_rows[] = { 2, 0, 1, 3 };
    const struct hrf_node *split = hrf_match_sole(m, transpose->inputs[0], HRF_OP_RESHAPE);
    const struct hrf_node *gemm = split != NULL ? hrf_match_sole(m, split->inputs[0], HRF_OP_GEMM)
                                                : NULL;
    const struct hrf_node *rows = gemm != NULL ? hrf_match_sole(m, gemm->inputs[0], HRF_OP_RESHAPE)
                                               : NULL;
    const struct hrf_node *heads = rows != NULL
                                       ? hrf_match_sole(m, rows->inputs[0], HRF_OP_TRANSPOSE)
                                       : NULL;
    *product = gemm;
    return transposes(heads, to_rows, 4) ? hrf_match_sole(m, heads->inputs[0], HRF_OP_ATTENTION)
                                         : NULL;
}

/* Products of constants by rows, one row of a bias, and nothing else. */
static bool is_plain(const struct hrf_match *m, const struct hrf_node *gemm)
{
    const int32_t bias = gemm->n_inputs > HRF_CONV_BIAS ? gemm->inputs[HRF_CONV_BIAS]
                                                        : HRF_NO_VALUE;
    const struct hrf_value *row = bias >= 0 ? hrf_match_value(m, bias) : NULL;
    return gemm->n_inputs <= HRF_CONV_BIAS + 1 && !gemm->attributes.gemm.transpose_a &&
           gemm->attributes.activation == HRF_ACT_NONE &&
           hrf_match_value(m, gemm->inputs[HRF_CONV_WEIGHTS])->data != NULL &&
           (row == NULL ||
            (row->data != NULL && hrf_shape_count(&row->shape) == hrf_shape_last(&row->shape)));
}

static enum hrf_status transpose_heads(struct hrf_match *m, int32_t n, struct hrf_error *err)
{
    static const int64_t axes[] = { 0, 2, 1, 3 };
    const struct hrf_node *gemm, *transpose = &m->graph->nodes[n];
    const struct hrf_node *attention = find_attention(m, transpose, &gemm);
    if (attention == NULL || !is_plain(m, gemm))
        return HRF_OK;
    const struct hrf_shape y = hrf_match_value(m, attention->outputs[0])->shape;
    const struct hrf_shape *to = &hrf_match_value(m, transpose->outputs[0])->shape;
    if (y.rank != 4 || to->dims[0] != y.dims[0] || to->dims[1] != y.dims[2])
        return HRF_OK;
    const struct hrf_shape heads = { 4, { y.dims[0], y.dims[2], y.dims[1], y.dims[3] } };
    const struct hrf_shape tokens = { 3, { y.dims[0], y.dims[2], y.dims[1] * y.dims[3] } };
    const struct hrf_shape three = { 1, { 3 } };
    const struct hrf_attributes by = transpose_by(axes, 4), plain = hrf_attributes_default();
    const struct hrf_attributes a = gemm->attributes;
    const int32_t bias = gemm->n_inputs > HRF_CONV_BIAS ? gemm->inputs[HRF_CONV_BIAS]
                                                        : HRF_NO_VALUE;
    int32_t inputs[] = { -1, gemm->inputs[HRF_CONV_WEIGHTS], bias }, moved[2];
    HRF_AUTO_FREE char *name = hrf_format("%s.batch first", transpose->name);
    HRF_AUTO_FREE char *flat = hrf_format("%s.batch first, heads side by side", transpose->name);
    HRF_TRY(hrf_match_insert(m->graph, n, HRF_OP_TRANSPOSE, name, attention->outputs, 1, &heads,
                             &by, &moved[0], err));
    HRF_TRY(hrf_graph_add_value(m->graph, flat, HRF_S64, &three, tokens.dims, &moved[1], err));
    /* The new value has a name of its own, because calibrations identify tensors by name. */
    HRF_TRY(hrf_match_insert(m->graph, n, HRF_OP_RESHAPE, flat, moved, 2, &tokens, &plain,
                             &inputs[0], err));
    hrf_match_become(&m->graph->nodes[n], HRF_OP_GEMM, inputs, bias >= 0 ? 3 : 2, &a);
    return HRF_OK;
}

static bool has_attention(const struct hrf_graph *graph)
{
    for (int32_t n = 0; n < graph->n_nodes; n++)
        if (graph->nodes[n].op == HRF_OP_ATTENTION)
            return true;
    return false;
}

enum hrf_status hrf_pass_batch_first(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_match) match = { 0 };
    const int32_t n_nodes = graph->n_nodes;
    if (!has_attention(graph))
        return HRF_OK;
    hrf_match_init(graph, &match);
    for (int32_t n = 0; n < n_nodes; n++) {
        const int32_t k = find_transposed(&match, &graph->nodes[n]);
        if (k >= 0)
            HRF_TRY(transpose_behind(&match, n, k, err));
        else if (graph->nodes[n].op == HRF_OP_TRANSPOSE && transposes(&graph->nodes[n], swap, 3))
            HRF_TRY(transpose_heads(&match, n, err));
    }
    hrf_graph_place_nodes(graph);
    return hrf_graph_compact(graph, err);
}
