/* patch_reader.c - reads patches from the best level of a slide and resamples them. */
#include "tiler/slide/patch_reader.h"

#include "base/clock.h"
#include "base/min_max.h"
#include "tiler/slide/level_read.h"
#include "tiler/slide/resample.h"
#include "tiler/slide/slide_private.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* A level that is up to 2 % coarser than requested is used: 0.499 um/px for 0.5, 2.0005 for 2. */
static const double level_slack = 1.02;

enum {
    MAX_REDUCTION = 64,
    MAX_TILE_REDUCTION = 8,
    STRIP_PIXELS =
        1 << 20 /* pixels of the level that are read at once: 4 MiB of ARGB and 3 MiB of RGB */
};

struct hrf_patch_reader {
    struct hrf_slide *slide;
    int32_t level;
    int32_t reduction; /* the level is read at 1/reduction of its resolution */
    double downsample; /* level-0 px per px that is read */
    bool has_tiles;    /* else read by OpenSlide */
    int64_t size;
    bool is_copy;                  /* nothing is resampled */
    bool met_white;                /* in the rows that were read last */
    double centring_x, centring_y; /* not resampled: half of the extents' difference, in level px */
    struct hrf_resampler resampler;
    /* Read by OpenSlide, else NULL: */
    int64_t strip_rows;
    uint32_t *argb;       /* [strip_rows][resampler.x.extent] */
    unsigned char *strip; /* the same in RGB */
};

int32_t hrf_patch_reader_level(const struct hrf_patch_reader *reader)
{
    return reader->level;
}

bool hrf_patch_reader_met_white(const struct hrf_patch_reader *reader)
{
    return reader->met_white;
}

void hrf_patch_reader_scale(const struct hrf_patch_reader *reader, double *scale_x, double *scale_y)
{
    *scale_x = reader->is_copy ? 1 : reader->resampler.x.scale;
    *scale_y = reader->is_copy ? 1 : reader->resampler.y.scale;
}

static int32_t best_level(const struct hrf_slide_info *info, double wanted)
{
    int32_t best = 0;
    for (int32_t i = 1; i < info->n_levels; i++)
        if (info->level[i].downsample <= wanted * level_slack &&
            info->level[i].downsample > info->level[best].downsample)
            best = i;
    return best;
}

/* The largest reduction of tiles that keeps the resolution that is wanted. Pixels that are scored
 * are made of whole JPEG 2000 tiles; a reduced one, of other pixels, serves for comparing. */
static int32_t best_reduction(const struct hrf_slide *slide, int32_t level, double wanted,
                              bool is_for_comparing)
{
    const double downsample = slide->info.level[level].downsample;
    int32_t best = 1;
    if (slide->table.level[level].jp2k_offsets != NULL && !is_for_comparing)
        return 1;
    for (int32_t r = 2; r <= MAX_TILE_REDUCTION; r *= 2)
        if (downsample * r <= wanted * level_slack && hrf_level_has_tiles(slide, level, r))
            best = r;
    return best;
}

void hrf_patch_reader_destroy(struct hrf_patch_reader *reader)
{
    if (reader == NULL)
        return;
    hrf_resampler_release(&reader->resampler);
    hrf_free(reader->argb);
    hrf_free(reader->strip);
    hrf_free(reader);
}

static void alloc_strip(struct hrf_patch_reader *reader)
{
    const int64_t width = reader->resampler.x.extent, height = reader->resampler.y.extent;
    const int64_t rows = width < STRIP_PIXELS ? STRIP_PIXELS / width : 1;
    reader->strip_rows = rows < height ? rows : height;
    const size_t n = (size_t)(reader->strip_rows * width);
    reader->argb = hrf_alloc_array(n, sizeof reader->argb[0]);
    reader->strip = hrf_alloc_array(n, 3);
}

