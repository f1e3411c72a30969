#include "engine/backend/cpu/winograd.h"

#include <math.h>

/* G: a row per point t is [1, t, t^2, ...] over the product of (t - q) for all other finite points
 * q; infinity's is the last tap. */
static void evaluate(const double *taps, int n_taps, int64_t stride, double u[HRF_WINOGRAD_IN])
{
    const double half = sqrt(0.5), root = sqrt(2.0);
    const double points[] = { 0, half, -half, root, -root };
    const double scales[] = { 1, -1.5, -1.5, 6, 6 };
    for (int p = 0; p < HRF_WINOGRAD_IN - 1; p++) {
        double sum = 0;
        for (int i = n_taps - 1; i >= 0; i--)
            sum = taps[i * stride] + points[p] * sum;
        u[p] = sum / scales[p];
    }
    u[HRF_WINOGRAD_IN - 1] = taps[(n_taps - 1) * stride];
}

void hrf_winograd_weights(const float *kernel, int n_taps, double u[HRF_WINOGRAD_POINTS])
{
    double columns[HRF_WINOGRAD_IN][HRF_WINOGRAD_IN], wide[HRF_WINOGRAD_POINTS];
    for (int i = 0; i < n_taps * n_taps; i++)
        wide[i] = (double)kernel[i];
    for (int column = 0; column < n_taps; column++)
        evaluate(wide + column, n_taps, n_taps, columns[column]);
    for (int row = 0; row < HRF_WINOGRAD_IN; row++) {
        double line[HRF_WINOGRAD_IN];
        for (int column = 0; column < n_taps; column++)
            line[column] = columns[column][row];
        evaluate(line, n_taps, 1, u + (size_t)row * HRF_WINOGRAD_IN);
    }
}
