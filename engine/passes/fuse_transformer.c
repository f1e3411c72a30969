/* fuse_transformer.c - recovers layer normalisation, attention and SwiGLU from what exporters write
 * for them. */
#include "engine/passes/match.h"
#include "engine/passes/passes.h"

#include <math.h>

/* ---- layer normalisation ---- */

/* The x of a mean over its last axes, of which *axis is the first. */
static int32_t find_mean(const struct hrf_match *m, int32_t value, int64_t *axis)
{
    const struct hrf_node *mean = hrf_match_any(m, value, HRF_OP_REDUCE_MEAN);
    if (mean == NULL || !mean->attributes.keep_dims)
        return -1;
    const int32_t rank = hrf_match_value(m, mean->inputs[0])->shape.rank;
    *axis = rank;
    for (int32_t i = 0; i < mean->attributes.n_axes; i++)
        *axis = mean->attributes.axes[i] < *axis ? mean->attributes.axes[i] : *axis;
    return mean->attributes.n_axes > 0 && rank - *axis == mean->attributes.n_axes ? mean->inputs[0]
                                                                                  : -1;
}

/* x - mean(x) */
static int32_t find_centred(const struct hrf_match *m, int32_t value, int64_t *axis)
{
    const struct hrf_node *sub = hrf_match_any(m, value, HRF_OP_SUB);
    return sub != NULL && find_mean(m, sub->inputs[1], axis) == sub->inputs[0] ? sub->inputs[0]
                                                                               : -1;
}

/* The d of d^2. */
static int32_t find_squared(const struct hrf_match *m, int32_t value)
{
    const struct hrf_node *power = hrf_match_sole(m, value, HRF_OP_POW);
    const struct hrf_node *mul = hrf_match_sole(m, value, HRF_OP_MUL);
    double exponent;
    if (power != NULL && hrf_match_number(m, power->inputs[1], &exponent) && exponent == 2)
        return power->inputs[0];
    return mul != NULL && mul->inputs[0] == mul->inputs[1] ? mul->inputs[0] : -1;
}

/* The x of (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) */
static int32_t find_layer_norm(const struct hrf_match *m, const struct hrf_node *node,
                               int64_t *axis, double *epsilon)
{
    int64_t second, third;
    const struct hrf_node *root = hrf_match_sole(m, node->inputs[1], HRF_OP_SQRT);
    const struct hrf_node *add = root != NULL ? hrf_match_sole(m, root->inputs[0], HRF_OP_ADD)
                                              : NULL;
    const int32_t x = find_centred(m, node->inputs[0], axis);
    const int32_t variance = add != NULL ? hrf_match_other(m, add, epsilon) : -1;
    if (x < 0 || variance < 0 || !(*epsilon >= 0))
        return -1;
    const int32_t squares = find_mean(m, variance, &second);
    const int32_t d = squares >= 0 ? find_squared(m, squares) : -1;
    return d >= 0 && find_centred(m, d, &third) == x && second == *axis && third == *axis ? x : -1;
}

/* A constant of a number for each normalised element. */
static bool suits_norm(const struct hrf_match *m, const struct hrf_node *norm, int32_t value)
{
    const struct hrf_value *v = &m->graph->values[value];
    const struct hrf_shape *x = &hrf_match_value(m, norm->outputs[0])->shape;
    const int32_t inner = x->rank - (int32_t)norm->attributes.axis;
    const int32_t extra = v->shape.rank - inner;
    if (v->data == NULL || v->dtype != HRF_F32 || extra < 0)
        return false;
    for (int32_t i = 0; i < v->shape.rank; i++)
        if (v->shape.dims[i] != (i < extra ? 1 : x->dims[norm->attributes.axis + i - extra]))
            return false;
    return true;
}

/* Takes a MUL by a constant into the norm before it as its scale, or an ADD as its bias. */
static void take_scale_or_bias(struct hrf_match *m, struct hrf_node *node)
{
    for (int k = 0; k < 2; k++) {
        const struct hrf_node *norm = hrf_match_sole(m, node->inputs[k], HRF_OP_LAYER_NORM);
        const int32_t own = node->inputs[1 - k];
        if (norm == NULL || !suits_norm(m, norm, own))
            continue;
        int32_t inputs[3] = { norm->inputs[0], HRF_NO_VALUE, HRF_NO_VALUE };
        for (int32_t i = 1; i < norm->n_inputs; i++)
            inputs[i] = norm->inputs[i];
        const int32_t input = node->op == HRF_OP_MUL ? 1 : 2;
        if (inputs[input] >= 0 || inputs[2] >= 0)
            continue;
        inputs[input] = own;
        hrf_match_become(node, HRF_OP_LAYER_NORM, inputs, 3, &norm->attributes);
        return;
    }
}

