/* gradient_product.c - gradients of sums of products: convolutions, matrices, attention. */
#include "engine/ir/window_span.h"
#include "engine/passes/gradient/gradient_private.h"

#include <math.h>

/* ---- convolutions ---- */

struct hrf_attributes hrf_backward_spread(const struct hrf_attributes *conv,
                                          const struct hrf_shape *x, const struct hrf_shape *dy)
{
    struct hrf_attributes a = hrf_attributes_of(HRF_OP_CONV_TRANSPOSE);
    a.window = conv->window;
    a.window.auto_pad = HRF_PAD_EXPLICIT;
    a.window.ceil_mode = false;
    a.group = conv->group;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        const struct hrf_window *w = &a.window;
        const int64_t more = x->dims[2 + i] + w->pad_begin[i] -
                             hrf_window_span(w, i, dy->dims[2 + i]);
        a.output.padding[i] = more > 0 ? more : 0;
        a.window.pad_end[i] = more < 0 ? -more : 0;
    }
    return a;
}

/* The gradient to the weights of a CONV of these attributes from x to what has the gradient dy. */
static int32_t weight_gradient(struct hrf_backward *b, int32_t x, int32_t dy, int32_t weights)
{
    const struct hrf_shape shape = hrf_backward_shape(b, weights);
    struct hrf_attributes a = hrf_attributes_of(HRF_OP_CONV_WEIGHT_GRADIENT);
    a.window = b->node.attributes.window;
    a.window.auto_pad = HRF_PAD_EXPLICIT;
    a.group = b->node.attributes.group;
    return HRF_APPLY(b, HRF_OP_CONV_WEIGHT_GRADIENT, &a, &shape, x, dy);
}

/* To a bias of the channels of an image: the sum over images, rows and columns. */
static void give_bias(struct hrf_backward *b)
{
    if (!hrf_backward_wants(b, HRF_CONV_BIAS))
        return;
    const struct hrf_shape shape = hrf_backward_input_shape(b, HRF_CONV_BIAS);
    const int32_t sum = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, b->dy, 1u | 4u | 8u);
    hrf_backward_give(b, HRF_CONV_BIAS, hrf_backward_reshape(b, sum, &shape));
}

void hrf_gradient_conv(struct hrf_backward *b)
{
    const int32_t x = b->node.inputs[HRF_CONV_X], w = b->node.inputs[HRF_CONV_WEIGHTS];
    if (hrf_backward_wants(b, HRF_CONV_X)) {
        const struct hrf_shape shape = hrf_backward_shape(b, x);
        const struct hrf_shape of_dy = hrf_backward_shape(b, b->dy);
        const struct hrf_attributes a = hrf_backward_spread(&b->node.attributes, &shape, &of_dy);
        hrf_backward_give(b, HRF_CONV_X, HRF_APPLY(b, HRF_OP_CONV_TRANSPOSE, &a, &shape, b->dy, w));
    }
    if (hrf_backward_wants(b, HRF_CONV_WEIGHTS))
        hrf_backward_give(b, HRF_CONV_WEIGHTS, weight_gradient(b, x, b->dy, w));
    give_bias(b);
}

/* Its transpose is the CONV by the same weights, so that x and dy change their places. */
void hrf_gradient_conv_transpose(struct hrf_backward *b)
{
    const int32_t x = b->node.inputs[HRF_CONV_X], w = b->node.inputs[HRF_CONV_WEIGHTS];
    const struct hrf_shape shape = hrf_backward_shape(b, x);
    struct hrf_attributes a = hrf_attributes_of(HRF_OP_CONV);
    a.window = b->node.attributes.window;
    a.window.auto_pad = HRF_PAD_EXPLICIT;
    a.group = b->node.attributes.group;
    if (hrf_backward_wants(b, HRF_CONV_X))
        hrf_backward_give(b, HRF_CONV_X, HRF_APPLY(b, HRF_OP_CONV, &a, &shape, b->dy, w));
    if (hrf_backward_wants(b, HRF_CONV_WEIGHTS))
        hrf_backward_give(b, HRF_CONV_WEIGHTS, weight_gradient(b, b->dy, x, w));
    give_bias(b);
}

/* ---- matrices ---- */

