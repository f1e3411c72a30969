/* A table of operators with the attributes each may have, and a converter for each form. What the
 * table does not name is refused. */
#include "engine/ir/op.h"
#include "engine/onnx/convert_private.h"

#include <float.h>
#include <onnx.pb-c.h>
#include <string.h>

static enum hrf_status convert_window(struct hrf_onnx_conversion *c)
{
    struct hrf_window *w = &c->a.window;
    int64_t pads[4] = { 0 };
    int32_t n;
    HRF_TRY(hrf_onnx_get_pair(c, "kernel_shape", w->kernel));
    HRF_TRY(hrf_onnx_get_pair(c, "strides", w->stride));
    HRF_TRY(hrf_onnx_get_pair(c, "dilations", w->dilation));
    HRF_TRY(hrf_onnx_get_auto_pad(c, &w->auto_pad));
    HRF_TRY(hrf_onnx_get_ints(c, "pads", pads, 4, &n));
    if (c->is_1d && n == 2) {
        pads[3] = pads[1];
        pads[1] = pads[0];
        pads[0] = 0;
        n = 4;
    }
    if (n >= 0 && n != 4)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED, "attribute 'pads' has %d numbers, not 4",
                               (int)n);
    bool any = (pads[0] | pads[1] | pads[2] | pads[3]) != 0;
    if (any && w->auto_pad != HRF_PAD_EXPLICIT)
        return hrf_onnx_refuse(c, HRF_E_USER, "both auto_pad and pads are given");
    if (w->auto_pad == HRF_PAD_VALID)
        w->auto_pad = HRF_PAD_EXPLICIT;
    w->pad_begin[0] = pads[0];
    w->pad_begin[1] = pads[1];
    w->pad_end[0] = pads[2];
    w->pad_end[1] = pads[3];
    return HRF_OK;
}

enum hrf_status hrf_onnx_read_window_attributes(struct hrf_onnx_conversion *c)
{
    HRF_TRY(hrf_onnx_get_int(c, "group", &c->a.group));
    return convert_window(c);
}

static enum hrf_status convert_conv_transpose(struct hrf_onnx_conversion *c)
{
    HRF_TRY(hrf_onnx_get_pair(c, "output_padding", c->a.output_padding));
    HRF_TRY(hrf_onnx_get_pair(c, "output_shape", c->a.output_size));
    return hrf_onnx_read_window_attributes(c);
}

static enum hrf_status convert_depth_to_space(struct hrf_onnx_conversion *c)
{
    const Onnx__AttributeProto *mode = hrf_onnx_attribute(c, "mode");
    c->a.column_row_depth = mode != NULL && hrf_onnx_text_is(mode, "CRD");
    if (mode != NULL && !c->a.column_row_depth && !hrf_onnx_text_is(mode, "DCR"))
        return hrf_onnx_refuse(c, HRF_E_USER, "mode is neither DCR nor CRD");
    if (hrf_onnx_attribute(c, "blocksize") == NULL)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'blocksize' is missing");
    return hrf_onnx_get_int(c, "blocksize", &c->a.size);
}

static enum hrf_status convert_pool(struct hrf_onnx_conversion *c)
{
    int64_t storage_order = 0; /* of the indices, which nobody may ask for */
    HRF_TRY(hrf_onnx_get_int(c, "storage_order", &storage_order));
    HRF_TRY(hrf_onnx_get_bool(c, "ceil_mode", &c->a.window.ceil_mode));
    HRF_TRY(hrf_onnx_get_bool(c, "count_include_pad", &c->a.window.count_include_pad));
    if (hrf_onnx_attribute(c, "kernel_shape") == NULL)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'kernel_shape' is missing");
    return convert_window(c);
}

/* Before opset 7 broadcasting was asked for; without an axis it aligned the last dimensions, as
 * it always does since. */
static enum hrf_status convert_binary(struct hrf_onnx_conversion *c)
{
    bool wanted = false;
    if (c->reader->opset >= 7 && c->proto->n_attribute > 0)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED, "attribute '%s' is not of this opset",
                               hrf_onnx_text(c->proto->attribute[0]->name));
    if (hrf_onnx_attribute(c, "axis") != NULL)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "broadcasting along an axis is not supported: export with opset 13");
    return hrf_onnx_get_bool(c, "broadcast", &wanted);
}

