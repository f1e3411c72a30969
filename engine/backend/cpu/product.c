#include "engine/backend/cpu/product.h"

#include <oneapi/dnnl/dnnl.h>

bool hrf_cpu_has_avx512(void)
{
#ifdef HRF_BUILD_AVX512
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
#else
    return false;
#endif
}

size_t hrf_product_packed_count(int64_t depth, int64_t columns)
{
    return (size_t)((columns + HRF_PANEL - 1) / HRF_PANEL * HRF_PANEL * depth);
}

void hrf_product_pack(const float *w, int64_t depth_stride, int64_t column_stride, int64_t depth,
                      int64_t columns, float *packed)
{
    for (int64_t first = 0; first < columns; first += HRF_PANEL)
        for (int64_t k = 0; k < depth; k++)
            for (int64_t c = first; c < first + HRF_PANEL; c++)
                *packed++ = c < columns ? w[k * depth_stride + c * column_stride] : 0.0f;
}
