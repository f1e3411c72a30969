/* Writing ONNX: the wire format is simple enough to be put down field by field. */
#include "engine/onnx/onnx.h"
#include "engine/onnx/onnx_names.h"

#include "base/file.h"
#include "base/strbuf.h"
#include "engine/ir/op.h"

#include <float.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Field numbers of onnx.proto. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    OPSET_DOMAIN = 1,
    OPSET_VERSION = 2,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP_TYPE = 4,
    NODE_ATTRIBUTE = 5,
    NODE_DOMAIN = 7,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_F = 2,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_S = 4,
    ATTRIBUTE_T = 5,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20,
    TYPE_FLOAT = 1,
    TYPE_INT = 2,
    TYPE_STRING = 3,
    TYPE_TENSOR = 4,
    TYPE_INTS = 7,
    TENSOR_DIMS = 1,
    TENSOR_DATA_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_RAW_DATA = 9,
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_PROTO_TENSOR = 1,
    TENSOR_TYPE_ELEMENT = 1,
    TENSOR_TYPE_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_PARAM = 2,
    IR_VERSION = 7 /* of opset 13 and 14; 8 for 15 */
};

/* protobuf's limit of 2 GiB, with room for the rest. */
enum { MAX_WEIGHT_BYTES = INT_MAX - (1 << 27) };

struct writer {
    const struct hrf_graph *graph;
    struct hrf_strbuf out; /* the GraphProto */
    char **names;          /* of each value, unique; owned */
    int64_t opset;
    bool uses_own_domain;
    struct hrf_error *err;
};

static void put_varint(struct hrf_strbuf *b, uint64_t value)
{
    while (value >= 0x80) {
        hrf_strbuf_addc(b, (char)(value | 0x80));
        value >>= 7;
    }
    hrf_strbuf_addc(b, (char)value);
}

static void put_int(struct hrf_strbuf *b, unsigned field, int64_t value)
{
    put_varint(b, field << 3);
    put_varint(b, (uint64_t)value);
}

static void put_bytes(struct hrf_strbuf *b, unsigned field, const void *bytes, size_t n)
{
    put_varint(b, field << 3 | 2);
    put_varint(b, n);
    hrf_strbuf_add(b, bytes, n);
}

static void put_text(struct hrf_strbuf *b, unsigned field, const char *text)
{
    put_bytes(b, field, text, strlen(text));
}

/* Puts `inner` as a message and releases it. */
static void put_message(struct hrf_strbuf *b, unsigned field, struct hrf_strbuf *inner)
{
    put_bytes(b, field, inner->text, inner->length);
    b->failed = b->failed || inner->failed;
    hrf_strbuf_release(inner);
}

static struct hrf_strbuf attribute(const char *name, int type)
{
    struct hrf_strbuf a = HRF_STRBUF_INIT;
    put_text(&a, ATTRIBUTE_NAME, name);
    put_int(&a, ATTRIBUTE_TYPE, type);
    return a;
}

static void put_attribute_int(struct hrf_strbuf *node, const char *name, int64_t value)
{
    struct hrf_strbuf a = attribute(name, TYPE_INT);
    put_int(&a, ATTRIBUTE_I, value);
    put_message(node, NODE_ATTRIBUTE, &a);
}

static void put_attribute_float(struct hrf_strbuf *node, const char *name, float value)
{
    struct hrf_strbuf a = attribute(name, TYPE_FLOAT);
    put_varint(&a, ATTRIBUTE_F << 3 | 5);
    hrf_strbuf_add(&a, &value, sizeof value);
    put_message(node, NODE_ATTRIBUTE, &a);
}

static void put_attribute_text(struct hrf_strbuf *node, const char *name, const char *value)
{
    struct hrf_strbuf a = attribute(name, TYPE_STRING);
    put_text(&a, ATTRIBUTE_S, value);
    put_message(node, NODE_ATTRIBUTE, &a);
}

static void put_attribute_ints(struct hrf_strbuf *node, const char *name, const int64_t *values,
                               int32_t n)
{
    struct hrf_strbuf a = attribute(name, TYPE_INTS);
    for (int32_t i = 0; i < n; i++)
        put_int(&a, ATTRIBUTE_INTS, values[i]);
    put_message(node, NODE_ATTRIBUTE, &a);
}