/* Before opset 7 training was the default. */
static enum hrf_status check_is_test(struct hrf_onnx_conversion *c)
{
    bool is_test = false;
    HRF_TRY(hrf_onnx_get_bool(c, "is_test", &is_test));
    if (c->reader->opset < 7 && !is_test)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "is_test is not 1: export the model for inference");
    return HRF_OK;
}

static enum hrf_status convert_gemm(struct hrf_onnx_conversion *c)
{
    bool broadcast = false;
    HRF_TRY(hrf_onnx_get_bool(c, "broadcast", &broadcast));
    HRF_TRY(hrf_onnx_get_float(c, "alpha", &c->a.alpha));
    HRF_TRY(hrf_onnx_get_float(c, "beta", &c->a.beta));
    HRF_TRY(hrf_onnx_get_bool(c, "transA", &c->a.transpose_a));
    return hrf_onnx_get_bool(c, "transB", &c->a.transpose_b);
}

static enum hrf_status convert_batch_norm(struct hrf_onnx_conversion *c)
{
    bool spatial = true, training = false;
    HRF_TRY(check_is_test(c));
    HRF_TRY(hrf_onnx_get_float(c, "epsilon", &c->a.epsilon));
    HRF_TRY(hrf_onnx_get_bool(c, "spatial", &spatial));
    HRF_TRY(hrf_onnx_get_bool(c, "training_mode", &training));
    if (!spatial || training)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "%s is not supported: export the model for inference",
                               training ? "training_mode 1" : "spatial 0");
    return HRF_OK;
}

/* The defaults and the attributes that there are: engine/ir/op_table.h. */
static enum hrf_status convert_unary(struct hrf_onnx_conversion *c)
{
    const struct hrf_op_info *info = hrf_op_info(c->op);
    if (info->uses & HRF_USE_ALPHA) {
        c->a.alpha = info->alpha;
        HRF_TRY(hrf_onnx_get_float(c, "alpha", &c->a.alpha));
    }
    if (c->op == HRF_OP_GELU) {
        static const char *const forms[] = { "none", "tanh", NULL };
        int form = 0;
        HRF_TRY(hrf_onnx_get_word(c, "approximate", forms, &form));
        c->op = form == 1 ? HRF_OP_GELU_TANH : HRF_OP_GELU;
    }
    if (info->uses & HRF_USE_BETA) {
        c->a.beta = info->beta;
        HRF_TRY(hrf_onnx_get_float(c, c->op == HRF_OP_SELU ? "gamma" : "beta", &c->a.beta));
    }
    return HRF_OK;
}

/* Before opset 7 a list of slopes belonged to the channels, not to the last axis. */
static enum hrf_status convert_prelu(struct hrf_onnx_conversion *c)
{
    const struct hrf_value *slope = c->n_inputs > 1 && c->inputs[1] >= 0
                                        ? &c->reader->graph->values[c->inputs[1]]
                                        : NULL;
    if (c->reader->opset < 7 && slope != NULL && hrf_shape_count(&slope->shape) != 1)
        return hrf_onnx_refuse(
            c, HRF_E_UNSUPPORTED,
            "a slope for each channel is read from opset 7 on: export with opset 13");
    return HRF_OK;
}

/* Upsample, and Resize before it had modes: x / scale, rounded down. `scales` as an input or, for
 * Upsample of opset 7, an attribute. */
static enum hrf_status convert_old_resize(struct hrf_onnx_conversion *c)
{
    static const char *const modes[] = { "nearest", "linear", NULL };
    int mode = HRF_RESIZE_NEAREST;
    HRF_TRY(hrf_onnx_get_word(c, "mode", modes, &mode));
    c->a.resize.mode = (enum hrf_resize_mode)mode;
    c->a.resize.coordinates = HRF_RESIZE_ASYMMETRIC;
    c->a.resize.rounding = HRF_RESIZE_FLOOR;
    const Onnx__AttributeProto *scales = hrf_onnx_attribute(c, "scales");
    if (scales != NULL && (scales->n_floats != 4 || c->n_inputs != 1))
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED, "%zu scales: only N, C, H, W is supported",
                               scales->n_floats);
    for (int i = 0; i < 4 && scales != NULL; i++)
        c->a.resize.scales[i] = scales->floats[i];
    if (scales == NULL && c->n_inputs != 2)
        return hrf_onnx_refuse(c, HRF_E_USER, "has no scales");
    if (scales == NULL) {
        c->inputs[2] = c->inputs[1];
        c->inputs[1] = HRF_NO_VALUE;
        c->n_inputs = 3;
    }
    return HRF_OK;
}

