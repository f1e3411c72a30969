/* channels_first.c - transposes values [N][H][W][C] to images [N][C][H][W].
 *
 * Values of rank 4 lie in memory as images (engine/backend/kernel.h), so of what exporters write as
 * [N][H][W][C] the channels lie far apart. The image that is its transpose lies in memory as the
 * model means it: a normalisation over the channels then reads neighbours, a product with a matrix
 * is a convolution with windows of one pixel, and both can be split over rows as other nodes of
 * images. The transposes to and from [N][H][W][C] go away.
 */
#include "engine/passes/match.h"
#include "engine/passes/passes.h"

#include <stdio.h>
#include <string.h>

struct change {
    struct hrf_match match;
    int32_t n_values; /* at the beginning: indices above are of this pass */
    int32_t *image;  /* [n_values]: the value that holds the transpose [N][C][H][W]; -1: none yet */
    bool *is_wanted; /* [n_values]: a norm or a product reads it, maybe through other nodes */
    int32_t at;      /* the node that is being looked at */
};

/* Axis of an image for each axis of [N][H][W][C]. */
static const int64_t image_axis[4] = { 0, 2, 3, 1 };
static const int64_t to_image[4] = { 0, 3, 1, 2 }, from_image[4] = { 0, 2, 3, 1 };

static struct hrf_node *node_of(const struct change *c)
{
    return &c->match.graph->nodes[c->at];
}

static const struct hrf_value *value_of(const struct change *c, int32_t value)
{
    return &c->match.graph->values[value];
}

static bool transposes(const struct hrf_node *node, const int64_t axes[4])
{
    const struct hrf_attributes *a = &node->attributes;
    return node->op == HRF_OP_TRANSPOSE && a->n_axes == 4 &&
           memcmp(a->axes, axes, 4 * sizeof axes[0]) == 0;
}

static struct hrf_shape image_shape(const struct hrf_shape *s)
{
    return (struct hrf_shape){ .rank = 4,
                               .dims = { s->dims[0], s->dims[3], s->dims[1], s->dims[2] } };
}

static bool keeps_order(enum hrf_op op)
{
    return op == HRF_OP_RESHAPE || op == HRF_OP_FLATTEN || op == HRF_OP_SQUEEZE ||
           op == HRF_OP_UNSQUEEZE;
}

/* ---- new values and nodes ---- */

static enum hrf_status add_image_value(struct change *c, int32_t value, int32_t *out,
                                       struct hrf_error *err)
{
    struct hrf_graph *graph = c->match.graph;
    const struct hrf_shape shape = image_shape(&graph->values[value].shape);
    HRF_AUTO_FREE char *name = hrf_format("%s.image", graph->values[value].name);
    HRF_TRY(hrf_graph_add_value(graph, name, graph->values[value].dtype, &shape, NULL, out, err));
    graph->values[*out].quantization = graph->values[value].quantization;
    return HRF_OK;
}

/* The second input of a RESHAPE. */
static enum hrf_status add_sizes(struct change *c, int32_t of, int32_t *out, struct hrf_error *err)
{
    const struct hrf_value *value = value_of(c, of);
    const struct hrf_shape shape = { .rank = 1, .dims = { value->shape.rank } };
    int64_t sizes[HRF_MAX_RANK];
    memcpy(sizes, value->shape.dims, sizeof sizes);
    HRF_AUTO_FREE char *name = hrf_format("%s.sizes", value->name);
    return hrf_graph_add_value(c->match.graph, name, HRF_S64, &shape, sizes, out, err);
}

static enum hrf_status insert_transpose(struct change *c, int32_t before, int32_t from, int32_t to,
                                        const int64_t axes[4], struct hrf_error *err)
{
    struct hrf_attributes a = hrf_attributes_default();
    HRF_AUTO_FREE char *name = hrf_format("%s.transpose", value_of(c, to)->name);
    a.n_axes = 4;
    memcpy(a.axes, axes, 4 * sizeof axes[0]);
    return hrf_graph_insert_node(c->match.graph, before, HRF_OP_TRANSPOSE, name, &from, 1, &to, 1,
                                 &a, err);
}

static enum hrf_status insert_reshape(struct change *c, int32_t from, int32_t to,
                                      struct hrf_error *err)
{
    struct hrf_attributes a = hrf_attributes_default();
    int32_t inputs[2] = { from };
    HRF_AUTO_FREE char *name = hrf_format("%s.reshape", value_of(c, to)->name);
    HRF_TRY(add_sizes(c, to, &inputs[1], err));
    a.channels_last = true;
    return hrf_graph_insert_node(c->match.graph, c->at, HRF_OP_RESHAPE, name, inputs, 2, &to, 1, &a,
                                 err);
}

