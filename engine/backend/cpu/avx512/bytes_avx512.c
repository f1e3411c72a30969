/* bytes_avx512.c - see bytes_avx512.h. Compiled with -mavx512vbmi, which only the look-up needs. */
#include "engine/backend/cpu/avx512/bytes_avx512.h"

#include "engine/backend/cpu/avx512/vector_avx512.h"

#include <immintrin.h>

void hrf_bytes_by_table_avx512(const uint8_t table[256], const uint8_t *x, uint8_t *y, int64_t n)
{
    enum { BYTES = 64 };
    const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + BYTES);
    const __m512i t2 = _mm512_loadu_si512(table + 2 * BYTES);
    const __m512i t3 = _mm512_loadu_si512(table + 3 * BYTES);
    for (int64_t i = 0; i < n; i += BYTES) {
        const __mmask64 mask = n - i < BYTES ? ((__mmask64)1 << (n - i)) - 1 : ~(__mmask64)0;
        const __m512i at = _mm512_maskz_loadu_epi8(mask, x + i);
        const __m512i low = _mm512_permutex2var_epi8(t0, at, t1);
        const __m512i high = _mm512_permutex2var_epi8(t2, at, t3);
        _mm512_mask_storeu_epi8(y + i, mask,
                                _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(at), high));
    }
}

HRF_ALWAYS_INLINE __m512 take(enum hrf_dtype type, __m512i zero, const uint8_t *x, int64_t i,
                              int64_t step, __mmask16 mask)
{
    const __m128i bytes = step == 1 ? _mm_maskz_loadu_epi8(mask, x + i) : _mm_set1_epi8((char)*x);
    const __m512i wide = type == HRF_S8 ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(wide, zero));
}

/* Inlined for each operator and pair of types. */
HRF_ALWAYS_INLINE void run_as(const bool multiplies, const enum hrf_dtype a_type,
                              const enum hrf_dtype b_type, const struct hrf_bytes_binary *s,
                              const uint8_t *a, const uint8_t *b, uint8_t *y, int64_t n)
{
    const __m512i a_zero = _mm512_set1_epi32(s->a_zero), b_zero = _mm512_set1_epi32(s->b_zero);
    const __m512 factor = _mm512_set1_ps(s->factor), a_factor = _mm512_set1_ps(s->a_factor);
    const __m512 b_factor = _mm512_set1_ps(s->b_factor), low = _mm512_set1_ps(s->low);
    const __m512 high = _mm512_set1_ps(s->high);
    const __m512i y_zero = _mm512_set1_epi32(s->y_zero);
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 mask = hrf_first_lanes_avx512(n - i);
        const __m512 u = take(a_type, a_zero, a, i, s->a_step, mask);
        const __m512 v = take(b_type, b_zero, b, i, s->b_step, mask);
        __m512 t = multiplies ? _mm512_mul_ps(_mm512_mul_ps(u, v), factor)
                              : _mm512_fmadd_ps(u, a_factor, _mm512_mul_ps(v, b_factor));
        t = _mm512_min_ps(_mm512_max_ps(t, low), high);
        const __m512i q = _mm512_add_epi32(_mm512_cvtps_epi32(t), y_zero);
        _mm_mask_storeu_epi8(y + i, mask, _mm512_cvtepi32_epi8(q));
    }
}

HRF_ALWAYS_INLINE void run(const bool multiplies, const struct hrf_bytes_binary *s,
                           const uint8_t *a, const uint8_t *b, uint8_t *y, int64_t n)
{
    if (s->a_type == HRF_U8 && s->b_type == HRF_U8)
        run_as(multiplies, HRF_U8, HRF_U8, s, a, b, y, n);
    else
        run_as(multiplies, s->a_type, s->b_type, s, a, b, y, n);
}

void hrf_bytes_binary_avx512(const struct hrf_bytes_binary *s, const uint8_t *a, const uint8_t *b,
                             uint8_t *y, int64_t n)
{
    if (s->multiplies)
        run(true, s, a, b, y, n);
    else
        run(false, s, a, b, y, n);
}

/* 16 of the sums, as bytes. */
HRF_ALWAYS_INLINE __m128i finish_sums(const struct hrf_bytes_average *s, __m256i sums,
                                      __m512i zeros, __m512 parts)
{
    const __m512i sum = _mm512_sub_epi32(_mm512_cvtepi16_epi32(sums), zeros);
    __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(s->ratio));
    v = _mm512_max_ps(_mm512_div_ps(v, parts), _mm512_set1_ps(s->low));
    v = _mm512_min_ps(v, _mm512_set1_ps(s->high));
    const __m512i q = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(s->y_zero));
    return _mm512_cvtepi32_epi8(q);
}

