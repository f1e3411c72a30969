/* prologue_avx512.c - the prologue over lines of channels. Compiled with -mavx512f. */
#include "engine/backend/cpu/avx512/prologue_avx512.h"

#include <immintrin.h>

enum { LANES = 16 };

/* `x` and `y` are of `type`. */
static inline void line(const struct hrf_cpu_prologue *p, enum hrf_dtype type, const char *x,
                        char *y, int64_t n)
{
    const int64_t size = type == HRF_F32 ? 4 : 2;
    for (int64_t c = 0; c < n; c += LANES) {
        const __mmask16 mask = (__mmask16)(n - c < LANES ? (1U << (n - c)) - 1U : 0xffffU);
        const __m512 factor = _mm512_maskz_loadu_ps(mask, p->factors + c);
        const __m512 shift = _mm512_maskz_loadu_ps(mask, p->shifts + c);
        const __m512 pixel = hrf_load_avx512(type, x + c * size, mask);
        hrf_store_avx512(type, y + c * size, mask,
                         hrf_prologue_avx512(pixel, factor, shift, &p->activation));
    }
}

void hrf_prologue_lines_avx512(const struct hrf_cpu_prologue *p, const float *x, float *y,
                               int64_t y_stride, int64_t channels, int64_t n_lines)
{
    for (int64_t i = 0; i < n_lines; i++)
        line(p, HRF_F32, (const char *)(x + i * channels), (char *)(y + i * y_stride), channels);
}

void hrf_prologue_b16_lines_avx512(const struct hrf_cpu_prologue *p, const uint16_t *x, uint16_t *y,
                                   int64_t y_stride, int64_t channels, int64_t n_lines)
{
    for (int64_t i = 0; i < n_lines; i++)
        line(p, HRF_B16, (const char *)(x + i * channels), (char *)(y + i * y_stride), channels);
}

static inline void gate_as(enum hrf_dtype type, const char *x, const char *factors, char *y,
                           int64_t y_step, int64_t channels, int64_t n_lines)
{
    const int64_t size = type == HRF_F32 ? 4 : 2;
    for (int64_t i = 0; i < n_lines; i++, x += channels * size, y += y_step)
        for (int64_t c = 0; c < channels; c += LANES) {
            const __mmask16 mask = hrf_first_lanes_avx512(channels - c);
            const __m512 factor = hrf_load_avx512(type, factors + c * size, mask);
            const __m512 number = hrf_load_avx512(type, x + c * size, mask);
            hrf_store_avx512(type, y + c * size, mask, _mm512_mul_ps(number, factor));
        }
}

void hrf_gate_lines_avx512(enum hrf_dtype type, const void *x, const void *factors, void *y,
                           int64_t y_stride, int64_t channels, int64_t n_lines)
{
    if (type == HRF_F32)
        gate_as(HRF_F32, x, factors, y, y_stride * 4, channels, n_lines);
    else if (type == HRF_B16)
        gate_as(HRF_B16, x, factors, y, y_stride * 2, channels, n_lines);
    else
        gate_as(HRF_F16, x, factors, y, y_stride * 2, channels, n_lines);
}

static inline void widen_as(enum hrf_dtype dtype, const uint16_t *x, float *y, int64_t y_stride,
                            int64_t channels, int64_t n_lines)
{
    for (int64_t i = 0; i < n_lines; i++, x += channels, y += y_stride)
        for (int64_t c = 0; c < channels; c += LANES) {
            const int64_t n = channels - c;
            const __mmask16 mask = (__mmask16)(n < LANES ? (1U << n) - 1U : 0xffffU);
            _mm512_mask_storeu_ps(y + c, mask, hrf_load_avx512(dtype, x + c, mask));
        }
}

void hrf_widen_lines_avx512(enum hrf_dtype dtype, const void *x, float *y, int64_t y_stride,
                            int64_t channels, int64_t n_lines)
{
    if (dtype == HRF_B16)
        widen_as(HRF_B16, x, y, y_stride, channels, n_lines);
    else
        widen_as(HRF_F16, x, y, y_stride, channels, n_lines);
}

void hrf_copy_lines_avx512(const float *x, int64_t x_stride, float *y, int64_t y_stride, int64_t n,
                           int64_t n_lines)
{
    const int64_t whole = n / LANES * LANES;
    const __mmask16 rest = (__mmask16)((1U << (n - whole)) - 1U);
    for (int64_t i = 0; i < n_lines; i++, x += x_stride, y += y_stride) {
        for (int64_t c = 0; c < whole; c += LANES)
            _mm512_storeu_ps(y + c, _mm512_loadu_ps(x + c));
        _mm512_mask_storeu_ps(y + whole, rest, _mm512_maskz_loadu_ps(rest, x + whole));
    }
}

void hrf_copy_halves_avx512(const uint16_t *x, int64_t x_stride, int64_t n, uint16_t *y,
                            int64_t y_stride, int64_t width, int64_t n_lines)
{
    for (int64_t i = 0; i < n_lines; i++, x += x_stride, y += y_stride)
        for (int64_t c = 0; c < width; c += LANES)
            _mm256_mask_storeu_epi16(
                y + c, hrf_first_lanes_avx512(width - c),
                _mm256_maskz_loadu_epi16(hrf_first_lanes_avx512(n - c), x + c));
}
