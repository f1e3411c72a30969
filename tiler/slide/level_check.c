/* level_check.c - compares two levels of a slide by the mean colours and the texture of small
 * squares. */
#include "tiler/slide/level_check.h"

#include "base/inline.h"
#include "base/min_max.h"
#include "base/processor.h"
#include "tiler/slide/column_sums.h"
#include "tiler/slide/slide_private.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

/* Means of colours, measured on pyramids made of real slides (Aperio, CAMELYON16, TCGA) with means,
 * with every second pixel, with sharpening, and shifted by half a pixel at each level, at JPEG
 * quality 75: a square of 64 um is off by at most 10 in R, G or B and 10 in the colour where levels
 * are means or sharpened, by 24 and 15 where they are not. Glass beside left-out tiles is white
 * instead of 240 to 225. Tissue that is white instead is off by 60 to 150 and 30 to 80.
 *
 * Texture, modelled on pyramids of the same sources at qualities 75 and 30: cells of 4 um in
 * squares of 64 um whose standard deviation is at least 6 correlate by 0.20 or more (median 0.44 to
 * 0.91) where levels are means, sharpened or shifted, and by 0.17 or more (median 0.47 to 0.76)
 * where they are every second pixel. Tissue of another place correlates by 0.06 to 0.10 in the
 * median, the best of the shifts included. Cells of 8 um separate the two worse: sound levels go
 * down to 0.00. */
enum {
    SQUARE_UM = 64, /* side of a square; squares overlap by half */
    MIN_SQUARE = 8, /* cells of a square's side */
    MAX_SQUARE = 16,
    MAX_LIGHT = 32,   /* tolerance of R, G and B, in 255 */
    MAX_COLOUR = 20,  /* tolerance of R - G and G - B */
    N_MEASURES = 5,   /* R, G, B, R - G, G - B */
    MIN_TEXTURE = 12, /* cells of a square's side of which the texture is compared */
    MIN_CONTRAST = 6, /* standard deviation of the cells of such a square, in 255 */
    CELL_UM = 4,      /* least side of a cell of a patch */
    CELL_PIXELS = 4,  /* and least side in px of the patch, so that a mean is meaningful */
    MAX_CELLS = 2048, /* a side of a patch */
};

struct hrf_level_check {
    struct hrf_slide *slide;
    int64_t size, n; /* px and cells of a patch's side */
    int64_t square;  /* cells of a square's side */
    double cell0_x, cell0_y;
    int32_t level;                   /* the patch's */
    struct hrf_patch_reader *coarse; /* n + 2 cells, one of them a border on each side */
    const struct hrf_column_sums *adder;
    int64_t block_width; /* px of the cells if adder->add_blocks() can add them; else 0 */
    int32_t *begins;     /* [n + 1]: where the cells begin, in px of the patch */
    float *shares;       /* [n][3]: 1 / the width of the cells */
    int32_t *sums;       /* [n][3]: of a row of cells */
    uint16_t *columns;   /* sums of rows of pixels */
    unsigned char *cells,
        *around; /* [n][n][3] means of the patch, [n + 2][n + 2][3] of the coarser level */
    /* The patch that is being shown: */
    int64_t first_row;      /* of the patch, that is shown */
    int64_t first, n_done;  /* rows of cells: the first that is complete, and how many were */
    int64_t n_columns_rows; /* rows of pixels in `columns`, */
    int64_t n_rows;         /* and in all of the row of cells */
};

void hrf_level_check_destroy(struct hrf_level_check *check)
{
    if (check == NULL)
        return;
    hrf_patch_reader_destroy(check->coarse);
    hrf_free(check->begins);
    hrf_free(check->shares);
    hrf_free(check->sums);
    hrf_free(check->columns);
    hrf_free(check->cells);
    hrf_free(check->around);
    hrf_free(check);
}

/* ---- two images ---- */

/* A square of one image, and one of the same size of the other. */
struct square {
    const unsigned char *one, *other;
    int64_t one_stride, other_stride; /* bytes of a row of the images */
    int64_t width, height;
};

/* The moments by which two squares are compared. */
struct moments {
    double one[3], other[3]; /* means of R, G and B */
    double covariance;       /* of a cell's channels from their means */
};