/* The image of a computed value of rank 4, made in front of this node if there is none yet. */
static enum hrf_status find_image(struct change *c, int32_t value, int32_t *out,
                                  struct hrf_error *err)
{
    if (c->image[value] < 0) {
        const int32_t producer = value_of(c, value)->producer;
        const struct hrf_node *node = producer >= 0 ? &c->match.graph->nodes[producer] : NULL;
        const bool is_reshaped = node != NULL && keeps_order(node->op) &&
                                 value_of(c, node->inputs[0])->shape.rank != 4;
        const int32_t from = is_reshaped ? node->inputs[0] : value;
        int32_t image;
        HRF_TRY(add_image_value(c, value, &image, err));
        if (is_reshaped)
            HRF_TRY(insert_reshape(c, from, image, err));
        else
            HRF_TRY(insert_transpose(c, c->at, from, image, to_image, err));
        c->image[value] = image;
    }
    *out = c->image[value];
    return HRF_OK;
}

/* Makes this node compute the image of its output. For readers that want [N][H][W][C], a
 * transpose follows; if there are none, compaction removes it. */
static enum hrf_status compute_image(struct change *c, struct hrf_error *err)
{
    const int32_t value = node_of(c)->outputs[0];
    int32_t image;
    HRF_TRY(add_image_value(c, value, &image, err));
    node_of(c)->outputs[0] = image;
    c->match.graph->values[image].producer = c->at;
    c->image[value] = image;
    return insert_transpose(c, c->at + 1, image, value, from_image, err);
}

