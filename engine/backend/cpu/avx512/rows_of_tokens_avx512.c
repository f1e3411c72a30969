/* rows_of_tokens_avx512.c - see rows_of_tokens_avx512.h. Compiled with -mavx512f. */
#include "engine/backend/cpu/avx512/rows_of_tokens_avx512.h"

#include "engine/backend/cpu/avx512/math_avx512.h"
#include "engine/backend/cpu/avx512/number_avx512.h"

#include <math.h>

enum { LANES = 16 };

#define ALWAYS static inline __attribute__((always_inline))

/* ---- normalisation ---- */

ALWAYS __m512 load_at(enum hrf_dtype type, const char *x, int64_t i, __mmask16 mask)
{
    return hrf_load_avx512(type, x + i * (type == HRF_F32 ? 4 : 2), mask);
}

ALWAYS float mean_of(enum hrf_dtype type, const char *x, int64_t n)
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
ALWAYS void add_differences(__m512 x, __m512 mean, __mmask16 mask, __m512 *sum, __m512 *squares)
{
    const __m512 d = _mm512_maskz_sub_ps(mask, x, mean);
    *sum = _mm512_add_ps(*sum, d);
    *squares = _mm512_fmadd_ps(d, d, *squares);
}

/* Sums of the differences from `mean` and of their squares. */
ALWAYS void differences(enum hrf_dtype type, const char *x, int64_t n, float mean, float *first,
                        float *second)
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

/* What a row's numbers become: (x - mean - off) * factor. */
struct norm_of_row {
    float mean, off, factor;
};

ALWAYS void finish_moments(const struct hrf_row_norm *p, enum hrf_dtype x_type, const char *x,
                           struct norm_of_row *row)
{
    float sum, squares;
    differences(x_type, x, p->n, row->mean, &sum, &squares);
    row->off = p->is_rms ? 0 : sum / (float)p->n;
    const float variance = squares / (float)p->n - row->off * row->off;
    row->factor = 1 / sqrtf((variance < 0 ? 0 : variance) + p->epsilon);
}

ALWAYS void apply_at(const struct hrf_row_norm *p, const struct norm_of_row *row, int64_t i,
                     __mmask16 mask, enum hrf_dtype x_type, const char *x, enum hrf_dtype y_type,
                     char *y)
{
    __m512 v = _mm512_sub_ps(load_at(x_type, x, i, mask), _mm512_set1_ps(row->mean));
    v = _mm512_mul_ps(_mm512_sub_ps(v, _mm512_set1_ps(row->off)), _mm512_set1_ps(row->factor));
    if (p->scale != NULL)
        v = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, p->scale + i));
    if (p->bias != NULL)
        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, p->bias + i));
    hrf_store_avx512(y_type, y + i * (y_type == HRF_F32 ? 4 : 2), mask, v);
}

ALWAYS void apply(const struct hrf_row_norm *norm, const struct norm_of_row *of_row,
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

ALWAYS void norm_as(const struct hrf_row_norm *p, enum hrf_dtype x_type, const char *x,
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

/* Each loop over all rows: a row's sums come late, and meanwhile the processor works on others. */
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

/* ---- softmax ---- */

/* The largest number, and a NaN if there is one. */
static float find_most(const float *x, int64_t n)
{
    __m512 most = _mm512_set1_ps(-INFINITY);
    __mmask16 has_nan = 0;
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 mask = hrf_first_lanes_avx512(n - i);
        const __m512 v = _mm512_mask_loadu_ps(most, mask, x + i);
        has_nan |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
        most = _mm512_max_ps(most, v);
    }
    return has_nan != 0 ? NAN : _mm512_reduce_max_ps(most);
}

/* x = x * scale + mask; the largest of it, as above. */
static float add_mask(float *x, int64_t n, float scale, const float *mask)
{
    const __m512 factor = _mm512_set1_ps(scale);
    __m512 most = _mm512_set1_ps(-INFINITY);
    __mmask16 has_nan = 0;
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 lanes = hrf_first_lanes_avx512(n - i);
        const __m512 v = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(lanes, x + i), factor,
                                         _mm512_maskz_loadu_ps(lanes, mask + i));
        _mm512_mask_storeu_ps(x + i, lanes, v);
        has_nan |= _mm512_mask_cmp_ps_mask(lanes, v, v, _CMP_UNORD_Q);
        most = _mm512_mask_max_ps(most, lanes, most, v);
    }
    return has_nan != 0 ? NAN : _mm512_reduce_max_ps(most);
}

