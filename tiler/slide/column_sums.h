/* column_sums.h - sums of rows of pixels by column, and of columns by cell: what comparing two
 * levels of a slide costs most (level_check.c). */
#ifndef HRF_TILER_SLIDE_COLUMN_SUMS_H
#define HRF_TILER_SLIDE_COLUMN_SUMS_H

#include <stdbool.h>
#include <stdint.h>

/* Rows whose sums are kept in 16 bits before they are folded: 8 times the sum of so many bytes, of
 * neighbouring pixels, fits as well. */
enum { HRF_COLUMN_SUMS_MAX_ROWS = 32 };
/* Pixels of a row that add_blocks() takes at a time. */
enum { HRF_COLUMN_SUMS_BLOCK = 32 };

/* Returns the number of elements of `columns` for rows of n pixels. The last two are read as part
 * of a vector, but not used. */
static inline int64_t hrf_column_sums_size(int64_t n_pixels)
{
    return 6 * ((n_pixels + 1) / 2) + 2;
}

/* One instance for an instruction set; all give the same numbers. */
struct hrf_column_sums {
    /* Adds rows of RGB pixels, `stride` bytes apart, to the sums of their columns, or sets these if
     * the rows are the first. */
    void (*add)(const unsigned char *rows, int64_t stride, int64_t n_rows, int64_t n_pixels,
                bool is_first, uint16_t *columns);
    /* Adds the columns of n cells to the sums of their R, G and B, or sets these if the columns are
     * the first; cell i has the pixels from begin[i] to begin[i + 1]. */
    void (*fold)(const uint16_t *columns, int64_t n_pixels, const int32_t *begin, int64_t n,
                 bool is_first, int32_t *cells);
    /* Does both at once for eight rows of whole blocks of pixels, which are cells of 8 or 16 px of
     * `width` side by side. NULL: the instance has no such function. */
    void (*add_blocks)(const unsigned char *rows, int64_t stride, int64_t n_pixels, int64_t width,
                       bool is_first, int32_t *cells);
};
extern const struct hrf_column_sums hrf_column_sums_plain;
extern const struct hrf_column_sums hrf_column_sums_avx2;
extern const struct hrf_column_sums hrf_column_sums_avx512;

#endif
