/* elementary.h - exp and what is made of it, once for registers of every width.
 *
 * hrf_vector is a register of floats: of 16, if engine/backend/cpu/avx512/vector_avx512.h is
 * included before, or of one (vector_1.h). Each width rounds every step alike, but for reciprocals
 * and gelu's tail.
 *
 * The polynomials are minimax fits of this project, made by iterated weighted least squares on
 * Chebyshev nodes. Errors below are against the exact value over all floats, as
 * tests/unit/engine/backend/cpu/test_functions.c checks them; u = 2^-24. A NaN stays one, and an
 * infinity gives what the formula in double gives (engine/backend/formulas.h).
 */
#ifndef HRF_BASE_ELEMENTARY_H
#define HRF_BASE_ELEMENTARY_H

#ifndef HRF_VECTOR_LANES
#include "base/vector_1.h"
#endif

/* log2(e) in two parts, so that what is left of an exponent has all its bits. */
#define HRF_LOG2_E      0x1.715476p+0f
#define HRF_LOG2_E_REST 0x1.4ae0bep-26f
/* A number below 2^22 added to it rounds to a whole one, which stands in the last bits. */
#define HRF_WHOLE 0x1.8p23f

/* Coefficients of falling powers of x. */
#define HRF_V_POLYNOMIAL(x, ...)                                                                   \
    hrf_v_polynomial(x, (const float[]){ __VA_ARGS__ },                                            \
                     (int)(sizeof((const float[]){ __VA_ARGS__ }) / sizeof(float)))

HRF_ALWAYS_INLINE hrf_vector hrf_v_polynomial(hrf_vector x, const float *coefficients, int n)
{
    hrf_vector p = hrf_v_all(coefficients[0]);
#pragma GCC unroll 16
    for (int i = 1; i < n; i++)
        p = hrf_v_fma(p, x, hrf_v_all(coefficients[i]));
    return p;
}

/* 2^f for f in [-1/2, 1/2]: within 2e-9 before rounding. */
HRF_ALWAYS_INLINE hrf_vector hrf_v_exp2_part(hrf_vector f)
{
    return HRF_V_POLYNOMIAL(f, 0x1.41d32cp-13f, 0x1.5f456ap-10f, 0x1.3b2dbcp-7f, 0x1.c6aed4p-5f,
                            0x1.ebfbdap-3f, 0x1.62e430p-1f, 1.0f);
}

/* exp(x): relative error 3 u; 0 below the smallest float, infinity above the largest. */
HRF_ALWAYS_INLINE hrf_vector hrf_v_exp(hrf_vector x)
{
    x = hrf_v_max(hrf_v_min(x, hrf_v_all(110.0f)), hrf_v_all(-110.0f));
    const hrf_vector n = hrf_v_round(x * hrf_v_all(HRF_LOG2_E));
    const hrf_vector f = hrf_v_fma(x, hrf_v_all(HRF_LOG2_E_REST),
                                   hrf_v_fms(x, hrf_v_all(HRF_LOG2_E), n));
    return hrf_v_scale(hrf_v_exp2_part(f), n);
}

/* 1 / (1 + exp(-x)): relative error 8 u; 0 below -87. With bounds of 87 the power of two is in
 * [-126, 126]: it is added to the exponent. */
HRF_ALWAYS_INLINE hrf_vector hrf_v_sigmoid(hrf_vector x)
{
    const hrf_vector whole = hrf_v_all(HRF_WHOLE), log2_e = hrf_v_all(-HRF_LOG2_E);
    const hrf_vector bounded = hrf_v_min(hrf_v_max(x, hrf_v_all(-87.0f)), hrf_v_all(87.0f));
    const hrf_vector place = hrf_v_fma(bounded, log2_e, whole);
    const hrf_vector f = hrf_v_fma(bounded, hrf_v_all(-HRF_LOG2_E_REST),
                                   hrf_v_fms(bounded, log2_e, place - whole));
    const hrf_vector e = hrf_v_raise(hrf_v_exp2_part(f), place);
    /* The difference of a number and itself: a NaN stays one. */
    const hrf_vector one = hrf_v_all(1.0f) + (bounded - bounded);
    return hrf_v_keep(hrf_v_from_or_nan(x, hrf_v_all(-87.0f)), hrf_v_reciprocal(one + e));
}

/* tanh(x): relative error 6 u. By its own polynomial near 0, where 1 - 2 / (exp(2x) + 1) loses
 * bits. */
