#include "tests/ops/cases.h"

#include <math.h>
#include <string.h>

/* Odd sizes, one pixel, channel counts that are no multiple of a register. */
static int64_t pick_channels(struct build *b)
{
    static const int64_t some[] = { 1, 2, 3, 5, 7, 8, 15, 16, 17, 24, 31, 32, 33, 48, 64, 70 };
    return some[build_pick(b, 0, (int64_t)(sizeof some / sizeof some[0]) - 1)];
}

static struct hrf_shape pick_image(struct build *b, int64_t channels, int64_t smallest)
{
    return SHAPE(build_pick(b, 1, 3), channels, build_pick(b, smallest, smallest + 18),
                 build_pick(b, smallest, smallest + 18));
}

static struct hrf_shape pick_any(struct build *b)
{
    struct hrf_shape shape = { .rank = (int32_t)build_pick(b, 1, 5) };
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dims[i] = build_pick(b, 1, 9);
    return shape;
}

/* A window that fits a padded input of at least `smallest` pixels a side. */
static struct hrf_attributes pick_window(struct build *b, int64_t largest_kernel, bool dilated,
                                         int64_t *smallest)
{
    struct hrf_attributes a = hrf_attributes_default();
    *smallest = 1;
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = build_pick(b, 1, largest_kernel);
        a.window.stride[i] = build_pick(b, 1, 3);
        a.window.dilation[i] = dilated && build_pick(b, 0, 2) == 0 ? build_pick(b, 2, 3) : 1;
        a.window.pad_begin[i] = build_pick(b, 0, a.window.kernel[i] - 1);
        a.window.pad_end[i] = build_pick(b, 0, a.window.kernel[i] - 1);
        const int64_t span = (a.window.kernel[i] - 1) * a.window.dilation[i] + 1;
        *smallest = span > *smallest ? span : *smallest;
    }
    return a;
}

static void pick_activation(struct build *b, struct hrf_attributes *a, bool leaky)
{
    a->activation = (enum hrf_activation)build_pick(b, 0, leaky ? 3 : 2);
    if (a->activation == HRF_ACT_CLIP) {
        a->activation_min = -1.5f;
        a->activation_max = 2.5f;
    }
    if (a->activation == HRF_ACT_LEAKY_RELU)
        a->alpha = 0.125f;
}

/* A convolution with whatever the passes may have fused into it. */
static int32_t fused_conv(struct build *b, struct hrf_shape x, int64_t out, int64_t group,
                          struct hrf_attributes a)
{
    const int64_t *k = a.window.kernel;
    const bool has_bias = build_pick(b, 0, 1), has_residual = build_pick(b, 0, 1);
    const double scale = 2 / sqrt((double)(x.dims[1] / group * k[0] * k[1])); /* outputs near 1 */
    a.group = group;
    pick_activation(b, &a, true);
    const int32_t image = build_input(b, x);
    int32_t inputs[HRF_CONV_N_INPUTS] = { image, HRF_NO_VALUE, HRF_NO_VALUE, HRF_NO_VALUE };
    inputs[HRF_CONV_WEIGHTS] = build_constant(b, SHAPE(out, x.dims[1] / group, k[0], k[1]), -scale,
                                              scale);
    if (has_bias)
        inputs[HRF_CONV_BIAS] = build_constant(b, SHAPE(out), -1, 1);
    if (has_residual)
        inputs[HRF_CONV_RESIDUAL] = build_input(
            b, SHAPE(x.dims[0], out, hrf_window_output(&a.window, 0, x.dims[2]),
                     hrf_window_output(&a.window, 1, x.dims[3])));
    return build_node(b, HRF_OP_CONV, inputs, HRF_CONV_N_INPUTS, &a);
}

static int32_t make_conv(struct build *b)
{
    int64_t smallest;
    const struct hrf_attributes a = pick_window(b, 5, true, &smallest);
    return fused_conv(b, pick_image(b, pick_channels(b), smallest), pick_channels(b), 1, a);
}

static int32_t make_grouped_conv(struct build *b)
{
    int64_t smallest;
    const struct hrf_attributes a = pick_window(b, 4, true, &smallest);
    const int64_t group = build_pick(b, 2, 6);
    const struct hrf_shape x = pick_image(b, group * build_pick(b, 1, 17), smallest);
    return fused_conv(b, x, group * build_pick(b, 1, 17), group, a);
}

static int32_t make_depthwise_conv(struct build *b)
{
    int64_t smallest;
    const struct hrf_attributes a = pick_window(b, 5, true, &smallest);
    const int64_t channels = pick_channels(b) + 1;
    const struct hrf_shape x = pick_image(b, channels, smallest);
    return fused_conv(b, x, channels * build_pick(b, 1, 2), channels, a);
}

static int32_t make_pointwise_conv(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = 1;
        a.window.stride[i] = build_pick(b, 1, 2);
    }
    const int64_t out = build_pick(b, 0, 3) == 0 ? build_pick(b, 100, 300) : pick_channels(b);
    return fused_conv(b, pick_image(b, pick_channels(b), 1), out, 1, a);
}

static int32_t make_three_by_three(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = 3;
        a.window.pad_begin[i] = build_pick(b, 0, 2);
        a.window.pad_end[i] = build_pick(b, 0, 2);
    }
    const struct hrf_shape x = pick_image(b, 16 * build_pick(b, 1, 6), 3);
    return fused_conv(b, x, 16 * build_pick(b, 1, 9), 1, a);
}

/* Half of them side by side, as the passes split them. */
static int32_t make_conv_transpose(struct build *b)
{
    int64_t smallest;
    struct hrf_attributes a = pick_window(b, 5, true, &smallest);
    const int64_t group = build_pick(b, 0, 2) == 0 ? build_pick(b, 2, 4) : 1;
    const int64_t out = group * build_pick(b, 1, 20);
    const int64_t side = build_pick(b, 1, 3);
    const struct hrf_shape x = pick_image(b, group * build_pick(b, 1, 17), 3);
    for (int i = 0; i < 2; i++) {
        struct hrf_window *w = &a.window;
        a.output.padding[i] = build_pick(b, 0, w->stride[i] - 1);
        if (build_pick(b, 0, 5) == 0)
            a.output.size[i] = x.dims[2 + i] * w->stride[i];
        if (group == 1) {
            w->kernel[i] = w->stride[i] = side;
            w->dilation[i] = 1;
            w->pad_begin[i] = w->pad_end[i] = a.output.padding[i] = a.output.size[i] = 0;
        }
    }
    a.group = group;
    pick_activation(b, &a, true);
    const int64_t *k = a.window.kernel;
    const double scale = 2 / sqrt((double)(x.dims[1] / group * k[0] * k[1]));
    int32_t inputs[3] = { build_input(b, x), HRF_NO_VALUE, HRF_NO_VALUE };
    inputs[1] = build_constant(b, SHAPE(x.dims[1], out / group, k[0], k[1]), -scale, scale);
    if (build_pick(b, 0, 1))
        inputs[2] = build_constant(b, SHAPE(out), -1, 1);
    return build_node(b, HRF_OP_CONV_TRANSPOSE, inputs, 3, &a);
}

