/* bad_tiles.h - tiles of a slide that do not decode: where they are, and what becomes of them.
 *
 * By default the first one fails every read of the slide from then on. A slide can instead be told
 * to give white for them (hrf_slide_set_bad_tiles). Then nothing is silent either: each is listed,
 * and a thread learns from hrf_slide_white_reads() whether a read of its own met one.
 */
#ifndef HRF_TILER_SLIDE_BAD_TILES_H
#define HRF_TILER_SLIDE_BAD_TILES_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_slide;

enum hrf_bad_tiles { HRF_BAD_TILES_FAIL, HRF_BAD_TILES_ARE_WHITE };

/* A tile, or where the format does not say its tiles, a region that cannot be read. */
struct hrf_bad_tile {
    int32_t level;
    int64_t column, row;     /* of the level's tiles; -1: not known */
    int64_t offset, n_bytes; /* of its data in the file; n_bytes 0: not known */
    int64_t x, y;            /* its corner, level-0 px */
    char reason[256];
};

/* Before the first read. A slide on which more than 1,000 tiles do not decode fails in any case. */
void hrf_slide_set_bad_tiles(struct hrf_slide *slide, enum hrf_bad_tiles policy);
/* How often this thread was given white for what does not decode, of any slide. */
int64_t hrf_slide_white_reads(void);
/* Those that were met so far, in no particular order. False: there are not that many. */
bool hrf_slide_bad_tile(struct hrf_slide *slide, int64_t i, struct hrf_bad_tile *out);
int64_t hrf_slide_n_bad_tiles(struct hrf_slide *slide);
/* "level 0, tile 2, 1 (bytes 1234 to 5678 of the file): Bogus marker length" */
void hrf_bad_tile_text(const struct hrf_bad_tile *tile, char *out, size_t n_out);

#endif
