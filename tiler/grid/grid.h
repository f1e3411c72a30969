/* grid.h - which patches a slide is cut into: pure arithmetic.
 *
 * Positions are level-0 px. Column i begins at round(i * stride_x0); a column exists while its
 * patch lies wholly inside the slide, so the last strip narrower than a patch is not scored
 * (as WSInfer and CLAM do). A slide smaller than one patch has no columns or no rows.
 */
#ifndef HRF_TILER_GRID_GRID_H
#define HRF_TILER_GRID_GRID_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_grid {
    int64_t width, height;             /* of the slide, level-0 px */
    int64_t patch_width, patch_height; /* level-0 px */
    double stride_x, stride_y;         /* level-0 px */
    int32_t columns, rows;
};

/* size and stride in px at mpp; mpp_x, mpp_y: um/px of the slide. HRF_E_USER when the grid would
 * have 2^31 positions or more, or when a stride is under one level-0 px. */
HRF_CHECKED enum hrf_status hrf_grid_make(int64_t width, int64_t height, double mpp_x, double mpp_y,
                                          int64_t size, double mpp, int64_t stride,
                                          struct hrf_grid *out, struct hrf_error *err);
int64_t hrf_grid_x(const struct hrf_grid *grid, int32_t column);
int64_t hrf_grid_y(const struct hrf_grid *grid, int32_t row);
/* The inverse: column and row of a patch that begins at (x, y). */
int32_t hrf_grid_column(const struct hrf_grid *grid, int64_t x);
int32_t hrf_grid_row(const struct hrf_grid *grid, int64_t y);

/* A mask (0 and not 0) with sums, so that the tissue under a rectangle costs four reads. */
struct hrf_mask_sums {
    int64_t width, height;
    int64_t *sums; /* [(height + 1)][(width + 1)], heap */
};
HRF_CHECKED enum hrf_status hrf_mask_sums_make(const unsigned char *mask, int64_t width,
                                               int64_t height, struct hrf_mask_sums *out,
                                               struct hrf_error *err);
void hrf_mask_sums_release(struct hrf_mask_sums *sums);
/* Fraction of tissue under [x0, x1) x [y0, y1), given in fractions of the slide's width and
 * height; of the one mask pixel that it lies on where it is smaller. */
double hrf_mask_fraction(const struct hrf_mask_sums *sums, double x0, double x1, double y0,
                         double y1);

#endif
