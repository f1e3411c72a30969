/* transformer.c - ViT as timm has it (class token, position embedding, GELU, norms before the
 * blocks' halves), in the form in which it is exported. Source: timm/models/vision_transformer.py
 * (1.0). */
#include "engine/model/builder_private.h"

#include <math.h>
#include <stdio.h>

enum { PATCH = 16, HEAD = 64, MLP_RATIO = 4 };

/* Tokens on their way: [batch][n][width]. */
struct tokens {
    struct hrf_builder *b;
    int64_t n, width;
};

static int32_t one_input(const struct tokens *t, enum hrf_op op, const char *name, int32_t x,
                         const struct hrf_attributes *a)
{
    return hrf_build_node(t->b, op, name, &x, 1, a);
}

static int32_t two_inputs(const struct tokens *t, enum hrf_op op, const char *name, int32_t x,
                          int32_t y)
{
    return hrf_build_node(t->b, op, name, (const int32_t[]){ x, y }, 2, NULL);
}

static int32_t reshape(const struct tokens *t, const char *name, int32_t x, int32_t rank,
                       const int64_t *dims)
{
    return two_inputs(t, HRF_OP_RESHAPE, name, x,
                      hrf_build_integers(t->b, name, "shape", dims, rank));
}

static int32_t transpose(const struct tokens *t, const char *name, int32_t x, int32_t rank,
                         const int64_t *axes)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_axes = rank;
    for (int32_t i = 0; i < rank; i++)
        a.axes[i] = axes[i];
    return one_input(t, HRF_OP_TRANSPOSE, name, x, &a);
}

static int32_t slice(const struct tokens *t, const char *name, int32_t x, int64_t axis,
                     int64_t begin, int64_t end)
{
    const struct hrf_attributes a = hrf_attributes_slice(axis, begin, end);
    return one_input(t, HRF_OP_SLICE, name, x, &a);
}

/* x times a matrix whose products keep the mean square of what they multiply, times `gain`. */
static int32_t linear(const struct tokens *t, const char *name, int32_t x, int64_t in, int64_t out,
                      double gain)
{
    char sum[80];
    const struct hrf_shape matrix = { .rank = 2, .dims = { in, out } };
    const struct hrf_shape row = { .rank = 1, .dims = { out } };
    const double limit = sqrt(3 * gain / (double)in);
    snprintf(sum, sizeof sum, "%s.sum", name);
    const int32_t product = two_inputs(
        t, HRF_OP_MATMUL, name, x, hrf_build_uniform(t->b, name, "weight", matrix, -limit, limit));
    return two_inputs(t, HRF_OP_ADD, sum, product,
                      hrf_build_uniform(t->b, name, "bias", row, -0.05, 0.05));
}

static int32_t layer_norm(const struct tokens *t, const char *name, int32_t x)
{
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_shape row = { .rank = 1, .dims = { t->width } };
    a.axis = 2;
    a.epsilon = 1e-6f;
    const int32_t inputs[] = { x, hrf_build_uniform(t->b, name, "weight", row, 0.5, 1.5),
                               hrf_build_uniform(t->b, name, "bias", row, -0.2, 0.2) };
    return hrf_build_node(t->b, HRF_OP_LAYER_NORM, name, inputs, 3, &a);
}

/* q, k or v, [batch][heads][n][HEAD], of all of them. */
static int32_t part_of(const struct tokens *t, const char *block, const char *name, int32_t all,
                       int64_t i)
{
    const int64_t dims[] = { -1, t->width / HEAD, t->n, HEAD };
    char apart[64], full[64];
    snprintf(apart, sizeof apart, "%s.%s.apart", block, name);
    snprintf(full, sizeof full, "%s.%s", block, name);
    return reshape(t, full, slice(t, apart, all, 0, i, i + 1), 4, dims);
}

/* A name of the block, kept until the next call with the same `slot`. */
static const char *named(const char *block, const char *name, int slot)
{
    static _Thread_local char names[2][64];
    snprintf(names[slot], sizeof names[slot], "%s.%s", block, name);
    return names[slot];
}