static void fill(float *x, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = value;
}

/* The largest score, whose scale then is *scale. */
static float prepare(const struct hrf_softmax_row *row, float *scale)
{
    float *x = row->x;
    if (row->mask != NULL) {
        const float most = add_mask(x, row->n, *scale, row->mask);
        *scale = 1;
        return most;
    }
    if (*scale < 0) { /* rare: the largest product is the smallest score */
        for (int64_t i = 0; i < row->n; i++)
            x[i] = -x[i];
        *scale = -*scale;
    }
    return find_most(x, row->n);
}

/* x = exp((x - most) * scale); their sum. */
static float exponentials(float *x, int64_t n, float most, float scale)
{
    const __m512 m = _mm512_set1_ps(most), s = _mm512_set1_ps(scale);
    const __m512 least = _mm512_set1_ps(-87.0f); /* exp(-87) is 1.6e-38 */
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 lanes = hrf_first_lanes_avx512(n - i);
        const __m512 v = _mm512_maskz_loadu_ps(lanes, x + i);
        /* What the mask leaves out counts 0: subnormal numbers would take many cycles each. */
        const __m512 x_s = _mm512_mul_ps(_mm512_sub_ps(v, m), s);
        const __mmask16 counts = _mm512_mask_cmp_ps_mask(lanes, x_s, least, _CMP_NLE_UQ);
        const __m512 e = _mm512_maskz_mov_ps(counts, hrf_exp_avx512(_mm512_max_ps(least, x_s)));
        sum = _mm512_add_ps(sum, e);
        _mm512_mask_storeu_ps(x + i, lanes, e);
    }
    return _mm512_reduce_add_ps(sum);
}

static void divide(float *x, int64_t n, float sum)
{
    const __m512 factor = _mm512_set1_ps(1 / sum);
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 lanes = hrf_first_lanes_avx512(n - i);
        _mm512_mask_storeu_ps(x + i, lanes,
                              _mm512_mul_ps(factor, _mm512_maskz_loadu_ps(lanes, x + i)));
    }
}

/* Each loop over all rows: a row's largest number and its sum come late, and meanwhile the
 * processor works on other rows. */
void hrf_rows_softmax_avx512(const struct hrf_softmax_row *rows, int64_t n_rows, int64_t n_padded,
                             float scale)
{
    float most[HRF_SOFTMAX_ROWS], sums[HRF_SOFTMAX_ROWS], scales[HRF_SOFTMAX_ROWS];
    for (int64_t r = 0; r < n_rows; r++) {
        scales[r] = scale;
        most[r] = prepare(&rows[r], &scales[r]);
    }
    for (int64_t r = 0; r < n_rows; r++)
        sums[r] = most[r] != -INFINITY ? exponentials(rows[r].x, rows[r].n, most[r], scales[r]) : 0;
    for (int64_t r = 0; r < n_rows; r++) {
        const bool is_empty = most[r] == -INFINITY;
        if (!is_empty)
            divide(rows[r].x, rows[r].n, sums[r]);
        const int64_t end = is_empty ? 0 : rows[r].n;
        fill(rows[r].x + end, n_padded - end, 0);
    }
}

/* exponentials() by the shorter function; not of an infinity or a NaN. */
static float short_exponentials(float *x, int64_t n, float most, float scale)
{
    const __m512 m = _mm512_set1_ps(most), s = _mm512_set1_ps(scale * 0x1.715476p+0f);
    const __m512 least = _mm512_set1_ps(-125.0f); /* a power of 2 */
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 lanes = hrf_first_lanes_avx512(n - i);
        const __m512 x_s = _mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, x + i), m), s);
        const __mmask16 counts = _mm512_mask_cmp_ps_mask(lanes, x_s, least, _CMP_NLE_UQ);
        const __m512 e = _mm512_maskz_mov_ps(counts,
                                             hrf_short_exp2_avx512(_mm512_max_ps(least, x_s)));
        sum = _mm512_add_ps(sum, e);
        _mm512_mask_storeu_ps(x + i, lanes, e);
    }
    return _mm512_reduce_add_ps(sum);
}

