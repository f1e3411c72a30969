/* One ONNX node to one node of the graph: a table of operators with the attributes each may
 * have, and a converter for each form. What the table does not name is refused. */
#include "engine/onnx/reader_private.h"

#include "base/strbuf.h"
#include "engine/ir/op.h"

#include <float.h>
#include <onnx.pb-c.h>
#include <string.h>

/* The node being converted and what it becomes. */
struct conversion {
    struct hrf_onnx_reader *reader;
    const Onnx__NodeProto *proto;
    const struct operator_row *row;
    struct hrf_attributes a;
    int32_t *inputs; /* capacity: as many as the node has, and 4 more */
    int32_t n_inputs;
    enum hrf_op op;
};

typedef enum hrf_status converter(struct conversion *c);

enum { MAX_ATTRIBUTES = 8 };
struct operator_row {
    const char *name;
    enum hrf_op op;
    int32_t max_inputs; /* of the ONNX operator */
    converter *convert; /* NULL: no attributes to read */
    const char *attributes[MAX_ATTRIBUTES];
};

static enum hrf_status refuse(struct conversion *c, enum hrf_status status, const char *format, ...)
    HRF_PRINTF(3, 4);
static enum hrf_status refuse(struct conversion *c, enum hrf_status status, const char *format, ...)
{
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    va_list args;
    va_start(args, format);
    hrf_strbuf_vaddf(&text, format, args);
    va_end(args);
    const Onnx__NodeProto *p = c->proto;
    const char *name = hrf_onnx_text(p->name);
    if (name[0] == '\0' && p->n_output > 0)
        name = hrf_onnx_text(p->output[0]);
    return hrf_error_set(c->reader->err, status, "node '%s' (%s, opset %lld): %s", name,
                         hrf_onnx_text(p->op_type), (long long)c->reader->opset, text.text);
}

/* ---- attributes ---------------------------------------------------------------------------- */

static const Onnx__AttributeProto *find(const struct conversion *c, const char *name)
{
    for (size_t i = 0; i < c->proto->n_attribute; i++)
        if (strcmp(hrf_onnx_text(c->proto->attribute[i]->name), name) == 0)
            return c->proto->attribute[i];
    return NULL;
}

static enum hrf_status wrong_type(struct conversion *c, const char *name, const char *wanted)
{
    return refuse(c, HRF_E_USER, "attribute '%s' is not %s", name, wanted);
}

/* Files before IR version 2 leave the type out. */
static bool is_type(const Onnx__AttributeProto *a, Onnx__AttributeProto__AttributeType type)
{
    return !a->has_type || a->type == type;
}

static enum hrf_status get_int(struct conversion *c, const char *name, int64_t *out)
{
    const Onnx__AttributeProto *a = find(c, name);
    if (a == NULL)
        return HRF_OK;
    if (!is_type(a, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT) || (!a->has_i && !a->has_type))
        return wrong_type(c, name, "an integer");
    *out = a->i;
    return HRF_OK;
}

static enum hrf_status get_bool(struct conversion *c, const char *name, bool *out)
{
    int64_t value = *out;
    HRF_TRY(get_int(c, name, &value));
    if (value != 0 && value != 1)
        return refuse(c, HRF_E_USER, "attribute '%s' is %lld, neither 0 nor 1", name,
                      (long long)value);
    *out = value != 0;
    return HRF_OK;
}

static enum hrf_status get_float(struct conversion *c, const char *name, float *out)
{
    const Onnx__AttributeProto *a = find(c, name);
    if (a == NULL)
        return HRF_OK;
    if (!is_type(a, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT) || (!a->has_f && !a->has_type))
        return wrong_type(c, name, "a number");
    *out = a->f;
    return HRF_OK;
}

/* *n is -1 when the attribute is not there. */
static enum hrf_status get_ints(struct conversion *c, const char *name, int64_t *out, int32_t max,
                                int32_t *n)
{
    const Onnx__AttributeProto *a = find(c, name);
    *n = -1;
    if (a == NULL)
        return HRF_OK;
    if (!is_type(a, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS))
        return wrong_type(c, name, "a list of integers");
    if (a->n_ints > (size_t)max)
        return refuse(c, HRF_E_UNSUPPORTED,
                      "attribute '%s' has %zu numbers; at most %d are "
                      "supported",
                      name, a->n_ints, (int)max);
    for (size_t i = 0; i < a->n_ints; i++)
        out[i] = a->ints[i];
    *n = (int32_t)a->n_ints;
    return HRF_OK;
}

static bool text_is(const Onnx__AttributeProto *a, const char *text)
{
    return a->has_s && a->s.len == strlen(text) && memcmp(a->s.data, text, a->s.len) == 0;
}

static enum hrf_status get_auto_pad(struct conversion *c, enum hrf_auto_pad *out)
{
    static const char *const words[] = { "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID" };
    const Onnx__AttributeProto *a = find(c, "auto_pad");
    *out = HRF_PAD_EXPLICIT;
    if (a == NULL)
        return HRF_OK;
    for (int i = 0; i < 4; i++)
        if (text_is(a, words[i])) {
            *out = (enum hrf_auto_pad)i;
            return HRF_OK;
        }
    return refuse(c, HRF_E_USER, "auto_pad is none of NOTSET, SAME_UPPER, SAME_LOWER, VALID");
}

/* A constant the converter makes: `n` integers as one more input. */
static enum hrf_status add_integers_input(struct conversion *c, const char *what,
                                          const int64_t *values, int32_t n)
{
    struct hrf_shape shape = { .rank = 1, .dims = { n } };
    int32_t index;
    HRF_AUTO_FREE char *name = hrf_format("%s_%s", hrf_onnx_text(c->proto->output[0]), what);
    if (name == NULL)
        return refuse(c, HRF_E_NOMEM, "out of memory");
    HRF_TRY(hrf_graph_add_value(c->reader->graph, name, HRF_S64, &shape, values, &index,
                                c->reader->err));
    c->inputs[c->n_inputs++] = index;
    return HRF_OK;
}

