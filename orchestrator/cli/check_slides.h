/* check_slides.h - `hires-flow check FILE --slides`: whether the slides of a workflow can be
 * scored. */
#ifndef HRF_ORCHESTRATOR_CLI_CHECK_SLIDES_H
#define HRF_ORCHESTRATOR_CLI_CHECK_SLIDES_H

#include "schema/workflow/workflow.h"

/* Surveys the slides and prints the findings, as JSON if is_json. Returns the exit code: 0, or 3 if
 * some slides cannot be scored. */
int hrf_cli_check_slides(const struct hrf_workflow *workflow, bool is_json);

#endif
