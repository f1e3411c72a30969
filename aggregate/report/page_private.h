/* page_private.h - the parts of the page; each writes its own element and nothing else. */
#ifndef HRF_AGGREGATE_REPORT_PAGE_PRIVATE_H
#define HRF_AGGREGATE_REPORT_PAGE_PRIVATE_H

#include "aggregate/plot/plot.h"
#include "aggregate/report/page.h"
#include "aggregate/study/figure_rows.h"
#include "base/quantity.h"

void hrf_page_roc(struct hrf_out *out, const struct hrf_cohort *cohort);
/* Nothing without lesions. */
void hrf_page_froc(struct hrf_out *out, const struct hrf_cohort *cohort);
/* The areas of a segmentation network's classes, and their overlap with the annotated ones. */
void hrf_page_segmentation(struct hrf_out *out, const struct hrf_cohort *cohort);
void hrf_page_histogram(struct hrf_out *out, const struct hrf_cohort *cohort);
/* "by slide", and of many classes which one it is that stands against all others. */
void hrf_page_by_slide(struct hrf_out *out, const struct hrf_cohort *cohort);
/* Of two classes; of more hrf_page_classes() has it. */
void hrf_page_confusion(struct hrf_out *out, const struct hrf_cohort *cohort);
/* The gains and costs of each precision compared with the first: tables, curves, and the slides and
 * patches whose label changed. */
void hrf_page_study(struct hrf_out *out, const struct hrf_cohort *cohort);
/* Its charts; the first two compare with the first precision. */
void hrf_page_gains(struct hrf_out *out, const struct hrf_cohort *cohort);
void hrf_page_moved(struct hrf_out *out, const struct hrf_cohort *cohort);
void hrf_page_reliability(struct hrf_out *out, const struct hrf_cohort *cohort);
/* Precision-recall curve, operating points and figures of each class; for labelled slides. */
void hrf_page_precision_recall(struct hrf_out *out, const struct hrf_cohort *cohort);
void hrf_page_operating_points(struct hrf_out *out, const struct hrf_cohort *cohort);
void hrf_page_classes(struct hrf_out *out, const struct hrf_cohort *cohort);
void hrf_page_times(struct hrf_out *out, const struct hrf_cohort *cohort);
void hrf_page_timeline(struct hrf_out *out, const struct hrf_cohort *cohort);
/* "int8: 4.0x in the network, 1.6x of the job: reading is the limit, 60 % of its time", or "...;
 * 77 % of its time is computing, 15 % starting"; nothing for the reference. */
void hrf_page_gain_limits(struct hrf_out *out, const struct hrf_cohort *cohort);
void hrf_page_slides(struct hrf_out *out, const struct hrf_cohort *cohort,
                     const struct hrf_page_slide *extras);

void hrf_page_cards(struct hrf_out *out, const struct hrf_cohort *cohort);
/* Slides without a result, by what became of them (id="failed" ...), and why. */
void hrf_page_left_out(struct hrf_out *out, const struct hrf_cohort *cohort);
void hrf_page_provenance(struct hrf_out *out, const struct hrf_cohort *cohort);
void hrf_page_fact(struct hrf_out *out, const char *name, const char *text); /* a line of a <dl> */

/* A figure. If it has no value: a dash, with the reason as its tooltip. */
void hrf_page_figure(struct hrf_out *out, const struct hrf_figure_row *row, const void *base);
/* A table of figures: the rows of parts `from` to `to` (0: all) that are shown on the page. Small
 * print below a figure: its interval, and the rows that stand below it. */
struct hrf_page_table {
    const struct hrf_figure_row *rows;
    enum hrf_figure_part from, to;
    bool has_gpu, is_reference;
};
void hrf_page_headings(struct hrf_out *out, const struct hrf_page_table *table,
                       const struct hrf_cohort *cohort);
void hrf_page_cells(struct hrf_out *out, const struct hrf_page_table *table, const void *base);

#endif
