/* provenance_json.h - report/provenance.json: what a run used and what it made, in the terms of W3C
 * PROV, as PROV-JSON has them (W3C Member Submission, 24 April 2013).
 *
 * Entities are the slides (with the resolution, the size and the state), the model, the slide head
 * and the tables of the results, with the SHA-256 of each table; the activity is the run, with what
 * decided about it; the agent is this program. Slide results of their own (below
 * results/PRECISION/) are named as one collection for each precision.
 */
#ifndef HRF_AGGREGATE_REPORT_PROVENANCE_JSON_H
#define HRF_AGGREGATE_REPORT_PROVENANCE_JSON_H

#include "aggregate/study/cohort.h"
#include "base/error.h"

/* Written last: the tables below `directory` are hashed as they stand. `made_at` is the end of the
 * run as ISO 8601. */
HRF_CHECKED enum hrf_status hrf_report_provenance(const struct hrf_cohort *cohort,
                                                  const char *directory, const char *made_at,
                                                  const char *path, struct hrf_error *err);

#endif
