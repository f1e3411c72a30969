/* estimate.h - how many patches a slide is likely to give, at a small, bounded cost.
 *
 * `hires-flow plan` looks at some slides of a cohort in this way before anything is tiled.
 */
#ifndef HRF_TILER_PLAN_ESTIMATE_H
#define HRF_TILER_PLAN_ESTIMATE_H

#include "schema/record/job.h"

struct hrf_tile_estimate {
    int64_t n_cells;      /* positions of the grid: patches if all were tissue */
    int64_t n_patches;    /* of them, those with enough tissue */
    double picture_bytes; /* of PNG for each pixel of a thumbnail with its mask; 0: not known */
};

/* Detects tissue as hrf_tile_slide() does, but on an overview of at most 2^20 px, and counts the
 * patches with enough of it; none is read. A network that would find tissue is not asked: otsu
 * stands in for it. Patches of another program (params->coords) are counted in its file. What
 * params->quality will leave out is not known. In mode "slide": one patch if there is any tissue.
 *
 * Reads at most 2^25 px. HRF_E_UNSUPPORTED: the slide has no level of that size that is fine
 * enough. HRF_E_USER: it cannot be used. */
HRF_CHECKED enum hrf_status
hrf_tile_estimate_slide(const char *path, const struct hrf_job_tiler *params, double csv_mpp,
                        double workflow_mpp, struct hrf_tile_estimate *out, struct hrf_error *err);

#endif
