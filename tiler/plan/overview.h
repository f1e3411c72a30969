/* overview.h - the whole slide as one small RGB image. */
#ifndef HRF_TILER_PLAN_OVERVIEW_H
#define HRF_TILER_PLAN_OVERVIEW_H

#include "schema/record/tile_plan.h"
#include "tiler/slide/slide.h"

struct hrf_overview {
    unsigned char *rgb; /* [height][width][3], heap */
    int64_t width, height;
    bool met_white; /* a tile of it does not decode and was read as white (bad_tiles.h) */
};

/* The longest side of an overview in px; a square one of this size takes 200 MB. */
enum { HRF_OVERVIEW_MAX = 8192 };

/* Reads the whole slide, reduced to one px per `reduction` level-0 px (at least 1; each side at
 * most HRF_OVERVIEW_MAX), by area averaging from the coarsest level that has enough pixels. If
 * that is level 0, it is read in strips, so memory is that of the overview plus 28 MB. HRF_E_USER:
 * the slide is damaged. */
HRF_CHECKED enum hrf_status hrf_overview_read(struct hrf_slide *slide, double reduction,
                                              struct hrf_overview *out, struct hrf_error *err);
/* Receives row y of an overview, [width][3]. */
typedef enum hrf_status hrf_overview_row(void *context, int64_t y, const unsigned char *rgb,
                                         struct hrf_error *err);
/* Passes the rows of an overview of width x height px to `row`, from the top down, without holding
 * more than a strip of them. They are read from the coarsest level that has as many pixels.
 * *met_white becomes true where a tile does not decode and is white. */
HRF_CHECKED enum hrf_status hrf_overview_each_row(struct hrf_slide *slide, int64_t width,
                                                  int64_t height, hrf_overview_row *row,
                                                  void *context, bool *met_white,
                                                  struct hrf_error *err);
/* Makes the overview from a given level, which must have at least width x height px. */
HRF_CHECKED enum hrf_status hrf_overview_read_level(struct hrf_slide *slide, int32_t level,
                                                    int64_t width, int64_t height,
                                                    struct hrf_overview *out,
                                                    struct hrf_error *err);
/* Returns the level that hrf_overview_read() uses for an overview of that size. */
int32_t hrf_overview_level(const struct hrf_slide_info *info, int64_t width, int64_t height);
/* Returns the downsample of the level nearest to `reduction` if both differ by less than a factor
 * of `slack`, otherwise `reduction`. An overview that equals a level need not be resampled. */
double hrf_overview_snap(const struct hrf_slide_info *info, double reduction, double slack);
void hrf_overview_release(struct hrf_overview *overview);

#endif
