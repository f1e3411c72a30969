/* vector_8.h - a register of eight floats in the words of vector_1.h that a product of matrices
 * needs. For files that are compiled with -mavx2 -mfma only. */
#ifndef HRF_BASE_VECTOR_8_H
#define HRF_BASE_VECTOR_8_H

#include "base/inline.h"

#ifdef __AVX2__
#include <immintrin.h>

#define HRF_VECTOR_LANES 8

typedef __m256 hrf_vector;

HRF_ALWAYS_INLINE __m256 hrf_v_all(float x)
{
    return _mm256_set1_ps(x);
}

HRF_ALWAYS_INLINE __m256 hrf_v_fma(__m256 a, __m256 b, __m256 c) /* a b + c */
{
    return _mm256_fmadd_ps(a, b, c);
}

HRF_ALWAYS_INLINE __m256 hrf_v_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

HRF_ALWAYS_INLINE void hrf_v_store(float *to, __m256 x)
{
    _mm256_storeu_ps(to, x);
}
#endif

#endif
