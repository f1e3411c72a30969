/* slide_tiles.h - a slide as square JPEG tiles of a zoomable map.
 *
 * Zoom levels are powers of two: a pixel of a tile is a pixel of level 0 at the highest one, and
 * twice as wide at each lower one. Tiles are read by the patch reader, as a run reads patches.
 * Slides are read by children of this process (base/guard.h), each of which keeps the slides that
 * it read last open. Any number of threads may call; as many are served at once as there are
 * children.
 */
#ifndef HRF_ORCHESTRATOR_VIEW_SLIDE_TILES_H
#define HRF_ORCHESTRATOR_VIEW_SLIDE_TILES_H

#include "base/alloc.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { HRF_VIEW_TILE = 256 /* px of a side */, HRF_VIEW_READERS = 4 };

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
/* Reads tile (column, row) at `zoom` as JPEG (heap). HRF_E_USER: there is no such tile, or the
 * slide cannot be read there. */
HRF_CHECKED enum hrf_status hrf_slide_tiles_read(struct hrf_slide_tiles *tiles, const char *path,
                                                 int64_t zoom, int64_t column, int64_t row,
                                                 unsigned char **jpeg, size_t *n_bytes,
                                                 struct hrf_error *err);
#endif
