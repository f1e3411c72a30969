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

int32_t hrf_backward_weight_gradient(struct hrf_backward *b, int32_t x, int32_t dy, int32_t weights)
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
        hrf_backward_give(b, HRF_CONV_WEIGHTS, hrf_backward_weight_gradient(b, x, b->dy, w));
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
        hrf_backward_give(b, HRF_CONV_WEIGHTS, hrf_backward_weight_gradient(b, b->dy, x, w));
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

int32_t hrf_backward_matmul(struct hrf_backward *b, int32_t u, int32_t v)
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
    if (of_v.rank == 2) { /* products over all rows, which transpose nothing in memory */
        const int32_t dy = as_rows(b, b->dy);
        const struct hrf_shape rows = { 2, { hrf_backward_shape(b, dy).dims[0], of_v.dims[0] } };
        if (hrf_backward_wants(b, 0))
            hrf_backward_give(
                b, 0, hrf_backward_reshape(b, product(b, &rows, 1, dy, false, v, true), &of_u));
        if (hrf_backward_wants(b, 1))
            hrf_backward_give(b, 1, product(b, &of_v, 1, as_rows(b, u), true, dy, false));
        return;
    }
    if (hrf_backward_wants(b, 0))
        hrf_backward_give(
            b, 0,
            hrf_backward_sum_to(b, hrf_backward_matmul(b, b->dy, hrf_backward_swap_last(b, v)),
                                &of_u));
    if (hrf_backward_wants(b, 1))
        hrf_backward_give(
            b, 1,
            hrf_backward_sum_to(b, hrf_backward_matmul(b, hrf_backward_swap_last(b, u), b->dy),
                                &of_v));
}

/* ---- attention ---- */

/* What is added to these scores so that no query sees a key after it: [queries][keys]. */
static int32_t causal_mask(struct hrf_backward *b, int32_t scores)
{
    const struct hrf_shape of_scores = hrf_backward_shape(b, scores);
    const int64_t n_keys = hrf_shape_last(&of_scores);
    const struct hrf_shape shape = { 2, { of_scores.dims[of_scores.rank - 2], n_keys } };
    HRF_AUTO_FREE float *mask = hrf_calloc((size_t)hrf_shape_count(&shape), sizeof *mask);
    for (int64_t i = 0; i < hrf_shape_count(&shape); i++)
        mask[i] = i % n_keys > i / n_keys ? -INFINITY : 0;
    return hrf_backward_constant(b, HRF_F32, &shape, mask);
}

