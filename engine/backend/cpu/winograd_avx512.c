/* winograd_avx512.c - the transforms, 16 channels at a time. Compiled with -mavx512f. */
#include "engine/backend/cpu/epilogue_avx512.h"
#include "engine/backend/cpu/prologue_avx512.h"
#include "engine/backend/cpu/winograd.h"

#include <immintrin.h>

enum { LANES = 16, ALL = 0xffff, IN = HRF_WINOGRAD_IN, OUT = HRF_WINOGRAD_OUT };

#define ROOT      1.41421356237309505f /* sqrt(2) */
#define HALF_ROOT 0.70710678118654752f /* 1 / sqrt(2) */
#define ROOT_3    2.82842712474619010f /* sqrt(2)^3 */
#define HALF_3    0.35355339059327376f /* (1 / sqrt(2))^3 */

/* B^T x: row p is the product of (t - q) over all points q but p, as coefficients of t. */
static inline void transform_input(const __m512 x[IN], __m512 y[], int step)
{
    const __m512 even1 = _mm512_fnmadd_ps(_mm512_set1_ps(2.0f), x[2], x[4]);
    const __m512 even2 = _mm512_fnmadd_ps(_mm512_set1_ps(0.5f), x[2], x[4]);
    const __m512 odd1 = _mm512_fmsub_ps(_mm512_set1_ps(HALF_ROOT), x[3],
                                        _mm512_mul_ps(_mm512_set1_ps(ROOT), x[1]));
    const __m512 odd2 = _mm512_fmsub_ps(_mm512_set1_ps(ROOT), x[3],
                                        _mm512_mul_ps(_mm512_set1_ps(HALF_ROOT), x[1]));
    y[0] = _mm512_fnmadd_ps(_mm512_set1_ps(2.5f), x[2], _mm512_add_ps(x[0], x[4]));
    y[1 * step] = _mm512_add_ps(even1, odd1);
    y[2 * step] = _mm512_sub_ps(even1, odd1);
    y[3 * step] = _mm512_add_ps(even2, odd2);
    y[4 * step] = _mm512_sub_ps(even2, odd2);
    y[5 * step] = _mm512_fnmadd_ps(_mm512_set1_ps(2.5f), x[3], _mm512_add_ps(x[1], x[5]));
}

/* A^T x: row i sums the points' i-th powers. */
static inline void transform_output(const __m512 x[IN], __m512 y[], int step)
{
    const __m512 sum1 = _mm512_add_ps(x[1], x[2]), difference1 = _mm512_sub_ps(x[1], x[2]);
    const __m512 sum2 = _mm512_add_ps(x[3], x[4]), difference2 = _mm512_sub_ps(x[3], x[4]);
    y[0] = _mm512_add_ps(x[0], _mm512_add_ps(sum1, sum2));
    y[1 * step] = _mm512_fmadd_ps(_mm512_set1_ps(ROOT), difference2,
                                  _mm512_mul_ps(_mm512_set1_ps(HALF_ROOT), difference1));
    y[2 * step] = _mm512_fmadd_ps(_mm512_set1_ps(2.0f), sum2,
                                  _mm512_mul_ps(_mm512_set1_ps(0.5f), sum1));
    y[3 * step] = _mm512_fmadd_ps(_mm512_set1_ps(ROOT_3), difference2,
                                  _mm512_fmadd_ps(_mm512_set1_ps(HALF_3), difference1, x[5]));
}

static inline void transform_rows(const __m512 half[HRF_WINOGRAD_POINTS], float *v, int64_t pitch,
                                  bool is_far)
{
    __m512 done[IN];
    if (is_far) /* 36 streams are more than the hardware foresees */
        for (int point = 0; point < HRF_WINOGRAD_POINTS; point++)
            _mm_prefetch((const char *)(v + point * pitch + LANES), _MM_HINT_ET0);
    for (int row = 0; row < IN; row++) {
        transform_input(half + row * IN, done, 1);
        for (int column = 0; column < IN; column++)
            _mm512_storeu_ps(v + (row * IN + column) * pitch, done[column]);
    }
}

/* All of it is inlined once for each type, and for RELU, so that the usual cases ask nothing of a
 * pixel. */
