#include "engine/backend/cuda/cudnn_arithmetic.h"

#include "engine/ir/number.h"

#include <math.h>

const char *hrf_arithmetic_text(enum hrf_arithmetic arithmetic)
{
    static const char *const words[HRF_N_ARITHMETICS] = {
        [HRF_AS_WRITTEN] = "each step rounded",
        [HRF_JOINS_SCALE] = "scale and bias rounded once",
        [HRF_ARITHMETIC_OTHER] = "rounded in another way",
    };
    return words[arithmetic];
}

/* a * b + c, rounded twice or once. */
static float multiply_add(float a, float b, float c, bool is_joined)
{
    if (is_joined)
        return fmaf(a, b, c);
    volatile float product = a * b; /* not joined by the host's compiler either */
    return product + c;
}

float hrf_arithmetic_short_factor(float factor)
{
    int exponent;
    const float fraction = frexpf(factor, &exponent);
    return ldexpf(rintf(fraction * 0x1p16f), exponent - 16);
}

static float cudnn_arithmetic_activate(const struct hrf_cudnn_activation *a, float x)
{
    switch (a->kind) {
    case HRF_ACT_RELU:
        return x < 0 ? 0 : x;
    case HRF_ACT_CLIP:
        return fminf(fmaxf(x, (float)a->low), (float)a->high);
    case HRF_ACT_LEAKY_RELU:
        return x < 0 ? x * (float)a->slope : x;
    case HRF_ACT_GELU:
        return 0.5f * x * (1 + erff(x * 0.70710678f));
    case HRF_ACT_GELU_TANH:
        return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    case HRF_ACT_SWISH:
        return x / (1 + expf(-x));
    default:
        return x;
    }
}

/* From here on the activation gives its argument, whatever formula computes it: 1 + erf(x) and
 * 1 + tanh(x) are 2, and 1 + exp(-x) is 1. 0: everywhere, or nowhere else than below 0. */
static double is_itself_from(enum hrf_activation kind)
{
    return kind == HRF_ACT_GELU || kind == HRF_ACT_GELU_TANH || kind == HRF_ACT_SWISH ? 18 : 0;
}

/* The sum before its last factor, and that. */
static float scaled_sum(const struct hrf_int8_terms *t)
{
    return t->row_scale != 0 ? (float)t->sum * t->scale : (float)t->sum;
}

static float last_scale(const struct hrf_int8_terms *t)
{
    return t->row_scale != 0 ? t->row_scale : t->scale;
}

float hrf_arithmetic_result(const struct hrf_cudnn_conv *conv, const struct hrf_int8_terms *t,
                            enum hrf_arithmetic arithmetic)
{
    const bool joins_scale = arithmetic == HRF_JOINS_SCALE;
    volatile float residual = t->residual * t->residual_scale; /* exact */
    const bool has_two = conv->has_bias && t->residual_scale != 0;
    float y = multiply_add(scaled_sum(t), last_scale(t), conv->has_bias ? t->bias : residual,
                           joins_scale);
    if (has_two)
        y += residual;
    y = cudnn_arithmetic_activate(&conv->activation, y);
    return conv->out_type == HRF_S8 ? fminf(fmaxf(nearbyintf(y), -128), 127)
                                    : hrf_round_to(conv->out_type, y);
}

/* Number i of those that lie half-way between two of the output's type, from `base` on: steps, or
 * floats of so many bits. Small ones if they can be: a joined product is seen best there. */
static double half_way(const struct hrf_cudnn_conv *conv, int i)
{
    const double base = is_itself_from(conv->activation.kind);
    const double first = base > 0 ? base : 0.5;
    int exponent;
    if (conv->out_type == HRF_S8 || conv->out_type == HRF_F32)
        return base + 0.5 + i;
    (void)frexp(first, &exponent);
    return first + ldexp(2 * i + 1, exponent - 1 - (conv->out_type == HRF_B16 ? 8 : 11));
}

float hrf_arithmetic_telling_bias(const struct hrf_cudnn_conv *conv, const struct hrf_int8_terms *t,
                                  int i)
{
    enum { TRIED = 8 };
    struct hrf_int8_terms tried = *t;
    const double product = (double)(scaled_sum(t) * last_scale(t));
    const double residual = (double)(t->residual * t->residual_scale);
    for (int k = 0; k < TRIED; k++) {
        tried.bias = (float)(half_way(conv, 2 * k + i % 2) - residual - product);
        if (hrf_arithmetic_result(conv, &tried, HRF_AS_WRITTEN) !=
            hrf_arithmetic_result(conv, &tried, HRF_JOINS_SCALE))
            return tried.bias;
    }
    return (float)(half_way(conv, i % 2) - residual - product);
}
