/* kept.h - a picture of a slide's patches: which are scored, and which are left out and why. */
#ifndef HRF_AGGREGATE_REPORT_KEPT_H
#define HRF_AGGREGATE_REPORT_KEPT_H

#include "schema/record/tile_plan.h"

/* *png (heap): the thumbnail with each patch outlined: green is scored, gray meets a tile that does
 * not decode, blue is pen, yellow a bubble, red a fold, violet blurred. HRF_E_USER: the thumbnail
 * is damaged. */
HRF_CHECKED enum hrf_status hrf_kept_draw(const struct hrf_tile_plan *plan, struct hrf_bytes *png,
                                          struct hrf_error *err);

#endif
