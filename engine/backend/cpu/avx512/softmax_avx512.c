/* softmax_avx512.c - see softmax_avx512.h. Compiled with -mavx512f, optimised always. */
#include "engine/backend/cpu/avx512/softmax_avx512.h"

#include "engine/backend/cpu/avx512/math_avx512.h"

#include <math.h>

enum {
    LANES = 16,
    ROWS = 8, /* processed together, because the latency of a row's maximum and sum is long */
    /* Weights in 16 bits are at most MAX_WEIGHT, and their sum at most MAX_SUM. */
    MAX_WEIGHT = 32767,
    MAX_SUM = 1 << 18,
};

/* The form of the weights. */
enum form { FLOATS, B16, I16, BLOCK };

/* ---- the largest score ---- */

struct largest {
    __m512 most;
    __mmask16 has_nan;
};

/* Updates the maximum with 16 scores; with a mask, scores first become x * scale + mask. */
HRF_ALWAYS_INLINE void find_at(enum form form, float *x, const float *mask, float scale,
                               __mmask16 lanes, struct largest *l)
{
    __m512 v = _mm512_maskz_loadu_ps(lanes, x);
    if (mask != NULL) {
        v = hrf_v_fma(v, hrf_v_all(scale), _mm512_maskz_loadu_ps(lanes, mask));
        _mm512_mask_storeu_ps(x, lanes, v);
    }
    if (form != I16) /* in I16 the sum becomes a NaN */
        l->has_nan |= _mm512_mask_cmp_ps_mask(lanes, v, v, _CMP_UNORD_Q);
    l->most = _mm512_mask_max_ps(l->most, lanes, l->most, v);
}

/* Returns the largest score, or a NaN if there is one. */
HRF_ALWAYS_INLINE float find_largest(enum form form, float *x, int64_t n, const float *mask,
                                     float scale)
{
    struct largest l = { hrf_v_all(-INFINITY), 0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        find_at(form, x + i, mask != NULL ? mask + i : NULL, scale, 0xffff, &l);
    if (i < n)
        find_at(form, x + i, mask != NULL ? mask + i : NULL, scale, hrf_first_lanes_avx512(n - i),
                &l);
    return l.has_nan != 0 ? NAN : _mm512_reduce_max_ps(l.most);
}

/* Returns the largest score; row->scale is then the scale of the scores. */
HRF_ALWAYS_INLINE float prepare(enum form form, struct hrf_score_row *row)
{
    float *x = row->scores;
    if (form == BLOCK) {
        const float found = find_largest(form, x, row->n_seen, NULL, 1);
        return found <= row->largest ? row->largest : found;
    }
    if (row->mask != NULL) {
        const float most = find_largest(form, x, row->n_seen, row->mask, row->scale);
        row->scale = 1;
        return most;
    }
    if (row->scale < 0) { /* rare: the largest product belongs to the smallest score */
        for (int64_t i = 0; i < row->n_seen; i++)
            x[i] = -x[i];
        row->scale = -row->scale;
    }
    return find_largest(form, x, row->n_seen, NULL, 1);
}

/* ---- exponentials ---- */

struct exponent {
    __m512 scale, most, off;
};

/* exp of 16 scores. Masked lanes, and results that would be nearly subnormal, become 0, because
 * subnormal numbers take many cycles. */
HRF_ALWAYS_INLINE __m512 exponential(enum form form, const struct exponent *e, __m512 x,
                                     __mmask16 lanes)
{
    if (form == I16)
        return hrf_v_keep(lanes, hrf_v_exp2_i16(hrf_v_fma(x, e->scale, e->off)));
    const __m512 min = hrf_v_all(form == B16 ? -125.0f : -87.0f); /* exp(-87) is 1.6e-38 */
    const __m512 t = form == BLOCK ? x - e->most : (x - e->most) * e->scale;
    const __mmask16 counts = _mm512_mask_cmp_ps_mask(lanes, t, min, _CMP_NLE_UQ);
    return hrf_v_keep(counts, form == B16 ? hrf_v_exp2_b16(hrf_v_max(t, min))
                                          : hrf_v_exp(hrf_v_max(t, min)));
}

/* Sets x to exp((x - most) * scale) and returns the sum. */
HRF_ALWAYS_INLINE float exponentials(enum form form, float *x, int64_t n, float most, float scale)
{
    const float of_power = form == B16 || form == I16 ? scale * HRF_LOG2_E : scale;
    const struct exponent e = { hrf_v_all(of_power), hrf_v_all(most), hrf_v_all(-most * of_power) };
    __m512 sum = _mm512_setzero_ps();
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const __m512 v = exponential(form, &e, _mm512_loadu_ps(x + i), 0xffff);
        sum = sum + v;
        _mm512_storeu_ps(x + i, v);
    }
    if (i < n) {
        const __mmask16 lanes = hrf_first_lanes_avx512(n - i);
        const __m512 v = exponential(form, &e, _mm512_maskz_loadu_ps(lanes, x + i), lanes);
        sum = sum + v;
        _mm512_mask_storeu_ps(x + i, lanes, v);
    }
    return _mm512_reduce_add_ps(sum);
}

