#include "tests/ops/nets.h"

#include "engine/ir/op.h"

#include <math.h>
#include <string.h>

/* An image on the way, and its size. */
struct image {
    int32_t value;
    int64_t channels, rows, columns;
};

static struct hrf_attributes pick_window(struct build *b, const struct image *x, int64_t largest)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t size[] = { x->rows, x->columns };
    for (int i = 0; i < 2; i++) {
        struct hrf_window *w = &a.window;
        w->kernel[i] = build_pick(b, 1, largest);
        w->dilation[i] = build_pick(b, 0, 4) == 0 ? 2 : 1;
        w->stride[i] = build_pick(b, 0, 2) == 0 ? 2 : 1;
        w->pad_begin[i] = build_pick(b, 0, w->kernel[i] - 1);
        w->pad_end[i] = build_pick(b, 0, w->kernel[i] - 1);
        const int64_t extent = (w->kernel[i] - 1) * w->dilation[i] + 1;
        if (size[i] + w->pad_begin[i] + w->pad_end[i] < extent + 2 * w->stride[i]) {
            w->kernel[i] = w->stride[i] = w->dilation[i] = 1; /* too small an image for it */
            w->pad_begin[i] = w->pad_end[i] = 0;
        }
    }
    return a;
}

static void resize(struct image *x, const struct hrf_attributes *a)
{
    x->rows = hrf_window_output(&a->window, 0, x->rows);
    x->columns = hrf_window_output(&a->window, 1, x->columns);
}

static struct image conv(struct build *b, struct image x)
{
    const struct hrf_attributes a = pick_window(b, &x, 5);
    const bool grouped = x.channels % 2 == 0 && build_pick(b, 0, 3) == 0;
    const int64_t out = 2 * build_pick(b, 2, 9);
    x.value = build_conv(b, x.value, x.channels, out, grouped ? 2 : 1, build_pick(b, 0, 1) == 0,
                         &a);
    x.channels = out;
    resize(&x, &a);
    return x;
}

static struct image pool(struct build *b, struct image x)
{
    struct hrf_attributes a = pick_window(b, &x, 3);
    const bool is_max = build_pick(b, 0, 1) == 0;
    for (int i = 0; i < 2; i++) /* oneDNN and others want pads below the kernel */
        if (a.window.kernel[i] == 1)
            a.window.pad_begin[i] = a.window.pad_end[i] = 0;
    a.window.ceil_mode = build_pick(b, 0, 1) == 0;
    a.window.count_include_pad = build_pick(b, 0, 1) == 0;
    x.value = build_node(b, is_max ? HRF_OP_MAX_POOL : HRF_OP_AVERAGE_POOL, &x.value, 1, &a);
    resize(&x, &a);
    return x;
}

/* conv3x3 - act - conv3x3, and the image itself on top. */
static struct image residual(struct build *b, struct image x)
{
    int32_t y = build_plain_conv(b, x.value, x.channels, x.channels, 3, 1, true);
    y = build_batch_norm(b, y, x.channels);
    y = build_unary(b, HRF_OP_RELU, y);
    y = build_plain_conv(b, y, x.channels, x.channels, 3, 1, false);
    x.value = build_unary(b, HRF_OP_RELU, build_binary(b, HRF_OP_ADD, y, x.value));
    return x;
}

/* Two branches of different reach, side by side. */
static struct image branches(struct build *b, struct image x)
{
    const int64_t left = 2 * build_pick(b, 1, 4), right = 2 * build_pick(b, 1, 4);
    struct hrf_attributes a = hrf_attributes_default();
    int32_t inputs[2] = { build_plain_conv(b, x.value, x.channels, left, 1, 1, true),
                          build_plain_conv(b, x.value, x.channels, right, 5, 1, true) };
    a.axis = 1;
    x.value = build_node(b, HRF_OP_CONCAT, inputs, 2, &a);
    x.channels = left + right;
    return x;
}

