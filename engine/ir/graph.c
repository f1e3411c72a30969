/* graph.c - the graph as a container: creates, extends, copies and destroys it. compact.c removes
 * what is unused. */
#include "engine/ir/graph.h"

#include "base/array.h"
#include "engine/ir/fixed_input.h"

#include "base/min_max.h"
#include "engine/ir/op.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct dtype_info {
    const char *name;
    size_t size; /* bytes */
};

static const struct dtype_info dtypes[] = {
    [HRF_DTYPE_NONE] = { "none", 0 }, [HRF_F32] = { "float32", 4 },  [HRF_F64] = { "float64", 8 },
    [HRF_F16] = { "float16", 2 },     [HRF_B16] = { "bfloat16", 2 }, [HRF_S8] = { "int8", 1 },
    [HRF_U8] = { "uint8", 1 },        [HRF_S32] = { "int32", 4 },    [HRF_S64] = { "int64", 8 },
    [HRF_BOOL] = { "bool", 1 },
};

size_t hrf_dtype_size(enum hrf_dtype dtype)
{
    return dtypes[dtype].size;
}

const char *hrf_dtype_name(enum hrf_dtype dtype)
{
    return dtypes[dtype].name;
}

int64_t hrf_shape_count(const struct hrf_shape *shape)
{
    if (shape->rank < 0)
        return -1;
    int64_t count = 1;
    bool empty = false;
    for (int32_t i = 0; i < shape->rank; i++) {
        int64_t dim = shape->dims[i];
        if (dim < 0)
            return -1;
        if (dim == 0) {
            empty = true;
            continue;
        }
        if (!hrf_checked_mul(count, dim, &count) || count > HRF_MAX_ELEMENTS)
            return -1;
    }
    return empty ? 0 : count;
}

bool hrf_shape_equal(const struct hrf_shape *a, const struct hrf_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

void hrf_shape_text(const struct hrf_shape *shape, char out[128])
{
    if (shape->rank <= 0) {
        snprintf(out, 128, "%s", shape->rank == 0 ? "scalar" : "unknown");
        return;
    }
    size_t at = 0;
    for (int32_t i = 0; i < shape->rank && at < 127; i++) {
        const char *cross = i > 0 ? "x" : "";
        int n = shape->dims[i] < 0
                    ? snprintf(out + at, 128 - at, "%s?", cross)
                    : snprintf(out + at, 128 - at, "%s%lld", cross, (long long)shape->dims[i]);
        at += (size_t)n;
    }
}

int64_t hrf_value_bytes(const struct hrf_value *value)
{
    const int64_t *dims = value->shape.dims;
    const int64_t count = value->pixel_stride > 0
                              ? dims[0] * dims[2] * dims[3] * value->pixel_stride
                              : hrf_shape_count(&value->shape);
    return count * (int64_t)hrf_dtype_size(value->dtype);
}

struct hrf_attributes hrf_attributes_slice(int64_t axis, int64_t begin, int64_t end)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_axes = 1;
    a.axes[0] = axis;
    a.slice.starts[0] = begin;
    a.slice.ends[0] = end;
    a.slice.steps[0] = 1;
    return a;
}

