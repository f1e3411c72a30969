/* integer_product_loops.c - see integer_product.h; compiled for one instruction set, whose name is
 * HRF_INSTRUCTION_SET. */
#include "base/inline.h"
#include "engine/backend/cpu/plain/integer_private.h"
#include "engine/backend/cpu/plain/integer_product.h"

#include <string.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#define JOIN(what, set)   hrf_integer_##what##_##set
#define EXPAND(what, set) JOIN(what, set)
#define HRF_INTEGER(what) EXPAND(what, HRF_INSTRUCTION_SET)

enum { ROWS = HRF_INTEGER_ROWS, PANEL = HRF_INTEGER_PANEL };

/* ---- sums ---- */

#ifdef __AVX2__
/* Inlined for each number of rows. is_half: the second half of the panel is zeros. */
HRF_ALWAYS_INLINE void sum_rows(const int n_rows, const bool is_half, const int16_t *a,
                                int64_t stride, const int8_t *panel, int64_t n_pairs, int32_t *sums)
{
    __m256i y[ROWS][2];
#pragma GCC unroll 6
    for (int i = 0; i < n_rows; i++)
        y[i][0] = y[i][1] = _mm256_setzero_si256();
    for (int64_t k = 0; k < n_pairs; k++, panel += PANEL * 2) {
        const __m128i *const w = (const __m128i *)(const void *)panel;
        const __m256i w0 = _mm256_cvtepi8_epi16(_mm_loadu_si128(w));
        const __m256i w1 = is_half ? w0 : _mm256_cvtepi8_epi16(_mm_loadu_si128(w + 1));
#pragma GCC unroll 6
        for (int i = 0; i < n_rows; i++) {
            int32_t pair;
            memcpy(&pair, a + i * stride + k * 2, sizeof pair);
            const __m256i x = _mm256_set1_epi32(pair);
            y[i][0] = _mm256_add_epi32(y[i][0], _mm256_madd_epi16(x, w0));
            if (!is_half)
                y[i][1] = _mm256_add_epi32(y[i][1], _mm256_madd_epi16(x, w1));
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < n_rows; i++) {
        __m256i *const to = (__m256i *)(void *)(sums + i * PANEL);
        _mm256_storeu_si256(to, y[i][0]);
        _mm256_storeu_si256(to + 1, y[i][1]);
    }
}
#else
HRF_ALWAYS_INLINE void sum_rows(const int n_rows, const bool is_half, const int16_t *a,
                                int64_t stride, const int8_t *panel, int64_t n_pairs, int32_t *sums)
{
    memset(sums, 0, (size_t)(n_rows * PANEL) * sizeof *sums);
    for (int64_t k = 0; k < n_pairs * 2; k++)
        for (int i = 0; i < n_rows; i++)
            for (int c = 0; c < (is_half ? PANEL / 2 : PANEL); c++)
                sums[i * PANEL + c] += a[i * stride + k] * panel[(k / 2 * PANEL + c) * 2 + k % 2];
}
#endif

HRF_ALWAYS_INLINE void sum_panel(const bool is_half, const int16_t *a, int64_t stride,
                                 int64_t n_rows, const int8_t *panel, int64_t n_pairs,
                                 int32_t *sums)
{
    switch (n_rows) {
    case 1:
        sum_rows(1, is_half, a, stride, panel, n_pairs, sums);
        break;
    case 2:
        sum_rows(2, is_half, a, stride, panel, n_pairs, sums);
        break;
    case 3:
        sum_rows(3, is_half, a, stride, panel, n_pairs, sums);
        break;
    case 4:
        sum_rows(4, is_half, a, stride, panel, n_pairs, sums);
        break;
    case 5:
        sum_rows(5, is_half, a, stride, panel, n_pairs, sums);
        break;
    default:
        sum_rows(ROWS, is_half, a, stride, panel, n_pairs, sums);
        break;
    }
}

void HRF_INTEGER(sums)(const int16_t *a, int64_t stride, int64_t n_rows, const int8_t *panel,
                       int64_t n_columns, int64_t n_pairs, int32_t *sums)
{
    if (n_columns <= PANEL / 2)
        sum_panel(true, a, stride, n_rows, panel, n_pairs, sums);
    else
        sum_panel(false, a, stride, n_rows, panel, n_pairs, sums);
}

/* ---- 8 bits in and out ---- */

#ifdef __AVX2__
HRF_ALWAYS_INLINE __m256i widen_16(const bool is_signed, const uint8_t *x, __m256i zero)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)x);
    return _mm256_sub_epi16(is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes),
                            zero);
}

