#include "tests/ops/pixel_nets.h"

#include <string.h>

static const int64_t to_tokens[4] = { 0, 2, 3, 1 }, to_image[4] = { 0, 3, 1, 2 };

struct sizes {
    int64_t n, c, window, rows, columns; /* rows and columns in windows */
};

static int32_t permute(struct build *b, int32_t x, int32_t rank, const int64_t *axes)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_axes = rank;
    memcpy(a.axes, axes, (size_t)rank * sizeof *axes);
    return build_node(b, HRF_OP_TRANSPOSE, &x, 1, &a);
}

static int32_t reshape(struct build *b, int32_t x, int64_t rank, const int64_t *dims)
{
    return build_binary(b, HRF_OP_RESHAPE, x, build_integers(b, rank, dims));
}

static int32_t linear(struct build *b, int32_t x, int64_t in, int64_t out, bool bias)
{
    const int32_t y = build_binary(b, HRF_OP_MATMUL, x,
                                   build_constant(b, SHAPE(in, out), -0.3, 0.3));
    return bias ? build_binary(b, HRF_OP_ADD, y, build_constant(b, SHAPE(out), -1, 1)) : y;
}

static int32_t norm(struct build *b, int32_t x, int64_t c)
{
    struct hrf_attributes a = hrf_attributes_default();
    const bool is_rms = build_pick(b, 0, 3) == 0;
    const int32_t inputs[] = { x, build_constant(b, SHAPE(c), 0.5, 2),
                               build_constant(b, SHAPE(c), -1, 1) };
    a.axis = -1;
    a.epsilon = 1e-5f;
    return build_node(b, is_rms ? HRF_OP_RMS_NORM : HRF_OP_LAYER_NORM, inputs, is_rms ? 2 : 3, &a);
}

/* norm, product, function, product, maybe with LayerScale and a residual. */
static int32_t mlp(struct build *b, int32_t x, int64_t c)
{
    const int64_t wide = build_pick(b, 1, 40);
    int32_t y = linear(b, norm(b, x, c), c, wide, build_pick(b, 0, 3) > 0);
    y = build_unary(b, build_pick(b, 0, 1) ? HRF_OP_GELU : HRF_OP_RELU, y);
    return linear(b, y, wide, c, build_pick(b, 0, 3) > 0);
}

/* ConvNeXt's block. */
static int32_t convolution_block(struct build *b, int32_t x, const struct sizes *s)
{
    const int32_t wide = build_plain_conv(b, x, s->c, s->c, 3, 1, true);
    int32_t y = mlp(b, permute(b, wide, 4, to_tokens), s->c);
    if (build_pick(b, 0, 1))
        y = build_binary(b, HRF_OP_MUL, y, build_constant(b, SHAPE(s->c), 0.5, 1));
    y = permute(b, y, 4, to_image);
    if (build_pick(b, 0, 1))
        y = build_binary(b, HRF_OP_MUL, build_constant(b, SHAPE(s->c, 1, 1), 0.5, 1), y);
    return build_binary(b, HRF_OP_ADD, x, y);
}

static int32_t slice(struct build *b, int32_t x, int64_t axis, int64_t start, int64_t end,
                     int64_t step)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_axes = 1;
    a.axes[0] = axis;
    a.slice.starts[0] = start;
    a.slice.ends[0] = end;
    a.slice.steps[0] = step;
    return build_node(b, HRF_OP_SLICE, &x, 1, &a);
}

static int32_t join(struct build *b, const int32_t *parts, int32_t n, int64_t axis)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = axis;
    return build_node(b, HRF_OP_CONCAT, parts, n, &a);
}

static int32_t roll(struct build *b, int32_t x, int64_t by)
{
    for (int64_t axis = 1; axis <= 2; axis++) {
        const int32_t parts[] = { slice(b, x, axis, by, INT64_MAX, 1),
                                  slice(b, x, axis, 0, by, 1) };
        x = join(b, parts, 2, axis);
    }
    return x;
}

static int32_t number(struct build *b, double v)
{
    return build_constant(b, SHAPE(1), v, v);
}

/* Part `i` of q, k and v [3][B][heads][T][d]. */
static int32_t heads_of(struct build *b, int32_t x, int64_t i, const int64_t dims[4])
{
    if (build_pick(b, 0, 1))
        return reshape(b, slice(b, x, 0, i, i + 1, 1), 4, dims);
    const int64_t place = i - (build_pick(b, 0, 1) ? 3 : 0);
    return build_binary(b, HRF_OP_GATHER, x, build_index(b, place));
}

