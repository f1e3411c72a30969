/* tile.h - one slide into a tile plan: resolution, overview, tissue, patches. */
#ifndef HRF_TILER_PLAN_TILE_H
#define HRF_TILER_PLAN_TILE_H

#include "schema/record/job.h"
#include "schema/record/tile_plan.h"

/* Opens the slide, finds its resolution (csv and workflow: 0 = not given), detects tissue on an
 * overview of about 8 um/px, lays the grid and keeps the patches with enough tissue. A slide
 * with fewer than params->min_patches is tried again with a relaxed threshold and kept with a
 * warning. No tissue is HRF_OK with n_patches 0. HRF_E_USER: the slide cannot be used, with the
 * reason. Memory is bounded by the overview: 40 MB for 100,000 x 100,000 px at 0.25 um/px. */
HRF_CHECKED enum hrf_status hrf_tile_slide(const char *path, const struct hrf_job_tiler *params,
                                           double csv_mpp, double workflow_mpp,
                                           struct hrf_tile_plan **out, struct hrf_error *err);

/* The worker of a tile job: tiles every task of the spec and commits each as it is done. Returns
 * the exit code: 0 every task has a status, 75 try again (disk full, no memory), 1 the spec
 * cannot be used, with a line on stderr. */
int hrf_tile_job(const char *spec_path);

#endif
