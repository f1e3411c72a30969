/* ref_tensor.c - numbers of every type as doubles and back, and logical indices. */
#include "engine/backend/ref/ref_private.h"

#include <math.h>

/* ---- types ---- */

/* A 16-bit float: a sign, exponent bits whose bias is `bias`, n_bits of mantissa. */
struct narrow {
    int n_bits, bias;
};
static const struct narrow half = { 10, 15 }, brain = { 7, 127 };

static double from_narrow(struct narrow type, uint16_t bits)
{
    const int top = 2 * type.bias + 1, one = 1 << type.n_bits;
    const int exponent = bits >> type.n_bits & top, fraction = bits & (one - 1);
    double value = exponent == 0 ? ldexp(fraction, 1 - type.bias - type.n_bits)
                                 : ldexp(fraction + one, exponent - type.bias - type.n_bits);
    if (exponent == top)
        value = fraction != 0 ? NAN : INFINITY;
    return (bits & 0x8000) != 0 ? -value : value;
}

/* Half to even, as rint() does. Above the largest finite number is infinity. */
static uint16_t to_narrow(struct narrow type, double value)
{
    const int sign = signbit(value) ? 0x8000 : 0, infinity = (2 * type.bias + 1) << type.n_bits;
    int exponent;
    if (isnan(value))
        return (uint16_t)(sign | infinity | 1 << (type.n_bits - 1));
    if (isinf(value) || value == 0)
        return (uint16_t)(sign | (value == 0 ? 0 : infinity));
    frexp(value, &exponent); /* |value| is in [0.5, 1) x 2^exponent */
    exponent = exponent - 1 < 1 - type.bias ? 1 - type.bias : exponent - 1;
    if (exponent > type.bias)
        return (uint16_t)(sign | infinity);
    /* In units of the last bit: the leading 1 adds one to the exponent below, a carry another. */
    const int units = (int)rint(ldexp(fabs(value), type.n_bits - exponent));
    return (uint16_t)(sign | (((exponent + type.bias - 1) << type.n_bits) + units));
}

static double number_at(enum hrf_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case HRF_F64:
        return ((const double *)data)[i];
    case HRF_F16:
        return from_narrow(half, ((const uint16_t *)data)[i]);
    case HRF_B16:
        return from_narrow(brain, ((const uint16_t *)data)[i]);
    case HRF_S8:
        return ((const int8_t *)data)[i];
    case HRF_U8:
    case HRF_BOOL:
        return ((const uint8_t *)data)[i];
    case HRF_S32:
        return ((const int32_t *)data)[i];
    case HRF_S64:
        return (double)((const int64_t *)data)[i];
    default:
        return (double)((const float *)data)[i];
    }
}

/* Images lie in memory as N, H, W, C. */
static int64_t place_in_memory(const struct hrf_shape *shape, int64_t i)
{
    if (shape->rank != 4)
        return i;
    const int64_t channels = shape->dims[1], area = shape->dims[2] * shape->dims[3];
    return (i / (channels * area) * area + i % area) * channels + i / area % channels;
}

void hrf_ref_load(const struct hrf_ref_tensor *tensor, const void *data, bool is_constant,
                  double *out)
{
    const int64_t n = hrf_shape_count(&tensor->shape);
    const double zero = hrf_ref_is_8_bit(tensor) ? (double)tensor->quantization.zero_point : 0;
    for (int64_t i = 0; i < n; i++)
        out[i] = number_at(tensor->dtype, data,
                           is_constant ? i : place_in_memory(&tensor->shape, i)) -
                 zero;
}

const double *hrf_ref_numbers(const struct hrf_ref_node *node, int32_t input)
{
    return input < node->n_inputs ? node->inputs[input].numbers : NULL;
}

double hrf_ref_real(const struct hrf_ref_node *node, int32_t input, int64_t i)
{
    const struct hrf_ref_tensor *x = &node->inputs[input];
    return hrf_ref_is_8_bit(x) ? (double)((float)x->numbers[i] * x->quantization.scale)
                               : x->numbers[i];
}

float hrf_ref_output_scale(const struct hrf_ref_node *node)
{
    return hrf_ref_is_8_bit(&node->output) ? node->output.quantization.scale : 1.0f;
}

