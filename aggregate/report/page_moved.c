/* page_moved.c - charts of precisions against the first one: how far probabilities moved, what was
 * gained, and how scores and truths agree. */
#include "aggregate/report/page_private.h"

#include <math.h>

/* ---- how far the probabilities moved ---- */

enum { MOVED_LEFT = 44, MOVED_WIDTH = 270, MOVED_TOP = 8, MOVED_HEIGHT = 270, MOVED_DECADES = 6 };

static void moved_frame(struct hrf_out *out)
{
    static const char *const marks[] = { "1e-6", "1e-4", "0.01", "1" };
    hrf_out_adds(out, "<svg viewBox=\"0 0 330 330\" role=\"img\" aria-label=\"How far the "
                      "probabilities moved\"><g class=\"axis\" fill=\"none\">");
    for (int i = 0; i <= MOVED_DECADES; i++)
        hrf_out_addf(out, "<path d=\"M%d %dv%d\"/>", MOVED_LEFT + i * MOVED_WIDTH / MOVED_DECADES,
                     MOVED_TOP, MOVED_HEIGHT);
    for (int i = 0; i <= 4; i++)
        hrf_out_addf(out, "<path d=\"M%d %dh%d\"/>", MOVED_LEFT, MOVED_TOP + i * MOVED_HEIGHT / 4,
                     MOVED_WIDTH);
    hrf_out_adds(out, "</g>");
    for (int i = 0; i < 4; i++)
        hrf_out_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>",
                     MOVED_LEFT + i * MOVED_WIDTH / 3, MOVED_TOP + MOVED_HEIGHT + 16, marks[i]);
    for (int i = 0; i <= 4; i += 2)
        hrf_out_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%d %%</text>",
                     MOVED_LEFT - 6, MOVED_TOP + i * MOVED_HEIGHT / 4 + 4, 100 - 25 * i);
    hrf_out_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">by at least</text>",
                 MOVED_LEFT + MOVED_WIDTH / 2, MOVED_TOP + MOVED_HEIGHT + 34);
}

/* The share of patches that moved by at least x, at the lower end of every bin. */
static void moved_line(struct hrf_out *out, const struct hrf_cohort_precision *p, size_t index)
{
    const struct hrf_difference *d = &p->moved.difference;
    int64_t n = d->n_patches - d->bins[0];
    hrf_plot_line(out, index);
    for (int i = 1; i <= HRF_DIFFERENCE_BINS; i++) {
        const double at = (double)(i - 1) / (HRF_DIFFERENCE_BINS - 1);
        hrf_out_addf(out, "%c%.1f %.1f", i == 1 ? 'M' : 'L', MOVED_LEFT + MOVED_WIDTH * at,
                     MOVED_TOP + MOVED_HEIGHT * (1.0 - (double)n / (double)d->n_patches));
        n -= i < HRF_DIFFERENCE_BINS ? d->bins[i] : 0;
    }
    hrf_out_adds(out, "\"/>");
}

void hrf_page_moved(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    hrf_out_markup(
        out, "<section><h2>Moved probabilities <small>share of patches, against %s</small></h2>\n",
        cohort->precisions[0].name);
    moved_frame(out);
    for (size_t i = 1; i < cohort->n_precisions; i++)
        if (cohort->precisions[i].moved.difference.n_patches > 0)
            moved_line(out, &cohort->precisions[i], i);
    hrf_out_adds(out, "</svg><ul class=\"key\">");
    for (size_t i = 1; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        hrf_plot_key(out, i);
        hrf_out_markup(out, "%s, at most <b>", p->name);
        hrf_page_figure(out, HRF_FIGURE_ROW(moved.max_abs_difference), p);
        hrf_out_adds(out, "</b></li>");
    }
    hrf_out_adds(out, "</ul></section>\n");
}

/* ---- gains ---- */

enum { GAIN_LEFT = 64, GAIN_WIDTH = 210, GAIN_BAR = 14, GAIN_ROW = 60 };

/* The far end of the scale: the largest ratio, or the reference's 1. */
static double gain_reach(const struct hrf_cohort *cohort)
{
    double reach = 1.0;
    for (size_t i = 1; i < hrf_cohort_n_timed(cohort); i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        reach = fmax(reach,
                     fmax(p->speed.compute_speedup.value, p->speed.speedup.value)); /* not NaN */
        reach = fmax(reach, p->speed.memory_ratio.value);
    }
    return reach;
}

