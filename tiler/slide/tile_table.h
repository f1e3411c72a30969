/* tile_table.h - where the tiles of a slide are: of the TIFFs that OpenSlide reads tile by tile.
 *
 * A level is read in tiles if its tiles lie edge to edge at whole pixels. Its JPEG tiles are then
 * taken from the file as they are; tiles of any other form are read by OpenSlide, one at a time.
 */
#ifndef HRF_TILER_SLIDE_TILE_TABLE_H
#define HRF_TILER_SLIDE_TILE_TABLE_H

#include "base/error.h"
#include "tiler/slide/jpeg_tile.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_level_table {
    int64_t width, height;           /* px; 0: this level is not read in tiles */
    int64_t tile_width, tile_height; /* px */
    int64_t columns, rows;           /* tiles */
    struct hrf_jpeg_form form;       /* of raw tiles; its tables are heap */
    uint64_t *offsets;               /* [rows][columns] in the file; NULL: OpenSlide reads them */
    uint32_t *lengths;               /* the same; 0: the tile is left out */
};

struct hrf_slide;
struct hrf_slide_info;
enum { HRF_TILE_TABLE_LEVELS = 32 }; /* as slides have at most */
struct hrf_tile_table {
    int fd; /* -1: no level has raw tiles */
    int64_t file_bytes;
    int64_t n_cut_off; /* tiles of all levels that end beyond the file */
    struct hrf_level_table level[HRF_TILE_TABLE_LEVELS];
};

/* What of the file is described by `info`. `fd` is borrowed and only read at positions; the caller
 * closes it after the table. HRF_E_NOMEM is the only failure: what the file does not say right is
 * left to OpenSlide. */
HRF_CHECKED enum hrf_status hrf_tile_table_load(const struct hrf_slide_info *info, int fd,
                                                const char *name, struct hrf_tile_table *table,
                                                struct hrf_error *err);
void hrf_tile_table_release(struct hrf_tile_table *table);

/* Reads and decodes a tile that is not left out: rgb[tile_height / r][tile_width / r][3]. False:
 * it is damaged, or beyond the end of the file. */
bool hrf_tile_table_decode(const struct hrf_tile_table *table, int32_t level, int64_t column,
                           int64_t row, int32_t reduction, unsigned char *rgb);
/* Reads such a tile as a stream (jpeg_stream.h), which has room in `out`, and returns its length;
 * 0: it does not pass, is damaged, or is beyond the end of the file. */
size_t hrf_tile_table_stream(const struct hrf_tile_table *table, int32_t level, int64_t column,
                             int64_t row, unsigned char *out);

#endif
