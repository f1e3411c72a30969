#include "engine/backend/cpu/winograd.h"

#include <math.h>

/* G: a row per point t is [1, t, t^2] over the product of (t - q) for all other finite points q;
 * infinity's is [0, 0, 1]. */
static void evaluate(const double *g, int64_t stride, double u[HRF_WINOGRAD_IN])
{
    const double half = sqrt(0.5), root = sqrt(2.0);
    const double points[] = { 0, half, -half, root, -root };
    const double scales[] = { 1, -1.5, -1.5, 6, 6 };
    for (int p = 0; p < HRF_WINOGRAD_IN - 1; p++)
        u[p] = (g[0] + points[p] * (g[stride] + points[p] * g[2 * stride])) / scales[p];
    u[HRF_WINOGRAD_IN - 1] = g[2 * stride];
}

void hrf_winograd_weights(const float kernel[9], double u[HRF_WINOGRAD_POINTS])
{
    double columns[3][HRF_WINOGRAD_IN], wide[9];
    for (int i = 0; i < 9; i++)
        wide[i] = (double)kernel[i];
    for (int column = 0; column < 3; column++)
        evaluate(wide + column, 3, columns[column]);
    for (int row = 0; row < HRF_WINOGRAD_IN; row++) {
        const double line[3] = { columns[0][row], columns[1][row], columns[2][row] };
        evaluate(line, 1, u + (size_t)row * HRF_WINOGRAD_IN);
    }
}