static void gain_bar(struct hrf_out *out, const struct hrf_figure *ratio, double reach, double y,
                     const char *colour)
{
    if (isnan(ratio->value))
        return;
    const double width = GAIN_WIDTH * ratio->value / reach;
    hrf_out_addf(out,
                 "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\" "
                 "fill=\"var(--%s)\"/><text class=\"on\" x=\"%.1f\" y=\"%.1f\">%.2f</text>",
                 GAIN_LEFT, y, fmax(width, 1.0), GAIN_BAR, colour, GAIN_LEFT + width + 6.0,
                 y + 11.0, ratio->value);
}

void hrf_page_gains(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    const double reach = gain_reach(cohort);
    const size_t height = (hrf_cohort_n_timed(cohort) - 1) * GAIN_ROW;
    hrf_out_markup(out,
                   "<section><h2>Gains <small>times %s</small></h2>\n"
                   "<svg viewBox=\"0 0 330 %zu\" role=\"img\" aria-label=\"Speed and memory "
                   "against the reference\">"
                   "<path class=\"base\" stroke-dasharray=\"4 4\" d=\"M%.1f 0v%zu\"/>",
                   cohort->precisions[0].name, height + 8, GAIN_LEFT + GAIN_WIDTH / reach, height);
    for (size_t i = 1; i < hrf_cohort_n_timed(cohort); i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        const double y = (double)((i - 1) * GAIN_ROW) + 6.0;
        hrf_out_markup(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>",
                       GAIN_LEFT - 8, y + 1.5 * GAIN_BAR + 6.0, p->name);
        gain_bar(out, &p->speed.compute_speedup, reach, y, "t1");
        gain_bar(out, &p->speed.speedup, reach, y + GAIN_BAR + 2.0, "t4");
        gain_bar(out, &p->speed.memory_ratio, reach, y + 2.0 * (GAIN_BAR + 2.0), "t3");
    }
    hrf_out_adds(out,
                 "</svg><ul class=\"key\"><li><i style=\"background:var(--t1)\"></i>speed of the "
                 "network (more is better)</li><li><i style=\"background:var(--t4)\"></i>speed of "
                 "the whole job</li><li><i style=\"background:var(--t3)\"></i>peak "
                 "memory (less is better)</li></ul></section>\n");
}

/* ---- calibration curves ---- */

/* Points joined in the order of the tenths; a circle's area is proportional to its slides. */
static void curve(struct hrf_out *out, const struct hrf_cohort_precision *p, size_t index)
{
    hrf_plot_line(out, index);
    const char *verb = "M";
    for (size_t i = 0; i < HRF_RELIABILITY_BINS; i++) {
        const struct hrf_reliability_bin *bin = &p->slides.reliability[i];
        if (bin->n_slides == 0)
            continue;
        const double n = (double)bin->n_slides;
        hrf_out_addf(out, "%s%.1f %.1f", verb, HRF_PLOT_LEFT + HRF_PLOT_SIDE * bin->score_sum / n,
                     HRF_PLOT_BOTTOM - HRF_PLOT_SIDE * (double)bin->n_positive / n);
        verb = "L";
    }
    hrf_out_adds(out, "\"/>");
    for (size_t i = 0; i < HRF_RELIABILITY_BINS; i++) {
        const struct hrf_reliability_bin *bin = &p->slides.reliability[i];
        if (bin->n_slides == 0)
            continue;
        const double n = (double)bin->n_slides;
        hrf_out_addf(out,
                     "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"var(--s%zu)\"><title>%s: "
                     "%zu slides, mean score %.3f, %.0f %% positive</title></circle>",
                     HRF_PLOT_LEFT + HRF_PLOT_SIDE * bin->score_sum / n,
                     HRF_PLOT_BOTTOM - HRF_PLOT_SIDE * (double)bin->n_positive / n,
                     2.0 + 6.0 * sqrt(n / (double)p->slides.n_labelled), index % HRF_PLOT_COLOURS,
                     p->name, bin->n_slides, bin->score_sum / n,
                     100.0 * (double)bin->n_positive / n);
    }
}

void hrf_page_reliability(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    hrf_out_adds(out,
                 "<section><h2>Calibration curve <small>positive slides, by score</small></h2>\n");
    hrf_plot_square(out, "Calibration curve", 330, "mean slide score");
    for (size_t i = 0; i < cohort->n_precisions; i++)
        curve(out, &cohort->precisions[i], i);
    hrf_out_adds(out, "</svg><ul class=\"key\">");
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        hrf_plot_key(out, i);
        hrf_out_markup(out, "%s, error <b>", p->name);
        hrf_page_figure(out, HRF_FIGURE_ROW(slides.calibration_error), p);
        hrf_out_adds(out, "</b></li>");
    }
    hrf_out_adds(out, "</ul></section>\n");
}
