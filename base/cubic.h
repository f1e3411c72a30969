/* cubic.h - Keys' cubic with a = -0.5: the weight at distance x of the bicubic interpolation of
 * Pillow and of PyTorch's antialiased one (R. Keys, Cubic convolution interpolation, 1981). */
#ifndef HRF_BASE_CUBIC_H
#define HRF_BASE_CUBIC_H

#include <math.h>

static inline double hrf_cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

#endif
