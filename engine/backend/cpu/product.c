#include "engine/backend/cpu/product.h"

#include "engine/ir/number.h"

#include <oneapi/dnnl/dnnl.h>
#ifdef HRF_BUILD_AVX512
#include <cpuid.h>
#endif

static bool has(dnnl_cpu_isa_t isa)
{
#ifdef HRF_BUILD_AVX512
    return (dnnl_get_effective_cpu_isa() & isa) == isa;
#else
    (void)isa;
    return false;
#endif
}

bool hrf_cpu_has_avx512(void)
{
    return has(dnnl_cpu_isa_avx512_core);
}

bool hrf_cpu_has_avx512_bf16(void)
{
    return has(dnnl_cpu_isa_avx512_core_bf16);
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

size_t hrf_product_packed_count(int64_t depth, int64_t columns)
{
    return (size_t)((columns + HRF_PANEL - 1) / HRF_PANEL * HRF_PANEL * depth);
}

static void pack_floats(const float *w, int64_t depth_stride, int64_t column_stride, int64_t depth,
                        int64_t columns, float *packed)
{
    for (int64_t first = 0; first < columns; first += HRF_PANEL)
        for (int64_t k = 0; k < depth; k++)
            for (int64_t c = first; c < first + HRF_PANEL; c++)
                *packed++ = c < columns ? w[k * depth_stride + c * column_stride] : 0.0f;
}

static void pack_pairs(const float *w, int64_t depth_stride, int64_t column_stride, int64_t depth,
                       int64_t columns, uint16_t *packed)
{
    for (int64_t first = 0; first < columns; first += HRF_PANEL)
        for (int64_t k = 0; k < depth; k += 2)
            for (int64_t c = first; c < first + HRF_PANEL; c++)
                for (int64_t i = k; i < k + 2; i++)
                    *packed++ = hrf_b16_from_float(
                        c < columns ? w[i * depth_stride + c * column_stride] : 0.0f);
}

void hrf_product_pack(enum hrf_words words, const float *w, int64_t depth_stride,
                      int64_t column_stride, int64_t depth, int64_t columns, void *packed)
{
    if (words == HRF_PAIRS)
        pack_pairs(w, depth_stride, column_stride, depth, columns, packed);
    else
        pack_floats(w, depth_stride, column_stride, depth, columns, packed);
}
