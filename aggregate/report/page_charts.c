/* page_charts.c - ROC curve, score distribution and confusion matrices, as
 * SVG and boxes.
 *
 * Charts take their colours from the page's variables, so that one drawing serves light and
 * dark. */
#include "aggregate/report/page_private.h"

#include <math.h>

/* ---- ROC ---- */

static void roc_line(struct hrf_out *out, const struct hrf_cohort *cohort, size_t index)
{
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_alloc_array(cohort->n_slides + 1, sizeof *items);
    size_t n = 0;
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        if (slide->scores[index].known && slide->truth != HRF_TRUTH_UNKNOWN)
            items[n++] = (struct hrf_labelled){ slide->scores[index].value,
                                                slide->truth == HRF_TRUTH_POSITIVE };
    }
    hrf_plot_roc(out, items, n, index);
}

void hrf_page_by_slide(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    hrf_out_adds(out, "by slide");
    if (hrf_cohort_has_many_classes(cohort))
        hrf_out_markup(out, ", %s against all others", hrf_cohort_label(cohort, true));
}

void hrf_page_roc(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    hrf_out_adds(out, "<section><h2>ROC curve <small>");
    hrf_page_by_slide(out, cohort);
    hrf_out_adds(out, "</small></h2>\n");
    if (isnan(cohort->precisions[0].slides.auc.value)) {
        hrf_out_markup(out, "<p class=\"none\">No curve: %s.</p></section>\n",
                       cohort->precisions[0].slides.auc.reason);
        return;
    }
    hrf_plot_square(out, "ROC curve", 318, "1 − specificity");
    hrf_plot_y_title(out, "sensitivity");
    for (size_t i = cohort->n_precisions; i-- > 0;)
        if (!isnan(cohort->precisions[i].slides.auc.value))
            roc_line(out, cohort, i);
    hrf_out_adds(out, "</svg>\n<ul class=\"key\">");
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        if (isnan(p->slides.auc.value))
            continue;
        hrf_plot_key(out, i);
        hrf_out_markup(out, "%s <b>%.4f</b> (%.3f–%.3f)</li>", p->name, p->slides.auc.value,
                       p->slides.auc_interval.low, p->slides.auc_interval.high);
    }
    hrf_out_adds(out, "</ul></section>\n");
}

/* ---- score distribution: positives above the line, negatives below ---- */

enum { N_BINS = 20, HIST_LEFT = 30, HIST_WIDTH = 290, HIST_TOP = 18, HIST_HEIGHT = 252 };

struct histogram {
    size_t above[N_BINS], below[N_BINS], max;
    bool labelled;
    double base, reach; /* y of the line, and how far the tallest bar goes from it */
};

static struct histogram count_scores(const struct hrf_cohort *cohort)
{
    struct histogram h = { .labelled = cohort->precisions[0].slides.n_labelled > 0 };
    h.reach = h.labelled ? HIST_HEIGHT / 2.0 : HIST_HEIGHT;
    h.base = HIST_TOP + h.reach;
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        if (!slide->scores[0].known || (h.labelled && slide->truth == HRF_TRUTH_UNKNOWN))
            continue;
        double at = fmin(fmax(slide->scores[0].value * N_BINS, 0.0), N_BINS - 1);
        bool up = !h.labelled || slide->truth == HRF_TRUTH_POSITIVE;
        size_t *bin = &(up ? h.above : h.below)[(size_t)at];
        if (++*bin > h.max)
            h.max = *bin;
    }
    return h;
}

static void bars(struct hrf_out *out, const struct histogram *h, bool up, const char *colour,
                 const char *what)
{
    const size_t *bins = up ? h->above : h->below;
    double width = (double)HIST_WIDTH / N_BINS;
    for (int i = 0; i < N_BINS; i++) {
        if (bins[i] == 0)
            continue;
        double height = fmax(3.0, (h->reach - 2.0) * (double)bins[i] / (double)h->max);
        hrf_out_addf(out,
                     "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" rx=\"2\" "
                     "fill=\"var(--%s)\"><title>%zu %s, score %.2f–%.2f</title></rect>",
                     HIST_LEFT + width * i + 1.0, up ? h->base - 1.0 - height : h->base + 1.0,
                     width - 2.0, height, colour, bins[i], what, (double)i / N_BINS,
                     (double)(i + 1) / N_BINS);
    }
}

static void histogram_axes(struct hrf_out *out, const struct histogram *h, double threshold)
{
    hrf_out_addf(out, "<path class=\"base\" d=\"M%d %.1fh%d\"/>", HIST_LEFT, h->base, HIST_WIDTH);
    for (int i = 0; i <= 4; i++)
        hrf_out_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%g</text>",
                     HIST_LEFT + i * HIST_WIDTH / 4, HIST_TOP + HIST_HEIGHT + 18, i / 4.0);
    hrf_out_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">slide score</text>",
                 HIST_LEFT + HIST_WIDTH / 2, HIST_TOP + HIST_HEIGHT + 36);
    if (threshold < 0.0 || threshold > 1.0)
        return;
    double x = HIST_LEFT + HIST_WIDTH * threshold;
    hrf_out_addf(out,
                 "<path class=\"base\" stroke-dasharray=\"4 4\" d=\"M%.1f %dv%d\"/>"
                 "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">threshold %g</text>",
                 x, HIST_TOP, HIST_HEIGHT, x, HIST_TOP - 6, threshold);
}

