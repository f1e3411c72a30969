/* Writing ONNX: a node as a message, its attributes at the file's opset. */
#include "base/array.h"
#include "engine/onnx/onnx_names.h"
#include "engine/onnx/write_private.h"

#include "engine/ir/op.h"

#include <assert.h>
#include <onnx.pb-c.h>
#include <stddef.h>
#include <string.h>

/* The most attributes that any operator has. */
enum { MAX_ATTRIBUTES = 16 };

void *hrf_onnx_keep(struct hrf_onnx_writer *w, const void *from, size_t n_bytes)
{
    HRF_RESERVE(w->owned, w->capacity, w->n_owned + 1);
    void *copy = hrf_calloc(1, n_bytes);
    if (from != NULL)
        memcpy(copy, from, n_bytes);
    w->owned[w->n_owned++] = copy;
    return copy;
}

char *hrf_onnx_unconst(const char *borrowed)
{
    return (char *)(uintptr_t)borrowed;
}

#define ATTRIBUTE(TYPE, ...)                                                                       \
    &(const Onnx__AttributeProto)                                                                  \
    {                                                                                              \
        PROTOBUF_C_MESSAGE_INIT(&onnx__attribute_proto__descriptor),                               \
            .has_type = true, .type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##TYPE, __VA_ARGS__   \
    }

static void put_attribute(struct hrf_onnx_writer *w, Onnx__NodeProto *node, const char *name,
                          const Onnx__AttributeProto *value)
{
    Onnx__AttributeProto *a = hrf_onnx_keep(w, value, sizeof *value);
    assert(node->n_attribute < MAX_ATTRIBUTES);
    a->name = hrf_onnx_unconst(name);
    node->attribute[node->n_attribute++] = a;
}

static void put_attribute_int(struct hrf_onnx_writer *w, Onnx__NodeProto *node, const char *name,
                              int64_t value)
{
    put_attribute(w, node, name, ATTRIBUTE(INT, .has_i = true, .i = value));
}

static void put_attribute_text(struct hrf_onnx_writer *w, Onnx__NodeProto *node, const char *name,
                               const char *value)
{
    const ProtobufCBinaryData s = { strlen(value), (uint8_t *)hrf_onnx_unconst(value) };
    put_attribute(w, node, name, ATTRIBUTE(STRING, .has_s = true, .s = s));
}

static void put_attribute_ints(struct hrf_onnx_writer *w, Onnx__NodeProto *node, const char *name,
                               const int64_t *values, int32_t n)
{
    int64_t *ints = hrf_onnx_keep(w, values, (size_t)n * sizeof *values);
    put_attribute(w, node, name, ATTRIBUTE(INTS, .ints = ints, .n_ints = (size_t)n));
}

int32_t hrf_onnx_type_number(enum hrf_dtype dtype)
{
    static const int32_t types[] = {
        [HRF_F32] = 1,  [HRF_U8] = 2,   [HRF_S8] = 3,   [HRF_S32] = 6,  [HRF_S64] = 7,
        [HRF_BOOL] = 9, [HRF_F16] = 10, [HRF_F64] = 11, [HRF_B16] = 16,
    };
    return types[dtype];
}

Onnx__TensorProto *hrf_onnx_put_tensor(struct hrf_onnx_writer *w, const char *name,
                                       enum hrf_dtype dtype, const struct hrf_shape *shape,
                                       const void *data)
{
    Onnx__TensorProto *t = HRF_ONNX_NEW(w, Onnx__TensorProto, ONNX__TENSOR_PROTO__INIT);
    int64_t *dims = hrf_onnx_keep(w, shape->dims, (size_t)shape->rank * sizeof *dims);
    t->dims = dims;
    t->n_dims = (size_t)shape->rank;
    t->has_data_type = true;
    t->data_type = hrf_onnx_type_number(dtype);
    t->name = hrf_onnx_unconst(name);
    t->has_raw_data = true;
    t->raw_data.len = (size_t)hrf_shape_count(shape) * hrf_dtype_size(dtype);
    t->raw_data.data = (uint8_t *)(uintptr_t)data;
    return t;
}

static void put_input(Onnx__NodeProto *node, const char *name)
{
    node->input[node->n_input++] = hrf_onnx_unconst(name);
}

