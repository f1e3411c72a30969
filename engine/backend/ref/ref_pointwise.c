/* ref_pointwise.c - functions of single numbers, and of numbers of one pixel. Source: ONNX. */
#include "engine/backend/ref/ref_private.h"

#include <math.h>

static double clip(double x, double low, double high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* clang-format off */
/* Of x. */
#define FUNCTIONS(F)                                                                               \
    F(RELU, x <= 0 ? 0 : x) /* a NaN stays */                                                      \
    F(LEAKY_RELU, x >= 0 ? x : alpha * x)                                                          \
    F(CLIP, clip(x, (double)a->activation_min, (double)a->activation_max))                         \
    F(SIGMOID, 1 / (1 + exp(-x)))                                                                  \
    F(TANH, tanh(x))                                                                               \
    F(EXP, exp(x))                                                                                 \
    F(LOG, log(x))                                                                                 \
    F(SQRT, sqrt(x))                                                                               \
    F(NEG, -x)                                                                                     \
    F(ABS, fabs(x))                                                                                \
    F(RECIPROCAL, 1 / x)                                                                           \
    F(FLOOR, floor(x))                                                                             \
    F(CEIL, ceil(x))                                                                               \
    F(ERF, erf(x))                                                                                 \
    F(ELU, x < 0 ? alpha * (exp(x) - 1) : x)                                                       \
    F(SELU, x > 0 ? beta * x : beta * (alpha * exp(x) - alpha))                                    \
    F(HARD_SIGMOID, clip(alpha * x + beta, 0, 1))                                                  \
    F(HARD_SWISH, x * clip(x / 6 + 0.5, 0, 1))                                                     \
    F(SOFTPLUS, fmax(x, 0) + log1p(exp(-fabs(x)))) /* log(1 + exp(x)), without overflow */         \
    F(SOFTSIGN, x / (1 + fabs(x)))                                                                 \
    F(CELU, fmax(0, x) + fmin(0, alpha * (exp(x / alpha) - 1)))                                    \
    F(THRESHOLDED_RELU, x > alpha ? x : 0)                                                         \
    F(SIN, sin(x))                                                                                 \
    F(COS, cos(x))                                                                                 \
    F(ATAN, atan(x))                                                                               \
    F(TAN, tan(x))                                                                                 \
    F(SINH, sinh(x))                                                                               \
    F(COSH, cosh(x))                                                                               \
    F(ASIN, asin(x))                                                                               \
    F(ACOS, acos(x))                                                                               \
    F(ASINH, asinh(x))                                                                             \
    F(ACOSH, acosh(x))                                                                             \
    F(ATANH, atanh(x))                                                                             \
    F(SHRINK, x < -alpha ? x + beta : x > alpha ? x - beta : 0)                                    \
    F(GELU, x * (1 + erf(x / sqrt(2))) / 2)                                                        \
    F(GELU_TANH, x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3)))) / 2)              \
    F(SWISH, x / (1 + exp(-alpha * x)))                                                            \
    F(MISH, x * tanh(fmax(x, 0) + log1p(exp(-fabs(x)))))                                           \
    F(ROUND, rint(x))                                                                              \
    F(SIGN, (double)(x > 0) - (double)(x < 0))
/* Of a and b. */
#define FUNCTIONS_OF_TWO(F)                                                                        \
    F(ADD, a + b)                                                                                  \
    F(SUB, a - b)                                                                                  \
    F(MUL, a * b)                                                                                  \
    F(DIV, a / b)                                                                                  \
    F(POW, pow(a, b))                                                                              \
    F(MAX, isnan(a) || a > b ? a : b)                                                              \
    F(MIN, isnan(a) || a < b ? a : b)                                                              \
    F(PRELU, a < 0 ? a * b : a)
/* clang-format on */
#define COUNT(OP, FORMULA) +1
_Static_assert(FUNCTIONS(COUNT) == HRF_OP_CLIP + 1 - HRF_OP_RELU &&
                   FUNCTIONS_OF_TWO(COUNT) == HRF_OP_PRELU + 1 - HRF_OP_ADD,
               "every function of one number and of two");
#undef COUNT
#define CASE(OP, FORMULA)                                                                          \
    case HRF_OP_##OP:                                                                              \
        return FORMULA;

double hrf_ref_value_of(enum hrf_op op, const struct hrf_attributes *a, double x)
{
    const double alpha = (double)a->alpha, beta = (double)a->beta;
    switch (op) {
        FUNCTIONS(CASE)
    default:
        return NAN;
    }
}

void hrf_ref_unary(const struct hrf_ref_node *node)
{
    const int64_t n = hrf_shape_count(&node->output.shape);
    for (int64_t i = 0; i < n; i++)
        hrf_ref_put(node, i,
                    hrf_ref_value_of(node->op, &node->attributes, hrf_ref_real(node, 0, i)));
}

static double binary(enum hrf_op op, double a, double b)
{
    switch (op) {
        FUNCTIONS_OF_TWO(CASE)
    default:
        return NAN;
    }
}

