/* processor.h - which vector instructions the processor has and the operating system lets a process
 * use. Kernels of the CPU back end ask engine/backend/cpu/instructions.h, which also knows what
 * oneDNN may use. Any thread may ask.
 */
#ifndef HRF_BASE_PROCESSOR_H
#define HRF_BASE_PROCESSOR_H

#include <stdbool.h>

#ifdef __x86_64__
#define HRF_PROCESSOR_HAS(instructions) (__builtin_cpu_supports(instructions) != 0)
#else
#define HRF_PROCESSOR_HAS(instructions) false
#endif

/* FMA, too. */
static inline bool hrf_processor_has_avx2(void)
{
    return HRF_PROCESSOR_HAS("avx2") && HRF_PROCESSOR_HAS("fma");
}

/* F, DQ, BW and VL. */
static inline bool hrf_processor_has_avx512(void)
{
    return HRF_PROCESSOR_HAS("avx512f") && HRF_PROCESSOR_HAS("avx512dq") &&
           HRF_PROCESSOR_HAS("avx512bw") && HRF_PROCESSOR_HAS("avx512vl");
}

static inline bool hrf_processor_has_avx512_vbmi(void)
{
    return HRF_PROCESSOR_HAS("avx512vbmi");
}

#endif
