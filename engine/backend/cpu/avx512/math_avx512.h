/* math_avx512.h - elementary.h for registers of 16 floats, with additional functions for this
 * width: less exact ones for results that are rounded to 16 bits, and the tail of GELU by a table.
 * Only for files that are compiled with -mavx512f -mavx512dq. */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_MATH_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_MATH_AVX512_H

#include "engine/backend/cpu/avx512/vector_avx512.h"

#ifdef __AVX512F__

/* erfc(a / sqrt(2)) / 2 by 32 polynomials of t in [-1/2, 1/2], a = (k + t) / 4.9: faster than
 * hrf_v_normal_tail(), and as exact as gelu() needs, which is within 7 u of it, or 1.3e-9 / a. Zero
 * from 30.5 / 4.9 on. */
enum { HRF_GELU_TERMS = 5 };
extern const float hrf_gelu_tails[HRF_GELU_TERMS][32]; /* by power of t and k */

HRF_ALWAYS_INLINE __m512 hrf_v_gelu_tail(__m512 a)
{
    /* Adding 2^23 leaves k in the last bits, because a float of that size has no bits for a
     * fraction. A NaN passes through as the second operand, and into t. */
    const __m512 whole = hrf_v_all(0x1p23f), steps = hrf_v_all(4.9f);
    const __m512 bounded = hrf_v_min(a, hrf_v_all(6.3f));
    const __m512 place = hrf_v_fma(bounded, steps, whole);
    const __m512i k = _mm512_castps_si512(place);
    const __m512 t = hrf_v_fms(bounded, steps, place - whole);
    __m512 p = _mm512_permutex2var_ps(_mm512_load_ps(hrf_gelu_tails[HRF_GELU_TERMS - 1]), k,
                                      _mm512_load_ps(hrf_gelu_tails[HRF_GELU_TERMS - 1] + 16));
    for (int i = HRF_GELU_TERMS - 2; i >= 0; i--)
        p = hrf_v_fma(p, t,
                      _mm512_permutex2var_ps(_mm512_load_ps(hrf_gelu_tails[i]), k,
                                             _mm512_load_ps(hrf_gelu_tails[i] + 16)));
    return p;
}

#include "base/elementary.h"

/* 2^x for -126 <= x <= 126 by a polynomial of 2^f, f in [-1/2, 1/2]; takes half of the time of
 * hrf_v_exp(). A NaN is kept only if its last bits are zeros. */
HRF_ALWAYS_INLINE __m512 hrf_v_exp2_by(__m512 x, const float *coefficients, int n)
{
    const __m512 whole = hrf_v_all(HRF_WHOLE), place = x + whole;
    return hrf_v_raise(hrf_v_polynomial(x - (place - whole), coefficients, n), place);
}

/* 2^x for results that are rounded to bfloat16: relative error 2^-18. */
HRF_ALWAYS_INLINE __m512 hrf_v_exp2_b16(__m512 x)
{
    const float terms[] = { 0x1.3a02ccp-7f, 0x1.c9fc46p-5f, 0x1.ec0378p-3f, 0x1.62e12cp-1f, 1.0f };
    return hrf_v_exp2_by(x, terms, 5);
}

/* 2^x for x <= 0 (or slightly above), for results that are rounded to 16-bit integers: relative
 * error 3e-6. Smaller results are 2^-100, which rounds to 0 and, unlike subnormal numbers, takes no
 * extra cycles. A NaN stays a NaN: its last bits, which are added to the exponent, are zeros. */
HRF_ALWAYS_INLINE __m512 hrf_v_exp2_i16(__m512 x)
{
    const float terms[] = { 0x1.3997d2p-7f, 0x1.ca1440p-5f, 0x1.ec06dap-3f, 0x1.62e0dcp-1f,
                            0x1.ffffe8p-1f };
    return hrf_v_exp2_by(hrf_v_max(x, hrf_v_all(-100.0f)), terms, 5);
}

/* 1 / (1 + exp(-x)) for results that are rounded to bfloat16: relative error 2^-13; 0 below -87. */
HRF_ALWAYS_INLINE __m512 hrf_v_sigmoid_b16(__m512 x)
{
    const __m512 bounded = hrf_v_min(hrf_v_max(x, hrf_v_all(-87.0f)), hrf_v_all(87.0f));
    const __m512 e = hrf_v_exp2_b16(bounded * hrf_v_all(-HRF_LOG2_E));
    /* Adding x - x keeps a NaN. */
    const __m512 d = (hrf_v_all(1.0f) + e) + (bounded - bounded);
    return _mm512_maskz_rcp14_ps(hrf_v_from_or_nan(x, hrf_v_all(-87.0f)), d);
}
#endif

#endif
