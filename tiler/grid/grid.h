/* grid.h - the grid of patches on a slide. Pure arithmetic.
 *
 * Positions are level-0 px. Column i begins at round(i * stride_x). A column exists only if its
 * patch lies completely inside the slide, so a last strip that is narrower than a patch is not
 * scored (WSInfer and CLAM do the same), unless hrf_grid_cover_edge() adds a column for it. A slide
 * smaller than one patch has no columns or no rows.
 */
#ifndef HRF_TILER_GRID_GRID_H
#define HRF_TILER_GRID_GRID_H

#include "base/error.h"
#include "schema/settings/settings.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_grid {
    int64_t width, height;             /* size of the slide, level-0 px */
    int64_t patch_width, patch_height; /* level-0 px */
    double stride_x, stride_y;         /* level-0 px */
    int32_t columns, rows;
    bool is_shifted; /* the last column and row are moved back to end with the slide */
};

/* Computes the grid of patches of `size` px at `mpp` um/px, `stride` such px apart, on a slide
 * whose level 0 has mpp_x and mpp_y um/px. HRF_E_USER: the grid would have 2^31 positions or more,
 * or the stride is less than one level-0 px. */
HRF_CHECKED enum hrf_status hrf_grid_make(int64_t width, int64_t height, double mpp_x, double mpp_y,
                                          int64_t size, double mpp, int64_t stride,
                                          struct hrf_grid *out, struct hrf_error *err);
/* Says what becomes of the strip at the right and lower edge in which no whole patch fits: it is
 * left out (drop); it gets a column and a row whose patches reach beyond the slide (pad); or it
 * gets a column and a row that are moved back onto the slide and overlap their neighbours (shift;
 * there is none on a slide narrower than a patch). HRF_E_USER: as hrf_grid_make(). */
HRF_CHECKED enum hrf_status hrf_grid_cover_edge(struct hrf_grid *grid, enum hrf_edge edge,
                                                struct hrf_error *err);
int64_t hrf_grid_x(const struct hrf_grid *grid, int32_t column);
int64_t hrf_grid_y(const struct hrf_grid *grid, int32_t row);

/* Summed-area table of a mask (0 and not 0): the tissue under a rectangle costs four reads. */
struct hrf_mask_sums {
    int64_t width, height;
    int64_t *sums; /* [(height + 1)][(width + 1)], heap */
};
HRF_CHECKED enum hrf_status hrf_mask_sums_make(const unsigned char *mask, int64_t width,
                                               int64_t height, struct hrf_mask_sums *out,
                                               struct hrf_error *err);
void hrf_mask_sums_release(struct hrf_mask_sums *sums);
/* Returns the fraction of tissue in the rectangle [x0, x1) x [y0, y1), in fractions of the slide's
 * width and height. A rectangle smaller than a mask pixel has the value of that pixel. */
double hrf_mask_fraction(const struct hrf_mask_sums *sums, double x0, double x1, double y0,
                         double y1);
/* True if at least the fraction `min` of the patch at (x, y) is tissue in a mask of the whole
 * slide. With a `min` of 0, a corner of one mask pixel is enough. */
bool hrf_grid_keeps(const struct hrf_grid *grid, const struct hrf_mask_sums *sums, int64_t x,
                    int64_t y, double min);
/* Returns the fraction (0 to 1) of the patch at (x, y), level-0 px, that is tissue in a mask of the
 * whole slide. The area beyond the slide counts as background. */
double hrf_grid_tissue(const struct hrf_grid *grid, const struct hrf_mask_sums *sums, int64_t x,
                       int64_t y);

#endif