/* ---- operators ----------------------------------------------------------------------------- */

static enum hrf_status get_pair(struct conversion *c, const char *name, int64_t out[2])
{
    int32_t n;
    int64_t numbers[2];
    const Onnx__AttributeProto *a = find(c, name);
    if (a != NULL && a->n_ints != 2)
        return refuse(c, HRF_E_UNSUPPORTED,
                      "attribute '%s' has %zu numbers: only windows over rows and columns "
                      "(2 numbers) are supported",
                      name, a->n_ints);
    HRF_TRY(get_ints(c, name, numbers, 2, &n));
    if (n == 2) {
        out[0] = numbers[0];
        out[1] = numbers[1];
    }
    return HRF_OK;
}

static enum hrf_status convert_window(struct conversion *c)
{
    struct hrf_window *w = &c->a.window;
    int64_t pads[4] = { 0 };
    int32_t n;
    HRF_TRY(get_pair(c, "kernel_shape", w->kernel));
    HRF_TRY(get_pair(c, "strides", w->stride));
    HRF_TRY(get_pair(c, "dilations", w->dilation));
    HRF_TRY(get_auto_pad(c, &w->auto_pad));
    HRF_TRY(get_ints(c, "pads", pads, 4, &n));
    if (n >= 0 && n != 4)
        return refuse(c, HRF_E_UNSUPPORTED, "attribute 'pads' has %d numbers, not 4", (int)n);
    bool any = (pads[0] | pads[1] | pads[2] | pads[3]) != 0;
    if (any && w->auto_pad != HRF_PAD_EXPLICIT)
        return refuse(c, HRF_E_USER, "both auto_pad and pads are given");
    if (w->auto_pad == HRF_PAD_VALID)
        w->auto_pad = HRF_PAD_EXPLICIT;
    w->pad_begin[0] = pads[0];
    w->pad_begin[1] = pads[1];
    w->pad_end[0] = pads[2];
    w->pad_end[1] = pads[3];
    return HRF_OK;
}

static enum hrf_status convert_conv(struct conversion *c)
{
    HRF_TRY(get_int(c, "group", &c->a.group));
    return convert_window(c);
}

static enum hrf_status convert_conv_transpose(struct conversion *c)
{
    HRF_TRY(get_pair(c, "output_padding", c->a.output_padding));
    HRF_TRY(get_pair(c, "output_shape", c->a.output_size));
    return convert_conv(c);
}

static enum hrf_status convert_depth_to_space(struct conversion *c)
{
    const Onnx__AttributeProto *mode = find(c, "mode");
    c->a.column_row_depth = mode != NULL && text_is(mode, "CRD");
    if (mode != NULL && !c->a.column_row_depth && !text_is(mode, "DCR"))
        return refuse(c, HRF_E_USER, "mode is neither DCR nor CRD");
    if (find(c, "blocksize") == NULL)
        return refuse(c, HRF_E_USER, "attribute 'blocksize' is missing");
    return get_int(c, "blocksize", &c->a.size);
}

static enum hrf_status convert_pool(struct conversion *c)
{
    int64_t storage_order = 0; /* of the indices, which nobody may ask for */
    HRF_TRY(get_int(c, "storage_order", &storage_order));
    HRF_TRY(get_bool(c, "ceil_mode", &c->a.window.ceil_mode));
    HRF_TRY(get_bool(c, "count_include_pad", &c->a.window.count_include_pad));
    if (find(c, "kernel_shape") == NULL)
        return refuse(c, HRF_E_USER, "attribute 'kernel_shape' is missing");
    return convert_window(c);
}

/* Before opset 7 broadcasting was asked for; without an axis it aligned the last dimensions, as
 * it always does since. */
static enum hrf_status convert_binary(struct conversion *c)
{
    bool wanted = false;
    if (c->reader->opset >= 7 && c->proto->n_attribute > 0)
        return refuse(c, HRF_E_UNSUPPORTED, "attribute '%s' is not of this opset",
                      hrf_onnx_text(c->proto->attribute[0]->name));
    if (find(c, "axis") != NULL)
        return refuse(c, HRF_E_UNSUPPORTED,
                      "broadcasting along an axis is not supported: export with opset 13");
    return get_bool(c, "broadcast", &wanted);
}

/* Before opset 7 training was the default. */
static enum hrf_status check_is_test(struct conversion *c)
{
    bool is_test = false;
    HRF_TRY(get_bool(c, "is_test", &is_test));
    if (c->reader->opset < 7 && !is_test)
        return refuse(c, HRF_E_UNSUPPORTED, "is_test is not 1: export the model for inference");
    return HRF_OK;
}

static enum hrf_status convert_gemm(struct conversion *c)
{
    bool broadcast = false;
    HRF_TRY(get_bool(c, "broadcast", &broadcast));
    HRF_TRY(get_float(c, "alpha", &c->a.alpha));
    HRF_TRY(get_float(c, "beta", &c->a.beta));
    HRF_TRY(get_bool(c, "transA", &c->a.transpose_a));
    return get_bool(c, "transB", &c->a.transpose_b);
}

static enum hrf_status convert_batch_norm(struct conversion *c)
{
    bool spatial = true, training = false;
    HRF_TRY(check_is_test(c));
    HRF_TRY(get_float(c, "epsilon", &c->a.epsilon));
    HRF_TRY(get_bool(c, "spatial", &spatial));
    HRF_TRY(get_bool(c, "training_mode", &training));
    if (!spatial || training)
        return refuse(c, HRF_E_UNSUPPORTED, "%s is not supported: export the model for inference",
                      training ? "training_mode 1" : "spatial 0");
    return HRF_OK;
}

