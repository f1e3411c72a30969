/* Writing ONNX: the graph as the messages that protobuf-c generates from onnx.proto, packed. */
#include "engine/onnx/onnx_names.h"
#include "engine/onnx/write_external.h"
#include "engine/onnx/write_private.h"

#include "base/file.h"

#include <limits.h>
#include <onnx.pb-c.h>
#include <stdio.h>

/* The IR version that goes with opsets 13 and 14; one more with 15. */
enum { IR_VERSION = 7 };

static bool is_weight(const struct hrf_graph *graph, int32_t index)
{
    const struct hrf_value *value = &graph->values[index];
    return value->data != NULL &&
           (value->producer < 0 || graph->nodes[value->producer].op == HRF_OP_CONSTANT);
}

static void put_weights(struct hrf_onnx_writer *w)
{
    int32_t *n_uses = hrf_onnx_keep(w, NULL, (size_t)w->graph->n_values * sizeof *n_uses);
    if (n_uses == NULL)
        return;
    hrf_graph_count_all_uses(w->graph, n_uses);
    for (int32_t i = 0; i < w->graph->n_values; i++) {
        const struct hrf_value *value = &w->graph->values[i];
        if (is_weight(w->graph, i) && n_uses[i] > 0)
            w->proto->initializer[w->proto->n_initializer++] = hrf_onnx_put_tensor(
                w, w->names[i], value->dtype, &value->shape, value->data);
    }
}

static Onnx__TensorShapeProto *shape_proto(struct hrf_onnx_writer *w, const struct hrf_shape *shape)
{
    Onnx__TensorShapeProto *proto = HRF_ONNX_NEW(w, Onnx__TensorShapeProto,
                                                 ONNX__TENSOR_SHAPE_PROTO__INIT);
    Onnx__TensorShapeProto__Dimension **dims = hrf_onnx_keep(w, NULL,
                                                             (size_t)shape->rank * sizeof(void *));
    for (int32_t i = 0; i < shape->rank && dims != NULL; i++) {
        char name[32];
        const int n = snprintf(name, sizeof name, i == 0 ? "batch" : "dim_%d", (int)i);
        char *kept = hrf_onnx_keep(w, name, (size_t)n + 1);
        dims[i] = HRF_ONNX_NEW(w, Onnx__TensorShapeProto__Dimension,
                               ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT);
        if (dims[i] == NULL)
            return NULL;
        if (shape->dims[i] >= 0) {
            dims[i]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dims[i]->dim_value = shape->dims[i];
        } else {
            dims[i]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            dims[i]->dim_param = kept;
        }
    }
    if (dims == NULL)
        return NULL;
    proto->dim = dims;
    proto->n_dim = (size_t)shape->rank;
    return proto;
}

/* NULL: out of memory. A shape of rank -1 is left out. */
static Onnx__ValueInfoProto *value_info(struct hrf_onnx_writer *w, const char *name,
                                        enum hrf_dtype dtype, const struct hrf_shape *shape)
{
    Onnx__ValueInfoProto *value = HRF_ONNX_NEW(w, Onnx__ValueInfoProto,
                                               ONNX__VALUE_INFO_PROTO__INIT);
    Onnx__TypeProto *type = HRF_ONNX_NEW(w, Onnx__TypeProto, ONNX__TYPE_PROTO__INIT);
    Onnx__TypeProto__Tensor *tensor_type = HRF_ONNX_NEW(w, Onnx__TypeProto__Tensor,
                                                        ONNX__TYPE_PROTO__TENSOR__INIT);
    if (tensor_type == NULL)
        return NULL;
    tensor_type->has_elem_type = true;
    tensor_type->elem_type = hrf_onnx_type_number(dtype);
    tensor_type->shape = shape->rank >= 0 ? shape_proto(w, shape) : NULL;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor_type;
    value->name = hrf_onnx_unconst(name);
    value->type = type;
    return value;
}

/* A copy with the open dims set to `batch` and `size` and its shapes inferred; NULL if that
 * fails (a net of one image size only). */
