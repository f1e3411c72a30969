/* feed_tiles.c - feeds whose batches are compressed tiles (feed.h): whether a slide allows it, and
 * what is wrong with tiles that a device cannot decode. */
#include "engine/input/feed.h"
#include "engine/input/plan_readers.h"
#include "tiler/slide/level_read.h"

enum hrf_status hrf_feed_no_tiles(const struct hrf_feed_config *config, const char **why,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    HRF_AUTO(hrf_level_check) check = NULL;
    *why = config->n_forms != 1 || !config->forms[0].raw ? "not every network takes pixels as bytes"
           : config->is_jittered[0]                      ? "its pixels are stained otherwise"
           : config->preparation.size > 0                ? "its patches are resized for the model"
           : config->plan->n_white > 0 ? "tiles that do not decode are to be white"
                                       : NULL;
    if (*why != NULL)
        return HRF_OK;
    HRF_TRY(hrf_plan_readers_create(config->slide, config->plan, &reader, &check, err));
    *why = hrf_patch_reader_no_streams(reader);
    return HRF_OK;
}

enum hrf_status hrf_feed_check_tiles(struct hrf_slide *slide, const struct hrf_tile_plan *plan,
                                     const struct hrf_tile_batch *tiles, struct hrf_error *err)
{
    for (int32_t i = 0; i < tiles->n_tiles; i++)
        HRF_TRY(hrf_level_tile_check(slide, plan->read_level, tiles->places[i][0],
                                     tiles->places[i][1], err));
    return HRF_OK;
}
