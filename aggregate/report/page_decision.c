/* page_decision.c - what a threshold decides: precision-recall curve, operating points, classes. */
#include "aggregate/camelyon16/precision_recall.h"
#include "aggregate/report/page_private.h"

#include <math.h>

/* ---- precision-recall curve ---- */

static size_t labelled_slides(const struct hrf_cohort *cohort, size_t index,
                              struct hrf_labelled *items)
{
    size_t n = 0;
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        if (slide->scores[index].known && slide->truth != HRF_TRUTH_UNKNOWN)
            items[n++] = (struct hrf_labelled){ slide->scores[index].value,
                                                slide->truth == HRF_TRUTH_POSITIVE };
    }
    return n;
}

/* Steps, as the average precision sums them: between two points the precision is the lower one's.
 */
static enum hrf_status recall_line(struct hrf_out *out, const struct hrf_cohort *cohort,
                                   size_t index, struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_alloc_array(cohort->n_slides + 1, sizeof *items);
    HRF_CHECK_MEMORY(items != NULL, err, "no memory for the curve of %zu slides", cohort->n_slides);
    HRF_AUTO_FREE struct hrf_recall_point *points = NULL;
    size_t n_points = 0;
    HRF_TRY(hrf_precision_recall_curve(items, labelled_slides(cohort, index, items), &points,
                                       &n_points, err));
    hrf_page_line(out, index);
    int last_x = -1, last_y = -1;
    for (size_t i = 0; i < n_points; i++) {
        const double x = HRF_PLOT_LEFT + HRF_PLOT_SIDE * points[i].recall;
        const double y = HRF_PLOT_BOTTOM - HRF_PLOT_SIDE * points[i].precision;
        if (i == 0)
            hrf_out_addf(out, "M%d %.1f", HRF_PLOT_LEFT, y);
        else if (hrf_page_tenths(x) == last_x && hrf_page_tenths(y) == last_y)
            continue;
        hrf_out_addf(out, "V%.1fH%.1f", y, x);
        last_x = hrf_page_tenths(x);
        last_y = hrf_page_tenths(y);
    }
    hrf_out_adds(out, "\"/>");
    return HRF_OK;
}

/* What calling every slide positive gives. */
static void guess_line(struct hrf_out *out, const struct hrf_cohort_precision *p)
{
    const struct hrf_confusion *c = &p->confusion;
    const double share = (double)(c->true_positive + c->false_negative) / (double)p->n_labelled;
    hrf_out_addf(out, "<path class=\"base\" stroke-dasharray=\"4 4\" d=\"M%d %.1fh%d\"/>",
                 HRF_PLOT_LEFT, HRF_PLOT_BOTTOM - HRF_PLOT_SIDE * share, HRF_PLOT_SIDE);
}

enum hrf_status hrf_page_precision_recall(struct hrf_out *out, const struct hrf_cohort *cohort,
                                          struct hrf_error *err)
{
    if (isnan(cohort->precisions[0].average_precision.value))
        return HRF_OK; /* the ROC curve's place says why */
    hrf_out_adds(out, "<section><h2>Precision and recall <small>by slide</small></h2>\n");
    hrf_page_frame(out, "Precision-recall curve", 318, "recall (sensitivity)");
    guess_line(out, &cohort->precisions[0]);
    hrf_out_addf(out,
                 "<text transform=\"translate(11 %d) rotate(-90)\" "
                 "text-anchor=\"middle\">precision</text>",
                 HRF_PLOT_TOP + HRF_PLOT_SIDE / 2);
    for (size_t i = cohort->n_precisions; i-- > 0;)
        if (!isnan(cohort->precisions[i].average_precision.value))
            HRF_TRY(recall_line(out, cohort, i, err));
    hrf_out_adds(out, "</svg>\n<ul class=\"key\">");
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        if (isnan(p->average_precision.value))
            continue;
        hrf_page_key(out, i);
        hrf_out_markup(out, "%s, average precision <b>%.4f</b></li>", p->name,
                       p->average_precision.value);
    }
    hrf_out_adds(out, "</ul></section>\n");
    return HRF_OK;
}

/* ---- operating points ---- */

static void share_cell(struct hrf_out *out, double value)
{
    if (isnan(value))
        hrf_out_adds(out, "<td class=\"n\">–</td>");
    else
        hrf_out_addf(out, "<td class=\"n\">%.3f</td>", value);
}