/* Gives q, k and v their parts of one ATTENTION_GRADIENT; false: it does not compute this. */
static bool give_attention(struct hrf_backward *b)
{
    const int32_t q = b->node.inputs[HRF_ATTENTION_Q], k = b->node.inputs[HRF_ATTENTION_K];
    const int32_t v = b->node.inputs[HRF_ATTENTION_V];
    const struct hrf_attributes *from = &b->node.attributes;
    const struct hrf_shape of_q = hrf_backward_shape(b, q), of_v = hrf_backward_shape(b, v);
    struct hrf_shape shape = of_q, of_k = of_v;
    const int32_t last = of_q.rank - 1;
    shape.dims[last - 1] = of_v.rank == of_q.rank ? of_v.dims[last - 1] : 0;
    if (hrf_node_has_input(&b->node, HRF_ATTENTION_MASK) || !hrf_shape_equal(&shape, &of_v) ||
        hrf_shape_count(&of_q) == 0 || hrf_shape_count(&of_v) == 0)
        return false;
    if (from->attention.transpose_k) {
        of_k.dims[last] = of_v.dims[last - 1];
        of_k.dims[last - 1] = of_v.dims[last];
    }
    const struct hrf_shape given_k = hrf_backward_shape(b, k);
    if (!hrf_shape_equal(&given_k, &of_k))
        return false;
    const int64_t n_queries = of_q.dims[last - 1], n_keys = of_v.dims[last - 1];
    const int64_t ends[] = { 0, n_queries, n_queries + n_keys, n_queries + 2 * n_keys };
    struct hrf_attributes a = hrf_attributes_of(HRF_OP_ATTENTION_GRADIENT);
    a.attention.causal = from->attention.causal;
    a.attention.scale = from->attention.scale;
    a.attention.transpose_k = from->attention.transpose_k;
    shape.dims[last - 1] = ends[3];
    const int32_t all = HRF_APPLY(b, HRF_OP_ATTENTION_GRADIENT, &a, &shape, q, k, v, b->dy);
    for (int32_t i = HRF_ATTENTION_Q; i <= HRF_ATTENTION_V; i++) {
        const struct hrf_attributes part = hrf_attributes_slice(last - 1, ends[i], ends[i + 1]);
        const struct hrf_shape *of_part = i == HRF_ATTENTION_Q ? &of_q : &of_v;
        if (!hrf_backward_wants(b, i))
            continue;
        const int32_t rows = HRF_APPLY(b, HRF_OP_SLICE, &part, of_part, all);
        const bool is_turned = i == HRF_ATTENTION_K && a.attention.transpose_k;
        hrf_backward_give(b, i, is_turned ? hrf_backward_swap_last(b, rows) : rows);
    }
    return true;
}

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
    if (repeats || of_q.rank != of_k.rank || (of_q.rank == 4 && of_q.dims[1] != of_k.dims[1])) {
        hrf_backward_refuse(b, "training through attention with heads that share keys or masks "
                               "that repeat is not supported");
        return;
    }
    if (give_attention(b))
        return;
    const int32_t scale = hrf_backward_scalar(b, given != 0 ? given : 1 / sqrt(depth));
    const int32_t keys = a->attention.transpose_k ? hrf_backward_swap_last(b, k) : k;
    int32_t scores = hrf_backward_matmul(b, q, hrf_backward_swap_last(b, keys));
    scores = hrf_backward_binary(b, HRF_OP_MUL, scores, scale);
    if (mask >= 0)
        scores = hrf_backward_binary(b, HRF_OP_ADD, scores, mask);
    if (a->attention.causal)
        scores = hrf_backward_binary(b, HRF_OP_ADD, scores, causal_mask(b, scores));
    const struct hrf_shape of_scores = hrf_backward_shape(b, scores);
    struct hrf_attributes along = hrf_attributes_of(HRF_OP_SOFTMAX);
    along.axis = of_scores.rank - 1;
    const int32_t p = HRF_APPLY(b, HRF_OP_SOFTMAX, &along, &of_scores, scores);
    if (hrf_backward_wants(b, HRF_ATTENTION_V))
        hrf_backward_give(b, HRF_ATTENTION_V,
                          hrf_backward_matmul(b, hrf_backward_swap_last(b, p), b->dy));
    const int32_t dp = hrf_backward_matmul(b, b->dy, hrf_backward_swap_last(b, v));
    const int32_t weighted = hrf_backward_binary(b, HRF_OP_MUL, p, dp);
    const int32_t sum = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, weighted,
                                            1u << (of_scores.rank - 1));
    const int32_t ds = hrf_backward_binary(b, HRF_OP_MUL, p,
                                           hrf_backward_binary(b, HRF_OP_SUB, dp, sum));
    if (hrf_backward_wants(b, HRF_ATTENTION_MASK))
        hrf_backward_give(b, HRF_ATTENTION_MASK, hrf_backward_sum_to(b, ds, &of_mask));
    const int32_t scaled = hrf_backward_binary(b, HRF_OP_MUL, ds, scale);
    if (hrf_backward_wants(b, HRF_ATTENTION_Q))
        hrf_backward_give(b, HRF_ATTENTION_Q, hrf_backward_matmul(b, scaled, keys));
    if (hrf_backward_wants(b, HRF_ATTENTION_K)) {
        const int32_t dk = hrf_backward_matmul(b, hrf_backward_swap_last(b, scaled), q);
        hrf_backward_give(b, HRF_ATTENTION_K,
                          a->attention.transpose_k ? hrf_backward_swap_last(b, dk) : dk);
    }
}

/* ---- linear attention ---- */

/* A PERFORMER as matrices: tokens [N x heads][d][T], the projection divided by d^(1/4). */
struct performer {
    int32_t projection, transposed;
    struct hrf_shape tokens;
    double depth;
};

/* The features of the queries or keys u [N x heads][d][T], and what they are made of. */
struct features {
    int32_t u, logits, phi; /* [N x heads][m][T] */
    int32_t top, e;         /* of the softmax kernel: the maximum of the logits, phi - epsilon */
    uint32_t top_axes;
};

static struct features features_of(struct hrf_backward *b, const struct performer *p, int32_t k)
{
    struct features f = { .top_axes = k == HRF_PERFORMER_Q ? 2u : 2u | 4u };
    const int32_t epsilon = hrf_backward_scalar(b, (double)b->node.attributes.performer.epsilon);
    f.u = hrf_backward_reshape(b, b->node.inputs[k], &p->tokens);
    f.logits = hrf_backward_matmul(b, p->projection, f.u);
    if (!b->node.attributes.performer.exponential) {
        f.phi = hrf_backward_binary(b, HRF_OP_ADD, hrf_backward_unary(b, HRF_OP_RELU, f.logits),
                                    epsilon);
        return f;
    }
    const int32_t square = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM,
                                               hrf_backward_binary(b, HRF_OP_MUL, f.u, f.u), 2u);
    const int32_t half = hrf_backward_binary(b, HRF_OP_MUL, square,
                                             hrf_backward_scalar(b, 0.5 / sqrt(p->depth)));
    f.top = hrf_backward_reduce(b, HRF_OP_REDUCE_MAX, f.logits, f.top_axes);
    const int32_t less = hrf_backward_binary(b, HRF_OP_SUB, f.logits, half);
    f.e = hrf_backward_unary(b, HRF_OP_EXP, hrf_backward_binary(b, HRF_OP_SUB, less, f.top));
    f.phi = hrf_backward_binary(b, HRF_OP_ADD, f.e, epsilon);
    return f;
}