/* Squeeze and excite: a mean over the image decides on its channels. */
static struct image gate(struct build *b, struct image x)
{
    const bool is_max = build_pick(b, 0, 2) == 0;
    int32_t g = build_unary(b, is_max ? HRF_OP_GLOBAL_MAX_POOL : HRF_OP_GLOBAL_AVERAGE_POOL,
                            x.value);
    g = build_plain_conv(b, g, x.channels, x.channels, 1, 1, true);
    g = build_unary(b, HRF_OP_SIGMOID, g);
    x.value = build_binary(b, HRF_OP_MUL, x.value, g);
    return x;
}

/* Pre-activation: a norm that no convolution before it can take in. */
static struct image preact(struct build *b, struct image x)
{
    const int32_t y = build_unary(b, HRF_OP_RELU, build_batch_norm(b, x.value, x.channels));
    x.value = build_binary(b, HRF_OP_ADD, x.value,
                           build_plain_conv(b, y, x.channels, x.channels, 3, 1, true));
    return x;
}

static struct image pad(struct build *b, struct image x)
{
    struct hrf_attributes a = hrf_attributes_default();
    int64_t pads[8] = { 0 };
    for (int i = 0; i < 2; i++) {
        pads[2 + i] = build_pick(b, 0, 2);
        pads[6 + i] = build_pick(b, 0, 2);
    }
    const int32_t inputs[] = { x.value, build_integers(b, 8, pads) };
    x.value = build_node(b, HRF_OP_PAD, inputs, 2, &a);
    x.rows += pads[2] + pads[6];
    x.columns += pads[3] + pads[7];
    return x;
}

static int64_t spread(const struct hrf_attributes *a, int i, int64_t size)
{
    const struct hrf_window *w = &a->window;
    return (size - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 +
           a->output.padding[i] - w->pad_begin[i] - w->pad_end[i];
}

/* Windows side by side half the time: U-Net's way up. */
static struct image up(struct build *b, struct image x)
{
    struct hrf_attributes a = hrf_attributes_default();
    const bool beside = build_pick(b, 0, 1) == 0;
    const int64_t out = 2 * build_pick(b, 2, 6), side = build_pick(b, 1, 3);
    if (x.rows > 24 || x.columns > 24)
        return x;
    for (int i = 0; i < 2; i++) {
        struct hrf_window *w = &a.window;
        w->stride[i] = beside ? side : build_pick(b, 1, 3);
        w->kernel[i] = beside ? side : build_pick(b, 1, 4);
        w->dilation[i] = !beside && build_pick(b, 0, 3) == 0 ? 2 : 1;
        w->pad_begin[i] = beside ? 0 : build_pick(b, 0, (w->kernel[i] - 1) * w->dilation[i]);
        w->pad_end[i] = beside ? 0 : build_pick(b, 0, (w->kernel[i] - 1) * w->dilation[i]);
        a.output.padding[i] = beside ? 0 : build_pick(b, 0, w->stride[i] - 1);
        if (spread(&a, i, i == 0 ? x.rows : x.columns) < 3)
            w->pad_begin[i] = w->pad_end[i] = 0;
    }
    const int32_t inputs[] = {
        x.value,
        build_constant(b, SHAPE(x.channels, out, a.window.kernel[0], a.window.kernel[1]), -0.5,
                       0.5),
        build_constant(b, SHAPE(out), -1, 1)
    };
    x.value = build_node(b, HRF_OP_CONV_TRANSPOSE, inputs, 3, &a);
    x.rows = spread(&a, 0, x.rows);
    x.columns = spread(&a, 1, x.columns);
    x.channels = out;
    return x;
}

/* To another size, as U-Nets without transposed convolutions do. */
static struct image other_size(struct build *b, struct image x)
{
    struct hrf_attributes a = hrf_attributes_default();
    const bool by_scales = build_pick(b, 0, 1) == 0;
    int64_t *const sizes[] = { &x.rows, &x.columns };
    if (x.rows > 24 || x.columns > 24)
        return x;
    a.resize.mode = (enum hrf_resize_mode)build_pick(b, 0, 2);
    a.resize.coordinates = (enum hrf_resize_coordinates)build_pick(b, 0, 3);
    a.resize.rounding = (enum hrf_resize_rounding)build_pick(b, 0, 3);
    a.resize.cubic_a = -0.75f;
    a.resize.exclude_outside = build_pick(b, 0, 1) == 0;
    for (int i = 0; i < 4; i++) {
        int64_t *const size = i < 2 ? NULL : sizes[i - 2];
        const float scale = 1 + 0.25f * (float)build_pick(b, 0, 5);
        a.resize.scales[i] = !by_scales ? 0 : size == NULL ? 1 : scale;
        if (size != NULL && by_scales)
            *size = (int64_t)((float)*size * scale);
        else if (size != NULL)
            *size = build_pick(b, 3, 30);
    }
    a.resize.sizes[2] = x.rows;
    a.resize.sizes[3] = x.columns;
    x.value = build_node(b, HRF_OP_RESIZE, &x.value, 1, &a);
    return x;
}

/* Blocks of pixels to channels and, after a convolution, back. */
static struct image blocks(struct build *b, struct image x)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.block.size = build_pick(b, 2, 3);
    if (x.rows % a.block.size == 0 && x.columns % a.block.size == 0 && x.rows * x.columns >= 36) {
        x.value = build_node(b, HRF_OP_SPACE_TO_DEPTH, &x.value, 1, &a);
        x.channels *= a.block.size * a.block.size;
        x.rows /= a.block.size;
        x.columns /= a.block.size;
    }
    if (x.rows > 20 || x.columns > 20)
        return x;
    const int64_t out = 2 * build_pick(b, 2, 5);
    x.value = build_plain_conv(b, x.value, x.channels, out * a.block.size * a.block.size, 3, 1,
                               true);
    a.block.column_row_depth = build_pick(b, 0, 1) == 0;
    x.value = build_node(b, HRF_OP_DEPTH_TO_SPACE, &x.value, 1, &a);
    x.channels = out;
    x.rows *= a.block.size;
    x.columns *= a.block.size;
    return x;
}