static enum hrf_status convert_leaky_relu(struct conversion *c)
{
    c->a.alpha = 0.01f;
    return get_float(c, "alpha", &c->a.alpha);
}

static enum hrf_status convert_elu(struct conversion *c)
{
    c->a.alpha = 1;
    return get_float(c, "alpha", &c->a.alpha);
}

/* Source of the defaults: ONNX Selu, HardSigmoid. */
static enum hrf_status convert_selu(struct conversion *c)
{
    c->a.alpha = 1.67326319217681884765625f;
    c->a.beta = 1.05070102214813232421875f;
    HRF_TRY(get_float(c, "alpha", &c->a.alpha));
    return get_float(c, "gamma", &c->a.beta);
}

static enum hrf_status convert_hard_sigmoid(struct conversion *c)
{
    c->a.alpha = 0.2f;
    c->a.beta = 0.5f;
    HRF_TRY(get_float(c, "alpha", &c->a.alpha));
    return get_float(c, "beta", &c->a.beta);
}

/* Before opset 7 a list of slopes belonged to the channels, not to the last axis. */
static enum hrf_status convert_prelu(struct conversion *c)
{
    const struct hrf_value *slope = c->n_inputs > 1 && c->inputs[1] >= 0
                                        ? &c->reader->graph->values[c->inputs[1]]
                                        : NULL;
    if (c->reader->opset < 7 && slope != NULL && hrf_shape_count(&slope->shape) != 1)
        return refuse(c, HRF_E_UNSUPPORTED,
                      "a slope for each channel is read from opset 7 on: export with opset 13");
    return HRF_OK;
}

/* The index of the attribute's word; *out is left alone where it is not given. */
static enum hrf_status get_word(struct conversion *c, const char *name, const char *const *words,
                                int *out)
{
    const Onnx__AttributeProto *a = find(c, name);
    if (a == NULL)
        return HRF_OK;
    for (int i = 0; words[i] != NULL; i++)
        if (text_is(a, words[i])) {
            *out = i;
            return HRF_OK;
        }
    return refuse(c, HRF_E_UNSUPPORTED, "%s '%.*s' is not supported", name,
                  (int)(a->s.len < 40 ? a->s.len : 40),
                  a->s.len > 0 ? (const char *)a->s.data : "");
}

/* Upsample, and Resize before it had modes: x / scale, rounded down. `scales` as an input or, for
 * Upsample of opset 7, an attribute. */
static enum hrf_status convert_old_resize(struct conversion *c)
{
    static const char *const modes[] = { "nearest", "linear", NULL };
    int mode = HRF_RESIZE_NEAREST;
    HRF_TRY(get_word(c, "mode", modes, &mode));
    c->a.resize.mode = (enum hrf_resize_mode)mode;
    c->a.resize.coordinates = HRF_RESIZE_ASYMMETRIC;
    c->a.resize.rounding = HRF_RESIZE_FLOOR;
    const Onnx__AttributeProto *scales = find(c, "scales");
    if (scales != NULL && (scales->n_floats != 4 || c->n_inputs != 1))
        return refuse(c, HRF_E_UNSUPPORTED, "%zu scales: only N, C, H, W is supported",
                      scales->n_floats);
    for (int i = 0; i < 4 && scales != NULL; i++)
        c->a.resize.scales[i] = scales->floats[i];
    if (scales == NULL && c->n_inputs != 2)
        return refuse(c, HRF_E_USER, "has no scales");
    if (scales == NULL) {
        c->inputs[2] = c->inputs[1];
        c->inputs[1] = HRF_NO_VALUE;
        c->n_inputs = 3;
    }
    return HRF_OK;
}

static enum hrf_status convert_resize(struct conversion *c)
{
    static const char *const modes[] = { "nearest", "linear", "cubic", NULL };
    static const char *const coordinates[] = { "half_pixel", "pytorch_half_pixel", "align_corners",
                                               "asymmetric", NULL };
    static const char *const roundings[] = { "round_prefer_floor", "round_prefer_ceil", "floor",
                                             "ceil", NULL };
    struct hrf_resize *r = &c->a.resize;
    int mode = HRF_RESIZE_NEAREST, where = HRF_RESIZE_HALF_PIXEL, rounding = 0;
    if (c->reader->opset < 11)
        return convert_old_resize(c);
    HRF_TRY(get_word(c, "mode", modes, &mode));
    HRF_TRY(get_word(c, "coordinate_transformation_mode", coordinates, &where));
    HRF_TRY(get_word(c, "nearest_mode", roundings, &rounding));
    r->mode = (enum hrf_resize_mode)mode;
    r->coordinates = (enum hrf_resize_coordinates)where;
    r->rounding = (enum hrf_resize_rounding)rounding;
    r->cubic_a = -0.75f;
    HRF_TRY(get_float(c, "cubic_coeff_a", &r->cubic_a));
    HRF_TRY(get_bool(c, "exclude_outside", &r->exclude_outside));
    float extrapolation = 0; /* of the mode that is refused */
    return get_float(c, "extrapolation_value", &extrapolation);
}

static enum hrf_status convert_clip(struct conversion *c)
{
    if (c->reader->opset >= 11)
        return HRF_OK;
    HRF_TRY(get_float(c, "min", &c->a.activation_min));
    return get_float(c, "max", &c->a.activation_max);
}

static enum hrf_status convert_softmax(struct conversion *c)
{
    bool legacy = c->reader->opset < 13;
    c->a.axis = legacy ? 1 : -1;
    HRF_TRY(get_int(c, "axis", &c->a.axis));
    c->a.legacy_axis = legacy && c->a.axis != -1;
    return HRF_OK;
}

