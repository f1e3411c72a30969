/* bytes_avx512.h - operators on 8-bit values with AVX-512; they give the same bytes as
 * plain/integer.c.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_BYTES_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_BYTES_AVX512_H

#include "engine/ir/graph.h"

/* y[i] = table[x[i]]; y may be x. Only to be called where hrf_cpu_has_avx512_vbmi() says so. */
void hrf_bytes_by_table_avx512(const uint8_t table[256], const uint8_t *x, uint8_t *y, int64_t n);

/* In steps of y: a * b * factor, or a * a_factor + b * b_factor, where a and b are values minus
 * their zero points. The result is clipped to [low, high] and rounded half to even, and the zero
 * point is added. */
struct hrf_bytes_binary {
    bool multiplies;
    enum hrf_dtype a_type, b_type; /* S8 or U8 */
    int32_t a_zero, b_zero, y_zero;
    float factor, a_factor, b_factor;
    float low, high;
    int64_t a_step, b_step; /* 0 or 1 */
};
void hrf_bytes_binary_avx512(const struct hrf_bytes_binary *binary, const uint8_t *a,
                             const uint8_t *b, uint8_t *y, int64_t n);

/* In steps of y: (sum of the taps minus their zero points) * ratio / count; then as above. */
struct hrf_bytes_average {
    enum hrf_dtype type; /* of x: S8 or U8 */
    int32_t x_zero, y_zero;
    float ratio, low, high;
};
/* Computes n channels of one pixel of y from n_taps pixels, at most 64; count: at least 1. */
void hrf_bytes_average_avx512(const struct hrf_bytes_average *average, const uint8_t *const taps[],
                              int64_t n_taps, int64_t count, uint8_t *y, int64_t n);

/* y = x / scale in steps, then as above; a NaN becomes 0. */
struct hrf_bytes_quantize {
    float scale, low, high;
    int32_t y_zero;
};
void hrf_bytes_quantize_avx512(const struct hrf_bytes_quantize *quantize, const float *x,
                               uint8_t *y, int64_t n);

/* In steps of y, for n channels: (x - x_zero) * factors[c], rounded, + shifts[c]; clipped to
 * [least, most], then as above. */
struct hrf_bytes_scale {
    enum hrf_dtype type; /* of x: S8 or U8 */
    int32_t x_zero, y_zero;
    const float *factors, *shifts;
    float least, most; /* the bounds of an activation; infinite: none */
    float low, high;
};
void hrf_bytes_scale_avx512(const struct hrf_bytes_scale *scale, const uint8_t *x, uint8_t *y,
                            int64_t n);

#endif
