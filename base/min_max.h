/* min_max.h - arithmetic of integers: the smaller and the larger of two, bounds, a division and
 * multiples that round up, the greatest common divisor, and a product that cannot overflow. */
#ifndef HRF_BASE_MIN_MAX_H
#define HRF_BASE_MIN_MAX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline int64_t hrf_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t hrf_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t hrf_clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* a / b, rounded up; a >= 0, b > 0. */
static inline int64_t hrf_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The smallest multiple of `step` that is n or more; n >= 0, step > 0. */
static inline size_t hrf_round_up(size_t n, size_t step)
{
    return (n + step - 1) / step * step;
}

/* The greatest common divisor; of 0 and a, a. */
static inline int64_t hrf_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* False if the product does not fit into int64_t; *out must then not be used. */
static inline bool hrf_checked_mul(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

#endif
