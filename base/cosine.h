/* cosine.h - how alike the directions of two vectors are. */
#ifndef HRF_BASE_COSINE_H
#define HRF_BASE_COSINE_H

#include <stdint.h>

/* -1 to 1; of two vectors of zeros 1, where only one of them is 0; NaN where a number is. Summed in
 * double. */
double hrf_cosine(const float *a, const float *b, int64_t n);

#endif
