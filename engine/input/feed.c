/* feed.c - see feed.h. One mutex guards everything except the pixels: a reader owns the positions
 * that it claimed, the consumer owns the batch that it was given. */
#include "engine/input/feed.h"

#include "base/clock.h"
#include "engine/backend/kernel.h"
#include "engine/input/image_resize.h"
#include "engine/input/pixel_writer.h"
#include "engine/input/plan_readers.h"
#include "engine/input/tile_batches.h"
#include "tiler/slide/level_read.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Edge of the blocks in which patches are visited, px of the level that is read: one or two tiles
 * of the usual 256 or 512 px. */
enum { BLOCK_PX = 512 };

struct visit {
    int64_t band, block, index;
};

static int compare_visits(const void *a, const void *b)
{
    const struct visit *u = a, *v = b;
    if (u->band != v->band)
        return u->band < v->band ? -1 : 1;
    if (u->block != v->block)
        return u->block < v->block ? -1 : 1;
    return u->index < v->index ? -1 : u->index > v->index;
}

/* True if bands are rows of blocks: the tissue is not wider than high. */
static bool bands_are_rows(const struct hrf_patch *patches, int64_t n)
{
    int32_t low[2] = { INT32_MAX, INT32_MAX }, high[2] = { INT32_MIN, INT32_MIN };
    for (int64_t i = 0; i < n; i++) {
        const int32_t at[2] = { patches[i].x, patches[i].y };
        for (int k = 0; k < 2; k++) {
            low[k] = at[k] < low[k] ? at[k] : low[k];
            high[k] = at[k] > high[k] ? at[k] : high[k];
        }
    }
    return n > 0 && (int64_t)high[0] - low[0] <= (int64_t)high[1] - low[1];
}

/* Bands of blocks across the shorter side of the tissue, so that the tiles on the border of two
 * bands are few; within a block the tile plan's order. */
void hrf_feed_order(const struct hrf_tile_plan *plan, int64_t first_patch, int64_t n, int64_t *out)
{
    const struct hrf_patch *patches = plan->patches + first_patch;
    const bool is_rows = bands_are_rows(patches, n);
    const double edge = BLOCK_PX * (plan->read_downsample >= 1 ? plan->read_downsample : 1);
    HRF_AUTO_FREE struct visit *visits = hrf_alloc_array((size_t)n + 1, sizeof *visits);
    for (int64_t i = 0; i < n; i++) {
        const int64_t column = (int64_t)(patches[i].x / edge), row = (int64_t)(patches[i].y / edge);
        visits[i] = (struct visit){ .band = is_rows ? row : column,
                                    .block = is_rows ? column : row,
                                    .index = i };
    }
    qsort(visits, (size_t)n, sizeof visits[0], compare_visits);
    for (int64_t i = 0; i < n; i++)
        out[i] = visits[i].index;
}

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
        HRF_TRY(hrf_level_tile_check(slide, plan->read_level, tiles->positions[i][0],
                                     tiles->positions[i][1], err));
    return HRF_OK;
}

/* Patches that a reader claims at once: enough to stay on one tile, few enough to share a batch. */
enum { CLAIM = 4 };
struct slot {
    void *pixels[HRF_FEED_MAX_FORMS];
    struct hrf_tile_batch *tiles; /* in pixels[0]; NULL: batches are pixels */
    int64_t batch;   /* the batch that the slot holds or will hold next, counted in the order of
                        delivery */
    int64_t number;  /* the number of that batch in the visiting order; -1: not known yet */
    int64_t claimed; /* positions claimed by readers */
    int64_t filled;  /* positions that are finished */
};

