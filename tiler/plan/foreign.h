/* foreign.h - a tile plan whose patches or tissue another program chose (tiler/coords). */
#ifndef HRF_TILER_PLAN_FOREIGN_H
#define HRF_TILER_PLAN_FOREIGN_H

#include "schema/record/tile_plan.h"
#include "tiler/slide/slide.h"

/* Puts the patches of the file into a plan that is otherwise filled, in the order of plans, and
 * draws the area that they cover into mask[height][width] of the slide. A patch that the file has
 * twice is taken once, with a warning. HRF_E_USER: as hrf_coords_read(), or the patches have
 * another size than the plan's. */
HRF_CHECKED enum hrf_status hrf_foreign_patches(const char *path,
                                                const struct hrf_slide_info *slide,
                                                struct hrf_tile_plan *plan, unsigned char *mask,
                                                int64_t width, int64_t height,
                                                struct hrf_error *err);

#endif