static enum hrf_status convert_lrn(struct conversion *c)
{
    c->a.alpha = 1e-4f;
    c->a.beta = 0.75f;
    HRF_TRY(get_float(c, "alpha", &c->a.alpha));
    HRF_TRY(get_float(c, "beta", &c->a.beta));
    HRF_TRY(get_float(c, "bias", &c->a.bias));
    if (find(c, "size") == NULL)
        return refuse(c, HRF_E_USER, "attribute 'size' is missing");
    return get_int(c, "size", &c->a.size);
}

static enum hrf_status convert_performer(struct conversion *c)
{
    const Onnx__AttributeProto *kernel = find(c, "kernel");
    c->a.exponential = kernel != NULL && text_is(kernel, "softmax");
    if (kernel != NULL && !c->a.exponential && !text_is(kernel, "relu"))
        return refuse(c, HRF_E_USER, "kernel is neither relu nor softmax");
    c->a.epsilon = c->a.exponential ? 1e-4f : 1e-3f;
    HRF_TRY(get_float(c, "epsilon", &c->a.epsilon));
    if (find(c, "heads") == NULL)
        return refuse(c, HRF_E_USER, "attribute 'heads' is missing");
    return get_int(c, "heads", &c->a.group);
}

static enum hrf_status convert_concat(struct conversion *c)
{
    if (find(c, "axis") == NULL)
        return refuse(c, HRF_E_USER, "attribute 'axis' is missing");
    return get_int(c, "axis", &c->a.axis);
}

static enum hrf_status convert_flatten(struct conversion *c)
{
    c->a.axis = 1;
    return get_int(c, "axis", &c->a.axis);
}

static enum hrf_status convert_gather(struct conversion *c)
{
    return get_int(c, "axis", &c->a.axis);
}

static enum hrf_status convert_reshape(struct conversion *c)
{
    return get_bool(c, "allowzero", &c->a.allow_zero);
}

static enum hrf_status convert_transpose(struct conversion *c)
{
    HRF_TRY(get_ints(c, "perm", c->a.axes, HRF_MAX_RANK, &c->a.n_axes));
    c->a.n_axes = c->a.n_axes < 0 ? 0 : c->a.n_axes;
    return HRF_OK;
}

static enum hrf_status convert_axes(struct conversion *c)
{
    HRF_TRY(get_ints(c, "axes", c->a.axes, HRF_MAX_RANK, &c->a.n_axes));
    c->a.n_axes = c->a.n_axes < 0 ? 0 : c->a.n_axes;
    return HRF_OK;
}

static enum hrf_status convert_reduction(struct conversion *c)
{
    bool nothing_when_empty = false;
    c->a.keep_dims = true;
    HRF_TRY(get_bool(c, "keepdims", &c->a.keep_dims));
    HRF_TRY(get_bool(c, "noop_with_empty_axes", &nothing_when_empty));
    HRF_TRY(convert_axes(c));
    if (nothing_when_empty && c->n_inputs < 2)
        c->op = HRF_OP_IDENTITY;
    else if (nothing_when_empty)
        return refuse(c, HRF_E_UNSUPPORTED, "noop_with_empty_axes with axes is not supported");
    return HRF_OK;
}

/* An optional flag input must be a constant false. */
static enum hrf_status convert_dropout(struct conversion *c)
{
    HRF_TRY(check_is_test(c));
    if (c->n_inputs > 2 && c->inputs[2] != HRF_NO_VALUE) {
        const struct hrf_value *flag = &c->reader->graph->values[c->inputs[2]];
        if (flag->data == NULL || flag->dtype != HRF_BOOL || hrf_shape_count(&flag->shape) != 1 ||
            *(const uint8_t *)flag->data != 0)
            return refuse(c, HRF_E_UNSUPPORTED,
                          "training_mode is not a constant false: export the model for inference");
    }
    c->n_inputs = c->n_inputs > 1 ? 1 : c->n_inputs;
    return HRF_OK;
}

static enum hrf_status convert_pad(struct conversion *c)
{
    const Onnx__AttributeProto *mode = find(c, "mode");
    if (mode != NULL && !text_is(mode, "constant"))
        return refuse(c, HRF_E_UNSUPPORTED, "mode '%.*s' is not supported, only 'constant' is",
                      (int)(mode->s.len < 32 ? mode->s.len : 32),
                      mode->s.len > 0 ? (const char *)mode->s.data : "");
    if (c->reader->opset >= 11)
        return HRF_OK;
    int32_t n;
    HRF_TRY(get_float(c, "value", &c->a.value));
    HRF_TRY(get_ints(c, "pads", c->a.pads, 2 * HRF_MAX_RANK, &n));
    if (n < 0 || n % 2 != 0)
        return refuse(c, HRF_E_USER, "attribute 'pads' is missing or of odd length");
    c->a.n_axes = n / 2;
    for (int32_t i = 0; i < c->a.n_axes; i++)
        c->a.axes[i] = i;
    return HRF_OK;
}

static enum hrf_status convert_slice(struct conversion *c)
{
    if (c->reader->opset >= 10)
        return HRF_OK;
    int64_t starts[HRF_MAX_RANK], ends[HRF_MAX_RANK], axes[HRF_MAX_RANK];
    int32_t n, n_ends, n_axes;
    HRF_TRY(get_ints(c, "starts", starts, HRF_MAX_RANK, &n));
    HRF_TRY(get_ints(c, "ends", ends, HRF_MAX_RANK, &n_ends));
    HRF_TRY(get_ints(c, "axes", axes, HRF_MAX_RANK, &n_axes));
    if (n < 0 || n_ends != n || (n_axes >= 0 && n_axes != n))
        return refuse(c, HRF_E_USER, "starts, ends and axes do not have the same length");
    HRF_TRY(add_integers_input(c, "starts", starts, n));
    HRF_TRY(add_integers_input(c, "ends", ends, n));
    return n_axes < 0 ? HRF_OK : add_integers_input(c, "axes", axes, n);
}

