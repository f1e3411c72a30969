/* pool_avx512.c - the inner loops of pooling, for AVX-512. Compiled with -mavx512f. */
#include "engine/backend/cpu/avx512/pool_avx512.h"

#include "engine/backend/cpu/avx512/vector_avx512.h"

#include <immintrin.h>
#include <math.h>

enum { LANES = 16, MANY = 4 * LANES /* channels at a time */, LINE = 64 /* bytes */ };

HRF_ALWAYS_INLINE int64_t size_of(enum hrf_dtype type)
{
    return type == HRF_F32 ? 4 : 2;
}

/* n registers of channels. The maximum is its second operand where one is a NaN: a NaN in `best` is
 * left alone. */
HRF_ALWAYS_INLINE void max_of_some(const struct hrf_max_window *w, const enum hrf_dtype type,
                                   const int n, int64_t c, enum hrf_dtype y_type, char *y)
{
    const int64_t size = size_of(type), y_size = size_of(y_type);
    __mmask16 masks[MANY / LANES];
    __m512 best[MANY / LANES];
#pragma GCC unroll 4
    for (int k = 0; k < n; k++) {
        masks[k] = hrf_first_lanes_avx512(w->channels - c - k * LANES);
        best[k] = _mm512_set1_ps(-INFINITY);
    }
    for (int64_t i = 0; i < w->rows; i++)
        for (int64_t j = 0; j < w->columns; j++) {
            const char *p = (const char *)w->x + (i * w->row_step + j * w->column_step + c) * size;
#pragma GCC unroll 4
            for (int k = 0; k < n; k++)
                best[k] = _mm512_mask_max_ps(
                    best[k], _mm512_cmp_ps_mask(best[k], best[k], _CMP_ORD_Q), best[k],
                    hrf_load_avx512(type, p + k * LANES * size, masks[k]));
        }
#pragma GCC unroll 4
    for (int k = 0; k < n; k++)
        hrf_store_avx512(y_type, y + (c + k * LANES) * y_size, masks[k], best[k]);
}

HRF_ALWAYS_INLINE void max_of_window(const struct hrf_max_window *w, const enum hrf_dtype type,
                                     enum hrf_dtype y_type, char *y)
{
    for (int64_t c = 0; c < w->channels;) {
        const bool is_narrow = w->channels - c <= MANY / 2;
        if (is_narrow)
            max_of_some(w, type, 1, c, y_type, y);
        else
            max_of_some(w, type, MANY / LANES, c, y_type, y);
        c += is_narrow ? LANES : MANY;
    }
}

void hrf_max_window_avx512(const struct hrf_max_window *w, enum hrf_dtype type, void *y)
{
    if (w->type == HRF_F32)
        max_of_window(w, HRF_F32, type, y);
    else if (w->type == HRF_B16)
        max_of_window(w, HRF_B16, type, y);
    else
        max_of_window(w, HRF_F16, type, y);
    for (int64_t i = 0; i < w->n_ahead; i++)
        for (int64_t at = 0; at < w->ahead_bytes; at += LINE)
            _mm_prefetch(w->ahead + i * w->ahead_step + at, _MM_HINT_T1);
}

HRF_ALWAYS_INLINE void average_of_some(const struct hrf_max_window *w, const enum hrf_dtype type,
                                       int64_t c, __m512 factor, enum hrf_dtype y_type, char *y)
{
    const int64_t size = size_of(type), y_size = size_of(y_type);
    const __mmask16 mask0 = hrf_first_lanes_avx512(w->channels - c);
    const __mmask16 mask1 = hrf_first_lanes_avx512(w->channels - c - LANES);
    __m512 sum0 = _mm512_setzero_ps(), sum1 = sum0;
    for (int64_t i = 0; i < w->rows; i++)
        for (int64_t j = 0; j < w->columns; j++) {
            const char *p = (const char *)w->x + (i * w->row_step + j * w->column_step + c) * size;
            sum0 = _mm512_add_ps(sum0, hrf_load_avx512(type, p, mask0));
            sum1 = _mm512_add_ps(sum1, hrf_load_avx512(type, p + LANES * size, mask1));
        }
    hrf_store_avx512(y_type, y + c * y_size, mask0, _mm512_mul_ps(sum0, factor));
    hrf_store_avx512(y_type, y + (c + LANES) * y_size, mask1, _mm512_mul_ps(sum1, factor));
}

