/* checked.h - arithmetic on counts and sizes that says when the result does not fit. */
#ifndef HRF_BASE_CHECKED_H
#define HRF_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* False: the result is beyond int64_t; *out is then not to be used. */
static inline bool hrf_checked_add(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool hrf_checked_mul(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

#endif