/* The gradients to input k and to the projection from that to its features. */
static void give_through_features(struct hrf_backward *b, const struct performer *p,
                                  const struct features *f, int32_t k, int32_t dphi)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, k);
    const struct hrf_shape of_projection = hrf_backward_input_shape(b, HRF_PERFORMER_PROJECTION);
    int32_t dlogits, du;
    if (b->node.attributes.performer.exponential) {
        const int32_t dx = hrf_backward_binary(b, HRF_OP_MUL, dphi, f->e);
        const int32_t of_top = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, dx, f->top_axes);
        const int32_t dhalf = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, dx, 2u);
        dlogits = hrf_backward_binary(
            b, HRF_OP_SUB, dx,
            hrf_backward_share_of_extreme(b, f->logits, f->top, of_top, f->top_axes));
        du = hrf_backward_matmul(b, p->transposed, dlogits);
        const int32_t factor = hrf_backward_binary(b, HRF_OP_MUL, dhalf,
                                                   hrf_backward_scalar(b, -1 / sqrt(p->depth)));
        du = hrf_backward_binary(b, HRF_OP_ADD, du,
                                 hrf_backward_binary(b, HRF_OP_MUL, f->u, factor));
    } else {
        dlogits = hrf_backward_derivative(b, HRF_OP_RELU, NULL, f->logits, dphi);
        du = hrf_backward_matmul(b, p->transposed, dlogits);
    }
    hrf_backward_give(b, k, hrf_backward_reshape(b, du, &shape));
    if (hrf_backward_wants(b, HRF_PERFORMER_PROJECTION)) {
        const int32_t all = hrf_backward_matmul(b, dlogits, hrf_backward_swap_last(b, f->u));
        const int32_t sum = hrf_backward_sum_to(b, all, &of_projection);
        hrf_backward_give(b, HRF_PERFORMER_PROJECTION,
                          hrf_backward_binary(b, HRF_OP_MUL, sum,
                                              hrf_backward_scalar(b, 1 / sqrt(sqrt(p->depth)))));
    }
}

/* With the features Q and K of all tokens, S = V K', z = sum of K over the tokens and
 * n = z' Q: Y = S Q / n. Then dS Q = dY / n and dn = -sum of dY Y over the head / n;
 * dQ = S' dSQ + z dn, dS = dSQ Q', dz = Q dn', dV = dS K, dK = dS' V + dz. */
void hrf_gradient_performer(struct hrf_backward *b)
{
    const struct hrf_shape of_x = hrf_backward_input_shape(b, HRF_PERFORMER_Q);
    const int64_t heads = b->node.attributes.performer.heads, d = of_x.dims[1] / heads;
    struct performer p = { .tokens = { 3,
                                       { of_x.dims[0] * heads, d, of_x.dims[2] * of_x.dims[3] } },
                           .depth = (double)d };
    p.projection = hrf_backward_binary(b, HRF_OP_MUL, b->node.inputs[HRF_PERFORMER_PROJECTION],
                                       hrf_backward_scalar(b, 1 / sqrt(sqrt(p.depth))));
    p.transposed = hrf_backward_swap_last(b, p.projection);
    const struct features q = features_of(b, &p, HRF_PERFORMER_Q);
    const struct features k = features_of(b, &p, HRF_PERFORMER_K);
    const int32_t v = hrf_backward_reshape(b, b->node.inputs[HRF_PERFORMER_V], &p.tokens);
    const int32_t y = hrf_backward_reshape(b, b->y, &p.tokens);
    const int32_t dy = hrf_backward_reshape(b, b->dy, &p.tokens);
    const int32_t s = hrf_backward_matmul(b, v, hrf_backward_swap_last(b, k.phi));
    const int32_t z = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, k.phi, 4u);
    const int32_t n = hrf_backward_matmul(b, hrf_backward_swap_last(b, z), q.phi);
    const int32_t dsq = hrf_backward_binary(b, HRF_OP_DIV, dy, n);
    const int32_t weighted = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM,
                                                 hrf_backward_binary(b, HRF_OP_MUL, dsq, y), 2u);
    const int32_t dn = hrf_backward_unary(b, HRF_OP_NEG, weighted);
    const int32_t dq = hrf_backward_binary(
        b, HRF_OP_ADD, hrf_backward_matmul(b, hrf_backward_swap_last(b, s), dsq),
        hrf_backward_matmul(b, z, dn));
    const int32_t ds = hrf_backward_matmul(b, dsq, hrf_backward_swap_last(b, q.phi));
    const int32_t dz = hrf_backward_matmul(b, q.phi, hrf_backward_swap_last(b, dn));
    const int32_t dk = hrf_backward_binary(
        b, HRF_OP_ADD, hrf_backward_matmul(b, hrf_backward_swap_last(b, ds), v), dz);
    if (hrf_backward_wants(b, HRF_PERFORMER_V))
        hrf_backward_give(b, HRF_PERFORMER_V,
                          hrf_backward_reshape(b, hrf_backward_matmul(b, ds, k.phi), &of_x));
    give_through_features(b, &p, &q, HRF_PERFORMER_Q, dq);
    give_through_features(b, &p, &k, HRF_PERFORMER_K, dk);
}
