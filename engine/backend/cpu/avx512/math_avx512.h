/* math_avx512.h - exp and what is made of it, on 16 floats in a register. For files that are
 * compiled with -mavx512f -mavx512dq only.
 *
 * The polynomials are minimax fits of this project, made by iterated weighted least squares on
 * Chebyshev nodes. Errors below are against the exact value over all floats, as
 * tests/unit/engine/backend/cpu/test_functions.c checks them; u = 2^-24. A NaN stays one, and an
 * infinity gives what the formula in double gives (engine/backend/formulas.h).
 */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_MATH_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_MATH_AVX512_H

#include <stdint.h>

#ifdef __AVX512F__
#include <immintrin.h>

#define HRF_ALL(number) _mm512_set1_ps(number)
/* p * x + c */
#define HRF_STEP(p, x, c) _mm512_fmadd_ps(p, x, HRF_ALL(c))

/* 2^f for f in [-1/2, 1/2]: within 2e-9 before rounding. */
static inline __m512 hrf_exp2_part_avx512(__m512 f)
{
    __m512 p = HRF_STEP(HRF_ALL(0x1.41d32cp-13f), f, 0x1.5f456ap-10f);
    p = HRF_STEP(p, f, 0x1.3b2dbcp-7f);
    p = HRF_STEP(p, f, 0x1.c6aed4p-5f);
    p = HRF_STEP(p, f, 0x1.ebfbdap-3f);
    p = HRF_STEP(p, f, 0x1.62e430p-1f);
    return HRF_STEP(p, f, 1.0f);
}

static inline __m512 hrf_round_avx512(__m512 x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* exp(x): relative error 3 u; 0 below the smallest float, infinity above the largest. */
static inline __m512 hrf_exp_avx512(__m512 x)
{
    /* Second operands are taken where one is a NaN. Beyond these bounds the result is 0 or
     * infinity. */
    x = _mm512_max_ps(HRF_ALL(-110.0f), _mm512_min_ps(HRF_ALL(110.0f), x));
    /* log2(e) in two parts, so that f has all its bits. */
    const __m512 n = hrf_round_avx512(_mm512_mul_ps(x, HRF_ALL(0x1.715476p+0f)));
    __m512 f = _mm512_fmsub_ps(x, HRF_ALL(0x1.715476p+0f), n);
    f = _mm512_fmadd_ps(x, HRF_ALL(0x1.4ae0bep-26f), f);
    return _mm512_scalef_ps(hrf_exp2_part_avx512(f), n);
}

/* 1 / d for a finite d >= 1 whose reciprocal is no subnormal: relative error 3 u. */
static inline __m512 hrf_reciprocal_avx512(__m512 d)
{
    const __m512 r = _mm512_rcp14_ps(d);
    return _mm512_fmadd_ps(r, _mm512_fnmadd_ps(d, r, HRF_ALL(1.0f)), r);
}

/* 1 / (1 + exp(-x)): relative error 8 u; 0 below -87. The power of two is in the last bits of a
 * sum, from where it is added to the exponent: with bounds of 87 it is in [-126, 126]. */
static inline __m512 hrf_sigmoid_avx512(__m512 x)
{
    const __mmask16 counts = _mm512_cmp_ps_mask(x, HRF_ALL(-87.0f), _CMP_NLT_UQ);
    const __m512 bounded = _mm512_min_ps(HRF_ALL(87.0f), _mm512_max_ps(HRF_ALL(-87.0f), x));
    const __m512 whole = HRF_ALL(0x1.8p23f);
    const __m512 place = _mm512_fmadd_ps(bounded, HRF_ALL(-0x1.715476p+0f), whole);
    __m512 f = _mm512_fmsub_ps(bounded, HRF_ALL(-0x1.715476p+0f), _mm512_sub_ps(place, whole));
    f = _mm512_fmadd_ps(bounded, HRF_ALL(-0x1.4ae0bep-26f), f);
    const __m512i power = _mm512_slli_epi32(_mm512_castps_si512(place), 23);
    const __m512i part = _mm512_castps_si512(hrf_exp2_part_avx512(f));
    const __m512 e = _mm512_castsi512_ps(_mm512_add_epi32(part, power));
    /* The difference of a number and itself: a NaN stays one. */
    const __m512 one = _mm512_add_ps(HRF_ALL(1.0f), _mm512_sub_ps(bounded, bounded));
    return _mm512_maskz_mov_ps(counts, hrf_reciprocal_avx512(_mm512_add_ps(one, e)));
}

/* 2^x for -126 <= x <= 126, for what is rounded to bfloat16: relative error 2^-18, half of the time
 * of hrf_exp_avx512(), as the exponent comes by an addition of integers. Not of a NaN. */
static inline __m512 hrf_short_exp2_avx512(__m512 x)
{
    const __m512 whole = HRF_ALL(0x1.8p23f), place = _mm512_add_ps(x, whole); /* its last bits */
    const __m512 f = _mm512_sub_ps(x, _mm512_sub_ps(place, whole));
    __m512 p = HRF_STEP(HRF_ALL(0x1.3a02ccp-7f), f, 0x1.c9fc46p-5f);
    p = HRF_STEP(p, f, 0x1.ec0378p-3f);
    p = HRF_STEP(p, f, 0x1.62e12cp-1f);
    p = HRF_STEP(p, f, 1.0f);
    const __m512i power = _mm512_slli_epi32(_mm512_castps_si512(place), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), power));
}

