/* bytes_avx512.c - see bytes_avx512.h. Compiled with -mavx512vbmi, which only the look-up needs. */
#include "engine/backend/cpu/avx512/bytes_avx512.h"

#include "engine/backend/cpu/avx512/number_avx512.h"
#include "engine/backend/cpu/product.h"

#include <immintrin.h>

bool hrf_bytes_are_permuted(void)
{
    return hrf_cpu_has_avx512() && __builtin_cpu_supports("avx512vbmi");
}

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

static inline __attribute__((always_inline)) __m512
take(enum hrf_dtype type, __m512i zero, const uint8_t *x, int64_t i, int64_t step, __mmask16 mask)
{
    const __m128i bytes = step == 1 ? _mm_maskz_loadu_epi8(mask, x + i) : _mm_set1_epi8((char)*x);
    const __m512i wide = type == HRF_S8 ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(wide, zero));
}

/* Inlined for each operator and pair of types. */
static inline __attribute__((always_inline)) void
run_as(const bool multiplies, const enum hrf_dtype a_type, const enum hrf_dtype b_type,
       const struct hrf_bytes_binary *s, const uint8_t *a, const uint8_t *b, uint8_t *y, int64_t n)
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

#define EACH(multiplies)                                                                           \
    if (s->a_type == HRF_U8 && s->b_type == HRF_U8)                                                \
        run_as(multiplies, HRF_U8, HRF_U8, s, a, b, y, n);                                         \
    else                                                                                           \
        run_as(multiplies, s->a_type, s->b_type, s, a, b, y, n);

void hrf_bytes_binary_avx512(const struct hrf_bytes_binary *s, const uint8_t *a, const uint8_t *b,
                             uint8_t *y, int64_t n)
{
    if (s->multiplies) {
        EACH(true)
    } else {
        EACH(false)
    }
}
