/* tile_table.c - see tile_table.h. */
#include "tiler/slide/tile_table.h"

#include "base/alloc.h"
#include "base/text.h"
#include "tiler/slide/jp2k_tile.h"
#include "tiler/slide/jpeg_stream.h"
#include "tiler/slide/slide.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <tiffio.h>
#include <unistd.h>

/* A compressed tile longer than this is not read raw: 64 MiB are 16 times the pixels of a tile of
 * 2,048 px. */
enum { MAX_TILE_BYTES = 1 << 26, MAX_TILE_SIDE = 8192 };
/* Aperio's numbers for JPEG 2000. */
enum { JP2K_YCC = 33003, JP2K_RGB = 33005 };

_Static_assert(HRF_TILE_TABLE_LEVELS == HRF_SLIDE_MAX_LEVELS, "a table has all levels of a slide");

void hrf_tile_table_release(struct hrf_tile_table *table)
{
    for (int i = 0; i < HRF_TILE_TABLE_LEVELS; i++) {
        struct hrf_level_table *level = &table->level[i];
        hrf_free(level->offsets);
        hrf_free(level->lengths);
        hrf_free(level->jp2k_offsets);
        hrf_free(level->jp2k_lengths);
        hrf_free((void *)(uintptr_t)level->form.tables);
    }
    *table = (struct hrf_tile_table){ .fd = -1 };
}

/* True if the directory is level `i` of the slide. Philips pads its levels to whole tiles. */
static bool is_level(TIFF *tiff, const struct hrf_slide_info *info, int32_t i)
{
    uint32_t width = 0, height = 0, tile_width = 0, tile_height = 0;
    TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
    TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &tile_width);
    TIFFGetField(tiff, TIFFTAG_TILELENGTH, &tile_height);
    if (tile_width < 1 || tile_height < 1 || tile_width > MAX_TILE_SIDE ||
        tile_height > MAX_TILE_SIDE)
        return false;
    if (strcmp(info->vendor, "philips") == 0)
        return width >= info->level[i].width && height >= info->level[i].height;
    return width == info->level[i].width && height == info->level[i].height;
}

/* True for the tiles that OpenSlide hands to libjpeg itself. */
static bool is_plain_jpeg(TIFF *tiff)
{
    uint16_t compression = 0, planar = 0, photometric = 0, bits = 0, samples = 0;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &compression);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_PLANARCONFIG, &planar);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &bits);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &samples);
    return compression == COMPRESSION_JPEG && planar == PLANARCONFIG_CONTIG && bits == 8 &&
           samples == 3 && TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &photometric) &&
           (photometric == PHOTOMETRIC_YCBCR || photometric == PHOTOMETRIC_RGB);
}

static enum hrf_status no_memory(const char *name, struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_NOMEM, "no memory for the table of tiles of '%s'", name);
}

static enum hrf_status take_form(TIFF *tiff, const char *name, struct hrf_level_table *level,
                                 struct hrf_error *err)
{
    uint32_t n_tables = 0;
    void *tables = NULL;
    uint16_t photometric = 0;
    TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &photometric);
    level->form = (struct hrf_jpeg_form){ .is_ycc = photometric == PHOTOMETRIC_YCBCR,
                                          .width = level->tile_width,
                                          .height = level->tile_height };
    if (!TIFFGetField(tiff, TIFFTAG_JPEGTABLES, &n_tables, &tables) || n_tables == 0)
        return HRF_OK;
    void *copy = hrf_try_alloc(n_tables);
    if (copy == NULL)
        return no_memory(name, err);
    memcpy(copy, tables, n_tables);
    level->form.tables = copy;
    level->form.n_tables = n_tables;
    return HRF_OK;
}

/* Gets the offsets and lengths of the tiles. Aperio's scanner leaves tiles out that OpenSlide makes
 * from the next finer level, so OpenSlide reads such a level. */
