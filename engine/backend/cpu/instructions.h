/* instructions.h - which instructions kernels may use: the processor has them and oneDNN may use
 * them (ONEDNN_MAX_CPU_ISA lowers both).
 *
 * A build that computes AVX-512's lane by lane (cmake/avx512.cmake) has them on every processor.
 * What oneDNN's own kernels do follows from dnnl_get_effective_cpu_isa(). Any thread may ask.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_INSTRUCTIONS_H
#define HRF_ENGINE_BACKEND_CPU_INSTRUCTIONS_H

#include <stdbool.h>

/* What dnnl_get_effective_cpu_isa() says, asked once: it asks a processor with AMX again each time,
 * and in a virtual machine the hypervisor answers, which takes longer than many a loop. */
int hrf_cpu_isa(void);
bool hrf_cpu_has_avx2(void); /* and FMA */
/* Only where kernels for AVX-512 are built. */
bool hrf_cpu_has_avx512(void);      /* F, DQ, BW and VL */
bool hrf_cpu_has_avx512_vnni(void); /* and products of bytes */
bool hrf_cpu_has_avx512_vbmi(void); /* and permutations of bytes */
bool hrf_cpu_has_avx512_bf16(void); /* and products of bfloat16 */
/* Its products of bytes and bfloat16 are oneDNN's. */
bool hrf_cpu_has_amx(void);
/* Of floats, that a core can begin: 32, or 16 where 512 bits go through in two halves. */
int hrf_cpu_multiply_adds_per_cycle(void);

#endif
