#include "tests/ops/odd_nets.h"

#include "tests/unit/unit.h"

enum { MOST_SIDE = 24, MOST_CHANNELS = 12 };

/* An image on the way: its shape is what inference finds. */
struct image {
    int32_t value;
    struct hrf_shape shape;
};

static int64_t pick(struct build *b, int64_t low, int64_t high)
{
    return build_pick(b, low, high);
}

static bool one_in(struct build *b, int64_t n)
{
    return pick(b, 1, n) == 1;
}

static struct image known(struct build *b, int32_t value)
{
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_graph_infer_shapes(b->graph, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return (struct image){ value, b->graph->values[value].shape };
}

static struct image add(struct build *b, enum hrf_op op, const int32_t *inputs, int32_t n,
                        const struct hrf_attributes *a)
{
    return known(b, build_node(b, op, inputs, n, a));
}

static struct image add_to(struct build *b, enum hrf_op op, struct image x,
                           const struct hrf_attributes *a)
{
    return add(b, op, &x.value, 1, a);
}

/* ---- windows ---- */

static int64_t outputs_of(const struct hrf_window *window, int axis, int64_t size)
{
    struct hrf_window w = *window;
    const int64_t extent = w.dilation[axis] * (w.kernel[axis] - 1) + 1;
    if (w.auto_pad == HRF_PAD_VALID)
        w.pad_begin[axis] = w.pad_end[axis] = 0;
    else if (w.auto_pad != HRF_PAD_EXPLICIT)
        return (size + w.stride[axis] - 1) / w.stride[axis];
    (void)extent;
    return hrf_window_output(&w, axis, size);
}

/* Pads up to `most_pad`; windows that fit the image. */
static struct hrf_attributes pick_window(struct build *b, const struct image *x,
                                         int64_t most_kernel, bool is_pool)
{
    struct hrf_attributes a = hrf_attributes_default();
    struct hrf_window *w = &a.window;
    const bool is_auto = one_in(b, 3);
    w->ceil_mode = is_pool && one_in(b, 2);
    w->count_include_pad = is_pool && one_in(b, 2);
    if (is_auto)
        w->auto_pad = (enum hrf_auto_pad)pick(b, HRF_PAD_SAME_UPPER, HRF_PAD_VALID);
    for (int i = 0; i < 2; i++) {
        const int64_t size = x->shape.dims[2 + i];
        w->kernel[i] = pick(b, 1, most_kernel);
        w->dilation[i] = one_in(b, 4) ? pick(b, 2, 3) : 1;
        w->stride[i] = one_in(b, 3) ? pick(b, 2, 3) : 1;
        const int64_t extent = w->dilation[i] * (w->kernel[i] - 1) + 1;
        const int64_t most = is_pool ? w->kernel[i] - 1 : extent + 2;
        w->pad_begin[i] = is_auto || one_in(b, 3) ? 0 : pick(b, 0, most);
        w->pad_end[i] = is_auto || one_in(b, 3) ? 0 : pick(b, 0, most);
        if (is_pool && w->auto_pad != HRF_PAD_EXPLICIT)
            w->dilation[i] = 1;
        if (outputs_of(w, i, size) < 1 || outputs_of(w, i, size) > MOST_SIDE) {
            w->kernel[i] = w->stride[i] = w->dilation[i] = 1;
            w->pad_begin[i] = w->pad_end[i] = 0;
        }
        /* Of one that skips places, one place at least lies on an image of a row. */
        if (is_pool && size < extent)
            w->dilation[i] = 1;
        if (outputs_of(w, i, size) < 1) {
            w->kernel[i] = w->stride[i] = w->dilation[i] = 1;
            w->pad_begin[i] = w->pad_end[i] = 0;
        }
    }
    return a;
}

static struct image conv(struct build *b, struct image x)
{
    const struct hrf_attributes a = pick_window(b, &x, 4, false);
    const int64_t c = x.shape.dims[1];
    const bool is_depthwise = one_in(b, 4);
    const int64_t out = is_depthwise ? c * pick(b, 1, 2) : pick(b, 1, 9);
    return known(b, build_conv(b, x.value, c, out, is_depthwise ? c : 1, !one_in(b, 4), &a));
}

static struct image pool(struct build *b, struct image x)
{
    const bool is_max = one_in(b, 2);
    struct hrf_attributes a = pick_window(b, &x, 4, true);
    if (is_max)
        a.window.count_include_pad = false;
    return add_to(b, is_max ? HRF_OP_MAX_POOL : HRF_OP_AVERAGE_POOL, x, &a);
}

/* Up again, by transposed windows. */
static struct image up(struct build *b, struct image x)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t c = x.shape.dims[1], out = pick(b, 1, 6);
    for (int i = 0; i < 2; i++) {
        struct hrf_window *w = &a.window;
        w->stride[i] = pick(b, 1, 3);
        w->kernel[i] = pick(b, 1, 4);
        w->dilation[i] = one_in(b, 4) ? 2 : 1;
        const int64_t extent = (w->kernel[i] - 1) * w->dilation[i] + 1;
        w->pad_begin[i] = one_in(b, 2) ? 0 : pick(b, 0, extent - 1);
        w->pad_end[i] = one_in(b, 2) ? 0 : pick(b, 0, extent - 1);
        a.output.padding[i] = pick(b, 0, w->stride[i] - 1);
        const int64_t full = (x.shape.dims[2 + i] - 1) * w->stride[i] + extent +
                             a.output.padding[i];
        if (full - w->pad_begin[i] - w->pad_end[i] < 1)
            w->pad_begin[i] = w->pad_end[i] = 0;
        if (full > MOST_SIDE)
            return x;
    }
    const int32_t inputs[] = {
        x.value,
        build_constant(b, SHAPE(c, out, a.window.kernel[0], a.window.kernel[1]), -0.5, 0.5),
        build_constant(b, SHAPE(out), -1, 1)
    };
    return add(b, HRF_OP_CONV_TRANSPOSE, inputs, 3, &a);
}

