/* number_avx512.h - 16 floats in a register from memory of 32 or 16 bits each, and back: the bits
 * of engine/ir/number.h. For files that are compiled with -mavx512f and -mavx512bw, vl only. */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_NUMBER_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_NUMBER_AVX512_H

#include "engine/ir/graph.h"

#ifdef __AVX512F__
#include <immintrin.h>

/* The first n of 16, none below 1. */
static inline __mmask16 hrf_first_lanes_avx512(int64_t n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : n > 0 ? (1u << n) - 1u : 0u);
}

/* `dtype`: F32, F16 or B16. Where the mask has no bit, nothing is read, and the result is 0. */
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

/* The same by one instruction, where hrf_cpu_has_avx512_bf16() says so; numbers below 2^-126 become
 * zero. Assembler, so that no other of that instruction set gets into a file. */
static inline __m256i hrf_narrow_b16_avx512(__m512 x)
{
    __m256i y;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(y) : "v"(x));
    return y;
}

static inline void hrf_store_avx512(enum hrf_dtype dtype, void *to, __mmask16 mask, __m512 x)
{
    if (dtype == HRF_F32)
        _mm512_mask_storeu_ps(to, mask, x);
    else
        _mm256_mask_storeu_epi16(to, mask,
                                 dtype == HRF_F16 ? hrf_to_f16_avx512(x) : hrf_to_b16_avx512(x));
}
#endif

#endif
