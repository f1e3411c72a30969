/* conv_shape.h - the parameters of a convolution that all own kernels need, and which input
 * positions its outputs read.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_CONV_CONV_SHAPE_H
#define HRF_ENGINE_BACKEND_CPU_CONV_CONV_SHAPE_H

#include "base/min_max.h"
#include "engine/ir/graph.h"
#include "engine/ir/window_span.h"

/* A fully connected layer (GEMM) counts as a convolution of images of one pixel each, one per
 * row. */
struct hrf_conv_shape {
    int64_t n_images;
    int64_t channels, rows, columns; /* of an input image */
    int64_t out_channels, out_rows, out_columns;
    int64_t n_groups;
    int64_t x_stride, y_stride; /* pixel strides in elements; a residual has the output's */
    enum hrf_dtype x_type, y_type;
    bool has_residual;
    struct hrf_window window; /* its kernel is the size of the weights */
};
struct hrf_conv_shape hrf_conv_shape_of(const struct hrf_graph *graph, const struct hrf_node *node);

/* The size of the output of all images, in bytes. */
static inline size_t hrf_conv_output_bytes(const struct hrf_conv_shape *s)
{
    return (size_t)(s->n_images * s->out_rows * s->out_columns * s->y_stride) *
           hrf_dtype_size(s->y_type);
}

/* Input positions along an axis that some outputs read: [first, first + n), of which
 * [first + begin, first + end) exist and the others are padding. */
struct hrf_conv_reach {
    int64_t first, n, begin, end;
};

/* The reach of outputs [output, output + n_outputs) along an axis (0: rows, 1: columns) of an
 * image. */
static inline struct hrf_conv_reach hrf_conv_reach_of(const struct hrf_conv_shape *s, int axis,
                                                      int64_t output, int64_t n_outputs)
{
    struct hrf_conv_reach r = { .first = hrf_window_first(&s->window, axis, output),
                                .n = hrf_window_span(&s->window, axis, n_outputs) };
    r.begin = hrf_clamp(-r.first, 0, r.n);
    r.end = hrf_clamp((axis == 0 ? s->rows : s->columns) - r.first, r.begin, r.n);
    return r;
}

/* True if tap `tap` along the axis of an output's window lies in the image. */
static inline bool hrf_conv_tap_exists(const struct hrf_conv_shape *s, int axis, int64_t output,
                                       int64_t tap)
{
    const int64_t at = hrf_window_first(&s->window, axis, output) + tap * s->window.dilation[axis];
    return at >= 0 && at < (axis == 0 ? s->rows : s->columns);
}

#endif
