/* rows_of_tokens_avx512.c - see rows_of_tokens_avx512.h. Compiled with -mavx512f. */
#include "engine/backend/cpu/avx512/rows_of_tokens_avx512.h"

#include "engine/backend/cpu/avx512/math_avx512.h"

#include <math.h>

enum { LANES = 16 };

/* ---- normalisation ---- */

HRF_ALWAYS_INLINE __m512 load_at(enum hrf_dtype type, const char *x, int64_t i, __mmask16 mask)
{
    return hrf_load_avx512(type, x + i * (type == HRF_F32 ? 4 : 2), mask);
}

HRF_ALWAYS_INLINE float mean_of(enum hrf_dtype type, const char *x, int64_t n)
{
    __m512 sum = _mm512_setzero_ps();
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sum = _mm512_add_ps(sum, load_at(type, x, i, 0xffff));
    if (i < n)
        sum = _mm512_add_ps(sum, load_at(type, x, i, hrf_first_lanes_avx512(n - i)));
    return _mm512_reduce_add_ps(sum) / (float)n;
}

/* Adds a register's differences from the mean, and their squares. */
HRF_ALWAYS_INLINE void add_differences(__m512 x, __m512 mean, __mmask16 mask, __m512 *sum,
                                       __m512 *squares)
{
    const __m512 d = _mm512_maskz_sub_ps(mask, x, mean);
    *sum = _mm512_add_ps(*sum, d);
    *squares = _mm512_fmadd_ps(d, d, *squares);
}

/* Computes the sums of the differences from `mean` and of their squares. */
HRF_ALWAYS_INLINE void differences(enum hrf_dtype type, const char *x, int64_t n, float mean,
                                   float *first, float *second)
{
    const __m512 m = _mm512_set1_ps(mean);
    __m512 sum = _mm512_setzero_ps(), squares = sum;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        add_differences(load_at(type, x, i, 0xffff), m, 0xffff, &sum, &squares);
    const __mmask16 rest = hrf_first_lanes_avx512(n - i);
    if (i < n)
        add_differences(load_at(type, x, i, rest), m, rest, &sum, &squares);
    *first = _mm512_reduce_add_ps(sum);
    *second = _mm512_reduce_add_ps(squares);
}

/* The normalisation of a row: (x - mean - off) * factor. */
struct norm_of_row {
    float mean, off, factor;
};

HRF_ALWAYS_INLINE void finish_moments(const struct hrf_row_norm *p, enum hrf_dtype x_type,
                                      const char *x, struct norm_of_row *row)
{
    float sum, squares;
    differences(x_type, x, p->n, row->mean, &sum, &squares);
    row->off = p->is_rms ? 0 : sum / (float)p->n;
    const float variance = squares / (float)p->n - row->off * row->off;
    row->factor = 1 / sqrtf((variance < 0 ? 0 : variance) + p->epsilon);
}

HRF_ALWAYS_INLINE void apply_at(const struct hrf_row_norm *p, const struct norm_of_row *row,
                                int64_t i, __mmask16 mask, enum hrf_dtype x_type, const char *x,
                                enum hrf_dtype y_type, char *y)
{
    __m512 v = _mm512_sub_ps(load_at(x_type, x, i, mask), _mm512_set1_ps(row->mean));
    v = _mm512_mul_ps(_mm512_sub_ps(v, _mm512_set1_ps(row->off)), _mm512_set1_ps(row->factor));
    if (p->scale != NULL)
        v = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, p->scale + i));
    if (p->bias != NULL)
        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, p->bias + i));
    hrf_store_avx512(y_type, y + i * (y_type == HRF_F32 ? 4 : 2), mask, v);
}

HRF_ALWAYS_INLINE void apply(const struct hrf_row_norm *norm, const struct norm_of_row *of_row,
                             enum hrf_dtype x_type, const char *x, enum hrf_dtype y_type, char *y)
{
    const struct hrf_row_norm p = *norm;
    const struct norm_of_row row = *of_row;
    int64_t i = 0;
    for (; i + LANES <= p.n; i += LANES)
        apply_at(&p, &row, i, 0xffff, x_type, x, y_type, y);
    if (i < p.n)
        apply_at(&p, &row, i, hrf_first_lanes_avx512(p.n - i), x_type, x, y_type, y);
}

HRF_ALWAYS_INLINE void norm_as(const struct hrf_row_norm *p, enum hrf_dtype x_type, const char *x,
                               enum hrf_dtype y_type, char *y)
{
    struct norm_of_row row = { .mean = p->is_rms ? 0 : mean_of(x_type, x, p->n) };
    finish_moments(p, x_type, x, &row);
    apply(p, &row, x_type, x, y_type, y);
}

