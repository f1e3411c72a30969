/* byte_product.h - the product of float rows and a constant matrix of 8-bit integers, for GEMMs
 * whose weights are S8 and whose rows are float32. Each row (token) is quantised with its own scale
 * when it is read (dynamic quantisation).
 *
 *   most  = max over k of |x[k] * f[k]|           f: factors, 1 if there are none
 *   q[k]  = round half to even(x[k] * f[k] * (127 / most))
 *   y[c]  = activation((float)(sum of q[k] * w[c][k]) * w_scale[c] * (most / 127) + bias[c] +
 * residual[c])
 *
 * Each step in float32, in this order and without fused multiply-adds, so that every implementation
 * gives the same bits before the activation. A row whose `most` is below 2^-100 counts as zeros. A
 * row that holds a NaN or an infinite number gives NaNs. Sums are exact 32-bit integers: the bits
 * of a row depend neither on the other rows nor on the number of threads.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_TRANSFORMER_BYTE_PRODUCT_H
#define HRF_ENGINE_BACKEND_CPU_TRANSFORMER_BYTE_PRODUCT_H

#include "engine/backend/cpu/avx512/rows_of_tokens_avx512.h"
#include "engine/backend/cpu/plain/integer_product.h"
#include "engine/backend/cpu/product.h"

/* Rows are multiplied in groups of this many, whose sums all fit in registers. */
enum { HRF_BYTE_ROWS = 6 };

struct hrf_byte_product {
    int64_t depth, columns;
    const float *factors; /* [depth]; NULL: none */
    const float
        *scales; /* [columns], of the weights; padded to a multiple of 16, as are bias and sums */
    struct hrf_epilogue epilogue; /* bias (not NULL) and activation; `accumulate` is not used */
    /* The following are NULL without AVX-512 VNNI. */
    const int8_t *packed; /* panels like those of product.h, in steps of four elements of the depth,
                             which is padded with zeros: [steps][panel's columns][4] */
    const int32_t *sums;  /* [columns]: 128 times the sum of each column's weights */
};

/* ---- with the products of integer_product.h ---- */

/* For each instruction set NAME: hrf_byte_round_NAME() rounds a row to integers and returns its
 * scale. hrf_byte_finish_NAME() computes the steps from sums to outputs before the activation.
 * `residual` (may be NULL, or y) begins, like y, at the first row and column. */
#define HRF_BYTE_DECLARE(name)                                                                     \
    float hrf_byte_round_##name(const struct hrf_byte_product *product, const float *x,            \
                                int16_t *q);                                                       \
    void hrf_byte_finish_##name(const struct hrf_byte_product *product,                            \
                                const struct hrf_integer_rows *rows, int64_t column, int64_t n,    \
                                const int32_t *sums, const float *residual, float *y);
HRF_BYTE_DECLARE(plain)
HRF_BYTE_DECLARE(avx2)

/* ---- AVX-512 VNNI ---- */

static inline int64_t hrf_byte_steps(int64_t depth)
{
    return (depth + 3) / 4;
}
/* Bytes from one rounded row to the next: whole cache lines, and no multiple of 1 KiB, so that six
 * rows do not compete for few sets of the L1 cache. */
static inline int64_t hrf_byte_stride(int64_t depth)
{
    const int64_t lines = (depth + 63) / 64;
    return (lines % 16 == 0 ? lines + 1 : lines) * 64;
}
/* Bytes of scratch for n_rows rows: their integers plus 128, their scales, and normalised floats of
 * the rows that are multiplied together. */
static inline int64_t hrf_byte_scratch(int64_t depth, int64_t n_rows)
{
    const int64_t groups = (n_rows + HRF_BYTE_ROWS - 1) / HRF_BYTE_ROWS;
    return groups * HRF_BYTE_ROWS * (hrf_byte_stride(depth) + (int64_t)sizeof(float)) +
           HRF_BYTE_ROWS * depth * (int64_t)sizeof(float);
}

/* Computes panels [first_panel, end_panel) of n_rows rows, which are normalised before they are
 * rounded unless `norm`, of float32, is NULL. `residual` (may be NULL, or y) has the stride of y;
 * `ahead` is memory to prefetch; `scratch` is aligned to a cache line. With AVX-512 VNNI only. */
void hrf_byte_product_avx512(const struct hrf_byte_product *product,
                             const struct hrf_row_norm *norm, const float *x, const float *residual,
                             float *y, int64_t n_rows, int64_t first_panel, int64_t end_panel,
                             const struct hrf_ahead *ahead, void *scratch);

#endif