void hrf_ref_put_steps(const struct hrf_ref_node *node, int64_t i, float steps)
{
    const struct hrf_ref_tensor *y = &node->output;
    const double low = y->dtype == HRF_S8 ? -128 : 0;
    if (!hrf_ref_is_8_bit(y)) {
        hrf_ref_put(node, i, (double)steps);
        return;
    }
    double q = (isnan(steps) ? 0 : rint((double)steps)) + (double)y->quantization.zero_point;
    q = fmin(fmax(q, low), low + 255);
    ((uint8_t *)node->result)[place_in_memory(&y->shape, i)] = (uint8_t)((int)q & 0xff);
}

/* Numbers of 16 bits are rounded from float32, which is what such a node computes in. */
void hrf_ref_put(const struct hrf_ref_node *node, int64_t i, double real)
{
    const struct hrf_ref_tensor *y = &node->output;
    const int64_t at = place_in_memory(&y->shape, i);
    switch (y->dtype) {
    case HRF_F64:
        ((double *)node->result)[at] = real;
        break;
    case HRF_S32:
        ((int32_t *)node->result)[at] = (int32_t)real;
        break;
    case HRF_F16:
        ((uint16_t *)node->result)[at] = to_narrow(half, (double)(float)real);
        break;
    case HRF_B16:
        ((uint16_t *)node->result)[at] = to_narrow(brain, (double)(float)real);
        break;
    case HRF_S8:
    case HRF_U8:
        hrf_ref_put_steps(node, i, (float)real / y->quantization.scale);
        break;
    default:
        ((float *)node->result)[at] = (float)real;
        break;
    }
}

/* ---- the fused activation ---- */

double hrf_ref_activate(const struct hrf_attributes *a, double x)
{
    switch (a->activation) {
    case HRF_ACT_RELU:
        return x <= 0 ? 0 : x; /* a NaN stays */
    case HRF_ACT_CLIP:
        x = x < (double)a->activation_min ? (double)a->activation_min : x;
        return x > (double)a->activation_max ? (double)a->activation_max : x;
    case HRF_ACT_LEAKY_RELU:
        return x >= 0 ? x : (double)a->alpha * x;
    case HRF_ACT_SIGMOID:
        return hrf_ref_value_of(HRF_OP_SIGMOID, a, x);
    case HRF_ACT_HARD_SIGMOID:
        return hrf_ref_value_of(HRF_OP_HARD_SIGMOID, a, x);
    case HRF_ACT_SWISH:
        return x * hrf_ref_value_of(HRF_OP_SIGMOID, a, x);
    case HRF_ACT_HARD_SWISH:
        return hrf_ref_value_of(HRF_OP_HARD_SWISH, a, x);
    case HRF_ACT_GELU:
        return hrf_ref_value_of(HRF_OP_GELU, a, x);
    case HRF_ACT_GELU_TANH:
        return hrf_ref_value_of(HRF_OP_GELU_TANH, a, x);
    case HRF_ACT_NONE:
        break;
    }
    return x;
}

float hrf_ref_activate_steps(const struct hrf_ref_node *node, float steps)
{
    const float unit = hrf_ref_output_scale(node);
    struct hrf_attributes a = node->attributes;
    a.activation_min /= unit;
    a.activation_max /= unit;
    return (float)hrf_ref_activate(&a, (double)steps);
}

/* ---- indices ---- */

void hrf_ref_position(const struct hrf_shape *shape, int64_t i, int64_t position[HRF_MAX_RANK])
{
    for (int32_t axis = shape->rank - 1; axis >= 0; axis--) {
        position[axis] = i % shape->dims[axis];
        i /= shape->dims[axis];
    }
}

int64_t hrf_ref_index(const struct hrf_shape *shape, const int64_t *position)
{
    int64_t i = 0;
    for (int32_t axis = 0; axis < shape->rank; axis++)
        i = i * shape->dims[axis] + position[axis];
    return i;
}

int64_t hrf_ref_broadcast(const struct hrf_shape *shape, const struct hrf_shape *to,
                          const int64_t *position)
{
    int64_t i = 0;
    for (int32_t axis = 0; axis < shape->rank; axis++) {
        const int64_t at = position[to->rank - shape->rank + axis];
        i = i * shape->dims[axis] + (shape->dims[axis] == 1 ? 0 : at);
    }
    return i;
}
