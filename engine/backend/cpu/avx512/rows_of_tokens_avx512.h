/* rows_of_tokens_avx512.h - loops of transformers over one row of numbers, where there is AVX-512:
 * normalisation, softmax, SwiGLU. A row is summed in an order that depends on its length alone.
 *
 * Types are F32, F16 or B16; all is computed in float32.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_ROWS_OF_TOKENS_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_ROWS_OF_TOKENS_AVX512_H

#include "engine/ir/graph.h"

#include <stdbool.h>
#include <stdint.h>

/* y = (x - mean) / sqrt(variance + epsilon) * scale + bias over n numbers; is_rms: with a mean of
 * 0. scale, bias: NULL or one each. The mean is corrected by the sum of the differences from it, so
 * that a large mean costs no digits. */
struct hrf_row_norm {
    enum hrf_dtype x_type, y_type;
    int64_t n;
    bool is_rms;
    float epsilon;
    const float *scale, *bias;
};
void hrf_row_norm_avx512(const struct hrf_row_norm *norm, const void *x, void *y);
/* The same of up to HRF_NORM_ROWS rows of float32 that follow each other. */
enum { HRF_NORM_ROWS = 6 };
void hrf_rows_norm_avx512(const struct hrf_row_norm *norm, int64_t n_rows, const float *x,
                          float *y);

/* In place, of up to HRF_SOFTMAX_ROWS rows: x = exp((x + mask - most) * scale) / their sum, for n
 * numbers; mask: NULL or n numbers that are added after scaling. A row of -INFINITY becomes zeros.
 * x is of n_padded numbers, those beyond n become 0. */
enum { HRF_SOFTMAX_ROWS = 8 };
struct hrf_softmax_row {
    float *x;
    int64_t n;
    const float *mask;
};
void hrf_rows_softmax_avx512(const struct hrf_softmax_row *rows, int64_t n_rows, int64_t n_padded,
                             float scale);

/* The same as numbers of bfloat16, which follow each other from where a row begins: to the nearest
 * of what is off by less than 2^-13. n_padded may be 15 less than the floats of a row. Only where
 * hrf_cpu_has_avx512_bf16(). */
void hrf_rows_softmax_b16_avx512(const struct hrf_softmax_row *rows, int64_t n_rows,
                                 int64_t n_padded, float scale);

/* In place: x = exp(x - most), for n numbers; returns most, the largest of them and of `before`,
 * and sets *sum to the sum of the exponentials. */
float hrf_row_exponentials_avx512(float *x, int64_t n, float before, float *sum);

/* y[i] = swish(x[i]) * x[n + i] */
void hrf_row_swiglu_avx512(enum hrf_dtype x_type, const void *x, enum hrf_dtype y_type, void *y,
                           int64_t n);

/* A matrix [n][columns], rows row_stride numbers apart, as floats: turned, [columns][width], or as
 * it is, [n][width]. width: a multiple of 16; numbers beyond n, or columns, are 0. */
void hrf_turn_avx512(enum hrf_dtype type, const void *from, int64_t row_stride, int64_t n,
                     int64_t columns, int64_t width, float *to);
/* A matrix of bfloat16 as words of two rows: [(n + 1) / 2][width]; padded as above. */
void hrf_pair_rows_avx512(const uint16_t *from, int64_t row_stride, int64_t n, int64_t columns,
                          int64_t width, uint32_t *to);
void hrf_widen_rows_avx512(enum hrf_dtype type, const void *from, int64_t row_stride, int64_t n,
                           int64_t columns, int64_t width, float *to);

#endif
