/* made_ranges.h - invented INT8 ranges, for planning and profiling without a calibration.
 *
 * Speed and memory do not depend on the contents of an image. A value that cannot be negative gets
 * a range from 0 up, and so becomes U8 as it would after a calibration; others get a range around
 * 0.
 */
#ifndef HRF_ENGINE_RUN_MADE_RANGES_H
#define HRF_ENGINE_RUN_MADE_RANGES_H

#include "engine/passes/lower.h"

struct hrf_made_ranges {
    struct hrf_graph *fused; /* owns the names */
    struct hrf_range *ranges;
    int32_t n_ranges;
};
/* Makes a range for every value that a session of `graph` may quantise. Input shapes must be
 * set. */
HRF_CHECKED enum hrf_status hrf_made_ranges_init(const struct hrf_graph *graph,
                                                 struct hrf_made_ranges *out,
                                                 struct hrf_error *err);
void hrf_made_ranges_release(struct hrf_made_ranges *made);

#endif