struct hrf_feed {
    struct hrf_feed_config config;
    int64_t side;                      /* px of an image that goes into the network */
    int64_t first_row, n_rows;         /* of every patch that are read */
    int64_t *order;                    /* [n_patches]: visiting order -> patch */
    int64_t n_batches;                 /* total number; INT64_MAX: not known yet */
    struct hrf_pixel_writer *writers;  /* [n_forms] */
    struct hrf_tile_batches tiles;     /* with config.gives_tiles */
    struct hrf_patch_reader *geometry; /* with config.gives_tiles */
    struct slot *slots;
    void *blocks[HRF_FEED_MAX_FORMS]; /* the slots' pixels that no device owns, by form */
    pthread_t *threads;
    int32_t n_threads;
    pthread_mutex_t lock;
    pthread_cond_t space, ready; /* readers wait for space, the consumer for a full batch */
    int64_t next_claim;          /* batch that readers are filling */
    int64_t next_batch;          /* batch that the consumer gets next */
    struct hrf_patch_reader
        *announcer;   /* the reader that announced the patches; NULL: they were not announced */
    int64_t n_passed; /* batches in the visiting order that were opened or that others read */
    bool stop;
    enum hrf_status status; /* the first failure */
    struct hrf_error error;
    int64_t decode_ns, prepare_ns, wait_ns, n_read;
};

struct claim {
    struct slot *slot;
    int64_t batch, first, n; /* positions [first, first + n) of the batch */
};

static void make_order(struct hrf_feed *feed)
{
    const struct hrf_feed_config *config = &feed->config;
    feed->order = hrf_alloc_array((size_t)config->n_patches + 1, sizeof feed->order[0]);
    hrf_feed_order(config->plan, config->first_patch, config->n_patches, feed->order);
}

static int64_t batch_size(const struct hrf_feed *feed, int64_t batch)
{
    int64_t left = feed->config.n_patches - batch * feed->config.batch;
    return left < feed->config.batch ? left : feed->config.batch;
}

/* The number of positions that readers claim of an open slot: its patches, or its tiles and before
 * them the patch that is decoded here. */
static int64_t n_positions(const struct hrf_feed *feed, const struct slot *slot)
{
    return slot->tiles != NULL ? 1 + slot->tiles->n_tiles : batch_size(feed, slot->number);
}

/* Finds the patch at a position of a batch in the visiting order, and tells the slide that it will
 * not be read again. */
static const struct hrf_patch *patch_at(const struct hrf_feed *feed, int64_t batch, int64_t index)
{
    const int64_t patch = feed->order[batch * feed->config.batch + index];
    return &feed->config.plan->patches[feed->config.first_patch + patch];
}

static void patch_done(const struct hrf_feed *feed, const struct hrf_patch_reader *reader,
                       const struct hrf_patch *patch)
{
    hrf_patch_reader_done(reader, patch->x, patch->y, feed->first_row, feed->n_rows);
}

/* Tells the slide that the tiles of batches which others read will not be needed. Called with the
 * lock. */
static void pass_batches(struct hrf_feed *feed, int64_t number)
{
    for (; feed->n_passed < number; feed->n_passed++)
        for (int64_t i = 0; i < batch_size(feed, feed->n_passed); i++)
            patch_done(feed, feed->announcer, patch_at(feed, feed->n_passed, i));
    feed->n_passed = feed->n_passed > number + 1 ? feed->n_passed : number + 1;
}

/* Assigns the next batch to the slot. False: there is none left. Called with the lock. */
static bool open_slot(struct hrf_feed *feed, struct slot *slot)
{
    if (slot->number >= 0)
        return true;
    slot->number = feed->config.next != NULL ? feed->config.next(feed->config.context)
                                             : slot->batch;
    if (slot->number >= 0) {
        pass_batches(feed, slot->number);
        if (feed->config.gives_tiles)
            slot->tiles = hrf_tile_batches_open(&feed->tiles, slot->number, slot->pixels[0]);
        return true;
    }
    feed->n_batches = slot->batch;
    pthread_cond_broadcast(&feed->space);
    pthread_cond_broadcast(&feed->ready);
    return false;
}

/* Waits for positions to fill and claims them. False if nothing is left to do. Called with the
 * lock. */
static bool take_claim(struct hrf_feed *feed, struct claim *claim)
{
    for (;;) {
        if (feed->stop || feed->next_claim == feed->n_batches)
            return false;
        struct slot *slot = &feed->slots[feed->next_claim % feed->config.n_ahead];
        if (slot->batch == feed->next_claim) {
            if (!open_slot(feed, slot))
                return false;
            int64_t left = n_positions(feed, slot) - slot->claimed;
            *claim = (struct claim){ .slot = slot,
                                     .batch = slot->number,
                                     .first = slot->claimed,
                                     .n = left < CLAIM ? left : CLAIM };
            slot->claimed += claim->n;
            if (claim->n == left)
                feed->next_claim++;
            return true;
        }
        pthread_cond_wait(&feed->space, &feed->lock);
    }
}

