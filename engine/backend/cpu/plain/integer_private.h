/* integer_private.h - what the plain 8-bit kernels share. For this folder only. */
#ifndef HRF_ENGINE_BACKEND_CPU_PLAIN_INTEGER_PRIVATE_H
#define HRF_ENGINE_BACKEND_CPU_PLAIN_INTEGER_PRIVATE_H

#include "engine/backend/cpu/plain/plain.h"

#include <math.h>

struct hrf_integer_kernel {
    struct hrf_kernel base;
    struct hrf_spec *spec;
    struct hrf_requantize *requantize; /* CONV, GEMM */
    uint8_t (*tables)[256];            /* one for each input that needs one */
    uint8_t *pairs;                    /* [256][256] results of ADD, SUB, MUL; NULL: computed */
    int64_t slots;                     /* pools: parts of the work, each with scratch */
    float *factors, *shifts;           /* BATCH_NORM, in y's steps */
    void (*function)(const struct hrf_integer_kernel *kernel, const struct hrf_kernel_call *call);
};

static inline int32_t hrf_read8(enum hrf_dtype dtype, const void *x, int64_t i)
{
    return dtype == HRF_S8 ? ((const int8_t *)x)[i] : ((const uint8_t *)x)[i];
}

/* hrf_saturate() in a form that vectorises: values are clipped first, so that adding and
 * subtracting 1.5 * 2^23 rounds half to even. */
struct hrf_target {
    float low, high;
    int32_t zero_point;
};

static inline struct hrf_target hrf_target_of(const struct hrf_operand *y)
{
    const int32_t zero = y->quantization.zero_point, least = y->dtype == HRF_S8 ? -128 : 0;
    return (struct hrf_target){ (float)(least - zero), (float)(least + 255 - zero), zero };
}

static inline uint8_t hrf_narrow(struct hrf_target t, float steps)
{
    const float magic = 12582912.0f;
    steps = steps == steps ? steps : 0.0f;
    steps = steps < t.low ? t.low : steps;
    steps = steps > t.high ? t.high : steps;
    return (uint8_t)(((int32_t)((steps + magic) - magic) + t.zero_point) & 0xff);
}

static inline bool hrf_integer_changes_nothing(const uint8_t table[256])
{
    for (int32_t i = 0; i < 256; i++)
        if (table[i] != i)
            return false;
    return true;
}

enum { HRF_INTEGER_PIECE = 1 << 14 }; /* elements of one piece of work */

/* The activation of a value in y's steps. */
static inline float hrf_integer_activate(enum hrf_activation activation, float low, float high,
                                         float slope, float t)
{
    switch (activation) {
    case HRF_ACT_RELU:
        return t > 0 ? t : 0;
    case HRF_ACT_CLIP:
        return t < low ? low : t > high ? high : t;
    case HRF_ACT_LEAKY_RELU:
        return t >= 0 ? t : t * slope;
    default: /* none; other activations are fused only with float kernels */
        break;
    }
    return t;
}

/* Computes the steps of struct hrf_requantize for a sum. `residual`: with its zero point
 * subtracted; NULL: none. */
static inline float hrf_integer_steps(const struct hrf_requantize *r, float bias, float multiplier,
                                      int32_t sum, const int32_t *residual)
{
    float t = (float)sum + bias;
    t = t * multiplier;
    if (residual != NULL) {
        const float value = (float)*residual;
        t = r->residual_scale == 1.0f ? t + value : fmaf(value, r->residual_scale, t);
    }
    return hrf_integer_activate(r->activation, r->low, r->high, r->slope, t);
}

/* ADD, SUB and MUL; and the table of their results if they are looked up. Filling a table takes as
 * long as computing many thousand results. */
void hrf_integer_binary(const struct hrf_integer_kernel *kernel,
                        const struct hrf_kernel_call *call);
bool hrf_integer_looks_pairs_up(const struct hrf_spec *spec);
void hrf_integer_fill_pairs(const struct hrf_spec *spec, uint8_t *pairs);
/* MAX_POOL, AVERAGE_POOL; the workspace is kernel->slots x channels x 4 bytes. */
void hrf_integer_pool(const struct hrf_integer_kernel *kernel, const struct hrf_kernel_call *call);
/* GLOBAL_AVERAGE_POOL, GLOBAL_MAX_POOL; likewise. */
void hrf_integer_global_pool(const struct hrf_integer_kernel *kernel,
                             const struct hrf_kernel_call *call);

#endif
