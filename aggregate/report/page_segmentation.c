/* page_segmentation.c - what a segmentation network found: areas, and overlap with annotations. */
#include "aggregate/report/page_private.h"

#include <math.h>

static void number(struct hrf_out *out, double value)
{
    if (isnan(value))
        hrf_out_adds(out, "<td class=\"n\">–</td>");
    else
        hrf_out_addf(out, "<td class=\"n\">%.4f</td>", value);
}

static void row(struct hrf_out *out, const struct hrf_cohort *cohort, size_t precision,
                size_t class)
{
    static const struct hrf_pooled_overlap none = { .n_present = 0 };
    const struct hrf_cohort_precision *p = &cohort->precisions[precision];
    const struct hrf_pooled_overlap *o = p->overlaps != NULL ? &p->overlaps[class] : &none;
    double area = 0;
    for (size_t i = 0; i < cohort->n_slides; i++)
        if (cohort->slides[i].scores[precision].label_pixels != NULL)
            area += hrf_cohort_area(&cohort->slides[i].scores[precision], class);
    hrf_out_markup(out, "<tr><th>%s</th><td>%s</td><td class=\"n\">%.4g</td>", p->name,
                   cohort->classes[class], area);
    number(out, hrf_overlap_dice(&o->all));
    number(out, hrf_overlap_iou(&o->all));
    number(out, o->n_present > 0 ? o->dice_sum / (double)o->n_present : (double)NAN);
    hrf_out_addf(out, "<td class=\"n\">%lld</td><td class=\"n\">%lld</td></tr>\n",
                 (long long)o->all.n_slides, (long long)o->n_present);
}

void hrf_page_segmentation(struct hrf_out *out, const struct hrf_cohort *cohort)
{
    if (!cohort->is_segmentation)
        return;
    hrf_out_adds(out,
                 "<section><h2>Regions <small>of all slides together; overlap with the annotated "
                 "ones on slides with truth</small></h2><table><thead><tr><th></th><th>class</th>"
                 "<th class=\"n\">mm²</th><th class=\"n\">Dice</th><th class=\"n\">IoU</th>"
                 "<th class=\"n\">mean Dice of slides</th><th class=\"n\">slides judged</th>"
                 "<th class=\"n\">with the class</th></tr></thead><tbody>\n");
    for (size_t p = 0; p < cohort->n_precisions; p++)
        for (size_t c = 0; c < cohort->n_classes; c++)
            row(out, cohort, p, c);
    hrf_out_adds(out, "</tbody></table></section>\n");
}