/* The number of elements of an image, of the rows that are made. */
static int64_t image_numbers(const struct hrf_feed *feed)
{
    return feed->config.n_rows * feed->side * 3;
}

/* The image of patch `index` of a slot, in one form. */
static uint8_t *image_at(const struct hrf_feed *feed, const struct slot *slot, int32_t form,
                         int64_t index)
{
    const size_t n = (size_t)image_numbers(feed);
    return (uint8_t *)slot->pixels[form] +
           (size_t)index * n * hrf_feed_form_bytes(&feed->config.forms[form]);
}

/* The state of one reader thread. */
struct reader {
    const struct hrf_feed *feed;
    struct hrf_patch_reader *patches;
    struct hrf_level_check *check;       /* NULL: the slide has no other level to compare with */
    uint8_t *images[HRF_FEED_MAX_FORMS]; /* of the patch that is being read */
    unsigned char *jittered;             /* a row; NULL: no form is stained otherwise */
    struct hrf_image_resizer *resizer;   /* NULL: patches go in as they are */
    int64_t decode_ns, prepare_ns;       /* not yet added to the times of the feed */
};

/* Writes n rows of the image to the batch, in one form. */
static void put_form(const struct reader *reader, int32_t form, int64_t row, int64_t n,
                     const unsigned char *rgb, int64_t stride)
{
    const struct hrf_feed *feed = reader->feed;
    const int64_t numbers = feed->side * 3;
    const size_t begin = (size_t)(row * numbers) * hrf_feed_form_bytes(&feed->config.forms[form]);
    hrf_pixel_writer_put(&feed->writers[form], rgb, stride, n, numbers,
                         reader->images[form] + begin);
}

/* Writes n rows of the image to the batch, in every form. */
static void put_rows(void *context, int64_t row, int64_t n, const unsigned char *rgb,
                     int64_t stride)
{
    const struct reader *reader = context;
    const struct hrf_feed_config *config = &reader->feed->config;
    for (int32_t f = 0; f < config->n_forms; f++)
        if (!config->is_jittered[f])
            put_form(reader, f, row, n, rgb, stride);
    for (int64_t k = 0; k < n && reader->jittered != NULL; k++) {
        hrf_stain_jitter_apply(&config->jitter, rgb + k * stride, reader->feed->side * 3,
                               reader->jittered);
        for (int32_t f = 0; f < config->n_forms; f++)
            if (config->is_jittered[f])
                put_form(reader, f, row + k, 1, reader->jittered, 0);
    }
}

/* Takes rows of the patch straight from the decoded tile. */
static void take_rows(void *context, int64_t row, int64_t n, const unsigned char *rgb,
                      int64_t stride)
{
    const struct reader *reader = context;
    for (int64_t k = 0; k < n && reader->resizer != NULL; k++)
        hrf_image_resizer_put(reader->resizer, rgb + k * stride);
    if (reader->resizer == NULL)
        put_rows(context, row, n, rgb, stride);
    hrf_level_check_take(reader->check, row, n, rgb, stride);
}

static enum hrf_status read_patch(struct hrf_feed *feed, struct reader *reader,
                                  const struct hrf_patch *patch, struct hrf_error *err)
{
    const struct hrf_feed_config *config = &feed->config;
    const int64_t start = hrf_clock_ns();
    int64_t decode_ns = 0;
    hrf_level_check_begin(reader->check, feed->first_row);
    if (reader->resizer != NULL)
        hrf_image_resizer_begin(reader->resizer, config->first_row, config->n_rows, put_rows,
                                reader);
    HRF_TRY(hrf_patch_reader_visit(reader->patches, patch->x, patch->y, feed->first_row,
                                   feed->n_rows, take_rows, reader, &decode_ns, err));
    HRF_TRY(hrf_plan_check_white(config->slide, config->plan, patch - config->plan->patches,
                                 reader->patches, err));
    if (!hrf_patch_reader_met_white(reader->patches))
        HRF_TRY(hrf_level_check_end(reader->check, patch->x, patch->y, err));
    for (int32_t f = 0; f < config->n_forms; f++)
        hrf_pixel_writer_end(&feed->writers[f]);
    reader->decode_ns += decode_ns;
    reader->prepare_ns += hrf_clock_ns() - start - decode_ns;
    return HRF_OK;
}