void hrf_row_norm_avx512(const struct hrf_row_norm *p, const void *x, void *y)
{
    if (p->x_type == HRF_F32 && p->y_type == HRF_F32)
        norm_as(p, HRF_F32, x, HRF_F32, y);
    else if (p->x_type == HRF_B16 && p->y_type == HRF_B16)
        norm_as(p, HRF_B16, x, HRF_B16, y);
    else
        norm_as(p, p->x_type, x, p->y_type, y);
}

/* Each loop runs over all rows, so that the processor works on other rows while it waits for one
 * row's sums. */
void hrf_rows_norm_avx512(const struct hrf_row_norm *p, int64_t n_rows, const float *x, float *y)
{
    struct norm_of_row rows[HRF_NORM_ROWS];
    const char *from = (const char *)x;
    char *to = (char *)y;
    const int64_t bytes = p->n * (int64_t)sizeof(float);
    for (int64_t r = 0; r < n_rows; r++)
        rows[r].mean = p->is_rms ? 0 : mean_of(HRF_F32, from + r * bytes, p->n);
    for (int64_t r = 0; r < n_rows; r++)
        finish_moments(p, HRF_F32, from + r * bytes, &rows[r]);
    for (int64_t r = 0; r < n_rows; r++)
        apply(p, &rows[r], HRF_F32, from + r * bytes, HRF_F32, to + r * bytes);
}

/* ---- SwiGLU ---- */

HRF_ALWAYS_INLINE void swiglu_as(enum hrf_dtype x_type, const char *x, enum hrf_dtype y_type,
                                 char *y, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 mask = hrf_first_lanes_avx512(n - i);
        const __m512 gate = load_at(x_type, x, i, mask), v = load_at(x_type, x, n + i, mask);
        hrf_store_avx512(y_type, y + i * (y_type == HRF_F32 ? 4 : 2), mask,
                         hrf_v_swish(gate, hrf_v_all(1.0f)) * v);
    }
}

void hrf_row_swiglu_avx512(enum hrf_dtype x_type, const void *x, enum hrf_dtype y_type, void *y,
                           int64_t n)
{
    if (x_type == HRF_F32 && y_type == HRF_F32)
        swiglu_as(HRF_F32, x, HRF_F32, y, n);
    else
        swiglu_as(x_type, x, y_type, y, n);
}

/* ---- packing ---- */

/* Transposes 16 registers of 16 floats, in steps of pairs, fours, halves of registers and
 * registers. */
static void transpose_square(__m512 r[LANES])
{
    __m512 t[LANES];
    for (int i = 0; i < LANES; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < LANES; i += 4) {
        r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < LANES; i += 8)
        for (int k = 0; k < 4; k++) {
            t[i + k] = _mm512_shuffle_f32x4(r[i + k], r[i + k + 4], 0x88);
            t[i + k + 4] = _mm512_shuffle_f32x4(r[i + k], r[i + k + 4], 0xdd);
        }
    for (int k = 0; k < 8; k++) {
        r[k] = _mm512_shuffle_f32x4(t[k], t[k + 8], 0x88);
        r[k + 8] = _mm512_shuffle_f32x4(t[k], t[k + 8], 0xdd);
    }
}

void hrf_transpose_avx512(enum hrf_dtype type, const void *from, int64_t row_stride, int64_t n,
                          int64_t columns, int64_t width, float *to)
{
    for (int64_t first = 0; first < width; first += LANES)
        for (int64_t c = 0; c < columns; c += LANES) {
            const __mmask16 mask = hrf_first_lanes_avx512(columns - c);
            __m512 r[LANES];
            for (int64_t i = 0; i < LANES; i++)
                r[i] = first + i < n ? load_at(type, from, (first + i) * row_stride + c, mask)
                                     : _mm512_setzero_ps();
            transpose_square(r);
            for (int64_t i = 0; i < LANES && c + i < columns; i++)
                _mm512_storeu_ps(to + (c + i) * width + first, r[i]);
        }
}

void hrf_pair_rows_avx512(const uint16_t *from, int64_t row_stride, int64_t n, int64_t columns,
                          int64_t width, uint32_t *to)
{
    for (int64_t i = 0; i < n; i += 2, from += 2 * row_stride, to += width)
        for (int64_t c = 0; c < width; c += LANES) {
            const __mmask16 mask = hrf_first_lanes_avx512(columns - c);
            const __mmask16 next = i + 1 < n ? mask : 0;
            const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + c));
            const __m512i high = _mm512_cvtepu16_epi32(
                _mm256_maskz_loadu_epi16(next, from + row_stride + c));
            _mm512_storeu_si512(to + c, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
        }
}

void hrf_widen_rows_avx512(enum hrf_dtype type, const void *from, int64_t row_stride, int64_t n,
                           int64_t columns, int64_t width, float *to)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < width; c += LANES) {
            const __mmask16 mask = hrf_first_lanes_avx512(columns - c);
            _mm512_storeu_ps(to + i * width + c, load_at(type, from, i * row_stride + c, mask));
        }
}
