/* bad_tiles.c - see bad_tiles.h.
 *
 * OpenSlide's errors stick to its handle, so after each the handle is opened again. Which tile of a
 * region is at fault is found by reading the tiles one by one.
 */
#include "tiler/slide/bad_tiles.h"

#include "tiler/slide/slide_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tiffio.h>

enum {
    MAX_BAD = 1000,
    MAX_TRIED = 64, /* tiles of a region that are tried one by one */
    MIN_SIDE = 128  /* px: a region of this size that cannot be read is white as a whole */
};

struct hrf_bad_list {
    struct hrf_bad_tile items[MAX_BAD];
    int64_t n;
};

void hrf_slide_set_bad_tiles(struct hrf_slide *slide, enum hrf_bad_tiles policy)
{
    slide->bad_policy = policy;
}

void hrf_bad_tile_text(const struct hrf_bad_tile *tile, char *out, size_t n_out)
{
    char place[96] = "", bytes[80] = "";
    if (tile->column >= 0)
        snprintf(place, sizeof place, ", tile %lld, %lld", (long long)tile->column,
                 (long long)tile->row);
    if (tile->n_bytes > 0)
        snprintf(bytes, sizeof bytes, " (bytes %lld to %lld of the file)", (long long)tile->offset,
                 (long long)(tile->offset + tile->n_bytes - 1));
    snprintf(out, n_out, "level %d%s%s: %s", tile->level, place, bytes, tile->reason);
}

/* ---- where the tiles of a level are ---- */

/* The directory that holds the level; NULL: the file is no TIFF, or the level is not tiled. */
static TIFF *open_level(const struct hrf_slide *slide, int32_t level)
{
    TIFF *tiff = TIFFOpen(slide->path, "rm"); /* not slide->fd: threads would share its position */
    if (tiff == NULL)
        return NULL;
    const bool is_padded = strcmp(slide->info.vendor, "philips") == 0;
    int32_t seen = 0;
    do {
        uint32_t width = 0, height = 0;
        TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
        TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
        if (!TIFFIsTiled(tiff))
            continue;
        if (is_padded ? seen++ == level
                      : width == slide->info.level[level].width &&
                            height == slide->info.level[level].height)
            return tiff;
    } while (TIFFReadDirectory(tiff));
    TIFFClose(tiff);
    return NULL;
}

/* Reads with a handle of its own. *reason gets what OpenSlide says, "" if it can read. */
static void try_read(const struct hrf_slide *slide, openslide_t **handle, int32_t level, int64_t x0,
                     int64_t y0, int64_t width, int64_t height, uint32_t *argb, char reason[256])
{
    reason[0] = '\0';
    if (*handle == NULL)
        *handle = hrf_openslide()->open(slide->path);
    if (*handle == NULL)
        return;
    hrf_openslide()->read_region(*handle, argb, x0, y0, level, width, height);
    const char *error = hrf_openslide()->error(*handle);
    if (error == NULL)
        return;
    snprintf(reason, 256, "%s", error);
    hrf_openslide()->close(*handle);
    *handle = NULL;
}

struct tile_grid {
    int64_t width, height, columns, rows; /* tiles: px, number */
};

static void take_place(TIFF *tiff, const struct tile_grid *grid, const struct hrf_slide *slide,
                       struct hrf_bad_tile *tile)
{
    const double downsample = slide->info.level[tile->level].downsample;
    uint32_t image_width = 0;
    TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &image_width);
    const int64_t pitch = ((int64_t)image_width + grid->width - 1) / grid->width;
    const int64_t index = tile->row * pitch + tile->column;
    if (index < (int64_t)TIFFNumberOfTiles(tiff)) {
        tile->offset = (int64_t)TIFFGetStrileOffset(tiff, (uint32_t)index);
        tile->n_bytes = (int64_t)TIFFGetStrileByteCount(tiff, (uint32_t)index);
    }
    tile->x = llround((double)(tile->column * grid->width) * downsample);
    tile->y = llround((double)(tile->row * grid->height) * downsample);
}