static enum hrf_status convert_resize(struct hrf_onnx_conversion *c)
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
    HRF_TRY(hrf_onnx_get_word(c, "mode", modes, &mode));
    HRF_TRY(hrf_onnx_get_word(c, "coordinate_transformation_mode", coordinates, &where));
    HRF_TRY(hrf_onnx_get_word(c, "nearest_mode", roundings, &rounding));
    r->mode = (enum hrf_resize_mode)mode;
    r->coordinates = (enum hrf_resize_coordinates)where;
    r->rounding = (enum hrf_resize_rounding)rounding;
    r->cubic_a = -0.75f;
    HRF_TRY(hrf_onnx_get_float(c, "cubic_coeff_a", &r->cubic_a));
    HRF_TRY(hrf_onnx_get_bool(c, "exclude_outside", &r->exclude_outside));
    HRF_TRY(hrf_onnx_get_bool(c, "antialias", &r->antialias));
    static const char *const policies[] = { "stretch", "not_larger", "not_smaller", NULL };
    int policy = 0;
    HRF_TRY(hrf_onnx_get_word(c, "keep_aspect_ratio_policy", policies, &policy));
    r->policy = (enum hrf_resize_policy)policy;
    HRF_TRY(hrf_onnx_convert_axes(c));
    float extrapolation = 0; /* of the mode that is refused */
    return hrf_onnx_get_float(c, "extrapolation_value", &extrapolation);
}

static enum hrf_status convert_clip(struct hrf_onnx_conversion *c)
{
    if (c->reader->opset >= 11)
        return HRF_OK;
    HRF_TRY(hrf_onnx_get_float(c, "min", &c->a.activation_min));
    return hrf_onnx_get_float(c, "max", &c->a.activation_max);
}

static enum hrf_status convert_softmax(struct hrf_onnx_conversion *c)
{
    bool legacy = c->reader->opset < 13;
    c->a.axis = legacy ? 1 : -1;
    HRF_TRY(hrf_onnx_get_int(c, "axis", &c->a.axis));
    c->a.legacy_axis = legacy && c->a.axis != -1;
    return HRF_OK;
}

static enum hrf_status convert_lrn(struct hrf_onnx_conversion *c)
{
    c->a.alpha = 1e-4f;
    c->a.beta = 0.75f;
    HRF_TRY(hrf_onnx_get_float(c, "alpha", &c->a.alpha));
    HRF_TRY(hrf_onnx_get_float(c, "beta", &c->a.beta));
    HRF_TRY(hrf_onnx_get_float(c, "bias", &c->a.bias));
    if (hrf_onnx_attribute(c, "size") == NULL)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'size' is missing");
    return hrf_onnx_get_int(c, "size", &c->a.size);
}

static enum hrf_status convert_performer(struct hrf_onnx_conversion *c)
{
    const Onnx__AttributeProto *kernel = hrf_onnx_attribute(c, "kernel");
    c->a.exponential = kernel != NULL && hrf_onnx_text_is(kernel, "softmax");
    if (kernel != NULL && !c->a.exponential && !hrf_onnx_text_is(kernel, "relu"))
        return hrf_onnx_refuse(c, HRF_E_USER, "kernel is neither relu nor softmax");
    c->a.epsilon = c->a.exponential ? 1e-4f : 1e-3f;
    HRF_TRY(hrf_onnx_get_float(c, "epsilon", &c->a.epsilon));
    if (hrf_onnx_attribute(c, "heads") == NULL)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'heads' is missing");
    return hrf_onnx_get_int(c, "heads", &c->a.group);
}