static enum hrf_status fill_claim(struct hrf_feed *feed, struct reader *reader,
                                  const struct claim *claim, struct hrf_error *err)
{
    for (int64_t i = 0; i < claim->n; i++) {
        const int64_t index = claim->first + i;
        const struct hrf_patch *patch = patch_at(feed, claim->batch, index);
        for (int32_t f = 0; f < feed->config.n_forms; f++)
            reader->images[f] = image_at(feed, claim->slot, f, index);
        HRF_TRY(read_patch(feed, reader, patch, err));
        patch_done(feed, reader->patches, patch);
    }
    return HRF_OK;
}

/* Fills the positions of a claim with tiles as they are in the file, and decodes the patch of the
 * batch that is decoded here. */
static enum hrf_status fill_tiles(struct hrf_feed *feed, struct reader *reader,
                                  const struct claim *claim, struct hrf_error *err)
{
    struct hrf_tile_batch *tiles = claim->slot->tiles;
    for (int64_t i = claim->first; i < claim->first + claim->n; i++) {
        if (i == 0) {
            reader->images[0] = tiles->witness;
            HRF_TRY(read_patch(feed, reader, patch_at(feed, claim->batch, 0), err));
            continue;
        }
        const int64_t start = hrf_clock_ns();
        HRF_TRY(hrf_tile_batches_read(&feed->tiles, tiles, (int32_t)i - 1, err));
        reader->prepare_ns += hrf_clock_ns() - start;
    }
    return HRF_OK;
}

/* Ends the feed with an error. Called with the lock. */
static void feed_fail(struct hrf_feed *feed, enum hrf_status status, const struct hrf_error *err)
{
    if (feed->status == HRF_OK) {
        feed->status = status;
        feed->error = *err;
    }
    feed->stop = true;
    pthread_cond_broadcast(&feed->space);
    pthread_cond_broadcast(&feed->ready);
}

static void reader_release(struct reader *reader)
{
    hrf_patch_reader_destroy(reader->patches);
    hrf_level_check_destroy(reader->check);
    hrf_free(reader->jittered);
    hrf_image_resizer_destroy(reader->resizer);
}

static bool is_any_jittered(const struct hrf_feed_config *config)
{
    bool is_any = false;
    for (int32_t f = 0; f < config->n_forms; f++)
        is_any |= config->is_jittered[f];
    return is_any;
}

static enum hrf_status reader_init(struct reader *reader, const struct hrf_feed_config *config,
                                   struct hrf_error *err)
{
    HRF_TRY(hrf_plan_readers_create(config->slide, config->plan, &reader->patches, &reader->check,
                                    err));
    if (is_any_jittered(config))
        reader->jittered = hrf_alloc_array((size_t)reader->feed->side, 3);
    if (config->preparation.size > 0)
        hrf_image_resizer_create(config->plan->patch_size, &config->preparation, &reader->resizer);
    return HRF_OK;
}

/* Hands a full slot to the consumer. Called with the lock. */
static void end_slot(struct hrf_feed *feed, const struct slot *slot)
{
    const int64_t n = batch_size(feed, slot->number);
    for (int64_t i = 0; i < n && slot->tiles != NULL; i++)
        patch_done(feed, feed->geometry, patch_at(feed, slot->number, i));
    if (slot->tiles != NULL)
        feed->n_read += n;
    pthread_cond_signal(&feed->ready);
}

