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
 * Mode "slide": the plan has one patch, the frame of patch_size px that the slide is scored in as
 * one image. On a side where the slide fits, it lies whole in the middle of the frame; on the
 * other the frame is centred on the tissue's box as far as it stays on the slide. What of the
 * frame lies outside of the slide is white: a patch at x < 0 is padded by -x level-0 px on the
 * left. Tissue that the frame cannot hold is a warning with its share. min_tissue and min_patches
 * do not count.
 *
 * HRF_E_USER: the slide cannot be used (not a slide, damaged, no resolution), with the reason;
 * HRF_E_UNSUPPORTED: an unknown mode. Memory: that of the overview (30 MB for 100,000
 * x 100,000 px at 0.25 um/px) a few times over, whatever levels the slide has. */
HRF_CHECKED enum hrf_status hrf_tile_slide(const char *path, const struct hrf_job_tiler *params,
                                           double csv_mpp, double workflow_mpp,
                                           struct hrf_tile_plan **out, struct hrf_error *err);

#endif
