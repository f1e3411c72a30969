/* epilogue_avx512.h - bias, residual and activation on 16 sums in a register. Only for files that
 * are compiled with -mavx512f. */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_EPILOGUE_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_EPILOGUE_AVX512_H

#include "engine/backend/cpu/avx512/vector_avx512.h"
#include "engine/backend/cpu/product.h"

/* Applies an activation after LEAKY_RELU in the enum to n_registers times 16 sums, in place, with
 * the precision of e->type. It is not inlined, because it is long and there are many tiles. */
void hrf_activate_sums_avx512(float *sums, int64_t n_registers, const struct hrf_epilogue *e);

#ifdef __AVX512F__
#include <immintrin.h>

static inline __m512 hrf_bias(const float *bias, int64_t at, __mmask16 mask)
{
    return bias != NULL ? _mm512_maskz_loadu_ps(mask, bias + at) : _mm512_setzero_ps();
}

/* A NaN stays a NaN: if one operand of maximum and minimum is a NaN, the result is the second
 * operand. */
static inline __m512 hrf_activate_avx512(__m512 x, const struct hrf_epilogue *e)
{
    switch (e->activation) {
    case HRF_ACT_RELU:
        return _mm512_max_ps(_mm512_setzero_ps(), x);
    case HRF_ACT_CLIP:
        return _mm512_min_ps(_mm512_set1_ps(e->high), _mm512_max_ps(_mm512_set1_ps(e->low), x));
    case HRF_ACT_LEAKY_RELU:
        return _mm512_mask_mul_ps(x, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), x,
                                  _mm512_set1_ps(e->slope));
    default: /* none, or an activation of hrf_activate_sums_avx512() */
        break;
    }
    return x;
}

/* True if the epilogue has an activation that hrf_activate_avx512() leaves to
 * hrf_activate_sums_avx512(). */
static inline bool hrf_has_function(const struct hrf_epilogue *e)
{
    return e->activation > HRF_ACT_LEAKY_RELU;
}

#endif

#endif
