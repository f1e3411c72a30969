/* From a model message to a graph: constants, inputs, nodes in order, outputs. */
#include "engine/onnx/reader_private.h"

#include "base/path.h"
#include "engine/ir/op.h"

#include <limits.h>
#include <math.h>
#include <onnx.pb-c.h>
#include <stdio.h>
#include <string.h>

/* protobuf's own limit for one message. */
static const size_t max_file_bytes = INT_MAX;

enum hrf_status hrf_onnx_lookup(struct hrf_onnx_reader *reader, const char *name, const char *user,
                                int32_t *out)
{
    name = hrf_onnx_text(name);
    if (name[0] == '\0') {
        *out = HRF_NO_VALUE;
        return HRF_OK;
    }
    int32_t index = hrf_names_get(&reader->values, name, HRF_NAME_UNKNOWN);
    if (index == HRF_NAME_REFUSED)
        return hrf_error_set(reader->err, HRF_E_UNSUPPORTED,
                             "%s uses '%s', a further output that is not supported: take it out of "
                             "the model and export again",
                             user, name);
    if (index == HRF_NAME_UNKNOWN)
        return hrf_error_set(reader->err, HRF_E_USER, "%s uses '%s', which nothing produces", user,
                             name);
    *out = index;
    return HRF_OK;
}

static enum hrf_status find_opset(const Onnx__ModelProto *model, int64_t *opset,
                                  struct hrf_error *err)
{
    *opset = 0;
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *id = model->opset_import[i];
        const char *domain = hrf_onnx_text(id->domain);
        if (domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0)
            *opset = id->has_version ? id->version : 0;
    }
    if (*opset == 0)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the model uses no operators of ONNX's own "
                             "domain (opset 0)");
    if (*opset < HRF_ONNX_MIN_OPSET || *opset > HRF_ONNX_MAX_OPSET)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the model is of ONNX opset %lld; opsets %d to %d can be read: "
                             "export it again, with PyTorch's default opset",
                             (long long)*opset, HRF_ONNX_MIN_OPSET, HRF_ONNX_MAX_OPSET);
    return HRF_OK;
}

static enum hrf_status name_value(struct hrf_onnx_reader *reader, const char *name, int32_t index)
{
    if (hrf_names_get(&reader->values, name, HRF_NAME_UNKNOWN) != HRF_NAME_UNKNOWN)
        return hrf_error_set(reader->err, HRF_E_USER, "the name '%s' is given twice", name);
    hrf_names_set(&reader->values, name, index);
    return HRF_OK;
}

static enum hrf_status read_initializers(struct hrf_onnx_reader *reader)
{
    const Onnx__GraphProto *proto = reader->proto;
    if (proto->n_sparse_initializer > 0)
        return hrf_error_set(reader->err, HRF_E_UNSUPPORTED,
                             "the model has sparse weights, which are not supported");
    for (size_t i = 0; i < proto->n_initializer; i++) {
        const Onnx__TensorProto *tensor = proto->initializer[i];
        const char *name = hrf_onnx_text(tensor->name);
        HRF_AUTO_FREE void *data = NULL;
        enum hrf_dtype dtype;
        struct hrf_shape shape;
        int32_t index;
        if (name[0] == '\0')
            return hrf_error_set(reader->err, HRF_E_USER, "weight tensor %zu has no name", i);
        HRF_TRY(hrf_onnx_constant(reader, tensor, name, &dtype, &shape, &data));
        HRF_TRY(
            hrf_graph_take_value(reader->graph, name, dtype, &shape, &data, &index, reader->err));
        reader->graph->values[index].is_initializer = true;
        HRF_TRY(name_value(reader, name, index));
    }
    return HRF_OK;
}

