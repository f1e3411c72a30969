/* tile_batches.c - see tile_batches.h. */
#include "engine/input/tile_batches.h"

#include "base/alloc.h"
#include "base/min_max.h"
#include "tiler/slide/level_read.h"

#include <assert.h>

enum { STREAM_ALIGNMENT = 16, BLOCK_ALIGNMENT = 64, MIN_BLOCK = 1 << 20 };

/* A batch whose parts come one after the other. `batch` has no room yet while they are counted. */
struct listing {
    struct hrf_tile_batch *batch;
    int32_t image;
    size_t stream_bytes;     /* bytes of the streams so far */
    unsigned char *streams;  /* NULL: the parts are only counted */
    int32_t (*positions)[2]; /* [room] */
    int32_t room;
};

/* The tile's number in the batch. The search goes backwards, because the tiles that were listed
 * last are the likeliest. */
static int32_t find_tile(const struct listing *listing, const struct hrf_tile_part *part)
{
    int32_t i = listing->batch->n_tiles - 1;
    while (i >= 0 &&
           (listing->positions[i][0] != part->column || listing->positions[i][1] != part->row))
        i--;
    return i;
}

static enum hrf_status take_part(void *context, const struct hrf_tile_part *part,
                                 struct hrf_error *err)
{
    struct listing *listing = context;
    struct hrf_tile_batch *batch = listing->batch;
    (void)err;
    int32_t tile = find_tile(listing, part);
    if (tile < 0) {
        if (batch->n_tiles == listing->room) { /* the list grows only while the parts are counted */
            const int32_t room = 2 * listing->room + 64;
            listing->positions = hrf_realloc_array(listing->positions, (size_t)room,
                                                   sizeof *listing->positions);
            listing->room = room;
        }
        tile = batch->n_tiles++;
        listing->positions[tile][0] = (int32_t)part->column;
        listing->positions[tile][1] = (int32_t)part->row;
        if (listing->streams != NULL)
            batch->streams[tile] = listing->streams + listing->stream_bytes;
        listing->stream_bytes += hrf_round_up(part->n_bytes, STREAM_ALIGNMENT);
    }
    if (listing->streams != NULL)
        batch->cuts[batch->n_cuts] = (struct hrf_tile_cut){ .tile = tile,
                                                            .tile_x = (int32_t)part->tile_x,
                                                            .tile_y = (int32_t)part->tile_y,
                                                            .image = listing->image,
                                                            .x = (int32_t)part->x,
                                                            .y = (int32_t)part->y,
                                                            .width = (int32_t)part->width,
                                                            .height = (int32_t)part->height };
    batch->n_cuts++;
    return HRF_OK;
}

static enum hrf_status tile_batches_list(const struct hrf_tile_batches *b, int64_t number,
                                         struct listing *listing, struct hrf_error *err)
{
    const int64_t first = number * b->batch, left = b->n_patches - first;
    const int64_t n = left < b->batch ? left : b->batch;
    for (int64_t i = 0; i < n; i++) {
        const struct hrf_patch *patch = &b->patches[b->order[first + i]];
        const struct hrf_level_region region = hrf_patch_reader_region(
            b->reader, patch->x, patch->y, b->first_row, b->n_rows);
        listing->image = (int32_t)i;
        HRF_TRY(hrf_level_parts(b->slide, &region, take_part, listing, err));
    }
    listing->batch->n_images = (int32_t)n;
    return HRF_OK;
}

/* The offsets at which the parts of a block begin. */
struct block_layout {
    size_t streams_of, lengths, positions, cuts, witness, streams, end;
};