static int32_t attention(const struct tokens *t, const char *block, int32_t x)
{
    static const int64_t parts_first[] = { 2, 0, 3, 1, 4 }, k_axes[] = { 0, 1, 3, 2 };
    static const int64_t heads_inside[] = { 0, 2, 1, 3 };
    const int64_t heads = t->width / HEAD, apart[] = { 0, t->n, 3, heads, HEAD };
    const struct hrf_shape one = { .rank = 1, .dims = { 1 } };
    const double scale = 1 / sqrt((double)HEAD);
    struct hrf_attributes last = hrf_attributes_default();
    last.axis = 3;
    x = linear(t, named(block, "qkv", 0), x, t->width, 3 * t->width, 1);
    x = transpose(t, named(block, "parts", 0), reshape(t, named(block, "heads", 1), x, 5, apart), 5,
                  parts_first);
    const int32_t k = transpose(t, named(block, "k.turned", 0), part_of(t, block, "k", x, 1), 4,
                                k_axes);
    const int32_t q = two_inputs(t, HRF_OP_MUL, named(block, "q.scaled", 0),
                                 part_of(t, block, "q", x, 0),
                                 hrf_build_uniform(t->b, block, "scale", one, scale, scale));
    const int32_t scores = two_inputs(t, HRF_OP_MATMUL, named(block, "scores", 0), q, k);
    const int32_t shares = one_input(t, HRF_OP_SOFTMAX, named(block, "shares", 0), scores, &last);
    int32_t y = two_inputs(t, HRF_OP_MATMUL, named(block, "values", 0), shares,
                           part_of(t, block, "v", x, 2));
    y = transpose(t, named(block, "tokens", 0), y, 4, heads_inside);
    y = reshape(t, named(block, "joined", 0), y, 3, (const int64_t[]){ 0, t->n, t->width });
    return linear(t, named(block, "proj", 0), y, t->width, t->width, 1);
}

/* What a half of a block adds is small beside the stream, as in trained networks. */
static int32_t transform(const struct tokens *t, int64_t i, int32_t x)
{
    char block[32];
    snprintf(block, sizeof block, "block%d", (int)i);
    int32_t y = layer_norm(t, named(block, "norm1", 0), x);
    x = two_inputs(t, HRF_OP_ADD, named(block, "add1", 0), x, attention(t, block, y));
    y = layer_norm(t, named(block, "norm2", 0), x);
    y = linear(t, named(block, "fc1", 0), y, t->width, MLP_RATIO * t->width, 1);
    y = one_input(t, HRF_OP_GELU, named(block, "gelu", 0), y, NULL);
    y = linear(t, named(block, "fc2", 0), y, MLP_RATIO * t->width, t->width, 0.5);
    return two_inputs(t, HRF_OP_ADD, named(block, "add2", 0), x, y);
}

/* The patches' tokens behind a row of zeros, plus class token and position embedding. */
static int32_t embed(struct tokens *t, struct hrf_layer x)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t n_patches = x.rows * x.columns, flat[] = { 0, t->width, n_patches };
    const struct hrf_shape table = { .rank = 3, .dims = { 1, n_patches + 1, t->width } };
    t->n = n_patches + 1;
    int32_t y = transpose(t, "patches", reshape(t, "flat", x.value, 3, flat), 3,
                          (const int64_t[]){ 0, 2, 1 });
    a.n_axes = 3;
    for (int i = 0; i < 3; i++)
        a.axes[i] = i;
    a.pad.sizes[1] = 1;
    y = one_input(t, HRF_OP_PAD, "prefix", y, &a);
    return two_inputs(t, HRF_OP_ADD, "embedding", y,
                      hrf_build_uniform(t->b, "embedding", "table", table, -1, 1));
}

bool hrf_accept_vit(struct hrf_architecture *which)
{
    enum { MOST_LAYERS = 64, MOST_WIDTH = 4096 };
    return which->depth[0] >= 1 && which->depth[0] <= MOST_LAYERS && which->depth[1] >= HEAD &&
           which->depth[1] <= MOST_WIDTH && which->depth[1] % HEAD == 0;
}

struct hrf_layer hrf_build_vit(struct hrf_builder *b, const struct hrf_architecture *which,
                               struct hrf_layer x, int64_t n_classes)
{
    struct tokens t = { .b = b, .width = which->depth[1] };
    x = hrf_build_conv(b, "patch_embed", x, t.width, hrf_square(PATCH, PATCH, 0), true);
    x.value = embed(&t, x);
    for (int64_t i = 0; i < which->depth[0]; i++)
        x.value = transform(&t, i, x.value);
    x.value = slice(&t, "class", layer_norm(&t, "norm", x.value), 1, 0, 1);
    x.value = reshape(&t, "pooled", x.value, 2, (const int64_t[]){ -1, t.width });
    x.channels = t.width;
    x.rows = x.columns = 1;
    x.square = 1;
    return hrf_build_linear(b, "head", x, n_classes, 1);
}
