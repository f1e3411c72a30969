/* Writing ONNX: the graph as the messages that protobuf-c generates from onnx.proto, packed. */
#include "engine/onnx/onnx.h"
#include "engine/onnx/onnx_names.h"
#include "engine/onnx/write_external.h"

#include "base/file.h"
#include "engine/ir/op.h"

#include <assert.h>
#include <float.h>
#include <limits.h>
#include <onnx.pb-c.h>
#include <stdio.h>
#include <string.h>

/* The IR version that goes with opsets 13 and 14; one more with 15. */
enum { IR_VERSION = 7 };

/* The most attributes that any operator has, and the inputs that attributes become in opset 13. */
enum { MOST_ATTRIBUTES = 16, MOST_EXTRA_INPUTS = 4 };

struct writer {
    const struct hrf_graph *graph;
    Onnx__GraphProto proto; /* points into `graph`, `names` and `owned` */
    char **names;           /* of each value, unique; owned */
    void **owned;           /* all that the messages are made of */
    size_t n_owned, capacity;
    bool failed; /* memory ran out */
    int64_t opset;
    bool uses_own_domain;
    const struct hrf_onnx_entry *entries; /* metadata */
    bool splits;                          /* weights go into a second file */
    size_t n_entries;
    struct hrf_error *err;
};

/* A copy of n_bytes at `from` (NULL: zeros) that lives as long as the writer; NULL when memory ran
 * out, which `failed` then says. */
static void *keep(struct writer *w, const void *from, size_t n_bytes)
{
    if (w->failed || hrf_array_reserve((void **)&w->owned, &w->capacity, w->n_owned + 1,
                                       sizeof *w->owned, w->err) != HRF_OK) {
        w->failed = true;
        return NULL;
    }
    void *copy = hrf_calloc(1, n_bytes);
    if (copy != NULL && from != NULL)
        memcpy(copy, from, n_bytes);
    w->failed = copy == NULL;
    w->owned[w->n_owned++] = copy;
    return copy;
}

/* A new message, as its generated initializer has it. */
#define NEW(w, type, initial) keep(w, &(const type)initial, sizeof(type))

/* protobuf-c's fields are not const; packing does not change them. */
static char *text(const char *borrowed)
{
    return (char *)(uintptr_t)borrowed;
}

#define ATTRIBUTE(TYPE, ...)                                                                       \
    &(const Onnx__AttributeProto)                                                                  \
    {                                                                                              \
        PROTOBUF_C_MESSAGE_INIT(&onnx__attribute_proto__descriptor),                               \
            .has_type = true, .type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##TYPE, __VA_ARGS__   \
    }

static void put_attribute(struct writer *w, Onnx__NodeProto *node, const char *name,
                          const Onnx__AttributeProto *value)
{
    Onnx__AttributeProto *a = keep(w, value, sizeof *value);
    assert(node->n_attribute < MOST_ATTRIBUTES);
    if (a == NULL)
        return;
    a->name = text(name);
    node->attribute[node->n_attribute++] = a;
}

static void put_attribute_int(struct writer *w, Onnx__NodeProto *node, const char *name,
                              int64_t value)
{
    put_attribute(w, node, name, ATTRIBUTE(INT, .has_i = true, .i = value));
}

static void put_attribute_float(struct writer *w, Onnx__NodeProto *node, const char *name,
                                float value)
{
    put_attribute(w, node, name, ATTRIBUTE(FLOAT, .has_f = true, .f = value));
}

static void put_attribute_text(struct writer *w, Onnx__NodeProto *node, const char *name,
                               const char *value)
{
    const ProtobufCBinaryData s = { strlen(value), (uint8_t *)text(value) };
    put_attribute(w, node, name, ATTRIBUTE(STRING, .has_s = true, .s = s));
}

