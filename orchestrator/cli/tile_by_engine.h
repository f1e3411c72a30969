/* tile_by_engine.h - one slide tiled by hires-engine, whose networks find tissue. */
#ifndef HRF_ORCHESTRATOR_CLI_TILE_BY_ENGINE_H
#define HRF_ORCHESTRATOR_CLI_TILE_BY_ENGINE_H

#include "schema/record/job.h"
#include "schema/record/tile_plan.h"

/* As hrf_tile_slide() does, in a job of one task in a folder for the purpose, which is removed
 * again. params->tissue names the network; its hash is found here. HRF_E_USER: the slide or the
 * model cannot be used; HRF_E_EXTERNAL: the engine cannot be started. */
HRF_CHECKED enum hrf_status hrf_cli_tile_by_engine(const char *slide,
                                                   const struct hrf_job_tiler *params,
                                                   double slide_mpp, struct hrf_tile_plan **out,
                                                   struct hrf_error *err);

#endif
