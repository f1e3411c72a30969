/* window_span.h - which input positions the windows of outputs cover, along one axis (0: rows, 1:
 * columns). For convolutions and pools; whoever clips to the image does so afterwards. */
#ifndef HRF_ENGINE_IR_WINDOW_SPAN_H
#define HRF_ENGINE_IR_WINDOW_SPAN_H

#include "engine/ir/attributes.h"

/* Positions that the windows of n neighbouring outputs cover together, those in gaps between them
 * included. */
static inline int64_t hrf_window_span(const struct hrf_window *window, int axis, int64_t n)
{
    return (n - 1) * window->stride[axis] + (window->kernel[axis] - 1) * window->dilation[axis] + 1;
}

/* The first of them for outputs from `output` on; negative in the padding. */
static inline int64_t hrf_window_first(const struct hrf_window *window, int axis, int64_t output)
{
    return output * window->stride[axis] - window->pad_begin[axis];
}

#endif
