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

void hrf_plan_set_bad_tiles(struct hrf_slide *slide, const struct hrf_tile_plan *plan)
{
    hrf_slide_set_bad_tiles(slide,
                            plan->n_white > 0 ? HRF_BAD_TILES_ARE_WHITE : HRF_BAD_TILES_FAIL);
}

enum hrf_status hrf_plan_check_white(struct hrf_slide *slide, const struct hrf_tile_plan *plan,
                                     int64_t patch, const struct hrf_patch_reader *reader,
                                     struct hrf_error *err)
{
    struct hrf_bad_tile tile;
    char text[400] = "";
    if (!hrf_patch_reader_met_white(reader) || hrf_tile_plan_is_white(plan, patch))
        return HRF_OK;
    for (int64_t i = 0; hrf_slide_bad_tile(slide, i, &tile);
         i++) /* the list ends with the tile that came last */
        hrf_bad_tile_text(&tile, text, sizeof text);
    return hrf_error_set(
        err, HRF_E_USER,
        "the patch at x %d, y %d of '%s' meets a tile that does not decode, and "
        "did when the slide was tiled (%s): the file has changed, or its disk fails",
        plan->patches[patch].x, plan->patches[patch].y, plan->slide_path, text);
}
