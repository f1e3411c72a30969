/* resize.h - RESIZE: where in the input an output row or column comes from, whole or in part. */
#ifndef HRF_ENGINE_IR_RESIZE_H
#define HRF_ENGINE_IR_RESIZE_H

#include "engine/ir/graph.h"

enum { HRF_RESIZE_TAPS = 4 };
/* Output row y is the sum of weight[t] times input row index[t], t < n; columns likewise. */
struct hrf_resize_tap {
    int64_t index[HRF_RESIZE_TAPS]; /* in the input; places beyond it are its nearest */
    double weight[HRF_RESIZE_TAPS];
};
int32_t hrf_resize_n(const struct hrf_resize *resize); /* taps of an output row */
/* Of output row (axis 0) or column (1) `i`, where the input has n_in and the output n_out of them.
 * Where `resize` is a part of a resize, all three count in the part. A later row's places are never
 * before an earlier one's. */
struct hrf_resize_tap hrf_resize_tap_at(const struct hrf_resize *resize, int axis, int64_t n_in,
                                        int64_t n_out, int64_t i);

#endif
