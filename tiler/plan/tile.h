/* tile.h - one slide into a tile plan: resolution, overview, tissue, patches. */
#ifndef HRF_TILER_PLAN_TILE_H
#define HRF_TILER_PLAN_TILE_H

#include "schema/record/job.h"
#include "schema/record/tile_plan.h"

/* Opens the slide, finds its resolution (csv and workflow: um/px, 0 = not given), detects tissue on
 * an overview (about 8 um/px for otsu; see tiler/tissue/tissue.h), lays the grid and keeps the
 * patches of which at least params->min_tissue is tissue. A slide with fewer than
 * params->min_patches is looked at again with a relaxed threshold and half of min_tissue, and
 * kept with a warning. No tissue is HRF_OK with n_patches 0, and so is a slide smaller than one
 * patch, with a warning that says so.
 *
 * HRF_E_USER: the slide cannot be used (not a slide, damaged, no resolution), with the reason;
 * HRF_E_UNSUPPORTED: a mode that this build lacks. Memory: that of the overview (30 MB for 100,000
 * x 100,000 px at 0.25 um/px) a few times over, whatever levels the slide has. */
HRF_CHECKED enum hrf_status hrf_tile_slide(const char *path, const struct hrf_job_tiler *params,
                                           double csv_mpp, double workflow_mpp,
                                           struct hrf_tile_plan **out, struct hrf_error *err);

#endif