/* A constant that was an attribute, as input k of the node: "NODE_OUTPUT/k". */
static void put_constant_input(struct hrf_onnx_writer *w, Onnx__NodeProto *b,
                               const struct hrf_node *node, int32_t k, enum hrf_dtype dtype,
                               const struct hrf_shape *shape, const void *data)
{
    const size_t n_bytes = (size_t)hrf_shape_count(shape) * hrf_dtype_size(dtype);
    HRF_AUTO_FREE char *name = hrf_format("%s/%d", w->names[node->outputs[0]], (int)k);
    const char *kept = hrf_onnx_keep(w, name, strlen(name) + 1);
    const void *copy = hrf_onnx_keep(w, data, n_bytes);
    w->proto->initializer[w->proto->n_initializer++] = hrf_onnx_put_tensor(w, kept, dtype, shape,
                                                                           copy);
    put_input(b, kept);
}

static enum hrf_status cannot_write(struct hrf_onnx_writer *w, const struct hrf_node *node,
                                    const char *why)
{
    return hrf_error_set(w->err, HRF_E_UNSUPPORTED, "node '%s' (%s) cannot be written as ONNX: %s",
                         node->name, hrf_op_name(node->op), why);
}

static void put_fill(struct hrf_onnx_writer *w, Onnx__NodeProto *b, const struct hrf_attributes *a)
{
    struct hrf_shape one = { .rank = 1, .dims = { 1 } };
    int32_t narrow = (int32_t)a->fill.integer;
    uint8_t byte = (uint8_t)(uint64_t)a->fill.integer;
    const void *data = a->to == HRF_S64   ? (const void *)&a->fill.integer
                       : a->to == HRF_S32 ? (const void *)&narrow
                       : a->to == HRF_F32 ? (const void *)&a->fill.real
                                          : &byte;
    const void *copy = hrf_onnx_keep(w, data, hrf_dtype_size(a->to));
    put_attribute(w, b, "value",
                  ATTRIBUTE(TENSOR, .t = hrf_onnx_put_tensor(w, "", a->to, &one, copy)));
}

/* Those of the sum are an input since opset 13, the others' since opset 18. */
static bool has_axes_attribute(const struct hrf_onnx_writer *w, const struct hrf_node *node)
{
    return hrf_op_is_reduction(node->op) && node->op != HRF_OP_REDUCE_SUM && w->opset < 18;
}

static bool has_attribute_inputs(const struct hrf_node *node)
{
    const int32_t first = hrf_op_info(node->op)->first_attribute_input;
    return first > 0 && node->n_inputs > first;
}

/* True if the attribute says something in this node, and other than what is meant without it. */
static bool says_something(const struct hrf_node *node, const struct hrf_attribute *row)
{
    const struct hrf_attributes initial = hrf_attributes_of(node->op);
    const struct hrf_attributes *a = &node->attributes;
    if ((row->type == HRF_ATTRIBUTE_PADS && a->window.auto_pad != HRF_PAD_EXPLICIT) ||
        (row->is_of_inputs && !has_attribute_inputs(node)))
        return false;
    /* A list of a zero, such as axes = [0], is not the same as none. */
    return hrf_attribute_bytes(a, row) != hrf_attribute_bytes(&initial, row) ||
           memcmp(hrf_attribute_of(a, row), hrf_attribute_of(&initial, row),
                  hrf_attribute_bytes(a, row)) != 0;
}

int64_t hrf_onnx_opset_for(const struct hrf_node *node)
{
    const struct hrf_op_info *info = hrf_op_info(node->op);
    int64_t opset = info->since > 13 ? info->since : 13;
    for (int32_t i = 0; i < info->n_attributes; i++)
        if (info->attributes[i].since > opset && says_something(node, &info->attributes[i]))
            opset = info->attributes[i].since;
    if (node->op == HRF_OP_PAD && node->attributes.pad.mode == HRF_PAD_WRAP)
        opset = 19;
    return opset;
}