static struct hrf_graph *probe(const struct hrf_graph *graph, int64_t batch, int64_t size)
{
    struct hrf_graph *copy = NULL;
    if (hrf_graph_copy(graph, &copy, NULL) != HRF_OK)
        return NULL;
    for (int32_t i = 0; i < copy->n_inputs; i++) {
        struct hrf_shape *shape = &copy->values[copy->inputs[i]].shape;
        for (int32_t k = 0; k < shape->rank; k++)
            if (shape->dims[k] < 0)
                shape->dims[k] = k == 0 ? batch : size;
    }
    if (hrf_graph_infer_shapes(copy, NULL) == HRF_OK)
        return copy;
    hrf_graph_destroy(copy);
    return NULL;
}

/* Outputs' shapes are found by trying two sizes: a dim that follows the input is open. */
static void put_outputs(struct hrf_onnx_writer *w)
{
    HRF_AUTO(hrf_graph) a = probe(w->graph, 1, 224);
    HRF_AUTO(hrf_graph) b = probe(w->graph, 2, 320);
    for (int32_t i = 0; i < w->graph->n_outputs; i++) {
        int32_t index = w->graph->outputs[i];
        struct hrf_shape shape = { .rank = -1 };
        enum hrf_dtype dtype = HRF_F32;
        if (a != NULL && b != NULL && a->values[index].shape.rank == b->values[index].shape.rank) {
            shape = a->values[index].shape;
            dtype = a->values[index].dtype;
            for (int32_t k = 0; k < shape.rank; k++)
                if (shape.dims[k] != b->values[index].shape.dims[k])
                    shape.dims[k] = -1;
        }
        w->proto->output[w->proto->n_output++] = value_info(w, w->names[index], dtype, &shape);
    }
}

static void name_values(struct hrf_onnx_writer *w)
{
    HRF_AUTO_RELEASE(hrf_names) seen = { 0 };
    for (int32_t i = 0; i < w->graph->n_values; i++) {
        const char *name = w->graph->values[i].name;
        bool fresh = name[0] != '\0' && hrf_names_get(&seen, name, -1) < 0;
        w->names[i] = fresh ? hrf_strdup(name) : hrf_format("%s#%d", name, (int)i);
        hrf_names_set(&seen, w->names[i], i);
    }
}

/* As long as they can become. */
static void make_lists(struct hrf_onnx_writer *w)
{
    const struct hrf_graph *g = w->graph;
    const size_t n_constants = (size_t)g->n_values + HRF_ONNX_EXTRA_INPUTS * (size_t)g->n_nodes;
    w->proto->node = hrf_onnx_keep(w, NULL, 2 * (size_t)g->n_nodes * sizeof(void *));
    w->proto->initializer = hrf_onnx_keep(w, NULL, n_constants * sizeof(void *));
    w->proto->input = hrf_onnx_keep(w, NULL, (size_t)g->n_inputs * sizeof(void *));
    w->proto->output = hrf_onnx_keep(w, NULL, (size_t)g->n_outputs * sizeof(void *));
}

static enum hrf_status put_graph(struct hrf_onnx_writer *w)
{
    HRF_TRY(hrf_graph_check(w->graph, w->err));
    name_values(w);
    make_lists(w);
    w->opset = 13;
    for (int32_t i = 0; i < w->graph->n_nodes; i++) {
        const int64_t needed = hrf_onnx_opset_for(&w->graph->nodes[i]);
        w->opset = needed > w->opset ? needed : w->opset;
    }
    for (int32_t i = 0; i < w->graph->n_nodes; i++)
        HRF_TRY(hrf_onnx_put_node(w, &w->graph->nodes[i]));
    w->proto->name = hrf_onnx_unconst(w->graph->name[0] != '\0' ? w->graph->name : "graph");
    put_weights(w);
    for (int32_t i = 0; i < w->graph->n_inputs; i++) {
        const struct hrf_value *value = &w->graph->values[w->graph->inputs[i]];
        w->proto->input[w->proto->n_input++] = value_info(w, w->names[w->graph->inputs[i]],
                                                          value->dtype, &value->shape);
    }
    put_outputs(w);
    return HRF_OK;
}

