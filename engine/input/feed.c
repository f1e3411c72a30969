/* feed.c - see feed.h. One mutex guards everything except the pixels: a reader owns the positions
 * that it claimed, the consumer owns the batch that it was given. */
#include "engine/input/feed.h"

#include "base/clock.h"
#include "engine/backend/kernel.h"
#include "engine/input/normalise.h"
#include "engine/input/plan_readers.h"
#include "engine/ir/number.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Patches that a reader claims at once: enough to stay on one tile, few enough to share a batch. */
enum { CLAIM = 4 };
/* Edge of the blocks in which patches are visited, px of the level that is read: one or two tiles
 * of the usual 256 or 512 px. */
enum { BLOCK_PX = 512 };

struct slot {
    void *pixels[HRF_FEED_MOST_FORMS];
    int64_t batch;   /* that it holds or will hold next, counted in the order of delivery */
    int64_t number;  /* of that batch in the visiting order; -1 = not known yet */
    int64_t claimed; /* positions claimed by readers */
    int64_t filled;  /* positions that are finished */
};

/* The normaliser's table in a narrow type. */
struct narrow_table {
    uint8_t bytes[3][256]; /* S8, U8 */
    uint16_t halves[3][256];
};

struct hrf_feed {
    struct hrf_feed_config config;
    int64_t *order;    /* [n_patches]: visiting order -> patch */
    int64_t n_batches; /* total number; INT64_MAX: not known yet */
    struct hrf_normaliser normaliser;
    struct narrow_table *tables; /* [n_forms] */
    struct slot *slots;
    pthread_t *threads;
    int32_t n_threads;
    pthread_mutex_t lock;
    pthread_cond_t space, ready;        /* readers wait for space, the consumer for a full batch */
    int64_t next_claim;                 /* batch that readers are filling */
    int64_t next_batch;                 /* batch that the consumer gets next */
    struct hrf_patch_reader *announcer; /* which announced the patches; NULL: they are not */
    int64_t n_passed; /* batches in the visiting order that were opened or that others read */
    bool stop;
    enum hrf_status status; /* the first failure */
    struct hrf_error error;
    int64_t decode_ns, prepare_ns, wait_ns;
};

struct claim {
    struct slot *slot;
    int64_t batch, first, n; /* positions [first, first + n) of the batch */
};

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
enum hrf_status hrf_feed_order(const struct hrf_tile_plan *plan, int64_t first_patch, int64_t n,
                               int64_t *out, struct hrf_error *err)
{
    const struct hrf_patch *patches = plan->patches + first_patch;
    const bool is_rows = bands_are_rows(patches, n);
    const double edge = BLOCK_PX * (plan->read_downsample >= 1 ? plan->read_downsample : 1);
    HRF_AUTO_FREE struct visit *visits = hrf_alloc_array((size_t)n + 1, sizeof *visits);
    HRF_CHECK_MEMORY(visits != NULL, err, "no memory to order %lld patches", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t column = (int64_t)(patches[i].x / edge), row = (int64_t)(patches[i].y / edge);
        visits[i] = (struct visit){ .band = is_rows ? row : column,
                                    .block = is_rows ? column : row,
                                    .index = i };
    }
    qsort(visits, (size_t)n, sizeof visits[0], compare_visits);
    for (int64_t i = 0; i < n; i++)
        out[i] = visits[i].index;
    return HRF_OK;
}

static enum hrf_status make_order(struct hrf_feed *feed, struct hrf_error *err)
{
    const struct hrf_feed_config *config = &feed->config;
    feed->order = hrf_alloc_array((size_t)config->n_patches + 1, sizeof feed->order[0]);
    HRF_CHECK_MEMORY(feed->order != NULL, err, "no memory to order %lld patches",
                     (long long)config->n_patches);
    return hrf_feed_order(config->plan, config->first_patch, config->n_patches, feed->order, err);
}

static int64_t batch_size(const struct hrf_feed *feed, int64_t batch)
{
    int64_t left = feed->config.n_patches - batch * feed->config.batch;
    return left < feed->config.batch ? left : feed->config.batch;
}

