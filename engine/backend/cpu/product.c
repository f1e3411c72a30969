#include "engine/backend/cpu/product.h"

#include "engine/backend/cpu/instructions.h"
#include "engine/ir/number.h"

#include <string.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

/* The processor is asked only once: in a virtual machine the hypervisor answers, which takes
 * long. */
int64_t hrf_product_chain(enum hrf_word_type word_type)
{
    static _Atomic int64_t of_pairs;
    if (word_type != HRF_WORD_B16_PAIR)
        return HRF_PRODUCT_CHAIN;
    int64_t chain = of_pairs;
    if (chain == 0)
        of_pairs = chain = hrf_cpu_multiply_adds_per_cycle() == 16 ? HRF_PRODUCT_MOST_CHAIN
                                                                   : HRF_PRODUCT_CHAIN;
    return chain;
}

enum { LANES = 16, MOST = HRF_PANEL / LANES };

static int64_t count_registers(int64_t columns)
{
    return (columns + LANES - 1) / LANES;
}

int64_t hrf_product_count_panels(int64_t columns)
{
    return (count_registers(columns) + MOST - 1) / MOST;
}

int64_t hrf_product_panel_begin(int64_t columns, int64_t panel)
{
    return count_registers(columns) * panel / hrf_product_count_panels(columns) * LANES;
}

size_t hrf_product_packed_count(int64_t depth, int64_t columns)
{
    return (size_t)(count_registers(columns) * LANES * depth);
}

/* Transposes a panel whose columns are contiguous in `w`, in tiles of 4 x 4 floats. Returns how
 * much of the depth was transposed: whole tiles. */
static int64_t transpose_panel(const float *w, int64_t column_stride, int64_t depth, int64_t width,
                               float *packed)
{
    int64_t k = 0;
#ifdef __SSE__
    for (; k + 4 <= depth; k += 4)
        for (int64_t c = 0; c < width; c += 4) {
            const float *at = w + c * column_stride + k;
            __m128 a = _mm_loadu_ps(at), b = _mm_loadu_ps(at + column_stride);
            __m128 d = _mm_loadu_ps(at + 2 * column_stride);
            __m128 e = _mm_loadu_ps(at + 3 * column_stride);
            _MM_TRANSPOSE4_PS(a, b, d, e);
            _mm_storeu_ps(packed + k * width + c, a);
            _mm_storeu_ps(packed + (k + 1) * width + c, b);
            _mm_storeu_ps(packed + (k + 2) * width + c, d);
            _mm_storeu_ps(packed + (k + 3) * width + c, e);
        }
#endif
    return k;
}

/* Copies a panel whose rows are contiguous in `w`. */
static void copy_panel(const float *w, int64_t depth_stride, int64_t depth, int64_t width,
                       float *packed)
{
    for (int64_t k = 0; k < depth; k++, w += depth_stride)
        for (int64_t c = 0; c < width; c += LANES, packed += LANES)
            memcpy(packed, w + c, LANES * sizeof *packed);
}

void hrf_product_pack(enum hrf_word_type word_type, const float *w, int64_t depth_stride,
                      int64_t column_stride, int64_t depth, int64_t columns, void *packed)
{
    const int64_t per_word = word_type == HRF_WORD_B16_PAIR ? 2 : 1;
    float *floats = packed;
    uint16_t *halves = packed;
    const int64_t n_panels = hrf_product_count_panels(columns);
    for (int64_t panel = 0; panel < n_panels; panel++) {
        const int64_t begin = hrf_product_panel_begin(columns, panel);
        const int64_t end = hrf_product_panel_begin(columns, panel + 1);
        int64_t done = 0;
        if (word_type != HRF_WORD_B16_PAIR && depth_stride == 1 && end <= columns) {
            done = transpose_panel(w + begin * column_stride, column_stride, depth, end - begin,
                                   floats);
        } else if (word_type != HRF_WORD_B16_PAIR && column_stride == 1 && end <= columns) {
            copy_panel(w + begin, depth_stride, depth, end - begin, floats);
            done = depth;
        }
        floats += done * (end - begin);
        for (int64_t k = done; k < depth; k += per_word)
            for (int64_t c = begin; c < end; c++)
                for (int64_t i = k; i < k + per_word; i++) {
                    const float x = c < columns ? w[i * depth_stride + c * column_stride] : 0.0f;
                    if (word_type == HRF_WORD_B16_PAIR)
                        *halves++ = hrf_b16_from_float(x);
                    else
                        *floats++ = x;
                }
    }
}