/* A constant that broadcasts to [N][H][W][C], for the image. */
static enum hrf_status transpose_constant(struct change *c, int32_t value, int32_t *out,
                                          struct hrf_error *err)
{
    struct hrf_graph *graph = c->match.graph;
    struct hrf_shape from = { .rank = 4, .dims = { 1, 1, 1, 1 } };
    const struct hrf_value *v = &graph->values[value];
    for (int32_t i = 0; i < v->shape.rank; i++)
        from.dims[4 - v->shape.rank + i] = v->shape.dims[i];
    const struct hrf_shape shape = image_shape(&from);
    const int64_t channels = from.dims[3], area = from.dims[1] * from.dims[2];
    const int64_t n = hrf_shape_count(&from);
    HRF_AUTO_FREE float *transposed = hrf_try_alloc_array((size_t)n, sizeof *transposed);
    HRF_AUTO_FREE char *name = hrf_format("%s.%s.image", v->name, node_of(c)->name);
    if (transposed == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to transpose values to images");
    for (int64_t i = 0; i < n; i++) {
        const int64_t pixel = i / channels;
        transposed[(pixel / area * channels + i % channels) * area + pixel % area] =
            ((const float *)v->data)[i];
    }
    HRF_TRY(hrf_graph_add_value(graph, name, HRF_F32, &shape, transposed, out, err));
    graph->values[*out].quantization = graph->values[value].quantization;
    return HRF_OK;
}

/* ---- what is transposed ---- */

static bool is_wide(const struct change *c, int32_t value)
{
    if (value < 0)
        return false;
    const struct hrf_value *v = value_of(c, value);
    return v->data == NULL && v->shape.rank == 4 &&
           (v->dtype == HRF_F32 || hrf_dtype_is_byte(v->dtype));
}

static bool has_image(const struct change *c, int32_t value)
{
    return is_wide(c, value) && value < c->n_values && c->image[value] >= 0;
}

/* LAYER_NORM and RMS_NORM over the last axis, with parameters of one axis. */
static bool is_norm(const struct change *c)
{
    const struct hrf_node *node = node_of(c);
    if ((node->op != HRF_OP_LAYER_NORM && node->op != HRF_OP_RMS_NORM) ||
        node->attributes.axis != 3 || !is_wide(c, node->inputs[0]))
        return false;
    for (int32_t k = 1; k < node->n_inputs; k++)
        if (node->inputs[k] >= 0 && value_of(c, node->inputs[k])->shape.rank != 1)
            return false;
    return true;
}

static enum hrf_status transpose_norm(struct change *c, struct hrf_error *err)
{
    int32_t image;
    HRF_TRY(find_image(c, node_of(c)->inputs[0], &image, err));
    node_of(c)->inputs[0] = image;
    node_of(c)->attributes.axis = 1;
    node_of(c)->attributes.of_each_pixel = true;
    return compute_image(c, err);
}

static bool is_product(const struct change *c)
{
    const struct hrf_node *node = node_of(c);
    if (node->op != HRF_OP_MATMUL || !is_wide(c, node->inputs[0]))
        return false;
    const struct hrf_value *w = value_of(c, node->inputs[1]);
    return w->data != NULL && w->dtype == HRF_F32 && w->shape.rank == 2;
}

/* out[m][k] = w[k][m], in tiles that stay in the cache. */
static void transpose_weights(const float *w, int64_t depth, int64_t columns, float *out)
{
    enum { TILE = 16 };
    for (int64_t k = 0; k < depth; k += TILE)
        for (int64_t m = 0; m < columns; m += TILE)
            for (int64_t i = m; i < columns && i < m + TILE; i++)
                for (int64_t j = k; j < depth && j < k + TILE; j++)
                    out[i * depth + j] = w[j * columns + i];
}

/* x [N][H][W][K] times [K][M] as a convolution of x's image with weights [M][K][1][1]. */
static enum hrf_status transpose_product(struct change *c, struct hrf_error *err)
{
    struct hrf_graph *graph = c->match.graph;
    const struct hrf_value *w = value_of(c, node_of(c)->inputs[1]);
    const int64_t depth = w->shape.dims[0], columns = w->shape.dims[1];
    const struct hrf_shape shape = { .rank = 4, .dims = { columns, depth, 1, 1 } };
    struct hrf_attributes a = hrf_attributes_default();
    int32_t inputs[2];
    a.window.kernel[0] = a.window.kernel[1] = 1;
    HRF_TRY(find_image(c, node_of(c)->inputs[0], &inputs[0], err));
    w = value_of(c, node_of(c)->inputs[1]);
    HRF_AUTO_FREE void *transposed = hrf_alloc_aligned((size_t)(depth * columns) * sizeof(float),
                                                       sizeof(void *));
    HRF_AUTO_FREE char *name = hrf_format("%s.%s.transposed", w->name, node_of(c)->name);
    if (transposed == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory to transpose values to images");
    transpose_weights(w->data, depth, columns, transposed);
    HRF_TRY(hrf_graph_take_value(graph, name, HRF_F32, &shape, &transposed, &inputs[1], err));
    hrf_readers_drop_constant(&c->match.readers, graph, node_of(c)->inputs[1]);
    hrf_match_become(node_of(c), HRF_OP_CONV, inputs, 2, &a);
    return compute_image(c, err);
}

/* True for functions of each element of input 0 alone; in a model that was quantised elsewhere,
 * also for conversions between float32 and 8 bits with one scale. */
static bool is_unary(const struct change *c, const struct hrf_node *node)
{
    return hrf_op_is_unary(node->op) || node->op == HRF_OP_DEQUANTIZE ||
           (node->op == HRF_OP_QUANTIZE && value_of(c, node->outputs[0])->quantization.scale > 0);
}

/* A function of one number, or of two where one has an image already and the other may have one. */
static bool is_pointwise(const struct change *c)
{
    const struct hrf_node *node = node_of(c);
    if (!is_wide(c, node->outputs[0]))
        return false;
    if (is_unary(c, node))
        return has_image(c, node->inputs[0]);
    if (!hrf_op_is_binary(node->op) ||
        (!has_image(c, node->inputs[0]) && !has_image(c, node->inputs[1])))
        return false;
    for (int k = 0; k < 2; k++) {
        const struct hrf_value *x = value_of(c, node->inputs[k]);
        if (x->data == NULL ? !is_wide(c, node->inputs[k])
                            : x->dtype != HRF_F32 || x->shape.rank > 4)
            return false;
    }
    return true;
}

static enum hrf_status transpose_inputs(struct change *c, struct hrf_error *err)
{
    const int32_t n = is_unary(c, node_of(c)) ? 1 : node_of(c)->n_inputs;
    for (int32_t k = 0; k < n; k++) {
        const int32_t input = node_of(c)->inputs[k];
        int32_t image;
        if (value_of(c, input)->data != NULL)
            HRF_TRY(transpose_constant(c, input, &image, err));
        else
            HRF_TRY(find_image(c, input, &image, err));
        node_of(c)->inputs[k] = image;
    }
    return compute_image(c, err);
}

/* Moves along axes of values that have images. */
static bool is_move(const struct change *c)
{
    const struct hrf_node *node = node_of(c);
    if (!is_wide(c, node->outputs[0]) || !has_image(c, node->inputs[0]))
        return false;
    if (node->op == HRF_OP_CONCAT) {
        for (int32_t k = 1; k < node->n_inputs; k++)
            if (!has_image(c, node->inputs[k]))
                return false;
        return true;
    }
    return (node->op == HRF_OP_SLICE && node->n_inputs == 1) ||
           (node->op == HRF_OP_PAD && node->attributes.n_axes == 4);
}

static void transpose_axes(struct hrf_node *node)
{
    struct hrf_attributes *a = &node->attributes;
    const struct hrf_attributes old = *a;
    if (node->op == HRF_OP_CONCAT)
        a->axis = image_axis[old.axis];
    for (int32_t i = 0; i < old.n_axes && node->op == HRF_OP_SLICE; i++)
        a->axes[i] = image_axis[old.axes[i]];
    for (int32_t i = 0; i < 4 && node->op == HRF_OP_PAD; i++) {
        a->axes[image_axis[i]] = image_axis[i];
        a->pad.sizes[image_axis[i]] = old.pad.sizes[i];
        a->pad.sizes[4 + image_axis[i]] = old.pad.sizes[4 + i];
    }
}

static enum hrf_status transpose_move(struct change *c, struct hrf_error *err)
{
    for (int32_t k = 0; k < node_of(c)->n_inputs; k++)
        node_of(c)->inputs[k] = c->image[node_of(c)->inputs[k]];
    transpose_axes(node_of(c));
    return compute_image(c, err);
}

/* True for a RESHAPE that keeps the elements in order (N, H, W, C on a side of rank 4) and whose
 * input has an image, or whose result should have one. */
static bool is_reshape(const struct change *c)
{
    const struct hrf_node *node = node_of(c);
    return keeps_order(node->op) &&
           (has_image(c, node->inputs[0]) ||
            (is_wide(c, node->outputs[0]) && c->is_wanted[node->outputs[0]] &&
             value_of(c, node->inputs[0])->shape.rank != 4));
}

static enum hrf_status transpose_reshape(struct change *c, struct hrf_error *err)
{
    const int32_t x = node_of(c)->inputs[0];
    struct hrf_attributes a = hrf_attributes_default();
    int32_t inputs[2] = { has_image(c, x) ? c->image[x] : x };
    a.channels_last = true;
    if (value_of(c, node_of(c)->outputs[0])->shape.rank == 4)
        HRF_TRY(compute_image(c, err));
    HRF_TRY(add_sizes(c, node_of(c)->outputs[0], &inputs[1], err));
    hrf_match_become(node_of(c), HRF_OP_RESHAPE, inputs, 2, &a);
    return HRF_OK;
}

/* x [N][T][C] or the like from an image through [N][C][H * W]: the order is that of its pixels. */
static enum hrf_status transpose_tokens(struct change *c, struct hrf_error *err)
{
    struct hrf_node *node = node_of(c);
    struct hrf_attributes a = hrf_attributes_default();
    const int32_t producer = value_of(c, node->inputs[0])->producer;
    const struct hrf_node *reshape = producer >= 0 ? &c->match.graph->nodes[producer] : NULL;
    if (node->attributes.n_axes != 3 || node->attributes.axes[1] != 2 ||
        node->attributes.axes[2] != 1 || reshape == NULL || !keeps_order(reshape->op) ||
        reshape->attributes.channels_last)
        return HRF_OK;
    const struct hrf_shape *x = &value_of(c, reshape->inputs[0])->shape;
    const struct hrf_shape *y = &value_of(c, node->outputs[0])->shape;
    if (!is_wide(c, reshape->inputs[0]) || x->dims[0] != y->dims[0] || x->dims[1] != y->dims[2])
        return HRF_OK;
    int32_t inputs[2] = { reshape->inputs[0] };
    a.channels_last = true;
    HRF_TRY(add_sizes(c, node->outputs[0], &inputs[1], err));
    hrf_match_become(node_of(c), HRF_OP_RESHAPE, inputs, 2, &a);
    return HRF_OK;
}

/* A mean over rows and columns is the global average pool of the image. */
static bool is_mean(const struct change *c)
{
    const struct hrf_node *node = node_of(c);
    const struct hrf_attributes *a = &node->attributes;
    return node->op == HRF_OP_REDUCE_MEAN && has_image(c, node->inputs[0]) && a->n_axes == 2 &&
           a->axes[0] + a->axes[1] == 3 && a->axes[0] != 0 && a->axes[1] != 0;
}

static enum hrf_status transpose_mean(struct change *c, struct hrf_error *err)
{
    const struct hrf_shape x = value_of(c, c->image[node_of(c)->inputs[0]])->shape;
    const struct hrf_shape pooled = { .rank = 4, .dims = { x.dims[0], x.dims[1], 1, 1 } };
    const struct hrf_attributes plain = hrf_attributes_default();
    struct hrf_attributes a = plain;
    HRF_AUTO_FREE char *name = hrf_format("%s.pool", node_of(c)->name);
    int32_t inputs[2];
    HRF_TRY(hrf_graph_add_value(c->match.graph, name, HRF_F32, &pooled, NULL, &inputs[0], err));
    HRF_TRY(hrf_graph_insert_node(c->match.graph, c->at, HRF_OP_GLOBAL_AVERAGE_POOL, name,
                                  &c->image[node_of(c)->inputs[0]], 1, &inputs[0], 1, &plain, err));
    HRF_TRY(add_sizes(c, node_of(c)->outputs[0], &inputs[1], err));
    a.channels_last = true;
    hrf_match_become(node_of(c), HRF_OP_RESHAPE, inputs, 2, &a);
    return HRF_OK;
}

/* ---- the pass ---- */

static enum hrf_status transpose_node(struct change *c, struct hrf_error *err)
{
    struct hrf_node *node = node_of(c);
    if (node->n_outputs != 1 || node->n_inputs == 0)
        return HRF_OK;
    if (transposes(node, from_image) && is_wide(c, node->inputs[0])) {
        c->image[node->outputs[0]] = node->inputs[0];
        return HRF_OK;
    }
    if (transposes(node, to_image) && has_image(c, node->inputs[0])) {
        const struct hrf_attributes plain = hrf_attributes_default();
        hrf_match_become(node, HRF_OP_IDENTITY, &c->image[node->inputs[0]], 1, &plain);
        return HRF_OK;
    }
    if (node->op == HRF_OP_TRANSPOSE)
        return transpose_tokens(c, err);
    if (is_norm(c))
        return transpose_norm(c, err);
    if (is_product(c))
        return transpose_product(c, err);
    if (is_mean(c))
        return transpose_mean(c, err);
    if (is_pointwise(c))
        return transpose_inputs(c, err);
    if (is_move(c))
        return transpose_move(c, err);
    return is_reshape(c) ? transpose_reshape(c, err) : HRF_OK;
}

/* [N][H][W][C] becomes [N][H * W][C] or the like. */
static bool makes_tokens(const struct change *c)
{
    const struct hrf_node *node = node_of(c);
    if (!keeps_order(node->op) || !is_wide(c, node->inputs[0]))
        return false;
    const struct hrf_shape *y = &value_of(c, node->outputs[0])->shape;
    return y->rank != 4 &&
           hrf_shape_last(y) == hrf_shape_last(&value_of(c, node->inputs[0])->shape);
}

static void find_wanted(struct change *c)
{
    for (c->at = c->match.graph->n_nodes - 1; c->at >= 0; c->at--) {
        const struct hrf_node *node = node_of(c);
        const bool passes_on = is_unary(c, node) || hrf_op_is_binary(node->op) ||
                               node->op == HRF_OP_SLICE || node->op == HRF_OP_PAD ||
                               node->op == HRF_OP_CONCAT;
        const bool wants = is_norm(c) || is_product(c) || makes_tokens(c) ||
                           (passes_on && is_wide(c, node->outputs[0]) &&
                            c->is_wanted[node->outputs[0]]);
        for (int32_t k = 0; k < node->n_inputs && wants; k++)
            if (is_wide(c, node->inputs[k]))
                c->is_wanted[node->inputs[k]] = true;
    }
}

enum hrf_status hrf_pass_channels_first(struct hrf_graph *graph, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_match) match = { 0 };
    const int32_t n_nodes = graph->n_nodes;
    HRF_AUTO_FREE int32_t *image = hrf_alloc_array((size_t)graph->n_values + 1, sizeof *image);
    HRF_AUTO_FREE bool *wanted = hrf_calloc((size_t)graph->n_values + 1, sizeof *wanted);
    hrf_match_init(graph, &match);
    struct change c = {
        .match = match, .n_values = graph->n_values, .image = image, .is_wanted = wanted
    };
    for (int32_t v = 0; v < graph->n_values; v++)
        image[v] = -1;
    find_wanted(&c);
    for (c.at = 0; c.at < n_nodes; c.at++)
        HRF_TRY(transpose_node(&c, err));
    hrf_graph_place_nodes(graph);
    return hrf_pass_fold_constants(graph, err);
}
