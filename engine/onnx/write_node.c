/* Writing ONNX: a node as a message, its attributes at the file's opset. */
#include "engine/onnx/onnx_names.h"
#include "engine/onnx/write_private.h"

#include "engine/ir/op.h"

#include <assert.h>
#include <float.h>
#include <onnx.pb-c.h>
#include <string.h>

/* The most attributes that any operator has. */
enum { MOST_ATTRIBUTES = 16 };

void *hrf_onnx_keep(struct hrf_onnx_writer *w, const void *from, size_t n_bytes)
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
    assert(node->n_attribute < MOST_ATTRIBUTES);
    if (a == NULL)
        return;
    a->name = hrf_onnx_unconst(name);
    node->attribute[node->n_attribute++] = a;
}

static void put_attribute_int(struct hrf_onnx_writer *w, Onnx__NodeProto *node, const char *name,
                              int64_t value)
{
    put_attribute(w, node, name, ATTRIBUTE(INT, .has_i = true, .i = value));
}

static void put_attribute_float(struct hrf_onnx_writer *w, Onnx__NodeProto *node, const char *name,
                                float value)
{
    put_attribute(w, node, name, ATTRIBUTE(FLOAT, .has_f = true, .f = value));
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
    if (dims == NULL)
        return NULL;
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

/* A constant that was an attribute, as one more input "NODE_OUTPUT/what" of the node. */
static void put_constant_input(struct hrf_onnx_writer *w, Onnx__NodeProto *node, const char *owner,
                               const char *what, enum hrf_dtype dtype,
                               const struct hrf_shape *shape, const void *data)
{
    const size_t n_bytes = (size_t)hrf_shape_count(shape) * hrf_dtype_size(dtype);
    HRF_AUTO_FREE char *name = hrf_format("%s/%s", owner, what);
    const char *kept = name != NULL ? hrf_onnx_keep(w, name, strlen(name) + 1) : NULL;
    const void *copy = hrf_onnx_keep(w, data, n_bytes);
    w->failed |= name == NULL;
    w->proto->initializer[w->proto->n_initializer++] = hrf_onnx_put_tensor(w, kept, dtype, shape,
                                                                           copy);
    put_input(node, kept);
}

static void put_integers_input(struct hrf_onnx_writer *w, Onnx__NodeProto *node, const char *owner,
                               const char *what, const int64_t *values, int32_t n)
{
    struct hrf_shape shape = { .rank = 1, .dims = { n } };
    put_constant_input(w, node, owner, what, HRF_S64, &shape, values);
}

static void put_float_input(struct hrf_onnx_writer *w, Onnx__NodeProto *node, const char *owner,
                            const char *what, float value)
{
    struct hrf_shape scalar = { .rank = 0 };
    put_constant_input(w, node, owner, what, HRF_F32, &scalar, &value);
}

static enum hrf_status cannot_write(struct hrf_onnx_writer *w, const struct hrf_node *node,
                                    const char *why)
{
    return hrf_error_set(w->err, HRF_E_UNSUPPORTED, "node '%s' (%s) cannot be written as ONNX: %s",
                         node->name, hrf_op_name(node->op), why);
}

static void put_window(struct hrf_onnx_writer *w, Onnx__NodeProto *b, const struct hrf_node *node)
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

static void put_fill(struct hrf_onnx_writer *w, Onnx__NodeProto *b, const struct hrf_attributes *a)
{
    struct hrf_shape one = { .rank = 1, .dims = { 1 } };
    int32_t narrow = (int32_t)a->fill;
    uint8_t byte = (uint8_t)(uint64_t)a->fill;
    const void *data = a->to == HRF_S64   ? (const void *)&a->fill
                       : a->to == HRF_S32 ? (const void *)&narrow
                       : a->to == HRF_F32 ? (const void *)&a->value
                                          : &byte;
    const void *copy = hrf_onnx_keep(w, data, hrf_dtype_size(a->to));
    put_attribute(w, b, "value",
                  ATTRIBUTE(TENSOR, .t = hrf_onnx_put_tensor(w, "", a->to, &one, copy)));
}

static void put_resize(struct hrf_onnx_writer *w, Onnx__NodeProto *b, const struct hrf_node *node)
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
static bool has_axes_attribute(const struct hrf_onnx_writer *w, const struct hrf_node *node)
{
    return hrf_op_is_reduction(node->op) && node->op != HRF_OP_REDUCE_SUM && w->opset < 18;
}

static void put_pad_mode(struct hrf_onnx_writer *w, Onnx__NodeProto *b, enum hrf_pad_mode mode)
{
    static const char *const modes[] = { "constant", "edge", "reflect", "wrap" };
    if (mode != HRF_PAD_CONSTANT)
        put_attribute_text(w, b, "mode", modes[mode]);
}

static void put_flags(struct hrf_onnx_writer *w, Onnx__NodeProto *b, const struct hrf_node *node)
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

int64_t hrf_onnx_opset_for(const struct hrf_node *node)
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
static enum hrf_status put_attributes(struct hrf_onnx_writer *w, Onnx__NodeProto *b,
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
            put_attribute_int(w, b, "dtype", hrf_onnx_type_number(a->to));
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
        put_attribute_int(w, b, "to", hrf_onnx_type_number(a->to));
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
static enum hrf_status put_attribute_inputs(struct hrf_onnx_writer *w, Onnx__NodeProto *b,
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
static bool is_of_rows(const struct hrf_onnx_writer *w, const struct hrf_node *node)
{
    return w->graph->values[node->inputs[0]].shape.rank > 2;
}

/* A message for `node`, or for one of those that it is written as, with room for its inputs,
 * outputs and attributes. NULL: out of memory. */
static Onnx__NodeProto *add_node(struct hrf_onnx_writer *w, const char *type,
                                 const struct hrf_node *node)
{
    Onnx__NodeProto *b = HRF_ONNX_NEW(w, Onnx__NodeProto, ONNX__NODE_PROTO__INIT);
    char **inputs = hrf_onnx_keep(
        w, NULL, (size_t)(node->n_inputs + HRF_ONNX_EXTRA_INPUTS) * sizeof *inputs);
    char **outputs = hrf_onnx_keep(w, NULL, (size_t)node->n_outputs * sizeof *outputs);
    Onnx__AttributeProto **attributes = hrf_onnx_keep(w, NULL, MOST_ATTRIBUTES * sizeof(void *));
    if (attributes == NULL)
        return NULL;
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
    char *rows = name != NULL ? hrf_onnx_keep(w, name, strlen(name) + 1) : NULL;
    Onnx__NodeProto *greatest = add_node(w, "ArgMax", node), *gather = add_node(w, "Gather", node);
    HRF_CHECK_MEMORY(rows != NULL && greatest != NULL && gather != NULL, w->err,
                     "out of memory for node '%s'", node->name);
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
    if (node->op == HRF_OP_SWIGLU || (node->op == HRF_OP_GEMM && is_of_rows(w, node)) ||
        (node->op == HRF_OP_ATTENTION &&
         (node->attributes.transpose_b || hrf_attention_is_of_tokens(&node->attributes))))
        return cannot_write(w, node, "the passes have made it; write the graph before them");
    /* A Constant's value is written as a weight. */
    if (node->op == HRF_OP_CONSTANT)
        return HRF_OK;
    if (node->op == HRF_OP_SELECT_MAX)
        return put_select_max(w, node);
    const char *type = node->op == HRF_OP_GELU_TANH ? "Gelu"
                       : node->op == HRF_OP_GROUP_NORM && node->attributes.group == 0
                           ? "InstanceNormalization"
                           : hrf_op_name(node->op);
    Onnx__NodeProto *b = add_node(w, type, node);
    HRF_CHECK_MEMORY(b != NULL, w->err, "out of memory for node '%s'", node->name);
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
