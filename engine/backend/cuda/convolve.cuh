/* convolve.cuh - what the own kernels for convolutions share: what follows a sum. */
#ifndef HRF_ENGINE_BACKEND_CUDA_CONVOLVE_CUH
#define HRF_ENGINE_BACKEND_CUDA_CONVOLVE_CUH

#include "engine/backend/cuda/elements.cuh"

/* A formula (HRF_FORMULAS) that is known when the kernel is compiled; alpha is 1. exp() and the
 * others are those of float: C++ chooses them by their argument. */
#define CASE(OP, FORMULA)                                                                          \
    case HRF_K_##OP:                                                                               \
        return FORMULA;
template <hrf_k_math MATH> DEVICE float formula(float x)
{
    [[maybe_unused]] const float alpha = 1, beta = 0;
    switch (MATH) {
        HRF_FORMULAS(CASE)
    default:
        return x;
    }
}
#undef CASE

DEVICE float formula_behind(hrf_k_math math, float v)
{
    switch (math) {
    case HRF_K_GELU:
        return formula<HRF_K_GELU>(v);
    case HRF_K_GELU_TANH:
        return formula<HRF_K_GELU_TANH>(v);
    case HRF_K_SWISH:
        return formula<HRF_K_SWISH>(v);
    default:
        return v;
    }
}

struct convolved {
    float floats;
    int32_t integers;
};

/* What follows the sum, in the order that backend.h writes down (struct hrf_requantize), but for
 * the residual. */
DEVICE float scale_sum(const convolved &s, bool is_integer, float bias, float scale)
{
    return is_integer ? ((float)s.integers + bias) * scale : s.floats + bias;
}

#endif
