/* crossed.h - which numbers of a product's depth are crossed (product.h says what that is).
 *
 * Of each HRF_CROSSED_STEPS numbers those at 0, 3, 6, 9 and 12 with the one after each. Between the
 * pairs one is as it is: there are as many additions as multiply-adds at any time, so that neither
 * waits for the other; and of all, 10 and 11.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_CROSSED_H
#define HRF_ENGINE_BACKEND_CPU_CROSSED_H

#include <stdint.h>

enum { HRF_CROSSED_STEPS = 16 };

/* By which the product of a number and the next one counts in what is added to the sums. */
static const float hrf_crossed_signs[HRF_CROSSED_STEPS] = { -1, 0, 0, 1, 0,  0, -1, 0,
                                                            0,  1, 0, 0, -1, 0, 0,  0 };

/* In double, where squares of floats neither overflow nor vanish. */
static inline double hrf_sum_squares(const float *x, int64_t stride, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i * stride] * x[i * stride];
    return sum;
}

#endif