static struct block_layout layout_of(const struct hrf_tile_batches *b)
{
    const size_t tiles = (size_t)b->max_tiles, cuts = (size_t)b->max_cuts;
    struct block_layout l;
    l.streams_of = hrf_round_up(sizeof(struct hrf_tile_batch), BLOCK_ALIGNMENT);
    l.lengths = hrf_round_up(l.streams_of + tiles * sizeof(void *), BLOCK_ALIGNMENT);
    l.positions = hrf_round_up(l.lengths + tiles * sizeof(size_t), BLOCK_ALIGNMENT);
    l.cuts = hrf_round_up(l.positions + tiles * 2 * sizeof(int32_t), BLOCK_ALIGNMENT);
    l.witness = hrf_round_up(l.cuts + cuts * sizeof(struct hrf_tile_cut), BLOCK_ALIGNMENT);
    l.streams = hrf_round_up(l.witness + (size_t)b->n_rows * (size_t)b->side * 3, BLOCK_ALIGNMENT);
    l.end = l.streams + b->stream_bytes;
    return l;
}

/* Rounds to one of few sizes of blocks, because memory that a device reads is kept for the next
 * slide. */
static size_t round_up(size_t n_bytes)
{
    size_t size = MIN_BLOCK;
    while (size < n_bytes)
        size += size / 2;
    return size;
}

enum hrf_status hrf_tile_batches_init(struct hrf_tile_batches *b, struct hrf_error *err)
{
    struct listing listing = { .room = 0 };
    enum hrf_status status = HRF_OK;
    b->max_tiles = b->max_cuts = 0;
    b->stream_bytes = 0;
    for (int64_t i = 0; i * b->batch < b->n_patches && status == HRF_OK; i++) {
        struct hrf_tile_batch batch = { .n_tiles = 0 };
        listing.batch = &batch;
        listing.stream_bytes = 0;
        status = tile_batches_list(b, i, &listing, err);
        b->max_tiles = batch.n_tiles > b->max_tiles ? batch.n_tiles : b->max_tiles;
        b->max_cuts = batch.n_cuts > b->max_cuts ? batch.n_cuts : b->max_cuts;
        b->stream_bytes = listing.stream_bytes > b->stream_bytes ? listing.stream_bytes
                                                                 : b->stream_bytes;
    }
    hrf_free(listing.positions);
    HRF_TRY(status);
    b->block_bytes = round_up(layout_of(b).end);
    return HRF_OK;
}

struct hrf_tile_batch *hrf_tile_batches_open(const struct hrf_tile_batches *b, int64_t number,
                                             void *block)
{
    const struct block_layout l = layout_of(b);
    unsigned char *at = block;
    struct hrf_tile_batch *batch = block;
    int64_t width, height;
    hrf_level_tile_size(b->slide, (struct hrf_tile_grid){ hrf_patch_reader_level(b->reader), 1 },
                        &width, &height);
    *batch = (struct hrf_tile_batch){ .tile_width = (int32_t)width,
                                      .tile_height = (int32_t)height,
                                      .side = b->side,
                                      .n_rows = b->n_rows,
                                      .is_rgb = hrf_level_is_rgb(b->slide,
                                                                 hrf_patch_reader_level(b->reader)),
                                      .most_tiles = b->max_tiles,
                                      .most_cuts = b->max_cuts,
                                      .streams = (void *)(at + l.streams_of),
                                      .lengths = (void *)(at + l.lengths),
                                      .positions = (void *)(at + l.positions),
                                      .cuts = (void *)(at + l.cuts),
                                      .witness = at + l.witness };
    struct listing listing = { .batch = batch,
                               .streams = at + l.streams,
                               .positions = batch->positions,
                               .room = b->max_tiles };
    const enum hrf_status status = tile_batches_list(b, number, &listing, NULL);
    assert(status == HRF_OK &&
           batch->n_cuts <= b->max_cuts); /* hrf_tile_batches_init() has counted them */
    (void)status;
    return batch;
}

enum hrf_status hrf_tile_batches_read(const struct hrf_tile_batches *b,
                                      struct hrf_tile_batch *batch, int32_t i,
                                      struct hrf_error *err)
{
    return hrf_level_tile_stream(
        b->slide, hrf_patch_reader_level(b->reader), batch->positions[i][0], batch->positions[i][1],
        (unsigned char *)(uintptr_t)batch->streams[i], &batch->lengths[i], err);
}
