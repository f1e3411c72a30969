/* gradient_norm.c - gradients of normalisations and softmax. */
#include "engine/passes/gradient/gradient_private.h"

#include <math.h>

/* A constant of n equal numbers. */
static int32_t repeated(struct hrf_backward *b, int64_t n, float number)
{
    const struct hrf_shape shape = { 1, { n } };
    HRF_AUTO_FREE float *numbers = hrf_alloc_array((size_t)n, sizeof *numbers);
    for (int64_t i = 0; i < n; i++)
        numbers[i] = number;
    return hrf_backward_constant(b, HRF_F32, &shape, numbers);
}

/* BATCH_NORM of x with this scale (HRF_NO_VALUE: 1) and mean (HRF_NO_VALUE: 0), and no bias. */
static int32_t normalised(struct hrf_backward *b, int32_t x, int32_t scale, int32_t mean)
{
    const struct hrf_shape shape = hrf_backward_shape(b, x);
    const int64_t channels = shape.dims[1];
    return HRF_APPLY(b, HRF_OP_BATCH_NORM, &b->node.attributes, &shape, x,
                     scale >= 0 ? scale : repeated(b, channels, 1), repeated(b, channels, 0),
                     mean >= 0 ? mean : repeated(b, channels, 0), b->node.inputs[4]);
}

/* True if exactly one node of the network reads the value. */
static bool has_one_reader(const struct hrf_backward *b, int32_t value)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->graph->n_nodes; i++)
        for (int32_t k = 0; k < b->graph->nodes[i].n_inputs; k++)
            n += !b->graph->nodes[i].is_backward && b->graph->nodes[i].inputs[k] == value;
    return n == 1 && value != b->graph->outputs[0];
}

/* The number of the CONV without a bias that nothing but this BATCH_NORM normalises, if the weights
 * of both are trained and nobody else reads them; -1. */
static int32_t normalised_conv(const struct hrf_backward *b)
{
    const struct hrf_graph *graph = b->graph;
    const int32_t n = graph->values[b->node.inputs[0]].producer;
    const struct hrf_node *conv = n >= 0 ? &graph->nodes[n] : NULL;
    if (conv == NULL || conv->op != HRF_OP_CONV || hrf_node_has_input(conv, HRF_CONV_BIAS) ||
        !b->is_wanted[conv->inputs[HRF_CONV_WEIGHTS]] ||
        graph->values[conv->inputs[HRF_CONV_WEIGHTS]].data == NULL ||
        !has_one_reader(b, conv->inputs[HRF_CONV_WEIGHTS]) || !has_one_reader(b, conv->outputs[0]))
        return -1;
    for (int32_t k = 3; k < 5; k++)
        if (graph->values[b->node.inputs[k]].data == NULL ||
            graph->values[b->node.inputs[k]].dtype != HRF_F32)
            return -1;
    return n;
}

/* 1 / sqrt(variance + epsilon), of the shape [n][1][1][1]. */
static int32_t inverse_deviation(struct hrf_backward *b, const struct hrf_shape *shape)
{
    const float *variance = b->graph->values[b->node.inputs[4]].data;
    HRF_AUTO_FREE float *inverse = hrf_alloc_array((size_t)shape->dims[0], sizeof *inverse);
    for (int64_t i = 0; i < shape->dims[0]; i++)
        inverse[i] = (float)(1 / sqrt((double)variance[i] + (double)b->node.attributes.epsilon));
    return hrf_backward_constant(b, HRF_F32, shape, inverse);
}

/* The scale and the weights W of the CONV before it, without the output of that, which then need
 * not be kept: with D the gradient to the weights if dy were that to the CONV's output, the sum of
 * dy times that output is the sum of D W. The weights get D scale / sqrt(variance + epsilon), the
 * scale the sum of D W less mean times the sum of dy, divided by the same root. */