enum hrf_status hrf_graph_create(const char *name, struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = hrf_try_calloc(1, sizeof *graph);
    HRF_CHECK_MEMORY(graph != NULL, err, "out of memory for a graph");
    graph->name = hrf_strdup(name != NULL ? name : "");
    graph->bounds = (struct hrf_bounds){ .memory_bytes = HRF_DEFAULT_MAX_MEMORY,
                                         .operations = HRF_DEFAULT_MAX_OPERATIONS };
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

static void release_node(struct hrf_node *node)
{
    hrf_free(node->name);
    hrf_free(node->inputs);
    hrf_free(node->outputs);
}

void hrf_graph_find_last_readers(const struct hrf_graph *graph, int32_t *last)
{
    for (int32_t v = 0; v < graph->n_values; v++)
        last[v] = -1;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        for (int32_t k = 0; k < graph->nodes[n].n_inputs; k++)
            if (graph->nodes[n].inputs[k] >= 0)
                last[graph->nodes[n].inputs[k]] = n;
}

/* Reference count of constant data that values of several graphs share. */
struct hrf_shared_data {
    atomic_int n;
};

void hrf_value_own_data(struct hrf_value *value)
{
    if (value->data == NULL || value->share != NULL || value->is_borrowed)
        return;
    value->share = hrf_alloc(sizeof *value->share);
    atomic_init(&value->share->n, 1);
}

void hrf_value_release_data(struct hrf_value *value)
{
    const bool is_last = value->share == NULL || atomic_fetch_sub(&value->share->n, 1) == 1;
    if (is_last)
        hrf_free(value->share);
    if (is_last && !value->is_borrowed)
        hrf_free(value->data);
    value->share = NULL;
    value->data = NULL;
}

void hrf_value_set_data(struct hrf_value *value, void *data)
{
    hrf_value_release_data(value);
    value->data = data;
    value->is_borrowed = false;
    hrf_value_own_data(value);
}

void hrf_graph_drop_constant(struct hrf_graph *graph, int32_t index)
{
    static unsigned char
        nothing; /* `data` of a dropped constant: not NULL, so that it still counts as a constant */
    struct hrf_value *value = &graph->values[index];
    if (value->data == NULL)
        return;
    hrf_value_release_data(value);
    value->data = &nothing;
    value->is_borrowed = true;
}

void hrf_graph_drop_constants(struct hrf_graph *graph)
{
    for (int32_t i = 0; i < graph->n_values; i++)
        hrf_graph_drop_constant(graph, i);
}

enum hrf_status hrf_graph_open_constants(struct hrf_graph *graph, const int32_t *values, int32_t n,
                                         struct hrf_error *err)
{
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array((size_t)graph->n_inputs + (size_t)n + 1,
                                                    sizeof *inputs);
    for (int32_t i = 0; i < graph->n_inputs; i++)
        inputs[i] = graph->inputs[i];
    for (int32_t i = 0; i < n; i++) {
        hrf_value_release_data(&graph->values[values[i]]);
        inputs[graph->n_inputs + i] = values[i];
    }
    return hrf_graph_set_io(graph, inputs, graph->n_inputs + n, graph->outputs, graph->n_outputs,
                            err);
}

void hrf_graph_close_inputs(struct hrf_graph *graph, float *const *data, int32_t n)
{
    graph->n_inputs -= n;
    for (int32_t i = 0; i < n; i++) {
        struct hrf_value *value = &graph->values[graph->inputs[graph->n_inputs + i]];
        value->data = data[i];
        value->is_borrowed = true;
        value->is_variable = true;
    }
}

void hrf_graph_destroy(struct hrf_graph *graph)
{
    if (graph == NULL)
        return;
    for (int32_t i = 0; i < graph->n_values; i++) {
        hrf_free(graph->values[i].name);
        hrf_value_release_data(&graph->values[i]);
    }
    for (int32_t i = 0; i < graph->n_nodes; i++)
        release_node(&graph->nodes[i]);
    hrf_free(graph->values);
    hrf_free(graph->nodes);
    hrf_free(graph->inputs);
    hrf_free(graph->outputs);
    hrf_free(graph->name);
    hrf_free(graph);
}

static enum hrf_status check_shape(const char *name, enum hrf_dtype dtype,
                                   const struct hrf_shape *shape, bool has_data,
                                   struct hrf_error *err)
{
    if (shape->rank > HRF_MAX_RANK)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "value '%s' has %d dimensions; at most %d are supported", name,
                             (int)shape->rank, HRF_MAX_RANK);
    if (!has_data)
        return HRF_OK;
    if (hrf_dtype_size(dtype) == 0)
        return hrf_error_set(err, HRF_E_BUG, "constant '%s' has no type", name);
    if (hrf_shape_count(shape) < 0) {
        char text[128];
        hrf_shape_text(shape, text);
        return hrf_error_set(err, HRF_E_USER, "constant '%s' has the impossible shape %s", name,
                             text);
    }
    return HRF_OK;
}

