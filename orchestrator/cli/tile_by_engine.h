/* tile_by_engine.h - one slide tiled by hires-engine, whose networks find tissue. */
#ifndef HRF_ORCHESTRATOR_CLI_TILE_BY_ENGINE_H
#define HRF_ORCHESTRATOR_CLI_TILE_BY_ENGINE_H

#include "schema/record/job.h"
#include "schema/record/tile_plan.h"

/* Tiles a slide as hrf_tile_slide() does, by a job of one task in a temporary folder.
 * tiler.tissue.model names the network, whose hash is computed here. HRF_E_USER: the slide or the
 * model cannot be used. HRF_E_EXTERNAL: the engine cannot be started. */
HRF_CHECKED enum hrf_status hrf_cli_tile_by_engine(const char *slide,
                                                   const struct hrf_workflow *settings,
                                                   struct hrf_tile_plan **out,
                                                   struct hrf_error *err);

#endif
