/* tile_cache.h - decoded tiles of one slide, each decoded once for all threads that need it.
 *
 * If the patches were counted (hrf_tile_cache_expect), a tile is kept until the last patch on it is
 * done; otherwise until the memory is needed for another one, the least recently used first. Any
 * number of threads may get tiles at once; a thread waits for a tile that another thread decodes.
 */
#ifndef HRF_TILER_SLIDE_TILE_CACHE_H
#define HRF_TILER_SLIDE_TILE_CACHE_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_tile_cache; /* opaque */

/* Identifies a grid of tiles: a level, read at a reduction. */
struct hrf_tile_grid {
    int32_t level, reduction;
};
/* The tiles [left, right) x [top, bottom) of a grid. */
struct hrf_tile_range {
    int64_t left, right, top, bottom;
};

/* Decodes a tile into rgb. */
typedef enum hrf_status hrf_tile_load(void *context, struct hrf_tile_grid grid, int64_t column,
                                      int64_t row, unsigned char *rgb, struct hrf_error *err);

/* Creates a cache that keeps at most `max_bytes` of tiles that no thread is reading. */
void hrf_tile_cache_create(size_t max_bytes, struct hrf_tile_cache **out);
void hrf_tile_cache_destroy(struct hrf_tile_cache *cache);
HRF_DEFINE_AUTO(hrf_tile_cache)

struct hrf_tile; /* one tile, which stays where it is until it is put back */
/* Gets a tile and its pixels, n_bytes in *rgb, and loads it if it is not in the cache. */
HRF_CHECKED enum hrf_status hrf_tile_cache_get(struct hrf_tile_cache *cache,
                                               struct hrf_tile_grid grid, int64_t column,
                                               int64_t row, size_t n_bytes, hrf_tile_load *load,
                                               void *context, struct hrf_tile **out,
                                               const unsigned char **rgb, struct hrf_error *err);
void hrf_tile_cache_put(struct hrf_tile_cache *cache, struct hrf_tile *tile);

/* Announces a patch on every tile of the range. The first call sets the grid and its size; a later
 * one for another grid is not counted. */
HRF_CHECKED enum hrf_status hrf_tile_cache_expect(struct hrf_tile_cache *cache,
                                                  struct hrf_tile_grid grid, int64_t columns,
                                                  int64_t rows, struct hrf_tile_range range,
                                                  struct hrf_error *err);
/* One of the announced patches is done: tiles on which it was the last one are released. */
void hrf_tile_cache_done(struct hrf_tile_cache *cache, struct hrf_tile_grid grid,
                         struct hrf_tile_range range);
/* Withdraws all announcements. */
void hrf_tile_cache_expect_none(struct hrf_tile_cache *cache);

struct hrf_tile_counts {
    int64_t loads, hits; /* decoded tiles; how often a tile was in the cache already */
    int64_t peak_bytes;  /* the most memory of tiles at any time */
};
struct hrf_tile_counts hrf_tile_cache_counts(struct hrf_tile_cache *cache);

#endif