static enum hrf_status read_input_shape(const Onnx__ValueInfoProto *info, enum hrf_dtype *dtype,
                                        struct hrf_shape *shape, struct hrf_error *err)
{
    const char *name = hrf_onnx_text(info->name);
    const Onnx__TypeProto *type = info->type;
    if (type == NULL || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ||
        type->tensor_type == NULL)
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "input '%s' is not a tensor", name);
    const Onnx__TypeProto__Tensor *tensor = type->tensor_type;
    HRF_TRY(hrf_onnx_dtype(tensor->has_elem_type ? tensor->elem_type : 0, name, dtype, err));
    *dtype = hrf_onnx_graph_dtype(*dtype);
    *shape = (struct hrf_shape){ .rank = -1 };
    if (tensor->shape == NULL)
        return HRF_OK;
    if (tensor->shape->n_dim > HRF_MAX_RANK)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "input '%s' has %zu dimensions; at most %d are supported", name,
                             tensor->shape->n_dim, HRF_MAX_RANK);
    shape->rank = (int32_t)tensor->shape->n_dim;
    for (int32_t i = 0; i < shape->rank; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = tensor->shape->dim[i];
        bool known = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        /* Exporters write an open dimension as a name, as nothing, as 0 or as -1. */
        shape->dims[i] = known && dim->dim_value > 0 ? dim->dim_value : -1;
        if (known && dim->dim_value < -1)
            return hrf_error_set(err, HRF_E_USER, "input '%s' has the dimension %lld", name,
                                 (long long)dim->dim_value);
    }
    return HRF_OK;
}

/* Old files list the weights among the inputs: those are not inputs. */
static enum hrf_status read_inputs(struct hrf_onnx_reader *reader, int32_t *inputs,
                                   int32_t *n_inputs)
{
    const Onnx__GraphProto *proto = reader->proto;
    *n_inputs = 0;
    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = hrf_onnx_text(proto->input[i]->name);
        enum hrf_dtype dtype;
        struct hrf_shape shape;
        int32_t index = hrf_names_get(&reader->values, name, HRF_NAME_UNKNOWN);
        if (name[0] == '\0')
            return hrf_error_set(reader->err, HRF_E_USER, "graph input %zu has no name", i);
        if (index >= 0 && reader->graph->values[index].data != NULL)
            continue;
        HRF_TRY(read_input_shape(proto->input[i], &dtype, &shape, reader->err));
        HRF_TRY(hrf_graph_add_value(reader->graph, name, dtype, &shape, NULL, &index, reader->err));
        HRF_TRY(name_value(reader, name, index));
        inputs[(*n_inputs)++] = index;
    }
    return HRF_OK;
}

/* Nodes in an order in which every input comes before its use; the file's order where that is
 * legal already. Kahn's algorithm with the file's order as the tie break. */
struct sorter {
    const Onnx__GraphProto *proto;
    struct hrf_names producers; /* output name -> node index */
    int32_t *state;             /* 0 new, 1 on the stack, 2 done */
    int32_t *order, n_order;
    int32_t *stack;
    size_t *next_input; /* of each node on the stack */
};

static void sorter_release(struct sorter *s)
{
    hrf_names_release(&s->producers);
    hrf_free(s->state);
    hrf_free(s->order);
    hrf_free(s->stack);
    hrf_free(s->next_input);
}

static enum hrf_status sorter_init(struct sorter *s, struct hrf_error *err)
{
    size_t n = s->proto->n_node;
    if (n > INT32_MAX / 2)
        return hrf_error_set(err, HRF_E_UNSUPPORTED, "%zu nodes are too many", n);
    s->state = hrf_calloc(n, sizeof *s->state);
    s->order = hrf_alloc_array(n, sizeof *s->order);
    s->stack = hrf_alloc_array(n, sizeof *s->stack);
    s->next_input = hrf_calloc(n, sizeof *s->next_input);
    for (size_t i = 0; i < n; i++) {
        const Onnx__NodeProto *node = s->proto->node[i];
        for (size_t k = 0; k < node->n_output; k++) {
            const char *name = hrf_onnx_text(node->output[k]);
            if (name[0] == '\0')
                continue;
            if (hrf_names_get(&s->producers, name, -1) >= 0)
                return hrf_error_set(err, HRF_E_USER, "the value '%s' is produced twice", name);
            hrf_names_set(&s->producers, name, (int32_t)i);
        }
    }
    return HRF_OK;
}

