/* infer_shapes_window.c - shape inference for operators with a window: convolution and pooling. */
#include "engine/ir/infer_shapes_private.h"
#include "engine/ir/op.h"

#include <stdint.h>

static const char *const axis_name[HRF_MAX_SPATIAL] = { "rows", "columns" };

int64_t hrf_window_output(const struct hrf_window *window, int axis, int64_t size)
{
    int64_t extent = window->dilation[axis] * (window->kernel[axis] - 1) + 1;
    int64_t padded = size + window->pad_begin[axis] + window->pad_end[axis];
    int64_t stride = window->stride[axis];
    if (padded < extent)
        return 0;
    if (!window->ceil_mode)
        return (padded - extent) / stride + 1;
    int64_t n = (padded - extent + stride - 1) / stride + 1;
    if ((n - 1) * stride >= size + window->pad_begin[axis])
        n--;
    return n;
}

static bool is_within(int64_t number, int64_t least)
{
    return number >= least && number < HRF_MAX_SIDE;
}

enum hrf_status hrf_infer_check_side(struct hrf_inference *in, int axis, int64_t size)
{
    if (size <= HRF_MAX_SIDE)
        return HRF_OK;
    return hrf_infer_refuse(in, "%lld %s are more than the %lld that are supported",
                            (long long)size, axis_name[axis], (long long)HRF_MAX_SIDE);
}

static enum hrf_status check_window(struct hrf_inference *in)
{
    const struct hrf_window *w = &in->node->attributes.window;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        const bool sane = is_within(w->kernel[i], 1) && is_within(w->stride[i], 1) &&
                          is_within(w->dilation[i], 1) && is_within(w->pad_begin[i], 0) &&
                          is_within(w->pad_end[i], 0) &&
                          is_within(w->dilation[i] * (w->kernel[i] - 1), 0);
        if (!sane)
            return hrf_infer_fail(in,
                                  "impossible window along the %s: kernel %lld, stride %lld, "
                                  "dilation %lld, pads %lld and %lld; all, and what the window "
                                  "spans, must be below %lld",
                                  axis_name[i], (long long)w->kernel[i], (long long)w->stride[i],
                                  (long long)w->dilation[i], (long long)w->pad_begin[i],
                                  (long long)w->pad_end[i], (long long)HRF_MAX_SIDE);
    }
    return HRF_OK;
}

/* SAME gives ceil(size / stride) outputs. An odd pad goes to the end (UPPER) or the begin
 * (LOWER). */
static void resolve_auto_pad(struct hrf_window *w, int axis, int64_t size)
{
    if (w->auto_pad == HRF_PAD_EXPLICIT)
        return;
    int64_t total = 0;
    if (w->auto_pad != HRF_PAD_VALID) {
        int64_t n = (size + w->stride[axis] - 1) / w->stride[axis];
        int64_t extent = w->dilation[axis] * (w->kernel[axis] - 1) + 1;
        total = (n - 1) * w->stride[axis] + extent - size;
        total = total < 0 ? 0 : total;
    }
    int64_t smaller = total / 2;
    w->pad_begin[axis] = w->auto_pad == HRF_PAD_SAME_LOWER ? total - smaller : smaller;
    w->pad_end[axis] = total - w->pad_begin[axis];
}

static enum hrf_status slide_window(struct hrf_inference *in, const struct hrf_shape *x)
{
    struct hrf_window *w = &in->node->attributes.window;
    HRF_TRY(check_window(in));
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        HRF_TRY(hrf_infer_check_side(in, i, x->dims[2 + i]));
        resolve_auto_pad(w, i, x->dims[2 + i]);
        in->shape.dims[2 + i] = hrf_window_output(w, i, x->dims[2 + i]);
        if (in->shape.dims[2 + i] < 1)
            return hrf_infer_fail(in, "a window of %lld %s does not fit into %lld",
                                  (long long)(w->dilation[i] * (w->kernel[i] - 1) + 1),
                                  axis_name[i], (long long)x->dims[2 + i]);
    }
    return HRF_OK;
}