static void softmax_avx512_fill(float *x, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = value;
}

/* ---- weights ---- */

/* 16 of the row's exponentials times a factor; 0 beyond the last one. */
HRF_ALWAYS_INLINE __m512 scaled(const float *x, int64_t n, int64_t i, __m512 factor)
{
    return _mm512_maskz_loadu_ps(hrf_first_lanes_avx512(n - i), x + i) * factor;
}

static void scale_floats(float *x, int64_t n, int64_t n_keys, float factor)
{
    for (int64_t i = 0; i < n; i += LANES)
        _mm512_mask_storeu_ps(x + i, hrf_first_lanes_avx512(n - i),
                              scaled(x, n, i, hrf_v_all(factor)));
    softmax_avx512_fill(x + n, n_keys - n, 0);
}

static void scale_b16(float *x, int64_t n, int64_t n_keys, float factor)
{
    char *y = (char *)x;
    for (int64_t i = 0; i < n_keys; i += LANES)
        _mm256_storeu_si256((__m256i *)(void *)(y + i * 2),
                            hrf_narrow_b16_avx512(scaled(x, n, i, hrf_v_all(factor))));
}

static void scale_i16(struct hrf_score_row *row, int64_t n_keys, float sum)
{
    const float most = sum * MAX_WEIGHT < MAX_SUM ? MAX_WEIGHT : MAX_SUM / sum;
    const __m512 f = hrf_v_all(most);
    int16_t *to = row->weights;
    row->factor = 1 / (most * sum);
    for (int64_t i = 0; i < n_keys; i += 2 * LANES)
        _mm512_storeu_si512(
            to + i, hrf_join_i16_avx512(
                        _mm512_cvtps_epi32(scaled(row->scores, row->n_seen, i, f)),
                        _mm512_cvtps_epi32(scaled(row->scores, row->n_seen, i + LANES, f))));
}

/* Computes a row's exponentials and returns their sum; a row without a finite largest score is
 * handled apart. */
HRF_ALWAYS_INLINE float raise(enum form form, const struct hrf_score_row *row, float most)
{
    if (form == I16)
        return exponentials(form, row->scores, row->n_seen, most > -INFINITY ? most : 0,
                            row->scale);
    if (form == B16 ? isfinite(most) : most != -INFINITY)
        return exponentials(form, row->scores, row->n_seen, most, row->scale);
    softmax_avx512_fill(row->scores, row->n_seen, form == B16 ? 1 : 0);
    return 0;
}

HRF_ALWAYS_INLINE void finish(enum form form, struct hrf_score_row *row, int64_t n_keys, float most,
                              float sum)
{
    if (form == I16)
        scale_i16(row, n_keys, sum);
    else if (form == B16)
        scale_b16(row->scores, row->n_seen, n_keys,
                  isfinite(most)      ? 1 / sum
                  : most == -INFINITY ? 0
                                      : NAN);
    else if (form == FLOATS)
        scale_floats(row->scores, row->n_seen, n_keys, most == -INFINITY ? 0 : 1 / sum);
    row->largest = most;
    row->sum = sum;
}

HRF_ALWAYS_INLINE void softmax_as(enum form form, struct hrf_score_row *rows, int64_t n_rows,
                                  int64_t n_keys)
{
    float most[ROWS], sums[ROWS];
    for (; n_rows > 0; rows += ROWS, n_rows -= ROWS) {
        const int64_t n = n_rows < ROWS ? n_rows : ROWS;
        for (int64_t r = 0; r < n; r++)
            most[r] = prepare(form, &rows[r]);
        for (int64_t r = 0; r < n; r++)
            sums[r] = raise(form, &rows[r], most[r]);
        for (int64_t r = 0; r < n; r++)
            finish(form, &rows[r], n_keys, most[r], sums[r]);
    }
}

#define DEFINE(name, form)                                                                         \
    void hrf_rows_##name##_avx512(struct hrf_score_row *rows, int64_t n_rows, int64_t n_keys)      \
    {                                                                                              \
        softmax_as(form, rows, n_rows, n_keys);                                                    \
    }
DEFINE(softmax, FLOATS)
DEFINE(softmax_b16, B16)
DEFINE(softmax_i16, I16)
DEFINE(exponentials, BLOCK)
