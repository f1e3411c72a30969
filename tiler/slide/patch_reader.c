/* patch_reader.c - reads patches from the best level of a slide and resamples them. */
#include "tiler/slide/patch_reader.h"

#include "base/clock.h"
#include "tiler/slide/level_read.h"
#include "tiler/slide/slide_private.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* A level that is up to 2 % coarser than requested is used: 0.499 um/px for 0.5, 2.0005 for 2. */
static const double level_slack = 1.02;

enum {
    MAX_REDUCTION = 64,
    STRIP_PIXELS =
        1 << 20 /* pixels of the level that are read at once: 4 MiB of ARGB and 3 MiB of RGB */
};

/* One direction of resampling: where the input of each output pixel begins, and its weights. */
struct axis {
    double scale; /* level px per output px */
    double phase; /* from the second input pixel to the patch's origin, when the table was made */
    int32_t n_taps;
    int32_t *first;  /* [size], input pixels from `origin` */
    float *weights;  /* [size][n_taps], sum 1 */
    int64_t extent;  /* input pixels at most */
    double centring; /* not resampled: half of the difference between the extents, in level px */
};

struct hrf_patch_reader {
    struct hrf_slide *slide;
    int32_t level;
    int32_t reduction; /* the level is read at 1/reduction of its resolution */
    double downsample; /* level-0 px per px that is read */
    bool has_tiles;    /* else read by OpenSlide */
    int64_t size;
    bool is_copy; /* nothing is resampled */
    struct axis x, y;
    int64_t strip_rows;
    uint32_t *argb;       /* [strip_rows][x.extent]; NULL: not read by OpenSlide */
    unsigned char *strip; /* the same in RGB */
    int32_t n_open;       /* the largest number of output rows that one input row contributes to */
    float *sums;          /* [n_open][x.extent][3] of the output rows that are not complete */
};

int32_t hrf_patch_reader_level(const struct hrf_patch_reader *reader)
{
    return reader->level;
}