/* Attention of B windows of T tokens, x [B][T][C], with a bias and, if rolled, masks of windows. */
static int32_t window_attention(struct build *b, int32_t x, const struct sizes *s, bool rolls)
{
    const int64_t t = s->window * s->window, n_windows = s->rows * s->columns;
    const int64_t heads = s->c % 2 == 0 ? 2 : 1, d = s->c / heads;
    const int64_t dims[4] = { s->n * n_windows, heads, t, d };
    int32_t y = reshape(b, linear(b, x, s->c, 3 * s->c, true), 5,
                        (const int64_t[]){ dims[0], t, 3, heads, d });
    y = permute(b, y, 5, (const int64_t[]){ 2, 0, 3, 1, 4 });
    const int32_t q = build_binary(b, HRF_OP_MUL, heads_of(b, y, 0, dims), number(b, 0.25));
    const int32_t k = permute(b, heads_of(b, y, 1, dims), 4, (const int64_t[]){ 0, 1, 3, 2 });
    int32_t scores = build_binary(b, HRF_OP_MATMUL, q, k);
    scores = build_binary(b, HRF_OP_ADD, scores, build_constant(b, SHAPE(1, heads, t, t), -1, 1));
    if (rolls) {
        scores = reshape(b, scores, 5, (const int64_t[]){ s->n, n_windows, heads, t, t });
        scores = build_binary(b, HRF_OP_ADD, scores,
                              build_constant(b, SHAPE(1, n_windows, 1, t, t), -4, 0));
        scores = reshape(b, scores, 4, (const int64_t[]){ dims[0], heads, t, t });
    }
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = -1;
    scores = build_node(b, HRF_OP_SOFTMAX, &scores, 1, &a);
    y = build_binary(b, HRF_OP_MATMUL, scores, heads_of(b, y, 2, dims));
    y = permute(b, y, 4, (const int64_t[]){ 0, 2, 1, 3 });
    return reshape(b, y, 3, (const int64_t[]){ dims[0], t, s->c });
}

/* Swin's block on x [N][H][W][C]: attention in windows of the image, rolled and not. */
static int32_t window_block(struct build *b, int32_t x, const struct sizes *s, bool rolls)
{
    static const int64_t axes[] = { 0, 1, 3, 2, 4, 5 };
    const int64_t w = s->window;
    int32_t y = norm(b, x, s->c);
    if (rolls)
        y = roll(b, y, w / 2);
    y = permute(b, reshape(b, y, 6, (const int64_t[]){ s->n, s->rows, w, s->columns, w, s->c }), 6,
                axes);
    y = reshape(b, y, 4, (const int64_t[]){ s->n * s->rows * s->columns, w, w, s->c });
    y = reshape(b, y, 3, (const int64_t[]){ s->n * s->rows * s->columns, w * w, s->c });
    y = linear(b, window_attention(b, y, s, rolls), s->c, s->c, true);
    y = reshape(b, y, 4, (const int64_t[]){ s->n * s->rows * s->columns, w, w, s->c });
    y = permute(b, reshape(b, y, 6, (const int64_t[]){ s->n, s->rows, s->columns, w, w, s->c }), 6,
                axes);
    y = reshape(b, y, 4, (const int64_t[]){ s->n, s->rows * w, s->columns * w, s->c });
    if (rolls)
        y = roll(b, y, -(w / 2));
    y = build_binary(b, HRF_OP_ADD, x, y);
    return build_binary(b, HRF_OP_ADD, y, mlp(b, y, s->c));
}

/* Four pixels become one of four times the channels, then half of that. */
static int32_t merge(struct build *b, int32_t x, const struct sizes *s)
{
    int32_t parts[4];
    for (int64_t i = 0; i < 4; i++)
        parts[i] = slice(b, slice(b, x, 1, i % 2, INT64_MAX, 2), 2, i / 2, INT64_MAX, 2);
    return linear(b, norm(b, join(b, parts, 4, -1), 4 * s->c), 4 * s->c, 2 * s->c, false);
}

static int32_t mean(struct build *b, int32_t x)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_axes = 2;
    a.axes[0] = 1;
    a.axes[1] = 2;
    a.keep_dims = build_pick(b, 0, 1);
    return build_node(b, HRF_OP_REDUCE_MEAN, &x, 1, &a);
}

struct hrf_graph *make_pixel_net(uint64_t seed, enum pixel_net net)
{
    struct build b = build_start(seed);
    const struct sizes s = { build_pick(&b, 1, 2), build_pick(&b, 1, 40), 2 * build_pick(&b, 1, 3),
                             build_pick(&b, 1, 3), build_pick(&b, 1, 3) };
    int32_t x = build_input(&b, SHAPE(s.n, s.c, s.rows * s.window, s.columns * s.window));
    if (net == CONVOLUTIONS) {
        x = convolution_block(&b, convolution_block(&b, x, &s), &s);
    } else if (net == WINDOWS) {
        x = window_block(&b, permute(&b, x, 4, to_tokens), &s, false);
        x = merge(&b, window_block(&b, x, &s, true), &s);
        if (build_pick(&b, 0, 1))
            x = mean(&b, x);
    } else {
        const int64_t pixels = s.rows * s.window * s.columns * s.window;
        x = build_plain_conv(&b, x, s.c, s.c, 3, 1, true);
        x = reshape(&b, x, 3, (const int64_t[]){ s.n, s.c, pixels });
        x = mlp(&b, permute(&b, x, 3, (const int64_t[]){ 0, 2, 1 }), s.c);
    }
    return build_finish(&b, &x, 1);
}
