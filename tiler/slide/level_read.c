/* level_read.c - see level_read.h. */
#include "tiler/slide/level_read.h"

#include "tiler/slide/slide_private.h"

#include <assert.h>
#include <math.h>
#include <string.h>

bool hrf_level_has_tiles(const struct hrf_slide *slide, int32_t level, int32_t reduction)
{
    const struct hrf_level_table *table = &slide->table.level[level];
    if (table->width == 0 || reduction == 1)
        return table->width > 0;
    return table->offsets != NULL && reduction <= HRF_JPEG_MAX_REDUCTION &&
           table->tile_width % reduction == 0 && table->tile_height % reduction == 0;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
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

/* The tiles that the region meets. */
static struct hrf_tile_range tiles_of(const struct hrf_slide *slide,
                                      const struct hrf_level_region *region)
{
    const struct hrf_level_table *table = &slide->table.level[region->grid.level];
    int64_t width, height;
    hrf_level_tile_size(slide, region->grid, &width, &height);
    return (struct hrf_tile_range){
        .left = clamp(floor_div(region->x, width), 0, table->columns),
        .top = clamp(floor_div(region->y, height), 0, table->rows),
        .right = clamp(floor_div(region->x + region->width - 1, width) + 1, 0, table->columns),
        .bottom = clamp(floor_div(region->y + region->height - 1, height) + 1, 0, table->rows),
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
    struct span span = { .begin = clamp(first - origin, 0, length),
                         .end = clamp(edge - origin, 0, length) };
    span.skip = span.begin + origin - first;
    return span;
}

/* *reason: why it does not decode, "" where it does. */
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

/* One tile. What does not decode fails the slide, or is listed and white. */
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

/* The pixels of a tile by OpenSlide, reduced by averaging: of tiles that are not JPEG, and of those
 * that are damaged, where it decides what can be saved. */
static enum hrf_status load_by_openslide(struct hrf_slide *slide, struct hrf_tile_grid grid,
                                         int64_t column, int64_t row, unsigned char *rgb,
                                         struct hrf_error *err)
{
    const struct hrf_level_table *table = &slide->table.level[grid.level];
    const int64_t width = table->tile_width, height = table->tile_height, r = grid.reduction;
    const bool is_raster = slide->raster != NULL;
    HRF_AUTO_FREE uint32_t *argb = hrf_alloc_array(is_raster ? 1 : (size_t)(width * height),
                                                   sizeof *argb);
    HRF_AUTO_FREE unsigned char *whole = r > 1 ? hrf_alloc_array((size_t)(width * height), 3)
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

/* A tile that was read ahead. */
static bool decode_ahead(struct hrf_slide *slide, struct hrf_tile_grid grid, int64_t tile,
                         unsigned char *rgb)
{
    const struct hrf_level_table *table = &slide->table.level[grid.level];
    HRF_AUTO_FREE unsigned char *data = NULL;
    bool is_there = false;
    pthread_rwlock_rdlock(&slide->ahead_lock);
    if (slide->ahead != NULL && slide->ahead_grid.level == grid.level)
        data = hrf_alloc(table->lengths[tile]);
    if (data != NULL)
        is_there = hrf_read_ahead_take(slide->ahead, tile, data);
    pthread_rwlock_unlock(&slide->ahead_lock);
    return is_there &&
           hrf_jpeg_tile_decode(&table->form, data, table->lengths[tile], grid.reduction, rgb);
}

static enum hrf_status load_tile(void *context, struct hrf_tile_grid grid, int64_t column,
                                 int64_t row, unsigned char *rgb, struct hrf_error *err)
{
    struct hrf_slide *slide = context;
    const struct hrf_level_table *table = &slide->table.level[grid.level];
    if (table->offsets != NULL &&
        (decode_ahead(slide, grid, row * table->columns + column, rgb) ||
         hrf_tile_table_decode(&slide->table, grid.level, column, row, grid.reduction, rgb)))
        return HRF_OK;
    return load_by_openslide(slide, grid, column, row, rgb, err);
}

static bool is_left_out(const struct hrf_level_table *table, int64_t column, int64_t row)
{
    return table->offsets != NULL && table->lengths[row * table->columns + column] == 0;
}

/* Copies the part of a tile that lies in the region. */
static enum hrf_status copy_tile(struct hrf_slide *slide, const struct hrf_level_region *region,
                                 int64_t column, int64_t row, unsigned char *rgb,
                                 struct hrf_error *err)
{
    const struct hrf_level_table *table = &slide->table.level[region->grid.level];
    const int64_t r = region->grid.reduction;
    int64_t width, height;
    hrf_level_tile_size(slide, region->grid, &width, &height);
    const struct span x = span_of(column, width, region->x, region->width,
                                  (table->width + r - 1) / r);
    const struct span y = span_of(row, height, region->y, region->height,
                                  (table->height + r - 1) / r);
    if (x.begin >= x.end || y.begin >= y.end || is_left_out(table, column, row))
        return HRF_OK;
    struct hrf_tile *tile = NULL;
    const unsigned char *pixels = NULL;
    HRF_TRY(hrf_tile_cache_get(slide->cache, region->grid, column, row,
                               (size_t)(width * height * 3), load_tile, slide, &tile, &pixels,
                               err));
    if (hrf_bad_tile_is_listed(slide, region->grid.level, column, row))
        hrf_count_white_read();
    for (int64_t v = y.begin; v < y.end; v++)
        memcpy(rgb + (v * region->width + x.begin) * 3,
               pixels + ((v - y.begin + y.skip) * width + x.skip) * 3,
               (size_t)(x.end - x.begin) * 3);
    hrf_tile_cache_put(slide->cache, tile);
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
                               unsigned char *rgb, struct hrf_error *err)
{
    assert(hrf_level_has_tiles(slide, region->grid.level, region->grid.reduction));
    const struct hrf_tile_range range = tiles_of(slide, region);
    if (!is_covered(slide, region, range))
        memset(rgb, 255, (size_t)(region->width * region->height) * 3);
    HRF_TRY(hrf_slide_check_damage(slide, err));
    for (int64_t row = range.top; row < range.bottom; row++)
        for (int64_t column = range.left; column < range.right; column++)
            HRF_TRY(copy_tile(slide, region, column, row, rgb, err));
    return HRF_OK;
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
                HRF_TRY(
                    hrf_read_ahead_add(slide->ahead, i, table->offsets[i], table->lengths[i], err));
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