static void put_attribute_of(struct hrf_onnx_writer *w, Onnx__NodeProto *b,
                             const struct hrf_node *node, const struct hrf_attribute *row)
{
    const void *at = hrf_attribute_of(&node->attributes, row);
    switch (row->type) {
    case HRF_ATTRIBUTE_INT:
        put_attribute_int(w, b, row->name, *(const int64_t *)at);
        break;
    case HRF_ATTRIBUTE_FLOAT:
        put_attribute(w, b, row->name, ATTRIBUTE(FLOAT, .has_f = true, .f = *(const float *)at));
        break;
    case HRF_ATTRIBUTE_FLAG:
        if (row->words != NULL)
            put_attribute_text(w, b, row->name, row->words[*(const bool *)at]);
        else
            put_attribute_int(w, b, row->name, *(const bool *)at);
        break;
    case HRF_ATTRIBUTE_WORD:
        put_attribute_text(w, b, row->name, row->words[*(const int *)at]);
        break;
    case HRF_ATTRIBUTE_TYPE:
        put_attribute_int(w, b, row->name, hrf_onnx_type_number(*(const enum hrf_dtype *)at));
        break;
    default: /* several integers */
        put_attribute_ints(w, b, row->name, at, hrf_attribute_count(&node->attributes, row));
    }
}

/* Attributes that stay attributes in the file's opset. */
static enum hrf_status put_attributes(struct hrf_onnx_writer *w, Onnx__NodeProto *b,
                                      const struct hrf_node *node)
{
    const struct hrf_op_info *info = hrf_op_info(node->op);
    if (node->attributes.legacy_axis && w->graph->values[node->inputs[0]].shape.rank < 0)
        return cannot_write(w, node, "infer shapes first, to settle what its axis means");
    for (int32_t i = 0; i < info->n_attributes; i++) {
        const struct hrf_attribute *row = &info->attributes[i];
        const bool is_input = row->input > 0 &&
                              (!has_axes_attribute(w, node) || has_attribute_inputs(node));
        if (row->name != NULL && !is_input &&
            (row->is_required || row->is_always_written || says_something(node, row)))
            put_attribute_of(w, b, node, row);
    }
    if (node->op == HRF_OP_GELU_TANH)
        put_attribute_text(w, b, "approximate", "tanh");
    if (node->op == HRF_OP_CONSTANT_OF_SHAPE)
        put_fill(w, b, &node->attributes);
    return HRF_OK;
}

/* The attribute that stands as input k in newer opsets; NULL: none. */
static const struct hrf_attribute *attribute_of_input(const struct hrf_op_info *info, int32_t k)
{
    for (int32_t i = 0; i < info->n_attributes; i++)
        if (info->attributes[i].input == k)
            return &info->attributes[i];
    return NULL;
}

/* Why the node has no inputs that say what it does; NULL: it has. */
static const char *refuse_inputs(const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    if (node->op == HRF_OP_SLICE && a->slice.n_parts > 0 && a->slice.steps[0] == 0)
        return "infer shapes first, to settle where it is cut";
    for (int32_t i = 0; node->op == HRF_OP_PAD && i < a->n_axes; i++)
        if (a->axes[i] != i)
            return "infer shapes first, to settle which axes it pads";
    return NULL;
}

/* True if the input is written: SLICE has all of them, PAD's axes are all there are, and RESIZE has
 * scales or sizes. */
static bool is_input_written(const struct hrf_node *node, const struct hrf_attribute *row)
{
    const bool is_axes = row->offset == offsetof(struct hrf_attributes, axes[0]);
    const bool are_sizes = row->offset == offsetof(struct hrf_attributes, resize.sizes[0]);
    return (says_something(node, row) || node->op == HRF_OP_SLICE) &&
           !(node->op == HRF_OP_PAD && is_axes) &&
           !(are_sizes && node->attributes.resize.scales[0] > 0);
}

/* Attributes that opset 13 passes as inputs. Only when the node has no such inputs itself. */
static enum hrf_status put_attribute_inputs(struct hrf_onnx_writer *w, Onnx__NodeProto *b,
                                            const struct hrf_node *node)
{
    const struct hrf_op_info *info = hrf_op_info(node->op);
    const char *why = refuse_inputs(node);
    size_t n_written = b->n_input;
    if (info->first_attribute_input == 0 || has_attribute_inputs(node) ||
        has_axes_attribute(w, node))
        return HRF_OK;
    if (why != NULL)
        return cannot_write(w, node, why);
    for (int32_t k = info->first_attribute_input; k < info->max_inputs; k++) {
        const struct hrf_attribute *row = attribute_of_input(info, k);
        if (row == NULL || !is_input_written(node, row)) {
            put_input(b, "");
            continue;
        }
        const int32_t n = hrf_attribute_count(&node->attributes, row);
        const bool is_float = row->type == HRF_ATTRIBUTE_FLOAT;
        const struct hrf_shape shape = { .rank = is_float && n == 1 ? 0 : 1, .dims = { n } };
        put_constant_input(w, b, node, k, is_float ? HRF_F32 : HRF_S64, &shape,
                           hrf_attribute_of(&node->attributes, row));
        n_written = b->n_input;
    }
    b->n_input = n_written;
    return HRF_OK;
}

