/* class_map.c - finds the pooling and the linear layer at the end of a network and adds the
 * class map (class_map.h). */
#include "engine/run/class_map.h"

#include "engine/ir/op.h"
#include "engine/passes/gradient/gradient.h"
#include "engine/passes/passes.h"
#include "engine/plan/halves.h"

/* The last nodes of the network, from the output backwards. */
struct head {
    int32_t features; /* value: the input of the pooling */
    int32_t weights;  /* value: of the linear layer */
    int64_t n_classes, n_features;
    bool by_feature; /* weights are [features][classes] instead of [classes][features] */
    float scale;     /* GEMM's alpha */
};

/* Operators that only rearrange the numbers of an image, or turn the logits into probabilities. */
static bool is_passed_over(enum hrf_op op, bool after_linear)
{
    return hrf_op_info(op)->op_class == HRF_CLASS_VIEW ||
           (after_linear &&
            (op == HRF_OP_SOFTMAX || op == HRF_OP_LOG_SOFTMAX || op == HRF_OP_SIGMOID));
}

/* The node that computes `value`, after skipping nodes that only pass it on; -1: an input or a
 * constant. */
static int32_t find_maker(const struct hrf_graph *graph, int32_t value, bool after_linear)
{
    int32_t node = graph->values[value].producer;
    while (node >= 0 && is_passed_over(graph->nodes[node].op, after_linear))
        node = graph->values[graph->nodes[node].inputs[0]].producer;
    return node;
}

static enum hrf_status refuse(const struct hrf_graph *graph, int32_t node, const char *wanted,
                              struct hrf_error *err)
{
    return hrf_error_set(err, HRF_E_UNSUPPORTED,
                         "no class activation map: it needs a network that ends in global average "
                         "pooling and one linear layer, and '%s' (%s) is not %s",
                         node >= 0 ? graph->nodes[node].name : "the input",
                         node >= 0 ? hrf_op_name(graph->nodes[node].op) : "nothing", wanted);
}

static enum hrf_status read_linear(const struct hrf_graph *graph, int32_t n, struct head *head,
                                   struct hrf_error *err)
{
    const char *wanted = "a linear layer with constant weights";
    if (n < 0)
        return refuse(graph, n, wanted, err);
    const struct hrf_node *node = &graph->nodes[n];
    bool is_gemm = node->op == HRF_OP_GEMM && !node->attributes.gemm.transpose_a;
    if (!is_gemm && node->op != HRF_OP_MATMUL && node->op != HRF_OP_CONV)
        return refuse(graph, n, wanted, err);
    const struct hrf_value *weights = &graph->values[node->inputs[1]];
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    if (weights->data == NULL || weights->dtype != HRF_F32 ||
        (node->op == HRF_OP_CONV &&
         (y->dims[2] != 1 || y->dims[3] != 1 || node->attributes.group != 1 ||
          hrf_shape_count(&weights->shape) != weights->shape.dims[0] * weights->shape.dims[1])) ||
        (node->op != HRF_OP_CONV && weights->shape.rank != 2))
        return refuse(graph, n, wanted, err);
    head->weights = node->inputs[1];
    head->by_feature = node->op == HRF_OP_MATMUL || (is_gemm && !node->attributes.gemm.transpose_b);
    head->n_classes = weights->shape.dims[head->by_feature ? 1 : 0];
    head->n_features = weights->shape.dims[head->by_feature ? 0 : 1];
    head->scale = is_gemm ? node->attributes.gemm.alpha : 1;
    return HRF_OK;
}

/* True if the node is the mean over all rows and columns, by whichever operator. */
static bool is_global_mean(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_shape *x = &graph->values[node->inputs[0]].shape;
    const struct hrf_attributes *a = &node->attributes;
    if (x->rank != 4)
        return false;
    if (node->op == HRF_OP_REDUCE_MEAN)
        return a->n_axes == 2 && a->axes[0] + a->axes[1] == 5 && a->axes[0] * a->axes[1] == 6;
    if (node->op == HRF_OP_AVERAGE_POOL)
        return a->window.kernel[0] == x->dims[2] && a->window.kernel[1] == x->dims[3];
    return node->op == HRF_OP_GLOBAL_AVERAGE_POOL;
}

