/* cuda_fp16.h - float16 of the emulated device. */
#ifndef HRF_TESTS_EMULATED_CUDA_FP16_H
#define HRF_TESTS_EMULATED_CUDA_FP16_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
uint16_t hrf_f16_from_float(float value);
float hrf_f16_to_float(uint16_t bits);
#ifdef __cplusplus
}
#endif

typedef struct {
    uint16_t bits;
} __half;

static inline float __half2float(__half value)
{
    return hrf_f16_to_float(value.bits);
}

static inline __half __float2half_rn(float value)
{
    __half half;
    half.bits = hrf_f16_from_float(value);
    return half;
}

#endif
