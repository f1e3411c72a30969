/* tile.h - makes the tile plan of a slide: resolution, overview, tissue, patches. */
#ifndef HRF_TILER_PLAN_TILE_H
#define HRF_TILER_PLAN_TILE_H

#include "schema/record/tile_plan.h"
#include "schema/settings/settings.h"
#include "tiler/tissue/tissue_network.h"

/* Opens the slide, finds its resolution (csv and workflow: um/px, 0 = not given), detects tissue on
 * an overview (about 8 um/px for otsu; see tiler/tissue/tissue.h), lays the grid and keeps the
 * patches of which at least params->tissue.min_tissue is tissue. A slide with fewer than
 * params->tissue.min_patches is tried again with a relaxed threshold and half of min_tissue, and is
 * kept with a warning. A slide without tissue gives HRF_OK with n_patches 0; a slide smaller than
 * one patch does too, with a warning.
 *
 * Mode "slide": the plan has one patch, the frame of params->slide.size px that the slide is scored
 * in as one image. In a direction in which the slide fits, it lies in the middle of the frame; in
 * the other, the frame is centred on the bounding box of the tissue, moved so that it stays on the
 * slide. The part of the frame outside the slide is white: a patch at x < 0 is padded by -x level-0
 * px on the left. If tissue does not fit into the frame, a warning says how much. min_tissue and
 * min_patches are ignored.
 *
 * Tissue method "onnx": `network` decides on images of params->tissue.mpp um/px, and tissue is
 * where its probability is at least params->tissue.threshold (relaxed: half of it). The network is
 * not used, and may be NULL, with another method; with this one and without a network the call
 * fails with HRF_E_UNSUPPORTED.
 *
 * With on_bad_tile "white" every patch is read once more, and those that meet tiles that do not
 * decode are listed in the plan (verify.h); otherwise the first such tile fails the slide.
 *
 * HRF_E_USER: the slide cannot be used (not a slide, damaged, no resolution); the text gives the
 * reason. The call takes a few times the memory of the overview (30 MB for 100,000 x 100,000 px at
 * 0.25 um/px), whatever levels the slide has. */
HRF_CHECKED enum hrf_status hrf_tile_slide(const char *path,
                                           const struct hrf_workflow_tiler *params, double csv_mpp,
                                           double workflow_mpp,
                                           const struct hrf_tissue_network *network,
                                           struct hrf_tile_plan **out, struct hrf_error *err);

#endif
