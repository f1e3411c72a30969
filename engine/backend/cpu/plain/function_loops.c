/* function_loops.c - see functions.h; compiled once for each instruction set, whose name is
 * HRF_INSTRUCTION_SET. */
#include "engine/backend/cpu/plain/functions.h"

#ifdef __AVX512F__
#include "engine/backend/cpu/avx512/math_avx512.h"
#else
#include "base/elementary.h"
#endif

#include <assert.h>

#define JOIN(what, set)     hrf_functions_##what##_##set
#define EXPAND(what, set)   JOIN(what, set)
#define HRF_FUNCTIONS(what) EXPAND(what, HRF_INSTRUCTION_SET)

#if HRF_VECTOR_LANES == 16
#define OF_WIDE_REGISTERS(F)                                                                       \
    F(HARD_SIGMOID, hrf_v_hard_sigmoid(x, alpha, beta))                                            \
    F(HARD_SWISH, hrf_v_hard_swish(x))

HRF_ALWAYS_INLINE int64_t size_of(enum hrf_dtype type)
{
    return type == HRF_F32 ? 4 : 2;
}

HRF_ALWAYS_INLINE hrf_vector load(enum hrf_dtype type, const void *x, int64_t i, int64_t n)
{
    return hrf_load_avx512(type, (const char *)x + i * size_of(type),
                           hrf_first_lanes_avx512(n - i));
}

HRF_ALWAYS_INLINE void store(enum hrf_dtype type, void *y, int64_t i, int64_t n, hrf_vector value)
{
    hrf_store_avx512(type, (char *)y + i * size_of(type), hrf_first_lanes_avx512(n - i), value);
}
#else
#define OF_WIDE_REGISTERS(F)

HRF_ALWAYS_INLINE float load(enum hrf_dtype type, const void *x, int64_t i, int64_t n)
{
    (void)type, (void)n;
    return ((const float *)x)[i];
}

HRF_ALWAYS_INLINE void store(enum hrf_dtype type, void *y, int64_t i, int64_t n, float value)
{
    (void)type, (void)n;
    ((float *)y)[i] = value;
}
#endif

#define FUNCTIONS(F)                                                                               \
    F(EXP, hrf_v_exp(x))                                                                           \
    F(ERF, hrf_v_erf(x))                                                                           \
    F(TANH, hrf_v_tanh(x))                                                                         \
    F(SIGMOID, hrf_v_sigmoid(x))                                                                   \
    F(SWISH, hrf_v_swish(x, alpha))                                                                \
    F(GELU, hrf_v_gelu(x))                                                                         \
    F(GELU_TANH, hrf_v_gelu_tanh(x))                                                               \
    OF_WIDE_REGISTERS(F)

/* The types are constants, so that there are no branches in the loop. */
#define DEFINE_RUN(OP, VALUE)                                                                      \
    HRF_ALWAYS_INLINE void run_##OP(const struct hrf_attributes *a, enum hrf_dtype x_type,         \
                                    const void *from, enum hrf_dtype y_type, void *to, int64_t n)  \
    {                                                                                              \
        const hrf_vector alpha = hrf_v_all(a->alpha), beta = hrf_v_all(a->beta);                   \
        (void)alpha, (void)beta;                                                                   \
        for (int64_t i = 0; i < n; i += HRF_VECTOR_LANES) {                                        \
            const hrf_vector x = load(x_type, from, i, n);                                         \
            store(y_type, to, i, n, VALUE);                                                        \
        }                                                                                          \
    }
FUNCTIONS(DEFINE_RUN)

#define IS_OP(OP, VALUE) || op == HRF_OP_##OP

bool HRF_FUNCTIONS(have)(enum hrf_op op)
{
    return false FUNCTIONS(IS_OP);
}

#define RUN(OP, VALUE)                                                                             \
    case HRF_OP_##OP:                                                                              \
        if (HRF_VECTOR_LANES == 1 || (x_type == HRF_F32 && y_type == HRF_F32))                     \
            run_##OP(a, HRF_F32, x, HRF_F32, y, n);                                                \
        else if (x_type == HRF_B16 && y_type == HRF_B16)                                           \
            run_##OP(a, HRF_B16, x, HRF_B16, y, n);                                                \
        else                                                                                       \
            run_##OP(a, x_type, x, y_type, y, n);                                                  \
        break;

void HRF_FUNCTIONS(run)(enum hrf_op op, const struct hrf_attributes *a, enum hrf_dtype x_type,
                        const void *x, enum hrf_dtype y_type, void *y, int64_t n)
{
    switch (op) {
        FUNCTIONS(RUN)
    default:
        assert(false);
    }
}