static void give_through_weights(struct hrf_backward *b, int32_t n, int32_t sum)
{
    const struct hrf_node norm = b->node, conv = b->graph->nodes[n];
    const int32_t w = conv.inputs[HRF_CONV_WEIGHTS], origin = b->origin;
    const struct hrf_shape of_w = hrf_backward_shape(b, w), of_scale = { 1, { of_w.dims[0] } };
    const struct hrf_shape of_outputs = { 4, { of_w.dims[0], 1, 1, 1 } };
    const int32_t inverse = inverse_deviation(b, &of_outputs);
    b->node = conv;
    b->origin = n + 1;
    const int32_t d = hrf_backward_weight_gradient(b, conv.inputs[HRF_CONV_X], b->dy, w);
    const int32_t factor = hrf_backward_binary(
        b, HRF_OP_MUL, hrf_backward_reshape(b, norm.inputs[1], &of_outputs), inverse);
    hrf_backward_give(b, HRF_CONV_WEIGHTS, hrf_backward_binary(b, HRF_OP_MUL, d, factor));
    b->is_wanted[w] = false; /* it has its gradient */
    b->node = norm;
    b->origin = origin;
    const int32_t terms = hrf_backward_binary(b, HRF_OP_MUL, d, w);
    const int32_t products = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, terms, 2u | 4u | 8u);
    const int32_t mean = hrf_backward_reshape(b, norm.inputs[3], &of_outputs);
    const int32_t shift = hrf_backward_binary(b, HRF_OP_MUL, mean,
                                              hrf_backward_reshape(b, sum, &of_outputs));
    const int32_t centred = hrf_backward_binary(b, HRF_OP_SUB, products, shift);
    const int32_t slope = hrf_backward_binary(b, HRF_OP_MUL, centred, inverse);
    hrf_backward_give(b, 1, hrf_backward_reshape(b, slope, &of_scale));
}

/* y = scale (x - mean) / sqrt(variance + epsilon) + bias, with constants: linear in x. */
void hrf_gradient_batch_norm(struct hrf_backward *b)
{
    const int32_t x = b->node.inputs[0];
    const int32_t conv = hrf_backward_wants(b, 1) ? normalised_conv(b) : -1;
    const struct hrf_shape shape = hrf_backward_shape(b, x), of_channels = { 1, { shape.dims[1] } };
    const uint32_t all_but_channels = ((1u << shape.rank) - 1) & ~2u;
    if (hrf_backward_wants(b, 0))
        hrf_backward_give(b, 0, normalised(b, b->dy, b->node.inputs[1], HRF_NO_VALUE));
    if (!hrf_backward_wants(b, 1) && !hrf_backward_wants(b, 2))
        return;
    const int32_t sum = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, b->dy, all_but_channels);
    if (conv >= 0) {
        give_through_weights(b, conv, sum);
    } else if (hrf_backward_wants(b, 1)) {
        const int32_t x_hat = normalised(b, x, HRF_NO_VALUE, b->node.inputs[3]);
        const int32_t terms = hrf_backward_binary(b, HRF_OP_MUL, b->dy, x_hat);
        const int32_t products = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, terms, all_but_channels);
        hrf_backward_give(b, 1, hrf_backward_reshape(b, products, &of_channels));
    }
    if (hrf_backward_wants(b, 2))
        hrf_backward_give(b, 2, hrf_backward_reshape(b, sum, &of_channels));
}

/* dx = y (dy - sum of y dy). */
void hrf_gradient_softmax(struct hrf_backward *b)
{
    const uint32_t axis = 1u << b->node.attributes.axis;
    const int32_t terms = hrf_backward_binary(b, HRF_OP_MUL, b->y, b->dy);
    const int32_t sum = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, terms, axis);
    const int32_t less = hrf_backward_binary(b, HRF_OP_SUB, b->dy, sum);
    hrf_backward_give(b, 0, hrf_backward_binary(b, HRF_OP_MUL, b->y, less));
}

/* dx = dy - exp(y) sum of dy. */
void hrf_gradient_log_softmax(struct hrf_backward *b)
{
    const uint32_t axis = 1u << b->node.attributes.axis;
    const int32_t sum = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, b->dy, axis);
    const int32_t p = hrf_backward_unary(b, HRF_OP_EXP, b->y);
    hrf_backward_give(
        b, 0,
        hrf_backward_binary(b, HRF_OP_SUB, b->dy, hrf_backward_binary(b, HRF_OP_MUL, p, sum)));
}

/* x, less its mean over `axes` if it is `centred`, and 1 / sqrt(mean of its square + epsilon). */
struct deviation {
    int32_t centre, inverse;
};