/* ---- moves ---- */

static struct image pad(struct build *b, struct image x)
{
    struct hrf_attributes a = hrf_attributes_default();
    int64_t pads[8] = { 0 };
    const bool is_zero = one_in(b, 2);
    if (one_in(b, 4))
        a.pad.mode = (enum hrf_pad_mode)pick(b, HRF_PAD_EDGE, HRF_PAD_WRAP);
    for (int i = 0; i < 4; i++) {
        const int64_t size = x.shape.dims[2 + i % 2];
        const int64_t most = a.pad.mode == HRF_PAD_CONSTANT || size > 4 ? 4 : size - 1;
        const bool cuts = a.pad.mode == HRF_PAD_CONSTANT && size > 4 && one_in(b, 5);
        pads[i < 2 ? 2 + i : 4 + i] = cuts ? -1 : one_in(b, 3) ? 0 : pick(b, 0, most);
    }
    if (x.shape.dims[2] > MOST_SIDE - 8 || x.shape.dims[3] > MOST_SIDE - 8)
        return x;
    const int32_t inputs[] = { x.value, build_integers(b, 8, pads),
                               build_constant(b, (struct hrf_shape){ .rank = 0 }, 0.5, 1) };
    return add(b, HRF_OP_PAD, inputs, is_zero ? 2 : 3, &a);
}

static struct image slice_of(struct build *b, struct image x, int64_t axis, int64_t lo, int64_t hi,
                             int64_t step)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_axes = 1;
    a.axes[0] = axis;
    a.slice.starts[0] = lo;
    a.slice.ends[0] = hi;
    a.slice.steps[0] = step;
    return add_to(b, HRF_OP_SLICE, x, &a);
}