/* A message for `node`, or for one of those that it is written as, with room for its inputs,
 * outputs and attributes. */
static Onnx__NodeProto *add_node(struct hrf_onnx_writer *w, const char *type,
                                 const struct hrf_node *node)
{
    Onnx__NodeProto *b = HRF_ONNX_NEW(w, Onnx__NodeProto, ONNX__NODE_PROTO__INIT);
    char **inputs = hrf_onnx_keep(
        w, NULL, (size_t)(node->n_inputs + HRF_ONNX_EXTRA_INPUTS) * sizeof *inputs);
    char **outputs = hrf_onnx_keep(w, NULL, (size_t)node->n_outputs * sizeof *outputs);
    Onnx__AttributeProto **attributes = hrf_onnx_keep(w, NULL, MAX_ATTRIBUTES * sizeof(void *));
    b->name = node->name;
    b->op_type = hrf_onnx_unconst(type);
    b->input = inputs;
    b->output = outputs;
    b->attribute = attributes;
    w->proto->node[w->proto->n_node++] = b;
    return b;
}

/* As exporters write it: the indices, then the rows. */
static enum hrf_status put_select_max(struct hrf_onnx_writer *w, const struct hrf_node *node)
{
    const char *output = w->names[node->outputs[0]];
    HRF_AUTO_FREE char *name = hrf_format("%s/rows", output);
    char *rows = hrf_onnx_keep(w, name, strlen(name) + 1);
    Onnx__NodeProto *greatest = add_node(w, "ArgMax", node), *gather = add_node(w, "Gather", node);
    put_input(greatest, w->names[node->inputs[1]]);
    greatest->output[greatest->n_output++] = rows;
    put_attribute_int(w, greatest, "axis", 0);
    put_attribute_int(w, greatest, "keepdims", 0);
    put_input(gather, w->names[node->inputs[0]]);
    put_input(gather, rows);
    gather->output[gather->n_output++] = hrf_onnx_unconst(output);
    put_attribute_int(w, gather, "axis", 0);
    return HRF_OK;
}

enum hrf_status hrf_onnx_put_node(struct hrf_onnx_writer *w, const struct hrf_node *node)
{
    bool residual = (node->op == HRF_OP_CONV || node->op == HRF_OP_GEMM) &&
                    node->n_inputs > HRF_CONV_RESIDUAL &&
                    node->inputs[HRF_CONV_RESIDUAL] != HRF_NO_VALUE;
    if (node->attributes.activation != HRF_ACT_NONE || residual || hrf_node_has_prologue(node))
        return cannot_write(w, node, "the passes have fused it; write the graph before them");
    if (has_axes_attribute(w, node) && node->n_inputs > 1)
        return cannot_write(w, node, "its axes are not constant");
    /* A Constant's value is written as a weight. */
    if (node->op == HRF_OP_CONSTANT)
        return HRF_OK;
    if (node->op == HRF_OP_SELECT_MAX)
        return put_select_max(w, node);
    if (hrf_op_info(node->op)->is_made ||
        (node->op == HRF_OP_GEMM && w->graph->values[node->inputs[0]].shape.rank > 2) ||
        (node->op == HRF_OP_ATTENTION && node->attributes.attention.transpose_k))
        return cannot_write(w, node, "the passes have made it; write the graph before them");
    const char *type = node->op == HRF_OP_GELU_TANH ? "Gelu"
                       : node->op == HRF_OP_GROUP_NORM && node->attributes.n_groups == 0
                           ? "InstanceNormalization"
                           : hrf_op_name(node->op);
    Onnx__NodeProto *b = add_node(w, type, node);
    for (int32_t k = 0; k < node->n_inputs; k++)
        put_input(b, node->inputs[k] == HRF_NO_VALUE ? "" : w->names[node->inputs[k]]);
    for (int32_t k = 0; k < node->n_outputs; k++)
        b->output[b->n_output++] = w->names[node->outputs[k]];
    if (node->op == HRF_OP_PERFORMER) {
        b->domain = hrf_onnx_unconst(HRF_ONNX_OWN_DOMAIN);
        w->uses_own_domain = true;
    }
    HRF_TRY(put_attribute_inputs(w, b, node));
    return put_attributes(w, b, node);
}
