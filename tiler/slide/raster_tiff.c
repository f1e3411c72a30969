/* raster_tiff.c - TIFFs of any form by libtiff's conversion to RGBA.
 *
 * A TIFF handle serves one thread at a time and one directory, so handles are kept for each level
 * and handed out. Strips are read in groups of at least 256 rows, which are the tiles of the level.
 */
#include "tiler/slide/jp2k_tile.h"
#include "tiler/slide/raster.h"
#include "tiler/slide/slide_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tiffio.h>

enum { GROUP_ROWS = 256, MAX_PAGES = 256 };
/* Smaller pages are levels if their shape is that of the first within this. */
static const double shape_slack = 0.02;

struct handle {
    TIFF *tiff;
    int32_t level; /* whose directory it is at */
    struct handle *next;
};

struct tiff_raster {
    struct hrf_raster base; /* first: callers have a pointer to it */
    char *path;
    uint64_t directory[HRF_RASTER_LEVELS];
    bool is_tiled[HRF_RASTER_LEVELS];
    uint32_t strip_rows[HRF_RASTER_LEVELS];
    bool is_jp2k[HRF_RASTER_LEVELS]; /* decoded here: libtiff does not know it */
    bool is_ycc[HRF_RASTER_LEVELS];
    pthread_mutex_t lock;
    struct handle *idle;
};

static void close_tiff_raster(struct hrf_raster *raster)
{
    struct tiff_raster *r = (struct tiff_raster *)(void *)raster;
    while (r->idle != NULL) {
        struct handle *next = r->idle->next;
        TIFFClose(r->idle->tiff);
        hrf_free(r->idle);
        r->idle = next;
    }
    pthread_mutex_destroy(&r->lock);
    hrf_free(r->path);
    hrf_free(r);
}

/* Takes a handle at the directory of the level, if there is one, else any, else a new one. */
static struct handle *take_handle(struct tiff_raster *r, int32_t level)
{
    pthread_mutex_lock(&r->lock);
    struct handle **at = &r->idle;
    while (*at != NULL && (*at)->level != level && (*at)->next != NULL)
        at = &(*at)->next;
    struct handle *handle = *at;
    if (handle != NULL)
        *at = handle->next;
    pthread_mutex_unlock(&r->lock);
    if (handle == NULL) {
        handle = hrf_calloc(1, sizeof *handle);
        handle->tiff = TIFFOpen(r->path, "rm");
        handle->level = -1;
    }
    if (handle->tiff != NULL && handle->level == level)
        return handle;
    if (handle->tiff == NULL || !TIFFSetSubDirectory(handle->tiff, r->directory[level])) {
        if (handle->tiff != NULL)
            TIFFClose(handle->tiff);
        hrf_free(handle);
        return NULL;
    }
    handle->level = level;
    return handle;
}

static void put_handle(struct tiff_raster *r, struct handle *handle)
{
    pthread_mutex_lock(&r->lock);
    handle->next = r->idle;
    r->idle = handle;
    pthread_mutex_unlock(&r->lock);
}

/* Alpha is premultiplied by libtiff: colours are put on white. */
static void put_row(const uint32_t *rgba, int64_t n, unsigned char *rgb)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t white = 255 - TIFFGetA(rgba[i]);
        rgb[3 * i] = (unsigned char)(TIFFGetR(rgba[i]) + white);
        rgb[3 * i + 1] = (unsigned char)(TIFFGetG(rgba[i]) + white);
        rgb[3 * i + 2] = (unsigned char)(TIFFGetB(rgba[i]) + white);
    }
}

/* Decodes a JPEG 2000 tile or strip from its bytes in the file. */
static bool read_jp2k(TIFF *tiff, const struct tiff_raster *r, int32_t level, uint32_t piece,
                      int64_t height, unsigned char *rgb, char reason[256])
{
    enum { MAX_BYTES = 1 << 28 };
    const struct hrf_jp2k_form form = { .width = r->base.level[level].tile_width,
                                        .height = height,
                                        .is_ycc = r->is_ycc[level] };
    const uint64_t n = TIFFGetStrileByteCount(tiff, piece);
    HRF_AUTO_FREE unsigned char *data = n > 0 && n < MAX_BYTES ? hrf_try_alloc((size_t)n) : NULL;
    if (data == NULL) {
        snprintf(reason, 256, "its data has %llu bytes", (unsigned long long)n);
        return false;
    }
    const tmsize_t got = r->is_tiled[level] ? TIFFReadRawTile(tiff, piece, data, (tmsize_t)n)
                                            : TIFFReadRawStrip(tiff, piece, data, (tmsize_t)n);
    if (got != (tmsize_t)n)
        return false;
    return hrf_jp2k_tile_decode(&form, data, (size_t)n, rgb, reason);
}