static enum hrf_status convert_shape(struct conversion *c)
{
    const int64_t open = INT64_MAX;
    c->a.ends[0] = open;
    HRF_TRY(get_int(c, "start", &c->a.starts[0]));
    HRF_TRY(get_int(c, "end", &c->a.ends[0]));
    if (c->a.starts[0] != 0 || c->a.ends[0] != open)
        c->a.n_axes = 1;
    return HRF_OK;
}

static enum hrf_status convert_cast(struct conversion *c)
{
    int64_t to = 0;
    HRF_TRY(get_int(c, "to", &to));
    if (to < 0 || to > INT32_MAX)
        return refuse(c, HRF_E_USER, "attribute 'to' is %lld", (long long)to);
    return hrf_onnx_dtype((int32_t)to, hrf_onnx_text(c->proto->output[0]), &c->a.to,
                          c->reader->err);
}

static enum hrf_status convert_constant_of_shape(struct conversion *c)
{
    const Onnx__AttributeProto *value = find(c, "value");
    c->a.to = HRF_F32;
    if (value == NULL)
        return HRF_OK;
    if (value->t == NULL)
        return wrong_type(c, "value", "a tensor");
    HRF_AUTO_FREE void *data = NULL;
    struct hrf_shape shape;
    HRF_TRY(hrf_onnx_tensor_data(value->t, "value", &c->a.to, &shape, &data, c->reader->err));
    if (hrf_shape_count(&shape) != 1)
        return refuse(c, HRF_E_USER, "attribute 'value' does not hold one element");
    if (c->a.to == HRF_S64)
        c->a.fill = *(const int64_t *)data;
    else if (c->a.to == HRF_S32)
        c->a.fill = *(const int32_t *)data;
    else
        return refuse(c, HRF_E_UNSUPPORTED, "only integers can be filled in, not %s",
                      hrf_dtype_name(c->a.to));
    return HRF_OK;
}

/* Blocks of scales along an axis (opset 21) have no counterpart here; `saturate` is about float8.
 */
static enum hrf_status convert_quantize(struct conversion *c)
{
    int64_t block = 0, saturate = 1, to = 0;
    c->a.axis = 1;
    c->a.to = HRF_DTYPE_NONE;
    HRF_TRY(get_int(c, "axis", &c->a.axis));
    HRF_TRY(get_int(c, "block_size", &block));
    HRF_TRY(get_int(c, "saturate", &saturate));
    HRF_TRY(get_int(c, "output_dtype", &to));
    if (block != 0)
        return refuse(c, HRF_E_UNSUPPORTED,
                      "block_size %lld is not supported: export with one scale for each tensor or "
                      "channel",
                      (long long)block);
    if (to < 0 || to > INT32_MAX)
        return refuse(c, HRF_E_USER, "attribute 'output_dtype' is %lld", (long long)to);
    return to == 0 ? HRF_OK
                   : hrf_onnx_dtype((int32_t)to, hrf_onnx_text(c->proto->output[0]), &c->a.to,
                                    c->reader->err);
}

/* ---- the table ----------------------------------------------------------------------------- */

