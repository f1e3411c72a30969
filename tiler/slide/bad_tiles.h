/* bad_tiles.h - the tiles of a slide that cannot be decoded: where they are and how they are read.
 *
 * By default the first bad tile makes every later read of the slide fail.
 * hrf_slide_set_bad_tiles() lets them be read as white instead. Every bad tile is then listed, and
 * every read says whether it met one.
 */
#ifndef HRF_TILER_SLIDE_BAD_TILES_H
#define HRF_TILER_SLIDE_BAD_TILES_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hrf_slide;

enum hrf_bad_tiles { HRF_BAD_TILES_FAIL, HRF_BAD_TILES_ARE_WHITE };

/* A tile that cannot be decoded, or, if the format does not give the slide's tiles, a region that
 * cannot be read. */
struct hrf_bad_tile {
    int32_t level;
    int64_t column, row;     /* place among the level's tiles; -1: not known */
    int64_t offset, n_bytes; /* where its data is in the file; n_bytes 0: not known */
    int64_t x, y;            /* its top-left corner, level-0 px */
    char reason[256];
};

/* Call it before the first read. A slide with more than 1,000 bad tiles fails under both
 * policies. */
void hrf_slide_set_bad_tiles(struct hrf_slide *slide, enum hrf_bad_tiles policy);
/* Gives the bad tile `i` of those met so far, which are in no particular order. Returns false if
 * there are not that many. */
bool hrf_slide_bad_tile(struct hrf_slide *slide, int64_t i, struct hrf_bad_tile *out);
int64_t hrf_slide_n_bad_tiles(struct hrf_slide *slide);
/* "level 0, tile 2, 1 (bytes 1234 to 5678 of the file): Bogus marker length" */
void hrf_bad_tile_text(const struct hrf_bad_tile *tile, char *out, size_t n_out);

#endif
