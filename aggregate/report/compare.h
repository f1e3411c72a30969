/* compare.h - writes the comparison of two runs as JSON and as files. */
#ifndef HRF_AGGREGATE_REPORT_COMPARE_H
#define HRF_AGGREGATE_REPORT_COMPARE_H

#include "aggregate/study/run_pair.h"
#include "base/error.h"
#include "base/json.h"

/* {"version", "name", "runs": {"A","B"}, "slides", "patches", "patches_only_in_a",
 * "patches_only_in_b", "notes": [{"slide","text"}], "precisions": as in report.json}; new
 * reference. `directories` are the runs', as the user named them. */
json_t *hrf_report_pair_json(const struct hrf_run_pair *pair, const char *const directories[2]);

/* Makes the directory and writes compare.json, study.csv, patch-flips.csv and index.html. */
HRF_CHECKED enum hrf_status hrf_report_pair_write(const struct hrf_run_pair *pair,
                                                  const char *const directories[2],
                                                  const char *directory, struct hrf_error *err);

#endif
