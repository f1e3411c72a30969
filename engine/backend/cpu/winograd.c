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

enum { SIDE = HRF_STRIDED_OUT + 1 }; /* points of an axis: 0, 1, infinity */

struct hrf_winograd_phases hrf_strided_phases(int64_t point)
{
    const bool last_row = point / SIDE == SIDE - 1, last_column = point % SIDE == SIDE - 1;
    return (struct hrf_winograd_phases){ .first = last_column ? 1 : 0,
                                         .end = last_row ? 2 : HRF_STRIDED_PHASES - last_column };
}

/* G of one phase of an axis, whose taps stand `stride` apart: as above, of one or two taps. */
static double evaluate_phase(const double *g, int64_t stride, bool is_odd, int64_t point)
{
    if (point == SIDE - 1)
        return g[2 * stride];
    return is_odd ? g[stride] : g[0] + (double)point * g[2 * stride];
}

void hrf_strided_weights(const float kernel[9], double u[HRF_STRIDED_PRODUCTS])
{
    double wide[9], line[3];
    for (int i = 0; i < 9; i++)
        wide[i] = (double)kernel[i];
    for (int64_t point = 0; point < SIDE * SIDE; point++) {
        const struct hrf_winograd_phases phases = hrf_strided_phases(point);
        for (int64_t phase = phases.first; phase < phases.end; phase++) {
            const bool odd_row = phase >= 2, odd_column = phase == 0 || phase == 3;
            for (int column = 0; column < 3; column++)
                line[column] = evaluate_phase(wide + column, 3, odd_row, point / SIDE);
            *u++ = evaluate_phase(line, 1, odd_column, point % SIDE);
        }
    }
}
