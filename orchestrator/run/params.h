/* params.h - the parts of a workflow that aggregate and report depend on. Pure. */
#ifndef HRF_ORCHESTRATOR_RUN_PARAMS_H
#define HRF_ORCHESTRATOR_RUN_PARAMS_H

#include "aggregate/study/cohort.h"
#include "schema/workflow/workflow.h"

/* Everything but calibration and provenance; borrows from the workflow. `precisions` are the names
 * that out->precisions points to. */
void hrf_run_params_fill(const struct hrf_workflow *workflow,
                         const char *precisions[HRF_N_PRECISIONS],
                         struct hrf_aggregate_params *out);

#endif
