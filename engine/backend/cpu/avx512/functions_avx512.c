/* functions_avx512.c - see functions_avx512.h. Compiled with -mavx512f. */
#include "engine/backend/cpu/avx512/functions_avx512.h"

#include "engine/backend/cpu/avx512/math_avx512.h"
#include "engine/backend/cpu/avx512/number_avx512.h"

#include <assert.h>

bool hrf_functions_have_avx512(enum hrf_op op)
{
    switch (op) {
    case HRF_OP_EXP:
    case HRF_OP_ERF:
    case HRF_OP_TANH:
    case HRF_OP_SIGMOID:
    case HRF_OP_SWISH:
    case HRF_OP_GELU:
    case HRF_OP_GELU_TANH:
    case HRF_OP_HARD_SIGMOID:
    case HRF_OP_HARD_SWISH:
        return true;
    default:
        return false;
    }
}

static inline __m512 value_of(enum hrf_op op, __m512 alpha, __m512 beta, __m512 x)
{
    switch (op) {
    case HRF_OP_EXP:
        return hrf_exp_avx512(x);
    case HRF_OP_ERF:
        return hrf_erf_avx512(x);
    case HRF_OP_TANH:
        return hrf_tanh_avx512(x);
    case HRF_OP_SIGMOID:
        return hrf_sigmoid_avx512(x);
    case HRF_OP_SWISH:
        return _mm512_mul_ps(x, hrf_sigmoid_avx512(_mm512_mul_ps(alpha, x)));
    case HRF_OP_GELU:
        return hrf_gelu_avx512(x);
    case HRF_OP_GELU_TANH:
        return hrf_gelu_tanh_avx512(x);
    case HRF_OP_HARD_SIGMOID:
        return hrf_hard_sigmoid_avx512(x, alpha, beta);
    case HRF_OP_HARD_SWISH:
        return hrf_hard_swish_avx512(x);
    default:
        assert(false);
        return x;
    }
}

/* Inlined for one operator and pair of types each, so that the questions are asked once a run. */
static inline __attribute__((always_inline)) void run_as(enum hrf_op op,
                                                         const struct hrf_attributes *a,
                                                         enum hrf_dtype x_type, const char *x,
                                                         enum hrf_dtype y_type, char *y, int64_t n)
{
    const __m512 alpha = _mm512_set1_ps(a->alpha), beta = _mm512_set1_ps(a->beta);
    const int64_t x_size = x_type == HRF_F32 ? 4 : 2, y_size = y_type == HRF_F32 ? 4 : 2;
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 mask = hrf_first_lanes_avx512(n - i);
        hrf_store_avx512(y_type, y + i * y_size, mask,
                         value_of(op, alpha, beta, hrf_load_avx512(x_type, x + i * x_size, mask)));
    }
}

#define RUN(OP)                                                                                    \
    case HRF_OP_##OP:                                                                              \
        if (x_type == HRF_F32 && y_type == HRF_F32)                                                \
            run_as(HRF_OP_##OP, a, HRF_F32, x, HRF_F32, y, n);                                     \
        else if (x_type == HRF_B16 && y_type == HRF_B16)                                           \
            run_as(HRF_OP_##OP, a, HRF_B16, x, HRF_B16, y, n);                                     \
        else                                                                                       \
            run_as(HRF_OP_##OP, a, x_type, x, y_type, y, n);                                       \
        break;

void hrf_functions_avx512(enum hrf_op op, const struct hrf_attributes *a, enum hrf_dtype x_type,
                          const void *x, enum hrf_dtype y_type, void *y, int64_t n)
{
    switch (op) {
        RUN(EXP)
        RUN(ERF)
        RUN(TANH)
        RUN(SIGMOID)
        RUN(SWISH)
        RUN(GELU)
        RUN(GELU_TANH)
        RUN(HARD_SIGMOID)
        RUN(HARD_SWISH)
    default:
        assert(false);
    }
}
