/* tile_worker.h - the worker of a tile job whose tissue a network finds (tissue method `onnx`); of
 * all other tile jobs hires-flow is the worker itself (tiler/plan/tile_job.h).
 *
 * `hires-engine tile` calls it. The network is made ready once for all slides of the job.
 */
#ifndef HRF_ENGINE_TILE_WORKER_TILE_WORKER_H
#define HRF_ENGINE_TILE_WORKER_TILE_WORKER_H

#include "schema/record/job.h"

/* The job of hrf_tile_job_main() with a network. HRF_E_USER: the model cannot be used. */
HRF_CHECKED enum hrf_status hrf_tile_worker_run(const char *spec_path, struct hrf_error *err);

/* Checks all of a network for tissue but its hash, without making it ready. *side: px, the height
 * and width of its images. */
HRF_CHECKED enum hrf_status hrf_tile_worker_check_model(const struct hrf_workflow_tissue *settings,
                                                        int64_t *side, struct hrf_error *err);

#endif
