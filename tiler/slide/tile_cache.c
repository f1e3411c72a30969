/* tile_cache.c - see tile_cache.h. One mutex guards everything except the pixels: whoever loads a
 * tile owns them until it is ready, and then they do not change until it is let go. */
#include "tiler/slide/tile_cache.h"

#include <assert.h>
#include <pthread.h>

enum { N_CHAINS = 4096 };

struct hrf_tile {
    struct hrf_tile_grid grid;
    int64_t column, row;
    unsigned char *rgb;
    size_t n_bytes;
    int32_t n_users;
    bool is_ready, has_failed;
    struct hrf_tile *next;          /* of the same hash */
    struct hrf_tile *older, *newer; /* by last use; only tiles that nobody uses */
};

struct expected {
    struct hrf_tile_grid grid;
    int64_t columns, rows;
    uint32_t *left; /* [rows][columns]: patches on each tile that are not done; NULL: not counted */
};

struct hrf_tile_cache {
    pthread_mutex_t lock;
    pthread_cond_t ready;
    struct hrf_tile *chains[N_CHAINS];
    struct hrf_tile *oldest, *newest; /* that nobody uses */
    struct hrf_tile *spare;           /* let go; linked by `next`: their memory is warm */
    size_t max_bytes, n_bytes;        /* of all tiles, spare ones too */
    struct expected expected;
    struct hrf_tile_counts counts;
};

void hrf_tile_cache_create(size_t max_bytes, struct hrf_tile_cache **out)
{
    struct hrf_tile_cache *cache = hrf_calloc(1, sizeof *cache);
    cache->max_bytes = max_bytes;
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->ready, NULL);
    *out = cache;
}

static void free_tile(struct hrf_tile_cache *cache, struct hrf_tile *tile)
{
    cache->n_bytes -= tile->n_bytes;
    hrf_free(tile->rgb);
    hrf_free(tile);
}

void hrf_tile_cache_destroy(struct hrf_tile_cache *cache)
{
    if (cache == NULL)
        return;
    for (int i = 0; i < N_CHAINS; i++)
        for (struct hrf_tile *tile = cache->chains[i], *next; tile != NULL; tile = next) {
            assert(tile->n_users == 0);
            next = tile->next;
            free_tile(cache, tile);
        }
    for (struct hrf_tile *tile = cache->spare, *next; tile != NULL; tile = next) {
        next = tile->next;
        free_tile(cache, tile);
    }
    hrf_free(cache->expected.left);
    pthread_mutex_destroy(&cache->lock);
    pthread_cond_destroy(&cache->ready);
    hrf_free(cache);
}

static bool same_grid(struct hrf_tile_grid a, struct hrf_tile_grid b)
{
    return a.level == b.level && a.reduction == b.reduction;
}

static struct hrf_tile **chain_of(struct hrf_tile_cache *cache, struct hrf_tile_grid grid,
                                  int64_t column, int64_t row)
{
    uint64_t hash = (uint64_t)column * 0x9e3779b97f4a7c15u + (uint64_t)row * 0xc2b2ae3d27d4eb4fu +
                    (uint64_t)(grid.level * 8 + grid.reduction) * 0x165667b19e3779f9u;
    return &cache->chains[(hash >> 40) % N_CHAINS];
}

/* The functions from here to the public ones are called with the lock. */

static void unlink_idle(struct hrf_tile_cache *cache, struct hrf_tile *tile)
{
    *(tile->older != NULL ? &tile->older->newer : &cache->oldest) = tile->newer;
    *(tile->newer != NULL ? &tile->newer->older : &cache->newest) = tile->older;
    tile->older = tile->newer = NULL;
}

static void link_idle(struct hrf_tile_cache *cache, struct hrf_tile *tile)
{
    tile->older = cache->newest;
    tile->newer = NULL;
    *(cache->newest != NULL ? &cache->newest->newer : &cache->oldest) = tile;
    cache->newest = tile;
}

static void unlink_chain(struct hrf_tile_cache *cache, struct hrf_tile *tile)
{
    struct hrf_tile **at = chain_of(cache, tile->grid, tile->column, tile->row);
    while (*at != tile)
        at = &(*at)->next;
    *at = tile->next;
}

