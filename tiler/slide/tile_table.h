/* tile_table.h - where the tiles of a slide are in its file, for TIFFs that OpenSlide reads.
 *
 * A level is read in tiles if its tiles lie edge to edge at whole pixels. JPEG tiles are then taken
 * from the file and decoded here ("raw tiles"); OpenSlide reads all others, one at a time.
 */
#ifndef HRF_TILER_SLIDE_TILE_TABLE_H
#define HRF_TILER_SLIDE_TILE_TABLE_H

#include "base/error.h"
#include "tiler/slide/jpeg_tile.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_level_table {
    int64_t width, height;           /* px; 0: this level is not read in tiles */
    bool is_by_strips;               /* whole pixels are not read in tiles, reduced ones are */
    int64_t tile_width, tile_height; /* px */
    int64_t columns, rows;           /* tiles */
    struct hrf_jpeg_form form;       /* how raw tiles are coded; its tables are heap */
    uint64_t *offsets; /* [rows][columns], offsets of the tiles in the file; NULL: OpenSlide reads
                          the level */
    uint32_t *lengths; /* [rows][columns], bytes; 0: the file leaves the tile out */
    /* Offsets and lengths of JPEG 2000 tiles, which are decoded here only at a reduction (OpenSlide
     * reads them at full resolution). NULL: the level has none. */
    uint64_t *jp2k_offsets;
    uint32_t *jp2k_lengths;
    bool is_jp2k_ycc;
};

struct hrf_slide;
struct hrf_slide_info;
enum { HRF_TILE_TABLE_LEVELS = 32 }; /* no slide has more levels */
struct hrf_tile_table {
    int fd; /* -1: no level has raw tiles */
    int64_t file_bytes;
    int64_t n_cut_off; /* tiles of all levels that end beyond the file */
    struct hrf_level_table level[HRF_TILE_TABLE_LEVELS];
};

/* Fills the table with those of the file's levels that `info` has. `fd` is borrowed and only read
 * at positions; the caller closes it after the table. HRF_E_NOMEM is the only failure: OpenSlide
 * reads the levels that the file does not describe correctly. */
HRF_CHECKED enum hrf_status hrf_tile_table_load(const struct hrf_slide_info *info, int fd,
                                                const char *name, struct hrf_tile_table *table,
                                                struct hrf_error *err);
void hrf_tile_table_release(struct hrf_tile_table *table);

/* Reads and decodes a tile that the file does not leave out into
 * rgb[tile_height / r][tile_width / r][3], where r is `reduction`. Returns false if the tile is
 * damaged or ends beyond the file. */
bool hrf_tile_table_decode(const struct hrf_tile_table *table, int32_t level, int64_t column,
                           int64_t row, int32_t reduction, unsigned char *rgb);
/* Does the same for a JPEG 2000 tile. */
bool hrf_tile_table_decode_jp2k(const struct hrf_tile_table *table, int32_t level, int64_t column,
                                int64_t row, int32_t reduction, unsigned char *rgb);
/* Reads a JPEG tile as a stream (jpeg_stream.h) into `out`, which has to be large enough for it.
 * Returns the stream's length; 0: the tile cannot be given as a stream, is damaged, or ends beyond
 * the file. */
size_t hrf_tile_table_stream(const struct hrf_tile_table *table, int32_t level, int64_t column,
                             int64_t row, unsigned char *out);

#endif
