/* winograd_avx512.c - the transforms, 16 channels at a time. Compiled with -mavx512f. */
#include "engine/backend/cpu/epilogue_avx512.h"
#include "engine/backend/cpu/prologue_avx512.h"
#include "engine/backend/cpu/winograd.h"

#include <immintrin.h>

enum {
    LANES = 16,
    ALL = 0xffff,
    IN = HRF_WINOGRAD_IN,
    OUT = HRF_WINOGRAD_OUT,
    Y_AHEAD = 4, /* lines of an output pixel between asking for one and writing it */
};

/* Inlined at once, or the compiler finds that prefetches have no effect and drops them. */
#define INLINE static inline __attribute__((always_inline))

/* B^T x of one axis. */
INLINE void transform_input(const __m512 x[IN], __m512 y[], int step)
{
    y[0] = _mm512_sub_ps(x[0], x[2]);
    y[1 * step] = _mm512_add_ps(x[1], x[2]);
    y[2 * step] = _mm512_sub_ps(x[2], x[1]);
    y[3 * step] = _mm512_sub_ps(x[3], x[1]);
}

/* A^T x of one axis. */
INLINE void transform_output(const __m512 x[IN], __m512 y[], int step)
{
    y[0] = _mm512_add_ps(x[0], _mm512_add_ps(x[1], x[2]));
    y[1 * step] = _mm512_add_ps(_mm512_sub_ps(x[1], x[2]), x[3]);
}

/* With a prologue, where `p` is not NULL. */
INLINE __m512 read_pixel(enum hrf_dtype dtype, const char *pixel, int64_t c,
                         const struct hrf_cpu_prologue *p, const struct hrf_epilogue *activation)
{
    const int64_t size = dtype == HRF_F32 ? 4 : 2;
    if (p == NULL)
        return hrf_load_avx512(dtype, pixel + c * size, ALL);
    if (pixel == NULL)
        return _mm512_setzero_ps();
    return hrf_prologue_avx512(hrf_load_avx512(dtype, pixel + c * size, ALL),
                               _mm512_loadu_ps(p->factors + c), _mm512_loadu_ps(p->shifts + c),
                               activation);
}

/* All of it is inlined once for each case, so that the usual ones ask nothing of a pixel. */
INLINE void read_as(enum hrf_dtype dtype, const char *const pixels[HRF_WINOGRAD_POINTS],
                    int64_t channels, const struct hrf_cpu_prologue *p,
                    const struct hrf_epilogue *activation, float *v, int64_t pitch, bool is_far)
{
    for (int64_t c = 0; c < channels; c += LANES, v += LANES) {
        __m512 lines[IN * IN], line[IN];
#pragma GCC unroll 4
        for (int column = 0; column < IN; column++) {
#pragma GCC unroll 4
            for (int row = 0; row < IN; row++)
                line[row] = read_pixel(dtype, pixels[row * IN + column], c, p, activation);
            transform_input(line, lines + column, IN);
        }
#pragma GCC unroll 4
        for (int row = 0; row < IN; row++) {
            transform_input(lines + row * IN, line, 1);
#pragma GCC unroll 4
            for (int column = 0; column < IN; column++) {
                float *const to = v + (row * IN + column) * pitch;
                _mm512_storeu_ps(to, line[column]);
                if (is_far) /* so many streams are more than the hardware foresees */
                    _mm_prefetch((const char *)(to + LANES), _MM_HINT_ET0);
            }
        }
    }
}

void hrf_winograd_input_avx512(enum hrf_dtype dtype, const char *const pixels[HRF_WINOGRAD_POINTS],
                               int64_t channels, const struct hrf_cpu_prologue *p, float *v,
                               int64_t pitch, bool is_far)
{
    static const struct hrf_epilogue relu = { .activation = HRF_ACT_RELU };
    const bool is_relu = p != NULL && p->activation.activation == HRF_ACT_RELU;
    if (p == NULL && dtype == HRF_F32)
        read_as(HRF_F32, pixels, channels, NULL, NULL, v, pitch, is_far);
    else if (p == NULL && dtype == HRF_B16)
        read_as(HRF_B16, pixels, channels, NULL, NULL, v, pitch, is_far);
    else if (p == NULL)
        read_as(HRF_F16, pixels, channels, NULL, NULL, v, pitch, is_far);
    else if (is_relu && dtype == HRF_F32)
        read_as(HRF_F32, pixels, channels, p, &relu, v, pitch, is_far);
    else
        read_as(dtype, pixels, channels, p, &p->activation, v, pitch, is_far);
}

INLINE void write_as(const struct hrf_epilogue *e, const float *const m[HRF_WINOGRAD_POINTS],
                     int64_t at, int64_t channels, bool is_far,
                     char *const outputs[HRF_WINOGRAD_OUTPUTS])
{
    const int64_t size = e->type == HRF_F32 ? 4 : 2;
    for (int64_t c = 0; c < channels; c += LANES, at += LANES) {
        __m512 lines[OUT * IN], line[IN], done[OUT];
        const __m512 bias = hrf_bias(e->bias, c, ALL);
        for (int i = 0; i < HRF_WINOGRAD_OUTPUTS; i++)
            _mm_prefetch(outputs[i] + (c + Y_AHEAD * LANES) * size, _MM_HINT_ET0);
#pragma GCC unroll 4
        for (int column = 0; column < IN; column++) {
#pragma GCC unroll 4
            for (int row = 0; row < IN; row++) {
                const float *const from = m[row * IN + column] + at;
                line[row] = _mm512_loadu_ps(from);
                if (is_far)
                    _mm_prefetch((const char *)(from + LANES), _MM_HINT_T0);
            }
            transform_output(line, lines + column, IN);
        }
#pragma GCC unroll 2
        for (int row = 0; row < OUT; row++) {
            transform_output(lines + row * IN, done, 1);
#pragma GCC unroll 2
            for (int column = 0; column < OUT; column++)
                if (outputs[row * OUT + column] != NULL)
                    hrf_finish(done[column], ALL, outputs[row * OUT + column] + c * size, bias, e);
        }
    }
}

void hrf_winograd_output_avx512(const float *const m[HRF_WINOGRAD_POINTS], int64_t at,
                                int64_t channels, bool is_far,
                                char *const outputs[HRF_WINOGRAD_OUTPUTS],
                                const struct hrf_epilogue *epilogue)
{
    if (hrf_is_relu_alone(epilogue)) {
        const struct hrf_epilogue relu = hrf_relu_alone(epilogue->bias);
        write_as(&relu, m, at, channels, is_far, outputs);
    } else {
        write_as(epilogue, m, at, channels, is_far, outputs);
    }
}
