/* gradient_window.c - gradients of pools and of RESIZE. */
#include "engine/ir/resize.h"
#include "engine/ir/window_span.h"
#include "engine/passes/gradient/gradient_private.h"

static int32_t to_greatest(struct hrf_backward *b, const struct hrf_attributes *a)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    return HRF_APPLY(b, HRF_OP_MAX_POOL_GRADIENT, a, &shape, b->node.inputs[0], b->dy);
}

void hrf_gradient_max_pool(struct hrf_backward *b)
{
    struct hrf_attributes a = b->node.attributes;
    a.window.auto_pad = HRF_PAD_EXPLICIT;
    hrf_backward_give(b, 0, to_greatest(b, &a));
}

void hrf_gradient_global_max(struct hrf_backward *b)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    struct hrf_attributes a = hrf_attributes_of(HRF_OP_MAX_POOL_GRADIENT);
    for (int i = 0; i < HRF_MAX_SPATIAL; i++)
        a.window.kernel[i] = shape.dims[2 + i];
    hrf_backward_give(b, 0, to_greatest(b, &a));
}

/* How many numbers of the window of output `at` its mean is divided by, along one axis. */
static int64_t count_along(const struct hrf_window *w, int axis, int64_t at, int64_t size)
{
    int64_t n = 0;
    for (int64_t k = 0; k < w->kernel[axis]; k++) {
        const int64_t i = hrf_window_first(w, axis, at) + k * w->dilation[axis];
        n += w->count_include_pad ? i < size + w->pad_end[axis] : i >= 0 && i < size;
    }
    return n;
}

/* 1 / how many numbers each mean is of: [1][1][rows][columns]. */
static int32_t inverse_counts(struct hrf_backward *b, const struct hrf_shape *x,
                              const struct hrf_shape *y)
{
    const struct hrf_window *w = &b->node.attributes.window;
    const struct hrf_shape shape = { 4, { 1, 1, y->dims[2], y->dims[3] } };
    HRF_AUTO_FREE float *inverse = hrf_alloc_array((size_t)hrf_shape_count(&shape),
                                                   sizeof *inverse);
    for (int64_t i = 0; i < hrf_shape_count(&shape); i++) {
        const int64_t n = count_along(w, 0, i / y->dims[3], x->dims[2]) *
                          count_along(w, 1, i % y->dims[3], x->dims[3]);
        inverse[i] = n > 0 ? 1 / (float)n : 0;
    }
    return hrf_backward_constant(b, HRF_F32, &shape, inverse);
}

/* dy, divided by how many numbers it is the mean of, goes to all of them. */
void hrf_gradient_average_pool(struct hrf_backward *b)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    const struct hrf_shape of_dy = hrf_backward_shape(b, b->dy);
    const struct hrf_window *w = &b->node.attributes.window;
    const struct hrf_shape of_ones = { 4, { shape.dims[1], 1, w->kernel[0], w->kernel[1] } };
    struct hrf_attributes a = hrf_backward_spread(&b->node.attributes, &shape, &of_dy);
    HRF_AUTO_FREE float *ones = hrf_alloc_array((size_t)hrf_shape_count(&of_ones), sizeof *ones);
    for (int64_t i = 0; i < hrf_shape_count(&of_ones); i++)
        ones[i] = 1;
    a.group = shape.dims[1];
    const int32_t divided = hrf_backward_binary(b, HRF_OP_MUL, b->dy,
                                                inverse_counts(b, &shape, &of_dy));
    hrf_backward_give(b, 0,
                      HRF_APPLY(b, HRF_OP_CONV_TRANSPOSE, &a, &shape, divided,
                                hrf_backward_constant(b, HRF_F32, &of_ones, ones)));
}

void hrf_gradient_global_mean(struct hrf_backward *b)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    const double area = (double)shape.dims[2] * (double)shape.dims[3];
    const int32_t divided = hrf_backward_binary(b, HRF_OP_MUL, b->dy,
                                                hrf_backward_scalar(b, 1 / area));
    hrf_backward_give(b, 0, hrf_backward_expand(b, divided, &shape));
}

/* The weights of a RESIZE along one axis: [n_out][n_in], or its transpose. */
static int32_t resize_weights(struct hrf_backward *b, int axis, bool is_transposed)
{
    const struct hrf_resize *resize = &b->node.attributes.resize;
    const int64_t n_in = hrf_backward_input_shape(b, 0).dims[2 + axis];
    const int64_t n_out = hrf_backward_shape(b, b->dy).dims[2 + axis];
    const struct hrf_shape shape = {
        2, { is_transposed ? n_in : n_out, is_transposed ? n_out : n_in }
    };
    HRF_AUTO_FREE float *weights = hrf_calloc((size_t)(n_in * n_out), sizeof *weights);
    for (int64_t i = 0; i < n_out; i++) {
        const struct hrf_resize_tap tap = hrf_resize_tap_at(resize, axis, n_in, n_out, i);
        for (int32_t t = 0; t < hrf_resize_n(resize); t++)
            weights[is_transposed ? tap.index[t] * n_out + i : i * n_in + tap.index[t]] +=
                (float)tap.weight[t];
    }
    return hrf_backward_constant(b, HRF_F32, &shape, weights);
}

/* y = R x C' with the weights R of rows and C of columns: dx = R' dy C. */
void hrf_gradient_resize(struct hrf_backward *b)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    struct hrf_shape rows_done = hrf_backward_shape(b, b->dy);
    rows_done.dims[2] = shape.dims[2];
    const int32_t rows = HRF_APPLY(b, HRF_OP_MATMUL, NULL, &rows_done, resize_weights(b, 0, true),
                                   b->dy);
    hrf_backward_give(b, 0,
                      HRF_APPLY(b, HRF_OP_MATMUL, NULL, &shape, rows, resize_weights(b, 1, false)));
}
