/* drop.h - leaves patches out that are not fit to be scored (tiler.quality). */
#ifndef HRF_TILER_PLAN_DROP_H
#define HRF_TILER_PLAN_DROP_H

#include "schema/record/job.h"
#include "schema/record/tile_plan.h"
#include "tiler/slide/slide.h"
#include "tiler/tissue/tissue.h"

/* Moves patches from plan->patches to plan->dropped, each with the first reason that holds: pen,
 * bubble, fold, blur. image and tissue[height][width]: the overview that tissue was found on. With
 * a limit for blur every patch that is left is read once. Adds a warning that counts them. */
HRF_CHECKED enum hrf_status hrf_plan_drop(struct hrf_slide *slide,
                                          const struct hrf_job_quality *limits,
                                          const struct hrf_tissue_image *image,
                                          const unsigned char *tissue, struct hrf_tile_plan *plan,
                                          struct hrf_error *err);

#endif
