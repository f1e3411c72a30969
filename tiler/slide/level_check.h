/* level_check.h - do two levels of a slide show the same thing?
 *
 * A level whose tiles are lost, empty or wrongly decoded is white or garbage without an error from
 * OpenSlide, while the tissue was found on another level. So what is read from one level is
 * compared with a coarser one: the mean colours of overlapping squares of 8 x 8 cells, a cell being
 * a pixel of about 8 um. Two levels differ where the mean of a square lies further outside of those
 * that the other level has there, shifted by up to one cell, than a tolerance. What passes is
 * therefore right to within that tolerance in every square of 64 um; the figures stand, with their
 * reasons, in level_check.c.
 */
#ifndef HRF_TILER_SLIDE_LEVEL_CHECK_H
#define HRF_TILER_SLIDE_LEVEL_CHECK_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct hrf_slide;
struct hrf_level_check; /* opaque: scratch of one thread */

/* The square in which two images differ most. */
struct hrf_level_difference {
    int64_t column, row, width, height; /* in cells */
    unsigned char one[3], other[3];     /* mean RGB of each image in it */
};
/* one[height][width][3]; other[height + 2][width + 2][3] has one cell more on every side. False:
 * they show the same, *out is untouched. Pure. */
bool hrf_level_difference_find(const unsigned char *one, const unsigned char *other, int64_t width,
                               int64_t height, struct hrf_level_difference *out);

/* For patches of `size` px at `mpp` um/px as hrf_patch_reader reads them; mpp_x, mpp_y are of the
 * slide's level 0. *out is NULL where the slide has no coarser level to compare with. */
HRF_CHECKED enum hrf_status hrf_level_check_create(struct hrf_slide *slide, double mpp_x,
                                                   double mpp_y, int64_t size, double mpp,
                                                   struct hrf_level_check **out,
                                                   struct hrf_error *err);
void hrf_level_check_destroy(struct hrf_level_check *check);
HRF_DEFINE_AUTO(hrf_level_check)
/* rgb[n_rows][size][3]: the rows [first_row, first_row + n_rows) of the patch at (x0, y0), level-0
 * px. Cells that do not lie wholly in these rows are not looked at. HRF_E_USER: the levels differ;
 * the text names slide, place, levels and what each shows. `check` NULL: HRF_OK. */
HRF_CHECKED enum hrf_status hrf_level_check_rows(struct hrf_level_check *check, int64_t x0,
                                                 int64_t y0, int64_t first_row, int64_t n_rows,
                                                 const unsigned char *rgb, struct hrf_error *err);
/* HRF_E_USER with that text, for levels compared by the caller; x0, y0, width and height of the
 * place in level-0 px. */
enum hrf_status hrf_level_check_refuse(const struct hrf_slide *slide, int32_t one_level,
                                       int32_t other_level, const int64_t place[4],
                                       const struct hrf_level_difference *difference,
                                       struct hrf_error *err);

#endif
