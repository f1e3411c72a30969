/* level_check.h - checks that two levels of a slide show the same picture.
 *
 * If tiles of a level are lost, empty, misplaced or wrongly decoded, OpenSlide returns white,
 * garbage or other tissue without an error, while the tissue was found on another level. Therefore
 * pixels read from one level are compared with a coarser level, in overlapping squares of 64 um of
 * cells of about 4 um. The other level may be shifted by up to one cell. Two levels differ in a
 * square
 * - if its mean colour lies outside the range of the other level's means by more than a tolerance,
 * - or if both levels have texture there, and their cells do not correlate at any of the shifts.
 * Pixels that pass are therefore right to within the tolerance in every square of 64 um. The
 * tolerances and the reasons for them are in level_check.c.
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
    bool has_colour;                    /* the means differ; else the texture does */
    double correlation;                 /* of the texture */
};
/* Compares one[height][width][3] with other[height + 2][width + 2][3], which has one cell more on
 * every side, in squares of square x square cells, 16 at most. False: they show the same picture,
 * and *out is unchanged. Pure. */
bool hrf_level_difference_find(const unsigned char *one, const unsigned char *other, int64_t width,
                               int64_t height, int64_t square, struct hrf_level_difference *out);

/* Creates a check for patches of `size` px at `mpp` um/px as hrf_patch_reader reads them; mpp_x and
 * mpp_y belong to the slide's level 0. *out is NULL if the slide has no coarser level to compare
 * with. */
HRF_CHECKED enum hrf_status hrf_level_check_create(struct hrf_slide *slide, double mpp_x,
                                                   double mpp_y, int64_t size, double mpp,
                                                   struct hrf_level_check **out,
                                                   struct hrf_error *err);
void hrf_level_check_destroy(struct hrf_level_check *check);
HRF_DEFINE_AUTO(hrf_level_check)
/* rgb[n_rows][size][3]: the rows [first_row, first_row + n_rows) of the patch at (x0, y0), level-0
 * px. Cells that do not lie completely in these rows are skipped. HRF_E_USER: the levels differ;
 * the text names slide, place, levels and what each level shows. `check` NULL: HRF_OK. */
HRF_CHECKED enum hrf_status hrf_level_check_rows(struct hrf_level_check *check, int64_t x0,
                                                 int64_t y0, int64_t first_row, int64_t n_rows,
                                                 const unsigned char *rgb, struct hrf_error *err);
/* The same in steps, while the patch is read: begin, then all rows in order, which
 * hrf_take_rows (patch_reader.h) describes, then the end. */
void hrf_level_check_begin(struct hrf_level_check *check, int64_t first_row);
void hrf_level_check_take(struct hrf_level_check *check, int64_t row, int64_t n,
                          const unsigned char *rgb, int64_t stride);
HRF_CHECKED enum hrf_status hrf_level_check_end(struct hrf_level_check *check, int64_t x0,
                                                int64_t y0, struct hrf_error *err);
/* Returns HRF_E_USER with such a text, for levels that the caller has compared; `place` is x0, y0,
 * width and height in level-0 px. */
enum hrf_status hrf_level_check_refuse(const struct hrf_slide *slide, int32_t one_level,
                                       int32_t other_level, const int64_t place[4],
                                       const struct hrf_level_difference *difference,
                                       struct hrf_error *err);

#endif