static enum hrf_status patch_reader_create(struct hrf_slide *slide, double mpp_x, double mpp_y,
                                           int64_t size, double mpp, bool is_for_comparing,
                                           struct hrf_patch_reader **out, struct hrf_error *err)
{
    if (size < 1 || size > INT16_MAX || !(mpp > 0) || !(mpp_x > 0) || !(mpp_y > 0))
        return hrf_error_set(err, HRF_E_USER,
                             "patches of %lld px at %g um/px from '%s' at %g x %g um/px are not "
                             "possible; 1 to %d px and resolutions above 0 are",
                             (long long)size, mpp, slide->shown, mpp_x, mpp_y, INT16_MAX);
    HRF_AUTO(hrf_patch_reader) reader = hrf_calloc(1, sizeof *reader);
    reader->slide = slide;
    reader->size = size;
    const double wanted = mpp / fmax(mpp_x, mpp_y);
    reader->level = best_level(&slide->info, wanted);
    reader->reduction = best_reduction(slide, reader->level, wanted, is_for_comparing);
    reader->has_tiles = hrf_level_has_tiles(slide, reader->level, reader->reduction);
    reader->downsample = slide->info.level[reader->level].downsample * reader->reduction;
    double scale_x = mpp / (mpp_x * reader->downsample);
    double scale_y = mpp / (mpp_y * reader->downsample);
    if (fmax(scale_x, scale_y) * reader->reduction > MAX_REDUCTION)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "'%s' has no level near %g um/px: its coarsest is %g um/px, and "
                             "reducing more than %d times is refused; give the slide a pyramid "
                             "or take a finer {tiler.patch.mpp}",
                             slide->shown, mpp, mpp_x * slide->info.level[reader->level].downsample,
                             MAX_REDUCTION);
    reader->is_copy = fmax(fabs(scale_x - 1), fabs(scale_y - 1)) * (double)size < 1;
    reader->centring_x = (scale_x - 1) * (double)size / 2;
    reader->centring_y = (scale_y - 1) * (double)size / 2;
    hrf_resampler_init(&reader->resampler, size, scale_x, scale_y);
    if (!reader->has_tiles)
        alloc_strip(reader);
    HRF_MOVE(*out, reader);
    return HRF_OK;
}

enum hrf_status hrf_patch_reader_create(struct hrf_slide *slide, double mpp_x, double mpp_y,
                                        int64_t size, double mpp, struct hrf_patch_reader **out,
                                        struct hrf_error *err)
{
    return patch_reader_create(slide, mpp_x, mpp_y, size, mpp, false, out, err);
}

enum hrf_status hrf_patch_reader_create_for_comparing(struct hrf_slide *slide, double mpp_x,
                                                      double mpp_y, int64_t size, double mpp,
                                                      struct hrf_patch_reader **out,
                                                      struct hrf_error *err)
{
    return patch_reader_create(slide, mpp_x, mpp_y, size, mpp, true, out, err);
}

/* The rows [first, first + n) of a patch or of a region. */
struct rows {
    int64_t first, n;
};

struct region {
    int64_t x, y;          /* its corner in px of the level; of levels that have tiles */
    int64_t x0, y0;        /* its corner in level-0 px */
    int64_t width, height; /* level px */
};

static struct hrf_level_region part_of(const struct hrf_patch_reader *reader,
                                       const struct region *region, int64_t first, int64_t n)
{
    return (struct hrf_level_region){ .grid = { reader->level, reader->reduction },
                                      .x = region->x,
                                      .y = region->y + first,
                                      .width = region->width,
                                      .height = n };
}

/* OpenSlide's strips begin at the same rows for every part of a region, so that a row's bytes do
 * not depend on which rows are asked for. */
static enum hrf_status visit_strips(struct hrf_patch_reader *reader, const struct region *region,
                                    struct rows rows, hrf_take_rows *take, void *context,
                                    int64_t *decode_ns, struct hrf_error *err)
{
    const int64_t strip = reader->strip_rows, end = rows.first + rows.n;
    for (int64_t row = rows.first / strip * strip; row < end; row += strip) {
        const int64_t n = region->height - row < strip ? region->height - row : strip;
        const int64_t y0 = region->y0 + llround((double)row * reader->downsample);
        const int64_t start = hrf_clock_ns();
        HRF_TRY(hrf_slide_read_argb(reader->slide, reader->level, region->x0, y0, region->width, n,
                                    reader->argb, reader->strip, &reader->met_white, err));
        *decode_ns += hrf_clock_ns() - start;
        const int64_t from = hrf_max(row, rows.first), to = hrf_min(row + n, end);
        take(context, from - rows.first, to - from,
             reader->strip + 3 * (from - row) * region->width, 3 * region->width);
    }
    return HRF_OK;
}

/* Hands over rows of a region of the level, counted from the first of them. */
static enum hrf_status visit_region(struct hrf_patch_reader *reader, const struct region *region,
                                    struct rows rows, hrf_take_rows *take, void *context,
                                    int64_t *decode_ns, struct hrf_error *err)
{
    const struct hrf_level_region part = part_of(reader, region, rows.first, rows.n);
    if (reader->has_tiles)
        return hrf_level_visit(reader->slide, &part, take, context, decode_ns, &reader->met_white,
                               err);
    return visit_strips(reader, region, rows, take, context, decode_ns, err);
}

/* Where a patch that is not resampled begins: at the level pixel nearest to it, centre on centre.
 */
static struct region copied_region(const struct hrf_patch_reader *reader, int64_t x0, int64_t y0)
{
    double downsample = reader->downsample;
    double x = floor((double)x0 / downsample + reader->centring_x + 0.5);
    double y = floor((double)y0 / downsample + reader->centring_y + 0.5);
    return (struct region){ .x = (int64_t)x,
                            .y = (int64_t)y,
                            .x0 = llround(x * downsample),
                            .y0 = llround(y * downsample),
                            .width = reader->size,
                            .height = reader->size };
}