static void put_attribute_ints(struct writer *w, Onnx__NodeProto *node, const char *name,
                               const int64_t *values, int32_t n)
{
    int64_t *ints = keep(w, values, (size_t)n * sizeof *values);
    put_attribute(w, node, name, ATTRIBUTE(INTS, .ints = ints, .n_ints = (size_t)n));
}

static int32_t onnx_type(enum hrf_dtype dtype)
{
    static const int32_t types[] = {
        [HRF_F32] = 1,  [HRF_U8] = 2,   [HRF_S8] = 3,   [HRF_S32] = 6,  [HRF_S64] = 7,
        [HRF_BOOL] = 9, [HRF_F16] = 10, [HRF_F64] = 11, [HRF_B16] = 16,
    };
    return types[dtype];
}

/* `name`, `shape` and `data` are borrowed until all is written. */
static Onnx__TensorProto *tensor(struct writer *w, const char *name, enum hrf_dtype dtype,
                                 const struct hrf_shape *shape, const void *data)
{
    Onnx__TensorProto *t = NEW(w, Onnx__TensorProto, ONNX__TENSOR_PROTO__INIT);
    int64_t *dims = keep(w, shape->dims, (size_t)shape->rank * sizeof *dims);
    if (dims == NULL)
        return NULL;
    t->dims = dims;
    t->n_dims = (size_t)shape->rank;
    t->has_data_type = true;
    t->data_type = onnx_type(dtype);
    t->name = text(name);
    t->has_raw_data = true;
    t->raw_data.len = (size_t)hrf_shape_count(shape) * hrf_dtype_size(dtype);
    t->raw_data.data = (uint8_t *)(uintptr_t)data;
    return t;
}

static void put_input(Onnx__NodeProto *node, const char *name)
{
    node->input[node->n_input++] = text(name);
}

/* A constant that was an attribute, as one more input "NODE_OUTPUT/what" of the node. */
static void put_constant_input(struct writer *w, Onnx__NodeProto *node, const char *owner,
                               const char *what, enum hrf_dtype dtype,
                               const struct hrf_shape *shape, const void *data)
{
    const size_t n_bytes = (size_t)hrf_shape_count(shape) * hrf_dtype_size(dtype);
    HRF_AUTO_FREE char *name = hrf_format("%s/%s", owner, what);
    const char *kept = name != NULL ? keep(w, name, strlen(name) + 1) : NULL;
    const void *copy = keep(w, data, n_bytes);
    w->failed |= name == NULL;
    w->proto.initializer[w->proto.n_initializer++] = tensor(w, kept, dtype, shape, copy);
    put_input(node, kept);
}

static void put_integers_input(struct writer *w, Onnx__NodeProto *node, const char *owner,
                               const char *what, const int64_t *values, int32_t n)
{
    struct hrf_shape shape = { .rank = 1, .dims = { n } };
    put_constant_input(w, node, owner, what, HRF_S64, &shape, values);
}

static void put_float_input(struct writer *w, Onnx__NodeProto *node, const char *owner,
                            const char *what, float value)
{
    struct hrf_shape scalar = { .rank = 0 };
    put_constant_input(w, node, owner, what, HRF_F32, &scalar, &value);
}

static enum hrf_status cannot_write(struct writer *w, const struct hrf_node *node, const char *why)
{
    return hrf_error_set(w->err, HRF_E_UNSUPPORTED, "node '%s' (%s) cannot be written as ONNX: %s",
                         node->name, hrf_op_name(node->op), why);
}

