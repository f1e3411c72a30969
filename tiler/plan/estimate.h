/* estimate.h - estimates how many patches a slide has, at a small, bounded cost.
 *
 * `hires-flow plan` looks at some slides of a cohort in this way before anything is tiled.
 */
#ifndef HRF_TILER_PLAN_ESTIMATE_H
#define HRF_TILER_PLAN_ESTIMATE_H

#include "schema/record/job.h"

struct hrf_tile_estimate {
    int64_t n_cells;   /* positions of the grid, i.e. patches if all were tissue */
    int64_t n_patches; /* positions with enough tissue */
    double
        picture_bytes; /* bytes of PNG for each pixel of a thumbnail and its mask; 0: not known */
};

/* Detects tissue as hrf_tile_slide() does, but on an overview of at most 2^20 px, and counts the
 * patches with enough of it, without reading them. Where a network finds tissue, otsu is used
 * instead. Patches of another program (params->coords) are counted in its file. Patches that
 * params->quality will leave out are counted, too. In mode "slide" there is one patch if there is
 * any tissue.
 *
 * Reads at most 2^25 px. HRF_E_UNSUPPORTED: the slide has no level of that size that is fine
 * enough. HRF_E_USER: it cannot be used. */
HRF_CHECKED enum hrf_status
hrf_tile_estimate_slide(const char *path, const struct hrf_workflow_tiler *params, double csv_mpp,
                        double workflow_mpp, struct hrf_tile_estimate *out, struct hrf_error *err);

#endif
