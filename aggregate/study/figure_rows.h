/* figure_rows.h - the figures of a study: the tables of their rows (statistics/figure.h).
 *
 * report.json, study.csv, the page, `compare` and docs/results.md walk these rows. A new figure is
 * its member (precision_figures.h), what computes it (figures.c) and its row (figure_rows.c).
 */
#ifndef HRF_AGGREGATE_STUDY_FIGURE_ROWS_H
#define HRF_AGGREGATE_STUDY_FIGURE_ROWS_H

#include "aggregate/study/cohort.h"
#include "statistics/figure.h"

/* The object of report.json, and the table of the page and of `compare`, that contain a figure of
 * hrf_precision_rows. */
enum hrf_figure_part {
    HRF_FIGURES_SPEED = 1,
    HRF_FIGURES_MOVED, /* these to HRF_FIGURES_LABELLED: the table of accuracy */
    HRF_FIGURES_AUC,
    HRF_FIGURES_SLIDES,
    HRF_FIGURES_ACCURACY,
    HRF_FIGURES_MACRO,
    HRF_FIGURES_PATCHES,
    HRF_FIGURES_LABELLED,
    HRF_FIGURES_EMBEDDING,
    HRF_FIGURES_TIMING,
    HRF_FIGURES_REGRESSION,
    HRF_FIGURES_LESIONS,
    HRF_FIGURES_NAMES, /* of study.csv alone */
};

extern const struct hrf_figure_row hrf_precision_rows[];  /* of a struct hrf_cohort_precision */
extern const struct hrf_figure_row hrf_class_rows[];      /* of a struct hrf_class_figures */
extern const struct hrf_figure_row hrf_confusion_rows[];  /* of a struct hrf_confusion */
extern const struct hrf_figure_row hrf_region_rows[];     /* of a struct hrf_region_figures */
extern const struct hrf_figure_row hrf_traffic_rows[];    /* of a struct hrf_traffic */
extern const struct hrf_figure_row hrf_head_study_rows[]; /* of a struct hrf_head_study */
extern const struct hrf_figure_row hrf_job_rows[];        /* of a struct hrf_cohort_job */

/* Returns the row of a member of struct hrf_cohort_precision, by its offset. */
#define HRF_FIGURE_ROW(member) hrf_figure_row_at(offsetof(struct hrf_cohort_precision, member))
const struct hrf_figure_row *hrf_figure_row_at(size_t at);
/* Sets the reason of all figures of parts `from` to `to`, which then have no value. */
void hrf_figures_leave_out(struct hrf_cohort_precision *precision, enum hrf_figure_part from,
                           enum hrf_figure_part to, const char *reason);

#endif
