/* slide_tiles.h - a slide as square tiles of a zoomable map, JPEG.
 *
 * Zoom levels are powers of two: at the highest one a pixel of a tile is one of level 0, at each
 * lower one it is twice as wide. Tiles are read through the patch reader, as a run reads patches.
 * The slides that were used last stay open. Any number of threads may call.
 */
#ifndef HRF_ORCHESTRATOR_VIEW_SLIDE_TILES_H
#define HRF_ORCHESTRATOR_VIEW_SLIDE_TILES_H

#include "base/alloc.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { HRF_VIEW_TILE = 256 }; /* px of a side */

struct hrf_slide_tiles; /* opaque */

HRF_CHECKED enum hrf_status hrf_slide_tiles_create(struct hrf_slide_tiles **out,
                                                   struct hrf_error *err);
void hrf_slide_tiles_destroy(struct hrf_slide_tiles *tiles);
HRF_DEFINE_AUTO(hrf_slide_tiles)

struct hrf_zoom_range {
    int64_t width, height; /* px at level 0 */
    int highest, lowest;   /* the lowest is limited by how far the smallest level is reduced */
};
HRF_CHECKED enum hrf_status hrf_slide_tiles_range(struct hrf_slide_tiles *tiles, const char *path,
                                                  struct hrf_zoom_range *out,
                                                  struct hrf_error *err);
/* Tile (column, row) at `zoom`, heap. HRF_E_USER: there is no such tile, or the slide cannot be
 * read there. */
HRF_CHECKED enum hrf_status hrf_slide_tiles_read(struct hrf_slide_tiles *tiles, const char *path,
                                                 int64_t zoom, int64_t column, int64_t row,
                                                 unsigned char **jpeg, size_t *n_bytes,
                                                 struct hrf_error *err);
#endif
