/* level_check.h - checks that two levels of a slide show the same picture.
 *
 * If tiles of a level are lost, empty or wrongly decoded, OpenSlide returns white or garbage
 * without an error, while the tissue was found on another level. Therefore pixels read from one
 * level are compared with a coarser level, by the mean colours of overlapping squares of 8 x 8
 * cells; a cell is a pixel of about 8 um. The other level gives a range of means, for shifts of up
 * to one cell. Two levels differ if the mean of a square lies outside that range by more than a
 * tolerance. Pixels that pass are therefore right to within the tolerance in every square of 64 um.
 * The tolerances and the reasons for them are in level_check.c.
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

/* For patches of `size` px at `mpp` um/px as hrf_patch_reader reads them; mpp_x and mpp_y belong to
 * the slide's level 0. *out is NULL if the slide has no coarser level to compare with. */
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
/* The same while the patch is read: begin, every row from first_row on in order, counted from it,
 * and the end once all were shown. */
void hrf_level_check_begin(struct hrf_level_check *check, int64_t first_row);
void hrf_level_check_row(struct hrf_level_check *check, int64_t row, const unsigned char *rgb);
HRF_CHECKED enum hrf_status hrf_level_check_end(struct hrf_level_check *check, int64_t x0,
                                                int64_t y0, struct hrf_error *err);
/* HRF_E_USER with that text, for levels compared by the caller; x0, y0, width and height of the
 * place in level-0 px. */
enum hrf_status hrf_level_check_refuse(const struct hrf_slide *slide, int32_t one_level,
                                       int32_t other_level, const int64_t place[4],
                                       const struct hrf_level_difference *difference,
                                       struct hrf_error *err);

#endif
