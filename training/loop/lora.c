/* lora.c - see lora.h. A and B lie as the weights that they are added to: with W of outputs x
 * inputs (a convolution, a Gemm with transpose_b) they are rank x inputs and outputs x rank, with W
 * of inputs x outputs the other way round, so that W becomes W + left * right in either case. */
#include "training/loop/lora.h"

#include "engine/ir/op.h"
#include "training/loop/last_layer.h"
#include "training/samples/draw.h"

#include <math.h>
#include <string.h>

struct adapter {
    int32_t weights;    /* value */
    bool outputs_first; /* outputs x inputs */
};

/* Whether a node's product can have one. */
static bool find_adapter(const struct hrf_graph *graph, const struct hrf_node *node,
                         struct adapter *out)
{
    if (!hrf_last_layers_has(graph, node))
        return false;
    const struct hrf_shape *shape = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    out->weights = node->inputs[HRF_CONV_WEIGHTS];
    out->outputs_first = node->op == HRF_OP_CONV || node->attributes.gemm.transpose_b;
    if (node->op == HRF_OP_CONV)
        return shape->rank == 4 && shape->dims[2] == 1 && shape->dims[3] == 1 &&
               node->attributes.group == 1;
    return (node->op == HRF_OP_GEMM && !node->attributes.gemm.transpose_a) ||
           (node->op == HRF_OP_MATMUL && shape->rank == 2);
}

/* NAME.lora_A or NAME.lora_B; heap. */
static char *name_of(const struct hrf_graph *graph, int32_t weights, char factor)
{
    return hrf_format("%s.lora_%c", graph->values[weights].name, factor);
}

/* ---- A and B ---- */

/* The constant, which is there already if another node has the same weights. */
static enum hrf_status add_factor(struct hrf_graph *graph, const struct adapter *adapter,
                                  char factor, int64_t rank, struct hrf_random *random,
                                  struct hrf_text_list *trained, int32_t *out,
                                  struct hrf_error *err)
{
    const bool is_a = factor == 'A';
    struct hrf_shape shape = graph->values[adapter->weights].shape;
    const int outputs = adapter->outputs_first ? 0 : 1;
    const double bound = 1 / sqrt((double)shape.dims[1 - outputs]);
    HRF_AUTO_FREE char *name = name_of(graph, adapter->weights, factor);
    *out = hrf_graph_find_value(graph, name);
    if (*out >= 0)
        return HRF_OK;
    shape.dims[is_a ? outputs : 1 - outputs] = rank;
    const int64_t n = hrf_shape_count(&shape);
    HRF_AUTO_FREE float *numbers = hrf_try_calloc((size_t)n, sizeof *numbers);
    HRF_CHECK_MEMORY(numbers != NULL, err, "no memory for the weights '%s'", name);
    for (int64_t i = 0; i < n && is_a; i++)
        numbers[i] = (float)(bound * (2 * hrf_random_unit(random) - 1));
    HRF_TRY(hrf_graph_add_value(graph, name, HRF_F32, &shape, numbers, out, err));
    graph->values[*out].is_initializer = true;
    hrf_text_list_add(trained, name);
    return HRF_OK;
}

static enum hrf_status add_product(struct hrf_graph *graph, int32_t at, const char *suffix,
                                   const struct hrf_attributes *attributes, int32_t x,
                                   int32_t weights, const struct hrf_shape *shape, int32_t *out,
                                   struct hrf_error *err)
{
    const int32_t inputs[] = { x, weights };
    HRF_AUTO_FREE char *name = hrf_format("%s.%s", graph->values[graph->nodes[at].outputs[0]].name,
                                          suffix);
    HRF_TRY(hrf_graph_add_value(graph, name, HRF_F32, shape, NULL, out, err));
    return hrf_graph_insert_node(graph, at + 1, graph->nodes[at].op, name, inputs, 2, out, 1,
                                 attributes, err);
}

/* The node gets another output, and what it gave becomes the sum of that and of B A x. */
static enum hrf_status adapt(struct hrf_graph *graph, int32_t at, int32_t a, int32_t b,
                             struct hrf_error *err)
{
    const int32_t x = graph->nodes[at].inputs[0], y = graph->nodes[at].outputs[0];
    const enum hrf_op op = graph->nodes[at].op;
    const struct hrf_shape shape = graph->values[y].shape;
    struct hrf_shape inner = shape;
    struct hrf_attributes first = graph->nodes[at].attributes, second = first;
    const bool is_conv = op == HRF_OP_CONV;
    const int outputs = is_conv || first.gemm.transpose_b ? 0 : 1;
    int32_t sum[2], of_a;
    inner.dims[is_conv ? 1 : inner.rank - 1] = graph->values[a].shape.dims[outputs];
    if (is_conv)
        second = hrf_attributes_of(HRF_OP_CONV); /* strides are the first's */
    first.gemm.alpha = 1;
    HRF_AUTO_FREE char *name = hrf_format("%s.before_lora", graph->values[y].name);
    HRF_TRY(hrf_graph_add_value(graph, name, HRF_F32, &shape, NULL, &sum[0], err));
    HRF_TRY(add_product(graph, at, "lora_A", &first, x, a, &inner, &of_a, err));
    HRF_TRY(add_product(graph, at, "lora_B", &second, of_a, b, &shape, &sum[1], err));
    const struct hrf_attributes plain = hrf_attributes_of(HRF_OP_ADD);
    HRF_AUTO_FREE char *added = hrf_format("%s.with_lora", graph->values[y].name);
    graph->nodes[at].outputs[0] = sum[0];
    graph->values[sum[0]].producer = at;
    return hrf_graph_insert_node(graph, at + 1, HRF_OP_ADD, added, sum, 2, &y, 1, &plain, err);
}

