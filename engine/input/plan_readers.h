/* plan_readers.h - what reads a slide's patches as a tile plan has them. */
#ifndef HRF_ENGINE_INPUT_PLAN_READERS_H
#define HRF_ENGINE_INPUT_PLAN_READERS_H

#include "schema/record/tile_plan.h"
#include "tiler/slide/level_check.h"
#include "tiler/slide/patch_reader.h"
#include "tiler/slide/slide.h"

/* For one thread. HRF_E_USER where the slide has its patches on another level than when it was
 * tiled: its pixels are not those that the plan was made of. */
HRF_CHECKED enum hrf_status hrf_plan_readers_create(struct hrf_slide *slide,
                                                    const struct hrf_tile_plan *plan,
                                                    struct hrf_patch_reader **reader,
                                                    struct hrf_level_check **check,
                                                    struct hrf_error *err);

/* How a slide is to be read for a plan: with white for tiles that do not decode if the plan lists
 * patches on such. Before the slide is read. */
void hrf_plan_set_bad_tiles(struct hrf_slide *slide, const struct hrf_tile_plan *plan);
/* HRF_E_USER: the reader met a tile that does not decode, and the plan does not list `patch`, the
 * number of the patch that it read last, as one that does. */
HRF_CHECKED enum hrf_status hrf_plan_check_white(struct hrf_slide *slide,
                                                 const struct hrf_tile_plan *plan, int64_t patch,
                                                 const struct hrf_patch_reader *reader,
                                                 struct hrf_error *err);

#endif
