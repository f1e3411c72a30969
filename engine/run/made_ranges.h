/* made_ranges.h - INT8 ranges without a calibration: for planning and profiling.
 *
 * Speed and memory do not depend on what an image holds. The ranges are made up: from 0 up where a
 * value cannot be negative (and so becomes U8, as it would after a calibration), else around 0.
 */
#ifndef HRF_ENGINE_RUN_MADE_RANGES_H
#define HRF_ENGINE_RUN_MADE_RANGES_H

#include "engine/passes/lower.h"

struct hrf_made_ranges {
    struct hrf_graph *fused; /* owns the names */
    struct hrf_range *ranges;
    int32_t n_ranges;
};
/* Of every value that a session of `graph` (input shapes set) may quantise. */
HRF_CHECKED enum hrf_status hrf_made_ranges_init(const struct hrf_graph *graph,
                                                 struct hrf_made_ranges *out,
                                                 struct hrf_error *err);
void hrf_made_ranges_release(struct hrf_made_ranges *made);

#endif