/* Every pixel, or every other one, from somewhere on. */
static struct image slice(struct build *b, struct image x)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t begin = build_pick(b, 0, 2), step = x.rows > 12 ? build_pick(b, 1, 2) : 1;
    if (x.rows < 6 || x.columns < 6)
        return x;
    a.n_axes = 2;
    for (int i = 0; i < 2; i++) {
        a.axes[i] = 2 + i;
        a.slice.starts[i] = begin;
        a.slice.ends[i] = i == 0 ? x.rows - 1 : INT64_MAX;
        a.slice.steps[i] = step;
    }
    x.value = build_node(b, HRF_OP_SLICE, &x.value, 1, &a);
    x.rows = (x.rows - 1 - begin + step - 1) / step;
    x.columns = (x.columns - begin + step - 1) / step;
    return x;
}

static struct image attention(struct build *b, struct image x)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t d = x.channels / 2, m = build_pick(b, 2, 12);
    a.performer.heads = 2;
    a.performer.exponential = build_pick(b, 0, 1) == 0;
    a.performer.epsilon = 1e-3f;
    if (x.channels % 2 != 0)
        return x;
    const int32_t inputs[] = { build_plain_conv(b, x.value, x.channels, x.channels, 1, 1, true),
                               build_plain_conv(b, x.value, x.channels, x.channels, 1, 1, true),
                               build_plain_conv(b, x.value, x.channels, x.channels, 3, 1, true),
                               build_constant(b, SHAPE(m, d), -0.5, 0.5) };
    x.value = build_binary(b, HRF_OP_ADD, x.value, build_node(b, HRF_OP_PERFORMER, inputs, 4, &a));
    return x;
}

