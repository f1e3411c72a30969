/* plan_forecast.h - the part of `plan` that predicts patches, time and disk space. */
#ifndef HRF_ORCHESTRATOR_CLI_PLAN_FORECAST_H
#define HRF_ORCHESTRATOR_CLI_PLAN_FORECAST_H

#include "base/json.h"
#include "orchestrator/run/forecast.h"

/* Asks the engine for the rate of each precision (hrf_cli_plan_layout()) and makes the forecast.
 * Rates that the engine does not know are left out. */
HRF_CHECKED enum hrf_status hrf_cli_forecast(const struct hrf_workflow *workflow,
                                             const char *directory,
                                             const struct hrf_preview *preview,
                                             struct hrf_forecast *out, struct hrf_error *err);
/* Prints a summary of the slides' headers, or nothing if all slides are tiled. */
void hrf_cli_print_slides(const struct hrf_workflow *workflow, const struct hrf_forecast *f);
/* Prints patches, time and disk space, each with its source. */
void hrf_cli_print_forecast(const struct hrf_workflow *workflow, const char *directory,
                            const struct hrf_forecast *f);
json_t *hrf_cli_forecast_json(const struct hrf_workflow *workflow, const char *directory,
                              const struct hrf_forecast *f);

#endif