static struct image slice(struct build *b, struct image x)
{
    const int64_t axis = one_in(b, 2) ? 2 : pick(b, 1, 3), size = x.shape.dims[axis];
    const int64_t lo = pick(b, 0, size - 1), hi = pick(b, lo + 1, size);
    if (one_in(b, 8))
        return slice_of(b, x, axis, size - 1, INT64_MIN + 1, -1);
    return slice_of(b, x, axis, lo, hi, one_in(b, 3) ? pick(b, 2, 3) : 1);
}

static struct image join(struct build *b, struct image x, struct image y, int64_t axis)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int32_t both[] = { x.value, y.value };
    a.axis = axis;
    return add(b, HRF_OP_CONCAT, both, 2, &a);
}

static struct image unary(struct build *b, struct image x)
{
    static const enum hrf_op ops[] = { HRF_OP_RELU,    HRF_OP_SIGMOID, HRF_OP_LEAKY_RELU,
                                       HRF_OP_ABS,     HRF_OP_TANH,    HRF_OP_HARD_SWISH,
                                       HRF_OP_SOFTPLUS };
    struct hrf_attributes a = hrf_attributes_default();
    const enum hrf_op op = ops[pick(b, 0, 6)];
    a.alpha = 0.1F;
    return add_to(b, op, x, &a);
}

/* Parts of the rows (or others) by a Split: one goes on, or all come together in another order. */
static struct image split(struct build *b, struct image x)
{
    const int64_t axis = one_in(b, 3) ? pick(b, 1, 3) : 2, size = x.shape.dims[axis];
    if (size < 2)
        return x;
    const int64_t at = pick(b, 1, size - 1);
    struct image first = slice_of(b, x, axis, 0, at, 1), last = slice_of(b, x, axis, at, size, 1);
    if (one_in(b, 3))
        return one_in(b, 2) ? first : last;
    if (one_in(b, 2))
        first = unary(b, first);
    return one_in(b, 2) ? join(b, last, first, axis) : join(b, first, last, axis);
}

static struct image transpose(struct build *b, struct image x)
{
    static const int64_t orders[][4] = {
        { 0, 1, 3, 2 }, { 0, 2, 1, 3 }, { 0, 3, 2, 1 }, { 0, 2, 3, 1 }, { 0, 3, 1, 2 }
    };
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t k = pick(b, 0, 4);
    a.n_axes = 4;
    for (int i = 0; i < 4; i++)
        a.axes[i] = orders[k][i];
    const bool fits = x.shape.dims[a.axes[1]] <= MOST_CHANNELS;
    return fits ? add_to(b, HRF_OP_TRANSPOSE, x, &a) : x;
}

static struct image other_size(struct build *b, struct image x)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.resize.mode = (enum hrf_resize_mode)pick(b, 0, 2);
    a.resize.coordinates = (enum hrf_resize_coordinates)pick(b, 0, 3);
    a.resize.rounding = (enum hrf_resize_rounding)pick(b, 0, 3);
    a.resize.cubic_a = -0.75F;
    a.resize.exclude_outside = one_in(b, 2);
    for (int i = 0; i < 2; i++)
        a.resize.sizes[2 + i] = pick(b, 1, 16);
    return add_to(b, HRF_OP_RESIZE, x, &a);
}

static struct image blocks(struct build *b, struct image x)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.block.size = 2;
    if (x.shape.dims[1] % 4 == 0 && x.shape.dims[2] * 2 <= MOST_SIDE &&
        x.shape.dims[3] * 2 <= MOST_SIDE) {
        a.block.column_row_depth = one_in(b, 2);
        return add_to(b, HRF_OP_DEPTH_TO_SPACE, x, &a);
    }
    if (x.shape.dims[2] % 2 == 0 && x.shape.dims[3] % 2 == 0 && x.shape.dims[1] < 4)
        return add_to(b, HRF_OP_SPACE_TO_DEPTH, x, &a);
    return x;
}

