/* sort.h - comparison functions for qsort(), the median and quantiles. */
#ifndef HRF_BASE_SORT_H
#define HRF_BASE_SORT_H

#include <stddef.h>

int hrf_compare_doubles(const void *a, const void *b); /* items: double, none of them NaN */
int hrf_compare_texts(const void *a, const void *b);   /* items: char *, by their bytes */

/* Returns the median of n >= 1 numbers and leaves them sorted. */
double hrf_median(double *values, size_t n);
/* Returns the q-quantile (0 to 1) of n >= 1 numbers in rising order, interpolated linearly between
 * neighbours as NumPy does by default. */
double hrf_quantile(const double *rising, size_t n, double q);

#endif
