/* page_decision.c - what a threshold decides: precision-recall curve, operating points, classes;
 * and the regions of a segmentation network. */
#include "aggregate/report/page_private.h"
#include "statistics/precision_recall.h"

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

static void recall_line(struct hrf_out *out, const struct hrf_cohort *cohort, size_t index)
{
    HRF_AUTO_FREE struct hrf_labelled *items = hrf_alloc_array(cohort->n_slides + 1, sizeof *items);
    hrf_plot_recall(out, items, labelled_slides(cohort, index, items), index);
}

/* What calling every slide positive gives. */
static void guess_line(struct hrf_out *out, const struct hrf_cohort_precision *p)
{
    const struct hrf_confusion *c = &p->slides.confusion;
    const double share = (double)(c->true_positive + c->false_negative) /
                         (double)p->slides.n_labelled;
    hrf_out_addf(out, "<path class=\"base\" stroke-dasharray=\"4 4\" d=\"M%d %.1fh%d\"/>",
                 HRF_PLOT_LEFT, HRF_PLOT_BOTTOM - HRF_PLOT_SIDE * share, HRF_PLOT_SIDE);
}

void hrf_page_precision_recall(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    if (isnan(cohort->precisions[0].slides.average_precision.value))
        return; /* the ROC curve's place says why */
    hrf_out_adds(out, "<section><h2>Precision and recall <small>");
    hrf_page_by_slide(out, cohort);
    hrf_out_adds(out, "</small></h2>\n");
    hrf_plot_frame(out, "Precision-recall curve", 318, "recall (sensitivity)");
    guess_line(out, &cohort->precisions[0]);
    hrf_plot_y_title(out, "precision");
    for (size_t i = cohort->n_precisions; i-- > 0;)
        if (!isnan(cohort->precisions[i].slides.average_precision.value))
            recall_line(out, cohort, i);
    hrf_out_adds(out, "</svg>\n<ul class=\"key\">");
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        if (isnan(p->slides.average_precision.value))
            continue;
        hrf_plot_key(out, i);
        hrf_out_markup(out, "%s, average precision <b>%.4f</b></li>", p->name,
                       p->slides.average_precision.value);
    }
    hrf_out_adds(out, "</ul></section>\n");
}

/* ---- operating points ---- */

static const struct hrf_page_table confusions = { .rows = hrf_confusion_rows };

static void operating_row(struct hrf_out *out, const char *precision,
                          const struct hrf_operating_row *row)
{
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
    hrf_page_cells(out, &confusions, &row->confusion);
    hrf_out_adds(out, "</tr>\n");
}

void hrf_page_operating_points(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    hrf_out_adds(out, "<section><h2>Operating points <small>");
    hrf_page_by_slide(out, cohort);
    hrf_out_adds(
        out, "; those not in use are chosen on the slides that they "
             "are counted on, so they flatter; <code>aggregate.tune.slides</code> chooses on others"
             "</small></h2><table><thead><tr><th></th><th>threshold by</th>"
             "<th class=\"n\">score ≥</th>");
    hrf_page_headings(out, &confusions, cohort);
    hrf_out_adds(out, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const struct hrf_cohort_precision *p = &cohort->precisions[i];
        /* Of the others the one in use; report.json has them all. */
        for (size_t k = 0; k < (i == 0 ? p->slides.operating.n : p->slides.operating.n > 0); k++)
            operating_row(out, k == 0 ? p->name : "", &p->slides.operating.items[k]);
    }
    hrf_out_adds(out, "</tbody></table></section>\n");
}

/* ---- three or more classes ---- */

static const struct hrf_page_table classes = { .rows = hrf_class_rows };

static void class_row(struct hrf_out *out, const struct hrf_cohort *cohort,
                      const struct hrf_cohort_precision *p, size_t class)
{
    hrf_out_markup(out, "<tr><th>%s</th><td>%s</td>", class == 0 ? p->name : "",
                   cohort->classes[class]);
    hrf_page_cells(out, &classes, &p->slides.by_class[class]);
    for (size_t k = 0; !cohort->is_multilabel && k < cohort->n_classes; k++)
        hrf_out_addf(out, "<td class=\"n%s\">%zu</td>", k == class ? " same" : "",
                     p->slides.class_confusion[class * cohort->n_classes + k]);
    hrf_out_adds(out, "</tr>\n");
}

void hrf_page_classes(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    if (cohort->precisions[0].slides.by_class == NULL)
        return; /* sensitivity and specificity are those of the two classes */
    hrf_out_adds(out, "<section><h2>Classes <small>each against all others</small></h2>"
                      "<table><thead><tr><th></th><th>class</th>");
    hrf_page_headings(out, &classes, cohort);
    for (size_t k = 0; !cohort->is_multilabel && k < cohort->n_classes; k++)
        hrf_out_markup(out, "<th class=\"n\">called %s</th>", cohort->classes[k]);
    hrf_out_adds(out, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < cohort->n_precisions; i++)
        for (size_t k = 0; k < cohort->n_classes && cohort->precisions[i].slides.by_class != NULL;
             k++)
            class_row(out, cohort, &cohort->precisions[i], k);
    hrf_out_adds(out, "</tbody></table></section>\n");
}

void hrf_page_segmentation(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    static const struct hrf_page_table table = { .rows = hrf_region_rows };
    if (!cohort->is_segmentation)
        return;
    hrf_out_adds(out,
                 "<section><h2>Regions <small>of all slides together; overlap with the annotated "
                 "ones on slides with truth</small></h2><table><thead><tr><th></th><th>class</th>");
    hrf_page_headings(out, &table, cohort);
    hrf_out_adds(out, "</tr></thead><tbody>\n");
    for (size_t p = 0; p < cohort->n_precisions; p++)
        for (size_t c = 0; c < cohort->n_classes; c++) {
            const struct hrf_region_figures regions = hrf_cohort_regions(cohort, p, c);
            hrf_out_markup(out, "<tr><th>%s</th><td>%s</td>", cohort->precisions[p].name,
                           cohort->classes[c]);
            hrf_page_cells(out, &table, &regions);
            hrf_out_adds(out, "</tr>\n");
        }
    hrf_out_adds(out, "</tbody></table></section>\n");
}
