/* winograd_strided_avx512.c - the transforms of stride 2, 16 channels at a time. Compiled with
 * -mavx512f.
 *
 * One phase after the other: its 25 pixels at most fit into the registers between the two passes,
 * over columns and over rows, so each pixel is read once and as few lines as that are written side
 * by side.
 */
#include "engine/backend/cpu/epilogue_avx512.h"
#include "engine/backend/cpu/winograd.h"

#include <immintrin.h>

enum {
    LANES = 16,
    ALL = 0xffff,
    MOST = HRF_STRIDED_OUT + 1, /* points of an axis */
    Y_AHEAD = 4,                /* lines of an output pixel between asking for one and writing it */
};

/* Inlined at once, or the compiler finds that prefetches have no effect and drops them. */
#define INLINE static inline __attribute__((always_inline))

/* B^T x: row p is the product of (t - q) over all points q but p, as coefficients of t; that of
 * infinity, which needs one pixel more, comes last. */
INLINE void transform_input4(const __m512 x[], __m512 y[], int step, bool with_infinity)
{
    const __m512 square1 = _mm512_set1_ps(0.25f), square2 = _mm512_set1_ps(2.25f);
    const __m512 even1 = _mm512_fnmadd_ps(square2, x[0], x[2]);
    const __m512 even2 = _mm512_fnmadd_ps(square1, x[0], x[2]);
    const __m512 odd1 = _mm512_fnmadd_ps(square2, x[1], x[3]);
    const __m512 odd2 = _mm512_fnmadd_ps(square1, x[1], x[3]);
    y[0] = _mm512_fmadd_ps(_mm512_set1_ps(0.5f), even1, odd1);
    y[1 * step] = _mm512_fnmadd_ps(_mm512_set1_ps(0.5f), even1, odd1);
    y[2 * step] = _mm512_fmadd_ps(_mm512_set1_ps(1.5f), even2, odd2);
    y[3 * step] = _mm512_fnmadd_ps(_mm512_set1_ps(1.5f), even2, odd2);
    if (with_infinity)
        y[4 * step] = _mm512_fnmadd_ps(square2, even2, _mm512_fnmadd_ps(square1, x[2], x[4]));
}

INLINE void transform_input(const __m512 x[], __m512 y[], int step, int out, bool with_infinity)
{
    if (out == HRF_STRIDED_OUT) {
        transform_input4(x, y, step, with_infinity);
        return;
    }
    y[0] = _mm512_sub_ps(x[0], x[1]);
    y[1 * step] = x[1];
    if (with_infinity)
        y[2 * step] = _mm512_sub_ps(x[2], x[1]);
}

/* A^T x: row i sums the points' i-th powers. */
INLINE void transform_output4(const __m512 x[], __m512 y[], int step)
{
    const __m512 sum1 = _mm512_add_ps(x[0], x[1]), difference1 = _mm512_sub_ps(x[0], x[1]);
    const __m512 sum2 = _mm512_add_ps(x[2], x[3]), difference2 = _mm512_sub_ps(x[2], x[3]);
    y[0] = _mm512_add_ps(sum1, sum2);
    y[1 * step] = _mm512_fmadd_ps(_mm512_set1_ps(1.5f), difference2,
                                  _mm512_mul_ps(_mm512_set1_ps(0.5f), difference1));
    y[2 * step] = _mm512_fmadd_ps(_mm512_set1_ps(2.25f), sum2,
                                  _mm512_mul_ps(_mm512_set1_ps(0.25f), sum1));
    y[3 * step] = _mm512_fmadd_ps(_mm512_set1_ps(3.375f), difference2,
                                  _mm512_fmadd_ps(_mm512_set1_ps(0.125f), difference1, x[4]));
}

INLINE void transform_output(const __m512 x[], __m512 y[], int step, int out)
{
    if (out == HRF_STRIDED_OUT) {
        transform_output4(x, y, step);
        return;
    }
    y[0] = _mm512_add_ps(x[0], x[1]);
    y[1 * step] = _mm512_add_ps(x[1], x[2]);
}

/* The phase whose first pixel is pixels[0]: each second row and column. */
INLINE void read_phase(enum hrf_dtype dtype, int out, const char *const *pixels, bool odd_row,
                       bool odd_column, int64_t channels, int64_t ahead, float *v, int64_t pitch,
                       bool is_far)
{
    const int64_t size = dtype == HRF_F32 ? 4 : 2;
    const int side = out + 1, in = 2 * out + 1;
    const int n_rows = odd_row ? out : side, n_columns = odd_column ? out : side;
    for (int64_t c = 0; c < channels; c += LANES, v += LANES) {
        __m512 lines[MOST * MOST], line[MOST];
#pragma GCC unroll 5
        for (int column = 0; column < n_columns; column++) {
#pragma GCC unroll 5
            for (int row = 0; row < n_rows; row++) {
                const char *const pixel = pixels[2 * (row * in + column)] + c * size;
                line[row] = hrf_load_avx512(dtype, pixel, ALL);
                _mm_prefetch(pixel + ahead, _MM_HINT_T1);
            }
            transform_input(line, lines + column, MOST, out, !odd_row);
        }
#pragma GCC unroll 5
        for (int row = 0; row < n_rows; row++) {
            transform_input(lines + row * MOST, line, 1, out, !odd_column);
#pragma GCC unroll 5
            for (int column = 0; column < n_columns; column++) {
                float *const to = v + (row * side + column) * pitch;
                _mm512_storeu_ps(to, line[column]);
                if (is_far)
                    _mm_prefetch((const char *)(to + LANES), _MM_HINT_ET0);
            }
        }
    }
}