static void put_entries(struct hrf_onnx_writer *w, Onnx__ModelProto *model)
{
    model->metadata_props = hrf_onnx_keep(w, NULL, (w->n_entries + 1) * sizeof(void *));
    for (size_t i = 0; i < w->n_entries; i++) {
        Onnx__StringStringEntryProto *entry = HRF_ONNX_NEW(w, Onnx__StringStringEntryProto,
                                                           ONNX__STRING_STRING_ENTRY_PROTO__INIT);
        entry->key = hrf_onnx_unconst(w->entries[i].key);
        entry->value = hrf_onnx_unconst(w->entries[i].value);
        model->metadata_props[model->n_metadata_props++] = entry;
    }
}

static enum hrf_status write_file(struct hrf_onnx_writer *w, const char *path)
{
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, own = opset;
    Onnx__OperatorSetIdProto *opsets[] = { &opset, &own };
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    opset.domain = hrf_onnx_unconst("");
    own.domain = hrf_onnx_unconst(HRF_ONNX_OWN_DOMAIN);
    opset.has_version = own.has_version = true;
    opset.version = w->opset;
    own.version = 1;
    model.has_ir_version = true;
    model.ir_version = w->opset < 15 ? IR_VERSION : w->opset < 19 ? IR_VERSION + 1 : IR_VERSION + 3;
    model.producer_name = hrf_onnx_unconst("hires-flow");
    model.opset_import = opsets;
    model.n_opset_import = w->uses_own_domain ? 2 : 1;
    model.graph = w->proto;
    if (w->n_entries > 0)
        put_entries(w, &model);
    size_t n = protobuf_c_message_get_packed_size(&model.base);
    HRF_AUTO_FREE void *references = NULL;
    if (n > INT_MAX || w->splits) {
        HRF_TRY(hrf_onnx_write_external(w->proto, path, &references, w->err));
        n = protobuf_c_message_get_packed_size(&model.base);
    }
    if (n > INT_MAX)
        return hrf_error_set(w->err, HRF_E_UNSUPPORTED,
                             "it takes %zu bytes, and one ONNX file holds at most %d", n, INT_MAX);
    HRF_AUTO_FREE uint8_t *bytes = hrf_try_alloc(n);
    HRF_CHECK_MEMORY(bytes != NULL, w->err, "out of memory for %zu bytes of ONNX", n);
    protobuf_c_message_pack(&model.base, bytes);
    return hrf_file_write_atomic(path, bytes, n, w->err);
}

enum hrf_status hrf_onnx_write(const struct hrf_graph *graph, const char *path,
                               struct hrf_error *err)
{
    return hrf_onnx_write_with(graph, NULL, 0, false, path, err);
}

enum hrf_status hrf_onnx_write_with(const struct hrf_graph *graph,
                                    const struct hrf_onnx_entry *entries, size_t n_entries,
                                    bool splits, const char *path, struct hrf_error *err)
{
    Onnx__GraphProto proto = ONNX__GRAPH_PROTO__INIT;
    struct hrf_onnx_writer w = { .graph = graph,
                                 .proto = &proto,
                                 .entries = entries,
                                 .n_entries = n_entries,
                                 .splits = splits,
                                 .err = err };
    w.names = hrf_calloc((size_t)graph->n_values, sizeof *w.names);
    enum hrf_status status = put_graph(&w);
    if (status == HRF_OK)
        status = write_file(&w, path);
    for (int32_t i = 0; i < graph->n_values; i++)
        hrf_free(w.names[i]);
    hrf_free(w.names);
    for (size_t i = 0; i < w.n_owned; i++)
        hrf_free(w.owned[i]);
    hrf_free(w.owned);
    return status == HRF_OK ? HRF_OK : hrf_error_wrap(err, status, "model '%s'", path);
}
