/* kept.h - a picture of a slide's patches, which shows what is scored and what is left out. */
#ifndef HRF_AGGREGATE_REPORT_KEPT_H
#define HRF_AGGREGATE_REPORT_KEPT_H

#include "schema/record/tile_plan.h"

/* Draws the thumbnail with each patch outlined (heap): green is scored, gray lies on a tile that
 * does not decode, blue is pen, yellow a bubble, red a fold, violet blurred. HRF_E_USER: the
 * thumbnail is damaged. */
HRF_CHECKED enum hrf_status hrf_kept_draw(const struct hrf_tile_plan *plan, struct hrf_bytes *png,
                                          struct hrf_error *err);

#endif