/* A tile that nobody uses and that is not idle-linked becomes memory for another one. */
static void let_go(struct hrf_tile_cache *cache, struct hrf_tile *tile)
{
    unlink_chain(cache, tile);
    tile->next = cache->spare;
    cache->spare = tile;
}

/* A tile whose memory can be used, or NULL: a new one is needed. */
static struct hrf_tile *take_spare(struct hrf_tile_cache *cache, size_t n_bytes)
{
    if (cache->spare == NULL && cache->oldest != NULL &&
        cache->n_bytes + n_bytes > cache->max_bytes) {
        struct hrf_tile *tile = cache->oldest;
        unlink_idle(cache, tile);
        let_go(cache, tile);
    }
    for (struct hrf_tile **at = &cache->spare; *at != NULL; at = &(*at)->next)
        if ((*at)->n_bytes == n_bytes) {
            struct hrf_tile *tile = *at;
            *at = tile->next;
            return tile;
        }
    while (cache->spare != NULL && cache->n_bytes + n_bytes > cache->max_bytes) {
        struct hrf_tile *tile = cache->spare;
        cache->spare = tile->next;
        free_tile(cache, tile);
    }
    return NULL;
}

/* A tile to be loaded by the caller; NULL: no memory. */
static struct hrf_tile *start_tile(struct hrf_tile_cache *cache, struct hrf_tile_grid grid,
                                   int64_t column, int64_t row, size_t n_bytes)
{
    struct hrf_tile *tile = take_spare(cache, n_bytes);
    if (tile == NULL) {
        tile = hrf_calloc(1, sizeof *tile);
        tile->rgb = hrf_try_alloc(n_bytes);
        if (tile->rgb == NULL) {
            hrf_free(tile);
            return NULL;
        }
        tile->n_bytes = n_bytes;
        cache->n_bytes += n_bytes;
        if ((int64_t)cache->n_bytes > cache->counts.peak_bytes)
            cache->counts.peak_bytes = (int64_t)cache->n_bytes;
    }
    struct hrf_tile **chain = chain_of(cache, grid, column, row);
    tile->grid = grid;
    tile->column = column;
    tile->row = row;
    tile->n_users = 1;
    tile->is_ready = tile->has_failed = false;
    tile->next = *chain;
    *chain = tile;
    return tile;
}

static uint32_t *expected_on(struct hrf_tile_cache *cache, struct hrf_tile_grid grid,
                             int64_t column, int64_t row)
{
    struct expected *e = &cache->expected;
    if (e->left == NULL || !same_grid(e->grid, grid))
        return NULL;
    return &e->left[row * e->columns + column];
}

/* Keeps a tile that nobody uses any more, or lets it go if it failed or no patch needs it. */
static void settle(struct hrf_tile_cache *cache, struct hrf_tile *tile)
{
    const uint32_t *left = expected_on(cache, tile->grid, tile->column, tile->row);
    if (tile->has_failed || (left != NULL && *left == 0))
        let_go(cache, tile);
    else
        link_idle(cache, tile);
}

static struct hrf_tile *tile_cache_find(struct hrf_tile_cache *cache, struct hrf_tile_grid grid,
                                        int64_t column, int64_t row)
{
    struct hrf_tile *tile = *chain_of(cache, grid, column, row);
    while (tile != NULL && (tile->column != column || tile->row != row || tile->has_failed ||
                            !same_grid(tile->grid, grid)))
        tile = tile->next;
    return tile;
}

/* Waits until the tile is loaded. */
static enum hrf_status join_tile(struct hrf_tile_cache *cache, struct hrf_tile *tile,
                                 struct hrf_error *err)
{
    if (tile->n_users++ == 0)
        unlink_idle(cache, tile);
    cache->counts.hits++;
    while (!tile->is_ready && !tile->has_failed)
        pthread_cond_wait(&cache->ready, &cache->lock);
    if (tile->is_ready)
        return HRF_OK;
    if (--tile->n_users == 0)
        settle(cache, tile);
    return hrf_error_set(err, HRF_E_AGAIN, "another thread could not load the tile");
}

