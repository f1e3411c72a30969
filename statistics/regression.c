/* regression.c - mean absolute error, coefficient of determination, rank correlation. */
#include "statistics/regression.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>

struct ranked {
    double value;
    size_t item;
};

static int by_value(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

/* Replaces values by their ranks; equal ones share the mean of theirs. */
static void rank(struct ranked *sorted, const double *values, size_t n, double *ranks)
{
    for (size_t i = 0; i < n; i++)
        sorted[i] = (struct ranked){ values[i], i };
    qsort(sorted, n, sizeof *sorted, by_value);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && sorted[end].value == sorted[i].value; end++)
            continue;
        for (size_t k = i; k < end; k++)
            ranks[sorted[k].item] = (double)(i + end - 1) / 2;
    }
}

static double correlation(const double *a, const double *b, size_t n)
{
    double mean_a = 0, mean_b = 0, ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        mean_a += a[i] / (double)n;
        mean_b += b[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        ab += (a[i] - mean_a) * (b[i] - mean_b);
        aa += (a[i] - mean_a) * (a[i] - mean_a);
        bb += (b[i] - mean_b) * (b[i] - mean_b);
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : (double)NAN;
}

enum hrf_status hrf_regression_compute(const struct hrf_number_pair *pairs, size_t n,
                                       struct hrf_regression *out, struct hrf_error *err)
{
    struct hrf_regression r = { .n = n };
    double mean = 0, residual = 0, total = 0;
    if (n < 2)
        return hrf_error_set(err, HRF_E_USER,
                             "%zu slide%s with a number as truth %s scored; two are needed", n,
                             n == 1 ? "" : "s", n == 1 ? "was" : "were");
    HRF_AUTO_FREE struct ranked *sorted = hrf_alloc_array(n, sizeof *sorted);
    HRF_AUTO_FREE double *numbers = hrf_alloc_array(n, 4 * sizeof *numbers);
    double *truths = numbers, *values = numbers + n;
    for (size_t i = 0; i < n; i++) {
        truths[i] = pairs[i].truth;
        values[i] = pairs[i].value;
        mean += pairs[i].truth / (double)n;
        r.mean_absolute_error += fabs(pairs[i].truth - pairs[i].value) / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        residual += (pairs[i].truth - pairs[i].value) * (pairs[i].truth - pairs[i].value);
        total += (pairs[i].truth - mean) * (pairs[i].truth - mean);
    }
    r.r2 = total > 0 ? 1 - residual / total : (double)NAN;
    rank(sorted, truths, n, numbers + 2 * n);
    rank(sorted, values, n, numbers + 3 * n);
    r.spearman = correlation(numbers + 2 * n, numbers + 3 * n, n);
    *out = r;
    return HRF_OK;
}