static enum hrf_status match_kernel(struct hrf_inference *in, const struct hrf_shape *w)
{
    struct hrf_window *window = &in->node->attributes.window;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        if (window->kernel[i] == 0)
            window->kernel[i] = w->dims[2 + i];
        if (window->kernel[i] != w->dims[2 + i])
            return hrf_infer_fail(in, "kernel_shape says %lld %s, the weights have %lld",
                                  (long long)window->kernel[i], axis_name[i],
                                  (long long)w->dims[2 + i]);
    }
    return HRF_OK;
}

enum hrf_status hrf_infer_conv(struct hrf_inference *in)
{
    struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_shape *x = &hrf_infer_input(in, HRF_CONV_X)->shape;
    const struct hrf_shape *w = &hrf_infer_input(in, HRF_CONV_WEIGHTS)->shape;
    if (w->rank != 4 || a->group < 1 || a->group > w->dims[0] || w->dims[0] % a->group != 0 ||
        x->dims[1] % a->group != 0 || x->dims[1] / a->group != w->dims[1])
        return hrf_infer_fail(in, "the weights do not fit %lld channels in %lld groups",
                              (long long)x->dims[1], (long long)a->group);
    HRF_TRY(match_kernel(in, w));
    in->shape = (struct hrf_shape){ .rank = 4, .dims = { x->dims[0], w->dims[0] } };
    HRF_TRY(slide_window(in, x));
    const struct hrf_value *bias = hrf_infer_input(in, HRF_CONV_BIAS);
    if (bias != NULL && (bias->shape.rank != 1 || bias->shape.dims[0] != w->dims[0]))
        return hrf_infer_fail(in, "the bias does not hold %lld numbers", (long long)w->dims[0]);
    const struct hrf_value *residual = hrf_infer_input(in, HRF_CONV_RESIDUAL);
    if (residual != NULL && !hrf_shape_equal(&residual->shape, &in->shape))
        return hrf_infer_fail(in, "the residual does not have the result's shape");
    for (int32_t k = HRF_CONV_FACTORS; k <= HRF_CONV_SHIFTS; k++) {
        const struct hrf_value *of_channels = hrf_infer_input(in, k);
        if (of_channels != NULL &&
            (of_channels->shape.rank != 1 || of_channels->shape.dims[0] != x->dims[1]))
            return hrf_infer_fail(in, "the prologue does not hold %lld numbers",
                                  (long long)x->dims[1]);
    }
    return HRF_OK;
}

/* Computes the pads that give the wanted output size; 0 if no size is asked for. A size beyond
 * `full` becomes output padding. Source: ONNX ConvTranspose, output_shape and auto_pad. */
static int64_t resolve_output_size(struct hrf_inference *in, int axis, int64_t size, int64_t full)
{
    struct hrf_attributes *a = &in->node->attributes;
    struct hrf_window *w = &a->window;
    int64_t wanted = a->output.size[axis];
    if (wanted == 0 && (w->auto_pad == HRF_PAD_SAME_UPPER || w->auto_pad == HRF_PAD_SAME_LOWER))
        wanted = size * w->stride[axis];
    if (wanted == 0)
        return 0;
    const int64_t total = full > wanted ? full - wanted : 0;
    w->pad_begin[axis] = w->auto_pad == HRF_PAD_SAME_UPPER ? total / 2 : total - total / 2;
    w->pad_end[axis] = total - w->pad_begin[axis];
    return wanted;
}

static enum hrf_status spread_window(struct hrf_inference *in, const struct hrf_shape *x)
{
    const struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_window *w = &a->window;
    HRF_TRY(check_window(in));
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        const int64_t size = x->dims[2 + i], more = a->output.padding[i];
        HRF_TRY(hrf_infer_check_side(in, i, size));
        if (a->output.size[i] < 0)
            return hrf_infer_fail(in, "an output_shape of %lld %s is impossible",
                                  (long long)a->output.size[i], axis_name[i]);
        HRF_TRY(hrf_infer_check_side(in, i, a->output.size[i]));
        if (more < 0 || (more >= w->stride[i] && more >= w->dilation[i]))
            return hrf_infer_fail(in, "an output_padding of %lld needs a larger stride",
                                  (long long)more);
        const int64_t extent = w->dilation[i] * (w->kernel[i] - 1) + 1;
        const int64_t full = w->stride[i] * (size - 1) + extent + more;
        const int64_t wanted = resolve_output_size(in, i, size, full);
        in->shape.dims[2 + i] = wanted != 0 ? wanted : full - w->pad_begin[i] - w->pad_end[i];
        if (in->shape.dims[2 + i] < 1)
            return hrf_infer_fail(in, "the pads leave nothing of %lld %s", (long long)full,
                                  axis_name[i]);
        HRF_TRY(hrf_infer_check_side(in, i, in->shape.dims[2 + i]));
    }
    return HRF_OK;
}

