/* column_sums.h - sums of rows of pixels by column, and of columns by cell: what comparing two
 * levels of a slide costs most (level_check.c). */
#ifndef HRF_TILER_SLIDE_COLUMN_SUMS_H
#define HRF_TILER_SLIDE_COLUMN_SUMS_H

#include <stdint.h>

/* Rows whose sums are kept in 16 bits before they are folded: 8 times the sum of so many bytes, of
 * neighbouring pixels, fits as well. */
enum { HRF_COLUMN_SUMS_MAX_ROWS = 32 };

/* The number of elements of `columns` for rows of n pixels. */
static inline int64_t hrf_column_sums_size(int64_t n_pixels)
{
    return 6 * ((n_pixels + 1) / 2);
}

/* One instance for an instruction set; all give the same numbers. */
struct hrf_column_sums {
    /* Adds rows of RGB pixels, `stride` bytes apart, to the sums of their columns. */
    void (*add)(const unsigned char *rows, int64_t stride, int64_t n_rows, int64_t n_pixels,
                uint16_t *columns);
    /* Adds the columns of n cells to the sums of their R, G and B, and makes the columns zero; cell
     * i has the pixels from begin[i] to begin[i + 1]. */
    void (*fold)(uint16_t *columns, int64_t n_pixels, const int32_t *begin, int64_t n,
                 int32_t *cells);
};
extern const struct hrf_column_sums hrf_column_sums_plain;
extern const struct hrf_column_sums hrf_column_sums_avx2;
extern const struct hrf_column_sums hrf_column_sums_avx512;

#endif