/* Kernels below the stride: pixels that no window reaches. */
static int32_t make_gappy_conv_transpose(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_shape x = pick_image(b, build_pick(b, 1, 20), 2);
    const int64_t out = build_pick(b, 1, 9);
    for (int i = 0; i < 2; i++) {
        a.window.kernel[i] = build_pick(b, 1, 2);
        a.window.stride[i] = 3;
        a.window.pad_begin[i] = a.window.pad_end[i] = build_pick(b, 0, 1);
        a.output.padding[i] = build_pick(b, 0, 2);
    }
    const int32_t inputs[] = {
        build_input(b, x),
        build_constant(b, SHAPE(x.dims[1], out, a.window.kernel[0], a.window.kernel[1]), -0.5, 0.5),
        build_constant(b, SHAPE(out), -1, 1)
    };
    return build_node(b, HRF_OP_CONV_TRANSPOSE, inputs, 3, &a);
}

static int32_t make_gemm(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t m = build_pick(b, 1, 40), n = build_pick(b, 1, 70), k = build_pick(b, 1, 160);
    a.gemm.transpose_a = build_pick(b, 0, 1);
    a.gemm.transpose_b = build_pick(b, 0, 1);
    a.gemm.alpha = build_pick(b, 0, 1) ? 1.0f : 0.5f;
    a.gemm.beta = build_pick(b, 0, 1) ? 1.0f : -2.0f;
    pick_activation(b, &a, false);
    const struct hrf_shape left = a.gemm.transpose_a ? SHAPE(k, m) : SHAPE(m, k);
    const struct hrf_shape right = a.gemm.transpose_b ? SHAPE(n, k) : SHAPE(k, n);
    const struct hrf_shape biases[] = { SHAPE(n), SHAPE(1, n), SHAPE(m, 1), SHAPE(m, n), SHAPE(1) };
    int32_t inputs[4] = { build_input(b, left), HRF_NO_VALUE, HRF_NO_VALUE, HRF_NO_VALUE };
    inputs[1] = build_pick(b, 0, 2) ? build_constant(b, right, -1, 1) : build_input(b, right);
    if (build_pick(b, 0, 3))
        inputs[2] = build_constant(b, biases[build_pick(b, 0, 4)], -1, 1);
    if (build_pick(b, 0, 1))
        inputs[3] = build_input(b, SHAPE(m, n));
    return build_node(b, HRF_OP_GEMM, inputs, 4, &a);
}

/* As passes make it: rows over several axes, or one. */
static int32_t make_gemm_of_rows(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t n = build_pick(b, 1, 4), t = build_pick(b, 1, 30), k = build_pick(b, 1, 90);
    const int64_t columns = build_pick(b, 1, 150);
    const bool is_matrix = build_pick(b, 0, 1) == 0;
    pick_activation(b, &a, false);
    int32_t inputs[4] = { build_input(b, is_matrix ? SHAPE(t, k) : SHAPE(n, t, k)),
                          build_constant(b, SHAPE(k, columns), -1, 1), HRF_NO_VALUE, HRF_NO_VALUE };
    if (build_pick(b, 0, 3))
        inputs[2] = build_constant(b, build_pick(b, 0, 2) ? SHAPE(columns) : SHAPE(t, 1), -1, 1);
    if (build_pick(b, 0, 1))
        inputs[3] = build_input(b, is_matrix ? SHAPE(t, columns) : SHAPE(n, t, columns));
    return build_node(b, HRF_OP_GEMM, inputs, 4, &a);
}

/* numpy's: vectors, matrices, and batches of them that broadcast. */
static int32_t make_matmul(struct build *b)
{
    const int64_t m = build_pick(b, 1, 20), n = build_pick(b, 1, 20), k = build_pick(b, 1, 20);
    struct hrf_shape sides[2] = { SHAPE(m, k), SHAPE(k, n) };
    const int32_t most = (int32_t)build_pick(b, 0, 4);
    int64_t batch[4];
    for (int i = 0; i < 4; i++)
        batch[i] = build_pick(b, 1, 3);
    for (int s = 0; s < 2; s++) {
        const int32_t more = most == 0 ? 0 : (int32_t)build_pick(b, s == 0 ? most : 0, most);
        struct hrf_shape full = { .rank = more + 2 };
        for (int32_t i = 0; i < more; i++)
            full.dims[i] = build_pick(b, 0, 3) == 0 ? 1 : batch[4 - more + i];
        full.dims[more] = sides[s].dims[0];
        full.dims[more + 1] = sides[s].dims[1];
        sides[s] = full;
    }
    if (most == 0 && build_pick(b, 0, 3) == 0)
        sides[0] = SHAPE(k);
    else if (build_pick(b, 0, 5) == 0)
        sides[1] = SHAPE(k);
    return build_binary(b, HRF_OP_MATMUL, build_input(b, sides[0]),
                        build_pick(b, 0, 1) ? build_constant(b, sides[1], -1, 1)
                                            : build_input(b, sides[1]));
}

static int32_t performer_of(struct build *b, bool exponential)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t d = build_pick(b, 1, 17), m = build_pick(b, 1, 40);
    a.performer.heads = build_pick(b, 1, 4);
    a.performer.exponential = exponential;
    a.performer.epsilon = exponential ? 1e-4f : 1e-3f;
    const struct hrf_shape q = SHAPE(build_pick(b, 1, 2), a.performer.heads * d,
                                     build_pick(b, 1, 40), build_pick(b, 1, 40));
    const int32_t inputs[] = { build_input(b, q), build_input(b, q), build_input(b, q),
                               build_constant(b, SHAPE(m, d), -1.5, 1.5) };
    return build_node(b, HRF_OP_PERFORMER, inputs, 4, &a);
}

static int32_t make_performer(struct build *b)
{
    return performer_of(b, false);
}

static int32_t make_softmax_performer(struct build *b)
{
    return performer_of(b, true);
}

static int32_t make_batch_norm(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    struct hrf_shape shape = pick_any(b);
    if (shape.rank < 2 || build_pick(b, 0, 1))
        shape = pick_image(b, pick_channels(b), 1);
    a.epsilon = 1e-3f;
    pick_activation(b, &a, true);
    const int64_t c = shape.dims[1];
    const int32_t inputs[] = { build_input(b, shape), build_constant(b, SHAPE(c), -2, 2),
                               build_constant(b, SHAPE(c), -1, 1),
                               build_constant(b, SHAPE(c), -1, 1),
                               build_constant(b, SHAPE(c), 0.1, 2) };
    return build_node(b, HRF_OP_BATCH_NORM, inputs, 5, &a);
}

static int32_t make_relu(struct build *b)
{
    return build_unary(b, HRF_OP_RELU, build_input(b, pick_any(b)));
}