/* 1 / (1 + exp(-x)) for what is rounded to bfloat16: relative error 2^-13; 0 below -87. */
static inline __m512 hrf_short_sigmoid_avx512(__m512 x)
{
    const __mmask16 counts = _mm512_cmp_ps_mask(x, HRF_ALL(-87.0f), _CMP_NLT_UQ);
    const __m512 bounded = _mm512_min_ps(HRF_ALL(87.0f), _mm512_max_ps(HRF_ALL(-87.0f), x));
    const __m512 e = hrf_short_exp2_avx512(_mm512_mul_ps(bounded, HRF_ALL(-0x1.715476p+0f)));
    /* The difference of a number and itself: a NaN stays one. */
    const __m512 d = _mm512_add_ps(_mm512_add_ps(HRF_ALL(1.0f), e),
                                   _mm512_sub_ps(bounded, bounded));
    return _mm512_maskz_rcp14_ps(counts, d);
}

/* x / (1 + exp(-alpha x)): relative error as the sigmoid's, absolute 1e-36 below. */
static inline __m512 hrf_swish_avx512(__m512 x, float alpha)
{
    return _mm512_mul_ps(x, hrf_sigmoid_avx512(_mm512_mul_ps(HRF_ALL(alpha), x)));
}

/* tanh(x): relative error 6 u. By its own polynomial near 0, where 1 - 2 / (exp(2x) + 1) loses
 * bits. */
static inline __m512 hrf_tanh_avx512(__m512 x)
{
    const __m512 a = _mm512_min_ps(HRF_ALL(10.0f), _mm512_abs_ps(x)), s = _mm512_mul_ps(x, x);
    __m512 p = HRF_STEP(HRF_ALL(0.00212274f), s, -0.00815628f);
    p = HRF_STEP(p, s, 0.02169261f);
    p = HRF_STEP(p, s, -0.05394538f);
    p = HRF_STEP(p, s, 0.13333196f);
    p = HRF_STEP(p, s, -0.33333331f);
    const __m512 small = _mm512_fmadd_ps(_mm512_mul_ps(x, s), p, x);
    const __m512 e = hrf_exp_avx512(_mm512_add_ps(a, a));
    const __m512 r = hrf_reciprocal_avx512(_mm512_add_ps(e, HRF_ALL(1.0f)));
    const __m512 large = _mm512_fnmadd_ps(HRF_ALL(2.0f), r, HRF_ALL(1.0f));
    const __m512 sign = _mm512_and_ps(x, HRF_ALL(-0.0f));
    const __mmask16 is_large = _mm512_cmp_ps_mask(a, HRF_ALL(0.6f), _CMP_GT_OQ);
    return _mm512_mask_or_ps(small, is_large, large, sign);
}

/* erfc(a / sqrt(2)) / 2 for a in [0, 7], the probability that a normal variable is above a: 2 to
 * the power of a polynomial. Relative error 3e-7 + 6e-8 a^2 where the result is above 1e-4. */
static inline __m512 hrf_normal_tail_avx512(__m512 a)
{
    __m512 p = HRF_STEP(HRF_ALL(-1.1515573383746869e-08f), a, 3.9991203948375187e-07f);
    p = HRF_STEP(p, a, -5.857895303051919e-06f);
    p = HRF_STEP(p, a, 4.536058258963749e-05f);
    p = HRF_STEP(p, a, -0.00016688946925569326f);
    p = HRF_STEP(p, a, -0.00024924176977947354f);
    p = HRF_STEP(p, a, 0.007276715245097876f);
    p = HRF_STEP(p, a, -0.05268782377243042f);
    p = HRF_STEP(p, a, -0.45912861824035645f);
    p = HRF_STEP(p, a, -1.1511174440383911f);
    p = HRF_STEP(p, a, -0.9999997019767761f);
    const __m512 n = hrf_round_avx512(p);
    return _mm512_scalef_ps(hrf_exp2_part_avx512(_mm512_sub_ps(p, n)), n);
}