static int32_t finish(struct build *b, struct image x, int64_t n_images)
{
    struct hrf_attributes a = hrf_attributes_default();
    x.value = build_plain_conv(b, x.value, x.channels, 6, 3, 1, true);
    if (build_pick(b, 0, 3) == 0)
        return x.value; /* an image as the result */
    int32_t y = build_unary(b, HRF_OP_GLOBAL_AVERAGE_POOL, x.value);
    a.axis = 1;
    y = build_node(b, HRF_OP_FLATTEN, &y, 1, &a);
    const int32_t inputs[] = { y, build_constant(b, SHAPE(6, 5), -1, 1),
                               build_constant(b, SHAPE(5), -1, 1) };
    y = build_node(b, HRF_OP_GEMM, inputs, 3, NULL);
    (void)n_images;
    return build_pick(b, 0, 1) == 0 ? y : build_node(b, HRF_OP_SOFTMAX, &y, 1, &a);
}

struct hrf_graph *make_net(uint64_t seed)
{
    static struct image (*const parts[])(struct build *, struct image) = {
        conv,   conv, conv, pool,       residual, branches, gate,
        preact, pad,  up,   other_size, blocks,   slice,    attention
    };
    struct build b = build_start(seed);
    const int64_t n_images = build_pick(&b, 1, 5);
    struct image x = { .channels = 3,
                       .rows = build_pick(&b, 5, 40),
                       .columns = build_pick(&b, 5, 40) };
    x.value = build_input(&b, SHAPE(n_images, x.channels, x.rows, x.columns));
    x = conv(&b, x);
    for (int64_t i = build_pick(&b, 1, 6); i > 0; i--) {
        struct image (*const part)(
            struct build *,
            struct image) = parts[build_pick(&b, 0, (int64_t)(sizeof parts / sizeof parts[0]) - 1)];
        x = part(&b, x);
    }
    const int32_t output = finish(&b, x, n_images);
    return build_finish(&b, &output, 1);
}

struct hrf_graph *finish_prologue_net(struct build *b, int32_t x, const struct conv_kind *kind,
                                      int act, bool has_norm, bool has_sum)
{
    static const enum hrf_op acts[] = { HRF_OP_RELU, HRF_OP_CLIP, HRF_OP_LEAKY_RELU };
    struct hrf_attributes a = hrf_attributes_default();
    int32_t y = has_norm ? build_batch_norm(b, x, kind->channels) : x;
    a.activation_min = -0.5F;
    a.activation_max = 0.75F;
    a.alpha = 0.125F;
    if (act < 3)
        y = build_node(b, acts[act], &y, 1, &a);
    a = hrf_attributes_default();
    memcpy(a.window.kernel, kind->kernel, sizeof kind->kernel);
    memcpy(a.window.stride, kind->stride, sizeof kind->stride);
    memcpy(a.window.dilation, kind->dilation, sizeof kind->dilation);
    memcpy(a.window.pad_begin, kind->pad_begin, sizeof kind->pad_begin);
    memcpy(a.window.pad_end, kind->pad_end, sizeof kind->pad_end);
    y = build_conv(b, y, kind->channels, kind->out, kind->group, true, &a);
    if (has_sum) {
        const struct hrf_shape sum = SHAPE(kind->n, kind->out,
                                           hrf_window_output(&a.window, 0, kind->rows),
                                           hrf_window_output(&a.window, 1, kind->columns));
        y = build_binary(b, HRF_OP_ADD, y, build_input(b, sum));
        y = build_unary(b, HRF_OP_RELU, y);
    }
    return build_finish(b, &y, 1);
}

/* ---- sequences ---- */

/* Tokens on the way: [n_images][n][channels]. */
struct tokens {
    int32_t value;
    int64_t n_images, n, channels, heads;
};

static int32_t norm(struct build *b, const struct tokens *x)
{
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_shape shape = SHAPE(x->channels);
    a.axis = 2;
    a.epsilon = 1e-5f;
    const int32_t inputs[] = { x->value, build_constant(b, shape, 0.5, 1.5),
                               build_constant(b, shape, -0.5, 0.5) };
    return build_node(b, HRF_OP_LAYER_NORM, inputs, 3, &a);
}

