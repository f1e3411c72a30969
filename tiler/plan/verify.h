/* verify.h - reads every patch of a plan once, to find those with tiles that do not decode. */
#ifndef HRF_TILER_PLAN_VERIFY_H
#define HRF_TILER_PLAN_VERIFY_H

#include "schema/record/tile_plan.h"
#include "tiler/slide/slide.h"

/* Fills plan->white, and adds a warning that names the places, for a slide whose bad tiles are
 * white. `overview_is_hit` says that the overview on which tissue was found has such tiles.
 * HRF_E_USER: more than half of the patches are white, or there are no patches and the overview is
 * hit, so that scores would say little of the slide. */
HRF_CHECKED enum hrf_status hrf_verify_patches(struct hrf_slide *slide, bool overview_is_hit,
                                               struct hrf_tile_plan *plan, struct hrf_error *err);

/* Adds a sentence to the plan's warning. */
void hrf_plan_warn(struct hrf_tile_plan *plan, const char *text);

#endif