static enum hrf_status read_patches(struct hrf_feed *feed, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(reader) reader = { .feed = feed };
    HRF_TRY(reader_init(&reader, &feed->config, err));
    struct claim claim;
    pthread_mutex_lock(&feed->lock);
    while (take_claim(feed, &claim)) {
        pthread_mutex_unlock(&feed->lock);
        HRF_TRY((claim.slot->tiles != NULL ? fill_tiles : fill_claim)(feed, &reader, &claim, err));
        pthread_mutex_lock(&feed->lock);
        feed->decode_ns += reader.decode_ns;
        feed->prepare_ns += reader.prepare_ns;
        reader.decode_ns = reader.prepare_ns = 0;
        claim.slot->filled += claim.n;
        if (claim.slot->tiles == NULL)
            feed->n_read += claim.n;
        if (claim.slot->filled == n_positions(feed, claim.slot))
            end_slot(feed, claim.slot);
    }
    pthread_mutex_unlock(&feed->lock);
    return HRF_OK;
}

static void *reader_main(void *context)
{
    struct hrf_feed *feed = context;
    struct hrf_error err = { .status = HRF_OK };
    enum hrf_status status = read_patches(feed, &err);
    if (status != HRF_OK) {
        pthread_mutex_lock(&feed->lock);
        feed_fail(feed, status, &err);
        pthread_mutex_unlock(&feed->lock);
    }
    return NULL;
}

/* True if a form lies in memory of somebody else. */
static bool is_taken(const struct hrf_feed_config *config, int32_t form)
{
    return config->memory.take != NULL && config->forms[form].raw;
}

static void release_pixels(struct hrf_feed *feed)
{
    const struct hrf_feed_config *config = &feed->config;
    for (int32_t f = 0; f < config->n_forms; f++) {
        hrf_free(feed->blocks[f]);
        for (int32_t i = 0; i < config->n_ahead && feed->slots != NULL && is_taken(config, f); i++)
            if (feed->slots[i].pixels[f] != NULL)
                config->memory.give(config->memory.context, feed->slots[i].pixels[f]);
    }
}

/* All slots of a form are one block, which is large enough for large pages (hrf_alloc_aligned()):
 * the first batches take few page faults in place of hundreds each, and whether the heap still
 * holds the memory of the feed before makes no difference. */
static enum hrf_status allocate_pixels(struct hrf_feed *feed, int32_t form, struct hrf_error *err)
{
    const struct hrf_feed_config *config = &feed->config;
    const int64_t numbers = config->batch * image_numbers(feed);
    const size_t needed = config->gives_tiles
                              ? feed->tiles.block_bytes
                              : (size_t)numbers * hrf_feed_form_bytes(&config->forms[form]);
    const size_t n_bytes = hrf_buffer_aligned(needed);
    if (!is_taken(config, form)) {
        feed->blocks[form] = hrf_alloc_aligned((size_t)config->n_ahead * n_bytes,
                                               HRF_BUFFER_ALIGNMENT);
        HRF_CHECK_MEMORY(feed->blocks[form] != NULL, err,
                         "no memory for %d batches of %lld patches", config->n_ahead,
                         (long long)config->batch);
    }
    for (int32_t i = 0; i < config->n_ahead; i++) {
        if (is_taken(config, form))
            HRF_TRY(config->memory.take(config->memory.context, needed,
                                        &feed->slots[i].pixels[form], err));
        else
            feed->slots[i].pixels[form] = (uint8_t *)feed->blocks[form] + (size_t)i * n_bytes;
    }
    return HRF_OK;
}

static enum hrf_status prepare_tiles(struct hrf_feed *feed, struct hrf_error *err)
{
    const struct hrf_feed_config *config = &feed->config;
    HRF_AUTO(hrf_level_check) check = NULL;
    HRF_TRY(hrf_plan_readers_create(config->slide, config->plan, &feed->geometry, &check, err));
    feed->tiles = (struct hrf_tile_batches){ .slide = config->slide,
                                             .reader = feed->geometry,
                                             .patches = config->plan->patches + config->first_patch,
                                             .order = feed->order,
                                             .n_patches = config->n_patches,
                                             .batch = config->batch,
                                             .side = (int32_t)feed->side,
                                             .first_row = (int32_t)feed->first_row,
                                             .n_rows = (int32_t)feed->n_rows };
    return hrf_tile_batches_init(&feed->tiles, err);
}

