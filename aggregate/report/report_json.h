/* report_json.h - report.json: the cohort's figures for scripts (DESIGN 4.3).
 *
 * A figure that cannot be computed is null and has "<figure>_reason" beside it.
 */
#ifndef HRF_AGGREGATE_REPORT_REPORT_JSON_H
#define HRF_AGGREGATE_REPORT_REPORT_JSON_H

#include "aggregate/study/cohort.h"
#include "base/error.h"
#include "base/json.h"

/* Its "precisions"; new reference. */
json_t *hrf_report_precisions_json(const struct hrf_cohort *cohort);
HRF_CHECKED enum hrf_status hrf_report_json(const struct hrf_cohort *cohort, const char *path,
                                            struct hrf_error *err);

#endif