static enum hrf_status take_offsets(TIFF *tiff, const struct hrf_slide_info *info, const char *name,
                                    struct hrf_level_table *level, uint64_t **out_offsets,
                                    uint32_t **out_lengths, struct hrf_error *err)
{
    const int64_t n = level->columns * level->rows;
    uint32_t image_width = 0;
    TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &image_width);
    const int64_t pitch = (image_width + level->tile_width - 1) / level->tile_width;
    if (pitch * level->rows > (int64_t)TIFFNumberOfTiles(tiff))
        return HRF_OK;
    HRF_AUTO_FREE uint64_t *offsets = hrf_try_alloc_array((size_t)n, sizeof *offsets);
    HRF_AUTO_FREE uint32_t *lengths = hrf_try_alloc_array((size_t)n, sizeof *lengths);
    if (offsets == NULL || lengths == NULL)
        return no_memory(name, err);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t tile = (uint32_t)(i / level->columns * pitch + i % level->columns);
        const uint64_t length = TIFFGetStrileByteCount(tiff, tile);
        if (length > MAX_TILE_BYTES || (length == 0 && strcmp(info->vendor, "aperio") == 0))
            return HRF_OK;
        offsets[i] = TIFFGetStrileOffset(tiff, tile);
        lengths[i] = (uint32_t)length;
    }
    HRF_MOVE(*out_offsets, offsets);
    HRF_MOVE(*out_lengths, lengths);
    return HRF_OK;
}

/* Counts the tiles, of any form, whose bytes end beyond the end of the file. */
static int64_t count_cut_off(TIFF *tiff, int64_t file_bytes)
{
    int64_t n = 0;
    const uint64_t end = (uint64_t)file_bytes;
    for (uint32_t i = 0; i < TIFFNumberOfTiles(tiff); i++) {
        const uint64_t length = TIFFGetStrileByteCount(tiff, i);
        n += length > 0 && (length > end || TIFFGetStrileOffset(tiff, i) > end - length);
    }
    return n;
}

static enum hrf_status take_level(TIFF *tiff, const struct hrf_slide_info *info, int32_t i,
                                  const char *name, struct hrf_level_table *level,
                                  struct hrf_error *err)
{
    uint32_t tile_width = 0, tile_height = 0;
    TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &tile_width);
    TIFFGetField(tiff, TIFFTAG_TILELENGTH, &tile_height);
    level->width = info->level[i].width;
    level->height = info->level[i].height;
    level->tile_width = tile_width;
    level->tile_height = tile_height;
    level->columns = (level->width + tile_width - 1) / tile_width;
    level->rows = (level->height + tile_height - 1) / tile_height;
    uint16_t compression = 0;
    TIFFGetField(tiff, TIFFTAG_COMPRESSION, &compression);
    if (is_plain_jpeg(tiff)) {
        HRF_TRY(take_form(tiff, name, level, err));
        HRF_TRY(take_offsets(tiff, info, name, level, &level->offsets, &level->lengths, err));
    } else if (compression == JP2K_YCC || compression == JP2K_RGB) {
        level->is_jp2k_ycc = compression == JP2K_YCC;
        HRF_TRY(
            take_offsets(tiff, info, name, level, &level->jp2k_offsets, &level->jp2k_lengths, err));
    }
    /* OpenSlide reads whole pixels only where each is a whole number of level 0's */
    const double downsample = info->level[i].downsample;
    level->is_by_strips = level->offsets == NULL && downsample != (double)(int64_t)downsample;
    if (level->is_by_strips && level->jp2k_offsets == NULL)
        level->width = 0;
    return HRF_OK;
}

/* Levels are in the order of the directories, except that generic TIFFs are ordered by width. */
static enum hrf_status take_levels(TIFF *tiff, const struct hrf_slide_info *info, const char *name,
                                   struct hrf_tile_table *table, struct hrf_error *err)
{
    const bool is_ordered = strcmp(info->vendor, "generic-tiff") != 0;
    int32_t next = 0;
    do {
        if (!TIFFIsTiled(tiff))
            continue;
        int32_t i = next;
        while (!is_ordered && i < info->n_levels && !is_level(tiff, info, i))
            i++;
        if (i >= info->n_levels || !is_level(tiff, info, i))
            continue;
        if (table->level[i].width == 0)
            HRF_TRY(take_level(tiff, info, i, name, &table->level[i], err));
        table->n_cut_off += count_cut_off(tiff, table->file_bytes);
        next += is_ordered;
    } while (TIFFReadDirectory(tiff));
    return HRF_OK;
}