static struct deviation deviation_of(struct hrf_backward *b, int32_t x, uint32_t axes, bool centred)
{
    struct deviation d = { .centre = x };
    if (centred)
        d.centre = hrf_backward_binary(b, HRF_OP_SUB, x,
                                       hrf_backward_reduce(b, HRF_OP_REDUCE_MEAN, x, axes));
    const int32_t square = hrf_backward_binary(b, HRF_OP_MUL, d.centre, d.centre);
    const int32_t variance = hrf_backward_reduce(b, HRF_OP_REDUCE_MEAN, square, axes);
    const int32_t epsilon = hrf_backward_scalar(b, (double)b->node.attributes.epsilon);
    const int32_t sum = hrf_backward_binary(b, HRF_OP_ADD, variance, epsilon);
    d.inverse = hrf_backward_unary(b, HRF_OP_RECIPROCAL, hrf_backward_unary(b, HRF_OP_SQRT, sum));
    return d;
}

/* With x_hat = centre inverse and g the gradient to x_hat:
 * dx = inverse (g - mean of g - x_hat mean of g x_hat), without the mean of g if not centred. */
static int32_t through_statistics(struct hrf_backward *b, const struct deviation *d, int32_t x_hat,
                                  int32_t g, uint32_t axes, bool centred)
{
    const int32_t terms = hrf_backward_binary(b, HRF_OP_MUL, g, x_hat);
    const int32_t slope = hrf_backward_reduce(b, HRF_OP_REDUCE_MEAN, terms, axes);
    int32_t sum = hrf_backward_binary(b, HRF_OP_SUB, g,
                                      hrf_backward_binary(b, HRF_OP_MUL, x_hat, slope));
    if (centred)
        sum = hrf_backward_binary(b, HRF_OP_SUB, sum,
                                  hrf_backward_reduce(b, HRF_OP_REDUCE_MEAN, g, axes));
    return hrf_backward_binary(b, HRF_OP_MUL, sum, d->inverse);
}

/* LAYER_NORM and RMS_NORM, over the axes from `axis` on. */
static void give_row_norm(struct hrf_backward *b, bool centred)
{
    const int32_t x = b->node.inputs[0], scale = hrf_node_input(&b->node, 1);
    const struct hrf_shape shape = hrf_backward_shape(b, x);
    uint32_t axes = 0;
    for (int32_t i = (int32_t)b->node.attributes.axis; i < shape.rank; i++)
        axes |= 1u << i;
    const struct deviation d = deviation_of(b, x, axes, centred);
    const int32_t x_hat = hrf_backward_binary(b, HRF_OP_MUL, d.centre, d.inverse);
    if (hrf_backward_wants(b, 0)) {
        const int32_t g = scale >= 0 ? hrf_backward_binary(b, HRF_OP_MUL, b->dy, scale) : b->dy;
        hrf_backward_give(b, 0, through_statistics(b, &d, x_hat, g, axes, centred));
    }
    if (hrf_backward_wants(b, 1)) {
        const struct hrf_shape of_scale = hrf_backward_shape(b, scale);
        const int32_t terms = hrf_backward_binary(b, HRF_OP_MUL, b->dy, x_hat);
        hrf_backward_give(b, 1, hrf_backward_sum_to(b, terms, &of_scale));
    }
    if (hrf_backward_wants(b, 2)) {
        const struct hrf_shape of_bias = hrf_backward_input_shape(b, 2);
        hrf_backward_give(b, 2, hrf_backward_sum_to(b, b->dy, &of_bias));
    }
}

void hrf_gradient_layer_norm(struct hrf_backward *b)
{
    give_row_norm(b, true);
}

void hrf_gradient_rms_norm(struct hrf_backward *b)
{
    give_row_norm(b, false);
}