HRF_ALWAYS_INLINE struct moments moments_over(const struct square *s, const int64_t n_columns)
{
    uint16_t one[3 * MAX_SQUARE], other[3 * MAX_SQUARE]; /* sums by column */
    int32_t products = 0;
    for (int64_t i = 0; i < n_columns; i++)
        one[i] = other[i] = 0;
    for (int64_t y = 0; y < s->height; y++) {
        const unsigned char *a = s->one + y * s->one_stride, *b = s->other + y * s->other_stride;
        int16_t u[3 * MAX_SQUARE], v[3 * MAX_SQUARE];
        for (int64_t i = 0; i < n_columns; i++) {
            one[i] = (uint16_t)(one[i] + a[i]);
            other[i] = (uint16_t)(other[i] + b[i]);
            u[i] = a[i];
            v[i] = b[i];
        }
        for (int64_t i = 0; i < n_columns; i++)
            products += u[i] * v[i];
    }
    struct moments m = { .covariance = products };
    const double n = (double)(s->width * s->height);
    int32_t one_sums[3] = { 0 }, other_sums[3] = { 0 };
    for (int64_t i = 0; i < n_columns; i += 3)
        for (int c = 0; c < 3; c++) {
            one_sums[c] += one[i + c];
            other_sums[c] += other[i + c];
        }
    for (int c = 0; c < 3; c++) {
        m.covariance -= (double)one_sums[c] * (double)other_sums[c] / n;
        m.one[c] = (double)one_sums[c] / n;
        m.other[c] = (double)other_sums[c] / n;
    }
    m.covariance /= 3 * n;
    return m;
}

/* The usual width is a constant, so that a row takes a few instructions without a loop. */
static struct moments moments_of(const struct square *s)
{
    return s->width == MAX_SQUARE ? moments_over(s, 3 * MAX_SQUARE) : moments_over(s, 3 * s->width);
}

/* Returns the variance of a cell's channels from their means, over a square of one image. */
static double variance_of(const unsigned char *cells, int64_t stride, int64_t width, int64_t height)
{
    int32_t squares = 0, sums[3] = { 0 };
    for (int64_t y = 0; y < height; y++)
        for (int64_t i = 0; i < 3 * width; i++) {
            const int32_t u = cells[y * stride + i];
            squares += u * u;
            sums[i % 3] += u;
        }
    const double n = (double)(width * height);
    double variance = squares;
    for (int c = 0; c < 3; c++)
        variance -= (double)sums[c] * (double)sums[c] / n;
    return variance / (3 * n);
}

/* Returns the square of the other image moved by up to a cell; shift 0 to 8, where 4 moves nothing.
 */
static struct square shifted(const struct square *s, int shift)
{
    struct square moved = *s;
    moved.other += (shift / 3 - 1) * s->other_stride + 3 * (shift % 3 - 1);
    return moved;
}

struct measures {
    double value[N_MEASURES];
};
struct range {
    struct measures low, high;
};

static struct measures measures_of(const double rgb[3])
{
    return (struct measures){ { rgb[0], rgb[1], rgb[2], rgb[0] - rgb[1], rgb[1] - rgb[2] } };
}

/* The distance of a mean colour from the range, in tolerances. */
static double distance(const double rgb[3], const struct range *range)
{
    const struct measures m = measures_of(rgb);
    double max = 0;
    for (int i = 0; i < N_MEASURES; i++)
        max = fmax(max, fmax(range->low.value[i] - m.value[i], m.value[i] - range->high.value[i]) /
                            (i < 3 ? MAX_LIGHT : MAX_COLOUR));
    return max;
}

/* The distance of the mean colours, in tolerances: from those of all shifts where it is above
 * `limit` without a shift. */
static double colour_distance(const struct square *s, const struct moments *m, double limit)
{
    struct range range = { measures_of(m->other), measures_of(m->other) };
    if (distance(m->one, &range) <= limit)
        return 0;
    for (int shift = 0; shift < 9; shift++) {
        const struct square moved = shifted(s, shift);
        const struct measures there = measures_of(moments_of(&moved).other);
        for (int i = 0; i < N_MEASURES; i++) {
            range.low.value[i] = fmin(range.low.value[i], there.value[i]);
            range.high.value[i] = fmax(range.high.value[i], there.value[i]);
        }
    }
    return distance(m->one, &range);
}

static double one_variance(const struct square *s)
{
    return variance_of(s->one, s->one_stride, s->width, s->height);
}

