#include "engine/backend/cpu/narrow_floats.h"

#include "engine/backend/cpu/instructions.h"
#include "engine/ir/number.h"

void hrf_cpu_widen(enum hrf_dtype type, const void *from, float *to, int64_t n)
{
#ifdef HRF_BUILD_AVX512
    if (hrf_dtype_is_half(type) && hrf_cpu_has_avx512()) {
        hrf_widen_avx512(type, from, to, n);
        return;
    }
#endif
    hrf_floats_from(type, from, to, n);
}

void hrf_cpu_narrow(enum hrf_dtype type, const float *from, void *to, int64_t n)
{
#ifdef HRF_BUILD_AVX512
    if (hrf_dtype_is_half(type) && hrf_cpu_has_avx512()) {
        hrf_narrow_avx512(type, from, to, n);
        return;
    }
#endif
    hrf_floats_to(type, from, to, n);
}

const float *hrf_cpu_read(enum hrf_dtype type, const void *from, int64_t first, int64_t n,
                          float *own)
{
    if (type == HRF_F32)
        return (const float *)from + first;
    hrf_cpu_widen(type, (const uint16_t *)from + first, own, n);
    return own;
}

float *hrf_cpu_place(enum hrf_dtype type, void *to, int64_t first, float *own)
{
    return type == HRF_F32 ? (float *)to + first : own;
}

void hrf_cpu_finish(enum hrf_dtype type, void *to, int64_t first, int64_t n, const float *own)
{
    if (type != HRF_F32)
        hrf_cpu_narrow(type, own, (uint16_t *)to + first, n);
}