/* Rows, columns or channels in another order, some twice. */
static struct image gather(struct build *b, struct image x)
{
    struct hrf_attributes a = hrf_attributes_default();
    int64_t indices[8];
    const int64_t n = pick(b, 1, 8);
    a.axis = pick(b, 1, 3);
    for (int64_t i = 0; i < n; i++)
        indices[i] = pick(b, 0, x.shape.dims[a.axis] - 1);
    const int32_t inputs[] = { x.value, build_integers(b, n, indices) };
    return add(b, HRF_OP_GATHER, inputs, 2, &a);
}

static struct image tile(struct build *b, struct image x)
{
    const int64_t repeats[] = { 1, 1, pick(b, 1, 2), pick(b, 1, 2) };
    if (x.shape.dims[2] > MOST_SIDE / 2 || x.shape.dims[3] > MOST_SIDE / 2)
        return x;
    const int32_t inputs[] = { x.value, build_integers(b, 4, repeats) };
    return add(b, HRF_OP_TILE, inputs, 2, NULL);
}

/* ---- over many pixels ---- */

static struct image reduce(struct build *b, struct image x)
{
    static const enum hrf_op ops[] = { HRF_OP_REDUCE_MEAN, HRF_OP_REDUCE_MEAN,
                                       HRF_OP_REDUCE_MAX,  HRF_OP_REDUCE_MIN,
                                       HRF_OP_REDUCE_SUM,  HRF_OP_REDUCE_L1,
                                       HRF_OP_REDUCE_L2,   HRF_OP_REDUCE_LOG_SUM_EXP };
    struct hrf_attributes a = hrf_attributes_default();
    const enum hrf_op op = ops[pick(b, 0, 7)];
    const int64_t which = pick(b, 1, 7);
    a.keep_dims = true;
    for (int i = 0; i < 3; i++)
        if (which >> i & 1)
            a.axes[a.n_axes++] = 1 + i;
    const struct image r = add_to(b, op, x, &a);
    if (one_in(b, 4))
        return r;
    return known(b, build_binary(b, one_in(b, 2) ? HRF_OP_ADD : HRF_OP_MAX, x.value, r.value));
}

static struct image norm(struct build *b, struct image x)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t c = x.shape.dims[1];
    int64_t n = x.shape.dims[3];
    a.epsilon = 0.05F;
    switch (pick(b, 0, 3)) {
    case 0: /* InstanceNormalization, or groups */
        a.n_groups = one_in(b, 3) && c % 2 == 0 ? 2 : 0;
        {
            const int32_t inputs[] = { x.value, build_constant(b, SHAPE(c), 0.5, 1.5),
                                       build_constant(b, SHAPE(c), -0.5, 0.5) };
            return add(b, HRF_OP_GROUP_NORM, inputs, 3, &a);
        }
    case 1: {
        a.axis = pick(b, 2, 3);
        const struct hrf_shape shape = a.axis == 3 ? SHAPE(n) : SHAPE(x.shape.dims[2], n);
        const int32_t inputs[] = { x.value, build_constant(b, shape, 0.5, 1.5),
                                   build_constant(b, shape, -0.5, 0.5) };
        return add(b, HRF_OP_LAYER_NORM, inputs, 3, &a);
    }
    case 2:
        return known(b, build_batch_norm(b, x.value, c));
    default:
        a.axis = pick(b, 1, 3);
        return add_to(b, HRF_OP_SOFTMAX, x, &a);
    }
}

static struct image local_norm(struct build *b, struct image x)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.lrn.size = pick(b, 1, 4);
    a.lrn.alpha = 0.3F;
    a.lrn.beta = 0.75F;
    a.lrn.bias = 1;
    return add_to(b, HRF_OP_LRN, x, &a);
}

