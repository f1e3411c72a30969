/* crossed_avx512.c - rows as a crossed product takes them. Compiled with -mavx512f, dq, bw.
 *
 * A row is scaled by a power of two, so that the root of its mean square is between 0.7 and 1.4,
 * about what it is of the packed columns. Behind it come the sum of its crossed numbers' products,
 * which is taken away, and the power of two that undoes the scaling.
 */
#include "engine/backend/cpu/crossed.h"
#include "engine/backend/cpu/number_avx512.h"
#include "engine/backend/cpu/product.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

enum { LANES = 16 };

/* Infinite or small where squares leave the range of floats. */
static float sum_squares(const float *x, int64_t n)
{
    __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        const __m512 a = _mm512_loadu_ps(x + i), b = _mm512_loadu_ps(x + i + LANES);
        even = _mm512_fmadd_ps(a, a, even);
        odd = _mm512_fmadd_ps(b, b, odd);
    }
    for (; i < n; i += LANES) {
        const __m512 a = _mm512_maskz_loadu_ps(hrf_first_lanes_avx512(n - i), x + i);
        even = _mm512_fmadd_ps(a, a, even);
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(even, odd));
}

static double mean_square(const float *x, int64_t n, double per_number)
{
    const float sum = sum_squares(x, n);
    const bool fits = sum > 0x1p-80f && sum < 0x1p120f;
    return (fits ? (double)sum : hrf_sum_squares(x, 1, n)) * per_number;
}

/* 2^-e for a mean square in [4^e / 2, 4^e * 2), which is not 0. */
static float scale_for(double mean)
{
    enum { DOUBLE_BIAS = 1023, FLOAT_BIAS = 127, DOUBLE_BITS = 52, FLOAT_BITS = 23, MOST = 126 };
    int64_t bits;
    memcpy(&bits, &mean, sizeof bits);
    int64_t e = ((bits >> DOUBLE_BITS) - DOUBLE_BIAS + 1) >> 1;
    e = e < -MOST ? -MOST : e > MOST ? MOST : e;
    const int32_t scale = (int32_t)(FLOAT_BIAS - e) << FLOAT_BITS;
    float out;
    memcpy(&out, &scale, sizeof out);
    return out;
}

/* Returns the sum that is added to the row's outputs. */
static float scale_row(const float *x, int64_t depth, float scale, float *to)
{
    const __m512 by = _mm512_set1_ps(scale);
    __m512 sums = _mm512_setzero_ps(); /* of each number's products with the next */
    int64_t k = 0;
    for (; k + HRF_CROSSED_STEPS <= depth; k += HRF_CROSSED_STEPS) {
        const __m512 v = _mm512_mul_ps(_mm512_loadu_ps(x + k), by);
        const __m512i bits = _mm512_castps_si512(v);
        const __m512 next = _mm512_castsi512_ps(_mm512_alignr_epi32(bits, bits, 1));
        sums = _mm512_fmadd_ps(v, next, sums);
        _mm512_storeu_ps(to + k, v);
    }
    const __mmask16 rest = hrf_first_lanes_avx512(depth - k);
    _mm512_mask_storeu_ps(to + k, rest, _mm512_mul_ps(_mm512_maskz_loadu_ps(rest, x + k), by));
    return _mm512_reduce_add_ps(_mm512_mul_ps(sums, _mm512_loadu_ps(hrf_crossed_signs)));
}

/* Crossed, an infinity would give NaN, which RELU turns into a quiet 0. */
static void overflow_row(int64_t depth, float *to)
{
    memset(to, 0, (size_t)depth * sizeof *to);
    to[depth] = INFINITY;
    to[depth + 1] = 1;
}

void hrf_product_cross_rows_avx512(const float *x, int64_t x_pitch, int64_t depth, int64_t rows,
                                   float *to, int64_t to_pitch)
{
    const double per_number = 1 / (double)depth;
    for (int64_t i = 0; i < rows; i++, x += x_pitch, to += to_pitch) {
        const double mean = mean_square(x, depth, per_number);
        if (!isfinite(mean)) {
            overflow_row(depth, to);
            continue;
        }
        const float scale = mean > 0 ? scale_for(mean) : 1;
        to[depth] = scale_row(x, depth, scale, to);
        to[depth + 1] = mean > 0 ? 1 / scale : 0; /* zeros give 0, not the weights' roundings */
    }
}