/* Over the channels of a group and all pixels: as [N][groups][numbers]. */
void hrf_gradient_group_norm(struct hrf_backward *b)
{
    const int32_t x = b->node.inputs[0], scale = b->node.inputs[1];
    const struct hrf_shape shape = hrf_backward_shape(b, x), of_channels = { 1, { shape.dims[1] } };
    const int64_t wanted = b->node.attributes.n_groups, count = hrf_shape_count(&shape);
    const int64_t groups = wanted > 0 ? wanted : shape.dims[1];
    const struct hrf_shape grouped = { 3,
                                       { shape.dims[0], groups, count / shape.dims[0] / groups } };
    struct hrf_shape by_channel = { .rank = shape.rank };
    for (int32_t i = 0; i < shape.rank; i++)
        by_channel.dims[i] = i == 1 ? shape.dims[1] : 1;
    const uint32_t all_but_channels = ((1u << shape.rank) - 1) & ~2u, axes = 4u;
    const struct deviation d = deviation_of(b, hrf_backward_reshape(b, x, &grouped), axes, true);
    const int32_t x_hat = hrf_backward_binary(b, HRF_OP_MUL, d.centre, d.inverse);
    if (hrf_backward_wants(b, 0)) {
        const int32_t factor = hrf_backward_reshape(b, scale, &by_channel);
        const int32_t g = hrf_backward_binary(b, HRF_OP_MUL, b->dy, factor);
        const int32_t dx = through_statistics(b, &d, x_hat, hrf_backward_reshape(b, g, &grouped),
                                              axes, true);
        hrf_backward_give(b, 0, hrf_backward_reshape(b, dx, &shape));
    }
    if (hrf_backward_wants(b, 1)) {
        const int32_t terms = hrf_backward_binary(b, HRF_OP_MUL, b->dy,
                                                  hrf_backward_reshape(b, x_hat, &shape));
        const int32_t sum = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, terms, all_but_channels);
        hrf_backward_give(b, 1, hrf_backward_reshape(b, sum, &of_channels));
    }
    if (hrf_backward_wants(b, 2)) {
        const int32_t sum = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, b->dy, all_but_channels);
        hrf_backward_give(b, 2, hrf_backward_reshape(b, sum, &of_channels));
    }
}

/* The sums over the channels around each, as a CONV by a matrix of ones and zeros; or, transposed,
 * over the channels that each is around. */
static int32_t sum_around(struct hrf_backward *b, int32_t x, bool is_transposed)
{
    const struct hrf_shape shape = hrf_backward_shape(b, x);
    const int64_t c = shape.dims[1], size = b->node.attributes.lrn.size;
    const struct hrf_shape of_ones = { 4, { c, c, 1, 1 } };
    struct hrf_attributes a = hrf_attributes_of(HRF_OP_CONV);
    a.window.kernel[0] = a.window.kernel[1] = 1;
    HRF_AUTO_FREE float *ones = hrf_calloc((size_t)hrf_shape_count(&of_ones), sizeof *ones);
    for (int64_t i = 0; i < c; i++)
        for (int64_t k = i - (size - 1) / 2; k <= i + size / 2; k++)
            if (k >= 0 && k < c)
                ones[is_transposed ? k * c + i : i * c + k] = 1;
    return HRF_APPLY(b, HRF_OP_CONV, &a, &shape, x,
                     hrf_backward_constant(b, HRF_F32, &of_ones, ones));
}

/* y = x / s^beta with s = bias + alpha / size times the sum of x^2 over the channels around:
 * dx = dy / s^beta - x (2 alpha beta / size) times the sum of dy y / s over the channels that x is
 * around. */
void hrf_gradient_lrn(struct hrf_backward *b)
{
    const struct hrf_attributes *a = &b->node.attributes;
    const int32_t x = b->node.inputs[0];
    const struct hrf_shape shape = hrf_backward_shape(b, x);
    const double share = (double)a->lrn.alpha / (double)a->lrn.size, beta = (double)a->lrn.beta;
    const int32_t sum = sum_around(b, hrf_backward_binary(b, HRF_OP_MUL, x, x), false);
    const int32_t scaled = hrf_backward_binary(b, HRF_OP_MUL, sum, hrf_backward_scalar(b, share));
    const int32_t s = hrf_backward_binary(b, HRF_OP_ADD, scaled,
                                          hrf_backward_scalar(b, (double)a->lrn.bias));
    const int32_t power = HRF_APPLY(b, HRF_OP_POW, NULL, &shape, s, hrf_backward_scalar(b, beta));
    const int32_t terms = hrf_backward_binary(b, HRF_OP_DIV,
                                              hrf_backward_binary(b, HRF_OP_MUL, b->dy, b->y), s);
    const int32_t slope = hrf_backward_binary(b, HRF_OP_MUL, sum_around(b, terms, true),
                                              hrf_backward_scalar(b, 2 * share * beta));
    hrf_backward_give(b, 0,
                      hrf_backward_binary(b, HRF_OP_SUB,
                                          hrf_backward_binary(b, HRF_OP_DIV, b->dy, power),
                                          hrf_backward_binary(b, HRF_OP_MUL, x, slope)));
}
