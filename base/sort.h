/* sort.h - orders for qsort() that several places need, and the median. */
#ifndef HRF_BASE_SORT_H
#define HRF_BASE_SORT_H

#include <stddef.h>

int hrf_compare_doubles(const void *a, const void *b); /* items: double, none of them NaN */
int hrf_compare_texts(const void *a, const void *b);   /* items: char *, by their bytes */

/* The median of n >= 1 numbers, which it sorts. */
double hrf_median(double *values, size_t n);

#endif
