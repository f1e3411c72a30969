/* level_check.c - compares two levels of a slide by the mean colours of small squares. */
#include "tiler/slide/level_check.h"

#include "tiler/slide/slide_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Measured on pyramids made of real slides (Aperio, CAMELYON16, TCGA) with means, with every second
 * pixel, with sharpening, and shifted by half a pixel at each level, at JPEG quality 75: a square
 * of 8 x 8 cells is off by at most 10 in R, G or B and 10 in the colour where levels are means or
 * sharpened, by 24 and 15 where they are not. Glass beside left-out tiles is white instead of 240
 * to 225. Tissue that is white instead is off by 60 to 150 and 30 to 80. */
enum {
    SQUARE = 8,       /* cells on a side of a square; squares overlap by half */
    MAX_LIGHT = 32,   /* tolerance of R, G and B, in 255 */
    MAX_COLOUR = 20,  /* tolerance of R - G and G - B */
    N_MEASURES = 5,   /* R, G, B, R - G, G - B */
    CELL_UM = 8,      /* least side of a cell of a patch */
    CELL_PIXELS = 8,  /* and least side in px of the patch, so that a mean is meaningful */
    MAX_CELLS = 1024, /* a side of a patch */
    CELL_ROWS = 8,    /* rows of pixels that suffice for the mean of a cell */
};

struct hrf_level_check {
    struct hrf_slide *slide;
    int64_t size, n; /* px and cells of a patch's side */
    int64_t step;    /* every so manieth row of pixels is added up */
    double cell0_x, cell0_y;
    int32_t level;                   /* the patch's */
    struct hrf_patch_reader *coarse; /* n + 2 cells, one of them a border on each side */
    uint32_t *sums;                  /* [n][3]: of a row of cells */
    uint16_t *columns;               /* [size][3]: sums of rows of pixels */
    unsigned char *cells,
        *around; /* [n][n][3] means of the patch, [n + 2][n + 2][3] of the coarser level */
    /* The patch that is being shown: */
    int64_t first_row;     /* of the patch, that is shown */
    int64_t first, n_done; /* rows of cells: the first that is complete, and how many were */
    int64_t n_columns_rows,
        n_rows; /* rows of pixels in `columns`, and in all of the row of cells */
};

void hrf_level_check_destroy(struct hrf_level_check *check)
{
    if (check == NULL)
        return;
    hrf_patch_reader_destroy(check->coarse);
    hrf_free(check->sums);
    hrf_free(check->columns);
    hrf_free(check->cells);
    hrf_free(check->around);
    hrf_free(check);
}

/* The mean of a rectangle of cells, as the three measures that are compared. */
static void measure(const unsigned char *rgb, int64_t stride, int64_t width, int64_t height,
                    double out[N_MEASURES])
{
    uint32_t sums[3] = { 0 };
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            for (int c = 0; c < 3; c++)
                sums[c] += rgb[(y * stride + x) * 3 + c];
    for (int c = 0; c < 3; c++)
        out[c] = (double)sums[c] / (double)(width * height);
    out[3] = out[0] - out[1];
    out[4] = out[1] - out[2];
}

/* The distance of `value` from the range, in tolerances. */
static double distance(const double value[N_MEASURES], const double low[N_MEASURES],
                       const double high[N_MEASURES])
{
    double most = 0;
    for (int i = 0; i < N_MEASURES; i++) {
        double outside = fmax(low[i] - value[i], value[i] - high[i]);
        most = fmax(most, outside / (i < 3 ? MAX_LIGHT : MAX_COLOUR));
    }
    return most;
}

/* The difference of a square, in tolerances. The mean of a small square is less certain, so its
 * tolerance is up to twice as large. */
static double square_distance(const unsigned char *one, const unsigned char *other, int64_t width,
                              struct hrf_level_difference *square)
{
    double value[N_MEASURES], there[N_MEASURES], low[N_MEASURES], high[N_MEASURES];
    const int64_t w = square->width, h = square->height, stride = width + 2;
    const unsigned char *corner = other + (square->row * stride + square->column) * 3;
    const double slack = fmin(2, (double)SQUARE / (double)(w < h ? w : h));
    measure(one + (square->row * width + square->column) * 3, width, w, h, value);
    measure(corner + (stride + 1) * 3, stride, w, h, there);
    for (int c = 0; c < 3; c++) {
        square->one[c] = (unsigned char)lround(value[c]);
        square->other[c] = (unsigned char)lround(there[c]);
    }
    if (distance(value, there, there) <= slack)
        return 0;
    memcpy(low, there, sizeof low);
    memcpy(high, there, sizeof high);
    for (int shift = 0; shift < 9; shift++) {
        measure(corner + (shift / 3 * stride + shift % 3) * 3, stride, w, h, there);
        for (int i = 0; i < N_MEASURES; i++) {
            low[i] = fmin(low[i], there[i]);
            high[i] = fmax(high[i], there[i]);
        }
    }
    return distance(value, low, high) / slack;
}