static int64_t onnx_type(enum hrf_dtype dtype)
{
    static const int64_t types[] = {
        [HRF_F32] = 1,  [HRF_U8] = 2,   [HRF_S8] = 3,   [HRF_S32] = 6,  [HRF_S64] = 7,
        [HRF_BOOL] = 9, [HRF_F16] = 10, [HRF_F64] = 11, [HRF_B16] = 16,
    };
    return types[dtype];
}

static struct hrf_strbuf tensor(const char *name, enum hrf_dtype dtype,
                                const struct hrf_shape *shape, const void *data)
{
    struct hrf_strbuf t = HRF_STRBUF_INIT;
    for (int32_t i = 0; i < shape->rank; i++)
        put_int(&t, TENSOR_DIMS, shape->dims[i]);
    put_int(&t, TENSOR_DATA_TYPE, onnx_type(dtype));
    put_text(&t, TENSOR_NAME, name);
    put_bytes(&t, TENSOR_RAW_DATA, data, (size_t)hrf_shape_count(shape) * hrf_dtype_size(dtype));
    return t;
}

/* A constant that was an attribute, as one more input "NODE_OUTPUT/what" of the node. */
static void put_constant_input(struct writer *w, struct hrf_strbuf *node, const char *owner,
                               const char *what, enum hrf_dtype dtype,
                               const struct hrf_shape *shape, const void *data)
{
    char *name = hrf_format("%s/%s", owner, what);
    if (name == NULL) {
        w->out.failed = true;
        return;
    }
    struct hrf_strbuf t = tensor(name, dtype, shape, data);
    put_message(&w->out, GRAPH_INITIALIZER, &t);
    put_text(node, NODE_INPUT, name);
    hrf_free(name);
}

static void put_integers_input(struct writer *w, struct hrf_strbuf *node, const char *owner,
                               const char *what, const int64_t *values, int32_t n)
{
    struct hrf_shape shape = { .rank = 1, .dims = { n } };
    put_constant_input(w, node, owner, what, HRF_S64, &shape, values);
}

