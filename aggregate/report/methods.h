/* methods.h - report/methods.md: what was done, as a paragraph for the methods section of a paper,
 * with versions and the works that its methods are from.
 *
 * Only what this run did is said and cited; a name from the workflow is put between backquotes. A
 * person reads it and edits it: what the slides and the model are, only they know.
 */
#ifndef HRF_AGGREGATE_REPORT_METHODS_H
#define HRF_AGGREGATE_REPORT_METHODS_H

#include "aggregate/study/cohort.h"
#include "base/error.h"

HRF_CHECKED enum hrf_status hrf_report_methods(const struct hrf_cohort *cohort, const char *path,
                                               struct hrf_error *err);

#endif