/* n floats times a factor as bfloat16 in their place, then zeros up to n_padded and the next
 * multiple of 16. */
static void narrow_row(float *x, int64_t n, int64_t n_padded, float factor)
{
    char *y = (char *)x;
    const __m512 f = _mm512_set1_ps(factor);
    for (int64_t i = 0; i < n_padded; i += LANES) {
        const __m512 v = _mm512_maskz_loadu_ps(hrf_first_lanes_avx512(n - i), x + i);
        _mm256_storeu_si256((__m256i *)(void *)(y + i * 2),
                            hrf_narrow_b16_avx512(_mm512_mul_ps(v, f)));
    }
}

void hrf_rows_softmax_b16_avx512(const struct hrf_softmax_row *rows, int64_t n_rows,
                                 int64_t n_padded, float scale)
{
    float most[HRF_SOFTMAX_ROWS], sums[HRF_SOFTMAX_ROWS], scales[HRF_SOFTMAX_ROWS];
    for (int64_t r = 0; r < n_rows; r++) {
        scales[r] = scale;
        most[r] = prepare(&rows[r], &scales[r]);
    }
    for (int64_t r = 0; r < n_rows; r++) {
        if (isfinite(most[r]))
            sums[r] = short_exponentials(rows[r].x, rows[r].n, most[r], scales[r]);
        else
            fill(rows[r].x, rows[r].n, 1);
    }
    for (int64_t r = 0; r < n_rows; r++)
        narrow_row(rows[r].x, rows[r].n, n_padded,
                   isfinite(most[r])      ? 1 / sums[r]
                   : most[r] == -INFINITY ? 0
                                          : NAN);
}

float hrf_row_exponentials_avx512(float *x, int64_t n, float before, float *sum)
{
    const float found = find_most(x, n), most = found <= before ? before : found;
    const __m512 m = _mm512_set1_ps(most), least = _mm512_set1_ps(-87.0f);
    __m512 all = _mm512_setzero_ps();
    *sum = 0;
    if (most == -INFINITY) {
        fill(x, n, 0);
        return most;
    }
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 lanes = hrf_first_lanes_avx512(n - i);
        const __m512 v = _mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, x + i), m);
        const __mmask16 counts = _mm512_mask_cmp_ps_mask(lanes, v, least, _CMP_NLE_UQ);
        const __m512 e = _mm512_maskz_mov_ps(counts, hrf_exp_avx512(_mm512_max_ps(least, v)));
        all = _mm512_add_ps(all, e);
        _mm512_mask_storeu_ps(x + i, lanes, e);
    }
    *sum = _mm512_reduce_add_ps(all);
    return most;
}

/* ---- SwiGLU ---- */

ALWAYS void swiglu_as(enum hrf_dtype x_type, const char *x, enum hrf_dtype y_type, char *y,
                      int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES) {
        const __mmask16 mask = hrf_first_lanes_avx512(n - i);
        const __m512 gate = load_at(x_type, x, i, mask), v = load_at(x_type, x, n + i, mask);
        hrf_store_avx512(y_type, y + i * (y_type == HRF_F32 ? 4 : 2), mask,
                         _mm512_mul_ps(hrf_swish_avx512(gate, 1.0f), v));
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

/* ---- turning ---- */

/* 16 registers of 16 floats, turned: pairs, fours, halves of registers, registers. */
static void turn_square(__m512 r[LANES])
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

void hrf_turn_avx512(enum hrf_dtype type, const void *from, int64_t row_stride, int64_t n,
                     int64_t columns, int64_t width, float *to)
{
    for (int64_t first = 0; first < width; first += LANES)
        for (int64_t c = 0; c < columns; c += LANES) {
            const __mmask16 mask = hrf_first_lanes_avx512(columns - c);
            __m512 r[LANES];
            for (int64_t i = 0; i < LANES; i++)
                r[i] = first + i < n ? load_at(type, from, (first + i) * row_stride + c, mask)
                                     : _mm512_setzero_ps();
            turn_square(r);
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
