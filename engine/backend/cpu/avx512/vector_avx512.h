/* vector_avx512.h - the operations that base/elementary.h needs, for registers of 16 floats; and
 * loads and stores of floats of 32 or 16 bits, with the bits of engine/ir/number.h. Only for files
 * that are compiled with -mavx512f -mavx512dq -mavx512bw -mavx512vl. */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_VECTOR_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_VECTOR_AVX512_H

#include "base/inline.h"
#include "engine/ir/graph.h"

#ifdef __AVX512F__
#include <immintrin.h>

#define HRF_VECTOR_LANES 16

typedef __m512 hrf_vector;
typedef __mmask16 hrf_vector_mask;

HRF_ALWAYS_INLINE __m512 hrf_v_all(float x)
{
    return _mm512_set1_ps(x);
}

HRF_ALWAYS_INLINE __m512 hrf_v_fma(__m512 a, __m512 b, __m512 c) /* a b + c */
{
    return _mm512_fmadd_ps(a, b, c);
}

HRF_ALWAYS_INLINE __m512 hrf_v_fms(__m512 a, __m512 b, __m512 c) /* a b - c */
{
    return _mm512_fmsub_ps(a, b, c);
}

HRF_ALWAYS_INLINE __m512 hrf_v_fnma(__m512 a, __m512 b, __m512 c) /* c - a b */
{
    return _mm512_fnmadd_ps(a, b, c);
}

/* If one operand is a NaN, the result is the second operand. */
HRF_ALWAYS_INLINE __m512 hrf_v_max(__m512 x, __m512 low)
{
    return _mm512_max_ps(low, x);
}

HRF_ALWAYS_INLINE __m512 hrf_v_min(__m512 x, __m512 high)
{
    return _mm512_min_ps(high, x);
}

HRF_ALWAYS_INLINE __m512 hrf_v_abs(__m512 x)
{
    return _mm512_abs_ps(x);
}

HRF_ALWAYS_INLINE __m512 hrf_v_round(__m512 x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

HRF_ALWAYS_INLINE __mmask16 hrf_v_above(__m512 x, __m512 y) /* false for a NaN */
{
    return _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ);
}

HRF_ALWAYS_INLINE __mmask16 hrf_v_below_or_nan(__m512 x, __m512 y)
{
    return _mm512_cmp_ps_mask(x, y, _CMP_NGE_UQ);
}

HRF_ALWAYS_INLINE __mmask16 hrf_v_from_or_nan(__m512 x, __m512 y) /* x >= y */
{
    return _mm512_cmp_ps_mask(x, y, _CMP_NLT_UQ);
}

/* x where the mask is set, elsewhere 0. */
HRF_ALWAYS_INLINE __m512 hrf_v_keep(__mmask16 mask, __m512 x)
{
    return _mm512_maskz_mov_ps(mask, x);
}

/* c - a b where the mask is set, elsewhere c. */
HRF_ALWAYS_INLINE __m512 hrf_v_fnma_where(__mmask16 mask, __m512 a, __m512 b, __m512 c)
{
    return _mm512_mask3_fnmadd_ps(a, b, c, mask);
}

/* `large`, which is not negative, with the sign of x where the mask is set, elsewhere `small`. */
HRF_ALWAYS_INLINE __m512 hrf_v_signed_where(__mmask16 mask, __m512 large, __m512 x, __m512 small)
{
    return _mm512_mask_or_ps(small, mask, large, _mm512_and_ps(x, _mm512_set1_ps(-0.0f)));
}

/* p 2^n, where p 2^n is a normal number and n is in the last bits of `place`. */
HRF_ALWAYS_INLINE __m512 hrf_v_raise(__m512 p, __m512 place)
{
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p),
                                                _mm512_slli_epi32(_mm512_castps_si512(place), 23)));
}

/* p 2^n for whole n. */
HRF_ALWAYS_INLINE __m512 hrf_v_scale(__m512 p, __m512 n)
{
    return _mm512_scalef_ps(p, n);
}

/* 1 / d for a finite d >= 1 whose reciprocal is not subnormal; relative error 3 u. */
HRF_ALWAYS_INLINE __m512 hrf_v_reciprocal(__m512 d)
{
    const __m512 r = _mm512_rcp14_ps(d);
    return _mm512_fmadd_ps(r, _mm512_fnmadd_ps(d, r, _mm512_set1_ps(1.0f)), r);
}

/* ---- memory ---- */

/* A mask of the first n of 16 lanes; no lanes if n < 1. */
static inline __mmask16 hrf_first_lanes_avx512(int64_t n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : n > 0 ? (1u << n) - 1u : 0u);
}

/* Loads 16 elements of F32, F16 or B16 as floats. Masked lanes are not read and become 0. */
static inline __m512 hrf_load_avx512(enum hrf_dtype dtype, const void *from, __mmask16 mask)
{
    if (dtype == HRF_F32)
        return _mm512_maskz_loadu_ps(mask, from);
    const __m256i narrow = _mm256_maskz_loadu_epi16(mask, from);
    if (dtype == HRF_F16)
        return _mm512_cvtph_ps(narrow);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16));
}

static inline __m256i hrf_to_f16_avx512(__m512 x)
{
    const __m256i half = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256i sign = _mm256_and_si256(half, _mm256_set1_epi16((int16_t)0x8000));
    const __m256i nan = _mm256_or_si256(sign, _mm256_set1_epi16(0x7e00));
    return _mm256_mask_mov_epi16(half, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), nan);
}

static inline __m256i hrf_to_b16_avx512(__m512 x)
{
    const __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(
        _mm512_srli_epi32(up, 16), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet));
}

/* The same by one instruction, only where hrf_cpu_has_avx512_bf16() says so; values below 2^-126
 * become zero. It is in assembler, so that the compiler uses no other instruction of that set. */
static inline __m256i hrf_narrow_b16_avx512(__m512 x)
{
#ifdef HRF_EMULATE_AVX512
    return hrf_emulated_to_b16(x);
#else
    __m256i y;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(y) : "v"(x));
    return y;
#endif
}

static inline void hrf_store_avx512(enum hrf_dtype dtype, void *to, __mmask16 mask, __m512 x)
{
    if (dtype == HRF_F32)
        _mm512_mask_storeu_ps(to, mask, x);
    else
        _mm256_mask_storeu_epi16(to, mask,
                                 dtype == HRF_F16 ? hrf_to_f16_avx512(x) : hrf_to_b16_avx512(x));
}

/* Narrows the 32 integers of two registers, in order, to 16 bits each. */
static inline __m512i hrf_join_i16_avx512(__m512i low, __m512i high)
{
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    return _mm512_permutexvar_epi64(order, _mm512_packs_epi32(low, high));
}
#endif

#endif