#define ANY INT32_MAX
static const struct operator_row table[] = {
    { "Abs", HRF_OP_ABS, 1, NULL, { NULL } },
    { "Add", HRF_OP_ADD, 2, convert_binary, { "axis", "broadcast" } },
    { "AveragePool",
      HRF_OP_AVERAGE_POOL,
      1,
      convert_pool,
      { "auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides" } },
    { "BatchNormalization",
      HRF_OP_BATCH_NORM,
      5,
      convert_batch_norm,
      { "epsilon", "is_test", "momentum", "spatial", "training_mode" } },
    { "Cast", HRF_OP_CAST, 1, convert_cast, { "to" } },
    { "Ceil", HRF_OP_CEIL, 1, NULL, { NULL } },
    { "Clip", HRF_OP_CLIP, 3, convert_clip, { "min", "max" } },
    { "Concat", HRF_OP_CONCAT, ANY, convert_concat, { "axis" } },
    { "ConstantOfShape", HRF_OP_CONSTANT_OF_SHAPE, 1, convert_constant_of_shape, { "value" } },
    { "Conv",
      HRF_OP_CONV,
      3,
      convert_conv,
      { "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides" } },
    { "ConvTranspose",
      HRF_OP_CONV_TRANSPOSE,
      3,
      convert_conv_transpose,
      { "auto_pad", "dilations", "group", "kernel_shape", "output_padding", "output_shape", "pads",
        "strides" } },
    { "DepthToSpace", HRF_OP_DEPTH_TO_SPACE, 1, convert_depth_to_space, { "blocksize", "mode" } },
    { "DequantizeLinear",
      HRF_OP_DEQUANTIZE,
      3,
      convert_quantize,
      { "axis", "block_size", "output_dtype" } },
    { "Div", HRF_OP_DIV, 2, convert_binary, { "axis", "broadcast" } },
    { "Dropout", HRF_OP_IDENTITY, 3, convert_dropout, { "is_test", "ratio", "seed" } },
    { "Elu", HRF_OP_ELU, 1, convert_elu, { "alpha" } },
    { "Erf", HRF_OP_ERF, 1, NULL, { NULL } },
    { "Exp", HRF_OP_EXP, 1, NULL, { NULL } },
    { "Flatten", HRF_OP_FLATTEN, 1, convert_flatten, { "axis" } },
    { "Floor", HRF_OP_FLOOR, 1, NULL, { NULL } },
    { "Gather", HRF_OP_GATHER, 2, convert_gather, { "axis" } },
    { "Gemm", HRF_OP_GEMM, 3, convert_gemm, { "alpha", "beta", "broadcast", "transA", "transB" } },
    { "GlobalAveragePool", HRF_OP_GLOBAL_AVERAGE_POOL, 1, NULL, { NULL } },
    { "GlobalMaxPool", HRF_OP_GLOBAL_MAX_POOL, 1, NULL, { NULL } },
    { "HardSigmoid", HRF_OP_HARD_SIGMOID, 1, convert_hard_sigmoid, { "alpha", "beta" } },
    { "HardSwish", HRF_OP_HARD_SWISH, 1, NULL, { NULL } },
    { "Identity", HRF_OP_IDENTITY, 1, NULL, { NULL } },
    { "LRN", HRF_OP_LRN, 1, convert_lrn, { "alpha", "beta", "bias", "size" } },
    { "LeakyRelu", HRF_OP_LEAKY_RELU, 1, convert_leaky_relu, { "alpha" } },
    { "Log", HRF_OP_LOG, 1, NULL, { NULL } },
    { "LogSoftmax", HRF_OP_LOG_SOFTMAX, 1, convert_softmax, { "axis" } },
    { "MatMul", HRF_OP_MATMUL, 2, NULL, { NULL } },
    { "MaxPool",
      HRF_OP_MAX_POOL,
      1,
      convert_pool,
      { "auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order",
        "strides" } },
    { "Mul", HRF_OP_MUL, 2, convert_binary, { "axis", "broadcast" } },
    { "Neg", HRF_OP_NEG, 1, NULL, { NULL } },
    { "PRelu", HRF_OP_PRELU, 2, convert_prelu, { NULL } },
    { "Pad", HRF_OP_PAD, 4, convert_pad, { "mode", "pads", "value" } },
    { "PerformerAttention",
      HRF_OP_PERFORMER,
      4,
      convert_performer,
      { "epsilon", "heads", "kernel" } },
    { "Pow", HRF_OP_POW, 2, convert_binary, { "axis", "broadcast" } },
    { "QuantizeLinear",
      HRF_OP_QUANTIZE,
      3,
      convert_quantize,
      { "axis", "block_size", "output_dtype", "saturate" } },
    { "Reciprocal", HRF_OP_RECIPROCAL, 1, NULL, { NULL } },
    { "ReduceL1",
      HRF_OP_REDUCE_L1,
      2,
      convert_reduction,
      { "axes", "keepdims", "noop_with_empty_axes" } },
    { "ReduceL2",
      HRF_OP_REDUCE_L2,
      2,
      convert_reduction,
      { "axes", "keepdims", "noop_with_empty_axes" } },
    { "ReduceLogSum",
      HRF_OP_REDUCE_LOG_SUM,
      2,
      convert_reduction,
      { "axes", "keepdims", "noop_with_empty_axes" } },
    { "ReduceLogSumExp",
      HRF_OP_REDUCE_LOG_SUM_EXP,
      2,
      convert_reduction,
      { "axes", "keepdims", "noop_with_empty_axes" } },
    { "ReduceMax",
      HRF_OP_REDUCE_MAX,
      2,
      convert_reduction,
      { "axes", "keepdims", "noop_with_empty_axes" } },
    { "ReduceMean",
      HRF_OP_REDUCE_MEAN,
      2,
      convert_reduction,
      { "axes", "keepdims", "noop_with_empty_axes" } },
    { "ReduceMin",
      HRF_OP_REDUCE_MIN,
      2,
      convert_reduction,
      { "axes", "keepdims", "noop_with_empty_axes" } },
    { "ReduceProd",
      HRF_OP_REDUCE_PROD,
      2,
      convert_reduction,
      { "axes", "keepdims", "noop_with_empty_axes" } },
    { "ReduceSum",
      HRF_OP_REDUCE_SUM,
      2,
      convert_reduction,
      { "axes", "keepdims", "noop_with_empty_axes" } },
    { "ReduceSumSquare",
      HRF_OP_REDUCE_SUM_SQUARE,
      2,
      convert_reduction,
      { "axes", "keepdims", "noop_with_empty_axes" } },
    { "Relu", HRF_OP_RELU, 1, NULL, { NULL } },
    { "Reshape", HRF_OP_RESHAPE, 2, convert_reshape, { "allowzero" } },
    { "Resize",
      HRF_OP_RESIZE,
      4,
      convert_resize,
      { "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value",
        "mode", "nearest_mode" } },
    { "Selu", HRF_OP_SELU, 1, convert_selu, { "alpha", "gamma" } },
    { "Shape", HRF_OP_SHAPE, 1, convert_shape, { "start", "end" } },
    { "Sigmoid", HRF_OP_SIGMOID, 1, NULL, { NULL } },
    { "Slice", HRF_OP_SLICE, 5, convert_slice, { "starts", "ends", "axes" } },
    { "Softmax", HRF_OP_SOFTMAX, 1, convert_softmax, { "axis" } },
    { "Softplus", HRF_OP_SOFTPLUS, 1, NULL, { NULL } },
    { "Softsign", HRF_OP_SOFTSIGN, 1, NULL, { NULL } },
    { "SpaceToDepth", HRF_OP_SPACE_TO_DEPTH, 1, convert_depth_to_space, { "blocksize" } },
    { "Sqrt", HRF_OP_SQRT, 1, NULL, { NULL } },
    { "Squeeze", HRF_OP_SQUEEZE, 2, convert_axes, { "axes" } },
    { "Sub", HRF_OP_SUB, 2, convert_binary, { "axis", "broadcast" } },
    { "Tanh", HRF_OP_TANH, 1, NULL, { NULL } },
    { "Transpose", HRF_OP_TRANSPOSE, 1, convert_transpose, { "perm" } },
    { "Unsqueeze", HRF_OP_UNSQUEEZE, 2, convert_axes, { "axes" } },
    { "Upsample", HRF_OP_RESIZE, 2, convert_old_resize, { "mode", "scales" } },
};
enum { N_ROWS = sizeof table / sizeof table[0] };

