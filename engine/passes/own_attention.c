/* own_attention.c - attention of a model that was quantised elsewhere and rounds to 8 bits between
 * its products and the softmax: one ATTENTION, which rounds likewise. */
#include "engine/passes/lower_private.h"
#include "engine/passes/match.h"
#include "engine/passes/passes.h"
#include "engine/passes/token_view.h"

#include "engine/ir/op.h"

static bool is_product(const struct hrf_match *m, const struct hrf_node *node)
{
    return node->op == HRF_OP_MATMUL && hrf_match_value(m, node->inputs[0])->data == NULL &&
           hrf_match_value(m, node->inputs[1])->data == NULL &&
           hrf_match_value(m, node->outputs[0])->shape.rank == 4;
}

/* The value that a QUANTIZE with one scale rounds before the DEQUANTIZE that computes `value`, if
 * nothing else reads the values between; *form: its rounding. -1: the pattern does not match. */
static int32_t before_pair(const struct hrf_match *m, int32_t value, struct hrf_inner_form *form)
{
    const struct hrf_node *widen = hrf_match_sole(m, value, HRF_OP_DEQUANTIZE);
    const struct hrf_node *narrow = widen != NULL
                                        ? hrf_match_sole(m, widen->inputs[0], HRF_OP_QUANTIZE)
                                        : NULL;
    if (narrow == NULL)
        return -1;
    const struct hrf_value *v = hrf_match_value(m, narrow->outputs[0]);
    *form = (struct hrf_inner_form){ v->dtype, v->quantization.scale, v->quantization.zero_point };
    return form->scale > 0 && hrf_readers_is_one(&m->readers, narrow->inputs[HRF_QUANTIZE_X])
               ? narrow->inputs[HRF_QUANTIZE_X]
               : -1;
}

struct attention {
    const struct hrf_node *scores, *product; /* the two products */
    const struct hrf_node *narrow;           /* the QUANTIZE of the result */
    struct hrf_inner_form score_form, weight_form;
};

/* y [N][heads][T][d], rounded, as [N][T][heads * d]: the RESHAPE of its transpose. */
static bool find_attention(const struct hrf_match *m, const struct hrf_node *reshape,
                           struct attention *out)
{
    static const int64_t axes[] = { 0, 2, 1, 3 };
    const struct hrf_node *transpose = hrf_match_sole(m, reshape->inputs[0], HRF_OP_TRANSPOSE);
    struct hrf_inner_form form;
    if (transpose == NULL || transpose->attributes.n_axes != 4)
        return false;
    for (int i = 0; i < 4; i++)
        if (transpose->attributes.axes[i] != axes[i])
            return false;
    const int32_t y = before_pair(m, transpose->inputs[0], &form);
    out->product = y >= 0 ? hrf_match_sole(m, y, HRF_OP_MATMUL) : NULL;
    if (out->product == NULL || !is_product(m, out->product))
        return false;
    out->narrow = hrf_match_any(
        m, hrf_match_any(m, transpose->inputs[0], HRF_OP_DEQUANTIZE)->inputs[0], HRF_OP_QUANTIZE);
    const int32_t weights = before_pair(m, out->product->inputs[0], &out->weight_form);
    const struct hrf_node *softmax = weights >= 0 ? hrf_match_sole(m, weights, HRF_OP_SOFTMAX)
                                                  : NULL;
    if (softmax == NULL || softmax->attributes.axis != 3)
        return false;
    const int32_t scores = before_pair(m, softmax->inputs[0], &out->score_form);
    out->scores = scores >= 0 ? hrf_match_sole(m, scores, HRF_OP_MATMUL) : NULL;
    const struct hrf_shape *to = &hrf_match_value(m, reshape->outputs[0])->shape;
    const struct hrf_shape *from = &hrf_match_value(m, y)->shape;
    return out->scores != NULL && is_product(m, out->scores) && to->rank == 3 &&
           to->dims[0] == from->dims[0] && to->dims[1] == from->dims[2];
}