enum hrf_status hrf_graph_take_value(struct hrf_graph *graph, const char *name,
                                     enum hrf_dtype dtype, const struct hrf_shape *shape,
                                     void **data, int32_t *index, struct hrf_error *err)
{
    HRF_TRY(check_shape(name, dtype, shape, data != NULL && *data != NULL, err));
    if (graph->n_values == INT32_MAX)
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "graph '%s' has too many values", graph->name);
    HRF_RESERVE(graph->values, graph->values_capacity, (size_t)graph->n_values + 1);
    const bool is_constant = data != NULL && *data != NULL;
    HRF_AUTO_FREE struct hrf_shared_data *share = is_constant ? hrf_alloc(sizeof *share) : NULL;
    char *copy = hrf_strdup(name != NULL ? name : "");
    if (share != NULL)
        atomic_init(&share->n, 1);
    graph->values[graph->n_values] = (struct hrf_value){ .name = copy,
                                                         .share = share,
                                                         .dtype = dtype,
                                                         .shape = *shape,
                                                         .data = data != NULL ? *data : NULL,
                                                         .producer = -1 };
    share = NULL;
    if (data != NULL)
        *data = NULL;
    *index = graph->n_values++;
    return HRF_OK;
}

enum hrf_status hrf_graph_borrow_value(struct hrf_graph *graph, const char *name,
                                       enum hrf_dtype dtype, const struct hrf_shape *shape,
                                       void *data, int32_t *index, struct hrf_error *err)
{
    HRF_TRY(hrf_graph_take_value(graph, name, dtype, shape, &data, index, err));
    graph->values[*index].is_borrowed = true;
    return HRF_OK;
}

enum hrf_status hrf_graph_add_value(struct hrf_graph *graph, const char *name, enum hrf_dtype dtype,
                                    const struct hrf_shape *shape, const void *data, int32_t *index,
                                    struct hrf_error *err)
{
    HRF_AUTO_FREE void *copy = NULL;
    if (data != NULL) {
        HRF_TRY(check_shape(name, dtype, shape, true, err));
        size_t n_bytes = (size_t)hrf_shape_count(shape) * hrf_dtype_size(dtype);
        copy = hrf_alloc_aligned(n_bytes, sizeof(void *));
        HRF_CHECK_MEMORY(copy != NULL, err, "out of memory for the %zu bytes of '%s'", n_bytes,
                         name);
        memcpy(copy, data, n_bytes);
    }
    return hrf_graph_take_value(graph, name, dtype, shape, &copy, index, err);
}

enum hrf_status hrf_graph_share_value(struct hrf_graph *graph, const struct hrf_value *value,
                                      const char *name, int32_t *index, struct hrf_error *err)
{
    if (value->share == NULL || value->is_borrowed)
        return hrf_graph_add_value(graph, name, value->dtype, &value->shape, value->data, index,
                                   err);
    HRF_TRY(hrf_graph_add_value(graph, name, value->dtype, &value->shape, NULL, index, err));
    atomic_fetch_add(&value->share->n, 1);
    graph->values[*index].data = value->data;
    graph->values[*index].share = value->share;
    return HRF_OK;
}

static int32_t *copy_indices(const int32_t *from, int32_t n)
{
    int32_t *to = hrf_try_alloc_array((size_t)n, sizeof *to);
    if (to != NULL && n > 0)
        memcpy(to, from, (size_t)n * sizeof *to);
    return to;
}