static enum hrf_status convert_reduction(struct hrf_onnx_conversion *c)
{
    bool nothing_when_empty = false;
    c->a.keep_dims = true;
    HRF_TRY(hrf_onnx_get_bool(c, "keepdims", &c->a.keep_dims));
    HRF_TRY(hrf_onnx_get_bool(c, "noop_with_empty_axes", &nothing_when_empty));
    HRF_TRY(hrf_onnx_convert_axes(c));
    if (nothing_when_empty && c->n_inputs < 2)
        c->op = HRF_OP_IDENTITY;
    else if (nothing_when_empty)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "noop_with_empty_axes with axes is not supported");
    return HRF_OK;
}

/* An optional flag input must be a constant false. */
static enum hrf_status convert_dropout(struct hrf_onnx_conversion *c)
{
    HRF_TRY(check_is_test(c));
    if (c->n_inputs > 2 && c->inputs[2] != HRF_NO_VALUE) {
        const struct hrf_value *flag = &c->reader->graph->values[c->inputs[2]];
        if (flag->data == NULL || flag->dtype != HRF_BOOL || hrf_shape_count(&flag->shape) != 1 ||
            *(const uint8_t *)flag->data != 0)
            return hrf_onnx_refuse(
                c, HRF_E_UNSUPPORTED,
                "training_mode is not a constant false: export the model for inference");
    }
    c->n_inputs = c->n_inputs > 1 ? 1 : c->n_inputs;
    return HRF_OK;
}

/* Blocks of scales along an axis (opset 21) have no counterpart here; `saturate` is about float8.
 */
static enum hrf_status convert_quantize(struct hrf_onnx_conversion *c)
{
    int64_t block = 0, saturate = 1, to = 0;
    c->a.axis = 1;
    c->a.to = HRF_DTYPE_NONE;
    HRF_TRY(hrf_onnx_get_int(c, "axis", &c->a.axis));
    HRF_TRY(hrf_onnx_get_int(c, "block_size", &block));
    HRF_TRY(hrf_onnx_get_int(c, "saturate", &saturate));
    HRF_TRY(hrf_onnx_get_int(c, "output_dtype", &to));
    if (block != 0)
        return hrf_onnx_refuse(
            c, HRF_E_UNSUPPORTED,
            "block_size %lld is not supported: export with one scale for each tensor or "
            "channel",
            (long long)block);
    if (to < 0 || to > INT32_MAX)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'output_dtype' is %lld", (long long)to);
    return to == 0 ? HRF_OK
                   : hrf_onnx_dtype((int32_t)to, hrf_onnx_text(c->proto->output[0]), &c->a.to,
                                    c->reader->err);
}

static enum hrf_status convert_layer_norm(struct hrf_onnx_conversion *c)
{
    int64_t stash = 1; /* float32 at least, always */
    c->a.axis = -1;
    HRF_TRY(hrf_onnx_get_int(c, "axis", &c->a.axis));
    HRF_TRY(hrf_onnx_get_int(c, "stash_type", &stash));
    return hrf_onnx_get_float(c, "epsilon", &c->a.epsilon);
}

/* Before opset 21 scale and bias belonged to the groups, and PyTorch never wrote it. */
static enum hrf_status convert_group_norm(struct hrf_onnx_conversion *c)
{
    int64_t stash = 1;
    if (c->reader->opset < 21)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "it is read from opset 21 on: export with opset 21 or newer");
    if (hrf_onnx_attribute(c, "num_groups") == NULL)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'num_groups' is missing");
    HRF_TRY(hrf_onnx_get_int(c, "num_groups", &c->a.group));
    HRF_TRY(hrf_onnx_get_int(c, "stash_type", &stash));
    if (c->a.group < 1)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'num_groups' is %lld",
                               (long long)c->a.group);
    return hrf_onnx_get_float(c, "epsilon", &c->a.epsilon);
}

static enum hrf_status convert_mod(struct hrf_onnx_conversion *c)
{
    return hrf_onnx_get_bool(c, "fmod", &c->a.truncated);
}

/* ---- the table ----------------------------------------------------------------------------- */