/* Converted without a row of the table: they become values, or several nodes. */
static const char *const special[] = { "Constant", "Max", "Min", "Sum" };
enum { N_SPECIAL = sizeof special / sizeof special[0] };

const char *hrf_onnx_operator(size_t i)
{
    if (i < N_ROWS)
        return table[i].name;
    return i < N_ROWS + N_SPECIAL ? special[i - N_ROWS] : NULL;
}

/* Operators that compute on 8-bit tensors, as ONNX had them before pairs of QuantizeLinear and
 * DequantizeLinear around ordinary operators became the way to say the same. */
static bool is_integer_operator(const char *type)
{
    static const char *const names[] = { "QLinearConv", "QLinearMatMul", "ConvInteger",
                                         "MatMulInteger", "DynamicQuantizeLinear" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], type) == 0)
            return true;
    return false;
}

static enum hrf_status refuse_operator(struct conversion *c, const char *type)
{
    if (is_integer_operator(type))
        return refuse(c, HRF_E_UNSUPPORTED,
                      "the operator '%s' is not supported; quantised models are read with pairs of "
                      "QuantizeLinear and DequantizeLinear around ordinary operators (ONNX "
                      "Runtime: quant_format=QDQ)",
                      type);
    HRF_AUTO_RELEASE(hrf_strbuf) list = HRF_STRBUF_INIT;
    for (size_t i = 0; hrf_onnx_operator(i) != NULL; i++)
        hrf_strbuf_addf(&list, "%s%s", i > 0 ? ", " : "", hrf_onnx_operator(i));
    return refuse(c, HRF_E_UNSUPPORTED, "the operator '%s' is not supported; these are: %s", type,
                  list.text);
}

static enum hrf_status check_attributes(struct conversion *c, const char *const *known)
{
    for (size_t i = 0; i < c->proto->n_attribute; i++) {
        const Onnx__AttributeProto *a = c->proto->attribute[i];
        const char *name = hrf_onnx_text(a->name);
        bool found = false;
        HRF_AUTO_RELEASE(hrf_strbuf) list = HRF_STRBUF_INIT;
        for (int k = 0; k < MAX_ATTRIBUTES && known[k] != NULL; k++) {
            found = found || strcmp(known[k], name) == 0;
            hrf_strbuf_addf(&list, "%s%s", k > 0 ? ", " : "", known[k]);
        }
        if (!found)
            return refuse(c, HRF_E_UNSUPPORTED, "attribute '%s' is not supported; %s%s", name,
                          list.length > 0 ? "supported: " : "it has none", list.text);
        if (a->ref_attr_name != NULL && a->ref_attr_name[0] != '\0')
            return refuse(c, HRF_E_UNSUPPORTED, "attribute '%s' refers to a function's", name);
    }
    return HRF_OK;
}

static enum hrf_status name_output(struct conversion *c, const char *name, int32_t index)
{
    if (hrf_names_get(&c->reader->values, name, HRF_NAME_UNKNOWN) != HRF_NAME_UNKNOWN)
        return refuse(c, HRF_E_USER, "its output '%s' has the name of another value", name);
    return hrf_names_set(&c->reader->values, name, index, c->reader->err);
}

/* Output 0 as a new value; further ones are legal as long as nobody uses them. */
static enum hrf_status add_output(struct conversion *c, int32_t *index)
{
    const struct hrf_shape unknown = { .rank = -1 };
    const char *name = hrf_onnx_text(c->proto->output[0]);
    HRF_TRY(hrf_graph_add_value(c->reader->graph, name, HRF_DTYPE_NONE, &unknown, NULL, index,
                                c->reader->err));
    HRF_TRY(name_output(c, name, *index));
    for (size_t i = 1; i < c->proto->n_output; i++) {
        const char *further = hrf_onnx_text(c->proto->output[i]);
        if (further[0] != '\0')
            HRF_TRY(name_output(c, further, HRF_NAME_REFUSED));
    }
    return HRF_OK;
}

static enum hrf_status read_inputs(struct conversion *c)
{
    HRF_AUTO_FREE char *user = hrf_format("node '%s' (%s)", hrf_onnx_text(c->proto->name),
                                          hrf_onnx_text(c->proto->op_type));
    if (user == NULL)
        return refuse(c, HRF_E_NOMEM, "out of memory");
    for (size_t i = 0; i < c->proto->n_input; i++)
        HRF_TRY(hrf_onnx_lookup(c->reader, c->proto->input[i], user, &c->inputs[i]));
    c->n_inputs = (int32_t)c->proto->n_input;
    while (c->n_inputs > 0 && c->inputs[c->n_inputs - 1] == HRF_NO_VALUE)
        c->n_inputs--;
    return HRF_OK;
}

static enum hrf_status convert_constant(struct conversion *c)
{
    static const char *const known[] = { "value",     "value_float", "value_floats",
                                         "value_int", "value_ints",  NULL };
    HRF_TRY(check_attributes(c, known));
    if (c->proto->n_attribute != 1)
        return refuse(c, HRF_E_USER, "has %zu attributes, not one value", c->proto->n_attribute);
    const Onnx__AttributeProto *a = c->proto->attribute[0];
    const char *kind = hrf_onnx_text(a->name), *name = hrf_onnx_text(c->proto->output[0]);
    HRF_AUTO_FREE void *data = NULL;
    enum hrf_dtype dtype = HRF_S64;
    struct hrf_shape shape = { .rank = 0 };
    const void *source = NULL;
    int32_t index;
    if (strcmp(kind, "value") == 0) {
        if (a->t == NULL)
            return wrong_type(c, kind, "a tensor");
        HRF_TRY(hrf_onnx_tensor_data(a->t, name, &dtype, &shape, &data, c->reader->err));
        HRF_TRY(hrf_graph_take_value(c->reader->graph, name, dtype, &shape, &data, &index,
                                     c->reader->err));
        return name_output(c, name, index);
    }
    bool list = kind[strlen(kind) - 1] == 's';
    bool integer = strncmp(kind, "value_int", 9) == 0;
    dtype = integer ? HRF_S64 : HRF_F32;
    shape.rank = list ? 1 : 0;
    shape.dims[0] = (int64_t)(integer ? a->n_ints : a->n_floats);
    source = integer ? (list ? (const void *)a->ints : &a->i)
                     : (list ? (const void *)a->floats : &a->f);
    HRF_TRY(hrf_graph_add_value(c->reader->graph, name, dtype, &shape, source != NULL ? source : "",
                                &index, c->reader->err));
    return name_output(c, name, index);
}