/* A number for each channel, row, column or pixel on top. */
static struct image with_constant(struct build *b, struct image x)
{
    struct hrf_shape shape = { .rank = 4, .dims = { 1, 1, 1, 1 } };
    const int64_t which = pick(b, 0, 7);
    for (int i = 0; i < 3; i++)
        shape.dims[1 + i] = which >> i & 1 ? x.shape.dims[1 + i] : 1;
    const int32_t constant = build_constant(b, shape, -1, 1);
    return known(b, build_binary(b, one_in(b, 2) ? HRF_OP_ADD : HRF_OP_MUL, x.value, constant));
}

static struct image gate(struct build *b, struct image x)
{
    const bool is_max = one_in(b, 3);
    const int64_t c = x.shape.dims[1];
    int32_t g = build_unary(b, is_max ? HRF_OP_GLOBAL_MAX_POOL : HRF_OP_GLOBAL_AVERAGE_POOL,
                            x.value);
    if (one_in(b, 2))
        g = build_plain_conv(b, g, c, c, 1, 1, true);
    return known(b, build_binary(b, HRF_OP_MUL, x.value, build_unary(b, HRF_OP_SIGMOID, g)));
}

static struct image attention(struct build *b, struct image x)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t c = x.shape.dims[1];
    a.performer.heads = 1;
    a.performer.exponential = one_in(b, 2);
    a.performer.epsilon = 1e-3F;
    const int32_t inputs[] = { x.value, build_plain_conv(b, x.value, c, c, 1, 1, true), x.value,
                               build_constant(b, SHAPE(4, c), -0.5, 0.5) };
    return known(
        b, build_binary(b, HRF_OP_ADD, x.value, build_node(b, HRF_OP_PERFORMER, inputs, 4, &a)));
}

/* Two branches of different reach that meet again. */
static struct image residual(struct build *b, struct image x)
{
    const int64_t c = x.shape.dims[1], kernel = 1 + 2 * pick(b, 0, 2);
    const int32_t y = build_plain_conv(b, x.value, c, c, kernel, 1, true);
    if (one_in(b, 3))
        return join(b, known(b, y), x, one_in(b, 2) ? 1 : pick(b, 2, 3));
    return known(b, build_binary(b, one_in(b, 3) ? HRF_OP_MAX : HRF_OP_ADD, x.value, y));
}

/* ---- all together ---- */

static bool is_small(const struct image *x)
{
    return x->shape.dims[1] <= MOST_CHANNELS && x->shape.dims[2] <= MOST_SIDE &&
           x->shape.dims[3] <= MOST_SIDE;
}

struct hrf_graph *make_odd_net(uint64_t seed)
{
    static struct image (*const parts[])(struct build *, struct image) = {
        conv,      conv,       conv,       conv,          pool,  pool,      pool,
        up,        pad,        pad,        slice,         split, split,     unary,
        transpose, other_size, blocks,     gather,        tile,  reduce,    reduce,
        norm,      norm,       local_norm, with_constant, gate,  attention, residual
    };
    static const int64_t batches[] = { 1, 1, 3, 8 };
    struct build b = build_start(seed);
    const bool is_line = one_in(&b, 6);
    struct image x = { .shape = SHAPE(batches[pick(&b, 0, 3)], pick(&b, 1, 4),
                                      is_line ? 1 : pick(&b, 1, 12),
                                      one_in(&b, 6) ? 1 : pick(&b, 1, 9)) };
    x.value = build_input(&b, x.shape);
    for (int64_t i = pick(&b, 2, 7); i > 0 && is_small(&x); i--)
        x = parts[pick(&b, 0, (int64_t)(sizeof parts / sizeof parts[0]) - 1)](&b, x);
    if (x.value == b.graph->inputs[0])
        x = conv(&b, x);
    if (one_in(&b, 3)) { /* a number for each channel at the end, as classifiers have it */
        struct hrf_attributes a = hrf_attributes_default();
        x = known(&b, build_unary(&b, HRF_OP_GLOBAL_AVERAGE_POOL, x.value));
        a.axis = 1;
        x = add_to(&b, HRF_OP_FLATTEN, x, &a);
    }
    return build_finish(&b, &x.value, 1);
}
