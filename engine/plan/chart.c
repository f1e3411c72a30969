#include "engine/plan/chart.h"

#include "engine/plan/timeline.h"

#include <math.h>

enum { WIDTH = 560, HEIGHT = 330, LEFT = 80, TOP = 40, PLOT_WIDTH = 440, PLOT_HEIGHT = 220 };

/* Okabe and Ito: colours that stay apart for the colour-blind. */
static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                       "#e69f00", "#56b4e9", "#000000", "#999999" };
enum { N_COLOURS = sizeof colours / sizeof colours[0] };

struct axes {
    double x_least, x_most, y_most, tick;
};

/* 1, 2 or 5 times a power of ten: about five of them fit. */
static double tick_of(double most)
{
    const double raw = most / 5, power = pow(10, floor(log10(raw))), lead = raw / power;
    return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

static struct axes find_axes(const struct hrf_chart *chart)
{
    struct axes a = { INFINITY, 0, 0, 1 };
    for (int32_t s = 0; s < chart->n_series; s++)
        for (int32_t i = 0; i < chart->series[s].n_points; i++) {
            const struct hrf_chart_point *p = &chart->series[s].points[i];
            a.x_least = fmin(a.x_least, p->x);
            a.x_most = fmax(a.x_most, p->x);
            a.y_most = isfinite(p->y) ? fmax(a.y_most, p->y) : a.y_most;
        }
    if (!(a.y_most > 0))
        a.y_most = 1;
    a.tick = tick_of(a.y_most);
    a.y_most = a.tick * ceil(a.y_most / a.tick);
    return a;
}

static double place_x(const struct axes *a, double x)
{
    const double range = log2(a->x_most / a->x_least);
    return LEFT + (range > 0 ? log2(x / a->x_least) / range : 0.5) * PLOT_WIDTH;
}

static double place_y(const struct axes *a, double y)
{
    return TOP + (1 - y / a->y_most) * PLOT_HEIGHT;
}

static void draw_axes(const struct hrf_chart *chart, const struct axes *a, struct hrf_strbuf *out)
{
    for (int32_t i = 0; i * a->tick <= a->y_most * 1.0001; i++) {
        const double y = place_y(a, i * a->tick);
        hrf_strbuf_addf(out,
                        "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/><text "
                        "x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                        LEFT, y, LEFT + PLOT_WIDTH, y, LEFT - 6, y + 4, i * a->tick);
    }
    for (double x = a->x_least; x <= a->x_most * 1.0001; x *= 2)
        hrf_strbuf_addf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
                        place_x(a, x), TOP + PLOT_HEIGHT + 16, x);
    hrf_strbuf_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", LEFT + PLOT_WIDTH / 2,
                    TOP + PLOT_HEIGHT + 32);
    hrf_svg_text(out, chart->x_name);
    hrf_strbuf_addf(out,
                    "</text><text transform=\"translate(16 %d) rotate(-90)\" "
                    "text-anchor=\"middle\">",
                    TOP + PLOT_HEIGHT / 2);
    hrf_svg_text(out, chart->y_name);
    hrf_strbuf_adds(out, "</text>\n");
}

static void draw_series(const struct hrf_chart_series *series, const char *colour,
                        const struct axes *a, struct hrf_strbuf *out)
{
    bool is_open = false;
    hrf_strbuf_addf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" d=\"", colour);
    for (int32_t i = 0; i < series->n_points; i++) {
        const struct hrf_chart_point *p = &series->points[i];
        if (isfinite(p->y))
            hrf_strbuf_addf(out, "%c%.1f %.1f", is_open ? 'L' : 'M', place_x(a, p->x),
                            place_y(a, p->y));
        is_open = isfinite(p->y);
    }
    hrf_strbuf_adds(out, "\"/>\n");
    for (int32_t i = 0; i < series->n_points; i++) {
        const struct hrf_chart_point *p = &series->points[i];
        if (isfinite(p->y))
            hrf_strbuf_addf(
                out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\" stroke=\"%s\"/>",
                place_x(a, p->x), place_y(a, p->y), p->is_measured ? colour : "white", colour);
    }
    hrf_strbuf_adds(out, "\n");
}

static void draw_legend(const struct hrf_chart *chart, struct hrf_strbuf *out)
{
    const int32_t y = HEIGHT - 14;
    for (int32_t s = 0; s < chart->n_series; s++) {
        const int32_t x = LEFT + s % 4 * 118, line = y - 14 * ((chart->n_series - 1) / 4 - s / 4);
        hrf_strbuf_addf(out, "<text x=\"%d\" y=\"%d\" fill=\"%s\">", x, line,
                        colours[s % N_COLOURS]);
        hrf_svg_text(out, chart->series[s].name);
        hrf_strbuf_adds(out, "</text>\n");
    }
}

void hrf_chart_svg(const struct hrf_chart *chart, struct hrf_strbuf *out)
{
    const struct axes axes = find_axes(chart);
    hrf_strbuf_addf(out,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                    "font-family=\"sans-serif\" font-size=\"11\">\n"
                    "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
                    "<text x=\"%d\" y=\"20\" font-size=\"13\">",
                    WIDTH, HEIGHT, LEFT);
    hrf_svg_text(out, chart->title);
    hrf_strbuf_adds(out, "</text>\n");
    if (axes.x_most > 0) {
        draw_axes(chart, &axes, out);
        for (int32_t s = 0; s < chart->n_series; s++)
            draw_series(&chart->series[s], colours[s % N_COLOURS], &axes, out);
    }
    draw_legend(chart, out);
    hrf_strbuf_adds(out, "</svg>\n");
}