/* Depth first with a stack of our own: a long chain in reverse order must not recurse. */
static enum hrf_status visit(struct sorter *s, int32_t root, struct hrf_error *err)
{
    int32_t n_stack = 0;
    if (s->state[root] != 0)
        return HRF_OK;
    s->stack[n_stack++] = root;
    s->state[root] = 1;
    while (n_stack > 0) {
        int32_t index = s->stack[n_stack - 1];
        const Onnx__NodeProto *node = s->proto->node[index];
        int32_t before = -1;
        while (before < 0 && s->next_input[index] < node->n_input) {
            const char *name = hrf_onnx_text(node->input[s->next_input[index]++]);
            before = name[0] != '\0' ? hrf_names_get(&s->producers, name, -1) : -1;
            if (before >= 0 && s->state[before] == 1)
                return hrf_error_set(err, HRF_E_USER,
                                     "the nodes form a cycle: '%s' (%s) needs '%s', which depends "
                                     "on it",
                                     hrf_onnx_text(node->name), hrf_onnx_text(node->op_type), name);
            if (before >= 0 && s->state[before] == 2)
                before = -1;
        }
        if (before >= 0) {
            s->stack[n_stack++] = before;
            s->state[before] = 1;
            continue;
        }
        s->state[index] = 2;
        s->order[s->n_order++] = index;
        n_stack--;
    }
    return HRF_OK;
}

static enum hrf_status read_nodes(struct hrf_onnx_reader *reader)
{
    __attribute__((cleanup(sorter_release))) struct sorter sorter = { .proto = reader->proto };
    HRF_TRY(sorter_init(&sorter, reader->err));
    for (size_t i = 0; i < reader->proto->n_node; i++)
        HRF_TRY(visit(&sorter, (int32_t)i, reader->err));
    for (int32_t i = 0; i < sorter.n_order; i++)
        HRF_TRY(hrf_onnx_convert_node(reader, reader->proto->node[sorter.order[i]]));
    return HRF_OK;
}

enum hrf_status hrf_onnx_read_branch(struct hrf_onnx_reader *reader, const Onnx__GraphProto *branch)
{
    const Onnx__GraphProto *outer = reader->proto;
    reader->proto = branch;
    enum hrf_status status = read_initializers(reader);
    if (status == HRF_OK)
        status = read_nodes(reader);
    reader->proto = outer;
    return status;
}

static enum hrf_status read_outputs(struct hrf_onnx_reader *reader, int32_t *outputs)
{
    const Onnx__GraphProto *proto = reader->proto;
    if (proto->n_output == 0)
        return hrf_error_set(reader->err, HRF_E_USER, "the model has no output");
    for (size_t i = 0; i < proto->n_output; i++) {
        char user[64];
        snprintf(user, sizeof user, "graph output %zu", i);
        HRF_TRY(hrf_onnx_lookup(reader, proto->output[i]->name, user, &outputs[i]));
        if (outputs[i] == HRF_NO_VALUE)
            return hrf_error_set(reader->err, HRF_E_USER, "%s has no name", user);
    }
    return HRF_OK;
}

/* True if the attributes are made anew from the inputs for every input shape. */
static bool keeps_attribute_inputs(const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    return node->op == HRF_OP_SLICE ||
           (node->op == HRF_OP_RESIZE && (a->n_axes > 0 || a->resize.policy != HRF_RESIZE_STRETCH));
}

/* Constant axes, pads and bounds become attributes. */
static enum hrf_status absorb_attribute_inputs(struct hrf_graph *graph, struct hrf_error *err)
{
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        struct hrf_node *node = &graph->nodes[i];
        int32_t first = hrf_op_info(node->op)->first_attribute_input;
        bool known = first > 0 && node->n_inputs > first && !keeps_attribute_inputs(node);
        for (int32_t k = first; known && k < node->n_inputs; k++)
            known = node->inputs[k] == HRF_NO_VALUE || graph->values[node->inputs[k]].data != NULL;
        if (!known)
            continue;
        HRF_TRY(hrf_node_read_attribute_inputs(graph, i, err));
        node->n_inputs = first;
    }
    return HRF_OK;
}

/* A weight that is not a number makes every result one; it comes of a damaged file, or of a
 * training that diverged. Masks, which are added, may be infinite. */