/* The patch at a position of a batch in the visiting order, and that it will not be read again. */
static const struct hrf_patch *patch_at(const struct hrf_feed *feed, int64_t batch, int64_t place)
{
    const int64_t index = feed->order[batch * feed->config.batch + place];
    return &feed->config.plan->patches[feed->config.first_patch + index];
}

static void patch_done(const struct hrf_feed *feed, const struct hrf_patch_reader *reader,
                       const struct hrf_patch *patch)
{
    hrf_patch_reader_done(reader, patch->x, patch->y, feed->config.first_row, feed->config.n_rows);
}

/* Batches that others read are not waited for by tiles. Called with the lock. */
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
            int64_t left = batch_size(feed, slot->number) - slot->claimed;
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

/* Elements of the rows of a patch that are read. */
static int64_t patch_numbers(const struct hrf_feed_config *config)
{
    return config->n_rows * config->plan->patch_size * 3;
}

/* Lays a patch out in one form. */
static void lay_out(const struct hrf_feed *feed, int32_t form, const unsigned char *rgb, void *out)
{
    const int64_t n = patch_numbers(&feed->config);
    const struct narrow_table *table = &feed->tables[form];
    uint8_t *bytes = out;
    uint16_t *halves = out;
    if (feed->config.forms[form].raw) {
        if (out != rgb)
            memcpy(out, rgb, (size_t)n);
        return;
    }
    switch (hrf_feed_form_bytes(&feed->config.forms[form])) {
    case 1:
        for (int64_t i = 0; i < n; i += 3)
            for (int c = 0; c < 3; c++)
                bytes[i + c] = table->bytes[c][rgb[i + c]];
        break;
    case 2:
        for (int64_t i = 0; i < n; i += 3)
            for (int c = 0; c < 3; c++)
                halves[i + c] = table->halves[c][rgb[i + c]];
        break;
    default:
        hrf_normalise(&feed->normaliser, rgb, n, out);
    }
}

/* Where a patch goes in a slot. */
static uint8_t *place_of(const struct hrf_feed *feed, const struct slot *slot, int32_t form,
                         int64_t place)
{
    const size_t n = (size_t)patch_numbers(&feed->config);
    return (uint8_t *)slot->pixels[form] +
           (size_t)place * n * hrf_feed_form_bytes(&feed->config.forms[form]);
}

/* The state of one reader thread. */
struct reader {
    struct hrf_patch_reader *patches;
    struct hrf_level_check *check; /* NULL: the slide has no other level to compare with */
    unsigned char *rgb;            /* one patch */
    int64_t decode_ns, prepare_ns; /* not yet added to the times of the feed */
};

static enum hrf_status fill_claim(struct hrf_feed *feed, struct reader *reader,
                                  const struct claim *claim, struct hrf_error *err)
{
    const struct hrf_feed_config *config = &feed->config;
    for (int64_t i = 0; i < claim->n; i++) {
        const int64_t place = claim->first + i;
        const struct hrf_patch *patch = patch_at(feed, claim->batch, place);
        const int64_t before = hrf_slide_white_reads();
        bool is_white = false;
        unsigned char *rgb = reader->rgb;
        for (int32_t f = 0; f < config->n_forms && rgb == reader->rgb; f++)
            if (config->forms[f].raw) /* it is read to where it stays */
                rgb = place_of(feed, claim->slot, f, place);
        HRF_TRY(hrf_patch_reader_read_rows(reader->patches, patch->x, patch->y, config->first_row,
                                           config->n_rows, rgb, &reader->decode_ns,
                                           &reader->prepare_ns, err));
        patch_done(feed, reader->patches, patch);
        int64_t start = hrf_clock_ns();
        HRF_TRY(hrf_plan_check_white(config->slide, config->plan, patch - config->plan->patches,
                                     before, &is_white, err));
        if (!is_white)
            HRF_TRY(hrf_level_check_rows(reader->check, patch->x, patch->y, config->first_row,
                                         config->n_rows, rgb, err));
        for (int32_t f = 0; f < config->n_forms; f++)
            lay_out(feed, f, rgb, place_of(feed, claim->slot, f, place));
        reader->prepare_ns += hrf_clock_ns() - start;
    }
    return HRF_OK;
}

