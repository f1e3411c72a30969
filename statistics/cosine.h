/* cosine.h - the cosine similarity of two vectors. */
#ifndef HRF_STATISTICS_COSINE_H
#define HRF_STATISTICS_COSINE_H

#include <stdint.h>

/* Returns the cosine of the angle between a[n] and b[n], -1 to 1, summed in double. Two vectors of
 * zeros have a cosine of 1, a vector of zeros and another one 0. The result is NaN if a number is.
 */
double hrf_cosine(const float *a, const float *b, int64_t n);

/* The sum of products, in float, by sixteen partial sums: faster where lengths are 1 and many rows
 * are compared. The same bits everywhere. */
float hrf_float_dot(const float *a, const float *b, int64_t n);

#endif
