/* narrow_floats_avx512.c - arrays of 16-bit floats to float32 and back (narrow_floats.h). */
#include "engine/backend/cpu/avx512/vector_avx512.h"
#include "engine/backend/cpu/narrow_floats.h"

/* The type is a constant, so that there are no branches in the loop. */
HRF_ALWAYS_INLINE void widen(enum hrf_dtype type, const uint16_t *from, float *to, int64_t n)
{
    for (int64_t i = 0; i < n; i += HRF_VECTOR_LANES) {
        const hrf_vector_mask some = hrf_first_lanes_avx512(n - i);
        hrf_store_avx512(HRF_F32, to + i, some, hrf_load_avx512(type, from + i, some));
    }
}

HRF_ALWAYS_INLINE void narrow(enum hrf_dtype type, const float *from, uint16_t *to, int64_t n)
{
    for (int64_t i = 0; i < n; i += HRF_VECTOR_LANES) {
        const hrf_vector_mask some = hrf_first_lanes_avx512(n - i);
        hrf_store_avx512(type, to + i, some, hrf_load_avx512(HRF_F32, from + i, some));
    }
}

void hrf_widen_avx512(enum hrf_dtype type, const void *from, float *to, int64_t n)
{
    if (type == HRF_B16)
        widen(HRF_B16, from, to, n);
    else
        widen(HRF_F16, from, to, n);
}

void hrf_narrow_avx512(enum hrf_dtype type, const float *from, void *to, int64_t n)
{
    if (type == HRF_B16)
        narrow(HRF_B16, from, to, n);
    else
        narrow(HRF_F16, from, to, n);
}