static enum hrf_status find_head(const struct hrf_graph *graph, struct head *head,
                                 struct hrf_error *err)
{
    int32_t linear = find_maker(graph, graph->outputs[0], true);
    if (linear >= 0 && graph->nodes[linear].op == HRF_OP_ADD) { /* MatMul, then its bias */
        const struct hrf_node *add = &graph->nodes[linear];
        bool first = graph->values[add->inputs[0]].data != NULL;
        linear = find_maker(graph, add->inputs[first ? 1 : 0], false);
    }
    HRF_TRY(read_linear(graph, linear, head, err));
    int32_t pool = find_maker(graph, graph->nodes[linear].inputs[0], false);
    if (pool < 0 || !is_global_mean(graph, &graph->nodes[pool]))
        return refuse(graph, pool, "global average pooling", err);
    head->features = graph->nodes[pool].inputs[0];
    if (graph->values[head->features].shape.dims[1] != head->n_features)
        return refuse(graph, linear, "a layer with one weight per feature", err);
    return HRF_OK;
}

static enum hrf_status add_weights(struct hrf_graph *graph, const struct head *head, int32_t *index,
                                   struct hrf_error *err)
{
    const float *w = graph->values[head->weights].data;
    HRF_AUTO_FREE float *copy = hrf_try_alloc_array((size_t)(head->n_classes * head->n_features),
                                                    sizeof *copy);
    HRF_CHECK_MEMORY(copy != NULL, err, "no memory for a class activation map");
    for (int64_t c = 0; c < head->n_classes; c++)
        for (int64_t f = 0; f < head->n_features; f++)
            copy[c * head->n_features + f] = head->scale * (head->by_feature
                                                                ? w[f * head->n_classes + c]
                                                                : w[c * head->n_features + f]);
    const struct hrf_shape shape = { 4, { head->n_classes, head->n_features, 1, 1 } };
    return hrf_graph_add_value(graph, "class map weights", HRF_F32, &shape, copy, index, err);
}

enum hrf_status hrf_class_map_add(struct hrf_graph *graph, struct hrf_error *err)
{
    struct head head = { .features = HRF_NO_VALUE };
    int32_t weights, map;
    HRF_TRY(find_head(graph, &head, err));
    HRF_TRY(add_weights(graph, &head, &weights, err));
    struct hrf_shape shape = graph->values[head.features].shape;
    shape.dims[1] = head.n_classes;
    HRF_TRY(hrf_graph_add_value(graph, "class map", HRF_F32, &shape, NULL, &map, err));
    struct hrf_attributes attributes = hrf_attributes_default();
    attributes.window.kernel[0] = attributes.window.kernel[1] = 1;
    const int32_t inputs[] = { head.features, weights };
    HRF_TRY(
        hrf_graph_add_node(graph, HRF_OP_CONV, "class map", inputs, 2, &map, 1, &attributes, err));
    const int32_t input = graph->inputs[0], outputs[] = { graph->outputs[0], map };
    return hrf_graph_set_io(graph, &input, 1, outputs, 2, err);
}

/* ---- by the gradient ---- */

/* Features with their positions: an image, N, C, H, W or N, H, W, C, or tokens, N, T, C, of which
 * the last rows * columns are those of the image. */
struct positions {
    int32_t features;
    int32_t channel_axis;
    uint32_t axes;                  /* of the positions */
    int64_t rows, columns, n_other; /* tokens before those of the image */
    int32_t mean; /* the mean over the positions if nothing else reads the features; -1 */
};

static uint32_t axes_of(const struct hrf_node *node)
{
    uint32_t axes = 0;
    for (int32_t i = 0; i < node->attributes.n_axes; i++)
        axes |= 1u << node->attributes.axes[i];
    return axes;
}

/* The only node that reads a value; -1: there are several, or none. */
static int32_t find_reader(const struct hrf_graph *graph, int32_t value)
{
    int32_t reader = -1;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        for (int32_t k = 0; k < graph->nodes[n].n_inputs; k++)
            if (graph->nodes[n].inputs[k] == value) {
                if (reader >= 0 && reader != n)
                    return -1;
                reader = n;
            }
    return reader;
}

/* True if nodes from `cut` on take some of the tokens before any attention mixes them: the gradient
 * to the others is zero. */
static bool takes_some_tokens(const struct hrf_graph *graph, int32_t cut, int64_t n_tokens)
{
    for (int32_t n = cut; n < graph->n_nodes; n++) {
        const struct hrf_node *node = &graph->nodes[n];
        const struct hrf_shape *x = node->inputs[0] >= 0 ? &graph->values[node->inputs[0]].shape
                                                         : NULL;
        const bool is_tokens = x != NULL && x->rank == 3 && x->dims[1] == n_tokens;
        if (node->op == HRF_OP_ATTENTION || node->op == HRF_OP_SOFTMAX)
            return false;
        if (is_tokens && ((node->op == HRF_OP_GATHER && node->attributes.axis == 1) ||
                          (node->op == HRF_OP_SLICE && (axes_of(node) & 2) != 0)))
            return true;
    }
    return false;
}