static int32_t product(struct hrf_backward *b, const struct hrf_shape *shape, double alpha,
                       int32_t u, bool transpose_u, int32_t v, bool transpose_v)
{
    struct hrf_attributes a = hrf_attributes_of(HRF_OP_GEMM);
    a.gemm.alpha = (float)alpha;
    a.gemm.transpose_a = transpose_u;
    a.gemm.transpose_b = transpose_v;
    return HRF_APPLY(b, HRF_OP_GEMM, &a, shape, u, v);
}

/* Y = alpha U V + beta C, where U is A or A' and V is B or B'. */
void hrf_gradient_gemm(struct hrf_backward *b)
{
    const struct hrf_attributes *t = &b->node.attributes;
    const int32_t u = b->node.inputs[0], v = b->node.inputs[1];
    const struct hrf_shape of_u = hrf_backward_shape(b, u), of_v = hrf_backward_shape(b, v);
    const double alpha = (double)t->gemm.alpha;
    if (of_u.rank != 2) {
        hrf_backward_refuse(b, "its rows are those of %d axes, as passes make them",
                            (int)of_u.rank - 1);
        return;
    }
    const bool ta = t->gemm.transpose_a, tb = t->gemm.transpose_b;
    if (hrf_backward_wants(b, 0))
        hrf_backward_give(b, 0,
                          ta ? product(b, &of_u, alpha, v, tb, b->dy, true)
                             : product(b, &of_u, alpha, b->dy, false, v, !tb));
    if (hrf_backward_wants(b, 1))
        hrf_backward_give(b, 1,
                          tb ? product(b, &of_v, alpha, b->dy, true, u, ta)
                             : product(b, &of_v, alpha, u, !ta, b->dy, false));
    if (hrf_backward_wants(b, 2)) {
        const struct hrf_shape of_c = hrf_backward_input_shape(b, 2);
        const int32_t sum = hrf_backward_sum_to(b, b->dy, &of_c);
        hrf_backward_give(b, 2,
                          t->gemm.beta == 1.0f
                              ? sum
                              : hrf_backward_binary(b, HRF_OP_MUL, sum,
                                                    hrf_backward_scalar(b, (double)t->gemm.beta)));
    }
}

static int32_t matmul(struct hrf_backward *b, int32_t u, int32_t v)
{
    const struct hrf_shape of_u = hrf_backward_shape(b, u), of_v = hrf_backward_shape(b, v);
    const struct hrf_shape *longer = of_u.rank >= of_v.rank ? &of_u : &of_v;
    struct hrf_shape shape = *longer;
    for (int32_t i = 3; i <= shape.rank; i++) {
        const int64_t left = i <= of_u.rank ? of_u.dims[of_u.rank - i] : 1;
        const int64_t right = i <= of_v.rank ? of_v.dims[of_v.rank - i] : 1;
        shape.dims[shape.rank - i] = left > right ? left : right;
    }
    shape.dims[shape.rank - 2] = of_u.dims[of_u.rank - 2];
    shape.dims[shape.rank - 1] = of_v.dims[of_v.rank - 1];
    return HRF_APPLY(b, HRF_OP_MATMUL, NULL, &shape, u, v);
}

/* All but the last axis as rows. */
static int32_t as_rows(struct hrf_backward *b, int32_t x)
{
    const struct hrf_shape shape = hrf_backward_shape(b, x);
    const int64_t last = hrf_shape_last(&shape);
    const struct hrf_shape rows = { 2, { hrf_shape_count(&shape) / last, last } };
    return hrf_backward_reshape(b, x, &rows);
}

void hrf_gradient_matmul(struct hrf_backward *b)
{
    const int32_t u = b->node.inputs[0], v = b->node.inputs[1];
    const struct hrf_shape of_u = hrf_backward_shape(b, u), of_v = hrf_backward_shape(b, v);
    if (of_u.rank < 2 || of_v.rank < 2) {
        hrf_backward_refuse(b, "one of its inputs is a vector: training through that is not "
                               "supported");
        return;
    }
    if (hrf_backward_wants(b, 0))
        hrf_backward_give(
            b, 0, hrf_backward_sum_to(b, matmul(b, b->dy, hrf_backward_swap_last(b, v)), &of_u));
    if (!hrf_backward_wants(b, 1))
        return;
    if (of_v.rank == 2) /* one product over all rows */
        hrf_backward_give(b, 1,
                          product(b, &of_v, 1, as_rows(b, u), true, as_rows(b, b->dy), false));
    else
        hrf_backward_give(
            b, 1, hrf_backward_sum_to(b, matmul(b, hrf_backward_swap_last(b, u), b->dy), &of_v));
}