/* Called with the lock. */
static void fail(struct hrf_feed *feed, enum hrf_status status, const struct hrf_error *err)
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
    hrf_free(reader->rgb);
}

static enum hrf_status reader_init(const struct hrf_feed *feed, struct reader *reader,
                                   struct hrf_error *err)
{
    const struct hrf_tile_plan *plan = feed->config.plan;
    HRF_TRY(
        hrf_plan_readers_create(feed->config.slide, plan, &reader->patches, &reader->check, err));
    reader->rgb = hrf_alloc_array((size_t)patch_numbers(&feed->config), 1);
    return reader->rgb != NULL ? HRF_OK
                               : hrf_error_set(err, HRF_E_NOMEM, "no memory for a patch of %lld px",
                                               (long long)plan->patch_size);
}

static enum hrf_status read_patches(struct hrf_feed *feed, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(reader) reader = { .patches = NULL };
    HRF_TRY(reader_init(feed, &reader, err));
    struct claim claim;
    pthread_mutex_lock(&feed->lock);
    while (take_claim(feed, &claim)) {
        pthread_mutex_unlock(&feed->lock);
        HRF_TRY(fill_claim(feed, &reader, &claim, err));
        pthread_mutex_lock(&feed->lock);
        feed->decode_ns += reader.decode_ns;
        feed->prepare_ns += reader.prepare_ns;
        reader.decode_ns = reader.prepare_ns = 0;
        claim.slot->filled += claim.n;
        if (claim.slot->filled == batch_size(feed, claim.batch))
            pthread_cond_signal(&feed->ready);
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
        fail(feed, status, &err);
        pthread_mutex_unlock(&feed->lock);
    }
    return NULL;
}

static enum hrf_status allocate_slot(const struct hrf_feed *feed, struct slot *slot,
                                     struct hrf_error *err)
{
    const struct hrf_feed_config *config = &feed->config;
    const size_t n = (size_t)config->batch * (size_t)patch_numbers(config);
    for (int32_t f = 0; f < config->n_forms; f++) {
        slot->pixels[f] = hrf_alloc_aligned(n * hrf_feed_form_bytes(&config->forms[f]),
                                            HRF_BUFFER_ALIGNMENT);
        HRF_CHECK_MEMORY(slot->pixels[f] != NULL, err, "no memory for %d batches of %lld patches",
                         config->n_ahead, (long long)config->batch);
    }
    return HRF_OK;
}

static enum hrf_status allocate(struct hrf_feed *feed, struct hrf_error *err)
{
    const struct hrf_feed_config *config = &feed->config;
    feed->slots = hrf_calloc((size_t)config->n_ahead, sizeof feed->slots[0]);
    feed->threads = hrf_calloc((size_t)config->n_readers, sizeof feed->threads[0]);
    feed->tables = hrf_calloc((size_t)config->n_forms, sizeof feed->tables[0]);
    HRF_CHECK_MEMORY(feed->slots != NULL && feed->threads != NULL && feed->tables != NULL, err,
                     "no memory for the patch feed");
    for (int32_t i = 0; i < config->n_ahead; i++) {
        feed->slots[i].batch = i;
        feed->slots[i].number = -1;
        HRF_TRY(allocate_slot(feed, &feed->slots[i], err));
    }
    return make_order(feed, err);
}

/* The tables of narrow types hold what the network would convert the floats to. */
static void make_table(const struct hrf_normaliser *normaliser, const struct hrf_feed_form *form,
                       struct narrow_table *table)
{
    const enum hrf_dtype type = form->type;
    for (int c = 0; c < 3; c++) {
        if (type == HRF_F16 || type == HRF_B16)
            hrf_floats_to(type, normaliser->table[c], table->halves[c], 256);
        for (int v = 0; v < 256 && (type == HRF_S8 || type == HRF_U8); v++)
            table->bytes[c][v] =
                (uint8_t)(hrf_quantize(normaliser->table[c][v], type, &form->quantization) & 0xff);
    }
}

