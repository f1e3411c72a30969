/* sweep_write.h - the figures of a sweep over layouts: rows of numbers, pictures of them, a page.
 */
#ifndef HRF_ENGINE_PLANNING_SWEEP_WRITE_H
#define HRF_ENGINE_PLANNING_SWEEP_WRITE_H

#include "engine/planning/known_machine.h"

enum hrf_family {
    HRF_FAMILY_SPATIAL,
    HRF_FAMILY_DATA,
    HRF_FAMILY_LAYERS,
    HRF_FAMILY_PIPELINE,
    HRF_FAMILY_BIDIRECTIONAL,
    HRF_FAMILY_SPATIAL_BIDIRECTIONAL,
    HRF_N_FAMILIES
};
const char *hrf_family_name(enum hrf_family family); /* "spatial + bidirectional" */

struct hrf_sweep_row {
    enum hrf_family family;
    enum hrf_rate precision;
    int32_t n_ranks;
    bool is_measured; /* else simulated */
    char layout[96];
    double seconds; /* of a batch */
    int64_t peak_bytes;
};

struct hrf_sweep {
    const char *model;
    int64_t size, batch;
    enum hrf_rate first; /* precision of the charts that compare families */
    struct hrf_known known;
    struct hrf_sweep_row *rows;
    size_t n_rows, capacity;
};

/* sweep.csv, memory.svg, throughput.svg, pipeline.svg, bidirectional.svg and index.html. */
HRF_CHECKED enum hrf_status hrf_sweep_write(const struct hrf_sweep *sweep, const char *directory,
                                            struct hrf_error *err);

#endif