/* ---- attention ---- */

/* The parts of an attention, as values of the graph. */
struct attention {
    int32_t q, k, v, mask;
    int32_t window_mask; /* hrf_match_window_mask()'s; -1: none */
    struct hrf_shape scores;
    double scale;
    bool is_transposed; /* k is [..][channels][keys] */
};

/* Products with one other factor: its value, with the number that it is multiplied by. */
static int32_t unscale(const struct hrf_match *m, int32_t value, double *scale)
{
    struct hrf_match_product p;
    const bool is_private = hrf_readers_is_one(&m->readers, value);
    if (!is_private || !hrf_match_factors(m, value, &p) || p.n != 1)
        return value;
    *scale *= p.number;
    return p.factors[0];
}

static bool transposes_last_axes(const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    for (int32_t i = 0; i < a->n_axes; i++)
        if (a->axes[i] != (i == a->n_axes - 2   ? a->n_axes - 1
                           : i == a->n_axes - 1 ? a->n_axes - 2
                                                : i))
            return false;
    return a->n_axes >= 2;
}

/* The scores: a product of two matrices, maybe scaled, maybe with a mask added. */
static const struct hrf_node *find_scores(const struct hrf_match *m, int32_t value,
                                          struct attention *out)
{
    const int32_t inner = unscale(m, value, &out->scale);
    const struct hrf_node *product = hrf_match_sole(m, inner, HRF_OP_MATMUL);
    if (product != NULL)
        return product;
    const struct hrf_node *add = out->scale == 1 ? hrf_match_sole(m, value, HRF_OP_ADD) : NULL;
    for (int k = 0; k < 2 && add != NULL; k++) {
        double scale = 1;
        product = hrf_match_sole(m, unscale(m, add->inputs[k], &scale), HRF_OP_MATMUL);
        if (product == NULL || !hrf_shape_equal(&hrf_match_value(m, add->inputs[k])->shape,
                                                &hrf_match_value(m, value)->shape))
            continue;
        out->scale = scale;
        out->mask = add->inputs[1 - k];
        return product;
    }
    return NULL;
}

static bool leads_equal(const struct hrf_shape *a, const struct hrf_shape *b)
{
    for (int32_t i = 0; i + 2 < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return a->rank == b->rank;
}

static bool find_attention(const struct hrf_match *m, const struct hrf_node *node,
                           struct attention *out)
{
    const struct hrf_node *softmax = hrf_match_sole(m, node->inputs[0], HRF_OP_SOFTMAX);
    *out = (struct attention){
        .v = node->inputs[1], .mask = HRF_NO_VALUE, .window_mask = -1, .scale = 1
    };
    if (softmax == NULL ||
        softmax->attributes.axis != hrf_match_value(m, softmax->outputs[0])->shape.rank - 1)
        return false;
    const int32_t inner = hrf_match_window_mask(m, softmax->inputs[0], &out->window_mask);
    const struct hrf_node *product = find_scores(m, inner >= 0 ? inner : softmax->inputs[0], out);
    out->scores = hrf_match_value(m, softmax->inputs[0])->shape;
    if (product == NULL ||
        (inner >= 0 && !hrf_match_masks_can_join(m, out->window_mask, out->mask, &out->scores)))
        return false;
    out->q = unscale(m, product->inputs[0], &out->scale);
    out->k = unscale(m, product->inputs[1], &out->scale);
    const struct hrf_node *transpose = hrf_match_sole(m, out->k, HRF_OP_TRANSPOSE);
    out->is_transposed = transpose == NULL || !transposes_last_axes(transpose);
    if (!out->is_transposed)
        out->k = unscale(m, transpose->inputs[0], &out->scale);
    const struct hrf_shape *q = &hrf_match_value(m, out->q)->shape,
                           *y = &hrf_match_value(m, node->outputs[0])->shape;
    return (q->rank == 3 || q->rank == 4) && leads_equal(q, &hrf_match_value(m, out->k)->shape) &&
           leads_equal(q, &hrf_match_value(m, out->v)->shape) && leads_equal(q, y) &&
           out->scale != 0 && isfinite((float)out->scale);
}

static void become_attention(struct hrf_node *node, const struct attention *found)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.attention.mask_repeats = found->window_mask >= 0;
    a.attention.scale = (float)found->scale;
    a.attention.transpose_k = found->is_transposed;
    hrf_match_become(node, HRF_OP_ATTENTION,
                     (const int32_t[]){ found->q, found->k, found->v, found->mask },
                     found->mask >= 0 ? 4 : 3, &a);
}