static bool is_known(const struct hrf_slide_info *info)
{
    static const char *const vendors[] = { "aperio", "generic-tiff", "philips" };
    return hrf_text_is_among(info->vendor, vendors, sizeof vendors / sizeof vendors[0]);
}

enum hrf_status hrf_tile_table_load(const struct hrf_slide_info *info, int fd, const char *name,
                                    struct hrf_tile_table *table, struct hrf_error *err)
{
    struct stat st;
    *table = (struct hrf_tile_table){ .fd = -1 };
    if (!is_known(info) || fstat(fd, &st) != 0)
        return HRF_OK;
    const int own = dup(fd); /* TIFFClose closes it */
    if (own < 0)
        return HRF_OK;
    TIFF *tiff = TIFFFdOpen(own, name, "rm");
    if (tiff == NULL) {
        close(own);
        return HRF_OK;
    }
    table->file_bytes = st.st_size;
    const enum hrf_status status = take_levels(tiff, info, name, table, err);
    TIFFClose(tiff);
    if (status != HRF_OK)
        hrf_tile_table_release(table);
    else
        table->fd = fd;
    return status;
}

static bool read_at(int fd, unsigned char *out, size_t n, uint64_t offset)
{
    for (size_t done = 0; done < n;) {
        const ssize_t got = pread(fd, out + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

/* Reads the bytes of a tile (heap). NULL: they cannot be read. */
static unsigned char *read_tile(const struct hrf_tile_table *table, uint64_t offset, size_t length)
{
    const uint64_t end = (uint64_t)table->file_bytes;
    if (offset > end || length > end - offset)
        return NULL;
    unsigned char *data = hrf_try_alloc(length);
    if (data != NULL && read_at(table->fd, data, length, offset))
        return data;
    hrf_free(data);
    return NULL;
}

bool hrf_tile_table_decode(const struct hrf_tile_table *table, int32_t level, int64_t column,
                           int64_t row, int32_t reduction, unsigned char *rgb)
{
    const struct hrf_level_table *t = &table->level[level];
    const int64_t i = row * t->columns + column;
    HRF_AUTO_FREE unsigned char *data = read_tile(table, t->offsets[i], t->lengths[i]);
    return data != NULL && hrf_jpeg_tile_decode(&t->form, data, t->lengths[i], reduction, rgb);
}

bool hrf_tile_table_decode_jp2k(const struct hrf_tile_table *table, int32_t level, int64_t column,
                                int64_t row, int32_t reduction, unsigned char *rgb)
{
    const struct hrf_level_table *t = &table->level[level];
    const int64_t i = row * t->columns + column;
    HRF_AUTO_FREE unsigned char *data = read_tile(table, t->jp2k_offsets[i], t->jp2k_lengths[i]);
    const struct hrf_jp2k_form form = { .width = t->tile_width,
                                        .height = t->tile_height,
                                        .reduction = reduction,
                                        .is_ycc = t->is_jp2k_ycc };
    char reason[256];
    return data != NULL && hrf_jp2k_tile_decode(&form, data, t->jp2k_lengths[i], rgb, reason);
}

size_t hrf_tile_table_stream(const struct hrf_tile_table *table, int32_t level, int64_t column,
                             int64_t row, unsigned char *out)
{
    const struct hrf_level_table *t = &table->level[level];
    const int64_t i = row * t->columns + column;
    HRF_AUTO_FREE unsigned char *data = read_tile(table, t->offsets[i], t->lengths[i]);
    return data != NULL ? hrf_jpeg_stream_make(&t->form, data, t->lengths[i], out) : 0;
}
