/* rows_of_tokens_avx512.h - loops of transformers over rows of elements, with AVX-512:
 * normalisation, SwiGLU, packing. A row is summed in an order that depends on its length alone.
 *
 * Types are F32, F16 or B16; all is computed in float32.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_ROWS_OF_TOKENS_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_ROWS_OF_TOKENS_AVX512_H

#include "engine/ir/graph.h"

#include <stdbool.h>
#include <stdint.h>

/* y = (x - mean) / sqrt(variance + epsilon) * scale + bias over n elements; is_rms: with a mean of
 * 0. scale, bias: NULL, or one value per element. The mean is corrected by the sum of the
 * differences from it, so that a large mean costs no precision. */
struct hrf_row_norm {
    enum hrf_dtype x_type, y_type;
    int64_t n;
    bool is_rms;
    float epsilon;
    const float *scale, *bias;
};
void hrf_row_norm_avx512(const struct hrf_row_norm *norm, const void *x, void *y);
/* The same for up to HRF_NORM_ROWS contiguous rows of float32. */
enum { HRF_NORM_ROWS = 6 };
void hrf_rows_norm_avx512(const struct hrf_row_norm *norm, int64_t n_rows, const float *x,
                          float *y);

/* y[i] = swish(x[i]) * x[n + i] */
void hrf_row_swiglu_avx512(enum hrf_dtype x_type, const void *x, enum hrf_dtype y_type, void *y,
                           int64_t n);

/* Copy a matrix [n][columns], whose rows are row_stride elements apart, as floats: transposed to
 * [columns][width], or unchanged to [n][width]. width: a multiple of 16; elements beyond n, or
 * columns, become 0. */
void hrf_transpose_avx512(enum hrf_dtype type, const void *from, int64_t row_stride, int64_t n,
                          int64_t columns, int64_t width, float *to);
/* Packs a matrix of bfloat16 into words of two rows: [(n + 1) / 2][width]; padded as above. */
void hrf_pair_rows_avx512(const uint16_t *from, int64_t row_stride, int64_t n, int64_t columns,
                          int64_t width, uint32_t *to);
void hrf_widen_rows_avx512(enum hrf_dtype type, const void *from, int64_t row_stride, int64_t n,
                           int64_t columns, int64_t width, float *to);

#endif
