/* cuda_bf16.h - bfloat16 of the emulated device. */
#ifndef HRF_TESTS_EMULATED_CUDA_BF16_H
#define HRF_TESTS_EMULATED_CUDA_BF16_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
uint16_t hrf_b16_from_float(float value);
float hrf_b16_to_float(uint16_t bits);
#ifdef __cplusplus
}
#endif

typedef struct {
    uint16_t bits;
} __nv_bfloat16;

static inline float __bfloat162float(__nv_bfloat16 value)
{
    return hrf_b16_to_float(value.bits);
}

static inline __nv_bfloat16 __float2bfloat16_rn(float value)
{
    __nv_bfloat16 half;
    half.bits = hrf_b16_from_float(value);
    return half;
}

#endif