/* Sum, Max or Min of n values: n - 1 operations from the left. */
static enum hrf_status convert_chain(struct conversion *c, enum hrf_op op)
{
    const struct hrf_shape unknown = { .rank = -1 };
    struct hrf_graph *graph = c->reader->graph;
    HRF_TRY(check_attributes(c, (const char *const[]){ NULL }));
    int32_t sum = c->n_inputs > 0 ? c->inputs[0] : HRF_NO_VALUE, output;
    for (int32_t i = 0; i < c->n_inputs; i++)
        if (c->inputs[i] == HRF_NO_VALUE)
            return refuse(c, HRF_E_USER, "input %d is missing", (int)i);
    if (c->n_inputs == 0)
        return refuse(c, HRF_E_USER, "has no input");
    for (int32_t i = 1; i + 1 < c->n_inputs; i++) {
        int32_t pair[2] = { sum, c->inputs[i] };
        HRF_TRY(
            hrf_graph_add_value(graph, "", HRF_DTYPE_NONE, &unknown, NULL, &sum, c->reader->err));
        HRF_TRY(hrf_graph_add_node(graph, op, NULL, pair, 2, &sum, 1, NULL, c->reader->err));
    }
    HRF_TRY(add_output(c, &output));
    int32_t last[2] = { sum, c->inputs[c->n_inputs - 1] };
    bool one = c->n_inputs == 1;
    return hrf_graph_add_node(graph, one ? HRF_OP_IDENTITY : op, c->proto->name, last, one ? 1 : 2,
                              &output, 1, NULL, c->reader->err);
}

static const struct operator_row *find_row(const char *name)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

static enum hrf_status convert_by_row(struct conversion *c)
{
    struct hrf_graph *graph = c->reader->graph;
    int32_t output;
    HRF_TRY(check_attributes(c, c->row->attributes));
    int32_t fewest = hrf_op_info(c->row->op)->min_inputs;
    if (c->n_inputs > c->row->max_inputs || c->n_inputs < fewest)
        return refuse(c, HRF_E_USER, "has %d inputs; it takes %d to %d", (int)c->n_inputs,
                      (int)fewest, (int)c->row->max_inputs);
    c->op = c->row->op;
    if (c->row->convert != NULL)
        HRF_TRY(c->row->convert(c));
    /* Shared weights reach their users through Identity: an alias, not a node. */
    if (c->op == HRF_OP_IDENTITY && c->n_inputs == 1 && c->inputs[0] >= 0 &&
        graph->values[c->inputs[0]].data != NULL)
        return name_output(c, hrf_onnx_text(c->proto->output[0]), c->inputs[0]);
    HRF_TRY(add_output(c, &output));
    return hrf_graph_add_node(graph, c->op, c->proto->name, c->inputs, c->n_inputs, &output, 1,
                              &c->a, c->reader->err);
}

enum hrf_status hrf_onnx_convert_node(struct hrf_onnx_reader *reader, const Onnx__NodeProto *node)
{
    struct conversion c = { .reader = reader, .proto = node, .a = hrf_attributes_default() };
    const char *type = hrf_onnx_text(node->op_type), *domain = hrf_onnx_text(node->domain);
    const bool is_own = strcmp(domain, HRF_ONNX_OWN_DOMAIN) == 0;
    if (domain[0] != '\0' && strcmp(domain, "ai.onnx") != 0 && !is_own)
        return refuse(&c, HRF_E_UNSUPPORTED, "operators of the domain '%s' are not supported",
                      domain);
    c.row = find_row(type);
    if (is_own != (c.row != NULL && c.row->op == HRF_OP_PERFORMER))
        return refuse(&c, HRF_E_UNSUPPORTED, "the domain '%s' has no such operator; '%s' has %s",
                      domain, HRF_ONNX_OWN_DOMAIN, hrf_op_name(HRF_OP_PERFORMER));
    bool constant = strcmp(type, "Constant") == 0;
    const enum hrf_op chain = strcmp(type, "Sum") == 0   ? HRF_OP_ADD
                              : strcmp(type, "Max") == 0 ? HRF_OP_MAX
                              : strcmp(type, "Min") == 0 ? HRF_OP_MIN
                                                         : HRF_N_OPS;
    if (c.row == NULL && !constant && chain == HRF_N_OPS)
        return refuse_operator(&c, type);
    if (node->n_output == 0 || hrf_onnx_text(node->output[0])[0] == '\0')
        return refuse(&c, HRF_E_USER, "has no first output");
    if (node->n_input > INT32_MAX - 8)
        return refuse(&c, HRF_E_UNSUPPORTED, "%zu inputs are too many", node->n_input);
    HRF_AUTO_FREE int32_t *inputs = hrf_alloc_array(node->n_input + 4, sizeof *inputs);
    if (inputs == NULL)
        return refuse(&c, HRF_E_NOMEM, "out of memory");
    c.inputs = inputs;
    if (constant)
        return convert_constant(&c);
    HRF_TRY(read_inputs(&c));
    return chain != HRF_N_OPS ? convert_chain(&c, chain) : convert_by_row(&c);
}