static void put_window(struct writer *w, Onnx__NodeProto *b, const struct hrf_node *node)
{
    static const char *const auto_pads[] = { "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID" };
    const struct hrf_window *win = &node->attributes.window;
    int64_t pads[4] = { win->pad_begin[0], win->pad_begin[1], win->pad_end[0], win->pad_end[1] };
    if (win->kernel[0] > 0)
        put_attribute_ints(w, b, "kernel_shape", win->kernel, HRF_MAX_SPATIAL);
    put_attribute_ints(w, b, "strides", win->stride, HRF_MAX_SPATIAL);
    if (node->op != HRF_OP_AVERAGE_POOL)
        put_attribute_ints(w, b, "dilations", win->dilation, HRF_MAX_SPATIAL);
    if (win->auto_pad == HRF_PAD_EXPLICIT)
        put_attribute_ints(w, b, "pads", pads, 4);
    else
        put_attribute_text(w, b, "auto_pad", auto_pads[win->auto_pad]);
    if (node->op == HRF_OP_MAX_POOL || node->op == HRF_OP_AVERAGE_POOL)
        put_attribute_int(w, b, "ceil_mode", win->ceil_mode);
    if (node->op == HRF_OP_AVERAGE_POOL)
        put_attribute_int(w, b, "count_include_pad", win->count_include_pad);
}

static void put_fill(struct writer *w, Onnx__NodeProto *b, const struct hrf_attributes *a)
{
    struct hrf_shape one = { .rank = 1, .dims = { 1 } };
    int32_t narrow = (int32_t)a->fill;
    uint8_t byte = (uint8_t)(uint64_t)a->fill;
    const void *data = a->to == HRF_S64   ? (const void *)&a->fill
                       : a->to == HRF_S32 ? (const void *)&narrow
                       : a->to == HRF_F32 ? (const void *)&a->value
                                          : &byte;
    const void *copy = keep(w, data, hrf_dtype_size(a->to));
    put_attribute(w, b, "value", ATTRIBUTE(TENSOR, .t = tensor(w, "", a->to, &one, copy)));
}

static void put_resize(struct writer *w, Onnx__NodeProto *b, const struct hrf_node *node)
{
    static const char *const policies[] = { "stretch", "not_larger", "not_smaller" };
    const struct hrf_resize *r = &node->attributes.resize;
    static const char *const modes[] = { "nearest", "linear", "cubic" };
    static const char *const coordinates[] = { "half_pixel", "pytorch_half_pixel", "align_corners",
                                               "asymmetric" };
    static const char *const roundings[] = { "round_prefer_floor", "round_prefer_ceil", "floor",
                                             "ceil" };
    put_attribute_text(w, b, "mode", modes[r->mode]);
    put_attribute_text(w, b, "coordinate_transformation_mode", coordinates[r->coordinates]);
    put_attribute_text(w, b, "nearest_mode", roundings[r->rounding]);
    put_attribute_float(w, b, "cubic_coeff_a", r->cubic_a);
    put_attribute_int(w, b, "exclude_outside", r->exclude_outside);
    if (r->antialias)
        put_attribute_int(w, b, "antialias", 1);
    if (node->n_inputs > 1 && r->policy != HRF_RESIZE_STRETCH)
        put_attribute_text(w, b, "keep_aspect_ratio_policy", policies[r->policy]);
    if (node->n_inputs > 1 && node->attributes.n_axes > 0)
        put_attribute_ints(w, b, "axes", node->attributes.axes, node->attributes.n_axes);
}

/* Those of the sum are an input since opset 13, the others' since opset 18. */
static bool has_axes_attribute(const struct writer *w, const struct hrf_node *node)
{
    return hrf_op_is_reduction(node->op) && node->op != HRF_OP_REDUCE_SUM && w->opset < 18;
}

static void put_pad_mode(struct writer *w, Onnx__NodeProto *b, enum hrf_pad_mode mode)
{
    static const char *const modes[] = { "constant", "edge", "reflect", "wrap" };
    if (mode != HRF_PAD_CONSTANT)
        put_attribute_text(w, b, "mode", modes[mode]);
}

static void put_flags(struct writer *w, Onnx__NodeProto *b, const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    if (node->op == HRF_OP_MOD)
        put_attribute_int(w, b, "fmod", a->truncated);
    if (node->op == HRF_OP_TRILU)
        put_attribute_int(w, b, "upper", a->upper);
    if (node->op == HRF_OP_CUM_SUM) {
        put_attribute_int(w, b, "exclusive", a->exclusive);
        put_attribute_int(w, b, "reverse", a->reverse);
    }
}