#define ANY INT32_MAX
#define UNARY(OP, NAME, USES, ALPHA, BETA)                                                         \
    { NAME,                                                                                        \
      HRF_OP_##OP,                                                                                 \
      1,                                                                                           \
      convert_unary,                                                                               \
      { (USES)&HRF_USE_ALPHA         ? "alpha"                                                     \
        : HRF_OP_##OP == HRF_OP_GELU ? "approximate"                                               \
                                     : NULL,                                                       \
        (USES)&HRF_USE_BETA ? (HRF_OP_##OP == HRF_OP_SELU ? "gamma" : "beta") : NULL } },
static const struct hrf_onnx_row table[] = {
    HRF_UNARY_OPS(UNARY){ "Add", HRF_OP_ADD, 2, convert_binary, { "axis", "broadcast" } },
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
    { "Cast", HRF_OP_CAST, 1, hrf_onnx_convert_cast, { "round_mode", "saturate", "to" } },
    { "Clip", HRF_OP_CLIP, 3, convert_clip, { "min", "max" } },
    { "Concat", HRF_OP_CONCAT, ANY, hrf_onnx_convert_concat, { "axis" } },
    { "And", HRF_OP_AND, 2, NULL, { NULL } },
    { "CastLike", HRF_OP_CAST, 2, hrf_onnx_convert_cast_like, { "saturate", "round_mode" } },
    { "ConstantOfShape",
      HRF_OP_CONSTANT_OF_SHAPE,
      1,
      hrf_onnx_convert_constant_of_shape,
      { "value" } },
    { "Conv",
      HRF_OP_CONV,
      3,
      hrf_onnx_read_window_attributes,
      { "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides" } },
    { "ConvTranspose",
      HRF_OP_CONV_TRANSPOSE,
      3,
      convert_conv_transpose,
      { "auto_pad", "dilations", "group", "kernel_shape", "output_padding", "output_shape", "pads",
        "strides" } },
    { "CumSum", HRF_OP_CUM_SUM, 2, hrf_onnx_convert_cum_sum, { "exclusive", "reverse" } },
    { "DepthToSpace", HRF_OP_DEPTH_TO_SPACE, 1, convert_depth_to_space, { "blocksize", "mode" } },
    { "DequantizeLinear",
      HRF_OP_DEQUANTIZE,
      3,
      convert_quantize,
      { "axis", "block_size", "output_dtype" } },
    { "Div", HRF_OP_DIV, 2, convert_binary, { "axis", "broadcast" } },
    { "Dropout", HRF_OP_IDENTITY, 3, convert_dropout, { "is_test", "ratio", "seed" } },
    { "Equal", HRF_OP_EQUAL, 2, convert_binary, { "axis", "broadcast" } },
    { "Expand", HRF_OP_EXPAND, 2, NULL, { NULL } },
    { "EyeLike", HRF_OP_EYE_LIKE, 1, hrf_onnx_convert_eye_like, { "dtype", "k" } },
    { "Flatten", HRF_OP_FLATTEN, 1, hrf_onnx_convert_flatten, { "axis" } },
    { "Gather", HRF_OP_GATHER, 2, hrf_onnx_convert_gather, { "axis" } },
    { "GatherND", HRF_OP_GATHER_ND, 2, hrf_onnx_convert_gather_nd, { "batch_dims" } },
    { "Gemm", HRF_OP_GEMM, 3, convert_gemm, { "alpha", "beta", "broadcast", "transA", "transB" } },
    { "GlobalAveragePool", HRF_OP_GLOBAL_AVERAGE_POOL, 1, NULL, { NULL } },
    { "GlobalMaxPool", HRF_OP_GLOBAL_MAX_POOL, 1, NULL, { NULL } },
    { "Greater", HRF_OP_GREATER, 2, convert_binary, { "axis", "broadcast" } },
    { "GreaterOrEqual", HRF_OP_GREATER_OR_EQUAL, 2, NULL, { NULL } },
    { "GroupNormalization",
      HRF_OP_GROUP_NORM,
      3,
      convert_group_norm,
      { "epsilon", "num_groups", "stash_type" } },
    { "Identity", HRF_OP_IDENTITY, 1, NULL, { NULL } },
    { "LRN", HRF_OP_LRN, 1, convert_lrn, { "alpha", "beta", "bias", "size" } },
    { "LayerNormalization",
      HRF_OP_LAYER_NORM,
      3,
      convert_layer_norm,
      { "axis", "epsilon", "stash_type" } },
    { "Less", HRF_OP_LESS, 2, convert_binary, { "axis", "broadcast" } },
    { "LessOrEqual", HRF_OP_LESS_OR_EQUAL, 2, NULL, { NULL } },
    { "LogSoftmax", HRF_OP_LOG_SOFTMAX, 1, convert_softmax, { "axis" } },
    { "MatMul", HRF_OP_MATMUL, 2, NULL, { NULL } },
    { "MaxPool",
      HRF_OP_MAX_POOL,
      1,
      convert_pool,
      { "auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order",
        "strides" } },
    { "Mod", HRF_OP_MOD, 2, convert_mod, { "fmod" } },
    { "Mul", HRF_OP_MUL, 2, convert_binary, { "axis", "broadcast" } },
    { "NonZero", HRF_OP_NON_ZERO, 1, NULL, { NULL } },
    { "Not", HRF_OP_NOT, 1, NULL, { NULL } },
    { "Or", HRF_OP_OR, 2, NULL, { NULL } },
    { "PRelu", HRF_OP_PRELU, 2, convert_prelu, { NULL } },
    { "Pad", HRF_OP_PAD, 4, hrf_onnx_convert_pad, { "mode", "pads", "value" } },
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
    { "RMSNormalization",
      HRF_OP_RMS_NORM,
      2,
      convert_layer_norm,
      { "axis", "epsilon", "stash_type" } },
    { "Range", HRF_OP_RANGE, 3, NULL, { "stash_type" } },
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
    { "Reshape", HRF_OP_RESHAPE, 2, hrf_onnx_convert_reshape, { "allowzero" } },
    { "Resize",
      HRF_OP_RESIZE,
      4,
      convert_resize,
      { "antialias", "axes", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside",
        "extrapolation_value", "keep_aspect_ratio_policy", "mode", "nearest_mode" } },
    { "ScatterND", HRF_OP_SCATTER_ND, 3, hrf_onnx_convert_scatter_nd, { "reduction" } },
    { "Shape", HRF_OP_SHAPE, 1, hrf_onnx_convert_shape, { "start", "end" } },
    { "Size", HRF_OP_SIZE, 1, NULL, { NULL } },
    { "Slice", HRF_OP_SLICE, 5, hrf_onnx_convert_slice, { "starts", "ends", "axes" } },
    { "Softmax", HRF_OP_SOFTMAX, 1, convert_softmax, { "axis" } },
    { "SpaceToDepth", HRF_OP_SPACE_TO_DEPTH, 1, convert_depth_to_space, { "blocksize" } },
    { "Squeeze", HRF_OP_SQUEEZE, 2, hrf_onnx_convert_axes, { "axes" } },
    { "Sub", HRF_OP_SUB, 2, convert_binary, { "axis", "broadcast" } },
    { "Tile", HRF_OP_TILE, 2, NULL, { NULL } },
    { "Transpose", HRF_OP_TRANSPOSE, 1, hrf_onnx_convert_transpose, { "perm" } },
    { "Trilu", HRF_OP_TRILU, 2, hrf_onnx_convert_trilu, { "upper" } },
    { "Unsqueeze", HRF_OP_UNSQUEEZE, 2, hrf_onnx_convert_axes, { "axes" } },
    { "Upsample", HRF_OP_RESIZE, 2, convert_old_resize, { "mode", "scales" } },
    { "Where", HRF_OP_WHERE, 3, NULL, { NULL } },
    { "Xor", HRF_OP_XOR, 2, NULL, { NULL } },
};
enum { N_ROWS = sizeof table / sizeof table[0] };

/* Converted without a row of the table: they become values, or several nodes. */
static const char *const special[] = { "Constant", "Max", "Min", "Sum" };
enum { N_SPECIAL = sizeof special / sizeof special[0] };

const char *hrf_onnx_operator(size_t i)
{
    if (i < N_ROWS)
        return table[i].name;
    return i < N_ROWS + N_SPECIAL ? special[i - N_ROWS]
                                  : hrf_onnx_compound_name(i - N_ROWS - N_SPECIAL);
}

/* GeluTanh is no operator of ONNX but Gelu with an attribute. */
const struct hrf_onnx_row *hrf_onnx_find_row(const char *name)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strcmp(table[i].name, name) == 0 && table[i].op != HRF_OP_GELU_TANH)
            return &table[i];
    return NULL;
}
