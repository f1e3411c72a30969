/* winograd_strided_avx512.c - the transforms of stride 2, 16 channels at a time. Compiled with
 * -mavx512f. One phase after the other, so that each pixel is read once.
 */
#include "engine/backend/cpu/epilogue_avx512.h"
#include "engine/backend/cpu/winograd.h"

#include <immintrin.h>

enum {
    LANES = 16,
    ALL = 0xffff,
    OUT = HRF_STRIDED_OUT,
    SIDE = OUT + 1, /* points of an axis */
    Y_AHEAD = 4,    /* lines of an output pixel between asking for one and writing it */
};

/* Inlined at once, or the compiler finds that prefetches have no effect and drops them. */
#define INLINE static inline __attribute__((always_inline))

/* B^T x: row p is the product of (t - q) over all points q but p, as coefficients of t; that of
 * infinity, which needs one pixel more, comes last. */
INLINE void transform_input(const __m512 x[], __m512 y[], int step, bool with_infinity)
{
    y[0] = _mm512_sub_ps(x[0], x[1]);
    y[1 * step] = x[1];
    if (with_infinity)
        y[2 * step] = _mm512_sub_ps(x[2], x[1]);
}

/* A^T x: row i sums the points' i-th powers. */
INLINE void transform_output(const __m512 x[], __m512 y[], int step)
{
    y[0] = _mm512_add_ps(x[0], x[1]);
    y[1 * step] = _mm512_add_ps(x[1], x[2]);
}

/* The phase whose first pixel is pixels[0]: each second row and column. */
INLINE void read_phase(enum hrf_dtype dtype, const char *const *pixels, bool odd_row,
                       bool odd_column, int64_t channels, int64_t ahead, float *v, int64_t pitch,
                       bool is_far)
{
    const int64_t size = dtype == HRF_F32 ? 4 : 2;
    const int n_rows = odd_row ? OUT : SIDE, n_columns = odd_column ? OUT : SIDE;
    for (int64_t c = 0; c < channels; c += LANES, v += LANES) {
        __m512 lines[SIDE * SIDE], line[SIDE];
#pragma GCC unroll 3
        for (int column = 0; column < n_columns; column++) {
#pragma GCC unroll 3
            for (int row = 0; row < n_rows; row++) {
                const char *const pixel = pixels[2 * (row * HRF_STRIDED_IN + column)] + c * size;
                line[row] = hrf_load_avx512(dtype, pixel, ALL);
                _mm_prefetch(pixel + ahead, _MM_HINT_T1);
            }
            transform_input(line, lines + column, SIDE, !odd_row);
        }
#pragma GCC unroll 3
        for (int row = 0; row < n_rows; row++) {
            transform_input(lines + row * SIDE, line, 1, !odd_column);
#pragma GCC unroll 3
            for (int column = 0; column < n_columns; column++) {
                float *const to = v + (row * SIDE + column) * pitch;
                _mm512_storeu_ps(to, line[column]);
                if (is_far)
                    _mm_prefetch((const char *)(to + LANES), _MM_HINT_ET0);
            }
        }
    }
}

/* In the order of struct hrf_winograd_phases. All of it is inlined once for each case. */
INLINE void read_as(enum hrf_dtype dtype, const char *const *pixels, int64_t channels,
                    int64_t ahead, float *v, int64_t pitch, bool is_far)
{
    const char *const *const second = pixels + HRF_STRIDED_IN; /* row */
    read_phase(dtype, pixels + 1, false, true, channels, ahead, v, pitch, is_far);
    v += channels;
    read_phase(dtype, pixels, false, false, channels, ahead, v, pitch, is_far);
    v += channels;
    read_phase(dtype, second, true, false, channels, ahead, v, pitch, is_far);
    v += channels;
    read_phase(dtype, second + 1, true, true, channels, ahead, v, pitch, is_far);
}

void hrf_strided_input_avx512(enum hrf_dtype dtype, const char *const *pixels, int64_t channels,
                              int64_t ahead, float *v, int64_t pitch, bool is_far)
{
    if (dtype == HRF_F32)
        read_as(HRF_F32, pixels, channels, ahead, v, pitch, is_far);
    else if (dtype == HRF_B16)
        read_as(HRF_B16, pixels, channels, ahead, v, pitch, is_far);
    else
        read_as(HRF_F16, pixels, channels, ahead, v, pitch, is_far);
}

INLINE void write_as(const struct hrf_epilogue *e, const float *const *m, int64_t at,
                     int64_t channels, bool is_far, char *const *outputs)
{
    const int64_t size = e->type == HRF_F32 ? 4 : 2;
    for (int64_t c = 0; c < channels; c += LANES, at += LANES) {
        __m512 lines[OUT * SIDE], line[SIDE], done[OUT];
        const __m512 bias = hrf_bias(e->bias, c, ALL);
        for (int i = 0; i < OUT * OUT; i++)
            _mm_prefetch(outputs[i] + (c + Y_AHEAD * LANES) * size, _MM_HINT_ET0);
#pragma GCC unroll 3
        for (int column = 0; column < SIDE; column++) {
#pragma GCC unroll 3
            for (int row = 0; row < SIDE; row++) {
                const float *const from = m[row * SIDE + column] + at;
                line[row] = _mm512_loadu_ps(from);
                if (is_far)
                    _mm_prefetch((const char *)(from + LANES), _MM_HINT_T0);
            }
            transform_output(line, lines + column, SIDE);
        }
#pragma GCC unroll 2
        for (int row = 0; row < OUT; row++) {
            transform_output(lines + row * SIDE, done, 1);
#pragma GCC unroll 2
            for (int column = 0; column < OUT; column++)
                if (outputs[row * OUT + column] != NULL)
                    hrf_finish(done[column], ALL, outputs[row * OUT + column] + c * size, bias, e);
        }
    }
}

void hrf_strided_output_avx512(const float *const *m, int64_t at, int64_t channels, bool is_far,
                               char *const *outputs, const struct hrf_epilogue *epilogue)
{
    if (hrf_is_relu_alone(epilogue)) {
        const struct hrf_epilogue relu = hrf_relu_alone(epilogue->bias);
        write_as(&relu, m, at, channels, is_far, outputs);
    } else {
        write_as(epilogue, m, at, channels, is_far, outputs);
    }
}