static double other_variance(const struct square *s)
{
    return variance_of(s->other, s->other_stride, s->width, s->height);
}

/* Returns the correlation of the squares at the shift where it is best; 1 if there is no texture
 * that could be compared, or if they correlate without a shift, as most do. */
static double texture_correlation(const struct square *s, const struct moments *m)
{
    const double min_variance = MIN_CONTRAST * MIN_CONTRAST;
    if (s->width < MIN_TEXTURE || s->height < MIN_TEXTURE || m->covariance > 0)
        return 1;
    const double variance = one_variance(s);
    if (variance < min_variance || other_variance(s) < min_variance)
        return 1;
    double best = -1;
    for (int shift = 0; shift < 9; shift++) {
        const struct square moved = shifted(s, shift);
        best = fmax(best, moments_of(&moved).covariance /
                              sqrt(variance * fmax(other_variance(&moved), min_variance)));
    }
    return best;
}

/* The position of square i on a side; false: there is none. The last square ends at the end of the
 * side. */
static bool square_begin(int64_t i, int64_t side, int64_t length, int64_t square, int64_t *begin)
{
    *begin = i * square / 2;
    if (*begin >= side - length + square / 2)
        return false;
    *begin = *begin < side - length ? *begin : side - length;
    return true;
}

bool hrf_level_difference_find(const unsigned char *one, const unsigned char *other, int64_t width,
                               int64_t height, int64_t square, struct hrf_level_difference *out)
{
    assert(square <= MAX_SQUARE);
    struct hrf_level_difference d = { .width = hrf_min(width, square),
                                      .height = hrf_min(height, square) };
    /* The mean of a small square is less certain, so its tolerance is up to twice as large. */
    const double slack = fmin(2, (double)square / (double)hrf_min(d.width, d.height));
    bool is_found = false;
    double max = 1, min = 0; /* a distance above and a correlation below are differences */
    for (int64_t j = 0; square_begin(j, height, d.height, square, &d.row); j++)
        for (int64_t i = 0; square_begin(i, width, d.width, square, &d.column); i++) {
            const struct square s = { .one = one + (d.row * width + d.column) * 3,
                                      .other = other +
                                               ((d.row + 1) * (width + 2) + d.column + 1) * 3,
                                      .one_stride = 3 * width,
                                      .other_stride = 3 * (width + 2),
                                      .width = d.width,
                                      .height = d.height };
            const struct moments m = moments_of(&s);
            const double distance = colour_distance(&s, &m, slack) / slack;
            const double correlation = max > 1 ? 1 : texture_correlation(&s, &m);
            if (distance <= max && correlation > min)
                continue;
            d.has_colour = distance > max;
            max = fmax(max, distance);
            min = fmin(min, correlation);
            d.correlation = correlation;
            for (int c = 0; c < 3; c++) {
                d.one[c] = (unsigned char)lround(m.one[c]);
                d.other[c] = (unsigned char)lround(m.other[c]);
            }
            *out = d;
            is_found = true;
        }
    return is_found;
}

/* ---- a patch ---- */

static enum hrf_status alloc_scratch(struct hrf_level_check *check, struct hrf_error *err)
{
    const size_t n = (size_t)check->n;
    const size_t n_columns = (size_t)hrf_column_sums_size(check->size);
    check->begins = hrf_alloc_array(n + 1, sizeof check->begins[0]);
    check->shares = hrf_alloc_array(n, 3 * sizeof check->shares[0]);
    check->sums = hrf_alloc_array(n, 3 * sizeof check->sums[0]);
    check->columns = hrf_calloc(n_columns, sizeof check->columns[0]);
    check->cells = hrf_try_alloc_array(n * n, 3);
    check->around = hrf_try_alloc_array((n + 2) * (n + 2), 3);
    HRF_CHECK_MEMORY(check->cells != NULL && check->around != NULL, err,
                     "no memory to compare two levels of '%s'", check->slide->shown);
    for (int64_t i = 0; i <= check->n; i++)
        check->begins[i] = (int32_t)(i * check->size / check->n);
    const int64_t width = check->size / check->n; /* if the cells are of one width */
    if (check->adder->add_blocks != NULL && check->size % HRF_COLUMN_SUMS_BLOCK == 0 &&
        check->size % check->n == 0 && (width == 8 || width == 16))
        check->block_width = width;
    for (int64_t i = 0; i < 3 * check->n; i++)
        check->shares[i] = 1.0f / (float)(check->begins[i / 3 + 1] - check->begins[i / 3]);
    return HRF_OK;
}