/* The position of square i on a side; false: there is none. The last square ends at the end of the
 * side. */
static bool square_begin(int64_t i, int64_t side, int64_t length, int64_t *begin)
{
    *begin = i * SQUARE / 2;
    if (*begin >= side - length + SQUARE / 2)
        return false;
    *begin = *begin < side - length ? *begin : side - length;
    return true;
}

bool hrf_level_difference_find(const unsigned char *one, const unsigned char *other, int64_t width,
                               int64_t height, struct hrf_level_difference *out)
{
    struct hrf_level_difference square = { .width = width < SQUARE ? width : SQUARE,
                                           .height = height < SQUARE ? height : SQUARE };
    double most = 1;
    for (int64_t j = 0; square_begin(j, height, square.height, &square.row); j++)
        for (int64_t i = 0; square_begin(i, width, square.width, &square.column); i++) {
            double found = square_distance(one, other, width, &square);
            if (found <= most)
                continue;
            most = found;
            *out = square;
        }
    return most > 1;
}

static enum hrf_status alloc_scratch(struct hrf_level_check *check, struct hrf_error *err)
{
    size_t n = (size_t)check->n;
    check->sums = hrf_alloc_array(n, 3 * sizeof check->sums[0]);
    check->columns = hrf_alloc_array((size_t)check->size, 3 * sizeof check->columns[0]);
    check->cells = hrf_alloc_array(n * n, 3);
    check->around = hrf_alloc_array((n + 2) * (n + 2), 3);
    return check->sums != NULL && check->columns != NULL && check->cells != NULL &&
                   check->around != NULL
               ? HRF_OK
               : hrf_error_set(err, HRF_E_NOMEM, "no memory to compare two levels of '%s'",
                               check->slide->shown);
}

/* Cells of a patch's side. */
static int64_t count_cells(int64_t size, double mpp)
{
    double n = fmin((double)size * mpp / CELL_UM, (double)size / CELL_PIXELS);
    return n < 1 ? 1 : n > MAX_CELLS ? MAX_CELLS : (int64_t)n;
}

enum hrf_status hrf_level_check_create(struct hrf_slide *slide, double mpp_x, double mpp_y,
                                       int64_t size, double mpp, struct hrf_level_check **out,
                                       struct hrf_error *err)
{
    HRF_AUTO(hrf_patch_reader) reader = NULL;
    HRF_AUTO(hrf_level_check) check = hrf_calloc(1, sizeof *check);
    *out = NULL;
    HRF_CHECK_MEMORY(check != NULL, err, "no memory to compare levels");
    HRF_TRY(hrf_patch_reader_create(slide, mpp_x, mpp_y, size, mpp, &reader, err));
    check->slide = slide;
    check->size = size;
    check->n = count_cells(size, mpp);
    check->step = size / check->n / CELL_ROWS > 2 ? size / check->n / CELL_ROWS : 2;
    check->level = hrf_patch_reader_level(reader);
    const double cell = (double)size * mpp / (double)check->n; /* um */
    struct hrf_error why;
    enum hrf_status status = hrf_patch_reader_create(slide, mpp_x, mpp_y, check->n + 2, cell,
                                                     &check->coarse, &why);
    if (status == HRF_E_UNSUPPORTED) /* even the coarsest level is much finer than the cells */
        return HRF_OK;
    if (status != HRF_OK)
        return hrf_error_set(err, status, "%s", why.text);
    if (hrf_patch_reader_level(check->coarse) == check->level)
        return HRF_OK;
    check->cell0_x = cell / mpp_x;
    check->cell0_y = cell / mpp_y;
    HRF_TRY(alloc_scratch(check, err));
    HRF_MOVE(*out, check);
    return HRF_OK;
}

/* The position of cell i, in px of the patch. */
static int64_t cell_begin(const struct hrf_level_check *check, int64_t i)
{
    return i * check->size / check->n;
}

/* A loop that the compiler vectorises. */
static void add_row(const unsigned char *row, int64_t width, uint16_t *columns)
{
    for (int64_t i = 0; i < width; i++)
        columns[i] = (uint16_t)(columns[i] + row[i]);
}

/* Moves what is in `columns` to the sums of the cells. */
static void sum_columns(struct hrf_level_check *check)
{
    for (int64_t i = 0; i < check->n; i++) {
        const int64_t end = cell_begin(check, i + 1) * 3;
        for (int64_t k = cell_begin(check, i) * 3; k < end; k += 3)
            for (int c = 0; c < 3; c++)
                check->sums[3 * i + c] += check->columns[k + c];
    }
    memset(check->columns, 0, (size_t)check->size * 3 * sizeof *check->columns);
    check->n_columns_rows = 0;
}

