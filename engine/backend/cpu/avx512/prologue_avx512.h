/* prologue_avx512.h - the prologue on 16 channels in a register. Only for files that are compiled
 * with -mavx512f. */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_PROLOGUE_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_PROLOGUE_AVX512_H

#include "engine/backend/cpu/avx512/epilogue_avx512.h"
#include "engine/backend/cpu/conv/prologue.h"

#ifdef __AVX512F__
static inline __m512 hrf_prologue_avx512(__m512 x, __m512 factor, __m512 shift,
                                         const struct hrf_epilogue *activation)
{
    return hrf_activate_avx512(_mm512_fmadd_ps(x, factor, shift), activation);
}
#endif

#endif