/* For 16 or more elements; the last 16 may overlap others. */
HRF_ALWAYS_INLINE void widen_as(const bool is_signed, int32_t zero_point, const uint8_t *x,
                                int64_t n, int16_t *to)
{
    const __m256i zero = _mm256_set1_epi16((int16_t)zero_point);
    for (int64_t i = 0; i < n; i += 16) {
        const int64_t at = i + 16 <= n ? i : n - 16;
        _mm256_storeu_si256((__m256i *)(void *)(to + at), widen_16(is_signed, x + at, zero));
    }
}

/* Of 8 to 16 numbers: the first and the last 8. */
HRF_ALWAYS_INLINE void widen_short(const bool is_signed, int32_t zero_point, const uint8_t *x,
                                   int64_t n, int16_t *to)
{
    const __m128i zero = _mm_set1_epi16((int16_t)zero_point);
    for (int64_t at = 0; at <= n - 8; at += n > 8 ? n - 8 : 8) {
        const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(x + at));
        const __m128i wide = is_signed ? _mm_cvtepi8_epi16(bytes) : _mm_cvtepu8_epi16(bytes);
        _mm_storeu_si128((__m128i *)(void *)(to + at), _mm_sub_epi16(wide, zero));
    }
}
#endif

void HRF_INTEGER(widen)(enum hrf_dtype type, int32_t zero_point, const uint8_t *x, int64_t n,
                        int16_t *to)
{
#ifdef __AVX2__
    if (n >= 16) {
        if (type == HRF_S8)
            widen_as(true, zero_point, x, n, to);
        else
            widen_as(false, zero_point, x, n, to);
        return;
    }
    if (n >= 8) {
        if (type == HRF_S8)
            widen_short(true, zero_point, x, n, to);
        else
            widen_short(false, zero_point, x, n, to);
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++)
        to[i] = (int16_t)(hrf_read8(type, x, i) - zero_point);
}

static struct hrf_target target_of(const struct hrf_integer_finish *f)
{
    const struct hrf_operand y = { .dtype = f->type,
                                   .quantization = { .zero_point = f->zero_point } };
    return hrf_target_of(&y);
}

/* Copies n elements, which may be fewer than a panel has columns. */
HRF_ALWAYS_INLINE void copy_columns(void *to, const void *from, size_t size, int64_t n)
{
    if (n == PANEL)
        memcpy(to, from, PANEL * size);
    else if (n == PANEL / 2)
        memcpy(to, from, PANEL / 2 * size);
    else
        memcpy(to, from, (size_t)n * size);
}

#ifdef __AVX2__
/* Adds eight elements of a residual to the steps, by a multiply-add that rounds once. */
HRF_ALWAYS_INLINE __m256 add_residual(const struct hrf_integer_finish *f,
                                      const struct hrf_requantize *r, const uint8_t *bytes,
                                      __m256 steps)
{
    const __m128i eight = _mm_loadl_epi64((const __m128i *)(const void *)bytes);
    const __m256i q = f->residual_type == HRF_S8 ? _mm256_cvtepi8_epi32(eight)
                                                 : _mm256_cvtepu8_epi32(eight);
    const __m256i number = _mm256_sub_epi32(q, _mm256_set1_epi32(r->residual_zero_point));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(number), _mm256_set1_ps(r->residual_scale), steps);
}

/* hrf_integer_activate(), its NaNs and zeros included: of two numbers of which one is a NaN, or
 * which are both zeros, max and min give the second. */