/* Sums of up to 64 bytes fit into 16 bits. */
HRF_ALWAYS_INLINE void average_as(const enum hrf_dtype type, const struct hrf_bytes_average *s,
                                  const uint8_t *const taps[], int64_t n_taps, int64_t count,
                                  uint8_t *y, int64_t n)
{
    enum { BYTES = 32 };
    const __m512i zeros = _mm512_set1_epi32((int32_t)n_taps * s->x_zero);
    const __m512 parts = _mm512_set1_ps((float)count);
    for (int64_t i = 0; i < n; i += BYTES) {
        const __mmask32 mask = n - i < BYTES ? ((__mmask32)1 << (n - i)) - 1 : ~(__mmask32)0;
        __m512i sums = _mm512_setzero_si512();
        for (int64_t t = 0; t < n_taps; t++) {
            const __m256i bytes = _mm256_maskz_loadu_epi8(mask, taps[t] + i);
            sums = _mm512_add_epi16(sums, type == HRF_S8 ? _mm512_cvtepi8_epi16(bytes)
                                                         : _mm512_cvtepu8_epi16(bytes));
        }
        const __m128i low = finish_sums(s, _mm512_castsi512_si256(sums), zeros, parts);
        const __m128i high = finish_sums(s, _mm512_extracti64x4_epi64(sums, 1), zeros, parts);
        _mm256_mask_storeu_epi8(y + i, mask,
                                _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1));
    }
}

void hrf_bytes_average_avx512(const struct hrf_bytes_average *s, const uint8_t *const taps[],
                              int64_t n_taps, int64_t count, uint8_t *y, int64_t n)
{
    if (s->type == HRF_S8)
        average_as(HRF_S8, s, taps, n_taps, count, y, n);
    else
        average_as(HRF_U8, s, taps, n_taps, count, y, n);
}

void hrf_bytes_quantize_avx512(const struct hrf_bytes_quantize *s, const float *x, uint8_t *y,
                               int64_t n)
{
    const __m512 scale = _mm512_set1_ps(s->scale), low = _mm512_set1_ps(s->low);
    const __m512 high = _mm512_set1_ps(s->high);
    const __m512i y_zero = _mm512_set1_epi32(s->y_zero);
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 mask = hrf_first_lanes_avx512(n - i);
        __m512 v = _mm512_div_ps(_mm512_maskz_loadu_ps(mask, x + i), scale);
        v = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v); /* NaN: 0 */
        v = _mm512_min_ps(_mm512_max_ps(v, low), high);
        const __m512i q = _mm512_add_epi32(_mm512_cvtps_epi32(v), y_zero);
        _mm_mask_storeu_epi8(y + i, mask, _mm512_cvtepi32_epi8(q));
    }
}

HRF_ALWAYS_INLINE void scale_as(const enum hrf_dtype type, const struct hrf_bytes_scale *s,
                                const uint8_t *x, uint8_t *y, int64_t n)
{
    const __m512i x_zero = _mm512_set1_epi32(s->x_zero), y_zero = _mm512_set1_epi32(s->y_zero);
    const __m512 least = _mm512_set1_ps(s->least), most = _mm512_set1_ps(s->most);
    const __m512 low = _mm512_set1_ps(s->low), high = _mm512_set1_ps(s->high);
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 mask = hrf_first_lanes_avx512(n - i);
        const __m512 factors = _mm512_maskz_loadu_ps(mask, s->factors + i);
        __m512 v = _mm512_mul_ps(take(type, x_zero, x, i, 1, mask), factors);
        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, s->shifts + i));
        v = _mm512_min_ps(_mm512_max_ps(v, least), most);
        v = _mm512_min_ps(_mm512_max_ps(v, low), high);
        const __m512i q = _mm512_add_epi32(_mm512_cvtps_epi32(v), y_zero);
        _mm_mask_storeu_epi8(y + i, mask, _mm512_cvtepi32_epi8(q));
    }
}

void hrf_bytes_scale_avx512(const struct hrf_bytes_scale *s, const uint8_t *x, uint8_t *y,
                            int64_t n)
{
    if (s->type == HRF_S8)
        scale_as(HRF_S8, s, x, y, n);
    else
        scale_as(HRF_U8, s, x, y, n);
}
