/* tile_batches.h - which compressed tiles the patches of a batch are cut out of, laid out for a
 * device (engine/ir/tile_batch.h).
 *
 * Everything but the tiles' bytes is known from the patches alone. So a block has room for any
 * batch of its feed, and readers share the tiles of a batch as they share the patches else.
 */
#ifndef HRF_ENGINE_INPUT_TILE_BATCHES_H
#define HRF_ENGINE_INPUT_TILE_BATCHES_H

#include "base/error.h"
#include "engine/ir/tile_batch.h"
#include "schema/record/tile_plan.h"
#include "tiler/slide/patch_reader.h"
#include "tiler/slide/slide.h"

/* Patches of a slide, in the visiting order, and their batches; all borrowed. */
struct hrf_tile_batches {
    struct hrf_slide *slide;
    const struct hrf_patch_reader *reader; /* hrf_patch_reader_no_streams() is NULL */
    const struct hrf_patch *patches;
    const int64_t *order; /* [n_patches]: visiting order -> patch */
    int64_t n_patches, batch;
    int32_t side;
    int32_t first_row, n_rows; /* of every patch */
    /* Set by hrf_tile_batches_init(). */
    int32_t max_tiles, max_cuts;
    size_t stream_bytes; /* the most of a batch, each from a multiple of 16 on */
    size_t block_bytes;
};

/* Finds how large the batches are. */
HRF_CHECKED enum hrf_status hrf_tile_batches_init(struct hrf_tile_batches *batches,
                                                  struct hrf_error *err);
/* Lays out batch `number` in a block of block_bytes, aligned to 64: all but the tiles and the
 * witness. */
struct hrf_tile_batch *hrf_tile_batches_open(const struct hrf_tile_batches *batches, int64_t number,
                                             void *block);
/* Reads its tile i. */
HRF_CHECKED enum hrf_status hrf_tile_batches_read(const struct hrf_tile_batches *batches,
                                                  struct hrf_tile_batch *batch, int32_t i,
                                                  struct hrf_error *err);

#endif
