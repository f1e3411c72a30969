/* last_layer.c - see last_layer.h. */
#include "training/loop/last_layer.h"

#include "training/samples/draw.h"

#include <math.h>
#include <string.h>

/* ---- the last layer made anew ---- */

/* What may stand between the last layer and the output: it works on each class by itself, or on
 * classes whose number it does not know. */
static bool keeps_classes(enum hrf_op op)
{
    static const enum hrf_op ops[] = { HRF_OP_SOFTMAX, HRF_OP_LOG_SOFTMAX,
                                       HRF_OP_SIGMOID, HRF_OP_FLATTEN,
                                       HRF_OP_SQUEEZE, HRF_OP_IDENTITY,
                                       HRF_OP_CAST,    HRF_OP_GLOBAL_AVERAGE_POOL,
                                       HRF_OP_RESIZE };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (ops[i] == op)
            return true;
    return false;
}

static bool is_weight(const struct hrf_graph *graph, int32_t value)
{
    return value >= 0 && graph->values[value].data != NULL && graph->values[value].dtype == HRF_F32;
}

struct layer {
    int32_t weights, bias; /* values; bias -1: there is none */
    int class_axis;        /* of the weights */
};

static bool find_layer(const struct hrf_graph *graph, struct layer *out)
{
    int32_t value = graph->outputs[0];
    *out = (struct layer){ -1, -1, 0 };
    for (;;) {
        const int32_t producer = graph->values[value].producer;
        if (producer < 0)
            return false;
        const struct hrf_node *node = &graph->nodes[producer];
        if (node->op == HRF_OP_ADD && out->bias < 0 && node->n_inputs == 2) { /* after a MatMul */
            const int side = is_weight(graph, node->inputs[0]) ? 0 : 1;
            if (!is_weight(graph, node->inputs[side]) ||
                graph->values[node->inputs[side]].shape.rank != 1)
                return false;
            out->bias = node->inputs[side];
            value = node->inputs[1 - side];
        } else if (node->op == HRF_OP_GEMM || node->op == HRF_OP_CONV) {
            if (out->bias >= 0)
                return false;
            out->weights = node->inputs[HRF_CONV_WEIGHTS];
            out->bias = hrf_node_input(node, HRF_CONV_BIAS);
            out->class_axis = node->op == HRF_OP_CONV || node->attributes.gemm.transpose_b ? 0 : 1;
            return node->op != HRF_OP_CONV || node->attributes.group == 1;
        } else if (node->op == HRF_OP_MATMUL) {
            out->weights = node->inputs[1];
            out->class_axis = 1;
            return true;
        } else if (keeps_classes(node->op)) {
            value = node->inputs[0];
        } else {
            return false;
        }
    }
}

/* Uniform numbers within `bound`; heap. */
static enum hrf_status draw_numbers(const struct hrf_shape *shape, double bound,
                                    struct hrf_random *random, float **out, struct hrf_error *err)
{
    const int64_t n = hrf_shape_count(shape);
    float *numbers = n > 0 ? hrf_try_alloc_array((size_t)n, sizeof *numbers) : NULL;
    HRF_CHECK_MEMORY(numbers != NULL, err, "no memory for the weights of the last layer");
    for (int64_t i = 0; i < n; i++)
        numbers[i] = (float)(bound * (2 * hrf_random_unit(random) - 1));
    *out = numbers;
    return HRF_OK;
}

/* Replaces the numbers of a weight. */
static enum hrf_status draw_weight(struct hrf_graph *graph, int32_t index,
                                   const struct hrf_shape *shape, double bound,
                                   struct hrf_random *random, struct hrf_error *err)
{
    struct hrf_value *value = &graph->values[index];
    float *numbers = NULL;
    HRF_TRY(draw_numbers(shape, bound, random, &numbers, err));
    hrf_value_set_data(value, numbers);
    value->shape = *shape;
    return HRF_OK;
}

