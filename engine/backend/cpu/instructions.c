/* instructions.c - see instructions.h: what oneDNN says, what the processor says, and what this
 * build has kernels for. */
#include "engine/backend/cpu/instructions.h"

#include "base/processor.h"

#include <oneapi/dnnl/dnnl.h>

#ifdef HRF_BUILD_AVX512
#include <cpuid.h>
#endif

#if defined(HRF_EMULATE_AVX512)
enum { IS_EMULATED = true };
#define IF_BUILT(has) true
#else
enum { IS_EMULATED = false };
#ifdef HRF_BUILD_AVX512
#define IF_BUILT(has) (has)
#else
#define IF_BUILT(has) false
#endif
#endif

int hrf_cpu_isa(void)
{
    static _Atomic int known; /* 0: not asked yet */
    int isa = known;
    if (isa == 0)
        known = isa = (int)dnnl_get_effective_cpu_isa();
    return isa;
}

static bool has(dnnl_cpu_isa_t isa)
{
    return (hrf_cpu_isa() & (int)isa) == (int)isa;
}

bool hrf_cpu_has_avx2(void)
{
    return has(dnnl_cpu_isa_avx2) && hrf_processor_has_avx2();
}

bool hrf_cpu_has_avx512(void)
{
    return IF_BUILT(has(dnnl_cpu_isa_avx512_core));
}

bool hrf_cpu_has_avx512_vnni(void)
{
    return IF_BUILT(has(dnnl_cpu_isa_avx512_core_vnni));
}

bool hrf_cpu_has_avx512_vbmi(void)
{
    return IF_BUILT(has(dnnl_cpu_isa_avx512_core) && hrf_processor_has_avx512_vbmi());
}

bool hrf_cpu_has_avx512_bf16(void)
{
    return IF_BUILT(has(dnnl_cpu_isa_avx512_core_bf16));
}

bool hrf_cpu_has_amx(void)
{
    return !IS_EMULATED && has(dnnl_cpu_isa_avx512_core_amx);
}

int hrf_cpu_multiply_adds_per_cycle(void)
{
#ifdef HRF_BUILD_AVX512
    enum { FP256 = 1 << 2, FP512 = 1 << 3 }; /* width of the datapath: in eax of this leaf */
    unsigned int eax, ebx, ecx, edx;
    if (__get_cpuid(0x8000001a, &eax, &ebx, &ecx, &edx) != 0 && (eax & (FP256 | FP512)) == FP256)
        return 16;
#endif
    return 32;
}
