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

/* 1 - Phi(|x|) has all its digits, but the derivative is a sum near 1 or 0: erf() is exact enough.
 */
HRF_ALWAYS_INLINE hrf_vector gelu_derivative(hrf_vector x)
{
    const hrf_vector half = hrf_v_all(0.5f);
    const hrf_vector below = hrf_v_fma(hrf_v_erf(x * hrf_v_all(0.70710678118654752f)), half, half);
    const hrf_vector density = hrf_v_exp(x * x * hrf_v_all(-0.5f));
    return hrf_v_fma(x * hrf_v_all(0.39894228040143268f), density, below);
}

/* Of x sigmoid(u) where u has the slope `slope`. */
HRF_ALWAYS_INLINE hrf_vector gate_derivative(hrf_vector x, hrf_vector u, hrf_vector slope)
{
    const hrf_vector rest = x * slope * hrf_v_sigmoid(hrf_v_all(0.0f) - u);
    return hrf_v_sigmoid(u) * (hrf_v_all(1.0f) + rest);
}

HRF_ALWAYS_INLINE hrf_vector gelu_tanh_derivative(hrf_vector x)
{
    const float slope = 2 * 0.79788456080286536f;
    return gate_derivative(x, hrf_v_gelu_tanh_argument(x),
                           hrf_v_fma(x * x, hrf_v_all(3 * slope * 0.044715f), hrf_v_all(slope)));
}

#define DERIVATIVES(F)                                                                             \
    F(RELU, hrf_v_keep(hrf_v_above(x, hrf_v_all(0.0f)), hrf_v_all(1.0f)))                          \
    F(EXP, hrf_v_exp(x))                                                                           \
    F(ERF, hrf_v_all(1.1283791670955126f) * hrf_v_exp(hrf_v_all(0.0f) - x * x))                    \
    F(TANH, hrf_v_fnma(hrf_v_tanh(x), hrf_v_tanh(x), hrf_v_all(1.0f)))                             \
    F(SIGMOID, hrf_v_sigmoid(x) * hrf_v_sigmoid(hrf_v_all(0.0f) - x))                              \
    F(SWISH, gate_derivative(x, alpha *x, alpha))                                                  \
    F(GELU, gelu_derivative(x))                                                                    \
    F(GELU_TANH, gelu_tanh_derivative(x))

#define DEFINE_DERIVE(OP, VALUE)                                                                   \
    static void derive_##OP(const struct hrf_attributes *a, const float *from, const float *dy,    \
                            float *to, int64_t n)                                                  \
    {                                                                                              \
        const hrf_vector alpha = hrf_v_all(a->alpha);                                              \
        (void)alpha;                                                                               \
        for (int64_t i = 0; i < n; i += HRF_VECTOR_LANES) {                                        \
            const hrf_vector x = load(HRF_F32, from, i, n), d = load(HRF_F32, dy, i, n);           \
            store(HRF_F32, to, i, n, d *(VALUE));                                                  \
        }                                                                                          \
    }
DERIVATIVES(DEFINE_DERIVE)

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

static void (*const derivatives[])(const struct hrf_attributes *a, const float *x, const float *dy,
                                   float *to, int64_t n) = {
#define ENTRY(OP, VALUE) [HRF_OP_##OP - HRF_OP_RELU] = derive_##OP,
    DERIVATIVES(ENTRY)
#undef ENTRY
        [HRF_OP_CLIP - HRF_OP_RELU] = NULL
};

bool HRF_FUNCTIONS(derives)(enum hrf_op op)
{
    return derivatives[op - HRF_OP_RELU] != NULL;
}

void HRF_FUNCTIONS(derive)(enum hrf_op op, const struct hrf_attributes *a, const float *x,
                           const float *dy, float *to, int64_t n)
{
    derivatives[op - HRF_OP_RELU](a, x, dy, to, n);
}
