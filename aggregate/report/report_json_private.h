/* report_json_private.h - the parts of report.json. */
#ifndef HRF_AGGREGATE_REPORT_REPORT_JSON_PRIVATE_H
#define HRF_AGGREGATE_REPORT_REPORT_JSON_PRIVATE_H

#include "aggregate/report/report_json.h"
#include "aggregate/study/figure_rows.h"

/* Puts the figures of slides at one precision: AUC, accuracy, lesions, operating points. */
void hrf_json_put_slide_figures(json_t *object, const struct hrf_cohort *cohort,
                                const struct hrf_cohort_precision *p);
/* The slides whose label differs from the reference's; new reference. */
json_t *hrf_json_slide_flips(const struct hrf_cohort *cohort, size_t precision);

#endif