static bool read_jp2k_group(TIFF *tiff, const struct tiff_raster *r, int32_t level, int64_t column,
                            int64_t row, unsigned char *rgb, char reason[256])
{
    const int64_t width = r->base.level[level].tile_width;
    const int64_t height = r->base.level[level].height, each = r->strip_rows[level];
    const int64_t group = r->base.level[level].tile_height;
    const int64_t columns = (r->base.level[level].width + width - 1) / width;
    if (r->is_tiled[level])
        return read_jp2k(tiff, r, level, (uint32_t)(row * columns + column), group, rgb, reason);
    for (int64_t y = row * group; y < (row + 1) * group && y < height; y += each)
        if (!read_jp2k(tiff, r, level, (uint32_t)(y / each), each,
                       rgb + (y - row * group) * width * 3, reason))
            return false;
    return true;
}

static bool read_tile(TIFF *tiff, const struct tiff_raster *r, int32_t level, int64_t column,
                      int64_t row, uint32_t *rgba, unsigned char *rgb)
{
    const int64_t width = r->base.level[level].tile_width;
    const int64_t height = r->base.level[level].tile_height;
    if (!TIFFReadRGBATileExt(tiff, (uint32_t)(column * width), (uint32_t)(row * height), rgba, 1))
        return false;
    for (int64_t y = 0; y < height; y++) /* the last row comes first */
        put_row(rgba + (height - 1 - y) * width, width, rgb + y * width * 3);
    return true;
}

static bool read_strips(TIFF *tiff, const struct tiff_raster *r, int32_t level, int64_t row,
                        uint32_t *rgba, unsigned char *rgb)
{
    const int64_t width = r->base.level[level].width, height = r->base.level[level].height;
    const int64_t group = r->base.level[level].tile_height, each = r->strip_rows[level];
    for (int64_t y = row * group; y < (row + 1) * group && y < height; y += each) {
        const int64_t n = height - y < each ? height - y : each;
        if (!TIFFReadRGBAStripExt(tiff, (uint32_t)y, rgba, 1))
            return false;
        for (int64_t i = 0; i < n; i++)
            put_row(rgba + (n - 1 - i) * width, width, rgb + (y - row * group + i) * width * 3);
    }
    return true;
}

static enum hrf_status read_tiff_raster(struct hrf_raster *raster, int32_t level, int64_t column,
                                        int64_t row, unsigned char *rgb, char reason[256])
{
    struct tiff_raster *r = (struct tiff_raster *)(void *)raster;
    const int64_t rows = r->is_tiled[level] ? raster->level[level].tile_height
                                            : r->strip_rows[level];
    HRF_AUTO_FREE uint32_t *rgba = hrf_try_alloc_array(
        (size_t)(raster->level[level].tile_width * rows), sizeof *rgba);
    if (rgba == NULL)
        return HRF_E_NOMEM;
    hrf_tiff_take_messages();
    struct handle *handle = take_handle(r, level);
    bool is_read = false;
    reason[0] = '\0';
    if (handle != NULL && r->is_jp2k[level])
        is_read = read_jp2k_group(handle->tiff, r, level, column, row, rgb, reason);
    else if (handle != NULL)
        is_read = r->is_tiled[level] ? read_tile(handle->tiff, r, level, column, row, rgba, rgb)
                                     : read_strips(handle->tiff, r, level, row, rgba, rgb);
    if (handle != NULL)
        put_handle(r, handle);
    const char *text = hrf_tiff_message();
    if (!is_read && reason[0] == '\0')
        snprintf(reason, 256, "%s", text[0] != '\0' ? text : "libtiff cannot read it");
    return is_read ? HRF_OK : HRF_E_USER;
}

/* ---- opening ---- */

static enum hrf_status check_size(TIFF *tiff, int64_t width, int64_t height, int64_t tile_width,
                                  int64_t tile_height, struct hrf_error *err)
{
    if (width < 1 || height < 1 || tile_width < 1 || tile_height < 1)
        return hrf_error_set(err, HRF_E_USER, "it has no pixels");
    if (width > INT32_MAX || height > INT32_MAX || tile_width > INT32_MAX ||
        tile_height > INT32_MAX || tile_width * tile_height > HRF_RASTER_MAX_PIXELS)
        return hrf_error_set(err, HRF_E_USER,
                             "it is %lld x %lld px in pieces of %lld x %lld px; pieces of %d Mpx "
                             "are the limit: store it in tiles ('vips tiffsave --tile --pyramid')",
                             (long long)width, (long long)height, (long long)tile_width,
                             (long long)tile_height, HRF_RASTER_MAX_PIXELS >> 20);
    const int64_t n = ((width + tile_width - 1) / tile_width) *
                      ((height + tile_height - 1) / tile_height);
    const int64_t there = TIFFIsTiled(tiff) ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
    if (n > HRF_RASTER_MAX_TILES || (TIFFIsTiled(tiff) && n > there))
        return hrf_error_set(err, HRF_E_USER,
                             "it is %lld x %lld px in %lld pieces of %lld x %lld px, of which the "
                             "file has %lld",
                             (long long)width, (long long)height, (long long)n,
                             (long long)tile_width, (long long)tile_height, (long long)there);
    return HRF_OK;
}

