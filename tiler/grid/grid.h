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

#include <stdbool.h>
#include <stdint.h>

struct hrf_grid {
    int64_t width, height;             /* of the slide, level-0 px */
    int64_t patch_width, patch_height; /* level-0 px */
    double stride_x, stride_y;         /* level-0 px */
    int32_t columns, rows;
    bool is_shifted; /* the last column and row are moved back to end with the slide */
};

/* size and stride in px at mpp; mpp_x, mpp_y: um/px of the slide. HRF_E_USER when the grid would
 * have 2^31 positions or more, or when a stride is under one level-0 px. */
HRF_CHECKED enum hrf_status hrf_grid_make(int64_t width, int64_t height, double mpp_x, double mpp_y,
                                          int64_t size, double mpp, int64_t stride,
                                          struct hrf_grid *out, struct hrf_error *err);
/* What becomes of the strip at the right and lower edge where no whole patch fits: it is left out
 * (drop), its patches reach beyond the slide (pad), or they are moved back to end with the slide
 * and overlap their neighbours (shift; a slide narrower than a patch has none). */
enum hrf_grid_edge { HRF_GRID_DROP, HRF_GRID_PAD, HRF_GRID_SHIFT };
/* Adds a column and a row where such a strip is. HRF_E_USER: as hrf_grid_make(). */
HRF_CHECKED enum hrf_status hrf_grid_cover_edge(struct hrf_grid *grid, enum hrf_grid_edge edge,
                                                struct hrf_error *err);
/* "drop", "pad" or "shift"; NULL is drop. False: it is none of them. */
bool hrf_grid_edge_parse(const char *word, enum hrf_grid_edge *out);
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
/* Fraction of tissue in the rectangle [x0, x1) x [y0, y1), whose sides are given as fractions of
 * the slide's width and height. For a rectangle smaller than a mask pixel, the value of that pixel.
 */
double hrf_mask_fraction(const struct hrf_mask_sums *sums, double x0, double x1, double y0,
                         double y1);
/* The part of the patch at (x, y), level-0 px, that is tissue of a mask of the whole slide, 0..1.
 * What is beyond the slide is none. */
double hrf_grid_tissue(const struct hrf_grid *grid, const struct hrf_mask_sums *sums, int64_t x,
                       int64_t y);

#endif