enum hrf_status hrf_graph_add_node(struct hrf_graph *graph, enum hrf_op op, const char *name,
                                   const int32_t *inputs, int32_t n_inputs, const int32_t *outputs,
                                   int32_t n_outputs, const struct hrf_attributes *attributes,
                                   struct hrf_error *err)
{
    if (graph->n_nodes == INT32_MAX)
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "graph '%s' has too many nodes", graph->name);
    HRF_RESERVE(graph->nodes, graph->nodes_capacity, (size_t)graph->n_nodes + 1);
    struct hrf_node node = {
        .op = op, .n_inputs = n_inputs, .n_outputs = n_outputs, .before = -1, .owner = -1
    };
    node.attributes = attributes != NULL ? *attributes : hrf_attributes_default();
    node.name = name != NULL && name[0] != '\0'
                    ? hrf_strdup(name)
                    : hrf_format("%s_%d", hrf_op_name(op), (int)graph->n_nodes);
    node.inputs = copy_indices(inputs, n_inputs);
    node.outputs = copy_indices(outputs, n_outputs);
    if (node.inputs == NULL || node.outputs == NULL) {
        release_node(&node);
        return hrf_error_set(err, HRF_E_NOMEM, "out of memory for a node of %d inputs", n_inputs);
    }
    for (int32_t i = 0; i < n_outputs; i++) {
        assert(outputs[i] >= 0 && outputs[i] < graph->n_values);
        graph->values[outputs[i]].producer = graph->n_nodes;
    }
    graph->nodes[graph->n_nodes++] = node;
    return HRF_OK;
}

enum hrf_status hrf_graph_insert_node(struct hrf_graph *graph, int32_t at, enum hrf_op op,
                                      const char *name, const int32_t *inputs, int32_t n_inputs,
                                      const int32_t *outputs, int32_t n_outputs,
                                      const struct hrf_attributes *attributes,
                                      struct hrf_error *err)
{
    HRF_TRY(
        hrf_graph_add_node(graph, op, name, inputs, n_inputs, outputs, n_outputs, attributes, err));
    graph->nodes[graph->n_nodes - 1].before = at;
    return HRF_OK;
}

void hrf_graph_place_nodes(struct hrf_graph *graph)
{
    const int32_t n = graph->n_nodes;
    struct hrf_node *placed = hrf_alloc_array((size_t)n, sizeof *placed);
    /* position[i] is first the number of nodes to insert before node i, later the position of the
     * next of these. Node i follows them. */
    HRF_AUTO_FREE int32_t *position = hrf_calloc((size_t)n + 1, sizeof *position);
    for (int32_t i = 0; i < n; i++)
        if (graph->nodes[i].before >= 0)
            position[graph->nodes[i].before]++;
    for (int32_t i = 0, next = 0; i < n; i++) {
        const int32_t count = position[i];
        position[i] = next;
        next += count + (graph->nodes[i].before < 0);
    }
    for (int32_t i = 0; i < n; i++)
        if (graph->nodes[i].before >= 0)
            placed[position[graph->nodes[i].before]++] = graph->nodes[i];
    for (int32_t i = 0; i < n; i++)
        if (graph->nodes[i].before < 0)
            placed[position[i]] = graph->nodes[i];
    for (int32_t i = 0; i < n; i++) {
        placed[i].before = -1;
        for (int32_t k = 0; k < placed[i].n_outputs; k++)
            graph->values[placed[i].outputs[k]].producer = i;
    }
    hrf_free(graph->nodes);
    graph->nodes = placed;
    graph->nodes_capacity = (size_t)n;
}

enum hrf_status hrf_graph_set_io(struct hrf_graph *graph, const int32_t *inputs, int32_t n_inputs,
                                 const int32_t *outputs, int32_t n_outputs, struct hrf_error *err)
{
    int32_t *new_inputs = copy_indices(inputs, n_inputs);
    int32_t *new_outputs = copy_indices(outputs, n_outputs);
    if (new_inputs == NULL || new_outputs == NULL) {
        hrf_free(new_inputs);
        hrf_free(new_outputs);
        return hrf_error_set(err, HRF_E_NOMEM, "out of memory for the inputs and outputs of '%s'",
                             graph->name);
    }
    hrf_free(graph->inputs);
    hrf_free(graph->outputs);
    graph->inputs = new_inputs;
    graph->n_inputs = n_inputs;
    graph->outputs = new_outputs;
    graph->n_outputs = n_outputs;
    return HRF_OK;
}

