#include "engine/backend/cpu/winograd.h"

/* G of one axis, whose taps stand `stride` apart, into u[4], which stand `step` apart. */
static void evaluate(const double *taps, int stride, double *u, int step)
{
    const double ends = taps[0] + taps[2 * stride];
    u[0] = taps[0];
    u[step] = (ends + taps[stride]) / 2;
    u[2 * step] = (ends - taps[stride]) / 2;
    u[3 * step] = taps[2 * stride];
}

void hrf_winograd_weights(const float kernel[9], float u[HRF_WINOGRAD_POINTS])
{
    enum { IN = HRF_WINOGRAD_IN };
    double wide[9], columns[IN * 3], line[IN];
    for (int i = 0; i < 9; i++)
        wide[i] = (double)kernel[i];
    for (int column = 0; column < 3; column++)
        evaluate(wide + column, 3, columns + column, 3);
    for (int row = 0; row < IN; row++) {
        evaluate(columns + row * 3, 1, line, 1);
        for (int column = 0; column < IN; column++)
            u[row * IN + column] = (float)line[column];
    }
}