/* Reading begins one level pixel before the one that contains `at`, at a whole pixel of the level
 * if there is one (OpenSlide would interpolate between two), else at the nearest level-0 px.
 * *phase: the distance from the second pixel that is read to `at`, in level px. */
static int64_t read_origin(const struct hrf_patch_reader *reader, int64_t at, int64_t *pixel,
                           double *phase)
{
    const double downsample = reader->downsample, exact = (double)at / downsample;
    *pixel = (int64_t)floor(exact + 1e-9) - 1;
    int64_t origin = llround((double)*pixel * downsample);
    *phase = reader->has_tiles ? fmax(0, exact - (double)(*pixel + 1))
                               : (double)(at - origin) / downsample - 1;
    return origin;
}

/* The region of a patch that is resampled; sets the tables for it. */
static struct region resampled_region(struct hrf_patch_reader *reader, int64_t x0, int64_t y0)
{
    const int64_t size = reader->size;
    double phase_x, phase_y;
    struct region region;
    region.x0 = read_origin(reader, x0, &region.x, &phase_x);
    region.y0 = read_origin(reader, y0, &region.y, &phase_y);
    hrf_resampler_set_phase(&reader->resampler, phase_x, phase_y);
    const struct hrf_axis *x = &reader->resampler.x, *y = &reader->resampler.y;
    region.width = x->first[size - 1] + x->n_taps;
    region.height = hrf_axis_last(y, size - 1) + 1;
    return region;
}

/* A region whose rows are passed to the resampler. */
struct resampling {
    struct hrf_resampler *resampler;
    int64_t first, width; /* row and px of the region */
};

static void resample_rows(void *context, int64_t row, int64_t n, const unsigned char *rgb,
                          int64_t stride)
{
    const struct resampling *r = context;
    for (int64_t k = 0; k < n; k++)
        hrf_resampler_row(r->resampler, r->first + row + k, rgb + k * stride, r->width);
}

static enum hrf_status visit_resampled(struct hrf_patch_reader *reader, int64_t x0, int64_t y0,
                                       struct rows rows, hrf_take_rows *take, void *context,
                                       int64_t *decode_ns, struct hrf_error *err)
{
    const struct region region = resampled_region(reader, x0, y0);
    const struct hrf_axis *y = &reader->resampler.y;
    const int64_t first = y->first[rows.first];
    const struct rows input = { first, hrf_axis_last(y, rows.first + rows.n - 1) + 1 - first };
    struct resampling resampling = { &reader->resampler, first, region.width };
    hrf_resampler_begin(&reader->resampler, rows.first, rows.n, take, context);
    return visit_region(reader, &region, input, resample_rows, &resampling, decode_ns, err);
}

enum hrf_status hrf_patch_reader_visit(struct hrf_patch_reader *reader, int64_t x0, int64_t y0,
                                       int64_t first_row, int64_t n_rows, hrf_take_rows *take,
                                       void *context, int64_t *decode_ns, struct hrf_error *err)
{
    const struct rows rows = { first_row, n_rows };
    assert(first_row >= 0 && n_rows >= 1 && first_row + n_rows <= reader->size);
    reader->met_white = false;
    if (!reader->is_copy)
        return visit_resampled(reader, x0, y0, rows, take, context, decode_ns, err);
    const struct region region = copied_region(reader, x0, y0);
    return visit_region(reader, &region, rows, take, context, decode_ns, err);
}

struct copying {
    unsigned char *rgb;
    size_t row_bytes;
};

static void copy_rows(void *context, int64_t row, int64_t n, const unsigned char *rgb,
                      int64_t stride)
{
    const struct copying *copying = context;
    for (int64_t k = 0; k < n; k++)
        memcpy(copying->rgb + (size_t)(row + k) * copying->row_bytes, rgb + k * stride,
               copying->row_bytes);
}

enum hrf_status hrf_patch_reader_read_rows(struct hrf_patch_reader *reader, int64_t x0, int64_t y0,
                                           int64_t first_row, int64_t n_rows, unsigned char *rgb,
                                           int64_t *decode_ns, int64_t *resample_ns,
                                           struct hrf_error *err)
{
    const int64_t start = hrf_clock_ns();
    int64_t decode = 0;
    struct copying copying = { rgb, 3 * (size_t)reader->size };
    HRF_TRY(hrf_patch_reader_visit(reader, x0, y0, first_row, n_rows, copy_rows, &copying, &decode,
                                   err));
    const int64_t all = hrf_clock_ns() - start;
    if (decode_ns != NULL)
        *decode_ns += reader->is_copy ? all : decode;
    if (resample_ns != NULL && !reader->is_copy)
        *resample_ns += all - decode;
    return HRF_OK;
}

