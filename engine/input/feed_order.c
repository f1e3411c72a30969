/* feed_order.c - the order in which patches are visited (feed.h). */
#include "engine/input/feed.h"

#include <stdlib.h>

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
