/* ref_pointwise.c - functions of single numbers, and of numbers of one pixel. Source: ONNX. */
#include "engine/backend/ref/ref_private.h"

#include <math.h>

static double clip(double x, double low, double high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

double hrf_ref_value_of(enum hrf_op op, const struct hrf_attributes *a, double x)
{
    const double alpha = (double)a->alpha, beta = (double)a->beta;
    switch (op) {
    case HRF_OP_RELU: /* a NaN stays */
        return x <= 0 ? 0 : x;
    case HRF_OP_LEAKY_RELU:
        return x >= 0 ? x : alpha * x;
    case HRF_OP_CLIP:
        return clip(x, (double)a->activation_min, (double)a->activation_max);
    case HRF_OP_SIGMOID:
        return 1 / (1 + exp(-x));
    case HRF_OP_TANH:
        return tanh(x);
    case HRF_OP_EXP:
        return exp(x);
    case HRF_OP_LOG:
        return log(x);
    case HRF_OP_SQRT:
        return sqrt(x);
    case HRF_OP_NEG:
        return -x;
    case HRF_OP_ABS:
        return fabs(x);
    case HRF_OP_RECIPROCAL:
        return 1 / x;
    case HRF_OP_FLOOR:
        return floor(x);
    case HRF_OP_CEIL:
        return ceil(x);
    case HRF_OP_ERF:
        return erf(x);
    case HRF_OP_ELU:
        return x < 0 ? alpha * (exp(x) - 1) : x;
    case HRF_OP_SELU:
        return x > 0 ? beta * x : beta * (alpha * exp(x) - alpha);
    case HRF_OP_HARD_SIGMOID:
        return clip(alpha * x + beta, 0, 1);
    case HRF_OP_HARD_SWISH:
        return x * clip(x / 6 + 0.5, 0, 1);
    case HRF_OP_SOFTPLUS: /* log(1 + exp(x)), without overflow for large x */
        return fmax(x, 0) + log1p(exp(-fabs(x)));
    case HRF_OP_SOFTSIGN:
        return x / (1 + fabs(x));
    case HRF_OP_CELU:
        return fmax(0, x) + fmin(0, alpha * (exp(x / alpha) - 1));
    case HRF_OP_THRESHOLDED_RELU:
        return x > alpha ? x : 0;
    case HRF_OP_SIN:
        return sin(x);
    case HRF_OP_COS:
        return cos(x);
    case HRF_OP_ATAN:
        return atan(x);
    case HRF_OP_GELU:
        return x * (1 + erf(x / sqrt(2))) / 2;
    case HRF_OP_GELU_TANH:
        return x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3)))) / 2;
    case HRF_OP_SWISH:
        return x / (1 + exp(-alpha * x));
    case HRF_OP_MISH:
        return x * tanh(fmax(x, 0) + log1p(exp(-fabs(x))));
    case HRF_OP_ROUND:
        return rint(x);
    case HRF_OP_SIGN:
        return (double)(x > 0) - (double)(x < 0);
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
    case HRF_OP_ADD:
        return a + b;
    case HRF_OP_SUB:
        return a - b;
    case HRF_OP_MUL:
        return a * b;
    case HRF_OP_DIV:
        return a / b;
    case HRF_OP_POW:
        return pow(a, b);
    case HRF_OP_MAX:
        return isnan(a) || a > b ? a : b;
    case HRF_OP_MIN:
        return isnan(a) || a < b ? a : b;
    case HRF_OP_PRELU:
        return a < 0 ? a * b : a;
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