/* The newest opset that an operator of the graph needs; 13 else. */
static int64_t opset_for(const struct hrf_node *node)
{
    switch (node->op) {
    case HRF_OP_RESHAPE:
        return node->attributes.allow_zero ? 14 : 13;
    case HRF_OP_SHAPE:
        return node->attributes.n_axes == 1 ? 15 : 13;
    case HRF_OP_LAYER_NORM:
        return 17;
    case HRF_OP_MISH:
        return 18;
    case HRF_OP_RESIZE:
        return node->attributes.resize.antialias ? 18
               : node->n_inputs > 1 && (node->attributes.n_axes > 0 ||
                                        node->attributes.resize.policy != HRF_RESIZE_STRETCH)
                   ? 18
                   : 13;
    case HRF_OP_PAD:
        return node->attributes.pad_mode == HRF_PAD_WRAP ? 19 : 13;
    case HRF_OP_GELU:
    case HRF_OP_GELU_TANH:
        return 20;
    case HRF_OP_GROUP_NORM:
        return node->attributes.group > 0 ? 21 : 13;
    case HRF_OP_RMS_NORM:
    case HRF_OP_ATTENTION:
        return 23;
    case HRF_OP_SWISH:
        return 24;
    default:
        return 13;
    }
}

/* Attributes that stay attributes in opset 13. */
static enum hrf_status put_attributes(struct writer *w, Onnx__NodeProto *b,
                                      const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    uint32_t uses = hrf_op_info(node->op)->uses;
    if (uses & HRF_USE_WINDOW)
        put_window(w, b, node);
    if ((uses & HRF_USE_GROUP) && node->op != HRF_OP_GROUP_NORM)
        put_attribute_int(w, b, "group", a->group);
    if (node->op == HRF_OP_GROUP_NORM && a->group > 0)
        put_attribute_int(w, b, "num_groups", a->group);
    if (node->op == HRF_OP_GELU_TANH)
        put_attribute_text(w, b, "approximate", "tanh");
    if (uses & HRF_USE_SCALE) {
        put_attribute_int(w, b, "is_causal", a->causal);
        if (a->scale > 0)
            put_attribute_float(w, b, "scale", a->scale);
    }
    if (uses & HRF_USE_FLAGS)
        put_flags(w, b, node);
    if (uses & HRF_USE_PADS)
        put_pad_mode(w, b, a->pad_mode);
    if (node->op == HRF_OP_EYE_LIKE) {
        put_attribute_int(w, b, "k", a->fill);
        if (a->to != HRF_DTYPE_NONE)
            put_attribute_int(w, b, "dtype", onnx_type(a->to));
    }
    if (uses & HRF_USE_ALPHA)
        put_attribute_float(w, b, "alpha", a->alpha);
    if (uses & HRF_USE_BETA)
        put_attribute_float(w, b, node->op == HRF_OP_SELU ? "gamma" : "beta", a->beta);
    if (uses & HRF_USE_EPSILON)
        put_attribute_float(w, b, "epsilon", a->epsilon);
    if (uses & HRF_USE_BIAS)
        put_attribute_float(w, b, "bias", a->bias);
    if (uses & HRF_USE_SIZE)
        put_attribute_int(w, b, node->op == HRF_OP_LRN ? "size" : "blocksize", a->size);
    if (uses & HRF_USE_RESIZE)
        put_resize(w, b, node);
    if (uses & HRF_USE_HEADS) {
        put_attribute_int(w, b, "heads", a->group);
        put_attribute_text(w, b, "kernel", a->exponential ? "softmax" : "relu");
        put_attribute_float(w, b, "epsilon", a->epsilon);
    }
    if (uses & HRF_USE_COLUMN_ROW_DEPTH)
        put_attribute_text(w, b, "mode", a->column_row_depth ? "CRD" : "DCR");
    if ((uses & HRF_USE_OUTPUT_SIZE) && a->output_size[0] > 0)
        put_attribute_ints(w, b, "output_shape", a->output_size, HRF_MAX_SPATIAL);
    if (uses & HRF_USE_OUTPUT_SIZE)
        put_attribute_ints(w, b, "output_padding", a->output_padding, HRF_MAX_SPATIAL);
    if ((uses & HRF_USE_TRANSPOSE) && node->op != HRF_OP_ATTENTION) {
        put_attribute_int(w, b, "transA", a->transpose_a);
        put_attribute_int(w, b, "transB", a->transpose_b);
    }
    if (uses & HRF_USE_AXIS) {
        if (a->legacy_axis && w->graph->values[node->inputs[0]].shape.rank < 0)
            return cannot_write(w, node, "infer shapes first, to settle what its axis means");
        put_attribute_int(w, b, "axis", a->axis);
    }
    if (node->op == HRF_OP_TRANSPOSE && a->n_axes > 0)
        put_attribute_ints(w, b, "perm", a->axes, a->n_axes);
    if (has_axes_attribute(w, node) && node->n_inputs == 1 && a->n_axes > 0)
        put_attribute_ints(w, b, "axes", a->axes, a->n_axes);
    if (uses & HRF_USE_KEEP_DIMS)
        put_attribute_int(w, b, "keepdims", a->keep_dims);
    if ((uses & HRF_USE_ALLOW_ZERO) && a->allow_zero)
        put_attribute_int(w, b, "allowzero", 1);
    if (uses & HRF_USE_TO && node->op == HRF_OP_CAST)
        put_attribute_int(w, b, "to", onnx_type(a->to));
    if (node->op == HRF_OP_CONSTANT_OF_SHAPE)
        put_fill(w, b, a);
    if (node->op == HRF_OP_SHAPE && a->n_axes == 1) {
        put_attribute_int(w, b, "start", a->starts[0]);
        if (a->ends[0] != INT64_MAX)
            put_attribute_int(w, b, "end", a->ends[0]);
    }
    return HRF_OK;
}