/* Queries, keys or values as a part of an 8-bit value of tokens, maybe looked up in a table. */
struct operand {
    struct hrf_token_view view; /* its source is the 8-bit value */
    const struct hrf_node *lookup;
};

static const struct hrf_node *producer_of(const struct hrf_match *m, int32_t value)
{
    const struct hrf_value *v = hrf_match_value(m, value);
    return v->producer >= 0 && v->data == NULL ? &m->graph->nodes[v->producer] : NULL;
}

/* A LOOKUP reads the 8-bit form of what moves give: their own source then has that form, too. */
static bool find_operand(const struct hrf_match *m, int32_t value, struct operand *out)
{
    const struct hrf_node *moves[HRF_TOKEN_VIEW_MOVES], *node;
    int32_t form = -1; /* what the source is rounded as already */
    int n = 0;
    out->lookup = NULL;
    for (;;) {
        while ((node = hrf_token_view_move(m, value)) != NULL) {
            if (n == HRF_TOKEN_VIEW_MOVES)
                return false;
            moves[n++] = node;
            value = node->inputs[0];
        }
        node = hrf_match_any(m, value, HRF_OP_DEQUANTIZE);
        if (node == NULL)
            return false;
        value = node->inputs[HRF_QUANTIZE_X];
        if (form >= 0)
            break;
        node = producer_of(m, value);
        if (node == NULL || node->op != HRF_OP_LOOKUP)
            break;
        out->lookup = node;
        form = node->inputs[0];
        node = producer_of(m, form);
        if (node == NULL || node->op != HRF_OP_QUANTIZE ||
            hrf_token_view_move(m, node->inputs[HRF_QUANTIZE_X]) == NULL) {
            value = form;
            break;
        }
        value = node->inputs[HRF_QUANTIZE_X];
    }
    return (form < 0 || hrf_lower_same_form(hrf_match_value(m, value), hrf_match_value(m, form))) &&
           hrf_token_view_make(m, value, moves, n, &out->view);
}

static void transpose(struct hrf_token_view *v)
{
    const int64_t size = v->shape.dims[2], stride = v->strides[2];
    v->shape.dims[2] = v->shape.dims[3], v->strides[2] = v->strides[3];
    v->shape.dims[3] = size, v->strides[3] = stride;
}

static bool find_operands(const struct hrf_match *m, const struct attention *found,
                          struct operand of[3], struct hrf_attributes *a)
{
    const int32_t values[] = { found->scores->inputs[0], found->scores->inputs[1],
                               found->product->inputs[1] };
    const struct hrf_shape *y = &hrf_match_value(m, found->product->outputs[0])->shape;
    a->attention.heads = y->dims[1];
    a->attention.head_size = y->dims[3];
    a->attention.scale = 1;
    a->attention.scores = found->score_form;
    a->attention.weights = found->weight_form;
    for (int k = HRF_ATTENTION_Q; k <= HRF_ATTENTION_V; k++) {
        struct hrf_token_view *v = &of[k].view;
        if (!find_operand(m, values[k], &of[k]) || v->shape.rank != 4)
            return false;
        if (k == HRF_ATTENTION_K) /* [..][d][keys] */
            transpose(v);
        if (!hrf_token_view_is_of_tokens(m, v) || v->shape.dims[1] != a->attention.heads ||
            v->shape.dims[3] != a->attention.head_size)
            return false;
        a->attention.first[k] = v->offset;
        a->attention.stride[k] = a->attention.heads > 1 ? v->strides[1] : a->attention.head_size;
    }
    return of[HRF_ATTENTION_K].view.shape.dims[2] <= HRF_ATTENTION_LONG;
}

/* Adds a value of that shape, with type and scale of `like`. */
static enum hrf_status add_value(struct hrf_match *m, const char *name, int32_t like,
                                 const struct hrf_shape *shape, int32_t *out, struct hrf_error *err)
{
    const struct hrf_value from = *hrf_match_value(m, like);
    HRF_TRY(hrf_graph_add_value(m->graph, name, from.dtype, shape, NULL, out, err));
    m->graph->values[*out].quantization = from.quantization;
    return HRF_OK;
}