HRF_ALWAYS_INLINE hrf_vector hrf_v_tanh(hrf_vector x)
{
    const hrf_vector a = hrf_v_min(hrf_v_abs(x), hrf_v_all(10.0f)), s = x * x;
    const hrf_vector p = HRF_V_POLYNOMIAL(s, 0.00212274f, -0.00815628f, 0.02169261f, -0.05394538f,
                                          0.13333196f, -0.33333331f);
    const hrf_vector small = hrf_v_fma(x * s, p, x);
    const hrf_vector r = hrf_v_reciprocal(hrf_v_exp(a + a) + hrf_v_all(1.0f));
    const hrf_vector large = hrf_v_fnma(hrf_v_all(2.0f), r, hrf_v_all(1.0f));
    return hrf_v_signed_where(hrf_v_above(a, hrf_v_all(0.6f)), large, x, small);
}

/* erfc(a / sqrt(2)) / 2 for a in [0, 7], the probability that a normal variable is above a: 2 to
 * the power of a polynomial. Relative error 3e-7 + 6e-8 a^2 where the result is above 1e-4. */
HRF_ALWAYS_INLINE hrf_vector hrf_v_normal_tail(hrf_vector a)
{
    const hrf_vector p = HRF_V_POLYNOMIAL(
        a, -1.1515573383746869e-08f, 3.9991203948375187e-07f, -5.857895303051919e-06f,
        4.536058258963749e-05f, -0.00016688946925569326f, -0.00024924176977947354f,
        0.007276715245097876f, -0.05268782377243042f, -0.45912861824035645f, -1.1511174440383911f,
        -0.9999997019767761f);
    const hrf_vector n = hrf_v_round(p);
    return hrf_v_scale(hrf_v_exp2_part(p - n), n);
}

/* erf(x): relative error 12 u. */
HRF_ALWAYS_INLINE hrf_vector hrf_v_erf(hrf_vector x)
{
    const hrf_vector a = hrf_v_abs(x);
    const hrf_vector p = HRF_V_POLYNOMIAL(x * x, 7.88911953e-05f, -8.02084128e-04f, 5.18953534e-03f,
                                          -2.68544446e-02f, 1.12836002e-01f, -3.76126271e-01f,
                                          1.12837917e+00f);
    const hrf_vector tail = hrf_v_normal_tail(
        hrf_v_min(a * hrf_v_all(1.41421356237309505f), hrf_v_all(7.0f)));
    const hrf_vector large = hrf_v_fnma(hrf_v_all(2.0f), tail, hrf_v_all(1.0f));
    return hrf_v_signed_where(hrf_v_above(a, hrf_v_all(1.0f)), large, x, x * p);
}

#if HRF_VECTOR_LANES == 1
/* Of gelu(): wider registers have one of their own. */
HRF_ALWAYS_INLINE hrf_vector hrf_v_gelu_tail(hrf_vector a)
{
    return hrf_v_keep(hrf_v_below_or_nan(a, 7.0f), hrf_v_normal_tail(hrf_v_min(a, 7.0f)));
}
#endif

/* x (1 + erf(x / sqrt(2))) / 2 as max(x, 0) - |x| tail(|x|), without the cancellation that the
 * formula has for negative x: error 16 u |gelu(x)| + 3e-9. */
HRF_ALWAYS_INLINE hrf_vector hrf_v_gelu(hrf_vector x)
{
    const hrf_vector a = hrf_v_abs(x), above = hrf_v_max(x, hrf_v_all(0.0f));
    return hrf_v_fnma_where(hrf_v_below_or_nan(x, hrf_v_all(7.0f)), hrf_v_gelu_tail(a), a, above);
}

/* GELU's approximation by tanh is x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)). */
HRF_ALWAYS_INLINE hrf_vector hrf_v_gelu_tanh_argument(hrf_vector x)
{
    const float slope = 2 * 0.79788456080286536f;
    return x * hrf_v_fma(x * x, hrf_v_all(slope * 0.044715f), hrf_v_all(slope));
}

HRF_ALWAYS_INLINE hrf_vector hrf_v_gelu_tanh(hrf_vector x)
{
    return x * hrf_v_sigmoid(hrf_v_gelu_tanh_argument(x));
}

/* x / (1 + exp(-alpha x)): relative error as the sigmoid's, absolute 1e-36 below. */
HRF_ALWAYS_INLINE hrf_vector hrf_v_swish(hrf_vector x, hrf_vector alpha)
{
    return x * hrf_v_sigmoid(alpha * x);
}

/* alpha x + beta, between 0 and 1. */
HRF_ALWAYS_INLINE hrf_vector hrf_v_hard_sigmoid(hrf_vector x, hrf_vector alpha, hrf_vector beta)
{
    return hrf_v_min(hrf_v_max(alpha * x + beta, hrf_v_all(0.0f)), hrf_v_all(1.0f));
}

HRF_ALWAYS_INLINE hrf_vector hrf_v_hard_swish(hrf_vector x)
{
    const hrf_vector part = hrf_v_fma(x, hrf_v_all(1.0f / 6), hrf_v_all(0.5f));
    return x * hrf_v_min(hrf_v_max(part, hrf_v_all(0.0f)), hrf_v_all(1.0f));
}

#endif