static const struct hrf_column_sums *choose_adder(void)
{
#ifdef HRF_BUILD_X86
    if (hrf_processor_has_avx512())
        return &hrf_column_sums_avx512;
    if (hrf_processor_has_avx2())
        return &hrf_column_sums_avx2;
#endif
    return &hrf_column_sums_plain;
}

/* Cells of a patch's side, which are at least `scale` times as large as the smallest. */
static int64_t count_cells(int64_t size, double mpp, int scale)
{
    const double n = fmin((double)size * mpp / CELL_UM, (double)size / CELL_PIXELS) / scale;
    return n < 1 ? 1 : n > MAX_CELLS ? MAX_CELLS : (int64_t)n;
}

/* Chooses the cells and creates the reader of the coarser level for them; check->coarse stays NULL
 * where there is no such level. Of two levels that are far apart the coarser one may be too coarse
 * for the smallest cells. */
static enum hrf_status create_coarse(struct hrf_level_check *check, double mpp_x, double mpp_y,
                                     double mpp, struct hrf_error *err)
{
    for (int scale = 1; scale <= 2; scale *= 2) {
        HRF_AUTO(hrf_patch_reader) coarse = NULL;
        struct hrf_error why;
        check->n = count_cells(check->size, mpp, scale);
        const double cell = (double)check->size * mpp / (double)check->n; /* um */
        const enum hrf_status status = hrf_patch_reader_create_for_comparing(
            check->slide, mpp_x, mpp_y, check->n + 2, cell, &coarse, &why);
        if (status == HRF_E_UNSUPPORTED) /* even the coarsest level is much finer than the cells */
            return HRF_OK;
        if (status != HRF_OK)
            return hrf_error_set(err, status, "%s", why.text);
        if (hrf_patch_reader_level(coarse) == check->level)
            continue;
        check->square = hrf_max(MIN_SQUARE, hrf_min(MAX_SQUARE, llround(SQUARE_UM / cell)));
        check->cell0_x = cell / mpp_x;
        check->cell0_y = cell / mpp_y;
        HRF_MOVE(check->coarse, coarse);
        break;
    }
    return HRF_OK;
}

enum hrf_status hrf_level_check_create(struct hrf_slide *slide, double mpp_x, double mpp_y,
                                       int64_t size, double mpp, struct hrf_level_check **out,
                                       struct hrf_error *err)
{
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    HRF_AUTO(hrf_level_check) check = hrf_calloc(1, sizeof *check);
    *out = NULL;
    HRF_TRY(hrf_patch_reader_create(slide, mpp_x, mpp_y, size, mpp, &reader, err));
    check->slide = slide;
    check->size = size;
    check->level = hrf_patch_reader_level(reader);
    check->adder = choose_adder();
    HRF_TRY(create_coarse(check, mpp_x, mpp_y, mpp, err));
    if (check->coarse == NULL)
        return HRF_OK;
    HRF_TRY(alloc_scratch(check, err));
    HRF_MOVE(*out, check);
    return HRF_OK;
}

/* Moves what is in `columns` to the sums of the cells. */
static void sum_columns(struct hrf_level_check *check)
{
    check->adder->fold(check->columns, check->size, check->begins, check->n,
                       check->n_rows == check->n_columns_rows, check->sums);
    check->n_columns_rows = 0;
}

/* The mean colours of a row of cells whose rows of pixels were all shown. */
static void finish_cells(struct hrf_level_check *check)
{
    const int64_t n = 3 * check->n;
    unsigned char *restrict out = check->cells + check->n_done * n;
    const int32_t *restrict sums = check->sums;
    const float *restrict shares = check->shares, share = 1.0f / (float)check->n_rows;
    if (check->n_columns_rows > 0)
        sum_columns(check);
    for (int64_t i = 0; i < n; i++)
        out[i] = (unsigned char)(int32_t)((float)sums[i] * (shares[i] * share) + 0.5f);
    check->n_rows = 0;
    check->n_done++;
}

void hrf_level_check_begin(struct hrf_level_check *check, int64_t first_row)
{
    if (check == NULL)
        return;
    check->first_row = first_row;
    check->first = check->n_done = check->n_rows = check->n_columns_rows = 0;
    while (check->begins[check->first] < first_row)
        check->first++;
}