static int32_t make_leaky_relu(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.alpha = 0.01f;
    const int32_t x = build_input(b, pick_any(b));
    return build_node(b, HRF_OP_LEAKY_RELU, &x, 1, &a);
}

static int32_t make_clip(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.activation_min = -0.5f;
    a.activation_max = 1.25f;
    const int32_t x = build_input(b, pick_any(b));
    return build_node(b, HRF_OP_CLIP, &x, 1, &a);
}

static int32_t make_sigmoid(struct build *b)
{
    return build_unary(b, HRF_OP_SIGMOID, build_input(b, pick_any(b)));
}

static int32_t make_tanh(struct build *b)
{
    return build_unary(b, HRF_OP_TANH, build_input(b, pick_any(b)));
}

/* Functions of one number, several in a case; numbers that log and sqrt can take. */
static int32_t make_functions(struct build *b)
{
    static const enum hrf_op ops[] = {
        HRF_OP_EXP,   HRF_OP_NEG,          HRF_OP_ABS,        HRF_OP_ERF,      HRF_OP_ELU,
        HRF_OP_SELU,  HRF_OP_HARD_SIGMOID, HRF_OP_HARD_SWISH, HRF_OP_SOFTPLUS, HRF_OP_SOFTSIGN,
        HRF_OP_CELU,  HRF_OP_SIN,          HRF_OP_COS,        HRF_OP_GELU,     HRF_OP_GELU_TANH,
        HRF_OP_SWISH, HRF_OP_MISH,         HRF_OP_ATAN,       HRF_OP_TAN,      HRF_OP_SINH,
        HRF_OP_COSH,  HRF_OP_ASINH,        HRF_OP_SHRINK
    };
    struct hrf_attributes a = hrf_attributes_default();
    a.alpha = 0.3f;
    a.beta = 0.6f;
    const int32_t x = build_input(b, pick_any(b));
    return build_node(b, ops[build_pick(b, 0, sizeof ops / sizeof ops[0] - 1)], &x, 1, &a);
}

static int32_t make_steps(struct build *b)
{
    static const enum hrf_op ops[] = { HRF_OP_FLOOR, HRF_OP_CEIL, HRF_OP_THRESHOLDED_RELU,
                                       HRF_OP_ROUND, HRF_OP_SIGN };
    const int32_t x = build_input(b, pick_any(b));
    return build_unary(b, ops[build_pick(b, 0, 4)], x);
}

static int32_t make_positive_functions(struct build *b)
{
    static const enum hrf_op ops[] = { HRF_OP_LOG, HRF_OP_SQRT, HRF_OP_RECIPROCAL, HRF_OP_ACOSH };
    const struct hrf_shape one = SHAPE(1);
    const enum hrf_op op = ops[build_pick(b, 0, 3)];
    const double least = op == HRF_OP_ACOSH ? 1.25 : 0.5;
    int32_t x = build_unary(b, HRF_OP_ABS, build_input(b, pick_any(b)));
    x = build_binary(b, HRF_OP_ADD, x, build_constant(b, one, least, least + 0.5));
    return build_unary(b, op, x);
}

/* Of numbers between -1 and 1. */
static int32_t make_bounded_functions(struct build *b)
{
    static const enum hrf_op ops[] = { HRF_OP_ASIN, HRF_OP_ACOS, HRF_OP_ATANH };
    const int32_t x = build_unary(b, HRF_OP_SOFTSIGN, build_input(b, pick_any(b)));
    return build_unary(b, ops[build_pick(b, 0, 2)], x);
}

static int32_t softmax_of(struct build *b, enum hrf_op op)
{
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_shape shape = pick_any(b);
    a.axis = build_pick(b, 0, shape.rank - 1);
    const int32_t x = build_input(b, shape);
    return build_node(b, op, &x, 1, &a);
}

static int32_t make_softmax(struct build *b)
{
    return softmax_of(b, HRF_OP_SOFTMAX);
}

static int32_t make_log_softmax(struct build *b)
{
    return softmax_of(b, HRF_OP_LOG_SOFTMAX);
}

/* Either side may be broadcast along any axes, be of lower rank, or be a constant. */
static int32_t binary_of(struct build *b, enum hrf_op op)
{
    struct hrf_shape sides[2] = { pick_any(b) };
    sides[1] = sides[0];
    const int how = (int)build_pick(b, 0, 4);
    for (int32_t i = 2; how == 4 && i < sides[0].rank; i++) /* one number for each channel */
        sides[1].dims[i] = 1;
    for (int32_t i = 0; how == 1 && i < sides[0].rank; i++)
        sides[build_pick(b, 0, 1)].dims[i] = 1;
    if (how == 2) { /* the last axes only */
        const int32_t drop = (int32_t)build_pick(b, 0, sides[0].rank - 1);
        sides[1].rank -= drop;
        memmove(sides[1].dims, sides[1].dims + drop,
                (size_t)sides[1].rank * sizeof sides[1].dims[0]);
    }
    const bool swap = build_pick(b, 0, 1);
    const int32_t one = build_input(b, sides[swap]);
    int32_t two = build_pick(b, 0, 1) ? build_input(b, sides[!swap])
                                      : build_constant(b, sides[!swap], 0.5, 2);
    if (op == HRF_OP_DIV) /* not near 0 */
        two = build_constant(b, sides[!swap], 0.5, 2);
    return build_binary(b, op, one, two);
}

static int32_t make_add(struct build *b)
{
    return binary_of(b, HRF_OP_ADD);
}

static int32_t make_sub(struct build *b)
{
    return binary_of(b, HRF_OP_SUB);
}

static int32_t make_mul(struct build *b)
{
    return binary_of(b, HRF_OP_MUL);
}

static int32_t make_div(struct build *b)
{
    return binary_of(b, HRF_OP_DIV);
}

static int32_t make_two_numbers(struct build *b)
{
    static const enum hrf_op ops[] = { HRF_OP_MAX, HRF_OP_MIN, HRF_OP_PRELU };
    return binary_of(b, ops[build_pick(b, 0, 2)]);
}

/* Of numbers above 0, to powers between -1 and 1. */
static int32_t make_pow(struct build *b)
{
    const struct hrf_shape shape = pick_any(b);
    const int32_t base = build_unary(b, HRF_OP_EXP, build_input(b, shape));
    const int32_t power = build_unary(b, HRF_OP_SOFTSIGN, build_input(b, shape));
    return build_binary(b, HRF_OP_POW, base, power);
}

static int32_t pool_of(struct build *b, enum hrf_op op)
{
    int64_t smallest;
    struct hrf_attributes a = pick_window(b, 4, op == HRF_OP_MAX_POOL, &smallest);
    for (int i = 0; i < 2; i++) { /* ONNX and PyTorch: at most half the kernel */
        a.window.pad_begin[i] = build_pick(b, 0, a.window.kernel[i] / 2);
        a.window.pad_end[i] = build_pick(b, 0, a.window.kernel[i] / 2);
    }
    a.window.ceil_mode = build_pick(b, 0, 1);
    a.window.count_include_pad = build_pick(b, 0, 1);
    const int32_t x = build_input(b, pick_image(b, pick_channels(b), smallest));
    return build_node(b, op, &x, 1, &a);
}