enum hrf_status hrf_graph_copy(const struct hrf_graph *graph, struct hrf_graph **out,
                               struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) copy = NULL;
    HRF_TRY(hrf_graph_create(graph->name, &copy, err));
    copy->bounds = graph->bounds;
    copy->n_images = graph->n_images;
    copy->file_shape = graph->file_shape;
    for (int32_t i = 0; i < graph->n_values; i++) {
        const struct hrf_value *value = &graph->values[i];
        int32_t index;
        HRF_TRY(hrf_graph_share_value(copy, value, value->name, &index, err));
        copy->values[index].quantization = value->quantization;
        copy->values[index].pixel_stride = value->pixel_stride;
        copy->values[index].grain = value->grain;
        copy->values[index].is_initializer = value->is_initializer;
        copy->values[index].is_variable = value->is_variable;
        copy->values[index].is_batch_sum = value->is_batch_sum;
        copy->values[index].is_of_batch = value->is_of_batch;
    }
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const struct hrf_node *node = &graph->nodes[i];
        HRF_TRY(hrf_graph_add_node(copy, node->op, node->name, node->inputs, node->n_inputs,
                                   node->outputs, node->n_outputs, &node->attributes, err));
        copy->nodes[i].owner = node->owner;
        copy->nodes[i].origin = node->origin;
        copy->nodes[i].is_backward = node->is_backward;
    }
    HRF_TRY(hrf_graph_set_io(copy, graph->inputs, graph->n_inputs, graph->outputs, graph->n_outputs,
                             err));
    HRF_MOVE(*out, copy);
    return HRF_OK;
}

int32_t hrf_graph_find_value(const struct hrf_graph *graph, const char *name)
{
    for (int32_t i = 0; i < graph->n_values; i++)
        if (strcmp(graph->values[i].name, name) == 0)
            return i;
    return -1;
}

int32_t hrf_graph_count_uses(const struct hrf_graph *graph, int32_t value)
{
    int32_t n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        for (int32_t k = 0; k < graph->nodes[i].n_inputs; k++)
            n += graph->nodes[i].inputs[k] == value;
    for (int32_t i = 0; i < graph->n_outputs; i++)
        n += graph->outputs[i] == value;
    return n;
}

void hrf_graph_count_all_uses(const struct hrf_graph *graph, int32_t *n_uses)
{
    for (int32_t v = 0; v < graph->n_values; v++)
        n_uses[v] = 0;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        for (int32_t k = 0; k < graph->nodes[n].n_inputs; k++)
            if (graph->nodes[n].inputs[k] >= 0)
                n_uses[graph->nodes[n].inputs[k]]++;
    for (int32_t i = 0; i < graph->n_outputs; i++)
        n_uses[graph->outputs[i]]++;
}

enum hrf_status hrf_graph_set_input_shape(struct hrf_graph *graph, int32_t input,
                                          const struct hrf_shape *shape, struct hrf_error *err)
{
    if (input < 0 || input >= graph->n_inputs)
        return hrf_error_set(err, HRF_E_USER, "graph '%s' has %d inputs; there is no input %d",
                             graph->name, (int)graph->n_inputs, (int)input);
    struct hrf_value *value = &graph->values[graph->inputs[input]];
    char have[128], want[128];
    hrf_shape_text(shape, have);
    hrf_shape_text(&value->shape, want);
    bool fits = hrf_shape_count(shape) > 0 &&
                (value->shape.rank < 0 || value->shape.rank == shape->rank);
    for (int32_t i = 0; fits && i < value->shape.rank; i++) {
        bool free_dim = i == 0 || (value->shape.rank == 4 && i >= 2);
        fits = free_dim || value->shape.dims[i] < 0 || value->shape.dims[i] == shape->dims[i];
    }
    if (!fits)
        return hrf_error_set(err, HRF_E_USER, "input '%s' of the model is %s; %s does not fit",
                             value->name, want, have);
    HRF_TRY(hrf_fixed_input_check(graph, shape, err));
    value->shape = *shape;
    return HRF_OK;
}
