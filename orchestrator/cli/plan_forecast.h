/* plan_forecast.h - the part of `plan` that says how many patches, how long and how much disk. */
#ifndef HRF_ORCHESTRATOR_CLI_PLAN_FORECAST_H
#define HRF_ORCHESTRATOR_CLI_PLAN_FORECAST_H

#include "base/json.h"
#include "orchestrator/run/forecast.h"

/* Asks the engine for the rate of each precision (hrf_cli_plan_layout()), and makes the forecast.
 * What the engine cannot say is left out. */
HRF_CHECKED enum hrf_status hrf_cli_forecast(const struct hrf_workflow *workflow,
                                             const char *directory,
                                             const struct hrf_preview *preview,
                                             struct hrf_forecast *out, struct hrf_error *err);
/* Prints what the headers of the slides say. Nothing if all slides are tiled. */
void hrf_cli_print_slides(const struct hrf_workflow *workflow, const struct hrf_forecast *f);
/* Prints patches, time and disk, and what each is from. */
void hrf_cli_print_forecast(const struct hrf_workflow *workflow, const char *directory,
                            const struct hrf_forecast *f);
json_t *hrf_cli_forecast_json(const struct hrf_workflow *workflow, const char *directory,
                              const struct hrf_forecast *f);

#endif