static int32_t make_max_pool(struct build *b)
{
    return pool_of(b, HRF_OP_MAX_POOL);
}

/* Windows as in a file, without what exceeds the image at the end. */
static int32_t make_max_pool_gradient(struct build *b)
{
    int64_t smallest;
    const struct hrf_attributes a = pick_window(b, 4, true, &smallest);
    const struct hrf_shape x = pick_image(b, pick_channels(b), smallest);
    const struct hrf_shape dy = SHAPE(x.dims[0], x.dims[1],
                                      hrf_window_output(&a.window, 0, x.dims[2]),
                                      hrf_window_output(&a.window, 1, x.dims[3]));
    const int32_t inputs[] = { build_input(b, x), build_input(b, dy) };
    return build_node(b, HRF_OP_MAX_POOL_GRADIENT, inputs, 2, &a);
}

/* Ordinary, in groups or of each channel by itself. */
static int32_t make_conv_weight_gradient(struct build *b)
{
    int64_t smallest;
    struct hrf_attributes a = pick_window(b, 5, true, &smallest);
    const int kind = (int)build_pick(b, 0, 2);
    const int64_t channels = pick_channels(b);
    a.group = kind == 0 ? 1 : kind == 1 ? build_pick(b, 2, 6) : channels;
    const int64_t in = kind == 1 ? a.group * build_pick(b, 1, 17) : channels;
    const int64_t out = kind == 0 ? pick_channels(b)
                                  : a.group * build_pick(b, 1, kind == 1 ? 17 : 2);
    const struct hrf_shape x = pick_image(b, in, smallest);
    const struct hrf_shape dy = SHAPE(x.dims[0], out, hrf_window_output(&a.window, 0, x.dims[2]),
                                      hrf_window_output(&a.window, 1, x.dims[3]));
    const int32_t inputs[] = { build_input(b, x), build_input(b, dy) };
    return build_node(b, HRF_OP_CONV_WEIGHT_GRADIENT, inputs, 2, &a);
}

static int32_t make_gather_gradient(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    struct hrf_shape shape = pick_any(b);
    int64_t indices[9];
    a.axis = build_pick(b, 0, shape.rank - 1);
    a.length = build_pick(b, 1, 7);
    for (int i = 0; i < 9; i++)
        indices[i] = build_pick(b, 0, a.length - 1);
    const int32_t inputs[] = { build_input(b, shape),
                               build_integers(b, shape.dims[a.axis], indices) };
    return build_node(b, HRF_OP_GATHER_GRADIENT, inputs, 2, &a);
}

/* Of every function, of which some have no derivative below -1 or above 1. */
static int32_t make_function_gradient(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_shape shape = pick_any(b);
    a.function = build_pick(b, HRF_OP_RELU, HRF_OP_CLIP);
    a.alpha = 0.3f;
    a.beta = 0.6f;
    a.activation_min = -0.5f;
    a.activation_max = 1.25f;
    const bool is_bounded = a.function == HRF_OP_ASIN || a.function == HRF_OP_ACOS ||
                            a.function == HRF_OP_ATANH;
    const bool is_positive = a.function == HRF_OP_LOG || a.function == HRF_OP_SQRT ||
                             a.function == HRF_OP_RECIPROCAL;
    int32_t x = build_input(b, shape);
    if (is_bounded)
        x = build_unary(b, HRF_OP_SOFTSIGN, x);
    if (is_positive || a.function == HRF_OP_ACOSH)
        x = build_unary(b, HRF_OP_COSH, build_unary(b, HRF_OP_EXP, x));
    const int32_t inputs[] = { x, build_input(b, shape) };
    return build_node(b, HRF_OP_FUNCTION_GRADIENT, inputs, 2, &a);
}

static int32_t make_average_pool(struct build *b)
{
    return pool_of(b, HRF_OP_AVERAGE_POOL);
}

static int32_t make_global_average(struct build *b)
{
    return build_unary(b, HRF_OP_GLOBAL_AVERAGE_POOL,
                       build_input(b, pick_image(b, pick_channels(b), 1)));
}

static int32_t make_global_max(struct build *b)
{
    return build_unary(b, HRF_OP_GLOBAL_MAX_POOL,
                       build_input(b, pick_image(b, pick_channels(b), 1)));
}

static int32_t resize_of(struct build *b, enum hrf_resize_mode mode)
{
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_shape x = pick_image(b, pick_channels(b), 1);
    const bool by_scales = build_pick(b, 0, 1) == 0;
    a.resize.mode = mode;
    a.resize.coordinates = (enum hrf_resize_coordinates)build_pick(b, 0, 3);
    a.resize.rounding = (enum hrf_resize_rounding)build_pick(b, 0, 3);
    a.resize.cubic_a = -0.75f;
    a.resize.exclude_outside = build_pick(b, 0, 1) == 0;
    for (int i = 0; i < 4; i++) {
        a.resize.scales[i] = !by_scales ? 0 : i < 2 ? 1 : 1 + 0.1f * (float)build_pick(b, 0, 25);
        a.resize.sizes[i] = i < 2 ? x.dims[i] : build_pick(b, 1, 30);
    }
    const int32_t input = build_input(b, x);
    return build_node(b, HRF_OP_RESIZE, &input, 1, &a);
}

static int32_t make_nearest(struct build *b)
{
    return resize_of(b, HRF_RESIZE_NEAREST);
}

static int32_t make_interpolation(struct build *b)
{
    return resize_of(b, build_pick(b, 0, 1) == 0 ? HRF_RESIZE_LINEAR : HRF_RESIZE_CUBIC);
}

/* ---- moves: images, so that a precision finds products around them ---- */

static int32_t make_concat(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    struct hrf_shape shape = pick_image(b, pick_channels(b), 1);
    int32_t inputs[3];
    a.axis = build_pick(b, 0, 3);
    for (int i = 0; i < 3; i++) {
        shape.dims[a.axis] = build_pick(b, 1, 9);
        /* A constant side, as a class token is, has no lowered form. */
        inputs[i] = i > 0 && build_pick(b, 0, 2) == 0 ? build_constant(b, shape, -1, 1)
                                                      : build_input(b, shape);
    }
    return build_node(b, HRF_OP_CONCAT, inputs, (int32_t)build_pick(b, 1, 3), &a);
}

static int32_t make_transpose(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_shape shape = build_pick(b, 0, 1) == 0 ? pick_image(b, pick_channels(b), 1)
                                                            : SHAPE(build_pick(b, 1, 9), 7);
    a.n_axes = shape.rank;
    for (int32_t i = 0; i < shape.rank; i++) { /* a random order */
        const int32_t k = (int32_t)build_pick(b, 0, i);
        a.axes[i] = a.axes[k];
        a.axes[k] = i;
    }
    const int32_t x = build_input(b, shape);
    return build_node(b, HRF_OP_TRANSPOSE, &x, 1, &a);
}

