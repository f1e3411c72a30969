/* float_product.c - chooses the product for this processor, and its panels (float_product.h). */
#include "engine/backend/cpu/float_product.h"

#include "base/min_max.h"
#include "engine/backend/cpu/instructions.h"

int64_t hrf_float_product_count_panels(int64_t columns)
{
    return hrf_cpu_has_avx512() ? hrf_product_count_panels(columns)
                                : hrf_ceil_div(columns, HRF_NARROW_PANEL);
}

int64_t hrf_float_product_panel_begin(int64_t columns, int64_t panel)
{
    return hrf_cpu_has_avx512() ? hrf_product_panel_begin(columns, panel)
                                : panel * HRF_NARROW_PANEL;
}

void hrf_float_product_pack(const float *w, int64_t depth_stride, int64_t column_stride,
                            int64_t depth, int64_t columns, int64_t first_panel, int64_t end_panel,
                            float *packed)
{
    for (int64_t panel = first_panel; panel < end_panel; panel++) {
        const int64_t begin = hrf_float_product_panel_begin(columns, panel);
        const int64_t end = hrf_float_product_panel_begin(columns, panel + 1);
        hrf_product_pack(HRF_WORD_F32, w + begin * column_stride, depth_stride, column_stride,
                         depth, hrf_min(end, columns) - begin, packed + begin * depth);
    }
}

void hrf_float_product(const struct hrf_float_product *p)
{
#ifdef HRF_BUILD_AVX512
    if (hrf_cpu_has_avx512()) {
        const struct hrf_epilogue end = { .bias = p->bias,
                                          .type = HRF_F32,
                                          .accumulate = p->accumulate };
        const struct hrf_ahead nothing = { 0 };
        hrf_product_avx512(HRF_WORD_F32, p->a, p->a_stride, p->packed, p->depth, p->y, p->y_stride,
                           p->n_rows, p->columns, p->first_panel, p->end_panel, &end, &nothing);
        return;
    }
#endif
#ifdef HRF_BUILD_AVX2
    hrf_float_product_avx2(p);
#else
    hrf_float_product_plain(p);
#endif
}