enum hrf_status hrf_patch_reader_read(struct hrf_patch_reader *reader, int64_t x0, int64_t y0,
                                      unsigned char *rgb, int64_t *decode_ns, int64_t *resample_ns,
                                      struct hrf_error *err)
{
    return hrf_patch_reader_read_rows(reader, x0, y0, 0, reader->size, rgb, decode_ns, resample_ns,
                                      err);
}

/* Returns the region of the level that those rows of a patch need, or one a little larger. */
static struct hrf_level_region needed(const struct hrf_patch_reader *reader, int64_t x0, int64_t y0,
                                      struct rows rows)
{
    if (reader->is_copy) {
        const struct region region = copied_region(reader, x0, y0);
        return part_of(reader, &region, rows.first, rows.n);
    }
    double phase;
    struct region region = { .width = reader->resampler.x.extent };
    read_origin(reader, x0, &region.x, &phase);
    read_origin(reader, y0, &region.y, &phase);
    const double scale = reader->resampler.y.scale;
    return part_of(reader, &region, (int64_t)floor((double)rows.first * scale),
                   (int64_t)ceil((double)rows.n * scale) + reader->resampler.y.n_taps + 4);
}

const char *hrf_patch_reader_no_streams(const struct hrf_patch_reader *reader)
{
    const char *why = hrf_level_no_streams(reader->slide, reader->level);
    if (why != NULL)
        return why;
    return reader->is_copy && reader->reduction == 1
               ? NULL
               : "its patches are resampled from another resolution";
}

struct hrf_level_region hrf_patch_reader_region(const struct hrf_patch_reader *reader, int64_t x0,
                                                int64_t y0, int64_t first_row, int64_t n_rows)
{
    assert(reader->is_copy);
    return needed(reader, x0, y0, (struct rows){ first_row, n_rows });
}

enum hrf_status hrf_patch_reader_expect(const struct hrf_patch_reader *reader, int64_t x0,
                                        int64_t y0, int64_t first_row, int64_t n_rows,
                                        struct hrf_error *err)
{
    if (!reader->has_tiles)
        return HRF_OK;
    const struct hrf_level_region region = needed(reader, x0, y0,
                                                  (struct rows){ first_row, n_rows });
    return hrf_level_expect(reader->slide, &region, err);
}

void hrf_patch_reader_done(const struct hrf_patch_reader *reader, int64_t x0, int64_t y0,
                           int64_t first_row, int64_t n_rows)
{
    if (!reader->has_tiles)
        return;
    const struct hrf_level_region region = needed(reader, x0, y0,
                                                  (struct rows){ first_row, n_rows });
    hrf_level_done(reader->slide, &region);
}

enum hrf_status hrf_patch_reader_read_ahead(const struct hrf_patch_reader *reader,
                                            struct hrf_error *err)
{
    return reader->has_tiles ? hrf_level_read_ahead(reader->slide, err) : HRF_OK;
}

/* The nearest place of `extent` px in the tile that holds the middle of the patch, if it lies in
 * the image of `length` px. One pixel before the patch is read too. */
static int64_t move_into_tile(int64_t at, double downsample, int64_t extent, int64_t tile,
                              int64_t length)
{
    const int64_t begin = (int64_t)floor((double)at / downsample);
    if (extent + 1 > tile || begin < 0)
        return at;
    const int64_t low = (begin + extent / 2) / tile * tile + 1, high = low + tile - extent - 1;
    const int64_t moved = begin < low ? low : begin > high ? high : begin;
    return moved == begin || moved + extent > length ? at : llround((double)moved * downsample);
}

void hrf_patch_reader_move_into_tile(const struct hrf_patch_reader *reader, int64_t *x0,
                                     int64_t *y0)
{
    const struct hrf_tile_grid grid = { reader->level, reader->reduction };
    int64_t width, height;
    if (!reader->has_tiles)
        return;
    hrf_level_tile_size(reader->slide, grid, &width, &height);
    const int64_t r = reader->reduction, size = reader->size;
    const int64_t extent_x = reader->is_copy ? size : reader->resampler.x.extent;
    const int64_t extent_y = reader->is_copy ? size : reader->resampler.y.extent;
    *x0 = move_into_tile(*x0, reader->downsample, extent_x, width,
                         reader->slide->info.level[reader->level].width / r);
    *y0 = move_into_tile(*y0, reader->downsample, extent_y, height,
                         reader->slide->info.level[reader->level].height / r);
}

void hrf_patch_reader_expect_none(const struct hrf_patch_reader *reader)
{
    hrf_level_expect_none(reader->slide);
}