static int32_t make_slice(struct build *b)
{
    const struct hrf_shape shape = pick_image(b, 1 + pick_channels(b), 2);
    int64_t starts[2], ends[2], steps[2];
    const int64_t axes[2] = { build_pick(b, 0, 1), build_pick(b, 2, 3) };
    for (int i = 0; i < 2; i++) {
        const int64_t size = shape.dims[axes[i]];
        const bool back = build_pick(b, 0, 3) == 0;
        starts[i] = back ? -1 : build_pick(b, 0, size - 1);
        ends[i] = back ? INT64_MIN : size;
        steps[i] = (back ? -1 : 1) * build_pick(b, 1, 3);
    }
    const int32_t inputs[] = { build_input(b, shape), build_integers(b, 2, starts),
                               build_integers(b, 2, ends), build_integers(b, 2, axes),
                               build_integers(b, 2, steps) };
    return build_node(b, HRF_OP_SLICE, inputs, 5, NULL);
}

static int32_t make_gather(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_shape shape = pick_image(b, pick_channels(b), 1);
    a.axis = build_pick(b, 0, 3);
    const int64_t size = shape.dims[a.axis];
    int64_t indices[5];
    for (int i = 0; i < 5; i++)
        indices[i] = build_pick(b, -size, size - 1);
    const int32_t x = build_input(b, shape);
    const int32_t inputs[] = { x, build_integers(b, build_pick(b, 1, 5), indices) };
    return build_node(b, HRF_OP_GATHER, inputs, 2, &a);
}

static int32_t make_pad(struct build *b)
{
    const struct hrf_shape shape = pick_image(b, pick_channels(b), 1);
    struct hrf_attributes a = hrf_attributes_default();
    int64_t pads[8];
    a.pad.mode = (enum hrf_pad_mode)build_pick(b, 0, 3);
    const bool cuts = a.pad.mode == HRF_PAD_CONSTANT && build_pick(b, 0, 1) == 0;
    for (int i = 0; i < 8; i++) {
        const int64_t reach = a.pad.mode == HRF_PAD_REFLECT ? shape.dims[i % 4] - 1
                              : a.pad.mode == HRF_PAD_WRAP  ? shape.dims[i % 4]
                                                            : 2;
        const bool may_cut = cuts && shape.dims[i % 4] > 2;
        pads[i] = build_pick(b, may_cut ? -1 : 0, reach < 2 ? reach : 2);
    }
    const int32_t inputs[] = { build_input(b, shape), build_integers(b, 8, pads),
                               build_constant(b, SHAPE(1), -1, 1) };
    return build_node(b, HRF_OP_PAD, inputs, 3, &a);
}

static int32_t make_blocks(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const bool to_space = build_pick(b, 0, 1) == 0;
    a.block.size = build_pick(b, 1, 3);
    a.block.column_row_depth = to_space && build_pick(b, 0, 1) == 0;
    const int64_t in_depth = to_space ? a.block.size * a.block.size : 1,
                  in_space = to_space ? 1 : a.block.size;
    const struct hrf_shape shape = SHAPE(build_pick(b, 1, 2), build_pick(b, 1, 9) * in_depth,
                                         build_pick(b, 1, 9) * in_space,
                                         build_pick(b, 1, 9) * in_space);
    const int32_t x = build_input(b, shape);
    return build_node(b, to_space ? HRF_OP_DEPTH_TO_SPACE : HRF_OP_SPACE_TO_DEPTH, &x, 1, &a);
}

/* From images, to images, and from one form of image to another. */
static int32_t make_reshape(struct build *b)
{
    /* Few channels where a product follows, which may be as wide as the whole image squared. */
    const int64_t n_channels = b->between_products ? build_pick(b, 1, 6) : pick_channels(b);
    const struct hrf_shape x = pick_image(b, n_channels, 1);
    const int64_t area = x.dims[2] * x.dims[3];
    const int64_t image[] = { x.dims[0], area, 1, x.dims[1] };
    const int64_t turned[] = { x.dims[0], x.dims[3], x.dims[1], x.dims[2] };
    const int64_t flat[] = { x.dims[0], x.dims[1] * area };
    const int how = (int)build_pick(b, 0, 3);
    const int32_t input = build_input(b, how == 3 ? SHAPE(flat[0], flat[1]) : x);
    return build_binary(b, HRF_OP_RESHAPE, input,
                        build_integers(b, how == 2 ? 2 : 4,
                                       how == 0   ? image
                                       : how == 1 ? turned
                                       : how == 2 ? flat
                                                  : x.dims));
}

static int32_t make_lrn(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.lrn.size = build_pick(b, 1, 6);
    a.lrn.alpha = 0.01f;
    a.lrn.beta = 0.75f;
    a.lrn.bias = 1.5f;
    const int32_t x = build_input(b, pick_image(b, pick_channels(b), 1));
    return build_node(b, HRF_OP_LRN, &x, 1, &a);
}

static int32_t reduction_of(struct build *b, enum hrf_op op)
{
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_shape shape = pick_any(b);
    const int64_t mask = build_pick(b, 1, ((int64_t)1 << shape.rank) - 1);
    for (int32_t i = 0; i < shape.rank; i++)
        if ((mask >> i & 1) != 0)
            a.axes[a.n_axes++] = i;
    a.keep_dims = build_pick(b, 0, 1);
    const int32_t x = build_input(b, shape);
    return build_node(b, op, &x, 1, &a);
}

static int32_t make_reduce_mean(struct build *b)
{
    return reduction_of(b, HRF_OP_REDUCE_MEAN);
}

static int32_t make_reduction(struct build *b)
{
    static const enum hrf_op ops[] = { HRF_OP_REDUCE_SUM,        HRF_OP_REDUCE_MAX,
                                       HRF_OP_REDUCE_MIN,        HRF_OP_REDUCE_PROD,
                                       HRF_OP_REDUCE_L1,         HRF_OP_REDUCE_L2,
                                       HRF_OP_REDUCE_SUM_SQUARE, HRF_OP_REDUCE_LOG_SUM_EXP };
    return reduction_of(b, ops[build_pick(b, 0, 7)]);
}

/* Of numbers above 0. */
static int32_t make_log_sum(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_shape shape = pick_any(b);
    const int32_t x = build_unary(b, HRF_OP_EXP, build_input(b, shape));
    a.keep_dims = build_pick(b, 0, 1);
    a.n_axes = 1;
    a.axes[0] = build_pick(b, 0, shape.rank - 1);
    return build_node(b, HRF_OP_REDUCE_LOG_SUM, &x, 1, &a);
}