HRF_ALWAYS_INLINE __m256 activate(const struct hrf_requantize *r, __m256 t)
{
    const __m256 zero = _mm256_setzero_ps(), low = _mm256_set1_ps(r->low);
    switch (r->activation) {
    case HRF_ACT_RELU:
        return _mm256_max_ps(t, zero);
    case HRF_ACT_CLIP:
        return _mm256_blendv_ps(_mm256_min_ps(_mm256_set1_ps(r->high), t), low,
                                _mm256_cmp_ps(t, low, _CMP_LT_OQ));
    case HRF_ACT_LEAKY_RELU:
        return _mm256_blendv_ps(_mm256_mul_ps(t, _mm256_set1_ps(r->slope)), t,
                                _mm256_cmp_ps(t, zero, _CMP_GE_OQ));
    default:
        return t;
    }
}

/* hrf_narrow() */
HRF_ALWAYS_INLINE __m256i round_steps(struct hrf_target target, __m256 t)
{
    t = _mm256_and_ps(t, _mm256_cmp_ps(t, t, _CMP_ORD_Q));
    t = _mm256_max_ps(_mm256_set1_ps(target.low), t);
    t = _mm256_min_ps(_mm256_set1_ps(target.high), t);
    return _mm256_add_epi32(_mm256_cvtps_epi32(t), _mm256_set1_epi32(target.zero_point));
}

HRF_ALWAYS_INLINE void store_bytes(const struct hrf_integer_finish *f, __m256i q0, __m256i q1,
                                   char *y)
{
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(q0, q1), 0xd8);
    const __m128i low = _mm256_castsi256_si128(words), high = _mm256_extracti128_si256(words, 1);
    const __m128i bytes = f->type == HRF_S8 ? _mm_packs_epi16(low, high)
                                            : _mm_packus_epi16(low, high);
    copy_columns(y, &bytes, 1, f->n_columns);
}

void HRF_INTEGER(finish)(const struct hrf_integer_finish *finish, const int32_t *sums)
{
    /* Copies, which no store to y can change. */
    const struct hrf_integer_finish f = *finish;
    const struct hrf_requantize r = *f.requantize;
    const struct hrf_target target = target_of(&f);
    const int64_t step = f.stride * (int64_t)hrf_dtype_size(f.type);
    const __m256 bias[] = { _mm256_loadu_ps(f.bias), _mm256_loadu_ps(f.bias + 8) };
    const __m256 multiplier[] = { _mm256_loadu_ps(f.multiplier),
                                  _mm256_loadu_ps(f.multiplier + 8) };
    for (int64_t i = 0; i < f.n_rows; i++, sums += PANEL) {
        uint8_t residual[PANEL] = { 0 };
        __m256 t[2];
        if (f.residual != NULL)
            copy_columns(residual, f.residual + i * f.stride, 1, f.n_columns);
        for (int h = 0; h < 2; h++) {
            const __m256i sum = _mm256_loadu_si256((const __m256i *)(const void *)(sums + h * 8));
            t[h] = _mm256_mul_ps(_mm256_add_ps(_mm256_cvtepi32_ps(sum), bias[h]), multiplier[h]);
            if (f.residual != NULL)
                t[h] = add_residual(&f, &r, residual + h * 8, t[h]);
            t[h] = activate(&r, t[h]);
        }
        if (f.type == HRF_F32)
            copy_columns(f.y + i * step, t, sizeof(float), f.n_columns);
        else
            store_bytes(&f, round_steps(target, t[0]), round_steps(target, t[1]), f.y + i * step);
    }
}
#else
void HRF_INTEGER(finish)(const struct hrf_integer_finish *f, const int32_t *sums)
{
    const struct hrf_requantize *r = f->requantize;
    const struct hrf_target target = target_of(f);
    const int64_t size = (int64_t)hrf_dtype_size(f->type);
    for (int64_t i = 0; i < f->n_rows; i++, sums += PANEL) {
        float steps[PANEL];
        uint8_t bytes[PANEL];
        for (int64_t c = 0; c < f->n_columns; c++) {
            int32_t q = 0;
            if (f->residual != NULL)
                q = hrf_read8(f->residual_type, f->residual, i * f->stride + c) -
                    r->residual_zero_point;
            steps[c] = hrf_integer_steps(r, f->bias[c], f->multiplier[c], sums[c],
                                         f->residual != NULL ? &q : NULL);
            bytes[c] = hrf_narrow(target, steps[c]);
        }
        copy_columns(f->y + i * f->stride * size, f->type == HRF_F32 ? (const void *)steps : bytes,
                     (size_t)size, f->n_columns);
    }
}
#endif