/* Adds the first of n rows of pixels to the sums of a row of cells, and returns how many. */
static int64_t add_rows(struct hrf_level_check *check, const unsigned char *rgb, int64_t stride,
                        int64_t n)
{
    if (check->block_width > 0 && check->n_columns_rows == 0 && n >= 8) {
        check->adder->add_blocks(rgb, stride, check->size, check->block_width, check->n_rows == 0,
                                 check->sums);
        check->n_rows += 8;
        return 8;
    }
    if (check->n_columns_rows == HRF_COLUMN_SUMS_MAX_ROWS)
        sum_columns(check);
    n = hrf_min(n, HRF_COLUMN_SUMS_MAX_ROWS - check->n_columns_rows);
    check->adder->add(rgb, stride, n, check->size, check->n_columns_rows == 0, check->columns);
    check->n_columns_rows += n;
    check->n_rows += n;
    return n;
}

void hrf_level_check_take(struct hrf_level_check *check, int64_t row, int64_t n,
                          const unsigned char *rgb, int64_t stride)
{
    if (check == NULL)
        return;
    for (int64_t k = 0; k < n && check->first + check->n_done < check->n;) {
        const int32_t *cell = &check->begins[check->first + check->n_done];
        const int64_t y = check->first_row + row + k;
        if (y < cell[0]) {
            k += cell[0] - y;
            continue;
        }
        const int64_t n_rows = add_rows(check, rgb + k * stride, stride,
                                        hrf_min(n - k, cell[1] - y));
        if (y + n_rows == cell[1])
            finish_cells(check);
        k += n_rows;
    }
}

enum hrf_status hrf_level_check_refuse(const struct hrf_slide *slide, int32_t one_level,
                                       int32_t other_level, const int64_t place[4],
                                       const struct hrf_level_difference *d, struct hrf_error *err)
{
    char what[160];
    if (d->has_colour)
        snprintf(what, sizeof what, "R %d G %d B %d on level %d, R %d G %d B %d on level %d",
                 d->one[0], d->one[1], d->one[2], one_level, d->other[0], d->other[1], d->other[2],
                 other_level);
    else
        snprintf(what, sizeof what, "their textures correlate by %.2f, as those of two places do",
                 d->correlation);
    return hrf_error_set(
        err, HRF_E_USER,
        "slide '%s' is damaged: levels %d and %d do not show the same at x %lld, y %lld (%lld x "
        "%lld px of level 0): %s; copy the slide again, or if level 0 is sound, make the others "
        "anew from it ('vips tiffsave --tile --pyramid')",
        slide->shown, one_level, other_level, (long long)place[0], (long long)place[1],
        (long long)place[2], (long long)place[3], what);
}

enum hrf_status hrf_level_check_end(struct hrf_level_check *check, int64_t x0, int64_t y0,
                                    struct hrf_error *err)
{
    struct hrf_level_difference d;
    if (check == NULL || check->n_done == 0)
        return HRF_OK;
    const int64_t first = check->first, n = check->n_done;
    HRF_TRY(hrf_patch_reader_read_rows(check->coarse, x0 - llround(check->cell0_x),
                                       y0 - llround(check->cell0_y), first, n + 2, check->around,
                                       NULL, NULL, err));
    if (hrf_patch_reader_met_white(check->coarse)) /* tiles of the other level do not decode */
        return HRF_OK;
    if (!hrf_level_difference_find(check->cells, check->around, check->n, n, check->square, &d))
        return HRF_OK;
    const int64_t place[4] = { x0 + llround((double)d.column * check->cell0_x),
                               y0 + llround((double)(first + d.row) * check->cell0_y),
                               llround((double)d.width * check->cell0_x),
                               llround((double)d.height * check->cell0_y) };
    return hrf_level_check_refuse(check->slide, check->level, hrf_patch_reader_level(check->coarse),
                                  place, &d, err);
}

enum hrf_status hrf_level_check_rows(struct hrf_level_check *check, int64_t x0, int64_t y0,
                                     int64_t first_row, int64_t n_rows, const unsigned char *rgb,
                                     struct hrf_error *err)
{
    hrf_level_check_begin(check, first_row);
    if (check != NULL)
        hrf_level_check_take(check, 0, n_rows, rgb, 3 * check->size);
    return hrf_level_check_end(check, x0, y0, err);
}