static enum hrf_status insert(struct hrf_match *m, int32_t at, enum hrf_op op, const char *name,
                              const int32_t *inputs, int32_t n, int32_t output,
                              struct hrf_error *err)
{
    const struct hrf_attributes plain = hrf_attributes_default();
    return hrf_graph_insert_node(m->graph, at, op, name, inputs, n, &output, 1, &plain, err);
}

/* The operand's tokens, looked up if they are to be, in float32. */
static enum hrf_status add_operand(struct hrf_match *m, int32_t at, const struct operand *x,
                                   const char *name, int32_t *out, struct hrf_error *err)
{
    const struct hrf_shape shape = hrf_match_value(m, x->view.source)->shape;
    int32_t inputs[2] = { x->view.source }, looked_up;
    if (x->lookup != NULL) {
        inputs[1] = x->lookup->inputs[1];
        HRF_TRY(add_value(m, name, x->lookup->outputs[0], &shape, &looked_up, err));
        HRF_TRY(insert(m, at, HRF_OP_LOOKUP, name, inputs, 2, looked_up, err));
        inputs[0] = looked_up;
    }
    HRF_TRY(hrf_graph_add_value(m->graph, name, HRF_F32, &shape, NULL, out, err));
    return insert(m, at, HRF_OP_DEQUANTIZE, name, inputs, 1, *out, err);
}

/* ATTENTION and QUANTIZE go in front of the RESHAPE, which becomes the DEQUANTIZE. */
static enum hrf_status fuse(struct hrf_match *m, int32_t at, const struct attention *found,
                            const struct operand of[3], const struct hrf_attributes *a,
                            struct hrf_error *err)
{
    static const char *const names[] = { "queries", "keys", "values" };
    const struct hrf_attributes plain = hrf_attributes_default();
    const struct hrf_node narrow = *found->narrow, product = *found->product;
    const struct hrf_shape shape = hrf_match_value(m, m->graph->nodes[at].outputs[0])->shape;
    struct operand own[3] = { of[0], of[1], of[2] };
    struct hrf_node lookups[3];
    int32_t inputs[3], y, y8;
    for (int k = 0; k < 3; k++) /* what is inserted moves the nodes */
        if (own[k].lookup != NULL) {
            lookups[k] = *own[k].lookup;
            own[k].lookup = &lookups[k];
        }
    for (int k = 0; k < 3; k++) {
        HRF_AUTO_FREE char *name = hrf_format("%s.%s", product.name, names[k]);
        HRF_TRY(add_operand(m, at, &own[k], name, &inputs[k], err));
    }
    HRF_AUTO_FREE char *name = hrf_format("%s.tokens", product.name);
    HRF_TRY(hrf_graph_add_value(m->graph, name, HRF_F32, &shape, NULL, &y, err));
    HRF_TRY(hrf_graph_insert_node(m->graph, at, HRF_OP_TOKEN_ATTENTION, product.name, inputs, 3, &y,
                                  1, a, err));
    HRF_TRY(add_value(m, name, narrow.outputs[0], &shape, &y8, err));
    HRF_TRY(insert(m, at, HRF_OP_QUANTIZE, name, &y, 1, y8, err));
    hrf_match_become(&m->graph->nodes[at], HRF_OP_DEQUANTIZE, &y8, 1, &plain);
    return HRF_OK;
}

enum hrf_status hrf_pass_fuse_own_attention(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_match) match = { 0 };
    const int32_t n_nodes = graph->n_nodes;
    hrf_match_init(graph, &match);
    for (int32_t i = 0; i < n_nodes; i++) {
        struct hrf_attributes a = hrf_attributes_default();
        struct attention found;
        struct operand of[3];
        if (graph->nodes[i].op == HRF_OP_RESHAPE &&
            find_attention(&match, &graph->nodes[i], &found) &&
            find_operands(&match, &found, of, &a))
            HRF_TRY(fuse(&match, i, &found, of, &a, err));
    }
    hrf_graph_place_nodes(graph);
    return hrf_graph_compact(graph, err);
}