/* In the order of struct hrf_winograd_phases. All of it is inlined once for each case. */
INLINE void read_as(enum hrf_dtype dtype, int out, const char *const *pixels, int64_t channels,
                    int64_t ahead, float *v, int64_t pitch, bool is_far)
{
    const char *const *const second = pixels + 2 * out + 1; /* row */
    read_phase(dtype, out, pixels + 1, false, true, channels, ahead, v, pitch, is_far);
    v += channels;
    read_phase(dtype, out, pixels, false, false, channels, ahead, v, pitch, is_far);
    v += channels;
    read_phase(dtype, out, second, true, false, channels, ahead, v, pitch, is_far);
    v += channels;
    read_phase(dtype, out, second + 1, true, true, channels, ahead, v, pitch, is_far);
}

INLINE void read_tile(enum hrf_dtype dtype, int out, const char *const *pixels, int64_t channels,
                      int64_t ahead, float *v, int64_t pitch, bool is_far)
{
    if (dtype == HRF_F32)
        read_as(HRF_F32, out, pixels, channels, ahead, v, pitch, is_far);
    else if (dtype == HRF_B16)
        read_as(HRF_B16, out, pixels, channels, ahead, v, pitch, is_far);
    else
        read_as(HRF_F16, out, pixels, channels, ahead, v, pitch, is_far);
}

void hrf_strided_input_avx512(enum hrf_dtype dtype, int64_t out, const char *const *pixels,
                              int64_t channels, int64_t ahead, float *v, int64_t pitch, bool is_far)
{
    if (out == HRF_STRIDED_OUT)
        read_tile(dtype, HRF_STRIDED_OUT, pixels, channels, ahead, v, pitch, is_far);
    else
        read_tile(dtype, HRF_STRIDED_FEW, pixels, channels, ahead, v, pitch, is_far);
}

INLINE void write_as(const struct hrf_epilogue *e, int out, const float *m, int64_t pitch,
                     int64_t channels, bool is_far, char *const *outputs)
{
    const int64_t size = e->type == HRF_F32 ? 4 : 2;
    const int side = out + 1;
    for (int64_t c = 0; c < channels; c += LANES, m += LANES) {
        __m512 lines[HRF_STRIDED_OUT * MOST], line[MOST], done[HRF_STRIDED_OUT];
        const __m512 bias = hrf_bias(e->bias, c, ALL);
        for (int i = 0; i < out * out; i++)
            _mm_prefetch(outputs[i] + (c + Y_AHEAD * LANES) * size, _MM_HINT_ET0);
#pragma GCC unroll 5
        for (int column = 0; column < side; column++) {
#pragma GCC unroll 5
            for (int row = 0; row < side; row++) {
                const float *const from = m + (row * side + column) * pitch;
                line[row] = _mm512_loadu_ps(from);
                if (is_far)
                    _mm_prefetch((const char *)(from + LANES), _MM_HINT_T0);
            }
            transform_output(line, lines + column, MOST, out);
        }
#pragma GCC unroll 4
        for (int row = 0; row < out; row++) {
            transform_output(lines + row * MOST, done, 1, out);
#pragma GCC unroll 4
            for (int column = 0; column < out; column++)
                if (outputs[row * out + column] != NULL)
                    hrf_finish(done[column], ALL, outputs[row * out + column] + c * size, bias, e);
        }
    }
}

INLINE void write_tile(const struct hrf_epilogue *e, int64_t out, const float *m, int64_t pitch,
                       int64_t channels, bool is_far, char *const *outputs)
{
    if (out == HRF_STRIDED_OUT)
        write_as(e, HRF_STRIDED_OUT, m, pitch, channels, is_far, outputs);
    else
        write_as(e, HRF_STRIDED_FEW, m, pitch, channels, is_far, outputs);
}

void hrf_strided_output_avx512(int64_t out, const float *m, int64_t pitch, int64_t channels,
                               bool is_far, char *const *outputs,
                               const struct hrf_epilogue *epilogue)
{
    const bool is_relu = epilogue->activation == HRF_ACT_RELU && !epilogue->accumulate;
    if (is_relu && epilogue->type == HRF_F32) {
        const struct hrf_epilogue relu = { .bias = epilogue->bias,
                                           .type = HRF_F32,
                                           .activation = HRF_ACT_RELU };
        write_tile(&relu, out, m, pitch, channels, is_far, outputs);
    } else {
        write_tile(epilogue, out, m, pitch, channels, is_far, outputs);
    }
}
