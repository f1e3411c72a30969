#include "engine/backend/cpu/product.h"

#include "engine/backend/cpu/crossed.h"
#include "engine/backend/cpu/rows_avx512.h"
#include "engine/ir/number.h"

#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>
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

/* AMD's cores do: two units multiply and add, two more add (AMD, "Software Optimization Guide for
 * the AMD Zen4 Microarchitecture", 57647, floating-point unit; measured: 16 of each begin in the
 * time of 16). Intel's add where they multiply. Where all 512 bits go through at once, the loads of
 * crossed rows would take as long as the multiply-adds they save. */
bool hrf_cpu_adds_beside(void)
{
#ifdef HRF_BUILD_AVX512
    return hrf_cpu_has_avx512() && hrf_cpu_multiply_adds_per_cycle() == 16 &&
           __builtin_cpu_is("amd") != 0;
#else
    return false;
#endif
}

/* A row takes about as long as what it saves of one panel, and the ends of the tiles of a short one
 * as long as what its steps save. */
bool hrf_product_crossing_pays(int64_t depth, int64_t columns)
{
    enum { LEAST_DEPTH = 64 };
    return depth >= LEAST_DEPTH && columns > HRF_PANEL;
}

int64_t hrf_product_rows(enum hrf_words words)
{
    return words == HRF_CROSSED ? HRF_CROSSED_ROWS : HRF_MAX_ROWS;
}

size_t hrf_product_packed_count(enum hrf_words words, int64_t depth, int64_t columns)
{
    const int64_t steps = depth + (words == HRF_CROSSED ? HRF_CROSSED_ENDS : 0);
    return (size_t)((columns + HRF_PANEL - 1) / HRF_PANEL * HRF_PANEL * steps);
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

/* A column of a panel, scaled so that the root of its mean square is between 1/2 and 1; behind it
 * what is added to its sums, and what they are scaled by. */
static void pack_crossed_column(const float *w, int64_t stride, int64_t depth, float *to)
{
    const double sum = hrf_sum_squares(w, stride, depth);
    int exponent = 0;
    if (isfinite(sum)) {
        frexp(sqrt(sum / (double)depth), &exponent);
        for (int64_t k = 0; k < depth; k++)
            to[k * HRF_PANEL] = (float)ldexp(w[k * stride], -exponent);
    }
    double ends = isfinite(sum) ? 0 : INFINITY;
    for (int64_t first = 0; first + HRF_CROSSED_STEPS <= depth; first += HRF_CROSSED_STEPS)
        for (int64_t k = first; k + 1 < first + HRF_CROSSED_STEPS; k++)
            ends += (double)hrf_crossed_signs[k - first] * to[k * HRF_PANEL] *
                    to[(k + 1) * HRF_PANEL];
    to[depth * HRF_PANEL] = (float)ends;
    to[(depth + 1) * HRF_PANEL] = (float)ldexp(1, exponent);
}

static void pack_crossed(const float *w, int64_t depth_stride, int64_t column_stride, int64_t depth,
                         int64_t columns, float *packed)
{
    const size_t panel = hrf_product_packed_count(HRF_CROSSED, depth, 1);
    memset(packed, 0, hrf_product_packed_count(HRF_CROSSED, depth, columns) * sizeof(float));
    for (int64_t c = 0; c < columns; c++)
        pack_crossed_column(w + c * column_stride, depth_stride, depth,
                            packed + (size_t)(c / HRF_PANEL) * panel + c % HRF_PANEL);
}

void hrf_product_pack(enum hrf_words words, const float *w, int64_t depth_stride,
                      int64_t column_stride, int64_t depth, int64_t columns, void *packed)
{
    if (words == HRF_PAIRS)
        pack_pairs(w, depth_stride, column_stride, depth, columns, packed);
    else if (words == HRF_CROSSED)
        pack_crossed(w, depth_stride, column_stride, depth, columns, packed);
    else
        pack_floats(w, depth_stride, column_stride, depth, columns, packed);
}