static int32_t make_layer_norm(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_shape x = pick_any(b);
    struct hrf_shape inner = { .rank = 0 };
    const bool is_rms = build_pick(b, 0, 3) == 0;
    int32_t inputs[3] = { build_input(b, x), HRF_NO_VALUE, HRF_NO_VALUE };
    a.axis = build_pick(b, 0, x.rank - 1);
    a.epsilon = 1e-3f;
    for (int64_t i = a.axis; i < x.rank; i++)
        inner.dims[inner.rank++] = x.dims[i];
    if (build_pick(b, 0, 3) > 0)
        inputs[1] = build_constant(b, inner, -1, 1);
    if (build_pick(b, 0, 3) > 0 && !is_rms)
        inputs[2] = build_constant(b, inner, -1, 1);
    return build_node(b, is_rms ? HRF_OP_RMS_NORM : HRF_OP_LAYER_NORM, inputs, is_rms ? 2 : 3, &a);
}

/* As hrf_pass_channels_first() makes them: over the channels of pixels. */
static int32_t make_pixel_norm(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t channels = build_pick(b, 1, 70);
    const struct hrf_shape x = pick_image(b, channels, 1);
    const bool is_rms = build_pick(b, 0, 2) == 0;
    int32_t inputs[] = { build_input(b, x), HRF_NO_VALUE, HRF_NO_VALUE };
    a.axis = 1;
    a.of_each_pixel = true;
    a.epsilon = 1e-3f;
    for (int32_t k = 1; k < 3; k++)
        if (build_pick(b, 0, 3) > 0)
            inputs[k] = build_constant(b, SHAPE(channels), -1, 1);
    return build_node(b, is_rms ? HRF_OP_RMS_NORM : HRF_OP_LAYER_NORM, inputs, is_rms ? 2 : 3, &a);
}

/* An image as the tokens that its pixels are, tokens as an image, and one image as another. */
static int32_t make_pixel_reshape(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t n = build_pick(b, 1, 2), c = build_pick(b, 1, 20), h = build_pick(b, 1, 6);
    const int64_t w = 2 * build_pick(b, 1, 4);
    const struct hrf_shape image = SHAPE(n, c, h, w), tokens = SHAPE(n, h * w, c),
                           windows = SHAPE(n * 2, c, h, w / 2);
    const struct hrf_shape pairs[][2] = { { image, tokens },
                                          { tokens, image },
                                          { image, windows } };
    const struct hrf_shape *pair = pairs[build_pick(b, 0, 2)];
    const int32_t inputs[] = { build_input(b, pair[0]),
                               build_integers(b, pair[1].rank, pair[1].dims) };
    a.channels_last = true;
    return build_node(b, HRF_OP_RESHAPE, inputs, 2, &a);
}

static int32_t make_group_norm(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_groups = build_pick(b, 0, 4);
    const int64_t channels = (a.n_groups > 0 ? a.n_groups : 1) * build_pick(b, 1, 5);
    const struct hrf_shape image = pick_image(b, channels, 1);
    const struct hrf_shape line = SHAPE(2, channels, build_pick(b, 1, 9));
    const int32_t inputs[] = { build_input(b, build_pick(b, 0, 2) > 0 ? image : line),
                               build_constant(b, SHAPE(channels), -1, 1),
                               build_constant(b, SHAPE(channels), -1, 1) };
    return build_node(b, HRF_OP_GROUP_NORM, inputs, 3, &a);
}

/* Of rank 3 and 4, with and without masks of every shape that broadcasts, keys turned or not, fewer
 * heads of keys. */
static int32_t make_attention(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t n = build_pick(b, 1, 6), few = build_pick(b, 1, 2),
                  heads = few * build_pick(b, 1, 2);
    const int64_t t = build_pick(b, 1, 20), s = build_pick(b, 1, 20), d = build_pick(b, 1, 17);
    const int64_t e = build_pick(b, 1, 17);
    const bool has_heads = build_pick(b, 0, 2) > 0;
    const int64_t windows = n % 2 == 0 ? n / 2 : n;
    a.attention.mask_repeats = true;
    const struct hrf_shape masks[] = { SHAPE(t, s), SHAPE(1, s), SHAPE(windows, 1, t, s),
                                       SHAPE(windows, heads, t, s), SHAPE(s) };
    a.attention.scale = build_pick(b, 0, 1) ? 0.25f : 0;
    a.attention.causal = build_pick(b, 0, 3) == 0;
    a.attention.transpose_k = build_pick(b, 0, 1);
    const struct hrf_shape k4 = a.attention.transpose_k ? SHAPE(n, few, d, s) : SHAPE(n, few, s, d);
    const struct hrf_shape k3 = a.attention.transpose_k ? SHAPE(n, d, s) : SHAPE(n, s, d);
    int32_t inputs[4] = { build_input(b, has_heads ? SHAPE(n, heads, t, d) : SHAPE(n, t, d)) };
    inputs[1] = build_input(b, has_heads ? k4 : k3);
    inputs[2] = build_input(b, has_heads ? SHAPE(n, few, s, e) : SHAPE(n, s, e));
    inputs[3] = HRF_NO_VALUE;
    if (build_pick(b, 0, 1))
        inputs[3] = build_constant(b, masks[has_heads ? build_pick(b, 0, 4) : build_pick(b, 0, 1)],
                                   -1, 1);
    return build_node(b, HRF_OP_ATTENTION, inputs, 4, &a);
}

/* More queries than are computed at a time, too. */
static int32_t make_attention_gradient(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t n = build_pick(b, 1, 3), heads = build_pick(b, 1, 3), d = build_pick(b, 1, 17);
    const bool is_long = build_pick(b, 0, 3) == 0, has_heads = build_pick(b, 0, 2) > 0;
    const int64_t t = build_pick(b, 1, is_long ? 120 : 20), s = build_pick(b, 1, 20);
    a.attention.scale = build_pick(b, 0, 1) ? 0.25f : 0;
    a.attention.causal = build_pick(b, 0, 3) == 0;
    a.attention.transpose_k = build_pick(b, 0, 1);
    const struct hrf_shape q = has_heads ? SHAPE(n, heads, t, d) : SHAPE(n, t, d);
    const struct hrf_shape v = has_heads ? SHAPE(n, heads, s, d) : SHAPE(n, s, d);
    const struct hrf_shape turned = has_heads ? SHAPE(n, heads, d, s) : SHAPE(n, d, s);
    const int32_t inputs[] = { build_input(b, q),
                               build_input(b, a.attention.transpose_k ? turned : v),
                               build_input(b, v), build_input(b, q) };
    return build_node(b, HRF_OP_ATTENTION_GRADIENT, inputs, 4, &a);
}

/* Heads in the channels of tokens: anywhere, also q, k and v of
 * one tensor. */