static void make_tables(struct hrf_feed *feed)
{
    const struct hrf_feed_config *config = &feed->config;
    hrf_normaliser_init(&feed->normaliser, config->mean, config->std);
    for (int32_t f = 0; f < config->n_forms; f++)
        make_table(&feed->normaliser, &config->forms[f], &feed->tables[f]);
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
        HRF_TRY(hrf_patch_reader_expect(feed->announcer, patch->x, patch->y, config->first_row,
                                        config->n_rows, err));
    }
    return config->reads_ahead ? hrf_patch_reader_read_ahead(feed->announcer, err) : HRF_OK;
}

enum hrf_status hrf_feed_create(const struct hrf_feed_config *config, struct hrf_feed **out,
                                struct hrf_error *err)
{
    assert(config->n_readers >= 1 && config->n_ahead != 1 && config->batch >= 1);
    assert(config->n_forms <= HRF_FEED_MOST_FORMS);
    assert(config->first_patch >= 0 &&
           config->first_patch + config->n_patches <= config->plan->n_patches);
    struct hrf_feed *created = hrf_calloc(1, sizeof *created);
    HRF_CHECK_MEMORY(created != NULL, err, "no memory for the patch feed");
    pthread_mutex_init(&created->lock, NULL);
    pthread_cond_init(&created->space, NULL);
    pthread_cond_init(&created->ready, NULL);
    HRF_AUTO(hrf_feed) feed = created;
    feed->config = *config;
    if (config->n_rows == 0)
        feed->config.n_rows = config->plan->patch_size;
    feed->config.n_forms += config->n_forms == 0;
    if (config->n_ahead == 0)
        feed->config.n_ahead = 2 +
                               (int32_t)(((int64_t)config->n_readers * CLAIM + config->batch - 1) /
                                         config->batch);
    assert(config->first_row >= 0 &&
           config->first_row + feed->config.n_rows <= config->plan->patch_size);
    feed->n_batches = config->next != NULL
                          ? INT64_MAX
                          : (config->n_patches + config->batch - 1) / config->batch;
    HRF_TRY(allocate(feed, err));
    make_tables(feed);
    struct hrf_error why = { .status = HRF_OK };
    const enum hrf_status status = announce(feed, &why);
    if (status != HRF_OK) /* said by hrf_feed_next, as what a reader cannot do */
        fail(feed, status, &why);
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
    for (int32_t i = 0; feed->slots != NULL && i < feed->config.n_ahead; i++)
        for (int32_t f = 0; f < feed->config.n_forms; f++)
            hrf_free(feed->slots[i].pixels[f]);
    hrf_free(feed->tables);
    if (feed->announcer != NULL)
        hrf_patch_reader_expect_none(feed->announcer);
    hrf_patch_reader_destroy(feed->announcer);
    pthread_cond_destroy(&feed->ready);
    pthread_cond_destroy(&feed->space);
    pthread_mutex_destroy(&feed->lock);
    hrf_free(feed->slots);
    hrf_free(feed->threads);
    hrf_free(feed->order);
    hrf_free(feed);
}

/* Called with the lock. Frees the slot of the previous batch for the one n_ahead later. */
static void give_back(struct hrf_feed *feed)
{
    if (feed->next_batch == 0)
        return;
    struct slot *slot = &feed->slots[(feed->next_batch - 1) % feed->config.n_ahead];
    slot->batch = feed->next_batch - 1 + feed->config.n_ahead;
    slot->number = -1;
    slot->claimed = slot->filled = 0;
    pthread_cond_broadcast(&feed->space);
}

/* What a short batch leaves of its slot is zeros. */
static void clear_rest(const struct hrf_feed *feed, const struct slot *slot)
{
    const int64_t n = batch_size(feed, slot->number);
    for (int32_t f = 0; f < feed->config.n_forms; f++)
        memset(place_of(feed, slot, f, n), 0,
               (size_t)(place_of(feed, slot, f, feed->config.batch) - place_of(feed, slot, f, n)));
}

/* Called with the lock. */
static bool is_full(const struct hrf_feed *feed, const struct slot *slot)
{
    return slot->batch == feed->next_batch && slot->number >= 0 &&
           slot->filled == batch_size(feed, slot->number);
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
                                    .wait = (double)feed->wait_ns * 1e-9 };
    pthread_mutex_unlock(&feed->lock);
    return times;
}
