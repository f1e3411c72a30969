/* vector_1.h - a register of one float in the words of elementary.h, and from memory and back.
 * Compilers turn loops over it into vectors of any width: nothing branches or calls, and
 * comparisons are choices.
 *
 * Where a number is a NaN, bounds keep it, and the comparisons say in their names what they give.
 */
#ifndef HRF_BASE_VECTOR_1_H
#define HRF_BASE_VECTOR_1_H

#include "base/inline.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define HRF_VECTOR_LANES 1

typedef float hrf_vector;
typedef bool hrf_vector_mask;

HRF_ALWAYS_INLINE float hrf_v_all(float x)
{
    return x;
}

HRF_ALWAYS_INLINE float hrf_v_load(const float *from)
{
    return *from;
}

HRF_ALWAYS_INLINE void hrf_v_store(float *to, float x)
{
    *to = x;
}

HRF_ALWAYS_INLINE float hrf_v_fma(float a, float b, float c) /* a b + c */
{
    return __builtin_fmaf(a, b, c);
}

HRF_ALWAYS_INLINE float hrf_v_fms(float a, float b, float c) /* a b - c */
{
    return __builtin_fmaf(a, b, -c);
}

HRF_ALWAYS_INLINE float hrf_v_fnma(float a, float b, float c) /* c - a b */
{
    return __builtin_fmaf(-a, b, c);
}

HRF_ALWAYS_INLINE float hrf_v_max(float x, float low)
{
    return x < low ? low : x;
}

HRF_ALWAYS_INLINE float hrf_v_min(float x, float high)
{
    return x > high ? high : x;
}

HRF_ALWAYS_INLINE float hrf_v_abs(float x)
{
    return fabsf(x);
}

/* To a whole number, half to even, for |x| < 2^22. */
HRF_ALWAYS_INLINE float hrf_v_round(float x)
{
    const float magic = 0x1.8p23f;
    return (x + magic) - magic;
}

HRF_ALWAYS_INLINE bool hrf_v_above(float x, float y) /* false of a NaN */
{
    return x > y;
}

HRF_ALWAYS_INLINE bool hrf_v_below_or_nan(float x, float y)
{
    return !(x >= y);
}

HRF_ALWAYS_INLINE bool hrf_v_from_or_nan(float x, float y) /* x >= y */
{
    return !(x < y);
}

/* x where the mask is set, elsewhere 0. */
HRF_ALWAYS_INLINE float hrf_v_keep(bool mask, float x)
{
    return mask ? x : 0.0f;
}

/* c - a b where the mask is set, elsewhere c. */
HRF_ALWAYS_INLINE float hrf_v_fnma_where(bool mask, float a, float b, float c)
{
    return mask ? __builtin_fmaf(-a, b, c) : c;
}

/* `large` with the sign of x where the mask is set, elsewhere `small`. */
HRF_ALWAYS_INLINE float hrf_v_signed_where(bool mask, float large, float x, float small)
{
    return mask ? copysignf(large, x) : small;
}

/* p 2^n, where p 2^n is a normal number and n stands in the last bits of `place`. */
HRF_ALWAYS_INLINE float hrf_v_raise(float p, float place)
{
    uint32_t bits, power;
    memcpy(&bits, &p, sizeof bits);
    memcpy(&power, &place, sizeof power);
    bits += power << 23;
    memcpy(&p, &bits, sizeof p);
    return p;
}

HRF_ALWAYS_INLINE float hrf_v_power_of_two(int32_t n) /* -126 <= n <= 127 */
{
    const int32_t bits = (n + 127) * (1 << 23);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* p 2^n for whole n from -250 to 250, in two steps: the result may be subnormal or infinite. */
HRF_ALWAYS_INLINE float hrf_v_scale(float p, float n)
{
    const int32_t all = (int32_t)(n == n ? n : 0.0f), half = all / 2;
    return p * hrf_v_power_of_two(half) * hrf_v_power_of_two(all - half);
}

HRF_ALWAYS_INLINE float hrf_v_reciprocal(float d)
{
    return 1.0f / d;
}

#endif
