/* report_json_private.h - the parts of report.json, and how a value or the lack of one is written.
 */
#ifndef HRF_AGGREGATE_REPORT_REPORT_JSON_PRIVATE_H
#define HRF_AGGREGATE_REPORT_REPORT_JSON_PRIVATE_H

#include "aggregate/report/report_json.h"

/* Takes `value`. jansson fails only when memory is out; the document then says so. */
void hrf_json_put(json_t *object, const char *key, json_t *value);
void hrf_json_put_text(json_t *object, const char *key, const char *text); /* NULL: null */
/* "<key>_reason" */
void hrf_json_put_reason(json_t *object, const char *key, const char *reason);
/* NaN is null with its reason. */
void hrf_json_put_figure(json_t *object, const char *key, const struct hrf_figure *figure);
void hrf_json_put_ratio(json_t *object, const char *key, double value, const char *reason);
/* [low, high] of a figure; null with a reason if the figure has no value or no spread. */
void hrf_json_put_interval(json_t *object, const char *key, const struct hrf_figure *figure,
                           const struct hrf_interval *interval);

/* What one precision says of the slides: AUC, accuracy, lesions, operating points. */
void hrf_json_put_slide_figures(json_t *object, const struct hrf_cohort *cohort,
                                const struct hrf_cohort_precision *p);
/* The slides whose label differs from the reference's; new reference. */
json_t *hrf_json_slide_flips(const struct hrf_cohort *cohort, size_t precision);

#endif