static enum hrf_status feed_allocate(struct hrf_feed *feed, struct hrf_error *err)
{
    const struct hrf_feed_config *config = &feed->config;
    feed->slots = hrf_calloc((size_t)config->n_ahead, sizeof feed->slots[0]);
    feed->threads = hrf_calloc((size_t)config->n_readers, sizeof feed->threads[0]);
    feed->writers = hrf_calloc((size_t)config->n_forms, sizeof feed->writers[0]);
    for (int32_t f = 0; f < config->n_forms; f++)
        hrf_pixel_writer_init(&feed->writers[f], &config->forms[f], config->mean, config->std);
    make_order(feed);
    if (config->gives_tiles)
        HRF_TRY(prepare_tiles(feed, err));
    for (int32_t i = 0; i < config->n_ahead; i++) {
        feed->slots[i].batch = i;
        feed->slots[i].number = -1;
    }
    for (int32_t f = 0; f < config->n_forms; f++)
        HRF_TRY(allocate_pixels(feed, f, err));
    return HRF_OK;
}

/* Tells the slide which patches will be read. */
static enum hrf_status announce(struct hrf_feed *feed, struct hrf_error *err)
{
    const struct hrf_feed_config *config = &feed->config;
    const struct hrf_patch *patches = config->plan->patches + config->first_patch;
    HRF_AUTO(hrf_level_check) check = NULL;
    HRF_TRY(hrf_plan_readers_create(config->slide, config->plan, &feed->announcer, &check, err));
    for (int64_t i = 0; i < config->n_patches; i++) {
        const struct hrf_patch *patch = &patches[feed->order[i]];
        HRF_TRY(hrf_patch_reader_expect(feed->announcer, patch->x, patch->y, feed->first_row,
                                        feed->n_rows, err));
    }
    return config->reads_ahead ? hrf_patch_reader_read_ahead(feed->announcer, err) : HRF_OK;
}

/* Sets the size of the images and the rows of patches that they are made of. */
static void choose_rows(struct hrf_feed *feed)
{
    struct hrf_feed_config *config = &feed->config;
    const int64_t patch = config->plan->patch_size;
    feed->side = config->preparation.size > 0 ? config->preparation.size : patch;
    if (config->n_rows == 0)
        config->n_rows = feed->side;
    assert(config->first_row >= 0 && config->first_row + config->n_rows <= feed->side);
    feed->first_row = config->first_row;
    feed->n_rows = config->n_rows;
    if (config->preparation.size == 0)
        return;
    HRF_AUTO(hrf_image_resizer) resizer = NULL;
    hrf_image_resizer_create(patch, &config->preparation, &resizer);
    hrf_image_resizer_needs(resizer, config->first_row, config->n_rows, &feed->first_row,
                            &feed->n_rows);
}

enum hrf_status hrf_feed_create(const struct hrf_feed_config *config, struct hrf_feed **out,
                                struct hrf_error *err)
{
    assert(config->n_readers >= 1 && config->batch >= 1);
    assert(config->n_ahead == 0 || (config->n_ahead >= 2 && config->n_ahead > config->n_held));
    assert(config->n_forms <= HRF_FEED_MAX_FORMS);
    assert(config->first_patch >= 0 &&
           config->first_patch + config->n_patches <= config->plan->n_patches);
    struct hrf_feed *created = hrf_calloc(1, sizeof *created);
    pthread_mutex_init(&created->lock, NULL);
    pthread_cond_init(&created->space, NULL);
    pthread_cond_init(&created->ready, NULL);
    HRF_AUTO(hrf_feed) feed = created;
    feed->config = *config;
    choose_rows(feed);
    feed->config.n_forms += config->n_forms == 0;
    feed->config.n_held += config->n_held == 0;
    if (config->n_ahead == 0)
        feed->config.n_ahead = 1 + feed->config.n_held +
                               (int32_t)(((int64_t)config->n_readers * CLAIM + config->batch - 1) /
                                         config->batch);
    feed->n_batches = config->next != NULL
                          ? INT64_MAX
                          : (config->n_patches + config->batch - 1) / config->batch;
    HRF_TRY(feed_allocate(feed, err));
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = announce(feed, &why);
    if (status != HRF_OK) /* hrf_feed_next() reports it, as it does what a reader cannot do */
        feed_fail(feed, status, &why);
    for (int32_t i = 0; i < config->n_readers; i++) {
        int native = pthread_create(&feed->threads[i], NULL, reader_main, feed);
        if (native != 0)
            return hrf_error_set_errno(err, native, "cannot start reader thread %d", i);
        feed->n_threads++;
    }
    HRF_MOVE(*out, feed);
    return HRF_OK;
}

