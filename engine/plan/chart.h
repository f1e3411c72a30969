/* chart.h - figures over a number of ranks as one picture: a line for each way to share the work.
 *
 * Measured points are filled, simulated ones hollow, so that nobody takes one for the other. The
 * horizontal axis doubles from tick to tick. SVG 1.1, no scripts.
 */
#ifndef HRF_ENGINE_PLAN_CHART_H
#define HRF_ENGINE_PLAN_CHART_H

#include "base/strbuf.h"

#include <stdint.h>

struct hrf_chart_point {
    double x, y; /* x > 0; a y that is not finite leaves a gap */
    bool is_measured;
};

struct hrf_chart_series {
    const char *name;
    const struct hrf_chart_point *points; /* by x */
    int32_t n_points;
};

struct hrf_chart {
    const char *title, *x_name, *y_name;
    const struct hrf_chart_series *series;
    int32_t n_series; /* colours repeat after 8 */
};

/* Appends; check with hrf_strbuf_status(). */
void hrf_chart_svg(const struct hrf_chart *chart, struct hrf_strbuf *out);

#endif