/* Strips are grouped, but never beyond what may be decoded at once. */
static int64_t group_rows(int64_t width, int64_t height, int64_t strip_rows)
{
    int64_t rows = strip_rows;
    while (rows < GROUP_ROWS && rows < height && 2 * rows * width <= HRF_RASTER_MAX_PIXELS)
        rows += strip_rows;
    return rows < height ? rows : height;
}

/* Fails unless libtiff can convert the pixels or they are JPEG 2000. */
static enum hrf_status check_pixels(TIFF *tiff, struct tiff_raster *r, int32_t level,
                                    uint16_t compression, struct hrf_error *err)
{
    /* 33003 and 33005 are Aperio's, of YCbCr and of RGB; Bio-Formats writes RGB as 33003 (lossless)
     * and 33004 (lossy). The codestream decides between them (jp2k_tile.h). */
    enum { JP2K = 34712, APERIO_YCC = 33003, BIO_FORMATS_LOSSY = 33004, APERIO_RGB = 33005 };
    uint16_t planar = PLANARCONFIG_CONTIG, photometric = 0;
    char why[1024];
    TIFFGetFieldDefaulted(tiff, TIFFTAG_PLANARCONFIG, &planar);
    TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &photometric);
    r->is_jp2k[level] = planar == PLANARCONFIG_CONTIG &&
                        (compression == JP2K || compression == APERIO_YCC ||
                         compression == BIO_FORMATS_LOSSY || compression == APERIO_RGB);
    r->is_ycc[level] = compression == APERIO_YCC ||
                       (compression == JP2K && photometric == PHOTOMETRIC_YCBCR);
    if (r->is_jp2k[level])
        return HRF_OK;
    if (!TIFFIsCODECConfigured(compression))
        return hrf_error_set(err, HRF_E_USER,
                             "its compression, number %d, is not one that %.14s reads", compression,
                             TIFFGetVersion());
    if (!TIFFRGBAImageOK(tiff, why))
        return hrf_error_set(err, HRF_E_USER, "its pixels are not RGB or gray: %.200s", why);
    return HRF_OK;
}

/* Adds the directory that the handle is at as the next level. */
static enum hrf_status add_level(TIFF *tiff, struct tiff_raster *r, struct hrf_error *err)
{
    const int32_t i = r->base.n_levels;
    uint32_t width = 0, height = 0, tile_width = 0, tile_height = 0, strip_rows = 0;
    uint16_t orientation = ORIENTATION_TOPLEFT, compression = 0;
    TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_ORIENTATION, &orientation);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &compression);
    r->is_tiled[i] = TIFFIsTiled(tiff) != 0;
    if (r->is_tiled[i]) {
        TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &tile_width);
        TIFFGetField(tiff, TIFFTAG_TILELENGTH, &tile_height);
    } else {
        TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &strip_rows);
        strip_rows = strip_rows < height ? strip_rows : height;
        tile_width = width;
        tile_height = strip_rows;
    }
    HRF_TRY(check_size(tiff, width, height, tile_width, tile_height, err));
    HRF_TRY(check_pixels(tiff, r, i, compression, err));
    if (orientation != ORIENTATION_TOPLEFT)
        return hrf_error_set(err, HRF_E_USER,
                             "it is stored turned or mirrored (orientation %d): store it upright",
                             orientation);
    r->directory[i] = TIFFCurrentDirOffset(tiff);
    r->strip_rows[i] = strip_rows;
    r->base.level[i].width = width;
    r->base.level[i].height = height;
    r->base.level[i].tile_width = tile_width;
    r->base.level[i].tile_height = r->is_tiled[i] ? tile_height
                                                  : group_rows(width, height, strip_rows);
    r->base.n_levels++;
    return HRF_OK;
}

