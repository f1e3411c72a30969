/* rows.h - reads rows of one large region of a slide directly into the input of the network.
 *
 * Used in slide mode, where the region is the only patch of a tile plan. Threads read and normalise
 * strips of rows; besides the input itself, memory holds only one strip per thread. Any range of
 * rows can be read, and a row has the same bytes in every range, so a rank of a spatial split reads
 * only what it needs. Columns are cut out after reading, because the slide's tiles are read by
 * rows.
 */
#ifndef HRF_ENGINE_INPUT_ROWS_H
#define HRF_ENGINE_INPUT_ROWS_H

#include "engine/input/feed.h"

struct hrf_rows_config {
    struct hrf_slide *slide;          /* borrowed */
    const struct hrf_tile_plan *plan; /* borrowed: geometry */
    int64_t patch;                    /* index of the patch in the plan */
    int64_t first_row, n_rows;        /* of that patch */
    int64_t first_column, n_columns;  /* of that patch; n_columns 0: all */
    double mean[3], std[3];           /* of RGB scaled to 0..1 */
    int32_t n_readers;                /* >= 1 */
};

/* out[n_rows][n_columns][3]. Adds to `times`: decode and prepare summed over all readers, wait the
 * duration of the call. */
HRF_CHECKED enum hrf_status hrf_rows_read(const struct hrf_rows_config *config, float *out,
                                          struct hrf_feed_times *times, struct hrf_error *err);

#endif
