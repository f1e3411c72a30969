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
    HALF = HRF_WINOGRAD_POINTS / 2,
    CHUNK = 256, /* channels between asking for an output pixel's lines and writing them */
};

#define ROOT      1.41421356237309505f /* sqrt(2) */
#define HALF_ROOT 0.70710678118654752f /* 1 / sqrt(2) */
#define ROOT_3    2.82842712474619010f /* sqrt(2)^3 */
#define HALF_3    0.35355339059327376f /* (1 / sqrt(2))^3 */

/* B^T x: row p is the product of (t - q) over all points q but p, as coefficients of t. By halves:
 * 36 values do not fit into the registers, 18 do. */
static inline void transform_input(const __m512 x[IN], __m512 y[], int step, int half)
{
    if (half == 0) {
        const __m512 even = _mm512_fnmadd_ps(_mm512_set1_ps(2.0f), x[2], x[4]);
        const __m512 odd = _mm512_fmsub_ps(_mm512_set1_ps(HALF_ROOT), x[3],
                                           _mm512_mul_ps(_mm512_set1_ps(ROOT), x[1]));
        y[0] = _mm512_fnmadd_ps(_mm512_set1_ps(2.5f), x[2], _mm512_add_ps(x[0], x[4]));
        y[1 * step] = _mm512_add_ps(even, odd);
        y[2 * step] = _mm512_sub_ps(even, odd);
    } else {
        const __m512 even = _mm512_fnmadd_ps(_mm512_set1_ps(0.5f), x[2], x[4]);
        const __m512 odd = _mm512_fmsub_ps(_mm512_set1_ps(ROOT), x[3],
                                           _mm512_mul_ps(_mm512_set1_ps(HALF_ROOT), x[1]));
        y[0] = _mm512_add_ps(even, odd);
        y[1 * step] = _mm512_sub_ps(even, odd);
        y[2 * step] = _mm512_fnmadd_ps(_mm512_set1_ps(2.5f), x[3], _mm512_add_ps(x[1], x[5]));
    }
}

/* A^T x: row i sums the points' i-th powers; those of the pairs +-1/sqrt(2) and +-sqrt(2) come as
 * sums and differences. */
static inline void add_powers(__m512 first, __m512 sum1, __m512 difference1, __m512 sum2,
                              __m512 difference2, __m512 last, __m512 y[OUT])
{
    y[0] = _mm512_add_ps(first, _mm512_add_ps(sum1, sum2));
    y[1] = _mm512_fmadd_ps(_mm512_set1_ps(ROOT), difference2,
                           _mm512_mul_ps(_mm512_set1_ps(HALF_ROOT), difference1));
    y[2] = _mm512_fmadd_ps(_mm512_set1_ps(2.0f), sum2, _mm512_mul_ps(_mm512_set1_ps(0.5f), sum1));
    y[3] = _mm512_fmadd_ps(_mm512_set1_ps(ROOT_3), difference2,
                           _mm512_fmadd_ps(_mm512_set1_ps(HALF_3), difference1, last));
}

static inline void transform_output(const __m512 x[IN], __m512 y[OUT])
{
    add_powers(x[0], _mm512_add_ps(x[1], x[2]), _mm512_sub_ps(x[1], x[2]),
               _mm512_add_ps(x[3], x[4]), _mm512_sub_ps(x[3], x[4]), x[5], y);
}

/* Inlined at once, or the compiler finds that prefetches have no effect and drops them. */
#define INLINE static inline __attribute__((always_inline))

/* So many streams are more than the hardware foresees. */
INLINE void ask_to_write(const float *points, int64_t pitch)
{
#pragma GCC unroll 18
    for (int point = 0; point < HALF; point++)
        _mm_prefetch((const char *)(points + point * pitch), _MM_HINT_ET0);
}

INLINE void ask_for_points(const float *const *points, int64_t at)
{
#pragma GCC unroll 18
    for (int point = 0; point < HALF; point++)
        _mm_prefetch((const char *)(points[point] + at), _MM_HINT_T0);
}

/* A prologue, where `p` is not NULL. */
static inline __m512 read_pixel(enum hrf_dtype dtype, const char *pixel, int64_t c,
                                const struct hrf_cpu_prologue *p,
                                const struct hrf_epilogue *activation)
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

/* Half of the points over all channels, then the other half: 18 lines written at a time come twice
 * as fast as 36 where they lie beyond the second-level cache. All of it is inlined once for each
 * case, so that the usual ones ask nothing of a pixel. */
INLINE void read_as(enum hrf_dtype dtype, const char *const pixels[HRF_WINOGRAD_POINTS],
                    int64_t channels, const struct hrf_cpu_prologue *p,
                    const struct hrf_epilogue *activation, float *v, int64_t pitch, bool is_far)
{
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        float *to = v + half * HALF * pitch;
        for (int64_t c = 0; c < channels; c += LANES, to += LANES) {
            __m512 lines[IN / 2 * IN], line[IN], done[IN];
            if (is_far)
                ask_to_write(to + LANES, pitch);
#pragma GCC unroll 6
            for (int column = 0; column < IN; column++) {
#pragma GCC unroll 5
                for (int row = half; row < half + IN - 1; row++)
                    line[row] = read_pixel(dtype, pixels[row * IN + column], c, p, activation);
                transform_input(line, lines + column, IN, half);
            }
#pragma GCC unroll 3
            for (int row = 0; row < IN / 2; row++) {
                transform_input(lines + row * IN, done, 1, 0);
                transform_input(lines + row * IN, done + IN / 2, 1, 1);
#pragma GCC unroll 6
                for (int column = 0; column < IN; column++)
                    _mm512_storeu_ps(to + (row * IN + column) * pitch, done[column]);
            }
        }
    }
}

