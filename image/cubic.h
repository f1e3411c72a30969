/* cubic.h - Keys' cubic kernel with a = -0.5, as a function of the distance x: the weights of
 * Pillow's bicubic interpolation and of PyTorch's antialiased one (R. Keys, Cubic convolution
 * interpolation, 1981). */
#ifndef HRF_IMAGE_CUBIC_H
#define HRF_IMAGE_CUBIC_H

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
