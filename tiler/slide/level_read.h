/* level_read.h - reads regions of a level at whole pixels from a cache of decoded tiles.
 *
 * A level that is JPEG in the file may also be read at 1/2 or 1/4 of its resolution, which the
 * inverse DCT makes. That is faster than decoding all pixels and averaging them. On 57 real H&E
 * patches (JPEG of quality 80, chroma at 1/2) it differs from the averages by 0.65 (1/2) and 0.69
 * (1/4) in the mean of R, G and B, by at most 3.5 and 2.9 in 99 % of the values, and by at most 15
 * and 10 anywhere, in 255.
 */
#ifndef HRF_TILER_SLIDE_LEVEL_READ_H
#define HRF_TILER_SLIDE_LEVEL_READ_H

#include "tiler/slide/patch_reader.h"
#include "tiler/slide/slide.h"
#include "tiler/slide/tile_cache.h"

#include <stdbool.h>

/* True if hrf_level_read can read the level at 1/reduction of its resolution. */
bool hrf_level_has_tiles(const struct hrf_slide *slide, int32_t level, int32_t reduction);

/* Gets the size of a whole tile of a level that has tiles, in px of the grid. */
void hrf_level_tile_size(const struct hrf_slide *slide, struct hrf_tile_grid grid, int64_t *width,
                         int64_t *height);

/* A region of a level, in px of the grid, i.e. of the level at 1/reduction of its resolution. */
struct hrf_level_region {
    struct hrf_tile_grid grid;
    int64_t x, y, width, height;
};

/* rgb[height][width][3] of a level that has tiles. White outside the image and where tiles are left
 * out. *met_white (if not NULL) becomes true where a tile does not decode and is white
 * (bad_tiles.h). HRF_E_USER when the slide's data is damaged, as hrf_slide_read has it. */
HRF_CHECKED enum hrf_status hrf_level_read(struct hrf_slide *slide,
                                           const struct hrf_level_region *region,
                                           unsigned char *rgb, bool *met_white,
                                           struct hrf_error *err);
/* Passes the same pixels to `take` in order, up to eight rows at a time. Rows within one tile are
 * not copied. Adds the time of reading and decoding to *decode_ns. It may fail after some of the
 * rows. */
HRF_CHECKED enum hrf_status hrf_level_visit(struct hrf_slide *slide,
                                            const struct hrf_level_region *region,
                                            hrf_take_rows *take, void *context, int64_t *decode_ns,
                                            bool *met_white, struct hrf_error *err);
/* hrf_level_expect() announces that a region of that place and size will be read, hrf_level_done()
 * that it has been read: the region's tiles are kept until the last announced region on them is
 * done. */
HRF_CHECKED enum hrf_status hrf_level_expect(struct hrf_slide *slide,
                                             const struct hrf_level_region *region,
                                             struct hrf_error *err);
void hrf_level_done(struct hrf_slide *slide, const struct hrf_level_region *region);
/* Starts to read the tiles of the announced regions from the file (read_ahead.h), in the order of
 * the announcements, in which the regions will be read. */
HRF_CHECKED enum hrf_status hrf_level_read_ahead(struct hrf_slide *slide, struct hrf_error *err);
/* ---- tiles as they are in the file, for a decoder elsewhere ---- */

/* The part of a tile that lies in a region and in the image, in px. */
struct hrf_tile_part {
    int64_t column, row;    /* of the tile */
    int64_t x, y;           /* from the region's corner */
    int64_t tile_x, tile_y; /* from the tile's corner */
    int64_t width, height;
    size_t n_bytes; /* the largest stream of the tile by hrf_level_tile_stream() */
};
typedef enum hrf_status hrf_take_part(void *context, const struct hrf_tile_part *part,
                                      struct hrf_error *err);
/* Returns NULL if the level's tiles may be read as streams (jpeg_stream.h), otherwise the reason, a
 * static text: "its tiles are not JPEG". */
const char *hrf_level_no_streams(const struct hrf_slide *slide, int32_t level);
/* True if the channels of its streams are R, G and B, which a decoder must not convert. */
bool hrf_level_is_rgb(const struct hrf_slide *slide, int32_t level);
/* Passes the parts of the tiles in a region of a level with streams, row by row, without tiles that
 * the file leaves out. */
HRF_CHECKED enum hrf_status hrf_level_parts(const struct hrf_slide *slide,
                                            const struct hrf_level_region *region,
                                            hrf_take_part *take, void *context,
                                            struct hrf_error *err);
/* Reads a tile as a stream of *n_bytes into `out`, which has room for hrf_tile_part.n_bytes.
 * HRF_E_USER: it is damaged, with the text of hrf_level_read(), or it cannot become a stream. */
HRF_CHECKED enum hrf_status hrf_level_tile_stream(struct hrf_slide *slide, int32_t level,
                                                  int64_t column, int64_t row, unsigned char *out,
                                                  size_t *n_bytes, struct hrf_error *err);
/* HRF_E_USER, with the text of hrf_level_read(): the tile does not decode. */
HRF_CHECKED enum hrf_status hrf_level_tile_check(struct hrf_slide *slide, int32_t level,
                                                 int64_t column, int64_t row,
                                                 struct hrf_error *err);
/* Withdraws all announcements: no announced region will be read any more. */
void hrf_level_expect_none(struct hrf_slide *slide);

#endif