static void operating_row(struct hrf_out *out, const char *precision,
                          const struct hrf_operating_row *row)
{
    const struct hrf_confusion *c = &row->confusion;
    hrf_out_markup(out, "<tr><th>%s</th><td>", precision);
    if (row->rule == HRF_OPERATING_IN_USE)
        hrf_out_adds(out, "<b>in use</b>");
    else if (row->rule == HRF_OPERATING_YOUDEN)
        hrf_out_adds(out, "largest sum of both (Youden)");
    else
        hrf_out_addf(out, "%s ≥ %.2f",
                     row->rule == HRF_OPERATING_SPECIFICITY ? "specificity" : "sensitivity",
                     row->wanted);
    hrf_out_addf(out, "</td><td class=\"n\">%.4g</td>", row->threshold);
    const double values[] = { hrf_confusion_sensitivity(c), hrf_confusion_specificity(c),
                              hrf_confusion_positive_value(c), hrf_confusion_negative_value(c),
                              hrf_confusion_f1(c) };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        share_cell(out, values[i]);
    hrf_out_addf(out,
                 "<td class=\"n\">%lld</td><td class=\"n\">%lld</td><td class=\"n\">%lld</td>"
                 "<td class=\"n\">%lld</td></tr>\n",
                 (long long)c->true_positive, (long long)c->false_positive,
                 (long long)c->true_negative, (long long)c->false_negative);
}

void hrf_page_operating_points(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    hrf_out_adds(
        out,
        "<section><h2>Operating points <small>those not in use are chosen on the slides that they "
        "are counted on, so they flatter; <code>aggregate.tune.slides</code> chooses on others"
        "</small></h2><table><thead><tr><th></th><th>threshold by</th>"
        "<th class=\"n\">score ≥</th><th class=\"n\">sensitivity</th><th class=\"n\">specificity"
        "</th><th class=\"n\" title=\"positive predictive value: precision\">PPV</th>"
        "<th class=\"n\" title=\"negative predictive value\">NPV</th><th class=\"n\">F1</th>"
        "<th class=\"n\" title=\"true positive\">TP</th><th class=\"n\" title=\"false positive\">"
        "FP</th><th class=\"n\" title=\"true negative\">TN</th>"
        "<th class=\"n\" title=\"false negative\">FN</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        /* Of the others the one in use; report.json has them all. */
        for (size_t k = 0; k < (i == 0 ? p->operating.n : p->operating.n > 0); k++)
            operating_row(out, k == 0 ? p->name : "", &p->operating.items[k]);
    }
    hrf_out_adds(out, "</tbody></table></section>\n");
}

/* ---- three or more classes ---- */

static void figure_cell(struct hrf_out *out, const struct hrf_figure *figure)
{
    hrf_out_adds(out, "<td class=\"n\">");
    hrf_page_figure(out, figure, 3);
    hrf_out_adds(out, "</td>");
}

static void class_row(struct hrf_out *out, const struct hrf_cohort *cohort,
                      const struct hrf_cohort_precision *p, size_t class)
{
    const struct hrf_class_figures *figures = &p->by_class[class];
    hrf_out_markup(out, "<tr><th>%s</th><td>%s</td><td class=\"n\">%zu</td><td class=\"n\">",
                   class == 0 ? p->name : "", cohort->classes[class], figures->n_slides);
    hrf_page_figure(out, &figures->auc, 3);
    if (!isnan(figures->auc.value))
        hrf_out_addf(out, "<br><small>%.3f to %.3f</small>", figures->auc_interval.low,
                     figures->auc_interval.high);
    hrf_out_adds(out, "</td>");
    figure_cell(out, &figures->average_precision);
    figure_cell(out, &figures->recall);
    figure_cell(out, &figures->precision);
    for (size_t k = 0; !cohort->is_multilabel && k < cohort->n_classes; k++)
        hrf_out_addf(out, "<td class=\"n%s\">%zu</td>", k == class ? " same" : "",
                     p->class_confusion[class * cohort->n_classes + k]);
    hrf_out_adds(out, "</tr>\n");
}

void hrf_page_classes(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    if (cohort->precisions[0].by_class == NULL)
        return; /* sensitivity and specificity are those of the two classes */
    hrf_out_adds(out, "<section><h2>Classes <small>each against all others</small></h2>"
                      "<table><thead><tr><th></th><th>class</th>"
                      "<th class=\"n\">slides</th><th class=\"n\">AUC</th>"
                      "<th class=\"n\">average precision</th><th class=\"n\">recall</th>"
                      "<th class=\"n\">precision</th>");
    for (size_t k = 0; !cohort->is_multilabel && k < cohort->n_classes; k++)
        hrf_out_markup(out, "<th class=\"n\">called %s</th>", cohort->classes[k]);
    hrf_out_adds(out, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < cohort->n_precisions; i++)
        for (size_t k = 0; k < cohort->n_classes && cohort->precisions[i].by_class != NULL; k++)
            class_row(out, cohort, &cohort->precisions[i], k);
    hrf_out_adds(out, "</tbody></table></section>\n");
}
