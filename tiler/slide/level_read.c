/* level_read.c - see level_read.h. */
#include "tiler/slide/level_read.h"

#include "base/clock.h"
#include "base/guard.h"
#include "base/min_max.h"
#include "tiler/slide/jp2k_tile.h"
#include "tiler/slide/jpeg_stream.h"
#include "tiler/slide/slide_private.h"

#include <assert.h>
#include <math.h>
#include <string.h>

bool hrf_level_has_tiles(const struct hrf_slide *slide, int32_t level, int32_t reduction)
{
    const struct hrf_level_table *table = &slide->table.level[level];
    if (table->width == 0 || reduction == 1)
        return table->width > 0 && !table->is_by_strips;
    const int32_t max = table->offsets != NULL        ? HRF_JPEG_MAX_REDUCTION
                        : table->jp2k_offsets != NULL ? HRF_JP2K_MAX_REDUCTION
                                                      : 1;
    return reduction <= max && table->tile_width % reduction == 0 &&
           table->tile_height % reduction == 0;
}

static int64_t level_read_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

void hrf_level_tile_size(const struct hrf_slide *slide, struct hrf_tile_grid grid, int64_t *width,
                         int64_t *height)
{
    const struct hrf_level_table *table = &slide->table.level[grid.level];
    *width = table->tile_width / grid.reduction;
    *height = table->tile_height / grid.reduction;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

/* Returns the tiles that the region meets. */
static struct hrf_tile_range tiles_of(const struct hrf_slide *slide,
                                      const struct hrf_level_region *region)
{
    const struct hrf_level_table *table = &slide->table.level[region->grid.level];
    int64_t width, height;
    hrf_level_tile_size(slide, region->grid, &width, &height);
    return (struct hrf_tile_range){
        .left = level_read_clamp(floor_div(region->x, width), 0, table->columns),
        .top = level_read_clamp(floor_div(region->y, height), 0, table->rows),
        .right = level_read_clamp(floor_div(region->x + region->width - 1, width) + 1, 0,
                                  table->columns),
        .bottom = level_read_clamp(floor_div(region->y + region->height - 1, height) + 1, 0,
                                   table->rows),
    };
}

/* Pixels [begin, end) of the region in one direction that lie in the tile and in the image. */
struct span {
    int64_t begin, end; /* counted from the region's corner */
    int64_t skip;       /* pixels of the tile before them */
};

static struct span span_of(int64_t tile, int64_t tile_size_px, int64_t origin, int64_t length,
                           int64_t image)
{
    const int64_t first = tile * tile_size_px;
    const int64_t edge = first + tile_size_px < image ? first + tile_size_px : image;
    struct span span = { .begin = level_read_clamp(first - origin, 0, length),
                         .end = level_read_clamp(edge - origin, 0, length) };
    span.skip = span.begin + origin - first;
    return span;
}

/* Decodes a tile by the library that reads the slide. *reason gets why it does not decode, "" if it
 * does. */
static enum hrf_status decode_tile(struct hrf_slide *slide, int32_t level, int64_t column,
                                   int64_t row, uint32_t *argb, unsigned char *rgb,
                                   char reason[256], struct hrf_error *err)
{
    const struct hrf_level_table *table = &slide->table.level[level];
    const double downsample = slide->info.level[level].downsample;
    if (slide->raster == NULL)
        return hrf_slide_read_once(slide, level,
                                   llround((double)(column * table->tile_width) * downsample),
                                   llround((double)(row * table->tile_height) * downsample),
                                   table->tile_width, table->tile_height, argb, rgb, reason, err);
    reason[0] = '\0';
    if (slide->raster->read(slide->raster, level, column, row, rgb, reason) == HRF_E_NOMEM)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for a tile of '%s'", slide->shown);
    return HRF_OK;
}

/* Reads one tile. A tile that does not decode fails the slide, or is listed and white. */
static enum hrf_status read_tile(struct hrf_slide *slide, int32_t level, int64_t column,
                                 int64_t row, uint32_t *argb, unsigned char *rgb,
                                 struct hrf_error *err)
{
    const struct hrf_level_table *table = &slide->table.level[level];
    const double downsample = slide->info.level[level].downsample;
    struct hrf_bad_tile bad;
    char reason[sizeof bad.reason];
    const int64_t x0 = llround((double)(column * table->tile_width) * downsample);
    const int64_t y0 = llround((double)(row * table->tile_height) * downsample);
    HRF_TRY(hrf_slide_check_damage(slide, err));
    HRF_TRY(decode_tile(slide, level, column, row, argb, rgb, reason, err));
    if (reason[0] == '\0')
        return HRF_OK;
    hrf_bad_tile_find(slide, level, x0, y0, table->tile_width, table->tile_height, &bad);
    memcpy(bad.reason, reason, sizeof bad.reason);
    bad.column = column;
    bad.row = row;
    if (slide->bad_policy == HRF_BAD_TILES_FAIL)
        return hrf_slide_report_damage(slide, &bad, err);
    HRF_TRY(hrf_bad_tile_add(slide, &bad, err));
    memset(rgb, 255, (size_t)(table->tile_width * table->tile_height) * 3);
    return slide->raster == NULL ? hrf_slide_reopen(slide, err) : HRF_OK;
}

/* Loads a tile by OpenSlide and reduces it by averaging: a tile that is not JPEG, or a damaged one,
 * of which OpenSlide decides what can be saved. */
static enum hrf_status load_by_openslide(struct hrf_slide *slide, struct hrf_tile_grid grid,
                                         int64_t column, int64_t row, unsigned char *rgb,
                                         struct hrf_error *err)
{
    const struct hrf_level_table *table = &slide->table.level[grid.level];
    const int64_t width = table->tile_width, height = table->tile_height, r = grid.reduction;
    const bool is_raster = slide->raster != NULL;
    HRF_AUTO_FREE uint32_t *argb = hrf_try_alloc_array(is_raster ? 1 : (size_t)(width * height),
                                                       sizeof *argb);
    HRF_AUTO_FREE unsigned char *whole = r > 1 ? hrf_try_alloc_array((size_t)(width * height), 3)
                                               : NULL;
    HRF_CHECK_MEMORY(argb != NULL && (r == 1 || whole != NULL), err, "no memory for a tile of '%s'",
                     slide->shown);
    HRF_TRY(read_tile(slide, grid.level, column, row, argb, r > 1 ? whole : rgb, err));
    for (int64_t y = 0; y < height / r && r > 1; y++)
        for (int64_t x = 0; x < width / r; x++)
            for (int64_t c = 0; c < 3; c++) {
                int64_t sum = r * r / 2;
                for (int64_t k = 0; k < r * r; k++)
                    sum += whole[((y * r + k / r) * width + x * r + k % r) * 3 + c];
                rgb[(y * (width / r) + x) * 3 + c] = (unsigned char)(sum / (r * r));
            }
    return HRF_OK;
}

/* Decodes a tile from the memory that it was read ahead into. False: it was not read ahead, or it
 * is damaged. */
static bool decode_ahead(struct hrf_slide *slide, struct hrf_tile_grid grid, int64_t tile,
                         unsigned char *rgb)
{
    const struct hrf_level_table *table = &slide->table.level[grid.level];
    const unsigned char *data = NULL;
    bool is_sound = false;
    pthread_rwlock_rdlock(&slide->ahead_lock);
    if (slide->ahead != NULL && slide->ahead_grid.level == grid.level)
        data = hrf_read_ahead_take(slide->ahead, tile);
    if (data != NULL) {
        is_sound = hrf_jpeg_tile_decode(&table->form, data, table->lengths[tile], grid.reduction,
                                        rgb);
        hrf_read_ahead_put(slide->ahead, tile);
    }
    pthread_rwlock_unlock(&slide->ahead_lock);
    return is_sound;
}

static enum hrf_status load_tile(void *context, struct hrf_tile_grid grid, int64_t column,
                                 int64_t row, unsigned char *rgb, struct hrf_error *err)
{
    struct hrf_slide *slide = context;
    const struct hrf_level_table *table = &slide->table.level[grid.level];
    HRF_GUARD_NOTE(slide->path);
    if (table->offsets != NULL &&
        (decode_ahead(slide, grid, row * table->columns + column, rgb) ||
         hrf_tile_table_decode(&slide->table, grid.level, column, row, grid.reduction, rgb)))
        return HRF_OK;
    if (table->jp2k_offsets != NULL && grid.reduction > 1 &&
        hrf_tile_table_decode_jp2k(&slide->table, grid.level, column, row, grid.reduction, rgb))
        return HRF_OK;
    return load_by_openslide(slide, grid, column, row, rgb, err);
}

static bool is_left_out(const struct hrf_level_table *table, int64_t column, int64_t row)
{
    return table->offsets != NULL && table->lengths[row * table->columns + column] == 0;
}

/* The part of a tile that lies in a region. */
struct part {
    struct hrf_tile *tile; /* held until it is put back; NULL: there is nothing of it */
    const unsigned char *pixels;
    int64_t width; /* of the tile, px */
    struct span x, y;
};

static const unsigned char *part_row(const struct part *part, int64_t v)
{
    return part->pixels + ((v - part->y.begin + part->y.skip) * part->width + part->x.skip) * 3;
}

static enum hrf_status get_part(struct hrf_slide *slide, const struct hrf_level_region *region,
                                int64_t column, int64_t row, struct part *out, bool *met_white,
                                struct hrf_error *err)
{
    const struct hrf_level_table *table = &slide->table.level[region->grid.level];
    const int64_t r = region->grid.reduction;
    int64_t height;
    struct part part = { .tile = NULL };
    hrf_level_tile_size(slide, region->grid, &part.width, &height);
    part.x = span_of(column, part.width, region->x, region->width, (table->width + r - 1) / r);
    part.y = span_of(row, height, region->y, region->height, (table->height + r - 1) / r);
    *out = part;
    if (part.x.begin >= part.x.end || part.y.begin >= part.y.end || is_left_out(table, column, row))
        return HRF_OK;
    HRF_TRY(hrf_tile_cache_get(slide->cache, region->grid, column, row,
                               (size_t)(part.width * height * 3), load_tile, slide, &part.tile,
                               &part.pixels, err));
    if (met_white != NULL && hrf_bad_tile_is_listed(slide, region->grid.level, column, row))
        *met_white = true;
    *out = part;
    return HRF_OK;
}

static void put_part(struct hrf_slide *slide, const struct part *part)
{
    if (part->tile != NULL)
        hrf_tile_cache_put(slide->cache, part->tile);
}

static enum hrf_status copy_tile(struct hrf_slide *slide, const struct hrf_level_region *region,
                                 int64_t column, int64_t row, unsigned char *rgb, bool *met_white,
                                 struct hrf_error *err)
{
    struct part part;
    HRF_TRY(get_part(slide, region, column, row, &part, met_white, err));
    for (int64_t v = part.y.begin; v < part.y.end && part.tile != NULL; v++)
        memcpy(rgb + (v * region->width + part.x.begin) * 3, part_row(&part, v),
               (size_t)(part.x.end - part.x.begin) * 3);
    put_part(slide, &part);
    return HRF_OK;
}

/* True if every pixel of the region is one of a tile. */
static bool is_covered(const struct hrf_slide *slide, const struct hrf_level_region *region,
                       struct hrf_tile_range range)
{
    const struct hrf_level_table *table = &slide->table.level[region->grid.level];
    const int64_t r = region->grid.reduction;
    if (region->x < 0 || region->y < 0 || region->x + region->width > (table->width + r - 1) / r ||
        region->y + region->height > (table->height + r - 1) / r)
        return false;
    for (int64_t row = range.top; row < range.bottom; row++)
        for (int64_t column = range.left; column < range.right; column++)
            if (is_left_out(table, column, row))
                return false;
    return true;
}

enum hrf_status hrf_level_read(struct hrf_slide *slide, const struct hrf_level_region *region,
                               unsigned char *rgb, bool *met_white, struct hrf_error *err)
{
    assert(hrf_level_has_tiles(slide, region->grid.level, region->grid.reduction));
    const struct hrf_tile_range range = tiles_of(slide, region);
    if (!is_covered(slide, region, range))
        memset(rgb, 255, (size_t)(region->width * region->height) * 3);
    HRF_TRY(hrf_slide_check_damage(slide, err));
    for (int64_t row = range.top; row < range.bottom; row++)
        for (int64_t column = range.left; column < range.right; column++)
            HRF_TRY(copy_tile(slide, region, column, row, rgb, met_white, err));
    return HRF_OK;
}

/* A region whose rows are passed to `take`. */
struct visit {
    struct hrf_slide *slide;
    const struct hrf_level_region *region;
    struct part *parts;   /* of one row of tiles */
    unsigned char *lines; /* [AT_ONCE][region->width][3] */
    hrf_take_rows *take;
    void *context;
    bool *met_white;
};
enum { AT_ONCE = 8 }; /* rows that are handed over together */

static void take_white(const struct visit *visit, int64_t begin, int64_t end)
{
    const int64_t stride = visit->region->width * 3;
    if (begin < end)
        memset(visit->lines, 255, (size_t)(AT_ONCE * stride));
    for (int64_t v = begin; v < end; v += AT_ONCE)
        visit->take(visit->context, v, hrf_min(AT_ONCE, end - v), visit->lines, stride);
}

/* Passes rows of the region that lie in one tile completely, from the tile's memory. */
static void take_tile_rows(const struct visit *visit, const struct part *part)
{
    const int64_t width = visit->region->width;
    for (int64_t v = part->y.begin; v < part->y.end; v += AT_ONCE) {
        for (int64_t next = v + AT_ONCE; next < hrf_min(v + AT_ONCE + HRF_ROWS_AHEAD, part->y.end);
             next++)
            hrf_prefetch_row(part_row(part, next), width * 3);
        visit->take(visit->context, v, hrf_min(AT_ONCE, part->y.end - v), part_row(part, v),
                    part->width * 3);
    }
}

/* Joins rows of the region from the parts of n tiles, and passes them. */
static void take_joined_rows(const struct visit *visit, int64_t n, struct span y)
{
    const int64_t stride = visit->region->width * 3;
    memset(visit->lines, 255, (size_t)(AT_ONCE * stride));
    for (int64_t first = y.begin; first < y.end; first += AT_ONCE) {
        const int64_t end = hrf_min(first + AT_ONCE, y.end);
        for (int64_t i = 0; i < n; i++) {
            const struct part *part = &visit->parts[i];
            for (int64_t v = first; v < end && part->tile != NULL; v++)
                memcpy(visit->lines + (v - first) * stride + part->x.begin * 3, part_row(part, v),
                       (size_t)(part->x.end - part->x.begin) * 3);
        }
        visit->take(visit->context, first, end - first, visit->lines, stride);
    }
}

static enum hrf_status visit_tiles(const struct visit *visit, struct hrf_tile_range range,
                                   int64_t row, int64_t *next, int64_t *decode_ns,
                                   struct hrf_error *err)
{
    const int64_t n = range.right - range.left, start = hrf_clock_ns();
    enum hrf_status status = HRF_OK;
    int64_t i = 0;
    for (; i < n && status == HRF_OK; i++)
        status = get_part(visit->slide, visit->region, range.left + i, row, &visit->parts[i],
                          visit->met_white, err);
    *decode_ns += hrf_clock_ns() - start;
    if (status == HRF_OK && n > 0) {
        const struct part *first = &visit->parts[0];
        take_white(visit, *next, first->y.begin);
        if (n == 1 && first->tile != NULL && first->x.begin == 0 &&
            first->x.end == visit->region->width)
            take_tile_rows(visit, first);
        else
            take_joined_rows(visit, n, first->y);
        *next = first->y.end;
    }
    while (--i >= 0)
        put_part(visit->slide, &visit->parts[i]);
    return status;
}

enum hrf_status hrf_level_visit(struct hrf_slide *slide, const struct hrf_level_region *region,
                                hrf_take_rows *take, void *context, int64_t *decode_ns,
                                bool *met_white, struct hrf_error *err)
{
    assert(hrf_level_has_tiles(slide, region->grid.level, region->grid.reduction));
    const struct hrf_tile_range range = tiles_of(slide, region);
    const size_t n = (size_t)(range.right - range.left);
    HRF_AUTO_FREE struct part *parts = hrf_calloc(n + 1, sizeof *parts);
    HRF_AUTO_FREE unsigned char *lines = hrf_try_alloc_array((size_t)region->width, 3 * AT_ONCE);
    HRF_CHECK_MEMORY(lines != NULL, err, "no memory for rows of '%s'", slide->shown);
    const struct visit visit = { slide, region, parts, lines, take, context, met_white };
    int64_t next = 0;
    HRF_TRY(hrf_slide_check_damage(slide, err));
    for (int64_t row = range.top; row < range.bottom; row++)
        HRF_TRY(visit_tiles(&visit, range, row, &next, decode_ns, err));
    take_white(&visit, next, region->height);
    return HRF_OK;
}

/* ---- tiles as they are in the file ---- */

const char *hrf_level_no_streams(const struct hrf_slide *slide, int32_t level)
{
    const struct hrf_level_table *table = &slide->table.level[level];
    if (table->width == 0 || table->offsets == NULL)
        return "its tiles are not JPEG tiles that can be taken from the file";
    return hrf_jpeg_form_is_plain(&table->form) ? NULL : "the tables of its JPEG tiles are unusual";
}

bool hrf_level_is_rgb(const struct hrf_slide *slide, int32_t level)
{
    return !slide->table.level[level].form.is_ycc;
}

enum hrf_status hrf_level_parts(const struct hrf_slide *slide,
                                const struct hrf_level_region *region, hrf_take_part *take,
                                void *context, struct hrf_error *err)
{
    const struct hrf_level_table *table = &slide->table.level[region->grid.level];
    const struct hrf_tile_range range = tiles_of(slide, region);
    assert(region->grid.reduction == 1 && table->offsets != NULL);
    for (int64_t row = range.top; row < range.bottom; row++)
        for (int64_t column = range.left; column < range.right; column++) {
            const struct span x = span_of(column, table->tile_width, region->x, region->width,
                                          table->width);
            const struct span y = span_of(row, table->tile_height, region->y, region->height,
                                          table->height);
            const uint32_t length = table->lengths[row * table->columns + column];
            const struct hrf_tile_part part = { .column = column,
                                                .row = row,
                                                .x = x.begin,
                                                .y = y.begin,
                                                .tile_x = x.skip,
                                                .tile_y = y.skip,
                                                .width = x.end - x.begin,
                                                .height = y.end - y.begin,
                                                .n_bytes = hrf_jpeg_stream_max(&table->form,
                                                                               length) };
            if (part.width > 0 && part.height > 0 && length > 0)
                HRF_TRY(take(context, &part, err));
        }
    return HRF_OK;
}

/* Makes a stream of a tile that was read ahead and returns its length. 0: it was not read ahead, or
 * it cannot become a stream. */
static size_t stream_ahead(struct hrf_slide *slide, int32_t level, int64_t tile, unsigned char *out)
{
    const struct hrf_level_table *table = &slide->table.level[level];
    const unsigned char *data = NULL;
    size_t n = 0;
    pthread_rwlock_rdlock(&slide->ahead_lock);
    if (slide->ahead != NULL && slide->ahead_grid.level == level)
        data = hrf_read_ahead_take(slide->ahead, tile);
    if (data != NULL) {
        n = hrf_jpeg_stream_make(&table->form, data, table->lengths[tile], out);
        hrf_read_ahead_put(slide->ahead, tile);
    }
    pthread_rwlock_unlock(&slide->ahead_lock);
    return n;
}

enum hrf_status hrf_level_tile_check(struct hrf_slide *slide, int32_t level, int64_t column,
                                     int64_t row, struct hrf_error *err)
{
    const struct hrf_level_table *table = &slide->table.level[level];
    HRF_AUTO_FREE unsigned char *rgb = hrf_try_alloc_array(
        (size_t)(table->tile_width * table->tile_height), 3);
    HRF_CHECK_MEMORY(rgb != NULL, err, "no memory for a tile of '%s'", slide->shown);
    return load_tile(slide, (struct hrf_tile_grid){ level, 1 }, column, row, rgb, err);
}

enum hrf_status hrf_level_tile_stream(struct hrf_slide *slide, int32_t level, int64_t column,
                                      int64_t row, unsigned char *out, size_t *n_bytes,
                                      struct hrf_error *err)
{
    const int64_t tile = row * slide->table.level[level].columns + column;
    HRF_TRY(hrf_slide_check_damage(slide, err));
    *n_bytes = stream_ahead(slide, level, tile, out);
    if (*n_bytes == 0)
        *n_bytes = hrf_tile_table_stream(&slide->table, level, column, row, out);
    if (*n_bytes > 0)
        return HRF_OK;
    HRF_TRY(hrf_level_tile_check(slide, level, column, row, err));
    return hrf_error_set(err, HRF_E_USER,
                         "tile %lld, %lld of level %d of '%s' can be read, but is not a plain JPEG "
                         "(baseline, one scan up to its end marker), which a GPU is given: use "
                         "engine.decode=cpu",
                         (long long)column, (long long)row, level, slide->shown);
}

/* Lists the tiles of the range to be read ahead. Called with the lock. */
static enum hrf_status list_tiles(struct hrf_slide *slide, struct hrf_tile_grid grid,
                                  struct hrf_tile_range range, struct hrf_error *err)
{
    const struct hrf_level_table *table = &slide->table.level[grid.level];
    const uint64_t end = (uint64_t)slide->table.file_bytes;
    if (slide->ahead == NULL) {
        slide->ahead_grid = grid;
        HRF_TRY(hrf_read_ahead_create(slide->table.fd, table->columns * table->rows, &slide->ahead,
                                      err));
    }
    if (slide->ahead_grid.level != grid.level)
        return HRF_OK;
    for (int64_t row = range.top; row < range.bottom; row++)
        for (int64_t column = range.left; column < range.right; column++) {
            const int64_t i = row * table->columns + column;
            if (table->offsets[i] <= end && table->lengths[i] <= end - table->offsets[i])
                hrf_read_ahead_add(slide->ahead, i, table->offsets[i], table->lengths[i]);
        }
    return HRF_OK;
}

enum hrf_status hrf_level_expect(struct hrf_slide *slide, const struct hrf_level_region *region,
                                 struct hrf_error *err)
{
    const struct hrf_level_table *table = &slide->table.level[region->grid.level];
    const struct hrf_tile_range range = tiles_of(slide, region);
    if (table->offsets != NULL) {
        pthread_rwlock_wrlock(&slide->ahead_lock);
        const enum hrf_status status = list_tiles(slide, region->grid, range, err);
        pthread_rwlock_unlock(&slide->ahead_lock);
        HRF_TRY(status);
    }
    return hrf_tile_cache_expect(slide->cache, region->grid, table->columns, table->rows, range,
                                 err);
}

enum hrf_status hrf_level_read_ahead(struct hrf_slide *slide, struct hrf_error *err)
{
    pthread_rwlock_wrlock(&slide->ahead_lock);
    const enum hrf_status status = slide->ahead != NULL ? hrf_read_ahead_start(slide->ahead, err)
                                                        : HRF_OK;
    pthread_rwlock_unlock(&slide->ahead_lock);
    return status;
}

void hrf_level_done(struct hrf_slide *slide, const struct hrf_level_region *region)
{
    hrf_tile_cache_done(slide->cache, region->grid, tiles_of(slide, region));
}

void hrf_level_expect_none(struct hrf_slide *slide)
{
    hrf_tile_cache_expect_none(slide->cache);
    pthread_rwlock_rdlock(&slide->ahead_lock);
    if (slide->ahead != NULL)
        hrf_read_ahead_stop(slide->ahead); /* whoever waits goes on, and gives the lock back */
    pthread_rwlock_unlock(&slide->ahead_lock);
    pthread_rwlock_wrlock(&slide->ahead_lock);
    hrf_read_ahead_destroy(slide->ahead);
    slide->ahead = NULL;
    pthread_rwlock_unlock(&slide->ahead_lock);
}