/* erf(x): relative error 12 u. */
static inline __m512 hrf_erf_avx512(__m512 x)
{
    const __m512 a = _mm512_abs_ps(x), s = _mm512_mul_ps(x, x);
    __m512 p = HRF_STEP(HRF_ALL(7.88911953e-05f), s, -8.02084128e-04f);
    p = HRF_STEP(p, s, 5.18953534e-03f);
    p = HRF_STEP(p, s, -2.68544446e-02f);
    p = HRF_STEP(p, s, 1.12836002e-01f);
    p = HRF_STEP(p, s, -3.76126271e-01f);
    p = HRF_STEP(p, s, 1.12837917e+00f);
    const __m512 small = _mm512_mul_ps(x, p);
    const __m512 far = _mm512_min_ps(HRF_ALL(7.0f),
                                     _mm512_mul_ps(a, HRF_ALL(1.41421356237309505f)));
    const __m512 large = _mm512_fnmadd_ps(HRF_ALL(2.0f), hrf_normal_tail_avx512(far),
                                          HRF_ALL(1.0f));
    const __m512 sign = _mm512_and_ps(x, HRF_ALL(-0.0f));
    const __mmask16 is_large = _mm512_cmp_ps_mask(a, HRF_ALL(1.0f), _CMP_GT_OQ);
    return _mm512_mask_or_ps(small, is_large, large, sign);
}

/* erfc(a / sqrt(2)) / 2 once more, by 32 polynomials of t in [-1/2, 1/2], a = (k + t) / 4.9:
 * faster, and as exact as gelu() needs, which is within 7 u of it, or 1.3e-9 / a. Zero from 30.5
 * / 4.9 on. */
enum { HRF_GELU_TERMS = 5 };
extern const float hrf_gelu_tails[HRF_GELU_TERMS][32]; /* by power of t and k */

static inline __m512 hrf_gelu_tail_avx512(__m512 a)
{
    /* Its last bits are k: all bits of a fraction are beyond those of the number. A NaN is taken
     * over by the second operand, and by t. */
    const __m512 whole = HRF_ALL(0x1p23f), steps = HRF_ALL(4.9f);
    const __m512 bounded = _mm512_min_ps(HRF_ALL(6.3f), a);
    const __m512 place = _mm512_fmadd_ps(bounded, steps, whole);
    const __m512i k = _mm512_castps_si512(place);
    const __m512 t = _mm512_fmsub_ps(bounded, steps, _mm512_sub_ps(place, whole));
    __m512 p = _mm512_permutex2var_ps(_mm512_load_ps(hrf_gelu_tails[HRF_GELU_TERMS - 1]), k,
                                      _mm512_load_ps(hrf_gelu_tails[HRF_GELU_TERMS - 1] + 16));
    for (int i = HRF_GELU_TERMS - 2; i >= 0; i--)
        p = _mm512_fmadd_ps(p, t,
                            _mm512_permutex2var_ps(_mm512_load_ps(hrf_gelu_tails[i]), k,
                                                   _mm512_load_ps(hrf_gelu_tails[i] + 16)));
    return p;
}

/* x (1 + erf(x / sqrt(2))) / 2 as max(x, 0) - |x| tail(|x|), without the cancellation that the
 * formula has for negative x: error 16 u |gelu(x)| + 3e-9. */
static inline __m512 hrf_gelu_avx512(__m512 x)
{
    const __m512 a = _mm512_abs_ps(x), above = _mm512_max_ps(_mm512_setzero_ps(), x);
    const __mmask16 is_below = _mm512_cmp_ps_mask(x, HRF_ALL(7.0f), _CMP_NGE_UQ);
    return _mm512_mask3_fnmadd_ps(hrf_gelu_tail_avx512(a), a, above, is_below);
}

/* GELU's approximation by tanh, x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)). */
static inline __m512 hrf_gelu_tanh_argument_avx512(__m512 x)
{
    const __m512 s = _mm512_mul_ps(x, x);
    const __m512 p = HRF_STEP(s, HRF_ALL(2 * 0.79788456080286536f * 0.044715f),
                              2 * 0.79788456080286536f);
    return _mm512_mul_ps(x, p);
}

static inline __m512 hrf_gelu_tanh_avx512(__m512 x)
{
    return _mm512_mul_ps(x, hrf_sigmoid_avx512(hrf_gelu_tanh_argument_avx512(x)));
}

/* x between 0 and 1. */
static inline __m512 hrf_clip_to_one_avx512(__m512 x)
{
    return _mm512_min_ps(HRF_ALL(1.0f), _mm512_max_ps(_mm512_setzero_ps(), x));
}

static inline __m512 hrf_hard_sigmoid_avx512(__m512 x, __m512 alpha, __m512 beta)
{
    return hrf_clip_to_one_avx512(_mm512_add_ps(_mm512_mul_ps(alpha, x), beta));
}

static inline __m512 hrf_hard_swish_avx512(__m512 x)
{
    return _mm512_mul_ps(x, hrf_clip_to_one_avx512(HRF_STEP(x, HRF_ALL(1.0f / 6), 0.5f)));
}
#endif

#endif
