/* resize.h - RESIZE: the input rows or columns, with weights, that an output row or column is
 * interpolated from, for a whole image or a part of one. */
#ifndef HRF_ENGINE_IR_RESIZE_H
#define HRF_ENGINE_IR_RESIZE_H

#include "engine/ir/graph.h"

enum { HRF_RESIZE_TAPS = 4 };
/* Output row y is the sum of weight[t] times input row index[t], t < n; columns likewise. */
struct hrf_resize_tap {
    int64_t index[HRF_RESIZE_TAPS]; /* input rows, clamped to the input */
    double weight[HRF_RESIZE_TAPS];
};
/* The length of axis `axis` (of N, C, H, W) of `size` elements, resized by its scale. The product
 * is one of floats, as in PyTorch and ONNX Runtime: 10 by 1.3 is 13, and not the 12
 * below 12.9999995. */
double hrf_resize_size(const struct hrf_resize *resize, int64_t size, int axis);
int32_t hrf_resize_n(const struct hrf_resize *resize); /* taps of one output row or column */
/* The taps of output row (axis 0) or column (axis 1) `i`. n_in and n_out are the sizes of input and
 * output. If `resize` is a part of a resize, i, n_in and n_out count within the part. The indices
 * never decrease from one output row to the next. */
struct hrf_resize_tap hrf_resize_tap_at(const struct hrf_resize *resize, int axis, int64_t n_in,
                                        int64_t n_out, int64_t i);

#endif