/* ---- attention ---- */

/* P = softmax(S) with S = scale Q K' + mask, Y = P V. Then dV = P' dY, dP = dY V',
 * dS = P (dP - sum of P dP over the keys), dQ = scale dS K, dK = scale dS' Q. */
void hrf_gradient_attention(struct hrf_backward *b)
{
    const struct hrf_attributes *a = &b->node.attributes;
    const int32_t q = b->node.inputs[HRF_ATTENTION_Q], k = b->node.inputs[HRF_ATTENTION_K];
    const int32_t v = b->node.inputs[HRF_ATTENTION_V];
    const int32_t mask = hrf_node_input(&b->node, HRF_ATTENTION_MASK);
    const struct hrf_shape of_q = hrf_backward_shape(b, q), of_k = hrf_backward_shape(b, k);
    const double depth = (double)hrf_shape_last(&of_q);
    const double given = (double)a->attention.scale;
    const struct hrf_shape of_mask = hrf_backward_shape(b, mask);
    const bool repeats = of_mask.rank == 4 && of_mask.dims[0] != 1 &&
                         of_mask.dims[0] != of_q.dims[0];
    if (a->attention.causal || repeats || of_q.rank != of_k.rank ||
        (of_q.rank == 4 && of_q.dims[1] != of_k.dims[1])) {
        hrf_backward_refuse(b, "training through causal attention, heads that share keys or masks "
                               "that repeat is not supported");
        return;
    }
    const int32_t scale = hrf_backward_scalar(b, given != 0 ? given : 1 / sqrt(depth));
    const int32_t keys = a->attention.transpose_k ? hrf_backward_swap_last(b, k) : k;
    int32_t scores = matmul(b, q, hrf_backward_swap_last(b, keys));
    scores = hrf_backward_binary(b, HRF_OP_MUL, scores, scale);
    if (mask >= 0)
        scores = hrf_backward_binary(b, HRF_OP_ADD, scores, mask);
    const struct hrf_shape of_scores = hrf_backward_shape(b, scores);
    struct hrf_attributes along = hrf_attributes_of(HRF_OP_SOFTMAX);
    along.axis = of_scores.rank - 1;
    const int32_t p = HRF_APPLY(b, HRF_OP_SOFTMAX, &along, &of_scores, scores);
    if (hrf_backward_wants(b, HRF_ATTENTION_V))
        hrf_backward_give(b, HRF_ATTENTION_V, matmul(b, hrf_backward_swap_last(b, p), b->dy));
    const int32_t dp = matmul(b, b->dy, hrf_backward_swap_last(b, v));
    const int32_t weighted = hrf_backward_binary(b, HRF_OP_MUL, p, dp);
    const int32_t sum = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, weighted,
                                            1u << (of_scores.rank - 1));
    const int32_t ds = hrf_backward_binary(b, HRF_OP_MUL, p,
                                           hrf_backward_binary(b, HRF_OP_SUB, dp, sum));
    if (hrf_backward_wants(b, HRF_ATTENTION_MASK))
        hrf_backward_give(b, HRF_ATTENTION_MASK, hrf_backward_sum_to(b, ds, &of_mask));
    const int32_t scaled = hrf_backward_binary(b, HRF_OP_MUL, ds, scale);
    if (hrf_backward_wants(b, HRF_ATTENTION_Q))
        hrf_backward_give(b, HRF_ATTENTION_Q, matmul(b, scaled, keys));
    if (hrf_backward_wants(b, HRF_ATTENTION_K)) {
        const int32_t dk = matmul(b, hrf_backward_swap_last(b, scaled), q);
        hrf_backward_give(b, HRF_ATTENTION_K,
                          a->attention.transpose_k ? hrf_backward_swap_last(b, dk) : dk);
    }
}
