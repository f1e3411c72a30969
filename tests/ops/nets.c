#include "tests/ops/nets.h"

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
    static struct image (*const parts[])(struct build *, struct image) = { conv, conv,     conv,
                                                                           pool, residual, branches,
                                                                           gate, preact,   pad };
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