/* True if the directory shows the first level's picture, smaller than the last level. */
static bool is_smaller_level(TIFF *tiff, const struct tiff_raster *r)
{
    uint32_t width = 0, height = 0;
    TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
    const double w = (double)r->base.level[0].width, h = (double)r->base.level[0].height;
    const int64_t last = r->base.level[r->base.n_levels - 1].width;
    if (width < 1 || height < 1 || width >= last)
        return false;
    const double x = w / width, y = h / height;
    /* a level's sides are rounded to whole pixels */
    return fabs(x - y) <= shape_slack * x + x / width + y / height;
}

static void add_page(TIFF *tiff, struct tiff_raster *r)
{
    struct hrf_error ignored; /* a level that cannot be read is not used */
    if (r->base.n_levels < HRF_RASTER_LEVELS && is_smaller_level(tiff, r) &&
        add_level(tiff, r, &ignored) != HRF_OK)
        return;
}

/* Adds the SubIFDs of the first directory if it has any, else the pages after it. */
static void add_smaller_levels(TIFF *tiff, struct tiff_raster *r)
{
    uint16_t n = 0;
    const uint64_t *offsets = NULL;
    if (!TIFFGetField(tiff, TIFFTAG_SUBIFD, &n, &offsets) || n == 0) {
        for (int i = 0; i < MAX_PAGES && TIFFReadDirectory(tiff); i++)
            add_page(tiff, r);
        return;
    }
    n = n < MAX_PAGES ? n : MAX_PAGES;
    HRF_AUTO_FREE uint64_t *copy = hrf_alloc_array(n, sizeof *copy); /* setting one frees them */
    memcpy(copy, offsets, n * sizeof *copy);
    for (uint16_t i = 0; i < n; i++)
        if (TIFFSetSubDirectory(tiff, copy[i]))
            add_page(tiff, r);
}

static void take_texts(TIFF *tiff, struct hrf_raster *raster)
{
    const char *text = NULL;
    float x = 0, y = 0;
    uint16_t unit = RESUNIT_NONE;
    if (TIFFGetField(tiff, TIFFTAG_IMAGEDESCRIPTION, &text) && text != NULL)
        raster->description = hrf_strdup(text);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_RESOLUTIONUNIT, &unit);
    raster->unit = unit == RESUNIT_INCH ? "inch" : unit == RESUNIT_CENTIMETER ? "centimeter" : NULL;
    if (raster->unit == NULL || !TIFFGetField(tiff, TIFFTAG_XRESOLUTION, &x) ||
        !TIFFGetField(tiff, TIFFTAG_YRESOLUTION, &y))
        return;
    snprintf(raster->resolution[0], sizeof raster->resolution[0], "%.9g", (double)x);
    snprintf(raster->resolution[1], sizeof raster->resolution[1], "%.9g", (double)y);
}

static enum hrf_status open_levels(TIFF *tiff, struct tiff_raster *r, struct hrf_error *err)
{
    HRF_TRY(add_level(tiff, r, err));
    take_texts(tiff, &r->base);
    add_smaller_levels(tiff, r);
    const bool is_ome = r->base.description != NULL && strstr(r->base.description, "<OME") != NULL;
    snprintf(r->base.vendor, sizeof r->base.vendor, "%s", is_ome ? "ome-tiff" : "tiff");
    return HRF_OK;
}

enum hrf_status hrf_raster_open_tiff(const char *path, struct hrf_raster **out,
                                     struct hrf_error *err)
{
    struct tiff_raster *r = hrf_calloc(1, sizeof *r);
    r->base.close = close_tiff_raster;
    r->base.read = read_tiff_raster;
    pthread_mutex_init(&r->lock, NULL);
    HRF_AUTO(hrf_raster) raster = &r->base;
    r->path = hrf_strdup(path);
    hrf_tiff_take_messages();
    TIFF *tiff = TIFFOpen(path, "rm");
    if (tiff == NULL)
        return hrf_error_set(err, HRF_E_USER, "libtiff cannot open it: %s", hrf_tiff_message());
    const enum hrf_status status = open_levels(tiff, r, err);
    TIFFClose(tiff);
    HRF_TRY(status);
    HRF_MOVE(*out, raster);
    return HRF_OK;
}

bool hrf_raster_has_sub_levels(const char *path)
{
    uint16_t n = 0;
    const uint64_t *offsets = NULL;
    const char *text = NULL;
    hrf_tiff_take_messages();
    TIFF *tiff = TIFFOpen(path, "rm");
    if (tiff == NULL)
        return false;
    const bool has = TIFFGetField(tiff, TIFFTAG_SUBIFD, &n, &offsets) && n > 0 &&
                     TIFFGetField(tiff, TIFFTAG_IMAGEDESCRIPTION, &text) && text != NULL &&
                     strstr(text, "<OME") != NULL;
    TIFFClose(tiff);
    return has;
}