void hrf_average_window_avx512(const struct hrf_max_window *w, float scale, enum hrf_dtype type,
                               void *y)
{
    const __m512 factor = _mm512_set1_ps(scale);
    for (int64_t c = 0; c < w->channels; c += 2 * LANES)
        if (w->type == HRF_F32)
            average_of_some(w, HRF_F32, c, factor, type, y);
        else if (w->type == HRF_B16)
            average_of_some(w, HRF_B16, c, factor, type, y);
        else
            average_of_some(w, HRF_F16, c, factor, type, y);
}

/* Sums of 64 channels stay in registers over all lines; those that come soon are asked for. */
HRF_ALWAYS_INLINE void add_some(enum hrf_dtype type, const char *x, int64_t stride, int64_t n_lines,
                                int64_t n, double *sums)
{
    enum { DOUBLES = LANES / 2, AHEAD = 12 };
    const int64_t size = type == HRF_F32 ? 4 : 2;
    __m512d sum[2 * MANY / LANES];
    __mmask16 masks[MANY / LANES];
#pragma GCC unroll 4
    for (int k = 0; k < MANY / LANES; k++) {
        masks[k] = hrf_first_lanes_avx512(n - k * LANES);
        sum[2 * k] = _mm512_maskz_loadu_pd((__mmask8)(masks[k] & 0xff), sums + k * LANES);
        sum[2 * k + 1] = _mm512_maskz_loadu_pd((__mmask8)(masks[k] >> 8),
                                               sums + k * LANES + DOUBLES);
    }
    for (int64_t i = 0; i < n_lines; i++, x += stride * size)
#pragma GCC unroll 4
        for (int k = 0; k < MANY / LANES; k++) {
            _mm_prefetch(x + AHEAD * stride * size + k * LANES * size, _MM_HINT_T0);
            const __m512 line = hrf_load_avx512(type, x + k * LANES * size, masks[k]);
            sum[2 * k] = _mm512_add_pd(sum[2 * k], _mm512_cvtps_pd(_mm512_castps512_ps256(line)));
            sum[2 * k + 1] = _mm512_add_pd(sum[2 * k + 1],
                                           _mm512_cvtps_pd(_mm512_extractf32x8_ps(line, 1)));
        }
#pragma GCC unroll 4
    for (int k = 0; k < MANY / LANES; k++) {
        _mm512_mask_storeu_pd(sums + k * LANES, (__mmask8)(masks[k] & 0xff), sum[2 * k]);
        _mm512_mask_storeu_pd(sums + k * LANES + DOUBLES, (__mmask8)(masks[k] >> 8),
                              sum[2 * k + 1]);
    }
}

HRF_ALWAYS_INLINE void add_as(enum hrf_dtype type, const char *x, int64_t stride, int64_t n_lines,
                              int64_t n, double *sums)
{
    const int64_t size = type == HRF_F32 ? 4 : 2;
    for (int64_t c = 0; c < n; c += MANY)
        add_some(type, x + c * size, stride, n_lines, n - c, sums + c);
}

void hrf_add_lines_avx512(enum hrf_dtype type, const void *x, int64_t stride, int64_t n_lines,
                          int64_t n, double *sums)
{
    if (type == HRF_F32)
        add_as(HRF_F32, x, stride, n_lines, n, sums);
    else if (type == HRF_B16)
        add_as(HRF_B16, x, stride, n_lines, n, sums);
    else
        add_as(HRF_F16, x, stride, n_lines, n, sums);
}
