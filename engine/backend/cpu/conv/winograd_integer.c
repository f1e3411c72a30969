#include "engine/backend/cpu/conv/winograd_integer.h"

#include <oneapi/dnnl/dnnl.h>

bool hrf_cpu_has_vnni(void)
{
#if defined(HRF_EMULATE_AVX512)
    return true;
#elif defined(HRF_BUILD_AVX512)
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return isa == dnnl_cpu_isa_avx512_core_vnni || isa == dnnl_cpu_isa_avx512_core_bf16;
#else
    return false;
#endif
}