void hrf_patch_reader_scale(const struct hrf_patch_reader *reader, double *scale_x, double *scale_y)
{
    *scale_x = reader->is_copy ? 1 : reader->x.scale;
    *scale_y = reader->is_copy ? 1 : reader->y.scale;
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

/* The largest reduction of JPEG tiles that keeps the resolution that is wanted. */
static int32_t best_reduction(const struct hrf_slide *slide, int32_t level, double wanted)
{
    const double downsample = slide->info.level[level].downsample;
    int32_t best = 1;
    for (int32_t r = 2; r <= HRF_JPEG_MAX_REDUCTION; r *= 2)
        if (downsample * r <= wanted * level_slack && hrf_level_has_tiles(slide, level, r))
            best = r;
    return best;
}

/* The weight of input pixel `i`, which covers [i, i + 1), in an output that covers [begin, begin +
 * scale). */
static double tap_weight(double begin, double scale, int64_t i)
{
    if (scale < 1) { /* a tent around the centre */
        double weight = 1 - fabs(begin + scale / 2 - 0.5 - (double)i);
        return weight > 0 ? weight : 0;
    }
    double low = fmax(begin, (double)i), high = fmin(begin + scale, (double)(i + 1));
    return high > low ? high - low : 0;
}

/* The first input pixel of output pixel j, counted from the second one that is read; at least -1.
 */
static int64_t first_tap(const struct axis *axis, int64_t j)
{
    double begin = axis->phase + (double)j * axis->scale;
    return (int64_t)floor(axis->scale < 1 ? begin + axis->scale / 2 - 0.5 : begin);
}

/* Fills the table. The phase is in [0, 1) if the level's downsample is a whole number; otherwise it
 * may lie outside by up to half a level-0 px. */
static void set_phase(struct axis *axis, int64_t size, double phase)
{
    if (axis->phase == phase)
        return;
    axis->phase = phase;
    for (int64_t j = 0; j < size; j++) {
        float *weights = axis->weights + j * axis->n_taps;
        int64_t first = first_tap(axis, j);
        double begin = phase + (double)j * axis->scale, sum = 0;
        axis->first[j] = (int32_t)(first + 1);
        for (int32_t t = 0; t < axis->n_taps; t++)
            sum += tap_weight(begin, axis->scale, first + t);
        for (int32_t t = 0; t < axis->n_taps; t++)
            weights[t] = (float)(tap_weight(begin, axis->scale, first + t) / sum);
    }
}

static enum hrf_status init_axis(struct axis *axis, int64_t size, double scale,
                                 struct hrf_error *err)
{
    axis->scale = scale;
    axis->centring = (scale - 1) * (double)size / 2;
    axis->phase = -1; /* no table yet */
    axis->n_taps = scale >= 1 ? (int32_t)ceil(scale) + 1 : 2;
    axis->extent = (int64_t)ceil((double)size * scale) + axis->n_taps + 4;
    axis->first = hrf_alloc_array((size_t)size, sizeof axis->first[0]);
    axis->weights = hrf_alloc_array((size_t)size, (size_t)axis->n_taps * sizeof axis->weights[0]);
    HRF_CHECK_MEMORY(axis->first != NULL && axis->weights != NULL, err,
                     "no memory to resample patches of %lld px", (long long)size);
    return HRF_OK;
}

void hrf_patch_reader_destroy(struct hrf_patch_reader *reader)
{
    if (reader == NULL)
        return;
    hrf_free(reader->x.first);
    hrf_free(reader->x.weights);
    hrf_free(reader->y.first);
    hrf_free(reader->y.weights);
    hrf_free(reader->argb);
    hrf_free(reader->strip);
    hrf_free(reader->sums);
    hrf_free(reader);
}

static enum hrf_status alloc_scratch(struct hrf_patch_reader *reader, struct hrf_error *err)
{
    int64_t width = reader->x.extent, height = reader->y.extent;
    int64_t rows = width < STRIP_PIXELS ? STRIP_PIXELS / width : 1;
    reader->strip_rows = rows < height ? rows : height;
    size_t n = (size_t)(reader->strip_rows * width);
    reader->argb = reader->has_tiles ? NULL : hrf_alloc_array(n, sizeof reader->argb[0]);
    reader->strip = hrf_alloc_array(n, 3);
    double per_row = ceil(1 /
                          reader->y.scale); /* number of output rows that begin in one input row */
    reader->n_open = 2 * (int32_t)per_row + 2;
    reader->sums = hrf_alloc_array((size_t)reader->n_open * (size_t)width,
                                   3 * sizeof reader->sums[0]);
    HRF_CHECK_MEMORY((reader->has_tiles || reader->argb != NULL) && reader->strip != NULL &&
                         reader->sums != NULL,
                     err, "no memory to read patches of %lld px", (long long)reader->size);
    return HRF_OK;
}

enum hrf_status hrf_patch_reader_create(struct hrf_slide *slide, double mpp_x, double mpp_y,
                                        int64_t size, double mpp, struct hrf_patch_reader **out,
                                        struct hrf_error *err)
{
    if (size < 1 || size > INT16_MAX || !(mpp > 0) || !(mpp_x > 0) || !(mpp_y > 0))
        return hrf_error_set(err, HRF_E_USER,
                             "patches of %lld px at %g um/px from '%s' at %g x %g um/px are not "
                             "possible; 1 to %d px and resolutions above 0 are",
                             (long long)size, mpp, slide->shown, mpp_x, mpp_y, INT16_MAX);
    HRF_AUTO(hrf_patch_reader) reader = hrf_calloc(1, sizeof *reader);
    HRF_CHECK_MEMORY(reader != NULL, err, "no memory for a patch reader");
    reader->slide = slide;
    reader->size = size;
    const double wanted = mpp / fmax(mpp_x, mpp_y);
    reader->level = best_level(&slide->info, wanted);
    reader->has_tiles = hrf_level_has_tiles(slide, reader->level, 1);
    reader->reduction = best_reduction(slide, reader->level, wanted);
    reader->downsample = slide->info.level[reader->level].downsample * reader->reduction;
    double scale_x = mpp / (mpp_x * reader->downsample);
    double scale_y = mpp / (mpp_y * reader->downsample);
    if (fmax(scale_x, scale_y) * reader->reduction > MAX_REDUCTION)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "'%s' has no level near %g um/px: its coarsest is %g um/px, and "
                             "reducing more than %d times is refused; give the slide a pyramid "
                             "or take a finer tiler.patch.mpp",
                             slide->shown, mpp, mpp_x * slide->info.level[reader->level].downsample,
                             MAX_REDUCTION);
    reader->is_copy = fmax(fabs(scale_x - 1), fabs(scale_y - 1)) * (double)size < 1;
    HRF_TRY(init_axis(&reader->x, size, scale_x, err));
    HRF_TRY(init_axis(&reader->y, size, scale_y, err));
    HRF_TRY(alloc_scratch(reader, err));
    HRF_MOVE(*out, reader);
    return HRF_OK;
}