static enum hrf_status check_weights(const struct hrf_graph *graph, const struct hrf_node *node,
                                     struct hrf_error *err)
{
    const enum hrf_op_class op_class = hrf_op_info(node->op)->op_class;
    const bool has_weights = op_class == HRF_CLASS_PRODUCT || op_class == HRF_CLASS_NORM;
    for (int32_t k = 1; has_weights && k < node->n_inputs; k++) {
        if (node->inputs[k] < 0)
            continue;
        const struct hrf_value *value = &graph->values[node->inputs[k]];
        const float *w = value->dtype == HRF_F32 ? value->data : NULL;
        const int64_t n = w != NULL ? hrf_shape_count(&value->shape) : 0;
        for (int64_t i = 0; i < n; i++)
            if (!isfinite(w[i]))
                return hrf_error_set(err, HRF_E_USER,
                                     "node '%s' (%s): the weights '%s' hold %s (element %lld): "
                                     "the file is damaged, or the training diverged: export the "
                                     "model again from a checkpoint without it",
                                     node->name, hrf_op_name(node->op), value->name,
                                     isnan(w[i]) ? "a NaN" : "an infinite number", (long long)i);
    }
    return HRF_OK;
}

static enum hrf_status read_graph(struct hrf_onnx_reader *reader)
{
    const Onnx__GraphProto *proto = reader->proto;
    if (proto->n_input > INT32_MAX || proto->n_output > INT32_MAX)
        return hrf_error_set(reader->err, HRF_E_UNSUPPORTED, "too many inputs or outputs");
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array(proto->n_input, sizeof *inputs);
    HRF_AUTO_FREE int32_t *outputs = hrf_alloc_array(proto->n_output, sizeof *outputs);
    int32_t n_inputs = 0;
    HRF_TRY(read_initializers(reader));
    HRF_TRY(read_inputs(reader, inputs, &n_inputs));
    HRF_TRY(read_nodes(reader));
    HRF_TRY(read_outputs(reader, outputs));
    HRF_TRY(hrf_graph_set_io(reader->graph, inputs, n_inputs, outputs, (int32_t)proto->n_output,
                             reader->err));
    if (n_inputs == 1)
        reader->graph->file_shape = reader->graph->values[inputs[0]].shape;
    if (reader->has_unused)
        HRF_TRY(hrf_graph_remove_unused(reader->graph, reader->err));
    HRF_TRY(absorb_attribute_inputs(reader->graph, reader->err));
    for (int32_t i = 0; i < reader->graph->n_nodes; i++)
        HRF_TRY(check_weights(reader->graph, &reader->graph->nodes[i], reader->err));
    return hrf_graph_check(reader->graph, reader->err);
}

/* A model whose weights lie in other files is named by the hashes of both. */
static enum hrf_status name_model(struct hrf_hash *external, char sha256[HRF_HASH_HEX],
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_hash) hash = NULL;
    char weights[HRF_HASH_HEX];
    HRF_TRY(hrf_hash_create(&hash, err));
    hrf_hash_hex(external, weights);
    hrf_hash_text(hash, "model with external data");
    hrf_hash_text(hash, sha256);
    hrf_hash_text(hash, weights);
    hrf_hash_hex(hash, sha256);
    return HRF_OK;
}

