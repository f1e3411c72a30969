/* colours.c - colour maps of figures, and the colours of classes. */
#include "image/colours.h"

#include <math.h>

static unsigned char mix(double a, double b, double t)
{
    return (unsigned char)lround(a + (b - a) * t);
}

struct hrf_rgb hrf_colour_diverging(double t)
{
    static const unsigned char c[7][3] = { { 33, 102, 172 },  { 103, 169, 207 }, { 209, 229, 240 },
                                           { 247, 247, 247 }, { 253, 219, 199 }, { 239, 138, 98 },
                                           { 178, 24, 43 } };
    const double at = fmin(fmax(t, 0.0), 1.0) * 6.0;
    const int i = at < 6.0 ? (int)at : 5;
    return (struct hrf_rgb){ mix(c[i][0], c[i + 1][0], at - i), mix(c[i][1], c[i + 1][1], at - i),
                             mix(c[i][2], c[i + 1][2], at - i) };
}

struct hrf_rgb hrf_colour_map(double t)
{
    static const double c[7][3] = {
        { 0.2777273272234177, 0.005407344544966578, 0.3340998053353061 },
        { 0.1050930431085774, 1.404613529898575, 1.384590162594685 },
        { -0.3308618287255563, 0.214847559468213, 0.09509516302823659 },
        { -4.634230498983486, -5.799100973351585, -19.33244095627987 },
        { 6.228269936347081, 14.17993336680509, 56.69055260068105 },
        { 4.776384997670288, -13.74514537774601, -65.35303263337234 },
        { -5.435455855934631, 4.645852612178535, 26.3124352495832 },
    };
    t = fmin(fmax(t, 0.0), 1.0);
    unsigned char rgb[3];
    for (int k = 0; k < 3; k++) {
        double v = c[6][k];
        for (int i = 5; i >= 0; i--)
            v = v * t + c[i][k];
        rgb[k] = (unsigned char)lround(255.0 * fmin(fmax(v, 0.0), 1.0));
    }
    return (struct hrf_rgb){ rgb[0], rgb[1], rgb[2] };
}

struct hrf_rgb hrf_colour_of_class(size_t class, size_t positive)
{
    static const struct hrf_rgb others[] = { { 47, 120, 183 }, { 44, 138, 87 },  { 132, 82, 201 },
                                             { 168, 106, 0 },  { 15, 143, 154 }, { 194, 59, 142 },
                                             { 91, 98, 112 } };
    const size_t number = class > positive ? class - 1 : class;
    return class == positive ? (struct hrf_rgb){ 200, 69, 47 }
                             : others[number % (sizeof others / sizeof others[0])];
}
