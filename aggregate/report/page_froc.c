/* page_froc.c - the free-response ROC curve of lesions, as SVG. */
#include "aggregate/report/page_private.h"

#include <math.h>

/* The axis of false positives goes from 1/8 to 8 per slide, equal distances for doublings. */
static const double min_rate = 0.125;
enum { N_DOUBLINGS = 6 };

static double x_of(double rate)
{
    return HRF_PLOT_LEFT + HRF_PLOT_SIDE * log2(rate / min_rate) / N_DOUBLINGS;
}

static void axes(struct hrf_out *out)
{
    hrf_out_adds(out, "<svg viewBox=\"0 0 330 318\" role=\"img\" aria-label=\"FROC curve\">"
                      "<g class=\"axis\" fill=\"none\">");
    for (int i = 0; i <= N_DOUBLINGS; i++)
        hrf_out_addf(out, "<path d=\"M%.1f %dv%d\"/>", x_of(min_rate * (1 << i)), HRF_PLOT_TOP,
                     HRF_PLOT_SIDE);
    for (int i = 0; i <= 4; i++)
        hrf_out_addf(out, "<path d=\"M%d %dh%d\"/>", HRF_PLOT_LEFT,
                     HRF_PLOT_BOTTOM - i * HRF_PLOT_SIDE / 4, HRF_PLOT_SIDE);
    hrf_out_adds(out, "</g>");
    for (int i = 0; i <= N_DOUBLINGS; i++)
        hrf_out_addf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.4g</text>",
                     x_of(min_rate * (1 << i)), HRF_PLOT_BOTTOM + 16, min_rate * (1 << i));
    for (int i = 0; i <= 4; i += 2)
        hrf_out_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%g</text>",
                     HRF_PLOT_LEFT - 7, HRF_PLOT_BOTTOM - i * HRF_PLOT_SIDE / 4 + 4, i / 4.0);
    hrf_out_addf(out,
                 "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">false positives per slide</text>"
                 "<text transform=\"translate(11 %d) rotate(-90)\" text-anchor=\"middle\">"
                 "sensitivity</text>",
                 HRF_PLOT_LEFT + HRF_PLOT_SIDE / 2, HRF_PLOT_BOTTOM + 33,
                 HRF_PLOT_TOP + HRF_PLOT_SIDE / 2);
}

/* The curve between two of its points, cut to the axis; straight between points, as the score
 * interpolates. */
static void piece(struct hrf_out *out, const struct hrf_froc_point *a,
                  const struct hrf_froc_point *b, bool *has_begun)
{
    enum { N_STEPS = 8 }; /* a straight line is bent by the logarithm */
    const double max = min_rate * (1 << N_DOUBLINGS);
    for (int i = 0; i <= N_STEPS; i++) {
        const double share = (double)i / N_STEPS;
        const double rate = a->false_positives + share * (b->false_positives - a->false_positives);
        const double hit = a->sensitivity + share * (b->sensitivity - a->sensitivity);
        if (rate > max || b->false_positives < min_rate)
            continue;
        hrf_out_addf(out, "%c%.1f %.1f", *has_begun ? 'L' : 'M', x_of(fmax(rate, min_rate)),
                     HRF_PLOT_BOTTOM - HRF_PLOT_SIDE * hit);
        *has_begun = true;
    }
}

static void curve(struct hrf_out *out, const struct hrf_froc *froc, size_t index)
{
    bool has_begun = false;
    hrf_plot_line(out, index);
    for (size_t i = 0; i + 1 < froc->n_points; i++)
        piece(out, &froc->curve[i], &froc->curve[i + 1], &has_begun);
    if (!has_begun || froc->curve[froc->n_points - 1].false_positives <
                          min_rate * (1 << N_DOUBLINGS)) /* beyond its end it stays what it is */
        hrf_out_addf(out, "%c%d %.1fL%d %.1f", has_begun ? 'L' : 'M',
                     has_begun ? HRF_PLOT_LEFT + HRF_PLOT_SIDE : HRF_PLOT_LEFT,
                     HRF_PLOT_BOTTOM - HRF_PLOT_SIDE * froc->curve[froc->n_points - 1].sensitivity,
                     HRF_PLOT_LEFT + HRF_PLOT_SIDE,
                     HRF_PLOT_BOTTOM - HRF_PLOT_SIDE * froc->curve[froc->n_points - 1].sensitivity);
    hrf_out_adds(out, "\"/>");
}

void hrf_page_froc(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    if (isnan(cohort->precisions[0].lesions.score.value))
        return; /* its card says why */
    hrf_out_adds(out, "<section><h2>FROC curve <small>by lesion</small></h2>\n");
    axes(out);
    for (size_t i = cohort->n_precisions; i-- > 0;)
        if (!isnan(cohort->precisions[i].lesions.score.value))
            curve(out, &cohort->precisions[i].lesions.froc, i);
    hrf_out_adds(out, "</svg>\n<ul class=\"key\">");
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        if (isnan(p->lesions.score.value))
            continue;
        hrf_plot_key(out, i);
        hrf_out_markup(out, "%s <b>%.4f</b>", p->name, p->lesions.score.value);
        if (p->lesions.froc.no_interval[0] == '\0')
            hrf_out_addf(out, " (%.3f–%.3f)", p->lesions.froc.interval.low,
                         p->lesions.froc.interval.high);
        hrf_out_adds(out, "</li>");
    }
    hrf_out_adds(out, "</ul></section>\n");
}
