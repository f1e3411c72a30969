#include "engine/backend/cuda/cudnn_arithmetic.h"

#include "engine/ir/number.h"

#include <math.h>

const char *hrf_arithmetic_text(enum hrf_arithmetic arithmetic)
{
    static const char *const words[HRF_N_ARITHMETICS] = {
        [HRF_AS_WRITTEN] = "each step rounded",
        [HRF_JOINS_SCALE] = "scale and bias rounded once",
        [HRF_JOINS_RESIDUAL] = "the residual's scale and sum rounded once",
        [HRF_JOINS_BOTH] = "each product and sum rounded once",
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
    default:
        return x;
    }
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
    const bool joins_scale = (arithmetic & HRF_JOINS_SCALE) != 0;
    const bool joins_residual = (arithmetic & HRF_JOINS_RESIDUAL) != 0;
    float y = multiply_add(scaled_sum(t), last_scale(t), t->bias, joins_scale);
    if (t->residual_scale != 0)
        y = multiply_add(t->residual, t->residual_scale, y, joins_residual);
    y = cudnn_arithmetic_activate(&conv->activation, y);
    return conv->out_type == HRF_S8 ? fminf(fmaxf(nearbyintf(y), -128), 127)
                                    : hrf_round_to(conv->out_type, y);
}

/* How many of the other arithmetics give another result. */
static int n_told(const struct hrf_cudnn_conv *conv, const struct hrf_int8_terms *t)
{
    const float written = hrf_arithmetic_result(conv, t, HRF_AS_WRITTEN);
    int n = 0;
    for (int a = HRF_JOINS_SCALE; a <= HRF_JOINS_BOTH; a++)
        n += hrf_arithmetic_result(conv, t, (enum hrf_arithmetic)a) != written;
    return n;
}

float hrf_arithmetic_telling_bias(const struct hrf_cudnn_conv *conv, const struct hrf_int8_terms *t)
{
    static const double halves[] = { 0.5, 1.5, 2.5, 3.5 }; /* small: a joined product is seen */
    struct hrf_int8_terms tried = *t;
    float best = t->bias;
    int most = n_told(conv, t);
    const double product = (double)(scaled_sum(t) * last_scale(t));
    const double residual = (double)(t->residual * t->residual_scale);
    for (int i = 0; i < 4; i++) {
        tried.bias = (float)(halves[i] - residual - product);
        const int n = n_told(conv, &tried);
        if (n > most) {
            most = n;
            best = tried.bias;
        }
    }
    return best;
}