static enum hrf_status load_tile(struct hrf_tile_cache *cache, struct hrf_tile *tile,
                                 hrf_tile_load *load, void *context, struct hrf_error *err)
{
    cache->counts.loads++;
    pthread_mutex_unlock(&cache->lock);
    const enum hrf_status status = load(context, tile->grid, tile->column, tile->row, tile->rgb,
                                        err);
    pthread_mutex_lock(&cache->lock);
    tile->is_ready = status == HRF_OK;
    tile->has_failed = status != HRF_OK;
    pthread_cond_broadcast(&cache->ready);
    if (status != HRF_OK && --tile->n_users == 0)
        settle(cache, tile);
    return status;
}

enum hrf_status hrf_tile_cache_get(struct hrf_tile_cache *cache, struct hrf_tile_grid grid,
                                   int64_t column, int64_t row, size_t n_bytes, hrf_tile_load *load,
                                   void *context, struct hrf_tile **out, const unsigned char **rgb,
                                   struct hrf_error *err)
{
    pthread_mutex_lock(&cache->lock);
    enum hrf_status status = HRF_E_AGAIN;
    struct hrf_tile *tile = NULL;
    while (status == HRF_E_AGAIN && (tile = tile_cache_find(cache, grid, column, row)) != NULL)
        status = join_tile(cache, tile, err); /* if the other thread failed, try it here */
    if (tile == NULL) {
        tile = start_tile(cache, grid, column, row, n_bytes);
        status = tile != NULL ? load_tile(cache, tile, load, context, err)
                              : hrf_error_set(err, HRF_E_NOMEM, "no memory for a tile of %zu bytes",
                                              n_bytes);
    }
    pthread_mutex_unlock(&cache->lock);
    if (status != HRF_OK)
        return status;
    *out = tile;
    *rgb = tile->rgb;
    return HRF_OK;
}

void hrf_tile_cache_put(struct hrf_tile_cache *cache, struct hrf_tile *tile)
{
    pthread_mutex_lock(&cache->lock);
    if (--tile->n_users == 0)
        settle(cache, tile);
    pthread_mutex_unlock(&cache->lock);
}

enum hrf_status hrf_tile_cache_expect(struct hrf_tile_cache *cache, struct hrf_tile_grid grid,
                                      int64_t columns, int64_t rows, struct hrf_tile_range range,
                                      struct hrf_error *err)
{
    struct expected *e = &cache->expected;
    pthread_mutex_lock(&cache->lock);
    if (e->left == NULL) {
        *e = (struct expected){ .grid = grid, .columns = columns, .rows = rows };
        e->left = hrf_try_calloc((size_t)(columns * rows), sizeof e->left[0]);
    }
    const bool has_memory = e->left != NULL;
    for (int64_t row = range.top; row < range.bottom && has_memory; row++)
        for (int64_t column = range.left; column < range.right; column++) {
            uint32_t *left = expected_on(cache, grid, column, row);
            if (left != NULL)
                (*left)++;
        }
    pthread_mutex_unlock(&cache->lock);
    return has_memory ? HRF_OK
                      : hrf_error_set(err, HRF_E_NOMEM, "no memory to count %lld tiles",
                                      (long long)(columns * rows));
}

void hrf_tile_cache_done(struct hrf_tile_cache *cache, struct hrf_tile_grid grid,
                         struct hrf_tile_range range)
{
    pthread_mutex_lock(&cache->lock);
    for (int64_t row = range.top; row < range.bottom; row++)
        for (int64_t column = range.left; column < range.right; column++) {
            uint32_t *left = expected_on(cache, grid, column, row);
            if (left == NULL || *left == 0 || --*left > 0)
                continue;
            struct hrf_tile *tile = tile_cache_find(cache, grid, column, row);
            if (tile != NULL && tile->n_users == 0) {
                unlink_idle(cache, tile);
                let_go(cache, tile);
            }
        }
    pthread_mutex_unlock(&cache->lock);
}

void hrf_tile_cache_expect_none(struct hrf_tile_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    hrf_free(cache->expected.left);
    cache->expected.left = NULL;
    pthread_mutex_unlock(&cache->lock);
}

struct hrf_tile_counts hrf_tile_cache_counts(struct hrf_tile_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    const struct hrf_tile_counts counts = cache->counts;
    pthread_mutex_unlock(&cache->lock);
    return counts;
}