static int32_t attend_to_tokens(struct build *b, int64_t most_tokens, int64_t most_channels,
                                bool fixed_point)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t n = build_pick(b, 1, 6), t = build_pick(b, 1, most_tokens);
    const int64_t s = build_pick(b, 1, most_tokens);
    a.attention.heads = build_pick(b, 1, 3);
    a.attention.head_size = build_pick(b, 1, most_channels);
    a.attention.fixed_point = fixed_point;
    a.attention.scale = build_pick(b, 0, 4) ? 0.25f : -0.25f;
    a.attention.causal = build_pick(b, 0, 3) == 0;
    int64_t widths[3];
    for (int i = 0; i < 3; i++) {
        a.attention.first[i] = build_pick(b, 0, 5);
        a.attention.stride[i] = a.attention.head_size + build_pick(b, 0, 2);
        widths[i] = a.attention.first[i] + a.attention.heads * a.attention.stride[i] +
                    build_pick(b, 0, 3);
    }
    int32_t inputs[4] = { build_input(b, SHAPE(n, t, widths[0])),
                          build_input(b, SHAPE(n, s, widths[1])),
                          build_input(b, SHAPE(n, s, widths[2])), HRF_NO_VALUE };
    if (build_pick(b, 0, 2) == 0) {
        const int64_t c = a.attention.heads * a.attention.head_size;
        inputs[0] = inputs[1] = inputs[2] = build_input(b, SHAPE(n, t, 3 * c));
        for (int i = 0; i < 3; i++) {
            a.attention.first[i] = c * i;
            a.attention.stride[i] = a.attention.head_size;
        }
    } else if (build_pick(b, 0, 1)) {
        const int64_t windows = n % 2 == 0 ? 2 : n;
        a.attention.mask_repeats = true;
        const struct hrf_shape masks[] = { SHAPE(t, s), SHAPE(1, a.attention.heads, t, s),
                                           SHAPE(n, 1, 1, s),
                                           SHAPE(windows, a.attention.heads, t, s) };
        inputs[3] = build_constant(b, masks[build_pick(b, 0, 3)], -1, 1);
    }
    return build_node(b, HRF_OP_TOKEN_ATTENTION, inputs, 4, &a);
}

static int32_t make_attention_of_tokens(struct build *b)
{
    return attend_to_tokens(b, 30, 20, false);
}

/* Up to more than two panels of keys or of channels; the reference takes long for both at once. */
static int32_t make_fixed_attention(struct build *b)
{
    static const int64_t most[][2] = { { 30, 20 }, { 140, 6 }, { 10, 140 } };
    const int64_t kind = build_pick(b, 0, 2);
    return attend_to_tokens(b, most[kind][0], most[kind][1], true);
}

static int32_t make_swiglu(struct build *b)
{
    struct hrf_shape shape = pick_any(b);
    shape.dims[shape.rank - 1] *= 2;
    return build_unary(b, HRF_OP_SWIGLU, build_input(b, shape));
}

/* Scores of a few steps, so that some are equal. */
static int32_t make_select_max(struct build *b)
{
    const int64_t n = build_pick(b, 1, 40), n_columns = build_pick(b, 1, 5);
    struct hrf_attributes a = hrf_attributes_default();
    const int32_t x = build_input(b, SHAPE(n, build_pick(b, 1, 30)));
    /* Behind a product, lower precisions would choose other rows. */
    const int32_t scores = b->between_products ? build_constant(b, SHAPE(n, n_columns), -2, 2)
                                               : build_input(b, SHAPE(n, n_columns));
    const int32_t steps = build_node(b, HRF_OP_ROUND, &scores, 1, &a);
    return build_binary(b, HRF_OP_SELECT_MAX, x, steps);
}

static int32_t make_top_k_mask(struct build *b)
{
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_shape shape = SHAPE(build_pick(b, 1, 5), build_pick(b, 1, 40));
    const int32_t x = b->between_products ? build_constant(b, shape, -2, 2) : build_input(b, shape);
    const int32_t steps = build_node(b, HRF_OP_ROUND, &x, 1, &a);
    a.greatest = build_pick(b, 1, shape.dims[1]);
    return build_node(b, HRF_OP_TOP_K_MASK, &steps, 1, &a);
}

static int32_t make_where(struct build *b)
{
    struct hrf_shape shape = pick_any(b), one = shape, of_condition = shape;
    struct hrf_error err = { .status = HRF_OK };
    one.dims[build_pick(b, 0, shape.rank - 1)] = 1;
    of_condition.dims[build_pick(b, 0, shape.rank - 1)] = 1;
    const int64_t n = hrf_shape_count(&of_condition);
    uint8_t *truth = hrf_alloc((size_t)n);
    int32_t condition;
    for (int64_t i = 0; i < n; i++)
        truth[i] = (uint8_t)build_pick(b, 0, 1);
    if (hrf_graph_add_value(b->graph, "condition", HRF_BOOL, &of_condition, truth, &condition,
                            &err) != HRF_OK)
        condition = HRF_NO_VALUE; /* the next line fails */
    hrf_free(truth);
    const int32_t inputs[] = { condition, build_input(b, one), build_constant(b, shape, -1, 1) };
    return build_node(b, HRF_OP_WHERE, inputs, 3, NULL);
}

/* Groups that divide a register. */
static int32_t make_small_groups(struct build *b)
{
    const int64_t size = (int64_t)2 << build_pick(b, 0, 3), group = build_pick(b, 2, 5);
    struct hrf_attributes a = hrf_attributes_default();
    a.window.kernel[0] = a.window.kernel[1] = 3;
    a.window.stride[0] = a.window.stride[1] = build_pick(b, 1, 2);
    return fused_conv(b, pick_image(b, group * size, 3), group * size, group, a);
}

/* A norm that becomes the prologue of the convolution behind it, of any groups. */
static int32_t make_normed_conv(struct build *b)
{
    const int64_t group = build_pick(b, 1, 4), channels = group * build_pick(b, 1, 20);
    const struct hrf_shape image = pick_image(b, channels, 3);
    const int32_t x = build_unary(b, HRF_OP_RELU,
                                  build_batch_norm(b, build_input(b, image), channels));
    struct hrf_attributes a = hrf_attributes_default();
    a.window.kernel[0] = a.window.kernel[1] = build_pick(b, 1, 3);
    return build_conv(b, x, channels, group * build_pick(b, 1, 20), group, true, &a);
}

/* EXPAND and TILE to random sizes. */
static int32_t make_repeats(struct build *b)
{
    struct hrf_shape shape = pick_any(b);
    int64_t sizes[HRF_MAX_RANK];
    const bool is_tile = build_pick(b, 0, 1);
    for (int32_t i = 0; i < shape.rank; i++) {
        sizes[i] = build_pick(b, 1, 3);
        if (!is_tile && build_pick(b, 0, 1))
            shape.dims[i] = 1;
        else if (!is_tile)
            sizes[i] = build_pick(b, 0, 1) ? 1 : shape.dims[i];
    }
    const int32_t inputs[] = { build_input(b, shape), build_integers(b, shape.rank, sizes) };
    return build_node(b, is_tile ? HRF_OP_TILE : HRF_OP_EXPAND, inputs, 2, NULL);
}