void hrf_feed_destroy(struct hrf_feed *feed)
{
    if (feed == NULL)
        return;
    pthread_mutex_lock(&feed->lock);
    feed->stop = true;
    pthread_cond_broadcast(&feed->space);
    pthread_mutex_unlock(&feed->lock);
    for (int32_t i = 0; i < feed->n_threads; i++)
        pthread_join(feed->threads[i], NULL);
    release_pixels(feed);
    hrf_free(feed->writers);
    if (feed->announcer != NULL)
        hrf_patch_reader_expect_none(feed->announcer);
    hrf_patch_reader_destroy(feed->announcer);
    hrf_patch_reader_destroy(feed->geometry);
    pthread_cond_destroy(&feed->ready);
    pthread_cond_destroy(&feed->space);
    pthread_mutex_destroy(&feed->lock);
    hrf_free(feed->slots);
    hrf_free(feed->threads);
    hrf_free(feed->order);
    hrf_free(feed);
}

/* Frees the slot of the oldest batch that is held for the one n_ahead later. Called with the lock.
 * */
static void give_back(struct hrf_feed *feed)
{
    const int64_t batch = feed->next_batch - feed->config.n_held;
    if (batch < 0)
        return;
    struct slot *slot = &feed->slots[batch % feed->config.n_ahead];
    slot->batch = batch + feed->config.n_ahead;
    slot->number = -1;
    slot->claimed = slot->filled = 0;
    pthread_cond_broadcast(&feed->space);
}

/* Fills what a short batch leaves of its slot with zeros. */
static void clear_rest(const struct hrf_feed *feed, const struct slot *slot)
{
    const int64_t n = batch_size(feed, slot->number);
    for (int32_t f = 0; f < feed->config.n_forms && slot->tiles == NULL; f++)
        memset(image_at(feed, slot, f, n), 0,
               (size_t)(image_at(feed, slot, f, feed->config.batch) - image_at(feed, slot, f, n)));
}

/* Called with the lock. */
static bool is_full(const struct hrf_feed *feed, const struct slot *slot)
{
    return slot->batch == feed->next_batch && slot->number >= 0 &&
           slot->filled == n_positions(feed, slot);
}

enum hrf_status hrf_feed_next(struct hrf_feed *feed, struct hrf_feed_batch *batch,
                              struct hrf_error *err)
{
    *batch = (struct hrf_feed_batch){ .n = 0 };
    int64_t start = hrf_clock_ns();
    pthread_mutex_lock(&feed->lock);
    give_back(feed);
    struct slot *slot = &feed->slots[feed->next_batch % feed->config.n_ahead];
    while (feed->status == HRF_OK && feed->next_batch < feed->n_batches && !is_full(feed, slot))
        pthread_cond_wait(&feed->ready, &feed->lock);
    if (feed->status == HRF_OK && feed->next_batch < feed->n_batches) {
        *batch = (struct hrf_feed_batch){ .patches = feed->order +
                                                     slot->number * feed->config.batch,
                                          .n = batch_size(feed, slot->number),
                                          .number = slot->number };
        batch->tiles = slot->tiles;
        memcpy(batch->pixels, slot->pixels, sizeof batch->pixels);
        clear_rest(feed, slot);
        feed->next_batch++;
    }
    enum hrf_status status = feed->status;
    if (status != HRF_OK && err != NULL)
        *err = feed->error;
    feed->wait_ns += hrf_clock_ns() - start;
    pthread_mutex_unlock(&feed->lock);
    return status;
}

struct hrf_feed_times hrf_feed_times(struct hrf_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    struct hrf_feed_times times = { .decode = (double)feed->decode_ns * 1e-9,
                                    .prepare = (double)feed->prepare_ns * 1e-9,
                                    .wait = (double)feed->wait_ns * 1e-9,
                                    .n_patches = feed->n_read };
    pthread_mutex_unlock(&feed->lock);
    return times;
}
