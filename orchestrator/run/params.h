/* params.h - collects the parts of a workflow that aggregation and report depend on. Pure. */
#ifndef HRF_ORCHESTRATOR_RUN_PARAMS_H
#define HRF_ORCHESTRATOR_RUN_PARAMS_H

#include "aggregate/study/cohort.h"
#include "schema/workflow/workflow.h"

/* Fills everything except calibration and provenance. *out borrows from the workflow, and
 * out->precisions points to `precisions`, which is filled with names. */
void hrf_run_params_fill(const struct hrf_workflow *workflow,
                         const char *precisions[HRF_MOST_VARIANTS],
                         struct hrf_aggregate_params *out);

#endif