static inline void read_plain(enum hrf_dtype dtype, const char *const pixels[HRF_WINOGRAD_POINTS],
                              int64_t channels, float *v, int64_t pitch, bool is_far)
{
    const int64_t size = dtype == HRF_F32 ? 4 : 2;
    for (int64_t c = 0; c < channels; c += LANES) {
        __m512 half[HRF_WINOGRAD_POINTS], line[IN];
        for (int column = 0; column < IN; column++) {
            for (int row = 0; row < IN; row++)
                line[row] = hrf_load_avx512(dtype, pixels[row * IN + column] + c * size, ALL);
            transform_input(line, half + column, IN);
        }
        transform_rows(half, v + c, pitch, is_far);
    }
}

void hrf_winograd_input_avx512(enum hrf_dtype dtype, const char *const pixels[HRF_WINOGRAD_POINTS],
                               int64_t channels, float *v, int64_t pitch, bool is_far)
{
    if (dtype == HRF_F32)
        read_plain(HRF_F32, pixels, channels, v, pitch, is_far);
    else if (dtype == HRF_B16)
        read_plain(HRF_B16, pixels, channels, v, pitch, is_far);
    else
        read_plain(HRF_F16, pixels, channels, v, pitch, is_far);
}

static inline void read_with_prologue(enum hrf_dtype dtype,
                                      const char *const pixels[HRF_WINOGRAD_POINTS],
                                      int64_t channels, const struct hrf_cpu_prologue *p,
                                      const struct hrf_epilogue *activation, float *v,
                                      int64_t pitch, bool is_far)
{
    const int64_t size = dtype == HRF_F32 ? 4 : 2;
    for (int64_t c = 0; c < channels; c += LANES) {
        __m512 half[HRF_WINOGRAD_POINTS], line[IN];
        const __m512 factor = _mm512_loadu_ps(p->factors + c);
        const __m512 shift = _mm512_loadu_ps(p->shifts + c);
        for (int column = 0; column < IN; column++) {
            for (int row = 0; row < IN; row++) {
                const char *pixel = pixels[row * IN + column];
                line[row] = pixel != NULL
                                ? hrf_prologue_avx512(hrf_load_avx512(dtype, pixel + c * size, ALL),
                                                      factor, shift, activation)
                                : _mm512_setzero_ps();
            }
            transform_input(line, half + column, IN);
        }
        transform_rows(half, v + c, pitch, is_far);
    }
}

void hrf_winograd_prologue_avx512(enum hrf_dtype dtype,
                                  const char *const pixels[HRF_WINOGRAD_POINTS], int64_t channels,
                                  const struct hrf_cpu_prologue *p, float *v, int64_t pitch,
                                  bool is_far)
{
    static const struct hrf_epilogue relu = { .activation = HRF_ACT_RELU };
    if (dtype != HRF_F32)
        read_with_prologue(dtype, pixels, channels, p, &p->activation, v, pitch, is_far);
    else if (p->activation.activation == HRF_ACT_RELU)
        read_with_prologue(HRF_F32, pixels, channels, p, &relu, v, pitch, is_far);
    else
        read_with_prologue(HRF_F32, pixels, channels, p, &p->activation, v, pitch, is_far);
}

void hrf_winograd_output_avx512(const float *m, int64_t pitch, int64_t channels, bool is_far,
                                char *const outputs[HRF_WINOGRAD_OUTPUTS],
                                const struct hrf_epilogue *epilogue)
{
    const int64_t size = epilogue->type == HRF_F32 ? 4 : 2;
    for (int64_t c = 0; c < channels; c += LANES) {
        __m512 half[OUT * IN], line[IN], done[OUT];
        const __m512 bias = hrf_bias(epilogue->bias, c, ALL);
        for (int column = 0; column < IN; column++) {
            for (int row = 0; row < IN; row++) {
                const float *from = m + (row * IN + column) * pitch + c;
                if (is_far)
                    _mm_prefetch((const char *)(from + LANES), _MM_HINT_T0);
                line[row] = _mm512_loadu_ps(from);
            }
            transform_output(line, half + column, IN);
        }
        for (int row = 0; row < OUT; row++) {
            transform_output(half + row * IN, done, 1);
            for (int column = 0; column < OUT; column++)
                if (outputs[row * OUT + column] != NULL)
                    hrf_finish(done[column], ALL, outputs[row * OUT + column] + c * size, bias,
                               epilogue);
        }
    }
}