static int32_t product(struct build *b, int32_t x, int64_t in, int64_t out)
{
    const int32_t y = build_binary(b, HRF_OP_MATMUL, x,
                                   build_constant(b, SHAPE(in, out), -0.4, 0.4));
    return build_binary(b, HRF_OP_ADD, y, build_constant(b, SHAPE(out), -0.5, 0.5));
}

/* Heads in the channels of q, k and v side by side, at times behind a mask. */
static int32_t attend(struct build *b, const struct tokens *x, int32_t qkv)
{
    struct hrf_attributes a = hrf_attributes_default();
    int32_t inputs[] = { qkv, qkv, qkv, HRF_NO_VALUE };
    a.attention.heads = x->heads;
    a.attention.head_size = x->channels / x->heads;
    a.attention.scale = 0.3f;
    for (int k = 0; k < 3; k++) {
        a.attention.first[k] = k * x->channels;
        a.attention.stride[k] = a.attention.head_size;
    }
    const bool has_mask = build_pick(b, 0, 2) == 0;
    if (has_mask)
        inputs[3] = build_constant(b, SHAPE(1, x->heads, x->n, x->n), -2, 2);
    return build_node(b, HRF_OP_TOKEN_ATTENTION, inputs, has_mask ? 4 : 3, &a);
}

static void block(struct build *b, struct tokens *x)
{
    const int64_t hidden = 2 * build_pick(b, 5, 40);
    const bool is_gated = build_pick(b, 0, 1) == 0;
    const int32_t qkv = product(b, norm(b, x), x->channels, 3 * x->channels);
    const int32_t seen = product(b, attend(b, x, qkv), x->channels, x->channels);
    x->value = build_binary(b, HRF_OP_ADD, x->value, seen);
    int32_t y = product(b, norm(b, x), x->channels, hidden);
    y = build_unary(b, is_gated ? HRF_OP_SWIGLU : HRF_OP_GELU, y);
    y = product(b, y, is_gated ? hidden / 2 : hidden, x->channels);
    x->value = build_binary(b, HRF_OP_ADD, x->value, y);
}

/* The patches of an image, one column of numbers each. */
static void embed(struct build *b, struct tokens *x)
{
    const int64_t rows = build_pick(b, 1, 9), columns = build_pick(b, 1, 6);
    const int64_t size = build_pick(b, 1, 4), sizes[] = { 0, x->channels, -1 };
    struct hrf_attributes a = hrf_attributes_default(), transpose = a;
    for (int i = 0; i < 2; i++)
        a.window.kernel[i] = a.window.stride[i] = size;
    const int32_t image = build_input(b, SHAPE(x->n_images, 3, rows * size, columns * size));
    x->n = rows * columns;
    int32_t y = build_conv(b, image, 3, x->channels, 1, true, &a);
    y = build_binary(b, HRF_OP_RESHAPE, y, build_integers(b, 3, sizes));
    transpose.n_axes = 3;
    transpose.axes[1] = 2;
    transpose.axes[2] = 1;
    x->value = build_node(b, HRF_OP_TRANSPOSE, &y, 1, &transpose);
}

/* As many tokens for each image; those of several images are computed, so that any batch fits. */
static int32_t class_tokens(struct build *b, const struct tokens *x, int64_t n)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int32_t constant = build_constant(b, SHAPE(1, n, x->channels), -1, 1);
    if (x->n_images == 1)
        return constant;
    a.n_axes = 1;
    a.axes[0] = 1;
    a.slice.ends[0] = n;
    a.slice.steps[0] = 1;
    return build_binary(b, HRF_OP_MUL, build_node(b, HRF_OP_SLICE, &x->value, 1, &a), constant);
}

