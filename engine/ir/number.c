#include "engine/ir/number.h"

#include "base/float16.h"

#include <math.h>
#include <string.h>

static inline uint16_t b16_from(float value)
{
    const uint32_t bits = hrf_float_bits(value);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const uint32_t quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

static inline float b16_to(uint16_t bits)
{
    return hrf_float_of_bits((uint32_t)bits << 16);
}

uint16_t hrf_f16_from_float(float value)
{
    return hrf_half_from_float(value);
}

float hrf_f16_to_float(uint16_t bits)
{
    return hrf_half_to_float(bits);
}

uint16_t hrf_b16_from_float(float value)
{
    return b16_from(value);
}

float hrf_b16_to_float(uint16_t bits)
{
    return b16_to(bits);
}

void hrf_floats_from(enum hrf_dtype dtype, const void *from, float *to, int64_t n)
{
    const uint16_t *narrow = from;
    if (dtype == HRF_F16) {
        for (int64_t i = 0; i < n; i++)
            to[i] = hrf_half_to_float(narrow[i]);
    } else if (dtype == HRF_B16) {
        for (int64_t i = 0; i < n; i++)
            to[i] = b16_to(narrow[i]);
    } else {
        memcpy(to, from, (size_t)n * sizeof *to);
    }
}

void hrf_floats_to(enum hrf_dtype dtype, const float *from, void *to, int64_t n)
{
    uint16_t *narrow = to;
    if (dtype == HRF_F16) {
        for (int64_t i = 0; i < n; i++)
            narrow[i] = hrf_half_from_float(from[i]);
    } else if (dtype == HRF_B16) {
        for (int64_t i = 0; i < n; i++)
            narrow[i] = b16_from(from[i]);
    } else {
        memcpy(to, from, (size_t)n * sizeof *from);
    }
}

float hrf_round_to(enum hrf_dtype dtype, float value)
{
    if (dtype == HRF_F16)
        return hrf_half_to_float(hrf_half_from_float(value));
    return dtype == HRF_B16 ? b16_to(b16_from(value)) : value;
}

void hrf_round_floats(enum hrf_dtype dtype, const float *from, float *to, int64_t n)
{
    for (int64_t i = 0; i < n && dtype == HRF_B16; i++)
        to[i] = b16_to(b16_from(from[i]));
    for (int64_t i = 0; i < n && dtype != HRF_B16; i++)
        to[i] = hrf_round_to(dtype, from[i]);
}

float hrf_dtype_most(enum hrf_dtype dtype)
{
    return dtype == HRF_F16 ? 65504.0f : 0x1.fep127f;
}

float hrf_dtype_least(enum hrf_dtype dtype)
{
    return dtype == HRF_F16 ? 0x1p-14f : 0x1p-126f;
}

int32_t hrf_saturate(float steps, enum hrf_dtype dtype, int32_t zero_point)
{
    const float low = dtype == HRF_S8 ? -128.0f : 0.0f, high = dtype == HRF_S8 ? 127.0f : 255.0f;
    const float at = rintf(steps) + (float)zero_point;
    if (isnan(at))
        return zero_point;
    return (int32_t)(at < low ? low : at > high ? high : at);
}

int32_t hrf_quantize(float value, enum hrf_dtype dtype, const struct hrf_quantization *q)
{
    return hrf_saturate(value / q->scale, dtype, q->zero_point);
}
