/* activate_avx512.c - the functions of an epilogue that take more than a few instructions. Compiled
 * with -mavx512f. */
#include "engine/backend/cpu/avx512/epilogue_avx512.h"
#include "engine/backend/cpu/avx512/math_avx512.h"

enum { LANES = 16 };

#define EACH(FORMULA)                                                                              \
    for (int64_t i = 0; i < n_registers; i++) {                                                    \
        const __m512 x = _mm512_loadu_ps(sums + i * LANES);                                        \
        _mm512_storeu_ps(sums + i * LANES, FORMULA);                                               \
    }                                                                                              \
    break;

void hrf_activate_sums_avx512(float *sums, int64_t n_registers, const struct hrf_epilogue *e)
{
    const __m512 alpha = HRF_ALL(e->slope), beta = HRF_ALL(e->offset);
    switch (e->activation) {
    case HRF_ACT_SIGMOID:
        EACH(hrf_sigmoid_avx512(x))
    case HRF_ACT_HARD_SIGMOID:
        EACH(hrf_hard_sigmoid_avx512(x, alpha, beta))
    case HRF_ACT_SWISH:
        EACH(_mm512_mul_ps(x, hrf_sigmoid_avx512(x)))
    case HRF_ACT_HARD_SWISH:
        EACH(hrf_hard_swish_avx512(x))
    case HRF_ACT_GELU:
        EACH(hrf_gelu_avx512(x))
    case HRF_ACT_GELU_TANH:
        EACH(hrf_gelu_tanh_avx512(x))
    default:
        break;
    }
}