/* Looks among the tiles [left, right] x [top, bottom] for the first that cannot be read. */
static bool find_among(struct hrf_slide *slide, const struct tile_grid *grid,
                       const int64_t range[4], struct hrf_bad_tile *tile)
{
    const double downsample = slide->info.level[tile->level].downsample;
    HRF_AUTO_FREE uint32_t *argb = hrf_try_alloc_array((size_t)(grid->width * grid->height),
                                                       sizeof *argb);
    openslide_t *handle = NULL;
    bool found = range[0] == range[2] && range[1] == range[3];
    tile->column = range[0];
    tile->row = range[1];
    int64_t tried = 0;
    for (int64_t row = range[1]; row <= range[3] && !found && argb != NULL; row++)
        for (int64_t column = range[0]; column <= range[2] && !found && tried < MAX_TRIED;
             column++, tried++) {
            char reason[256];
            try_read(slide, &handle, tile->level,
                     llround((double)(column * grid->width) * downsample),
                     llround((double)(row * grid->height) * downsample), grid->width, grid->height,
                     argb, reason);
            found = reason[0] != '\0';
            tile->column = column;
            tile->row = row;
        }
    if (handle != NULL)
        hrf_openslide()->close(handle);
    return found;
}

static int64_t bad_tiles_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

void hrf_bad_tile_find(struct hrf_slide *slide, int32_t level, int64_t x0, int64_t y0,
                       int64_t width, int64_t height, struct hrf_bad_tile *out)
{
    *out = (struct hrf_bad_tile){ .level = level, .column = -1, .row = -1, .x = x0, .y = y0 };
    TIFF *tiff = open_level(slide, level);
    uint32_t tile_width = 0, tile_height = 0;
    if (tiff == NULL)
        return;
    TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &tile_width);
    TIFFGetField(tiff, TIFFTAG_TILELENGTH, &tile_height);
    if (tile_width > 0 && tile_height > 0 && tile_width <= 1 << 14 && tile_height <= 1 << 14) {
        const double downsample = slide->info.level[level].downsample;
        const struct tile_grid grid = {
            .width = tile_width,
            .height = tile_height,
            .columns = (slide->info.level[level].width + tile_width - 1) / tile_width,
            .rows = (slide->info.level[level].height + tile_height - 1) / tile_height
        };
        const int64_t x = (int64_t)floor((double)x0 / downsample + 1e-6);
        const int64_t y = (int64_t)floor((double)y0 / downsample + 1e-6);
        const int64_t range[4] = {
            bad_tiles_clamp(x / grid.width, 0, grid.columns - 1),
            bad_tiles_clamp(y / grid.height, 0, grid.rows - 1),
            bad_tiles_clamp((x + width - 1) / grid.width, 0, grid.columns - 1),
            bad_tiles_clamp((y + height - 1) / grid.height, 0, grid.rows - 1)
        };
        if (find_among(slide, &grid, range, out))
            take_place(tiff, &grid, slide, out);
        else
            out->column = out->row = -1;
    }
    TIFFClose(tiff);
}

/* ---- the list ---- */

bool hrf_slide_bad_tile(struct hrf_slide *slide, int64_t i, struct hrf_bad_tile *out)
{
    pthread_mutex_lock(&slide->lock);
    const bool is_there = slide->bad != NULL && i < slide->bad->n;
    if (is_there)
        *out = slide->bad->items[i];
    pthread_mutex_unlock(&slide->lock);
    return is_there;
}

int64_t hrf_slide_n_bad_tiles(struct hrf_slide *slide)
{
    pthread_mutex_lock(&slide->lock);
    const int64_t n = slide->bad != NULL ? slide->bad->n : 0;
    pthread_mutex_unlock(&slide->lock);
    return n;
}

static bool is_same(const struct hrf_bad_tile *a, const struct hrf_bad_tile *b)
{
    if (a->level != b->level || a->column != b->column || a->row != b->row)
        return false;
    return a->column >= 0 || (a->x == b->x && a->y == b->y);
}

bool hrf_bad_tile_is_listed(struct hrf_slide *slide, int32_t level, int64_t column, int64_t row)
{
    const struct hrf_bad_tile wanted = { .level = level, .column = column, .row = row };
    bool found = false;
    if (slide->bad_policy == HRF_BAD_TILES_FAIL)
        return false;
    pthread_mutex_lock(&slide->lock);
    for (int64_t i = 0; slide->bad != NULL && i < slide->bad->n && !found; i++)
        found = is_same(&slide->bad->items[i], &wanted);
    pthread_mutex_unlock(&slide->lock);
    return found;
}