/* In 8 bits the float steps are part of what is agreed (backend.h): their results are exact. */
static float binary_steps(const struct hrf_ref_node *node, float a, float b)
{
    const float sa = node->inputs[0].quantization.scale, sb = node->inputs[1].quantization.scale;
    const float sy = node->output.quantization.scale;
    if (node->op == HRF_OP_MUL)
        return a * b * (sa * sb / sy);
    return fmaf(a, sa / sy, (node->op == HRF_OP_SUB ? -b : b) * (sb / sy));
}

void hrf_ref_binary(const struct hrf_ref_node *node)
{
    const struct hrf_shape *shape = &node->output.shape;
    const double *a = node->inputs[0].numbers, *b = node->inputs[1].numbers;
    for (int64_t i = 0; i < hrf_shape_count(shape); i++) {
        int64_t at[HRF_MAX_RANK];
        hrf_ref_position(shape, i, at);
        const double left = a[hrf_ref_broadcast(&node->inputs[0].shape, shape, at)];
        const double right = b[hrf_ref_broadcast(&node->inputs[1].shape, shape, at)];
        if (hrf_ref_is_8_bit(&node->output))
            hrf_ref_put_steps(
                node, i,
                hrf_ref_activate_steps(node, binary_steps(node, (float)left, (float)right)));
        else
            hrf_ref_put(node, i,
                        hrf_ref_activate(&node->attributes, binary(node->op, left, right)));
    }
}

/* The same number in another type. */
void hrf_ref_copy(const struct hrf_ref_node *node)
{
    for (int64_t i = 0; i < hrf_shape_count(&node->output.shape); i++)
        hrf_ref_put(node, i, hrf_ref_real(node, 0, i));
}

/* With scales and zero points along an axis the output has no quantisation of its own. */
void hrf_ref_quantize(const struct hrf_ref_node *node)
{
    const struct hrf_ref_tensor *y = &node->output;
    const double *scales = hrf_ref_numbers(node, HRF_QUANTIZE_SCALE);
    const double *zeros = hrf_ref_numbers(node, HRF_QUANTIZE_ZERO_POINT);
    for (int64_t i = 0; i < hrf_shape_count(&y->shape); i++) {
        int64_t at[HRF_MAX_RANK];
        const float x = (float)node->inputs[0].numbers[i];
        if (y->quantization.scale > 0) {
            hrf_ref_put(node, i, (double)x);
            continue;
        }
        hrf_ref_position(&y->shape, i, at);
        const int64_t k = at[node->attributes.axis];
        hrf_ref_put_steps(node, i,
                          rintf(x / (float)scales[k]) + (zeros != NULL ? (float)zeros[k] : 0));
    }
}

void hrf_ref_batch_norm(const struct hrf_ref_node *node)
{
    const struct hrf_shape *shape = &node->output.shape;
    const double *p[5]; /* x, scale, bias, mean, variance */
    for (int32_t k = 0; k < 5; k++)
        p[k] = node->inputs[k].numbers;
    const double in = (double)node->inputs[0].quantization.scale;
    const double out = (double)node->output.quantization.scale;
    for (int64_t i = 0; i < hrf_shape_count(shape); i++) {
        int64_t at[HRF_MAX_RANK];
        hrf_ref_position(shape, i, at);
        const int64_t c = at[1];
        const double factor = p[1][c] / sqrt(p[4][c] + (double)node->attributes.epsilon);
        if (hrf_ref_is_8_bit(&node->output)) { /* factor and shift are floats, in steps */
            const float scaled = (float)p[0][i] * (float)(factor * in / out);
            const float shift = (float)((p[2][c] - p[3][c] * factor) / out);
            hrf_ref_put_steps(node, i, hrf_ref_activate_steps(node, scaled + shift));
        } else {
            const double y = (p[0][i] - p[3][c]) * factor + p[2][c];
            hrf_ref_put(node, i, hrf_ref_activate(&node->attributes, y));
        }
    }
}

/* y = x / (k + alpha / size * sum of squares over `size` channels around)^beta. */
void hrf_ref_lrn(const struct hrf_ref_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_shape *shape = &node->output.shape;
    const double *x = node->inputs[0].numbers;
    const int64_t channels = shape->dims[1], area = shape->dims[2] * shape->dims[3];
    for (int64_t i = 0; i < hrf_shape_count(shape); i++) {
        const int64_t c = i / area % channels;
        double sum = 0;
        for (int64_t k = c - (a->lrn.size - 1) / 2; k <= c + a->lrn.size / 2; k++)
            if (k >= 0 && k < channels)
                sum += x[i + (k - c) * area] * x[i + (k - c) * area];
        hrf_ref_put(node, i,
                    x[i] /
                        pow((double)a->lrn.bias + (double)a->lrn.alpha / (double)a->lrn.size * sum,
                            (double)a->lrn.beta));
    }
}