/* Attributes that opset 13 passes as inputs. Only when the node has no such inputs itself. */
static enum hrf_status put_attribute_inputs(struct writer *w, Onnx__NodeProto *b,
                                            const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    const char *owner = w->names[node->outputs[0]];
    int32_t first = hrf_op_info(node->op)->first_attribute_input;
    if (first == 0 || node->n_inputs > first)
        return HRF_OK;
    switch (node->op) {
    case HRF_OP_CLIP:
        if (a->activation_min > -FLT_MAX)
            put_float_input(w, b, owner, "min", a->activation_min);
        else if (a->activation_max < FLT_MAX)
            put_input(b, "");
        if (a->activation_max < FLT_MAX)
            put_float_input(w, b, owner, "max", a->activation_max);
        return HRF_OK;
    case HRF_OP_SQUEEZE:
    case HRF_OP_UNSQUEEZE:
        if (a->n_axes > 0)
            put_integers_input(w, b, owner, "axes", a->axes, a->n_axes);
        return HRF_OK;
    case HRF_OP_RESIZE: {
        const struct hrf_shape four = { .rank = 1, .dims = { 4 } };
        put_input(b, "");
        if (a->resize.scales[0] > 0) {
            put_constant_input(w, b, owner, "scales", HRF_F32, &four, a->resize.scales);
            return HRF_OK;
        }
        put_input(b, "");
        put_integers_input(w, b, owner, "sizes", a->resize.sizes, 4);
        return HRF_OK;
    }
    case HRF_OP_PAD:
        for (int32_t i = 0; i < a->n_axes; i++)
            if (a->axes[i] != i)
                return cannot_write(w, node, "infer shapes first, to settle which axes it pads");
        put_integers_input(w, b, owner, "pads", a->pads, 2 * a->n_axes);
        put_float_input(w, b, owner, "value", a->value);
        return HRF_OK;
    case HRF_OP_SLICE:
        if (a->n_parts > 0 && a->steps[0] == 0)
            return cannot_write(w, node, "infer shapes first, to settle where it is cut");
        put_integers_input(w, b, owner, "starts", a->starts, a->n_axes);
        put_integers_input(w, b, owner, "ends", a->ends, a->n_axes);
        put_integers_input(w, b, owner, "axes", a->axes, a->n_axes);
        put_integers_input(w, b, owner, "steps", a->steps, a->n_axes);
        return HRF_OK;
    default: /* REDUCE_... */
        if (!has_axes_attribute(w, node) && a->n_axes > 0)
            put_integers_input(w, b, owner, "axes", a->axes, a->n_axes);
        return HRF_OK;
    }
}