enum hrf_status hrf_bad_tile_add(struct hrf_slide *slide, const struct hrf_bad_tile *tile,
                                 struct hrf_error *err)
{
    pthread_mutex_lock(&slide->lock);
    if (slide->bad == NULL)
        slide->bad = hrf_calloc(1, sizeof *slide->bad);
    bool is_new = true;
    for (int64_t i = 0; i < slide->bad->n && is_new; i++)
        is_new = !is_same(&slide->bad->items[i], tile);
    const bool has_room = slide->bad->n < MAX_BAD;
    if (is_new && has_room)
        slide->bad->items[slide->bad->n++] = *tile;
    pthread_mutex_unlock(&slide->lock);
    if (!is_new || has_room)
        return HRF_OK;
    char text[512];
    hrf_bad_tile_text(tile, text, sizeof text);
    return hrf_error_set(err, HRF_E_USER,
                         "slide '%s' is damaged: more than %d of its tiles do not decode, the last "
                         "at %s; copy it again",
                         slide->shown, MAX_BAD, text);
}

void hrf_bad_list_destroy(struct hrf_bad_list *list)
{
    hrf_free(list);
}

/* ---- reading around them ---- */

/* A part of a region that is read, in px of the level. */
struct part {
    int64_t x, y, width, height;
};

struct around {
    struct hrf_slide *slide;
    int32_t level;
    int64_t x0, y0;     /* of the region, level-0 px */
    int64_t width;      /* of the region, px of the level */
    uint32_t *argb;     /* scratch of the region's size */
    unsigned char *rgb; /* the region */
    unsigned char *piece;
    bool *met_white;
};

static enum hrf_status be_white(const struct around *a, const struct part *p, int64_t x, int64_t y,
                                const char *reason, struct hrf_error *err)
{
    struct hrf_bad_tile tile;
    hrf_bad_tile_find(a->slide, a->level, x, y, p->width, p->height, &tile);
    snprintf(tile.reason, sizeof tile.reason, "%s", reason);
    HRF_TRY(hrf_bad_tile_add(a->slide, &tile, err));
    if (a->met_white != NULL)
        *a->met_white = true;
    for (int64_t row = 0; row < p->height; row++)
        memset(a->rgb + ((p->y + row) * a->width + p->x) * 3, 255, (size_t)p->width * 3);
    return HRF_OK;
}

/* Parts that cannot be read are halved, along their longer side. */
static enum hrf_status read_part(const struct around *a, const struct part *p,
                                 struct hrf_error *err)
{
    const double downsample = a->slide->info.level[a->level].downsample;
    const int64_t x = a->x0 + llround((double)p->x * downsample);
    const int64_t y = a->y0 + llround((double)p->y * downsample);
    char reason[256];
    HRF_TRY(hrf_slide_read_once(a->slide, a->level, x, y, p->width, p->height, a->argb, a->piece,
                                reason, err));
    if (reason[0] == '\0') {
        for (int64_t row = 0; row < p->height; row++)
            memcpy(a->rgb + ((p->y + row) * a->width + p->x) * 3, a->piece + row * p->width * 3,
                   (size_t)p->width * 3);
        return HRF_OK;
    }
    if (p->width <= MIN_SIDE && p->height <= MIN_SIDE)
        return be_white(a, p, x, y, reason, err);
    struct part first = *p, second = *p;
    if (p->width >= p->height) {
        first.width = p->width / 2;
        second.x += first.width;
        second.width -= first.width;
    } else {
        first.height = p->height / 2;
        second.y += first.height;
        second.height -= first.height;
    }
    HRF_TRY(read_part(a, &first, err));
    return read_part(a, &second, err);
}

enum hrf_status hrf_slide_read_around(struct hrf_slide *slide, int32_t level, int64_t x0,
                                      int64_t y0, int64_t width, int64_t height, uint32_t *argb,
                                      unsigned char *rgb, bool *met_white, struct hrf_error *err)
{
    const struct part all = { 0, 0, width, height };
    HRF_AUTO_FREE unsigned char *piece = hrf_try_alloc_array((size_t)(width * height), 3);
    HRF_CHECK_MEMORY(piece != NULL, err, "no memory to read around bad tiles of '%s'",
                     slide->shown);
    const struct around a = { .slide = slide,
                              .level = level,
                              .x0 = x0,
                              .y0 = y0,
                              .width = width,
                              .argb = argb,
                              .rgb = rgb,
                              .piece = piece,
                              .met_white = met_white };
    HRF_TRY(read_part(&a, &all, err));
    return hrf_slide_reopen(slide, err);
}
