#include "engine/plan/timeline.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 1000, LEFT = 110, RIGHT = 130, TOP = 78, BOTTOM = 40, MAX_ROW = 26, MIN_ROW = 6 };

/* Colours that stay apart for the colour-blind (Okabe and Ito); waiting is pale. */
static const char *const colours[HRF_SIM_N_KINDS] = {
    [HRF_SIM_COMPUTE] = "#0072b2", [HRF_SIM_COPY] = "#56b4e9", [HRF_SIM_SEND] = "#e69f00",
    [HRF_SIM_RECEIVE] = "#d55e00", [HRF_SIM_WAIT] = "#d9d9d9",
};

void hrf_svg_text(struct hrf_strbuf *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        switch (*c) {
        case '<':
            hrf_strbuf_adds(out, "&lt;");
            break;
        case '>':
            hrf_strbuf_adds(out, "&gt;");
            break;
        case '&':
            hrf_strbuf_adds(out, "&amp;");
            break;
        case '"':
            hrf_strbuf_adds(out, "&quot;");
            break;
        default:
            hrf_strbuf_addc(out, *c);
        }
}

/* What the rank did most in each column; HRF_SIM_N_KINDS: nothing. */
static void fill_columns(const struct hrf_sim_rank *rank, double seconds,
                         unsigned char kinds[COLUMNS])
{
    static const unsigned char nothing = HRF_SIM_N_KINDS;
    const double width = seconds / COLUMNS;
    int32_t at = 0;
    for (int32_t c = 0; c < COLUMNS; c++) {
        double spent[HRF_SIM_N_KINDS] = { 0 }, most = 0;
        kinds[c] = nothing;
        while (at < rank->n_spans && rank->spans[at].end <= c * width)
            at++;
        for (int32_t i = at; i < rank->n_spans && rank->spans[i].start < (c + 1) * width; i++)
            spent[rank->spans[i].kind] += fmin(rank->spans[i].end, (c + 1) * width) -
                                          fmax(rank->spans[i].start, c * width);
        for (int k = 0; k < HRF_SIM_N_KINDS; k++)
            if (spent[k] > most) {
                most = spent[k];
                kinds[c] = (unsigned char)k;
            }
    }
}

static void draw_row(const struct hrf_timeline *timeline, const struct hrf_simulation *s, int32_t r,
                     double row, struct hrf_strbuf *out)
{
    const struct hrf_sim_rank *rank = &s->ranks[r];
    const double y = TOP + r * row, height = row * 0.8;
    unsigned char kinds[COLUMNS];
    fill_columns(rank, s->seconds, kinds);
    for (int32_t c = 0, end; c < COLUMNS; c = end) {
        for (end = c + 1; end < COLUMNS && kinds[end] == kinds[c]; end++)
            ;
        if (kinds[c] < HRF_SIM_N_KINDS)
            hrf_strbuf_addf(out,
                            "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" fill=\"%s\"/>",
                            LEFT + c, y, end - c, height, colours[kinds[c]]);
    }
    if (row < 10)
        return;
    hrf_strbuf_addf(out, "\n<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LEFT - 6,
                    y + height / 2 + 4);
    if (timeline->row_names != NULL)
        hrf_svg_text(out, timeline->row_names[r]);
    else
        hrf_strbuf_addf(out, "rank %d", r);
    hrf_strbuf_addf(out, "</text><text x=\"%d\" y=\"%.1f\">%.0f %% computing</text>\n",
                    LEFT + COLUMNS + 6, y + height / 2 + 4,
                    100 * rank->seconds[HRF_SIM_COMPUTE] / s->seconds);
}

/* 1, 2 or 5 times a power of ten: about eight of them fit. */
static double tick_of(double seconds)
{
    const double raw = seconds / 8, power = pow(10, floor(log10(raw)));
    const double lead = raw / power;
    return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

static void draw_axis(double seconds, double bottom, struct hrf_strbuf *out)
{
    const double tick = tick_of(seconds);
    const double unit = seconds < 1e-3 ? 1e6 : seconds < 1 ? 1e3 : 1;
    const char *name = seconds < 1e-3 ? "us" : seconds < 1 ? "ms" : "s";
    for (int32_t i = 0; i * tick <= seconds; i++) {
        const double x = LEFT + i * tick / seconds * COLUMNS;
        hrf_strbuf_addf(out,
                        "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#999\" "
                        "stroke-width=\"0.5\"/><text x=\"%.1f\" y=\"%.1f\" "
                        "text-anchor=\"middle\">%g %s</text>\n",
                        x, TOP - 4, x, bottom + 4, x, bottom + 18, i * tick * unit, name);
    }
}

static void draw_legend(struct hrf_strbuf *out)
{
    for (int k = 0; k < HRF_SIM_N_KINDS; k++)
        hrf_strbuf_addf(out,
                        "<rect x=\"%d\" y=\"54\" width=\"12\" height=\"12\" fill=\"%s\"/><text "
                        "x=\"%d\" y=\"64\">%s</text>\n",
                        LEFT + 90 * k, colours[k], LEFT + 90 * k + 17,
                        hrf_sim_kind_name((enum hrf_sim_kind)k));
}

void hrf_timeline_svg(const struct hrf_timeline *timeline, const struct hrf_simulation *s,
                      struct hrf_strbuf *out)
{
    const double fitting = 900.0 / s->n_ranks;
    const double row = fmin(fmax(fitting, MIN_ROW), MAX_ROW), bottom = TOP + s->n_ranks * row;
    hrf_strbuf_addf(out,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
                    "font-family=\"sans-serif\" font-size=\"12\">\n"
                    "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
                    "<text x=\"%d\" y=\"22\" font-size=\"16\">",
                    LEFT + COLUMNS + RIGHT, bottom + BOTTOM, LEFT);
    hrf_svg_text(out, timeline->title);
    hrf_strbuf_addf(out, "</text><text x=\"%d\" y=\"42\" fill=\"#444\">", LEFT);
    hrf_svg_text(out, timeline->subtitle);
    hrf_strbuf_adds(out, "</text>\n");
    draw_legend(out);
    if (s->seconds > 0) {
        draw_axis(s->seconds, bottom, out);
        for (int32_t r = 0; r < s->n_ranks; r++)
            draw_row(timeline, s, r, row, out);
    }
    hrf_strbuf_adds(out, "</svg>\n");
}