enum hrf_status hrf_lora_add(struct hrf_graph *graph, int64_t rank, int64_t n_layers, int64_t seed,
                             struct hrf_text_list *trained, struct hrf_error *err)
{
    struct hrf_random random = hrf_draw(seed, HRF_DRAW_WEIGHTS, 0, 1);
    const int32_t n_nodes = graph->n_nodes;
    const size_t n_before = trained->n_items;
    struct adapter adapter;
    int32_t first = 0, last = 0;
    HRF_TRY(hrf_last_layers_begin(graph, n_layers, &first, err));
    HRF_TRY(hrf_last_layers_begin(graph, 1, &last, err));
    for (int32_t i = first; i < last && i < n_nodes; i++) {
        int32_t a = -1, b = -1;
        if (!find_adapter(graph, &graph->nodes[i], &adapter))
            continue;
        HRF_TRY(add_factor(graph, &adapter, 'A', rank, &random, trained, &a, err));
        HRF_TRY(add_factor(graph, &adapter, 'B', rank, &random, trained, &b, err));
        HRF_TRY(adapt(graph, i, a, b, err));
    }
    if (trained->n_items == n_before)
        return hrf_error_set(err, HRF_E_USER,
                             "train.lora: none of the layers to be trained is a product or a 1x1 "
                             "convolution beside the last one");
    hrf_graph_place_nodes(graph);
    return hrf_last_layers_list(graph, 1, trained, err);
}

/* ---- merged ---- */

static const struct hrf_value *find(const struct hrf_graph *graph, const char *name)
{
    const int32_t index = hrf_graph_find_value(graph, name);
    return index >= 0 && graph->values[index].data != NULL ? &graph->values[index] : NULL;
}

/* w[rows][columns] += left[rows][rank] right[rank][columns] */
static void add_factors(float *w, const float *left, const float *right, int64_t rows,
                        int64_t columns, int64_t rank)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double sum = (double)w[i * columns + j];
            for (int64_t r = 0; r < rank; r++)
                sum += (double)left[i * rank + r] * (double)right[r * columns + j];
            w[i * columns + j] = (float)sum;
        }
}

enum hrf_status hrf_lora_merge(const struct hrf_graph *graph, const struct hrf_graph *trained,
                               struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_AUTO_FREE bool *is_done = hrf_calloc((size_t)graph->n_values + 1, sizeof *is_done);
    HRF_TRY(hrf_graph_copy(graph, &copy, err));
    for (int32_t v = 0; v < copy->n_values; v++) {
        struct hrf_value *value = &copy->values[v];
        const struct hrf_value *source = find(trained, value->name);
        if (value->data == NULL || value->dtype != HRF_F32 || source == NULL)
            continue;
        const size_t n = (size_t)hrf_shape_count(&value->shape);
        float *numbers = hrf_try_alloc_array(n + 1, sizeof *numbers);
        HRF_CHECK_MEMORY(numbers != NULL, err, "no memory for the weights '%s'", value->name);
        memcpy(numbers, source->data, n * sizeof *numbers);
        hrf_value_set_data(value, numbers);
    }
    for (int32_t i = 0; i < copy->n_nodes; i++) {
        struct adapter adapter;
        if (!find_adapter(copy, &copy->nodes[i], &adapter) || is_done[adapter.weights])
            continue;
        HRF_AUTO_FREE char *name_a = name_of(copy, adapter.weights, 'A');
        HRF_AUTO_FREE char *name_b = name_of(copy, adapter.weights, 'B');
        const struct hrf_value *a = find(trained, name_a), *b = find(trained, name_b);
        const struct hrf_value *w = &copy->values[adapter.weights];
        if (a == NULL || b == NULL)
            continue;
        is_done[adapter.weights] = true;
        const struct hrf_value *left = adapter.outputs_first ? b : a;
        const struct hrf_value *right = adapter.outputs_first ? a : b;
        add_factors(w->data, left->data, right->data, w->shape.dims[0], w->shape.dims[1],
                    left->shape.dims[1]);
    }
    HRF_MOVE(*out, copy);
    return HRF_OK;
}