enum hrf_status hrf_last_layer_renew(struct hrf_graph *graph, int64_t n_classes, int64_t seed,
                                     struct hrf_error *err)
{
    struct layer layer;
    bool is_good = find_layer(graph, &layer) && is_weight(graph, layer.weights) &&
                   hrf_graph_count_uses(graph, layer.weights) == 1 &&
                   (layer.bias < 0 ||
                    (is_weight(graph, layer.bias) && hrf_graph_count_uses(graph, layer.bias) == 1));
    struct hrf_shape shape = { .rank = 0 };
    if (is_good)
        shape = graph->values[layer.weights].shape;
    is_good = is_good &&
              (shape.rank == 2 || (shape.rank == 4 && shape.dims[2] == 1 && shape.dims[3] == 1));
    if (!is_good)
        return hrf_error_set(err, HRF_E_USER,
                             "the model ends in no Gemm, MatMul or 1x1 Conv with weights of its "
                             "own, which could be made anew for %lld classes: name as many classes "
                             "as it has, or let model.last_layer add one",
                             (long long)n_classes);
    const double bound = 1 / sqrt((double)shape.dims[1 - layer.class_axis]);
    struct hrf_random random = hrf_draw(seed, HRF_DRAW_WEIGHTS, 0, 0);
    shape.dims[layer.class_axis] = n_classes;
    HRF_TRY(draw_weight(graph, layer.weights, &shape, bound, &random, err));
    if (layer.bias < 0)
        return HRF_OK;
    const struct hrf_shape of_bias = { .rank = 1, .dims = { n_classes } };
    return draw_weight(graph, layer.bias, &of_bias, bound, &random, err);
}

static enum hrf_status add_weight(struct hrf_graph *graph, const char *name,
                                  const struct hrf_shape *shape, double bound,
                                  struct hrf_random *random, int32_t *out, struct hrf_error *err)
{
    HRF_AUTO_FREE float *numbers = NULL;
    HRF_TRY(draw_numbers(shape, bound, random, &numbers, err));
    HRF_TRY(hrf_graph_add_value(graph, name, HRF_F32, shape, numbers, out, err));
    graph->values[*out].is_initializer = true;
    return HRF_OK;
}

enum hrf_status hrf_last_layer_add(struct hrf_graph *graph, int64_t width, int64_t n_classes,
                                   int64_t seed, struct hrf_error *err)
{
    const struct hrf_shape flat = { .rank = 2, .dims = { -1, width } };
    const struct hrf_shape of_weights = { .rank = 2, .dims = { n_classes, width } };
    const struct hrf_shape of_bias = { .rank = 1, .dims = { n_classes } };
    const struct hrf_shape of_scores = { .rank = 2, .dims = { -1, n_classes } };
    struct hrf_random random = hrf_draw(seed, HRF_DRAW_WEIGHTS, 0, 0);
    const double bound = 1 / sqrt((double)width);
    struct hrf_attributes attributes = hrf_attributes_default();
    int32_t inputs[3], scores;
    attributes.axis = 1; /* of the Flatten, which changes nothing of a vector */
    HRF_TRY(
        hrf_graph_add_value(graph, "hires-flow.features", HRF_F32, &flat, NULL, &inputs[0], err));
    HRF_TRY(hrf_graph_add_node(graph, HRF_OP_FLATTEN, "hires-flow.flatten", &graph->outputs[0], 1,
                               &inputs[0], 1, &attributes, err));
    HRF_TRY(add_weight(graph, "hires-flow.classes.weight", &of_weights, bound, &random, &inputs[1],
                       err));
    HRF_TRY(
        add_weight(graph, "hires-flow.classes.bias", &of_bias, bound, &random, &inputs[2], err));
    HRF_TRY(
        hrf_graph_add_value(graph, "hires-flow.scores", HRF_F32, &of_scores, NULL, &scores, err));
    attributes = hrf_attributes_default();
    attributes.gemm.transpose_b = true;
    HRF_TRY(hrf_graph_add_node(graph, HRF_OP_GEMM, "hires-flow.classes", inputs, 3, &scores, 1,
                               &attributes, err));
    const int32_t input = graph->inputs[0];
    return hrf_graph_set_io(graph, &input, 1, &scores, 1, err);
}

void hrf_last_layer_fit(struct hrf_graph *graph, enum hrf_label_kind kind)
{
    const int32_t producer = graph->values[graph->outputs[0]].producer;
    struct hrf_node *node = producer >= 0 ? &graph->nodes[producer] : NULL;
    if (node == NULL || (node->op != HRF_OP_SIGMOID && node->op != HRF_OP_SOFTMAX))
        return;
    if (kind == HRF_LABEL_SEVERAL || kind == HRF_LABEL_NUMBERS) {
        node->op = HRF_OP_IDENTITY;
        node->attributes = hrf_attributes_default();
    } else if (node->op == HRF_OP_SIGMOID) {
        node->op = HRF_OP_SOFTMAX;
        node->attributes.axis = 1;
    }
}