/* ---- SwiGLU ---- */

/* The half of the last axis of a value that a SLICE takes: 0 or 1; -1. */
static int half_of(const struct hrf_match *m, const struct hrf_node *slice)
{
    const struct hrf_shape *x = &hrf_match_value(m, slice->inputs[0])->shape;
    const struct hrf_attributes *a = &slice->attributes;
    const int64_t size = x->dims[x->rank - 1];
    if (a->n_axes != 1 || a->axes[0] != x->rank - 1 || a->slice.steps[0] != 1 || size % 2 != 0 ||
        hrf_match_value(m, slice->outputs[0])->shape.dims[x->rank - 1] != size / 2)
        return -1;
    return a->slice.starts[0] == 0 ? 0 : a->slice.starts[0] == size / 2 ? 1 : -1;
}

/* The value whose first half, through Swish, is multiplied by its second. */
static int32_t find_swiglu(const struct hrf_match *m, const struct hrf_node *node)
{
    for (int k = 0; k < 2; k++) {
        const struct hrf_node *swish = hrf_match_sole(m, node->inputs[k], HRF_OP_SWISH);
        const struct hrf_node *second = hrf_match_sole(m, node->inputs[1 - k], HRF_OP_SLICE);
        if (swish == NULL || second == NULL || swish->attributes.alpha != 1)
            continue;
        const struct hrf_node *first = hrf_match_sole(m, swish->inputs[0], HRF_OP_SLICE);
        if (first != NULL && first->inputs[0] == second->inputs[0] && half_of(m, first) == 0 &&
            half_of(m, second) == 1)
            return first->inputs[0];
    }
    return -1;
}

/* ---- the pass ---- */

static enum hrf_status fuse_node(struct hrf_match *m, struct hrf_node *node, struct hrf_error *err)
{
    struct hrf_attributes a = hrf_attributes_default();
    struct attention found;
    double epsilon = 0;
    int32_t x = -1;
    switch (node->op) {
    case HRF_OP_DIV:
        x = find_layer_norm(m, node, &a.axis, &epsilon);
        a.epsilon = (float)epsilon;
        if (x >= 0)
            hrf_match_become(node, HRF_OP_LAYER_NORM, &x, 1, &a);
        break;
    case HRF_OP_MATMUL:
        if (!find_attention(m, node, &found))
            break;
        if (found.window_mask >= 0)
            HRF_TRY(hrf_match_join_masks(m, node->name, found.window_mask, &found.scores,
                                         &found.mask, err));
        become_attention(node, &found);
        break;
    case HRF_OP_MUL:
        x = find_swiglu(m, node);
        if (x >= 0)
            hrf_match_become(node, HRF_OP_SWIGLU, &x, 1, &a);
        else
            take_scale_or_bias(m, node);
        break;
    case HRF_OP_ADD:
        take_scale_or_bias(m, node);
        break;
    default:
        break;
    }
    return HRF_OK;
}

/* True if ATTENTION_GRADIENT computes its gradient. */
static bool has_gradient(const struct hrf_match *m, const struct attention *found)
{
    const struct hrf_shape *q = &hrf_match_value(m, found->q)->shape;
    const struct hrf_shape *v = &hrf_match_value(m, found->v)->shape;
    return found->mask < 0 && found->window_mask < 0 && hrf_shape_last(q) == hrf_shape_last(v);
}

void hrf_pass_recover_attention(struct hrf_graph *graph)
{
    HRF_AUTO_RELEASE(hrf_match) match = { 0 };
    hrf_match_init(graph, &match);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *node = &graph->nodes[i];
        struct attention found;
        if (node->op == HRF_OP_MATMUL && find_attention(&match, node, &found) &&
            has_gradient(&match, &found))
            become_attention(node, &found);
    }
}

enum hrf_status hrf_pass_fuse_transformer(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_match) match = { 0 };
    hrf_match_init(graph, &match);
    for (int32_t i = 0; i < graph->n_nodes; i++)
        HRF_TRY(fuse_node(&match, &graph->nodes[i], err));
    return hrf_graph_compact(graph, err);
}
