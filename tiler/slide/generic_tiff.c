/* generic_tiff.c - what OpenSlide 3.4 does wrong with TIFFs of no vendor, set right.
 *
 * Left-out tiles (offset and length 0): transparent for Aperio and Philips files, but an error
 * that sticks for generic ones (ASAP writes such). So the table of tile lengths is read once, and
 * a region that meets a left-out tile is read in pieces around it.
 *
 * Levels narrower or lower than one of their own tiles: with libtiff 4.5 they come out blank
 * unless they are JPEG. Reduced levels like that are not used; a slide like that is refused.
 */
#include "tiler/slide/slide_private.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tiffio.h>

struct level_tiles {
    int64_t tile_width, tile_height;
    int64_t columns, rows;
    unsigned char *is_missing; /* [rows][columns] true where a tile is left out; NULL: none is */
};

struct hrf_sparse {
    struct level_tiles level[HRF_SLIDE_MAX_LEVELS];
};

static _Thread_local char tiff_text[256];

static void keep_tiff_text(const char *module, const char *format, va_list args) HRF_PRINTF(2, 0);
static void keep_tiff_text(const char *module, const char *format, va_list args)
{
    (void)module;
    vsnprintf(tiff_text, sizeof tiff_text, format, args);
}

static void set_handlers(void)
{
    TIFFSetErrorHandler(keep_tiff_text);
    TIFFSetWarningHandler(NULL);
}

void hrf_tiff_take_messages(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_handlers);
    tiff_text[0] = '\0';
}

const char *hrf_tiff_message(void)
{
    return tiff_text;
}

void hrf_sparse_destroy(struct hrf_sparse *sparse)
{
    if (sparse == NULL)
        return;
    for (int i = 0; i < HRF_SLIDE_MAX_LEVELS; i++)
        hrf_free(sparse->level[i].is_missing);
    hrf_free(sparse);
}

/* OpenSlide decodes JPEG tiles itself. All other tiles are decoded by libtiff, which makes its
 * raster as small as the image and leaves OpenSlide's tile empty. */
static bool comes_out_blank(TIFF *tiff, int64_t width, int64_t height)
{
    uint32_t tile_width = 0, tile_height = 0;
    uint16_t compression = 0;
    TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &tile_width);
    TIFFGetField(tiff, TIFFTAG_TILELENGTH, &tile_height);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &compression);
    return hrf_openslide()->is_3 && compression != COMPRESSION_JPEG &&
           (width < tile_width || height < tile_height);
}

static void load_level(TIFF *tiff, struct level_tiles *tiles, int64_t width, int64_t height)
{
    uint32_t tile_width = 0, tile_height = 0, n_missing = 0;
    TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &tile_width);
    TIFFGetField(tiff, TIFFTAG_TILELENGTH, &tile_height);
    if (tile_width == 0 || tile_height == 0)
        return;
    int64_t columns = (width + tile_width - 1) / tile_width;
    int64_t rows = (height + tile_height - 1) / tile_height, n = columns * rows;
    if (n > (int64_t)TIFFNumberOfTiles(tiff))
        return;
    for (int64_t i = 0; i < n; i++)
        n_missing += TIFFGetStrileByteCount(tiff, (uint32_t)i) == 0;
    if (n_missing == 0)
        return;
    tiles->is_missing = hrf_alloc((size_t)n);
    for (int64_t i = 0; i < n; i++)
        tiles->is_missing[i] = TIFFGetStrileByteCount(tiff, (uint32_t)i) == 0;
    tiles->tile_width = tile_width;
    tiles->tile_height = tile_height;
    tiles->columns = columns;
    tiles->rows = rows;
}

/* The levels of a generic TIFF are its tiled directories, ordered by size. */
static void generic_tiff_load(TIFF *tiff, struct hrf_slide_info *info, struct hrf_sparse *sparse)
{
    do {
        uint32_t width = 0, height = 0;
        TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
        TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
        for (int32_t i = 0; TIFFIsTiled(tiff) && i < info->n_levels; i++) {
            if (info->level[i].width != width || info->level[i].height != height)
                continue;
            if (comes_out_blank(tiff, width, height))
                info->n_levels = i;
            else if (sparse->level[i].is_missing == NULL)
                load_level(tiff, &sparse->level[i], width, height);
        }
    } while (TIFFReadDirectory(tiff));
}

static bool has_missing(const struct hrf_sparse *sparse)
{
    for (int i = 0; i < HRF_SLIDE_MAX_LEVELS; i++)
        if (sparse->level[i].is_missing != NULL)
            return true;
    return false;
}