/* Adds an input row to the sums of an output row; the first input row sets them. */
static void add_row(float *sums, const unsigned char *in, int64_t n, float weight, bool is_first)
{
    if (is_first)
        for (int64_t i = 0; i < n; i++)
            sums[i] = weight * (float)in[i];
    else
        for (int64_t i = 0; i < n; i++)
            sums[i] += weight * (float)in[i];
}

static unsigned char rounded(float value)
{
    return (unsigned char)(value < 254.5f ? value + 0.5f : 255);
}

/* Resamples the columns of a complete output row. */
static void emit_row(const struct axis *x, int64_t size, const float *sums, unsigned char *rgb)
{
    const float *weight = x->weights;
    for (int64_t j = 0; j < size; j++) {
        const float *p = sums + 3 * x->first[j];
        float r = 0, g = 0, b = 0;
        for (int32_t t = 0; t < x->n_taps; t++, p += 3, weight++) {
            r += *weight * p[0];
            g += *weight * p[1];
            b += *weight * p[2];
        }
        rgb[3 * j] = rounded(r);
        rgb[3 * j + 1] = rounded(g);
        rgb[3 * j + 2] = rounded(b);
    }
}

/* The last input row that contributes to output row j. */
static int64_t last_row(const struct axis *y, int64_t j)
{
    int32_t t = y->n_taps - 1;
    while (t > 0 && y->weights[j * y->n_taps + t] == 0)
        t--;
    return y->first[j] + t;
}

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

static enum hrf_status read_rows(struct hrf_patch_reader *reader, const struct region *region,
                                 int64_t first, int64_t n, unsigned char *rgb,
                                 struct hrf_error *err)
{
    if (reader->has_tiles) {
        const struct hrf_level_region part = part_of(reader, region, first, n);
        return hrf_level_read(reader->slide, &part, rgb, err);
    }
    int64_t y0 = region->y0 + llround((double)first * reader->downsample);
    return hrf_slide_read_argb(reader->slide, reader->level, region->x0, y0, region->width, n,
                               reader->argb, rgb, err);
}

/* Reads the rows [first, first + n) of a patch. */
struct rows {
    int64_t first, n;
};

/* Where a patch that is not resampled begins: at the level pixel nearest to it, centre on centre.
 */
static struct region copied_region(const struct hrf_patch_reader *reader, int64_t x0, int64_t y0)
{
    double downsample = reader->downsample;
    double x = floor((double)x0 / downsample + reader->x.centring + 0.5);
    double y = floor((double)y0 / downsample + reader->y.centring + 0.5);
    return (struct region){ .x = (int64_t)x,
                            .y = (int64_t)y,
                            .x0 = llround(x * downsample),
                            .y0 = llround(y * downsample),
                            .width = reader->size };
}

/* Without resampling. OpenSlide's strips begin at the same rows as for the whole patch, so that a
 * row's bytes do not depend on which rows are asked for. */
static enum hrf_status copy_rows(struct hrf_patch_reader *reader, int64_t x0, int64_t y0,
                                 struct rows rows, unsigned char *rgb, int64_t *decode_ns,
                                 struct hrf_error *err)
{
    int64_t start = hrf_clock_ns(), size = reader->size, strip = reader->strip_rows;
    const struct region region = copied_region(reader, x0, y0);
    int64_t end = rows.first + rows.n;
    if (reader->has_tiles)
        HRF_TRY(read_rows(reader, &region, rows.first, rows.n, rgb, err));
    for (int64_t row = rows.first / strip * strip; row < end && !reader->has_tiles; row += strip) {
        int64_t n = size - row < strip ? size - row : strip;
        int64_t begin = row > rows.first ? row : rows.first;
        int64_t stop = row + n < end ? row + n : end;
        HRF_TRY(read_rows(reader, &region, row, n, reader->strip, err));
        memcpy(rgb + 3 * (begin - rows.first) * size, reader->strip + 3 * (begin - row) * size,
               (size_t)(3 * (stop - begin) * size));
    }
    *decode_ns += hrf_clock_ns() - start;
    return HRF_OK;
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
    set_phase(&reader->x, size, phase_x);
    set_phase(&reader->y, size, phase_y);
    region.width = reader->x.first[size - 1] + reader->x.n_taps;
    region.height = last_row(&reader->y, size - 1) + 1;
    return region;
}

/* Adds input row r to every output row that it contributes to, and writes those that it completes.
 * Returns the first output row that is not complete. */