/* The mean colours of a row of cells whose rows of pixels were all shown. */
static void finish_cells(struct hrf_level_check *check)
{
    unsigned char *out = check->cells + check->n_done * check->n * 3;
    sum_columns(check);
    for (int64_t i = 0; i < check->n; i++) {
        const int64_t cell = cell_begin(check, i + 1) - cell_begin(check, i);
        const uint32_t n = (uint32_t)(cell * check->n_rows);
        for (int c = 0; c < 3; c++)
            out[3 * i + c] = (unsigned char)((check->sums[3 * i + c] + n / 2) / n);
    }
    memset(check->sums, 0, (size_t)check->n * 3 * sizeof check->sums[0]);
    check->n_rows = 0;
    check->n_done++;
}

void hrf_level_check_begin(struct hrf_level_check *check, int64_t first_row)
{
    if (check == NULL)
        return;
    check->first_row = first_row;
    check->first = check->n_done = check->n_rows = check->n_columns_rows = 0;
    while (cell_begin(check, check->first) < first_row)
        check->first++;
    memset(check->sums, 0, (size_t)check->n * 3 * sizeof check->sums[0]);
    memset(check->columns, 0, (size_t)check->size * 3 * sizeof *check->columns);
}

void hrf_level_check_row(struct hrf_level_check *check, int64_t row, const unsigned char *rgb)
{
    enum { AT_ONCE = 256 }; /* 256 * 255 < 65536 */
    if (check == NULL || check->first + check->n_done >= check->n)
        return;
    const int64_t y = check->first_row + row;
    const int64_t begin = cell_begin(check, check->first + check->n_done);
    if (y < begin)
        return;
    if ((y - begin) % check->step == 0) {
        add_row(rgb, check->size * 3, check->columns);
        check->n_rows++;
        if (++check->n_columns_rows == AT_ONCE)
            sum_columns(check);
    }
    if (y + 1 == cell_begin(check, check->first + check->n_done + 1))
        finish_cells(check);
}

enum hrf_status hrf_level_check_refuse(const struct hrf_slide *slide, int32_t one_level,
                                       int32_t other_level, const int64_t place[4],
                                       const struct hrf_level_difference *d, struct hrf_error *err)
{
    return hrf_error_set(
        err, HRF_E_USER,
        "slide '%s' is damaged: levels %d and %d do not show the same at x %lld, y %lld (%lld x "
        "%lld px of level 0): R %d G %d B %d on level %d, R %d G %d B %d on level %d; copy the "
        "slide again, or if level 0 is sound, make the others anew from it ('vips tiffsave --tile "
        "--pyramid')",
        slide->shown, one_level, other_level, (long long)place[0], (long long)place[1],
        (long long)place[2], (long long)place[3], d->one[0], d->one[1], d->one[2], one_level,
        d->other[0], d->other[1], d->other[2], other_level);
}

/* `first`: the first row of the cells that were compared. */
static enum hrf_status refuse_block(const struct hrf_level_check *check, int64_t x0, int64_t y0,
                                    int64_t first, const struct hrf_level_difference *d,
                                    struct hrf_error *err)
{
    const int64_t place[4] = { x0 + llround((double)d->column * check->cell0_x),
                               y0 + llround((double)(first + d->row) * check->cell0_y),
                               llround((double)d->width * check->cell0_x),
                               llround((double)d->height * check->cell0_y) };
    return hrf_level_check_refuse(check->slide, check->level, hrf_patch_reader_level(check->coarse),
                                  place, d, err);
}

enum hrf_status hrf_level_check_end(struct hrf_level_check *check, int64_t x0, int64_t y0,
                                    struct hrf_error *err)
{
    struct hrf_level_difference difference;
    if (check == NULL || check->n_done == 0)
        return HRF_OK;
    const int64_t first = check->first, n = check->n_done;
    const int64_t white = hrf_slide_white_reads();
    HRF_TRY(hrf_patch_reader_read_rows(check->coarse, x0 - llround(check->cell0_x),
                                       y0 - llround(check->cell0_y), first, n + 2, check->around,
                                       NULL, NULL, err));
    if (hrf_slide_white_reads() > white) /* tiles of the other level do not decode */
        return HRF_OK;
    if (!hrf_level_difference_find(check->cells, check->around, check->n, n, &difference))
        return HRF_OK;
    return refuse_block(check, x0, y0, first, &difference, err);
}

enum hrf_status hrf_level_check_rows(struct hrf_level_check *check, int64_t x0, int64_t y0,
                                     int64_t first_row, int64_t n_rows, const unsigned char *rgb,
                                     struct hrf_error *err)
{
    hrf_level_check_begin(check, first_row);
    for (int64_t row = 0; row < n_rows && check != NULL; row++)
        hrf_level_check_row(check, row, rgb + row * check->size * 3);
    return hrf_level_check_end(check, x0, y0, err);
}