enum hrf_status hrf_infer_conv_transpose(struct hrf_inference *in)
{
    struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_shape *x = &hrf_infer_input(in, HRF_CONV_X)->shape;
    const struct hrf_shape *w = &hrf_infer_input(in, HRF_CONV_WEIGHTS)->shape;
    if (w->rank != 4 || a->group < 1 || x->dims[1] != w->dims[0] || x->dims[1] % a->group != 0 ||
        w->dims[1] > HRF_MAX_ELEMENTS / a->group)
        return hrf_infer_fail(in, "the weights do not fit %lld channels in %lld groups",
                              (long long)x->dims[1], (long long)a->group);
    HRF_TRY(match_kernel(in, w));
    const int64_t channels = w->dims[1] * a->group;
    in->shape = (struct hrf_shape){ .rank = 4, .dims = { x->dims[0], channels } };
    HRF_TRY(spread_window(in, x));
    const struct hrf_value *bias = hrf_infer_input(in, HRF_CONV_BIAS);
    if (bias != NULL && (bias->shape.rank != 1 || bias->shape.dims[0] != channels))
        return hrf_infer_fail(in, "the bias does not hold %lld numbers", (long long)channels);
    return HRF_OK;
}

enum hrf_status hrf_infer_pool(struct hrf_inference *in)
{
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    const struct hrf_window *w = &in->node->attributes.window;
    in->shape = (struct hrf_shape){ .rank = 4, .dims = { x->dims[0], x->dims[1], 1, 1 } };
    if (!HRF_OP_HAS(in->node->op, window.kernel)) /* of the whole image */
        return HRF_OK;
    HRF_TRY(slide_window(in, x));
    /* A pooling window that covers padding only has no maximum and no mean. */
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        int64_t extent = w->dilation[i] * (w->kernel[i] - 1) + 1;
        if (w->pad_begin[i] >= extent || w->pad_end[i] >= extent)
            return hrf_infer_fail(in, "pads of %lld and %lld %s hide a window of %lld",
                                  (long long)w->pad_begin[i], (long long)w->pad_end[i],
                                  axis_name[i], (long long)extent);
    }
    return HRF_OK;
}

/* Of x and dy, which a CONV of these windows gives: the shape of its weights. */
enum hrf_status hrf_infer_conv_weight_gradient(struct hrf_inference *in)
{
    const struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    const struct hrf_shape *dy = &hrf_infer_input(in, 1)->shape;
    in->shape = (struct hrf_shape){ .rank = 4, .dims = { dy->dims[0] } };
    HRF_TRY(slide_window(in, x));
    if (dy->rank != 4 || dy->dims[0] != x->dims[0] || a->group < 1 || x->dims[1] % a->group != 0 ||
        dy->dims[1] % a->group != 0 || dy->dims[2] != in->shape.dims[2] ||
        dy->dims[3] != in->shape.dims[3])
        return hrf_infer_fail(in, "the gradient is not that of a convolution of the input");
    in->shape = (struct hrf_shape){ .rank = 4,
                                    .dims = { dy->dims[1], x->dims[1] / a->group,
                                              a->window.kernel[0], a->window.kernel[1] } };
    return HRF_OK;
}

/* Of x and dy, which a pool of these windows gives: the shape of x. */
enum hrf_status hrf_infer_pool_gradient(struct hrf_inference *in)
{
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    in->shape = (struct hrf_shape){ .rank = 4, .dims = { x->dims[0], x->dims[1] } };
    HRF_TRY(slide_window(in, x));
    if (!hrf_shape_equal(&hrf_infer_input(in, 1)->shape, &in->shape))
        return hrf_infer_fail(in, "the gradient is not that of a pool of the input");
    in->shape = *x;
    return HRF_OK;
}