enum hrf_status hrf_last_layer_set(struct hrf_graph *graph, const double *weights,
                                   struct hrf_error *err)
{
    struct layer layer;
    if (!find_layer(graph, &layer) || layer.bias < 0)
        return hrf_error_set(err, HRF_E_BUG, "the network has no last layer");
    struct hrf_value *matrix = &graph->values[layer.weights], *bias = &graph->values[layer.bias];
    const int64_t n_classes = matrix->shape.dims[0], width = matrix->shape.dims[1];
    float *of_matrix = hrf_try_alloc_array((size_t)(n_classes * width), sizeof *of_matrix);
    float *of_bias = hrf_alloc_array((size_t)n_classes, sizeof *of_bias);
    for (int64_t k = 0; k < n_classes && of_matrix != NULL; k++) {
        for (int64_t d = 0; d < width; d++)
            of_matrix[k * width + d] = (float)weights[k * (width + 1) + d];
        of_bias[k] = (float)weights[k * (width + 1) + width];
    }
    hrf_value_set_data(bias, of_bias);
    HRF_CHECK_MEMORY(of_matrix != NULL, err, "no memory for the weights of the last layer");
    hrf_value_set_data(matrix, of_matrix);
    return HRF_OK;
}

bool hrf_last_layer_has_bias(const struct hrf_graph *graph)
{
    struct layer layer;
    return find_layer(graph, &layer) && layer.bias >= 0;
}

/* numbers[i] of class c = i / inner % n becomes numbers[i] * factors[c] + offsets[c]. */
static enum hrf_status scale_weight(struct hrf_graph *graph, int32_t index, int class_axis,
                                    const double *factors, const double *offsets,
                                    struct hrf_error *err)
{
    struct hrf_value *value = &graph->values[index];
    const int64_t n = hrf_shape_count(&value->shape), n_classes = value->shape.dims[class_axis];
    int64_t inner = 1;
    for (int32_t i = class_axis + 1; i < value->shape.rank; i++)
        inner *= value->shape.dims[i];
    float *numbers = hrf_try_alloc_array((size_t)n + 1, sizeof *numbers);
    HRF_CHECK_MEMORY(numbers != NULL, err, "no memory for the weights '%s'", value->name);
    for (int64_t i = 0; i < n; i++) {
        const int64_t c = i / inner % n_classes;
        numbers[i] = (float)((double)((const float *)value->data)[i] * factors[c] +
                             (offsets != NULL ? offsets[c] : 0));
    }
    hrf_value_set_data(value, numbers);
    return HRF_OK;
}

enum hrf_status hrf_last_layer_scale(struct hrf_graph *graph, const double *factors,
                                     const double *offsets, struct hrf_error *err)
{
    struct layer layer;
    if (!find_layer(graph, &layer))
        return hrf_error_set(err, HRF_E_BUG, "the network has no last layer");
    HRF_TRY(scale_weight(graph, layer.weights, layer.class_axis, factors, NULL, err));
    return layer.bias < 0 ? HRF_OK : scale_weight(graph, layer.bias, 0, factors, offsets, err);
}

/* ---- the layers that are trained ---- */

bool hrf_last_layers_has(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const bool is_product = node->op == HRF_OP_CONV || node->op == HRF_OP_CONV_TRANSPOSE ||
                            node->op == HRF_OP_GEMM || node->op == HRF_OP_MATMUL;
    return is_product && is_weight(graph, hrf_node_input(node, HRF_CONV_WEIGHTS));
}

enum hrf_status hrf_last_layers_begin(const struct hrf_graph *graph, int64_t n_layers,
                                      int32_t *first, struct hrf_error *err)
{
    int64_t n_found = 0;
    *first = graph->n_nodes;
    while (*first > 0 && (n_layers == 0 || n_found < n_layers))
        n_found += hrf_last_layers_has(graph, &graph->nodes[--*first]);
    if (n_layers > n_found)
        return hrf_error_set(err, HRF_E_USER,
                             "train.layers is %lld, and the model has %lld convolutions and "
                             "products with weights",
                             (long long)n_layers, (long long)n_found);
    return HRF_OK;
}

enum hrf_status hrf_last_layers_list(const struct hrf_graph *graph, int64_t n_layers,
                                     struct hrf_text_list *out, struct hrf_error *err)
{
    int32_t first = 0;
    HRF_TRY(hrf_last_layers_begin(graph, n_layers, &first, err));
    HRF_AUTO_FREE bool *is_named = hrf_calloc((size_t)graph->n_values + 1, sizeof *is_named);
    for (int32_t i = first; i < graph->n_nodes; i++)
        for (int32_t k = 0; k < graph->nodes[i].n_inputs; k++) {
            const int32_t value = graph->nodes[i].inputs[k];
            if (!is_weight(graph, value) || is_named[value])
                continue;
            is_named[value] = true;
            hrf_text_list_add(out, graph->values[value].name);
        }
    return HRF_OK;
}