/* Class tokens before the others, or behind them, and where each stands. */
static void place(struct build *b, struct tokens *x)
{
    if (build_pick(b, 0, 2) > 0) {
        struct hrf_attributes a = hrf_attributes_default();
        const int64_t more = build_pick(b, 1, x->n < 3 ? x->n : 3);
        const bool is_last = build_pick(b, 0, 2) == 0;
        int32_t both[2];
        both[is_last] = class_tokens(b, x, more);
        both[!is_last] = x->value;
        a.axis = 1;
        x->value = build_node(b, HRF_OP_CONCAT, both, 2, &a);
        x->n += more;
    }
    x->value = build_binary(b, HRF_OP_ADD, x->value,
                            build_constant(b, SHAPE(1, x->n, x->channels), -1, 1));
}

/* One token, the mean of all, or all. */
static int32_t pool_tokens(struct build *b, const struct tokens *x)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t kind = build_pick(b, 0, 3);
    a.axis = 1;
    a.n_axes = 1;
    a.axes[0] = 1;
    if (kind == 0)
        return build_node(b, HRF_OP_REDUCE_MEAN, &x->value, 1, &a);
    if (kind == 1) {
        const int32_t inputs[] = { x->value, build_index(b, build_pick(b, 0, x->n - 1)) };
        return build_node(b, HRF_OP_GATHER, inputs, 2, &a);
    }
    a.slice.starts[0] = build_pick(b, 0, x->n - 1);
    a.slice.steps[0] = build_pick(b, 1, 2);
    a.slice.ends[0] = build_pick(b, a.slice.starts[0] + 1, x->n);
    return kind == 2 ? x->value : build_node(b, HRF_OP_SLICE, &x->value, 1, &a);
}

struct hrf_graph *make_sequence_net(uint64_t seed)
{
    struct build b = build_start(seed);
    struct tokens x = { .n_images = build_pick(&b, 1, 3), .heads = build_pick(&b, 1, 4) };
    x.channels = x.heads * build_pick(&b, 2, 17);
    if (build_pick(&b, 0, 2) > 0) {
        embed(&b, &x);
    } else {
        x.n = build_pick(&b, 2, 70);
        x.value = build_input(&b, SHAPE(x.n_images, x.n, x.channels));
    }
    place(&b, &x);
    for (int64_t n = build_pick(&b, 1, 2); n > 0; n--)
        block(&b, &x);
    x.value = norm(&b, &x);
    const int32_t y = product(&b, pool_tokens(&b, &x), x.channels, build_pick(&b, 1, 20));
    return build_finish(&b, &y, 1);
}

struct hrf_graph *make_long_net(uint64_t seed)
{
    struct build b = build_start(seed);
    struct hrf_attributes a = hrf_attributes_default();
    struct tokens x = { .n_images = 1, .n = HRF_ATTENTION_LONG + build_pick(&b, 1, 90) };
    int32_t inputs[3];
    x.heads = a.attention.heads = build_pick(&b, 1, 2);
    a.attention.head_size = build_pick(&b, 1, 2);
    x.channels = a.attention.heads * a.attention.head_size;
    a.attention.scale = build_pick(&b, 0, 1) == 0 ? 0.7f : -0.7f;
    x.value = build_input(&b, SHAPE(1, x.n, x.channels));
    const bool is_packed = build_pick(&b, 0, 1) == 0; /* q, k and v side by side in one value */
    const int32_t qkv = product(&b, x.value, x.channels, 3 * x.channels);
    for (int k = 0; k < 3; k++) {
        inputs[k] = is_packed ? qkv : product(&b, x.value, x.channels, x.channels);
        a.attention.first[k] = is_packed ? (2 - k) * x.channels : 0;
        a.attention.stride[k] = a.attention.head_size;
    }
    const int32_t seen = build_node(&b, HRF_OP_TOKEN_ATTENTION, inputs, 3, &a);
    const int32_t y = build_binary(&b, HRF_OP_ADD, x.value,
                                   product(&b, seen, x.channels, x.channels));
    return build_finish(&b, &y, 1);
}

/* ---- a transformer out of the operators of exporters ---- */

/* A product with weights and a bias. */
static int32_t add_product(struct build *b, int32_t x, int64_t in, int64_t out)
{
    const double scale = 2 / sqrt((double)in);
    const int32_t w = build_constant(b, SHAPE(in, out), -scale, scale);
    const int32_t y = build_binary(b, HRF_OP_MATMUL, x, w);
    return build_binary(b, HRF_OP_ADD, y, build_constant(b, SHAPE(out), -1, 1));
}

