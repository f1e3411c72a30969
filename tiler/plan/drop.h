/* drop.h - leaves out patches of low quality (tiler.quality). */
#ifndef HRF_TILER_PLAN_DROP_H
#define HRF_TILER_PLAN_DROP_H

#include "schema/record/job.h"
#include "schema/record/tile_plan.h"
#include "tiler/slide/slide.h"
#include "tiler/tissue/tissue.h"

/* Moves patches from plan->patches to plan->dropped, each with the first of these reasons that
 * holds: pen, bubble, fold, blur. `image` and tissue[height][width] are the overview that tissue
 * was found on. With a limit for blur, every remaining patch is read once. Adds a warning that
 * counts the dropped patches. */
HRF_CHECKED enum hrf_status hrf_plan_drop(struct hrf_slide *slide,
                                          const struct hrf_workflow_quality *limits,
                                          const struct hrf_tissue_image *image,
                                          const unsigned char *tissue, struct hrf_tile_plan *plan,
                                          struct hrf_error *err);

#endif
