/* rows.h - rows of one large region of a slide, straight into the network's input.
 *
 * For slide mode: the region is the only patch of a tile plan. Threads read strips of rows,
 * normalise them and put them where they belong; nothing but a strip per thread is held beside
 * the input itself. Any part of the rows can be asked for, and a row has the same bytes whatever
 * part it was read in, so a rank of a spatial split reads only what it needs.
 * Columns are cut out after reading: a slide's tiles are read by rows.
 */
#ifndef HRF_ENGINE_INPUT_ROWS_H
#define HRF_ENGINE_INPUT_ROWS_H

#include "engine/input/feed.h"

struct hrf_rows_config {
    struct hrf_slide *slide;          /* borrowed */
    const struct hrf_tile_plan *plan; /* borrowed: geometry */
    int64_t patch;                    /* which of its patches */
    int64_t first_row, n_rows;        /* of that patch */
    int64_t first_column, n_columns;  /* likewise; n_columns 0: all */
    double mean[3], std[3];           /* of RGB scaled to 0..1 */
    int32_t n_readers;                /* >= 1 */
};

/* out[n_rows][n_columns][3]. `times` is added to (all readers together; wait: the whole call). */
HRF_CHECKED enum hrf_status hrf_rows_read(const struct hrf_rows_config *config, float *out,
                                          struct hrf_feed_times *times, struct hrf_error *err);

#endif