/* Whether a value, at which the graph can be cut before node `cut`, has positions of the image.
 * `grid`: the last image of features before it; HRF_NO_VALUE: there is none. */
static bool has_positions(const struct hrf_graph *graph, int32_t value, int32_t cut, int32_t grid,
                          struct positions *out)
{
    const struct hrf_shape *shape = &graph->values[value].shape;
    const int32_t reader = find_reader(graph, value);
    const struct hrf_node *node = reader >= 0 ? &graph->nodes[reader] : NULL;
    const bool is_reduced = node != NULL && node->op == HRF_OP_REDUCE_MEAN;
    *out = (struct positions){ .features = value, .channel_axis = 1, .axes = 12, .mean = -1 };
    if (graph->values[value].dtype != HRF_F32 || shape->rank < 3 || shape->dims[0] != 1)
        return false;
    if (shape->rank == 4) {
        const bool is_last = is_reduced && axes_of(node) == 6; /* the channels are the last axis */
        out->channel_axis = is_last ? 3 : 1;
        out->axes = is_last ? 6 : 12;
        out->rows = shape->dims[is_last ? 1 : 2];
        out->columns = shape->dims[is_last ? 2 : 3];
        if (is_last || (node != NULL && is_global_mean(graph, node)))
            out->mean = node->outputs[0];
        return out->rows * out->columns > 1;
    }
    if (shape->rank != 3 || grid == HRF_NO_VALUE)
        return false;
    out->channel_axis = 2;
    out->axes = 2;
    out->rows = graph->values[grid].shape.dims[2];
    out->columns = graph->values[grid].shape.dims[3];
    out->n_other = shape->dims[1] - out->rows * out->columns;
    if (is_reduced && axes_of(node) == out->axes && out->n_other == 0)
        out->mean = node->outputs[0];
    return out->rows * out->columns > 1 && out->n_other >= 0 &&
           out->n_other < out->rows * out->columns &&
           !takes_some_tokens(graph, cut, shape->dims[1]);
}

/* The last features through which all goes that the output depends on. */
static bool find_positions(const struct hrf_graph *graph, int32_t logits, struct positions *out)
{
    HRF_AUTO_FREE int32_t *last = hrf_alloc_array((size_t)graph->n_values + 1, sizeof *last);
    int32_t grid = HRF_NO_VALUE; /* the last image of features so far */
    bool is_found = false;
    hrf_graph_find_last_readers(graph, last);
    for (int32_t n = 0; n < graph->values[logits].producer; n++) {
        const int32_t y = graph->nodes[n].outputs[0];
        struct positions here;
        if (hrf_halves_is_single(graph, last, n + 1) && last[y] > n &&
            has_positions(graph, y, n + 1, grid, &here)) {
            *out = here;
            is_found = true;
        }
        if (graph->nodes[n].op == HRF_OP_CONV && graph->values[y].shape.rank == 4)
            grid = y;
    }
    return is_found;
}

/* Nodes that are added one after the other; the first failure ends it. */
struct adding {
    struct hrf_graph *graph;
    enum hrf_status status;
    struct hrf_error *err;
};

static int32_t add(struct adding *a, enum hrf_op op, const struct hrf_attributes *attributes,
                   struct hrf_shape shape, int32_t x, int32_t z)
{
    const struct hrf_attributes plain = hrf_attributes_of(op);
    const int32_t inputs[] = { x, z }, n = a->graph->n_nodes;
    int32_t y = HRF_NO_VALUE;
    HRF_AUTO_FREE char *name = hrf_format("class map %d", (int)n);
    if (a->status == HRF_OK)
        a->status = hrf_graph_add_value(a->graph, name, HRF_F32, &shape, NULL, &y, a->err);
    if (a->status == HRF_OK)
        a->status = hrf_graph_add_node(a->graph, op, name, inputs, z == HRF_NO_VALUE ? 1 : 2, &y, 1,
                                       attributes != NULL ? attributes : &plain, a->err);
    if (a->status == HRF_OK)
        a->graph->nodes[n].origin = n + 1; /* sums over pixels can be divided over ranks */
    return y;
}

static int32_t constant(struct adding *a, enum hrf_dtype dtype, struct hrf_shape shape,
                        const void *data)
{
    int32_t y = HRF_NO_VALUE;
    if (a->status == HRF_OK)
        a->status = hrf_graph_add_value(a->graph, "class map constant", dtype, &shape, data, &y,
                                        a->err);
    return y;
}