static int32_t add_norm(struct build *b, int32_t x, int64_t channels)
{
    const int32_t inputs[] = { x, build_constant(b, SHAPE(channels), 0.5, 1.5),
                               build_constant(b, SHAPE(channels), -1, 1) };
    struct hrf_attributes a = hrf_attributes_of(HRF_OP_LAYER_NORM);
    a.axis = 2;
    return build_node(b, HRF_OP_LAYER_NORM, inputs, 3, &a);
}

static int32_t add_reshape(struct build *b, int32_t x, int64_t n, const int64_t *sizes)
{
    const int32_t inputs[] = { x, build_integers(b, n, sizes) };
    return build_node(b, HRF_OP_RESHAPE, inputs, 2, NULL);
}

static int32_t add_transpose(struct build *b, int32_t x, int32_t n, const int64_t *axes)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_axes = n;
    for (int32_t i = 0; i < n; i++)
        a.axes[i] = axes[i];
    return build_node(b, HRF_OP_TRANSPOSE, &x, 1, &a);
}

/* [N][T][heads * size] as [N][heads][T][size]. */
static int32_t add_heads(struct build *b, int32_t x, int64_t heads, int64_t size)
{
    return add_transpose(b, add_reshape(b, x, 4, (int64_t[]){ 0, 0, heads, size }), 4,
                         (int64_t[]){ 0, 2, 1, 3 });
}

struct hrf_graph *make_exported_transformer(uint64_t seed)
{
    struct build b = build_start(seed);
    struct hrf_attributes patch = hrf_attributes_default();
    struct hrf_attributes mean = hrf_attributes_default();
    const int64_t heads = build_pick(&b, 1, 3), size = 4 * build_pick(&b, 1, 3), c = heads * size;
    const int64_t rows = build_pick(&b, 2, 6), columns = build_pick(&b, 2, 6);
    for (int i = 0; i < HRF_MAX_SPATIAL; i++)
        patch.window.kernel[i] = patch.window.stride[i] = 4;
    const int32_t images = build_input(&b, SHAPE(build_pick(&b, 1, 4), 3, 4 * rows, 4 * columns));
    const int32_t patches = build_conv(&b, images, 3, c, 1, true, &patch);
    int32_t x = add_transpose(&b, add_reshape(&b, patches, 3, (int64_t[]){ 0, 0, -1 }), 3,
                              (int64_t[]){ 0, 2, 1 });
    x = build_binary(&b, HRF_OP_ADD, x, build_constant(&b, SHAPE(1, rows * columns, c), -1, 1));
    for (int64_t n = build_pick(&b, 1, 2); n > 0; n--) {
        const int32_t normal = add_norm(&b, x, c);
        int32_t inputs[3];
        for (int k = 0; k < 3; k++)
            inputs[k] = add_heads(&b, add_product(&b, normal, c, c), heads, size);
        const int32_t seen = add_transpose(&b, build_node(&b, HRF_OP_ATTENTION, inputs, 3, NULL), 4,
                                           (int64_t[]){ 0, 2, 1, 3 });
        const int32_t joined = add_reshape(&b, seen, 3, (int64_t[]){ 0, 0, c });
        x = build_binary(&b, HRF_OP_ADD, x, add_product(&b, joined, c, c));
        const int32_t wide = add_product(&b, add_norm(&b, x, c), c, 2 * c);
        x = build_binary(&b, HRF_OP_ADD, x,
                         add_product(&b, build_unary(&b, HRF_OP_GELU, wide), 2 * c, c));
    }
    mean.n_axes = 1;
    mean.axes[0] = 1;
    const int32_t pooled = build_node(&b, HRF_OP_REDUCE_MEAN, &x, 1, &mean);
    const int32_t y = add_product(&b, pooled, c, 3);
    return build_finish(&b, &y, 1);
}