static void histogram_key(struct hrf_out *out, const struct hrf_cohort *cohort,
                          const struct histogram *h)
{
    hrf_out_adds(out, "<ul class=\"key\">");
    if (h->labelled)
        hrf_out_markup(out,
                       "<li><i style=\"background:var(--pos)\"></i>%s (truth), above</li><li>"
                       "<i style=\"background:var(--neg)\"></i>%s (truth), below</li>",
                       hrf_cohort_label(cohort, true),
                       hrf_cohort_has_many_classes(cohort) ? "all others"
                                                           : hrf_cohort_label(cohort, false));
    hrf_out_addf(out, "<li>tallest bar: %zu slide%s</li></ul>", h->max, h->max == 1 ? "" : "s");
}

void hrf_page_histogram(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    if (!hrf_cohort_scores_slides(cohort) || cohort->is_regression)
        return;
    struct histogram h = count_scores(cohort);
    hrf_out_addf(out, "<section><h2>Slide scores <small>%s, %s</small></h2>\n",
                 h.labelled ? "by truth" : "no labels", cohort->precisions[0].name);
    if (h.max == 0) {
        hrf_out_adds(out, "<p class=\"none\">No slide was scored.</p></section>\n");
        return;
    }
    hrf_out_adds(out, "<svg viewBox=\"0 0 330 318\" role=\"img\" "
                      "aria-label=\"Distribution of slide scores\">");
    bars(out, &h, true, h.labelled ? "pos" : "s0", h.labelled ? "truly positive" : "slides");
    bars(out, &h, false, "neg", "truly negative");
    histogram_axes(out, &h, cohort->threshold);
    hrf_out_adds(out, "</svg>\n");
    histogram_key(out, cohort, &h);
    hrf_out_adds(out, "</section>\n");
}

/* ---- confusion ---- */

static void cell(struct hrf_out *out, int64_t count, const char *what, bool good)
{
    hrf_out_addf(out, "<div class=\"%s\">%lld<small>%s</small></div>",
                 count == 0 ? ""
                 : good     ? "good"
                            : "bad",
                 (long long)count, what);
}

static void matrix(struct hrf_out *out, const struct hrf_cohort *cohort,
                   const struct hrf_cohort_precision *p)
{
    const struct hrf_confusion *c = &p->slides.confusion;
    hrf_out_markup(out,
                   "<div><h3>%s</h3><div class=\"matrix\"><span></span><span>called %s</span>"
                   "<span>called %s</span><span class=\"r\">%s</span>",
                   p->name, hrf_cohort_label(cohort, true), hrf_cohort_label(cohort, false),
                   hrf_cohort_label(cohort, true));
    cell(out, c->true_positive, "true positive", true);
    cell(out, c->false_negative, "false negative", false);
    hrf_out_markup(out, "<span class=\"r\">%s</span>", hrf_cohort_label(cohort, false));
    cell(out, c->false_positive, "false positive", false);
    cell(out, c->true_negative, "true negative", true);
    hrf_out_adds(out, "</div><ul class=\"key\">");
    double sensitivity = hrf_confusion_sensitivity(c), specificity = hrf_confusion_specificity(c);
    if (!isnan(sensitivity))
        hrf_out_addf(out, "<li>sensitivity <b>%.3f</b></li>", sensitivity);
    if (!isnan(specificity))
        hrf_out_addf(out, "<li>specificity <b>%.3f</b></li>", specificity);
    hrf_out_adds(out, "</ul></div>");
}

static bool same_confusion(const struct hrf_confusion *a, const struct hrf_confusion *b)
{
    return a->true_positive == b->true_positive && a->false_positive == b->false_positive &&
           a->true_negative == b->true_negative && a->false_negative == b->false_negative;
}

/* The reference's matrix, the others' where they differ from it. */
static void matrices(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    const struct hrf_confusion *reference = &cohort->precisions[0].slides.confusion;
    size_t n_same = 0;
    hrf_out_adds(out, "<div class=\"matrices\">");
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        const bool is_same = i > 0 && same_confusion(&p->slides.confusion, reference);
        n_same += is_same;
        if (p->slides.n_labelled > 0 && !is_same)
            matrix(out, cohort, p);
    }
    hrf_out_adds(out, "</div>");
    if (n_same == 0)
        return;
    hrf_out_adds(out, "<p class=\"none\"><small>The same at ");
    const char *between = "";
    for (size_t i = 1; i < cohort->n_precisions; i++)
        if (same_confusion(&cohort->precisions[i].slides.confusion, reference)) {
            hrf_out_adds(out, between);
            hrf_out_html(out, cohort->precisions[i].name);
            between = ", ";
        }
    hrf_out_adds(out, ".</small></p>");
}

void hrf_page_confusion(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    if (hrf_cohort_has_many_classes(cohort))
        return;
    hrf_out_addf(out, "<section><h2>Confusion <small>at score ≥ %g</small></h2>\n",
                 cohort->threshold);
    if (cohort->precisions[0].slides.n_labelled == 0)
        hrf_out_adds(out, "<p class=\"none\">None: no slide with a label was scored.</p>");
    else
        matrices(out, cohort);
    hrf_out_adds(out, "</section>\n");
}