/* sha256: of the file, becomes that of all the model consists of; NULL: not wanted. */
static enum hrf_status read_model(const Onnx__ModelProto *model, struct hrf_onnx_source *source,
                                  struct hrf_onnx_info *info, const char *folder, char *sha256,
                                  struct hrf_graph **out, struct hrf_error *err)
{
    info->ir_version = model->has_ir_version ? model->ir_version : 0;
    snprintf(info->producer, sizeof info->producer, "%s", hrf_onnx_text(model->producer_name));
    snprintf(info->producer_version, sizeof info->producer_version, "%s",
             hrf_onnx_text(model->producer_version));
    if (model->graph == NULL)
        return hrf_error_set(err, HRF_E_USER, "there is no graph in it: is it an ONNX model?");
    HRF_TRY(find_opset(model, &info->opset, err));
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO(hrf_hash) hash = NULL;
    HRF_TRY(hrf_graph_create(hrf_onnx_text(model->graph->name), &graph, err));
    if (sha256 != NULL)
        HRF_TRY(hrf_hash_create(&hash, err));
    struct hrf_onnx_reader reader = {
        .proto = model->graph,
        .graph = graph,
        .source = source,
        .external = { .folder = folder, .hash = hash, .max_bytes = graph->bounds.memory_bytes },
        .opset = info->opset,
        .err = err
    };
    enum hrf_status status = read_graph(&reader);
    if (status == HRF_OK && hash != NULL && reader.external.read_bytes > 0)
        status = name_model(hash, sha256, err);
    hrf_onnx_external_release(&reader.external);
    hrf_names_release(&reader.values);
    if (status != HRF_OK)
        return status;
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

static enum hrf_status import_parse(struct hrf_onnx_source *source, const char *where,
                                    const char *folder, char *sha256, struct hrf_onnx_info *info,
                                    struct hrf_graph **out, struct hrf_error *err)
{
    ProtobufCMessage *message = NULL;
    HRF_AUTO(hrf_graph) graph = NULL;
    *info = (struct hrf_onnx_info){ 0 };
    enum hrf_status status = hrf_onnx_unpack(&onnx__model_proto__descriptor, source, &message, err);
    if (status == HRF_OK)
        status = read_model((const Onnx__ModelProto *)message, source, info, folder, sha256, &graph,
                            err);
    if (status == HRF_OK)
        status = hrf_onnx_source_check(source, err);
    hrf_onnx_free_message(message);
    if (status != HRF_OK)
        return hrf_error_wrap(err, status, "model '%s'", where);
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

enum hrf_status hrf_onnx_parse_info(const void *bytes, size_t n_bytes, const char *where,
                                    const char *folder, struct hrf_onnx_info *info,
                                    struct hrf_graph **out, struct hrf_error *err)
{
    struct hrf_onnx_source source;
    hrf_onnx_source_of_bytes(bytes, n_bytes, &source);
    return import_parse(&source, where, folder, NULL, info, out, err);
}

enum hrf_status hrf_onnx_parse(const void *bytes, size_t n_bytes, const char *where,
                               struct hrf_graph **out, struct hrf_error *err)
{
    struct hrf_onnx_info info;
    return hrf_onnx_parse_info(bytes, n_bytes, where, NULL, &info, out, err);
}

static enum hrf_status read_file(const char *path, char *sha256, struct hrf_graph **out,
                                 struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_onnx_source) source = { 0 };
    struct hrf_onnx_info info;
    HRF_AUTO_FREE char *folder = hrf_path_directory(path);
    HRF_TRY(hrf_onnx_source_open(path, max_file_bytes, &source, err));
    if (sha256 != NULL) {
        const enum hrf_status status = hrf_onnx_source_hash(&source, sha256, err);
        if (status != HRF_OK)
            return hrf_error_wrap(err, status, "model '%s'", path);
    }
    return import_parse(&source, path, folder, sha256, &info, out, err);
}

enum hrf_status hrf_onnx_read(const char *path, struct hrf_graph **out, struct hrf_error *err)
{
    return read_file(path, NULL, out, err);
}

enum hrf_status hrf_onnx_read_named(const char *path, char sha256[HRF_HASH_HEX],
                                    struct hrf_graph **out, struct hrf_error *err)
{
    return read_file(path, sha256, out, err);
}

enum hrf_status hrf_onnx_read_entry(const char *path, const char *key, char **value,
                                    struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_onnx_source) source = { 0 };
    ProtobufCMessage *message = NULL;
    char *found = NULL;
    HRF_TRY(hrf_onnx_source_open(path, max_file_bytes, &source, err));
    enum hrf_status status = hrf_onnx_unpack(&onnx__model_proto__descriptor, &source, &message,
                                             err);
    if (status != HRF_OK)
        return hrf_error_wrap(err, status, "model '%s'", path);
    const Onnx__ModelProto *model = (const Onnx__ModelProto *)message;
    for (size_t i = 0; i < model->n_metadata_props && found == NULL; i++)
        if (strcmp(hrf_onnx_text(model->metadata_props[i]->key), key) == 0)
            found = hrf_strdup(hrf_onnx_text(model->metadata_props[i]->value));
    hrf_onnx_free_message(message);
    *value = found;
    return HRF_OK;
}