/* A GEMM of more than 2 axes. */
static bool is_of_rows(const struct writer *w, const struct hrf_node *node)
{
    return w->graph->values[node->inputs[0]].shape.rank > 2;
}

static enum hrf_status put_node(struct writer *w, const struct hrf_node *node)
{
    bool residual = (node->op == HRF_OP_CONV || node->op == HRF_OP_GEMM) &&
                    node->n_inputs > HRF_CONV_RESIDUAL &&
                    node->inputs[HRF_CONV_RESIDUAL] != HRF_NO_VALUE;
    if (node->attributes.activation != HRF_ACT_NONE || residual || hrf_node_has_prologue(node))
        return cannot_write(w, node, "the passes have fused it; write the graph before them");
    if (has_axes_attribute(w, node) && node->n_inputs > 1)
        return cannot_write(w, node, "its axes are not constant");
    if (node->op == HRF_OP_SWIGLU || (node->op == HRF_OP_GEMM && is_of_rows(w, node)) ||
        (node->op == HRF_OP_ATTENTION &&
         (node->attributes.transpose_b || hrf_attention_is_of_tokens(&node->attributes))))
        return cannot_write(w, node, "the passes have made it; write the graph before them");
    /* A Constant's value is written as a weight. */
    if (node->op == HRF_OP_CONSTANT)
        return HRF_OK;
    Onnx__NodeProto *b = NEW(w, Onnx__NodeProto, ONNX__NODE_PROTO__INIT);
    char **inputs = keep(w, NULL, (size_t)(node->n_inputs + MOST_EXTRA_INPUTS) * sizeof *inputs);
    char **outputs = keep(w, NULL, (size_t)node->n_outputs * sizeof *outputs);
    Onnx__AttributeProto **attributes = keep(w, NULL, MOST_ATTRIBUTES * sizeof(void *));
    HRF_CHECK_MEMORY(attributes != NULL, w->err, "out of memory for node '%s'", node->name);
    b->input = inputs;
    b->output = outputs;
    b->attribute = attributes;
    for (int32_t k = 0; k < node->n_inputs; k++)
        put_input(b, node->inputs[k] == HRF_NO_VALUE ? "" : w->names[node->inputs[k]]);
    for (int32_t k = 0; k < node->n_outputs; k++)
        outputs[b->n_output++] = w->names[node->outputs[k]];
    b->name = node->name;
    b->op_type = text(node->op == HRF_OP_GELU_TANH ? "Gelu"
                      : node->op == HRF_OP_GROUP_NORM && node->attributes.group == 0
                          ? "InstanceNormalization"
                          : hrf_op_name(node->op));
    if (node->op == HRF_OP_PERFORMER) {
        b->domain = text(HRF_ONNX_OWN_DOMAIN);
        w->uses_own_domain = true;
    }
    w->proto.node[w->proto.n_node++] = b;
    HRF_TRY(put_attribute_inputs(w, b, node));
    return put_attributes(w, b, node);
}

static bool is_weight(const struct hrf_graph *graph, int32_t index)
{
    const struct hrf_value *value = &graph->values[index];
    return value->data != NULL &&
           (value->producer < 0 || graph->nodes[value->producer].op == HRF_OP_CONSTANT);
}

