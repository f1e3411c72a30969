#include "engine/input/plan_readers.h"

enum hrf_status hrf_plan_readers_create(struct hrf_slide *slide, const struct hrf_tile_plan *plan,
                                        struct hrf_patch_reader **reader,
                                        struct hrf_level_check **check, struct hrf_error *err)
{
    HRF_TRY(hrf_patch_reader_create(slide, plan->mpp_x, plan->mpp_y, plan->patch_size,
                                    plan->patch_mpp, reader, err));
    const int32_t level = hrf_patch_reader_level(*reader);
    if (level != plan->read_level)
        return hrf_error_set(err, HRF_E_USER,
                             "its patches of %g um/px are read from level %d, and the tile plan "
                             "was made from level %d: tile the slide again",
                             plan->patch_mpp, level, plan->read_level);
    return hrf_level_check_create(slide, plan->mpp_x, plan->mpp_y, plan->patch_size,
                                  plan->patch_mpp, check, err);
}