void hrf_winograd_input_avx512(enum hrf_dtype dtype, const char *const pixels[HRF_WINOGRAD_POINTS],
                               int64_t channels, float *v, int64_t pitch, bool is_far)
{
    if (dtype == HRF_F32)
        read_as(HRF_F32, pixels, channels, NULL, NULL, v, pitch, is_far);
    else if (dtype == HRF_B16)
        read_as(HRF_B16, pixels, channels, NULL, NULL, v, pitch, is_far);
    else
        read_as(HRF_F16, pixels, channels, NULL, NULL, v, pitch, is_far);
}

void hrf_winograd_prologue_avx512(enum hrf_dtype dtype,
                                  const char *const pixels[HRF_WINOGRAD_POINTS], int64_t channels,
                                  const struct hrf_cpu_prologue *p, float *v, int64_t pitch,
                                  bool is_far)
{
    static const struct hrf_epilogue relu = { .activation = HRF_ACT_RELU };
    const bool is_relu = p->activation.activation == HRF_ACT_RELU;
    if (is_relu && dtype == HRF_F32)
        read_as(HRF_F32, pixels, channels, p, &relu, v, pitch, is_far);
    else if (is_relu && dtype == HRF_B16)
        read_as(HRF_B16, pixels, channels, p, &relu, v, pitch, is_far);
    else if (is_relu)
        read_as(HRF_F16, pixels, channels, p, &relu, v, pitch, is_far);
    else
        read_as(dtype, pixels, channels, p, &p->activation, v, pitch, is_far);
}

/* Three rows of points (upper: the last two, else the first two, are a pair +-q), 16 channels: the
 * sum and the difference of the pair and the row alone, brought to four columns each. */
enum { SUM, DIFFERENCE, ALONE, KEPT = 3 * OUT };

INLINE void read_half(const float *const *m, int64_t at, bool is_upper, __m512 out[KEPT])
{
    __m512 lines[3 * IN];
    const int alone = is_upper ? 0 : 2 * IN, pair = is_upper ? IN : 0;
#pragma GCC unroll 6
    for (int column = 0; column < IN; column++, m++) {
        const __m512 plus = _mm512_loadu_ps(m[pair] + at);
        const __m512 minus = _mm512_loadu_ps(m[pair + IN] + at);
        lines[SUM * IN + column] = _mm512_add_ps(plus, minus);
        lines[DIFFERENCE * IN + column] = _mm512_sub_ps(plus, minus);
        lines[ALONE * IN + column] = _mm512_loadu_ps(m[alone] + at);
    }
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++)
        transform_output(lines + i * IN, out + i * OUT);
}

/* One column of four outputs: A^T once more, of what the two halves gave. */
INLINE void join_halves(const float *upper, const __m512 lower[KEPT], int column, __m512 y[OUT])
{
    const __m512 sum1 = _mm512_load_ps(upper + (SUM * OUT + column) * LANES);
    const __m512 difference1 = _mm512_load_ps(upper + (DIFFERENCE * OUT + column) * LANES);
    const __m512 first = _mm512_load_ps(upper + (ALONE * OUT + column) * LANES);
    const __m512 sum2 = lower[SUM * OUT + column], last = lower[ALONE * OUT + column];
    add_powers(first, sum1, difference1, sum2, lower[DIFFERENCE * OUT + column], last, y);
}

/* Half of the points over all channels of a chunk, then the other half, as in read_as(). */
INLINE void write_as(const struct hrf_epilogue *e, const float *const *m, int64_t at,
                     int64_t channels, bool is_far, char *const outputs[HRF_WINOGRAD_OUTPUTS])
{
    _Alignas(64) float upper[CHUNK / LANES][KEPT * LANES];
    const int64_t size = e->type == HRF_F32 ? 4 : 2;
    for (int64_t chunk = 0; chunk < channels; chunk += CHUNK) {
        const int64_t end = channels - chunk < CHUNK ? channels : chunk + CHUNK;
        __m512 out[KEPT], done[OUT];
        for (int64_t c = chunk; c < end; c += LANES) {
            if (is_far)
                ask_for_points(m, at + c + LANES);
            for (int i = 0; i < HRF_WINOGRAD_OUTPUTS; i++)
                _mm_prefetch(outputs[i] + c * size, _MM_HINT_ET0);
            read_half(m, at + c, true, out);
#pragma GCC unroll 12
            for (int i = 0; i < KEPT; i++)
                _mm512_store_ps(upper[(c - chunk) / LANES] + i * LANES, out[i]);
        }
        for (int64_t c = chunk; c < end; c += LANES) {
            const __m512 bias = hrf_bias(e->bias, c, ALL);
            if (is_far)
                ask_for_points(m + HALF, at + c + LANES);
            read_half(m + HALF, at + c, false, out);
#pragma GCC unroll 4
            for (int column = 0; column < OUT; column++) {
                join_halves(upper[(c - chunk) / LANES], out, column, done);
#pragma GCC unroll 4
                for (int row = 0; row < OUT; row++)
                    if (outputs[row * OUT + column] != NULL)
                        hrf_finish(done[row], ALL, outputs[row * OUT + column] + c * size, bias, e);
            }
        }
    }
}

void hrf_winograd_output_avx512(const float *const *m, int64_t at, int64_t channels, bool is_far,
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
