/* methods.h - report/methods.md: a paragraph for the methods section of a paper, with versions and
 * citations of the methods used.
 *
 * It describes and cites only what this run did; names from the workflow stand between backquotes.
 * A person edits it, because only they know what the slides and the model are.
 */
#ifndef HRF_AGGREGATE_REPORT_METHODS_H
#define HRF_AGGREGATE_REPORT_METHODS_H

#include "aggregate/study/cohort.h"
#include "base/error.h"

HRF_CHECKED enum hrf_status hrf_report_methods(const struct hrf_cohort *cohort, const char *path,
                                               struct hrf_error *err);

#endif
