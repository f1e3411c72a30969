/* cosine.c - see cosine.h. */
#include "statistics/cosine.h"

#include <math.h>

double hrf_cosine(const float *a, const float *b, int64_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    if (aa == 0 || bb == 0)
        return isnan(ab) ? (double)NAN : aa == bb;
    const double cosine = ab / (sqrt(aa) * sqrt(bb));
    return cosine > 1 ? 1 : cosine; /* rounding may exceed 1 */
}

float hrf_float_dot(const float *a, const float *b, int64_t n)
{
    float sums[16] = { 0 };
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++)
            sums[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sums[0] += a[i] * b[i];
    for (int k = 1; k < 16; k++)
        sums[0] += sums[k];
    return sums[0];
}
