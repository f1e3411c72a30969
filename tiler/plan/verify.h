/* verify.h - reads every patch of a plan once, to find those with tiles that do not decode. */
#ifndef HRF_TILER_PLAN_VERIFY_H
#define HRF_TILER_PLAN_VERIFY_H

#include "schema/record/tile_plan.h"
#include "tiler/slide/slide.h"

/* Fills plan->white, and adds a warning that names places, for a slide whose bad tiles are white.
 * overview_is_hit: the overview that tissue was found on has white for such tiles. HRF_E_USER: more
 * than half of the patches are white, or there are none and the overview is hit, so that what can
 * be scored of the slide would say little of it. */
HRF_CHECKED enum hrf_status hrf_verify_patches(struct hrf_slide *slide, bool overview_is_hit,
                                               struct hrf_tile_plan *plan, struct hrf_error *err);

/* Adds a sentence to the plan's warning. */
HRF_CHECKED enum hrf_status hrf_plan_warn(struct hrf_tile_plan *plan, const char *text,
                                          struct hrf_error *err);

#endif
