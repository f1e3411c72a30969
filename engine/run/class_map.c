/* class_map.c - finds the pooling and the linear layer at the end of a network and adds the
 * class map (class_map.h). */
#include "engine/run/class_map.h"

#include "engine/ir/op.h"

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