static int32_t reduce(struct adding *a, enum hrf_op op, int32_t x, uint32_t axes)
{
    struct hrf_attributes attributes = hrf_attributes_of(op);
    struct hrf_shape shape = a->graph->values[x].shape;
    attributes.keep_dims = true;
    for (int32_t i = 0; i < shape.rank; i++)
        if ((axes & (1u << i)) != 0) {
            attributes.axes[attributes.n_axes++] = i;
            shape.dims[i] = 1;
        }
    return add(a, op, &attributes, shape, x, HRF_NO_VALUE);
}

static int32_t reshape(struct adding *a, int32_t x, struct hrf_shape to)
{
    if (a->status != HRF_OK || hrf_shape_equal(&a->graph->values[x].shape, &to))
        return x;
    const int32_t sizes = constant(a, HRF_S64, (struct hrf_shape){ 1, { to.rank } }, to.dims);
    return add(a, HRF_OP_RESHAPE, NULL, to, x, sizes);
}

/* The tokens of the image. */
static int32_t own(struct adding *a, const struct positions *at, int32_t x)
{
    if (a->status != HRF_OK || at->n_other == 0)
        return x;
    struct hrf_shape shape = a->graph->values[x].shape;
    const struct hrf_attributes part = hrf_attributes_slice(1, at->n_other, shape.dims[1]);
    shape.dims[1] -= at->n_other;
    return add(a, HRF_OP_SLICE, &part, shape, x, HRF_NO_VALUE);
}

/* The map, from the gradient to the features, or to their mean, which each position has a share
 * of. */
static int32_t add_map(struct adding *a, const struct positions *at, int32_t gradient)
{
    const int32_t features = own(a, at, at->features);
    const float share = 1 / (float)(at->rows * at->columns);
    if (a->status != HRF_OK)
        return HRF_NO_VALUE;
    const struct hrf_shape shape = a->graph->values[features].shape;
    int32_t weights;
    if (at->mean >= 0) {
        struct hrf_shape kept = shape;
        for (int32_t i = 0; i < shape.rank; i++)
            kept.dims[i] = (at->axes & (1u << i)) != 0 ? 1 : shape.dims[i];
        weights = reshape(a, gradient, kept);
        weights = add(a, HRF_OP_MUL, NULL, kept, weights,
                      constant(a, HRF_F32, (struct hrf_shape){ .rank = 0 }, &share));
    } else {
        weights = reduce(a, HRF_OP_REDUCE_MEAN, own(a, at, gradient), at->axes);
    }
    const int32_t products = add(a, HRF_OP_MUL, NULL, shape, features, weights);
    const int32_t sums = a->status == HRF_OK
                             ? reduce(a, HRF_OP_REDUCE_SUM, products, 1u << at->channel_axis)
                             : HRF_NO_VALUE;
    if (a->status != HRF_OK)
        return HRF_NO_VALUE;
    const int32_t positive = add(a, HRF_OP_RELU, NULL, a->graph->values[sums].shape, sums,
                                 HRF_NO_VALUE);
    return reshape(a, positive, (struct hrf_shape){ 4, { 1, 1, at->rows, at->columns } });
}

enum hrf_status hrf_class_map_add_gradient(struct hrf_graph **graph, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) made = NULL;
    struct positions at;
    int32_t gradient;
    HRF_TRY(hrf_graph_copy(*graph, &made, err));
    hrf_pass_recover_functions(made);
    hrf_pass_recover_attention(made);
    const int32_t last = find_maker(made, made->outputs[0], true);
    const int32_t logits = last >= 0 ? made->nodes[last].outputs[0] : HRF_NO_VALUE;
    const struct hrf_shape *shape = logits != HRF_NO_VALUE ? &made->values[logits].shape : NULL;
    if (shape == NULL || shape->rank < 2 || hrf_shape_count(shape) != shape->dims[1] ||
        !find_positions(made, logits, &at))
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "no features of the network that its whole output depends on have "
                             "positions of the image");
    HRF_TRY(hrf_pass_gradient_of_largest(made, logits, at.mean >= 0 ? at.mean : at.features,
                                         &gradient, err));
    struct adding a = { made, HRF_OK, err };
    const int32_t map = add_map(&a, &at, gradient);
    HRF_TRY(a.status);
    const int32_t outputs[] = { made->outputs[0], map };
    HRF_TRY(hrf_graph_set_io(made, made->inputs, made->n_inputs, outputs, 2, err));
    HRF_TRY(hrf_graph_infer_shapes(made, err));
    hrf_graph_destroy(*graph);
    *graph = NULL;
    HRF_MOVE(*graph, made);
    return HRF_OK;
}