static void put_weights(struct writer *w)
{
    int32_t *n_uses = keep(w, NULL, (size_t)w->graph->n_values * sizeof *n_uses);
    if (n_uses == NULL)
        return;
    hrf_graph_count_all_uses(w->graph, n_uses);
    for (int32_t i = 0; i < w->graph->n_values; i++) {
        const struct hrf_value *value = &w->graph->values[i];
        if (is_weight(w->graph, i) && n_uses[i] > 0)
            w->proto.initializer[w->proto.n_initializer++] = tensor(w, w->names[i], value->dtype,
                                                                    &value->shape, value->data);
    }
}

static Onnx__TensorShapeProto *shape_proto(struct writer *w, const struct hrf_shape *shape)
{
    Onnx__TensorShapeProto *proto = NEW(w, Onnx__TensorShapeProto, ONNX__TENSOR_SHAPE_PROTO__INIT);
    Onnx__TensorShapeProto__Dimension **dims = keep(w, NULL, (size_t)shape->rank * sizeof(void *));
    for (int32_t i = 0; i < shape->rank && dims != NULL; i++) {
        char name[32];
        const int n = snprintf(name, sizeof name, i == 0 ? "batch" : "dim_%d", (int)i);
        char *kept = keep(w, name, (size_t)n + 1);
        dims[i] = NEW(w, Onnx__TensorShapeProto__Dimension,
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
static Onnx__ValueInfoProto *value_info(struct writer *w, const char *name, enum hrf_dtype dtype,
                                        const struct hrf_shape *shape)
{
    Onnx__ValueInfoProto *value = NEW(w, Onnx__ValueInfoProto, ONNX__VALUE_INFO_PROTO__INIT);
    Onnx__TypeProto *type = NEW(w, Onnx__TypeProto, ONNX__TYPE_PROTO__INIT);
    Onnx__TypeProto__Tensor *tensor_type = NEW(w, Onnx__TypeProto__Tensor,
                                               ONNX__TYPE_PROTO__TENSOR__INIT);
    if (tensor_type == NULL)
        return NULL;
    tensor_type->has_elem_type = true;
    tensor_type->elem_type = onnx_type(dtype);
    tensor_type->shape = shape->rank >= 0 ? shape_proto(w, shape) : NULL;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor_type;
    value->name = text(name);
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
static void put_outputs(struct writer *w)
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
        w->proto.output[w->proto.n_output++] = value_info(w, w->names[index], dtype, &shape);
    }
}

static enum hrf_status name_values(struct writer *w)
{
    struct hrf_names seen = { 0 };
    enum hrf_status status = HRF_OK;
    for (int32_t i = 0; i < w->graph->n_values && status == HRF_OK; i++) {
        const char *name = w->graph->values[i].name;
        bool fresh = name[0] != '\0' && hrf_names_get(&seen, name, -1) < 0;
        w->names[i] = fresh ? hrf_strdup(name) : hrf_format("%s#%d", name, (int)i);
        status = w->names[i] == NULL ? hrf_error_set(w->err, HRF_E_NOMEM, "out of memory for names")
                                     : hrf_names_set(&seen, w->names[i], i, w->err);
    }
    hrf_names_release(&seen);
    return status;
}

/* As long as they can become. */
static enum hrf_status make_lists(struct writer *w)
{
    const struct hrf_graph *g = w->graph;
    const size_t n_constants = (size_t)g->n_values + MOST_EXTRA_INPUTS * (size_t)g->n_nodes;
    w->proto.node = keep(w, NULL, (size_t)g->n_nodes * sizeof(void *));
    w->proto.initializer = keep(w, NULL, n_constants * sizeof(void *));
    w->proto.input = keep(w, NULL, (size_t)g->n_inputs * sizeof(void *));
    w->proto.output = keep(w, NULL, (size_t)g->n_outputs * sizeof(void *));
    return w->failed ? hrf_error_set(w->err, HRF_E_NOMEM, "out of memory for the model") : HRF_OK;
}

static enum hrf_status put_graph(struct writer *w)
{
    HRF_TRY(hrf_graph_check(w->graph, w->err));
    HRF_TRY(name_values(w));
    HRF_TRY(make_lists(w));
    w->opset = 13;
    for (int32_t i = 0; i < w->graph->n_nodes; i++) {
        const int64_t needed = opset_for(&w->graph->nodes[i]);
        w->opset = needed > w->opset ? needed : w->opset;
    }
    for (int32_t i = 0; i < w->graph->n_nodes; i++)
        HRF_TRY(put_node(w, &w->graph->nodes[i]));
    w->proto.name = text(w->graph->name[0] != '\0' ? w->graph->name : "graph");
    put_weights(w);
    for (int32_t i = 0; i < w->graph->n_inputs; i++) {
        const struct hrf_value *value = &w->graph->values[w->graph->inputs[i]];
        w->proto.input[w->proto.n_input++] = value_info(w, w->names[w->graph->inputs[i]],
                                                        value->dtype, &value->shape);
    }
    put_outputs(w);
    return w->failed ? hrf_error_set(w->err, HRF_E_NOMEM, "out of memory for the model") : HRF_OK;
}

static void put_entries(struct writer *w, Onnx__ModelProto *model)
{
    model->metadata_props = keep(w, NULL, (w->n_entries + 1) * sizeof(void *));
    for (size_t i = 0; i < w->n_entries && !w->failed; i++) {
        Onnx__StringStringEntryProto *entry = NEW(w, Onnx__StringStringEntryProto,
                                                  ONNX__STRING_STRING_ENTRY_PROTO__INIT);
        if (entry == NULL)
            return;
        entry->key = text(w->entries[i].key);
        entry->value = text(w->entries[i].value);
        model->metadata_props[model->n_metadata_props++] = entry;
    }
}

static enum hrf_status write_file(struct writer *w, const char *path)
{
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, own = opset;
    Onnx__OperatorSetIdProto *opsets[] = { &opset, &own };
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    opset.domain = text("");
    own.domain = text(HRF_ONNX_OWN_DOMAIN);
    opset.has_version = own.has_version = true;
    opset.version = w->opset;
    own.version = 1;
    model.has_ir_version = true;
    model.ir_version = w->opset < 15 ? IR_VERSION : w->opset < 19 ? IR_VERSION + 1 : IR_VERSION + 3;
    model.producer_name = text("hires-flow");
    model.opset_import = opsets;
    model.n_opset_import = w->uses_own_domain ? 2 : 1;
    model.graph = &w->proto;
    if (w->n_entries > 0)
        put_entries(w, &model);
    if (w->failed)
        return hrf_error_set(w->err, HRF_E_NOMEM, "out of memory for the model");
    size_t n = protobuf_c_message_get_packed_size(&model.base);
    HRF_AUTO_FREE void *references = NULL;
    if (n > INT_MAX || w->splits) {
        HRF_TRY(hrf_onnx_write_external(&w->proto, path, &references, w->err));
        n = protobuf_c_message_get_packed_size(&model.base);
    }
    if (n > INT_MAX)
        return hrf_error_set(w->err, HRF_E_UNSUPPORTED,
                             "it takes %zu bytes, and one ONNX file holds at most %d", n, INT_MAX);
    HRF_AUTO_FREE uint8_t *bytes = hrf_alloc(n);
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
    struct writer w = { .graph = graph,
                        .proto = ONNX__GRAPH_PROTO__INIT,
                        .entries = entries,
                        .n_entries = n_entries,
                        .splits = splits,
                        .err = err };
    w.names = hrf_calloc((size_t)graph->n_values, sizeof *w.names);
    HRF_CHECK_MEMORY(w.names != NULL, err, "out of memory for writing '%s'", path);
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
