/* attention_of_tokens.c - makes attention read its heads directly from the output of the product
 * before it, and write them in the layout that the product after it reads. This removes the
 * RESHAPE, TRANSPOSE, SLICE and SQUEEZE nodes that exporters put around it, which copy the same
 * elements twice. */
#include "engine/passes/match.h"
#include "engine/passes/passes.h"
#include "engine/passes/token_view.h"

/* Follows the moves that make `value` back to the first value of rank 3. */
static bool find_view(const struct hrf_match *m, int32_t value, struct hrf_token_view *out)
{
    const struct hrf_node *moves[HRF_TOKEN_VIEW_MOVES], *move;
    int n = 0;
    while ((move = hrf_token_view_move(m, value)) != NULL) {
        if (n == HRF_TOKEN_VIEW_MOVES)
            return false;
        moves[n++] = move;
        value = move->inputs[0];
    }
    return hrf_token_view_make(m, value, moves, n, out);
}

/* y [N][heads][T][d] as [N][T][heads * d]: the RESHAPE of its transpose. */
static const struct hrf_node *find_attention(const struct hrf_match *m,
                                             const struct hrf_node *reshape)
{
    const struct hrf_node *transpose = hrf_match_sole(m, reshape->inputs[0], HRF_OP_TRANSPOSE);
    const struct hrf_node *node = transpose != NULL
                                      ? hrf_match_sole(m, transpose->inputs[0], HRF_OP_ATTENTION)
                                      : NULL;
    if (node == NULL || transpose->attributes.n_axes != 4)
        return NULL;
    static const int64_t axes[] = { 0, 2, 1, 3 };
    for (int i = 0; i < 4; i++)
        if (transpose->attributes.axes[i] != axes[i])
            return NULL;
    const struct hrf_shape *y = &hrf_match_value(m, node->outputs[0])->shape;
    const struct hrf_shape *to = &hrf_match_value(m, reshape->outputs[0])->shape;
    return y->rank == 4 && to->rank == 3 && to->dims[0] == y->dims[0] && to->dims[1] == y->dims[2]
               ? node
               : NULL;
}

static void fuse(const struct hrf_match *m, struct hrf_node *reshape,
                 const struct hrf_node *attention)
{
    struct hrf_attributes a = attention->attributes;
    const struct hrf_shape *q = &hrf_match_value(m, attention->inputs[HRF_ATTENTION_Q])->shape;
    int32_t inputs[4] = { HRF_NO_VALUE, HRF_NO_VALUE, HRF_NO_VALUE, HRF_NO_VALUE };
    a.attention.heads = q->dims[1];
    a.attention.head_size = q->dims[3];
    for (int32_t k = HRF_ATTENTION_Q; k <= HRF_ATTENTION_V; k++) {
        struct hrf_token_view v;
        if (!find_view(m, attention->inputs[k], &v))
            return;
        if (k == HRF_ATTENTION_K && a.attention.transpose_k && v.shape.rank == 4) {
            const int64_t size = v.shape.dims[2], stride = v.strides[2];
            v.shape.dims[2] = v.shape.dims[3], v.strides[2] = v.strides[3];
            v.shape.dims[3] = size, v.strides[3] = stride;
        }
        if (!hrf_token_view_is_of_tokens(m, &v) || v.shape.dims[1] != a.attention.heads ||
            v.shape.dims[3] != a.attention.head_size)
            return;
        inputs[k] = v.source;
        a.attention.first[k] = v.offset;
        a.attention.stride[k] = a.attention.heads > 1 ? v.strides[1] : a.attention.head_size;
    }
    a.attention.transpose_k = false;
    const bool has_mask = attention->n_inputs > HRF_ATTENTION_MASK &&
                          attention->inputs[HRF_ATTENTION_MASK] >= 0;
    if (has_mask)
        inputs[HRF_ATTENTION_MASK] = attention->inputs[HRF_ATTENTION_MASK];
    hrf_match_become(reshape, HRF_OP_TOKEN_ATTENTION, inputs, has_mask ? 4 : 3, &a);
}

enum hrf_status hrf_pass_attention_of_tokens(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_match) match = { 0 };
    hrf_match_init(graph, &match);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *node = &graph->nodes[i];
        const struct hrf_node *attention = node->op == HRF_OP_RESHAPE ? find_attention(&match, node)
                                                                      : NULL;
        if (attention != NULL)
            fuse(&match, node, attention);
    }
    return hrf_graph_compact(graph, err);
}