static int64_t take_row(struct hrf_patch_reader *reader, int64_t r, const unsigned char *in,
                        int64_t width, int64_t done, struct rows rows, unsigned char *rgb)
{
    const struct axis *y = &reader->y;
    int64_t end = rows.first + rows.n;
    for (int64_t j = done; j < end && y->first[j] <= r; j++) {
        int64_t t = r - y->first[j];
        float *sums = reader->sums + j % reader->n_open * reader->x.extent * 3;
        if (t < y->n_taps)
            add_row(sums, in, 3 * width, y->weights[j * y->n_taps + t], t == 0);
    }
    while (done < end && last_row(y, done) <= r) {
        emit_row(&reader->x, reader->size,
                 reader->sums + done % reader->n_open * reader->x.extent * 3,
                 rgb + 3 * (done - rows.first) * reader->size);
        done++;
    }
    return done;
}

/* Reads the level in strips, row by row. Strips begin at the same rows as for the whole patch. */
static enum hrf_status resample_rows(struct hrf_patch_reader *reader, int64_t x0, int64_t y0,
                                     struct rows rows, unsigned char *rgb, int64_t *decode_ns,
                                     int64_t *resample_ns, struct hrf_error *err)
{
    int64_t start = hrf_clock_ns(), done = rows.first;
    int64_t strip = reader->strip_rows;
    const struct region region = resampled_region(reader, x0, y0);
    int64_t first = reader->y.first[rows.first];
    int64_t end = last_row(&reader->y, rows.first + rows.n - 1) + 1;
    for (int64_t row = first / strip * strip; row < end; row += strip) {
        int64_t rest = region.height - row, n = rest < strip ? rest : strip;
        int64_t before = hrf_clock_ns();
        *resample_ns += before - start;
        HRF_TRY(read_rows(reader, &region, row, n, reader->strip, err));
        start = hrf_clock_ns();
        *decode_ns += start - before;
        for (int64_t r = row > first ? row : first; r < row + n && r < end; r++)
            done = take_row(reader, r, reader->strip + 3 * (r - row) * region.width, region.width,
                            done, rows, rgb);
    }
    *resample_ns += hrf_clock_ns() - start;
    return HRF_OK;
}

enum hrf_status hrf_patch_reader_read_rows(struct hrf_patch_reader *reader, int64_t x0, int64_t y0,
                                           int64_t first_row, int64_t n_rows, unsigned char *rgb,
                                           int64_t *decode_ns, int64_t *resample_ns,
                                           struct hrf_error *err)
{
    int64_t ignored = 0;
    struct rows rows = { first_row, n_rows };
    assert(first_row >= 0 && n_rows >= 1 && first_row + n_rows <= reader->size);
    decode_ns = decode_ns != NULL ? decode_ns : &ignored;
    resample_ns = resample_ns != NULL ? resample_ns : &ignored;
    if (reader->is_copy)
        return copy_rows(reader, x0, y0, rows, rgb, decode_ns, err);
    return resample_rows(reader, x0, y0, rows, rgb, decode_ns, resample_ns, err);
}

enum hrf_status hrf_patch_reader_read(struct hrf_patch_reader *reader, int64_t x0, int64_t y0,
                                      unsigned char *rgb, int64_t *decode_ns, int64_t *resample_ns,
                                      struct hrf_error *err)
{
    return hrf_patch_reader_read_rows(reader, x0, y0, 0, reader->size, rgb, decode_ns, resample_ns,
                                      err);
}

/* What of the level's pixels those rows of a patch need, and perhaps a pixel or two more. */
static struct hrf_level_region needed(const struct hrf_patch_reader *reader, int64_t x0, int64_t y0,
                                      struct rows rows)
{
    if (reader->is_copy) {
        const struct region region = copied_region(reader, x0, y0);
        return part_of(reader, &region, rows.first, rows.n);
    }
    double phase;
    struct region region = { .width = reader->x.extent };
    read_origin(reader, x0, &region.x, &phase);
    read_origin(reader, y0, &region.y, &phase);
    const double scale = reader->y.scale;
    return part_of(reader, &region, (int64_t)floor((double)rows.first * scale),
                   (int64_t)ceil((double)rows.n * scale) + reader->y.n_taps + 4);
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
    const int64_t extent_x = reader->is_copy ? size : reader->x.extent;
    const int64_t extent_y = reader->is_copy ? size : reader->y.extent;
    *x0 = move_into_tile(*x0, reader->downsample, extent_x, width,
                         reader->slide->info.level[reader->level].width / r);
    *y0 = move_into_tile(*y0, reader->downsample, extent_y, height,
                         reader->slide->info.level[reader->level].height / r);
}

void hrf_patch_reader_expect_none(const struct hrf_patch_reader *reader)
{
    hrf_level_expect_none(reader->slide);
}
