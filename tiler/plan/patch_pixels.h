/* patch_pixels.h - identifies the patches of a tile plan by their pixels. */
#ifndef HRF_TILER_PLAN_PATCH_PIXELS_H
#define HRF_TILER_PLAN_PATCH_PIXELS_H

#include "base/hash.h"
#include "schema/record/tile_plan.h"

/* Computes the hash of the patches' pixels on the level that they are read from: every pixel of
 * patches up to 1024 px a side, and 16 squares of 256 px spread over larger ones. */
HRF_CHECKED enum hrf_status hrf_tile_plan_hash_pixels(const struct hrf_tile_plan *plan,
                                                      char out[HRF_HASH_HEX],
                                                      struct hrf_error *err);

#endif