const struct op_case op_cases[] = {
    /* Sums of up to some thousand products in float against double, relative to the largest
     * output. */
    { "conv", HRF_OP_CONV, make_conv, 60, 5e-6, false },
    { "grouped conv", HRF_OP_CONV, make_grouped_conv, 30, 5e-6, false },
    { "depthwise conv", HRF_OP_CONV, make_depthwise_conv, 30, 5e-6, false },
    { "1x1 conv", HRF_OP_CONV, make_pointwise_conv, 40, 5e-6, false },
    { "3x3 conv", HRF_OP_CONV, make_three_by_three, 40, 5e-6, false },
    { "conv transpose", HRF_OP_CONV_TRANSPOSE, make_conv_transpose, 60, 5e-6, false },
    { "gappy conv transpose", HRF_OP_CONV_TRANSPOSE, make_gappy_conv_transpose, 20, 5e-6, false },
    { "gemm", HRF_OP_GEMM, make_gemm, 40, 5e-6, false },
    { "matmul", HRF_OP_MATMUL, make_matmul, 60, 5e-6, false },
    { "performer", HRF_OP_PERFORMER, make_performer, 20, 0, true },
    { "softmax performer", HRF_OP_PERFORMER, make_softmax_performer, 10, 0, true },
    { "batch norm", HRF_OP_BATCH_NORM, make_batch_norm, 20, 1e-6, true },
    { "relu", HRF_OP_RELU, make_relu, 10, 0, true },
    { "leaky relu", HRF_OP_LEAKY_RELU, make_leaky_relu, 10, 0, true },
    { "clip", HRF_OP_CLIP, make_clip, 10, 0, true },
    { "sigmoid", HRF_OP_SIGMOID, make_sigmoid, 10, 1e-6, true },
    { "tanh", HRF_OP_TANH, make_tanh, 10, 1e-6, true },
    { "functions", HRF_OP_EXP, make_functions, 50, 1e-6, true },
    { "functions with steps", HRF_OP_FLOOR, make_steps, 15, 0, true },
    { "positive functions", HRF_OP_LOG, make_positive_functions, 20, 1e-6, true },
    { "bounded functions", HRF_OP_ASIN, make_bounded_functions, 15, 1e-6, true },
    { "softmax", HRF_OP_SOFTMAX, make_softmax, 20, 1e-6, true },
    { "log softmax", HRF_OP_LOG_SOFTMAX, make_log_softmax, 20, 1e-6, true },
    { "add", HRF_OP_ADD, make_add, 30, 0, true },
    { "sub", HRF_OP_SUB, make_sub, 30, 0, true },
    { "mul", HRF_OP_MUL, make_mul, 30, 0, true },
    { "div", HRF_OP_DIV, make_div, 30, 0, true },
    { "max, min, prelu", HRF_OP_MAX, make_two_numbers, 20, 0, true },
    { "pow", HRF_OP_POW, make_pow, 10, 1e-6, true },
    { "max pool", HRF_OP_MAX_POOL, make_max_pool, 40, 0, true },
    { "average pool", HRF_OP_AVERAGE_POOL, make_average_pool, 40, 1e-6, true },
    { "global average pool", HRF_OP_GLOBAL_AVERAGE_POOL, make_global_average, 10, 1e-6, true },
    { "global max pool", HRF_OP_GLOBAL_MAX_POOL, make_global_max, 10, 0, true },
    { "resize", HRF_OP_RESIZE, make_interpolation, 30, 1e-6, true },
    { "lrn", HRF_OP_LRN, make_lrn, 15, 1e-6, true },
    { "reduce mean", HRF_OP_REDUCE_MEAN, make_reduce_mean, 20, 1e-6, true },
    { "reductions", HRF_OP_REDUCE_SUM, make_reduction, 40, 1e-6, true },
    { "log sum", HRF_OP_REDUCE_LOG_SUM, make_log_sum, 10, 1e-6, true },
    { "concat", HRF_OP_CONCAT, make_concat, 20, 0, true },
    { "transpose", HRF_OP_TRANSPOSE, make_transpose, 20, 0, true },
    { "slice", HRF_OP_SLICE, make_slice, 20, 0, true },
    { "gather", HRF_OP_GATHER, make_gather, 20, 0, true },
    { "pad", HRF_OP_PAD, make_pad, 20, 0, true },
    { "depth and space", HRF_OP_DEPTH_TO_SPACE, make_blocks, 20, 0, true },
    { "reshape", HRF_OP_RESHAPE, make_reshape, 20, 0, true },
    { "expand", HRF_OP_EXPAND, make_repeats, 20, 0, true },
    { "tile", HRF_OP_TILE, make_repeats, 10, 0, true },
    { "layer norm", HRF_OP_LAYER_NORM, make_layer_norm, 40, 1e-6, true },
    { "rms norm", HRF_OP_RMS_NORM, make_layer_norm, 10, 1e-6, true },
    { "norm of pixels", HRF_OP_LAYER_NORM, make_pixel_norm, 40, 1e-6, true },
    { "reshape of pixels", HRF_OP_RESHAPE, make_pixel_reshape, 30, 0, true },
    { "group norm", HRF_OP_GROUP_NORM, make_group_norm, 20, 1e-6, true },
    { "attention", HRF_OP_ATTENTION, make_attention, 40, 5e-6, false },
    { "swiglu", HRF_OP_SWIGLU, make_swiglu, 10, 1e-6, true },
    { "where", HRF_OP_WHERE, make_where, 10, 0, true },
    { "select max", HRF_OP_SELECT_MAX, make_select_max, 20, 0, true },
    { "top k mask", HRF_OP_TOP_K_MASK, make_top_k_mask, 20, 0, true },
    { "nearest resize", HRF_OP_RESIZE, make_nearest, 20, 0, true },
    { "function gradient", HRF_OP_FUNCTION_GRADIENT, make_function_gradient, 80, 1e-6, true },
    { "conv weight gradient", HRF_OP_CONV_WEIGHT_GRADIENT, make_conv_weight_gradient, 80, 5e-6,
      true },
    { "max pool gradient", HRF_OP_MAX_POOL_GRADIENT, make_max_pool_gradient, 30, 1e-6, true },
    { "gather gradient", HRF_OP_GATHER_GRADIENT, make_gather_gradient, 30, 1e-6, true },
    { "attention gradient", HRF_OP_ATTENTION_GRADIENT, make_attention_gradient, 40, 5e-6, true },
    { "gemm of rows", HRF_OP_GEMM, make_gemm_of_rows, 30, 5e-6, false },
    { "attention of tokens", HRF_OP_TOKEN_ATTENTION, make_attention_of_tokens, 40, 5e-6, false },
    { "attention, 16 bits", HRF_OP_TOKEN_ATTENTION, make_fixed_attention, 25, 2e-3, false },
    { "normed conv", HRF_OP_CONV, make_normed_conv, 20, 5e-6, false },
    { "small groups", HRF_OP_CONV, make_small_groups, 20, 5e-6, false },
};
const int n_op_cases = (int)(sizeof op_cases / sizeof op_cases[0]);