static void put_float_input(struct writer *w, struct hrf_strbuf *node, const char *owner,
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

static void put_window(struct hrf_strbuf *b, const struct hrf_node *node)
{
    static const char *const auto_pads[] = { "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID" };
    const struct hrf_window *win = &node->attributes.window;
    int64_t pads[4] = { win->pad_begin[0], win->pad_begin[1], win->pad_end[0], win->pad_end[1] };
    if (win->kernel[0] > 0)
        put_attribute_ints(b, "kernel_shape", win->kernel, HRF_MAX_SPATIAL);
    put_attribute_ints(b, "strides", win->stride, HRF_MAX_SPATIAL);
    if (node->op != HRF_OP_AVERAGE_POOL)
        put_attribute_ints(b, "dilations", win->dilation, HRF_MAX_SPATIAL);
    if (win->auto_pad == HRF_PAD_EXPLICIT)
        put_attribute_ints(b, "pads", pads, 4);
    else
        put_attribute_text(b, "auto_pad", auto_pads[win->auto_pad]);
    if (node->op == HRF_OP_MAX_POOL || node->op == HRF_OP_AVERAGE_POOL)
        put_attribute_int(b, "ceil_mode", win->ceil_mode);
    if (node->op == HRF_OP_AVERAGE_POOL)
        put_attribute_int(b, "count_include_pad", win->count_include_pad);
}

static void put_fill(struct hrf_strbuf *b, const struct hrf_attributes *a)
{
    struct hrf_shape one = { .rank = 1, .dims = { 1 } };
    int32_t narrow = (int32_t)a->fill;
    float zero = 0;
    const void *data = a->to == HRF_S64   ? (const void *)&a->fill
                       : a->to == HRF_S32 ? (const void *)&narrow
                                          : &zero;
    struct hrf_strbuf value = attribute("value", TYPE_TENSOR);
    struct hrf_strbuf t = tensor("", a->to, &one, data);
    put_message(&value, ATTRIBUTE_T, &t);
    put_message(b, NODE_ATTRIBUTE, &value);
}

static void put_resize(struct hrf_strbuf *b, const struct hrf_resize *r)
{
    static const char *const modes[] = { "nearest", "linear", "cubic" };
    static const char *const coordinates[] = { "half_pixel", "pytorch_half_pixel", "align_corners",
                                               "asymmetric" };
    static const char *const roundings[] = { "round_prefer_floor", "round_prefer_ceil", "floor",
                                             "ceil" };
    put_attribute_text(b, "mode", modes[r->mode]);
    put_attribute_text(b, "coordinate_transformation_mode", coordinates[r->coordinates]);
    put_attribute_text(b, "nearest_mode", roundings[r->rounding]);
    put_attribute_float(b, "cubic_coeff_a", r->cubic_a);
    put_attribute_int(b, "exclude_outside", r->exclude_outside);
}

/* Attributes that stay attributes in opset 13. */
static enum hrf_status put_attributes(struct writer *w, struct hrf_strbuf *b,
                                      const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    uint32_t uses = hrf_op_info(node->op)->uses;
    if (uses & HRF_USE_WINDOW)
        put_window(b, node);
    if (uses & HRF_USE_GROUP)
        put_attribute_int(b, "group", a->group);
    if (uses & HRF_USE_ALPHA)
        put_attribute_float(b, "alpha", a->alpha);
    if (uses & HRF_USE_BETA)
        put_attribute_float(b, node->op == HRF_OP_SELU ? "gamma" : "beta", a->beta);
    if (uses & HRF_USE_EPSILON)
        put_attribute_float(b, "epsilon", a->epsilon);
    if (uses & HRF_USE_BIAS)
        put_attribute_float(b, "bias", a->bias);
    if (uses & HRF_USE_SIZE)
        put_attribute_int(b, node->op == HRF_OP_LRN ? "size" : "blocksize", a->size);
    if (uses & HRF_USE_RESIZE)
        put_resize(b, &a->resize);
    if (uses & HRF_USE_HEADS) {
        put_attribute_int(b, "heads", a->group);
        put_attribute_text(b, "kernel", a->exponential ? "softmax" : "relu");
        put_attribute_float(b, "epsilon", a->epsilon);
    }
    if (uses & HRF_USE_COLUMN_ROW_DEPTH)
        put_attribute_text(b, "mode", a->column_row_depth ? "CRD" : "DCR");
    if ((uses & HRF_USE_OUTPUT_SIZE) && a->output_size[0] > 0)
        put_attribute_ints(b, "output_shape", a->output_size, HRF_MAX_SPATIAL);
    if (uses & HRF_USE_OUTPUT_SIZE)
        put_attribute_ints(b, "output_padding", a->output_padding, HRF_MAX_SPATIAL);
    if (uses & HRF_USE_TRANSPOSE) {
        put_attribute_int(b, "transA", a->transpose_a);
        put_attribute_int(b, "transB", a->transpose_b);
    }
    if (uses & HRF_USE_AXIS) {
        if (a->legacy_axis && w->graph->values[node->inputs[0]].shape.rank < 0)
            return cannot_write(w, node, "infer shapes first, to settle what its axis means");
        put_attribute_int(b, "axis", a->axis);
    }
    if (node->op == HRF_OP_TRANSPOSE && a->n_axes > 0)
        put_attribute_ints(b, "perm", a->axes, a->n_axes);
    if (hrf_op_is_reduction(node->op) && node->op != HRF_OP_REDUCE_SUM && node->n_inputs == 1 &&
        a->n_axes > 0)
        put_attribute_ints(b, "axes", a->axes, a->n_axes);
    if (uses & HRF_USE_KEEP_DIMS)
        put_attribute_int(b, "keepdims", a->keep_dims);
    if ((uses & HRF_USE_ALLOW_ZERO) && a->allow_zero)
        put_attribute_int(b, "allowzero", 1);
    if (uses & HRF_USE_TO && node->op == HRF_OP_CAST)
        put_attribute_int(b, "to", onnx_type(a->to));
    if (node->op == HRF_OP_CONSTANT_OF_SHAPE)
        put_fill(b, a);
    if (node->op == HRF_OP_SHAPE && a->n_axes == 1) {
        put_attribute_int(b, "start", a->starts[0]);
        if (a->ends[0] != INT64_MAX)
            put_attribute_int(b, "end", a->ends[0]);
    }
    return HRF_OK;
}

/* Attributes that opset 13 passes as inputs. Only when the node has no such inputs itself. */
static enum hrf_status put_attribute_inputs(struct writer *w, struct hrf_strbuf *b,
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
            put_text(b, NODE_INPUT, "");
        if (a->activation_max < FLT_MAX)
            put_float_input(w, b, owner, "max", a->activation_max);
        return HRF_OK;
    case HRF_OP_REDUCE_SUM:
    case HRF_OP_SQUEEZE:
    case HRF_OP_UNSQUEEZE:
        if (a->n_axes > 0)
            put_integers_input(w, b, owner, "axes", a->axes, a->n_axes);
        return HRF_OK;
    case HRF_OP_RESIZE: {
        const struct hrf_shape four = { .rank = 1, .dims = { 4 } };
        put_text(b, NODE_INPUT, "");
        if (a->resize.scales[0] > 0) {
            put_constant_input(w, b, owner, "scales", HRF_F32, &four, a->resize.scales);
            return HRF_OK;
        }
        put_text(b, NODE_INPUT, "");
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
        put_integers_input(w, b, owner, "starts", a->starts, a->n_axes);
        put_integers_input(w, b, owner, "ends", a->ends, a->n_axes);
        put_integers_input(w, b, owner, "axes", a->axes, a->n_axes);
        put_integers_input(w, b, owner, "steps", a->steps, a->n_axes);
        return HRF_OK;
    default: /* REDUCE_...: attributes until opset 18, but for the sum's */
        return HRF_OK;
    }
}

static enum hrf_status put_node(struct writer *w, const struct hrf_node *node)
{
    bool residual = (node->op == HRF_OP_CONV || node->op == HRF_OP_GEMM) &&
                    node->n_inputs > HRF_CONV_RESIDUAL &&
                    node->inputs[HRF_CONV_RESIDUAL] != HRF_NO_VALUE;
    if (node->attributes.activation != HRF_ACT_NONE || residual || hrf_node_has_prologue(node))
        return cannot_write(w, node, "the passes have fused it; write the graph before them");
    if (hrf_op_is_reduction(node->op) && node->op != HRF_OP_REDUCE_SUM && node->n_inputs > 1)
        return cannot_write(w, node, "its axes are not constant");
    /* A Constant's value is written as a weight. */
    if (node->op == HRF_OP_CONSTANT)
        return HRF_OK;
    struct hrf_strbuf b = HRF_STRBUF_INIT;
    for (int32_t k = 0; k < node->n_inputs; k++)
        put_text(&b, NODE_INPUT, node->inputs[k] == HRF_NO_VALUE ? "" : w->names[node->inputs[k]]);
    enum hrf_status status = put_attribute_inputs(w, &b, node);
    if (status == HRF_OK)
        status = put_attributes(w, &b, node);
    for (int32_t k = 0; k < node->n_outputs; k++)
        put_text(&b, NODE_OUTPUT, w->names[node->outputs[k]]);
    put_text(&b, NODE_NAME, node->name);
    put_text(&b, NODE_OP_TYPE, hrf_op_name(node->op));
    if (node->op == HRF_OP_PERFORMER) {
        put_text(&b, NODE_DOMAIN, HRF_ONNX_OWN_DOMAIN);
        w->uses_own_domain = true;
    }
    put_message(&w->out, GRAPH_NODE, &b);
    return status;
}

static bool is_weight(const struct hrf_graph *graph, int32_t index)
{
    const struct hrf_value *value = &graph->values[index];
    return value->data != NULL &&
           (value->producer < 0 || graph->nodes[value->producer].op == HRF_OP_CONSTANT);
}

static enum hrf_status put_weights(struct writer *w)
{
    for (int32_t i = 0; i < w->graph->n_values; i++) {
        const struct hrf_value *value = &w->graph->values[i];
        if (!is_weight(w->graph, i) || hrf_graph_count_uses(w->graph, i) == 0)
            continue;
        struct hrf_strbuf t = tensor(w->names[i], value->dtype, &value->shape, value->data);
        put_message(&w->out, GRAPH_INITIALIZER, &t);
        if (w->out.length > MAX_WEIGHT_BYTES)
            return hrf_error_set(w->err, HRF_E_UNSUPPORTED,
                                 "the weights are over %d bytes, more than one ONNX file holds",
                                 MAX_WEIGHT_BYTES);
    }
    return HRF_OK;
}

static void put_value(struct writer *w, unsigned field, const char *name, enum hrf_dtype dtype,
                      const struct hrf_shape *shape)
{
    struct hrf_strbuf tensor_type = HRF_STRBUF_INIT, type = HRF_STRBUF_INIT;
    struct hrf_strbuf value = HRF_STRBUF_INIT, dims = HRF_STRBUF_INIT;
    put_int(&tensor_type, TENSOR_TYPE_ELEMENT, onnx_type(dtype));
    for (int32_t i = 0; i < shape->rank; i++) {
        char text[32];
        struct hrf_strbuf dim = HRF_STRBUF_INIT;
        snprintf(text, sizeof text, i == 0 ? "batch" : "dim_%d", (int)i);
        if (shape->dims[i] >= 0)
            put_int(&dim, DIM_VALUE, shape->dims[i]);
        else
            put_text(&dim, DIM_PARAM, text);
        put_message(&dims, SHAPE_DIM, &dim);
    }
    if (shape->rank >= 0)
        put_message(&tensor_type, TENSOR_TYPE_SHAPE, &dims);
    put_message(&type, TYPE_PROTO_TENSOR, &tensor_type);
    put_text(&value, VALUE_NAME, name);
    put_message(&value, VALUE_TYPE, &type);
    put_message(&w->out, field, &value);
    hrf_strbuf_release(&dims);
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
        put_value(w, GRAPH_OUTPUT, w->names[index], dtype, &shape);
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

static enum hrf_status put_graph(struct writer *w)
{
    HRF_TRY(hrf_graph_check(w->graph, w->err));
    HRF_TRY(name_values(w));
    w->opset = 13;
    for (int32_t i = 0; i < w->graph->n_nodes; i++) {
        const struct hrf_node *node = &w->graph->nodes[i];
        if (node->op == HRF_OP_RESHAPE && node->attributes.allow_zero && w->opset < 14)
            w->opset = 14;
        if (node->op == HRF_OP_SHAPE && node->attributes.n_axes == 1)
            w->opset = 15;
        HRF_TRY(put_node(w, node));
    }
    put_text(&w->out, GRAPH_NAME, w->graph->name[0] != '\0' ? w->graph->name : "graph");
    HRF_TRY(put_weights(w));
    for (int32_t i = 0; i < w->graph->n_inputs; i++) {
        const struct hrf_value *value = &w->graph->values[w->graph->inputs[i]];
        put_value(w, GRAPH_INPUT, w->names[w->graph->inputs[i]], value->dtype, &value->shape);
    }
    put_outputs(w);
    return hrf_strbuf_status(&w->out, w->err);
}

static enum hrf_status write_file(struct writer *w, const char *path)
{
    HRF_AUTO_RELEASE(hrf_strbuf) model = HRF_STRBUF_INIT;
    struct hrf_strbuf opset = HRF_STRBUF_INIT;
    put_int(&model, MODEL_IR_VERSION, w->opset < 15 ? IR_VERSION : IR_VERSION + 1);
    put_text(&model, MODEL_PRODUCER, "hires-flow");
    put_text(&opset, OPSET_DOMAIN, "");
    put_int(&opset, OPSET_VERSION, w->opset);
    put_message(&model, MODEL_OPSET, &opset);
    if (w->uses_own_domain) {
        put_text(&opset, OPSET_DOMAIN, HRF_ONNX_OWN_DOMAIN);
        put_int(&opset, OPSET_VERSION, 1);
        put_message(&model, MODEL_OPSET, &opset);
    }
    put_message(&model, MODEL_GRAPH, &w->out);
    HRF_TRY(hrf_strbuf_status(&model, w->err));
    return hrf_file_write_atomic(path, model.text, model.length, w->err);
}

enum hrf_status hrf_onnx_write(const struct hrf_graph *graph, const char *path,
                               struct hrf_error *err)
{
    struct writer w = { .graph = graph, .out = HRF_STRBUF_INIT, .err = err };
    w.names = hrf_calloc((size_t)graph->n_values, sizeof *w.names);
    if (w.names == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "out of memory for writing '%s'", path);
    enum hrf_status status = put_graph(&w);
    if (status == HRF_OK)
        status = write_file(&w, path);
    for (int32_t i = 0; i < graph->n_values; i++)
        hrf_free(w.names[i]);
    hrf_free(w.names);
    hrf_strbuf_release(&w.out);
    return status == HRF_OK ? HRF_OK : hrf_error_wrap(err, status, "model '%s'", path);
}
