/* page_study.c - what the precisions cost: calibration curves, and the slides that changed label.
 * Nothing of it is shown for one precision alone but the curve. */
#include "aggregate/report/page_private.h"

#include <math.h>

enum { LEFT = 40, TOP = 8, SIDE = 270, BOTTOM = TOP + SIDE };

static void frame(struct hrf_out *out)
{
    hrf_out_adds(out, "<svg viewBox=\"0 0 330 330\" role=\"img\" aria-label=\"Calibration curve\">"
                      "<g class=\"axis\" fill=\"none\">");
    for (int i = 0; i <= 4; i++) {
        const int at = i * SIDE / 4;
        hrf_out_addf(out, "<path d=\"M%d %dv%dM%d %dh%d\"/>", LEFT + at, TOP, SIDE, LEFT,
                     BOTTOM - at, SIDE);
    }
    hrf_out_addf(out, "<path d=\"M%d %dL%d %d\" stroke-dasharray=\"4 4\" class=\"base\"/></g>",
                 LEFT, BOTTOM, LEFT + SIDE, TOP);
    for (int i = 0; i <= 4; i += 2) {
        const int at = i * SIDE / 4;
        hrf_out_addf(out,
                     "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%g</text>"
                     "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%g</text>",
                     LEFT + at, BOTTOM + 16, i / 4.0, LEFT - 6, BOTTOM - at + 4, i / 4.0);
    }
    hrf_out_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">mean slide score</text>",
                 LEFT + SIDE / 2, BOTTOM + 34);
}

/* Points joined in the order of the tenths; a circle's area tells how many slides it stands for. */
static void curve(struct hrf_out *out, const struct hrf_cohort_precision *p, size_t index)
{
    hrf_out_addf(out, "<path fill=\"none\" stroke-width=\"2\" stroke=\"var(--s%zu)\" d=\"", index);
    const char *verb = "M";
    for (size_t i = 0; i < HRF_RELIABILITY_BINS; i++) {
        const struct hrf_reliability_bin *bin = &p->reliability[i];
        if (bin->n_slides == 0)
            continue;
        const double n = (double)bin->n_slides;
        hrf_out_addf(out, "%s%.1f %.1f", verb, LEFT + SIDE * bin->score_sum / n,
                     BOTTOM - SIDE * (double)bin->n_positive / n);
        verb = "L";
    }
    hrf_out_adds(out, "\"/>");
    for (size_t i = 0; i < HRF_RELIABILITY_BINS; i++) {
        const struct hrf_reliability_bin *bin = &p->reliability[i];
        if (bin->n_slides == 0)
            continue;
        const double n = (double)bin->n_slides;
        hrf_out_addf(out,
                     "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"var(--s%zu)\"><title>%s: "
                     "%zu slides, mean score %.3f, %.0f %% positive</title></circle>",
                     LEFT + SIDE * bin->score_sum / n, BOTTOM - SIDE * (double)bin->n_positive / n,
                     2.0 + 6.0 * sqrt(n / (double)p->n_labelled), index, p->name, bin->n_slides,
                     bin->score_sum / n, 100.0 * (double)bin->n_positive / n);
    }
}

static void curves(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    hrf_out_adds(out, "<section><h2>Calibration curve <small>positive fraction by slide score; on "
                      "the diagonal a score is a probability</small></h2>\n");
    frame(out);
    for (size_t i = 0; i < cohort->n_precisions; i++)
        curve(out, &cohort->precisions[i], i);
    hrf_out_adds(out, "</svg><ul class=\"key\">");
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        hrf_out_addf(out, "<li><i style=\"background:var(--s%zu)\"></i>%s, error <b>", i, p->name);
        hrf_page_figure(out, &p->calibration_error, 4);
        hrf_out_adds(out, "</b></li>");
    }
    hrf_out_adds(out, "</ul></section>\n");
}

static void flip_row(struct hrf_out *out, const struct hrf_cohort *cohort, size_t index,
                     size_t slide)
{
    const struct hrf_cohort_slide *s = &cohort->slides[slide];
    hrf_out_addf(out, "<tr><td>%s</td><td class=\"name\">", cohort->precisions[index].name);
    hrf_out_html(out, s->name);
    hrf_out_addf(out, "</td><td class=\"n\">%.6f</td><td>", s->scores[0].value);
    hrf_out_html(out, hrf_cohort_label(cohort, s->scores[0].positive));
    hrf_out_addf(out, "</td><td class=\"n\">%.6f</td><td>", s->scores[index].value);
    hrf_out_html(out, hrf_cohort_label(cohort, s->scores[index].positive));
    hrf_out_adds(out, "</td><td>");
    hrf_out_html(out, s->truth == HRF_TRUTH_UNKNOWN
                          ? "–"
                          : hrf_cohort_label(cohort, s->truth == HRF_TRUTH_POSITIVE));
    hrf_out_adds(out, "</td></tr>\n");
}

static void flips(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    size_t n = 0;
    for (size_t i = 0; i < cohort->n_precisions; i++)
        n += cohort->precisions[i].n_flips;
    hrf_out_addf(out, "<section><h2>Changed their minds <small>slides labelled otherwise than at ");
    hrf_out_html(out, cohort->precisions[0].name);
    hrf_out_adds(out, "</small></h2>\n");
    if (n == 0) {
        hrf_out_adds(out, "<p class=\"none\">No slide.</p></section>\n");
        return;
    }
    hrf_out_adds(out, "<table><thead><tr><th>precision</th><th>slide</th><th class=\"n\">"
                      "reference score</th><th>label</th><th class=\"n\">score</th><th>label</th>"
                      "<th>truth</th></tr></thead><tbody>\n");
    for (size_t i = 1; i < cohort->n_precisions; i++)
        for (size_t k = 0; k < cohort->precisions[i].n_flips; k++)
            flip_row(out, cohort, i, cohort->precisions[i].flips[k]);
    hrf_out_adds(out, "</tbody></table></section>\n");
}

void hrf_page_study(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    if (cohort->precisions[0].n_labelled > 0)
        curves(out, cohort);
    if (cohort->n_precisions > 1)
        flips(out, cohort);
}