enum hrf_status hrf_generic_tiff_load(const char *path, struct hrf_slide *slide,
                                      struct hrf_error *err)
{
    struct hrf_slide_info *info = &slide->info;
    if (strcmp(info->vendor, "generic-tiff") != 0)
        return HRF_OK;
    TIFF *tiff = TIFFOpen(path, "rm");
    if (tiff == NULL)
        return HRF_OK; /* OpenSlide could open the file, so it reports what is wrong */
    slide->sparse = hrf_calloc(1, sizeof *slide->sparse);
    generic_tiff_load(tiff, info, slide->sparse);
    TIFFClose(tiff);
    if (!has_missing(slide->sparse)) {
        hrf_sparse_destroy(slide->sparse);
        slide->sparse = NULL;
    }
    if (info->n_levels < 1)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "'%s' is %lld x %lld px, smaller than one of its own tiles, which "
                             "OpenSlide %s reads as blank; store it with smaller tiles or as JPEG",
                             slide->shown, (long long)info->width, (long long)info->height,
                             hrf_openslide()->version);
    return HRF_OK;
}

/* A run of pixels in one direction inside one tile: [begin, end) of the region, and the level-0
 * coordinate to read it at, which is chosen so that no pixel of a neighbouring tile is read. */
struct run {
    int64_t tile;
    int64_t begin, end;
    int64_t at;
    bool is_short; /* the last pixel cannot be read: it repeats the one before it */
};

/* The run inside tile number `tile`; empty if the region does not meet that tile. `origin` is the
 * level pixel at which the region begins. */
static struct run run_of_tile(int64_t tile, int64_t tile_size, int64_t origin, int64_t length,
                              double downsample)
{
    int64_t first = tile * tile_size > origin ? tile * tile_size : origin;
    int64_t last = (tile + 1) * tile_size < origin + length ? (tile + 1) * tile_size
                                                            : origin + length;
    double exact = (double)first * downsample;
    struct run run = { .tile = tile, .begin = first - origin, .end = last - origin };
    run.at = (int64_t)ceil(exact - 1e-6);
    run.is_short = (double)run.at - exact >
                   1e-6; /* OpenSlide would interpolate with pixels beyond the tile */
    return run;
}

static void read_tile(const struct hrf_slide *slide, int32_t level, const struct run *x,
                      const struct run *y, int64_t width, uint32_t *piece, uint32_t *argb)
{
    int64_t w = x->end - x->begin - x->is_short, h = y->end - y->begin - y->is_short;
    if (w < 1 || h < 1)
        return;
    hrf_openslide()->read_region(slide->handle, piece, x->at, y->at, level, w, h);
    for (int64_t row = y->begin; row < y->end; row++) {
        const uint32_t *from = piece + (row - y->begin < h ? row - y->begin : h - 1) * w;
        uint32_t *to = argb + row * width + x->begin;
        memcpy(to, from, (size_t)w * sizeof *to);
        if (x->is_short)
            to[w] = to[w - 1];
    }
}

static int64_t generic_tiff_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

struct tile_range {
    int64_t left, right, top, bottom; /* [left, right) x [top, bottom) */
};

static bool meets_missing(const struct level_tiles *tiles, struct tile_range range)
{
    for (int64_t row = range.top; row < range.bottom; row++)
        for (int64_t column = range.left; column < range.right; column++)
            if (tiles->is_missing[row * tiles->columns + column])
                return true;
    return false;
}

bool hrf_sparse_read(const struct hrf_slide *slide, int32_t level, int64_t x0, int64_t y0,
                     int64_t width, int64_t height, uint32_t *argb, enum hrf_status *status)
{
    if (slide->sparse == NULL || slide->sparse->level[level].is_missing == NULL)
        return false;
    const struct level_tiles *t = &slide->sparse->level[level];
    double downsample = slide->info.level[level].downsample;
    double x = (double)x0 / downsample, y = (double)y0 / downsample;
    struct tile_range range = {
        .left = generic_tiff_clamp((int64_t)floor(x / (double)t->tile_width), 0, t->columns),
        .top = generic_tiff_clamp((int64_t)floor(y / (double)t->tile_height), 0, t->rows),
        .right = generic_tiff_clamp(
            (int64_t)ceil((ceil(x) + (double)width) / (double)t->tile_width), 0, t->columns),
        .bottom = generic_tiff_clamp(
            (int64_t)ceil((ceil(y) + (double)height) / (double)t->tile_height), 0, t->rows),
    };
    if (!meets_missing(t, range))
        return false;
    HRF_AUTO_FREE uint32_t *piece = hrf_try_alloc_array((size_t)(t->tile_width * t->tile_height),
                                                        sizeof *piece);
    *status = piece != NULL ? HRF_OK : HRF_E_NOMEM;
    memset(argb, 0, (size_t)(width * height) * sizeof *argb); /* transparent, as OpenSlide has it */
    int64_t left = llround(x), top = llround(y);
    for (int64_t row = range.top; row < range.bottom && piece != NULL; row++) {
        struct run v = run_of_tile(row, t->tile_height, top, height, downsample);
        for (int64_t column = range.left; column < range.right; column++) {
            struct run h = run_of_tile(column, t->tile_width, left, width, downsample);
            if (!t->is_missing[row * t->columns + column])
                read_tile(slide, level, &h, &v, width, piece, argb);
        }
    }
    return true;
}
