/* sort.c - orders for qsort(), the median and quantiles (sort.h). */
#include "base/sort.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int hrf_compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int hrf_compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

double hrf_median(double *values, size_t n)
{
    assert(n >= 1);
    qsort(values, n, sizeof values[0], hrf_compare_doubles);
    return (values[n / 2] + values[(n - 1) / 2]) / 2;
}

double hrf_quantile(const double *rising, size_t n, double q)
{
    assert(n >= 1);
    const double at = q * (double)(n - 1);
    const size_t i = (size_t)floor(at);
    return i + 1 >= n ? rising[n - 1] : rising[i] + (rising[i + 1] - rising[i]) * (at - (double)i);
}
