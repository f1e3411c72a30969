/* byte_product_avx512.c - see byte_product.h. Compiled with -mavx512vnni and without contraction,
 * which would round once where the contract rounds twice; optimised always.
 *
 * VNNI multiplies unsigned by signed bytes: rows are stored as q + 128, and 128 times the sum of a
 * column's weights is taken off its sums.
 */
#include "engine/backend/cpu/avx512/epilogue_avx512.h"
#include "engine/backend/cpu/transformer/byte_product.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

enum { LANES = 16, MOST_REGISTERS = HRF_PANEL / LANES, ROWS = HRF_BYTE_ROWS, GROUP = 4 * ROWS };

static inline __m512 factored(const struct hrf_byte_product *p, const float *x, int64_t k,
                              __mmask16 mask)
{
    const __m512 v = _mm512_maskz_loadu_ps(mask, x + k);
    return p->factors != NULL ? _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, p->factors + k)) : v;
}

/* The magnitudes' bits are ordered as the magnitudes are, a NaN's above all. */
static float largest(const struct hrf_byte_product *p, const float *x)
{
    __m512i most = _mm512_setzero_si512();
    for (int64_t k = 0; k < p->depth; k += LANES) {
        const __m512 v = factored(p, x, k, hrf_first_lanes_avx512(p->depth - k));
        most = _mm512_max_epi32(most, _mm512_castps_si512(_mm512_abs_ps(v)));
    }
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(most))));
}

/* Row i of its group: every step's four numbers stand beside those of the other rows. */
static void round_row(const struct hrf_byte_product *p, const float *x, uint8_t *to, float *scale)
{
    const float most = largest(p, x);
    const bool is_zero = most < 0x1p-100f, is_broken = !(most < INFINITY);
    const float inverse = is_zero || is_broken ? 0.0f : 127.0f / most;
    *scale = is_broken ? NAN : is_zero ? 0.0f : most / 127.0f;
    for (int64_t k = 0; k < p->depth; k += LANES) {
        const __m512 v = factored(p, x, k, hrf_first_lanes_avx512(p->depth - k));
        const __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(v, _mm512_set1_ps(inverse)));
        const __m128i bytes = _mm_xor_si128(_mm512_cvtepi32_epi8(q), _mm_set1_epi8((char)-128));
        uint32_t words[4];
        _mm_storeu_si128((__m128i *)(void *)words, bytes);
        const int64_t n = (p->depth - k + 3) / 4;
        for (int64_t i = 0; i < 4 && i < n; i++)
            memcpy(to + (k / 4 + i) * GROUP, &words[i], 4);
    }
}

/* Products of broken rows are of integers, too: what they are does not matter. */
static void round_rows(const struct hrf_byte_product *p, const float *x, int64_t n_rows,
                       uint8_t *integers, float *scales)
{
    const int64_t steps = hrf_byte_steps(p->depth);
    for (int64_t r = 0; r < n_rows; r++)
        round_row(p, x + r * p->depth, integers + r / ROWS * steps * GROUP + r % ROWS * 4,
                  &scales[r]);
}

static inline __attribute__((always_inline)) void multiply(const int n_registers, const uint8_t *a,
                                                           const int8_t *w, int64_t steps,
                                                           __m512i sums[ROWS][MOST_REGISTERS])
{
    __m512i s[ROWS][MOST_REGISTERS];
#pragma GCC unroll 6
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
        for (int c = 0; c < n_registers; c++)
            s[i][c] = _mm512_setzero_si512();
    for (int64_t k = 0; k < steps; k++, a += GROUP, w += n_registers * 64) {
        __m512i v[MOST_REGISTERS];
#pragma GCC unroll 4
        for (int c = 0; c < n_registers; c++)
            v[c] = _mm512_load_si512(w + c * 64);
#pragma GCC unroll 6
        for (int i = 0; i < ROWS; i++) {
            int32_t word;
            memcpy(&word, a + i * 4, sizeof word);
            const __m512i row = _mm512_set1_epi32(word);
#pragma GCC unroll 4
            for (int c = 0; c < n_registers; c++)
                s[i][c] = _mm512_dpbusd_epi32(s[i][c], row, v[c]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
        for (int c = 0; c < n_registers; c++)
            sums[i][c] = s[i][c];
}

static void multiply_by_width(int n_registers, const uint8_t *a, const int8_t *w, int64_t steps,
                              __m512i sums[ROWS][MOST_REGISTERS])
{
    switch (n_registers) {
    case 1:
        multiply(1, a, w, steps, sums);
        break;
    case 2:
        multiply(2, a, w, steps, sums);
        break;
    case 3:
        multiply(3, a, w, steps, sums);
        break;
    default:
        multiply(4, a, w, steps, sums);
        break;
    }
}

/* One row's sums of a panel, from column `first` on. */
static void finish_row(const struct hrf_byte_product *p, const __m512i *sums, int n_registers,
                       int64_t first, float scale, const float *residual, float *y)
{
    const struct hrf_epilogue *e = &p->epilogue;
    _Alignas(64) float row[HRF_PANEL];
    for (int c = 0; c < n_registers; c++) {
        const int64_t at = first + c * LANES;
        const __mmask16 mask = hrf_first_lanes_avx512(p->columns - at);
        const __m512i sum = _mm512_sub_epi32(sums[c], _mm512_maskz_loadu_epi32(mask, p->sums + at));
        __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(sum),
                                 _mm512_maskz_loadu_ps(mask, p->scales + at));
        t = _mm512_mul_ps(t, _mm512_set1_ps(scale));
        t = _mm512_add_ps(t, hrf_bias(e->bias, at, mask));
        if (residual != NULL)
            t = _mm512_add_ps(t, _mm512_maskz_loadu_ps(mask, residual + at));
        t = hrf_activate_avx512(t, e);
        if (hrf_has_function(e))
            _mm512_store_ps(row + c * LANES, t);
        else
            _mm512_mask_storeu_ps(y + at, mask, t);
    }
    if (!hrf_has_function(e))
        return;
    hrf_activate_sums_avx512(row, n_registers, e);
    for (int c = 0; c < n_registers; c++) {
        const int64_t at = first + c * LANES;
        _mm512_mask_storeu_ps(y + at, hrf_first_lanes_avx512(p->columns - at),
                              _mm512_load_ps(row + c * LANES));
    }
}

void hrf_byte_product_avx512(const struct hrf_byte_product *p, const float *x,
                             const float *residual, float *y, int64_t n_rows, int64_t first_panel,
                             int64_t end_panel, void *scratch)
{
    const int64_t steps = hrf_byte_steps(p->depth);
    const int64_t groups = (n_rows + ROWS - 1) / ROWS;
    uint8_t *integers = scratch;
    float *scales = (float *)(void *)(integers + groups * steps * GROUP);
    round_rows(p, x, n_rows, integers, scales);
    for (int64_t panel = first_panel; panel < end_panel; panel++) {
        const int64_t first = hrf_product_panel_begin(p->columns, panel);
        const int64_t end = hrf_product_panel_begin(p->columns, panel + 1);
        const int n_registers = (int)((end - first) / LANES);
        for (int64_t g = 0; g < groups; g++) {
            __m512i sums[ROWS][MOST_REGISTERS];
            multiply_by_width(n_registers, integers + g * steps * GROUP,
                              p->packed + first * steps * 4, steps, sums);
            for (int64_t r = g * ROWS; r < n_rows && r < (g + 1) * ROWS; r++)
                finish_row(p, sums[r % ROWS], n_registers, first, scales[r],
                           residual != NULL ? residual + r * p->columns : NULL, y + r * p->columns);
        }
    }
}
