/* A table of operators with the attributes each may have, and a converter for each form. What the
 * table does not name is refused. */
#include "engine/ir/op.h"
#include "engine/onnx/convert_private.h"

#include <onnx.pb-c.h>
#include <string.h>

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
    return hrf_onnx_get_bool(c, "broadcast", &broadcast);
}

static enum hrf_status convert_batch_norm(struct hrf_onnx_conversion *c)
{
    bool spatial = true, training = false;
    HRF_TRY(check_is_test(c));
    HRF_TRY(hrf_onnx_get_bool(c, "spatial", &spatial));
    HRF_TRY(hrf_onnx_get_bool(c, "training_mode", &training));
    if (!spatial || training)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "%s is not supported: export the model for inference",
                               training ? "training_mode 1" : "spatial 0");
    return HRF_OK;
}

static enum hrf_status convert_gelu(struct hrf_onnx_conversion *c)
{
    static const char *const forms[] = { "none", "tanh", NULL };
    int form = 0;
    HRF_TRY(hrf_onnx_get_word(c, "approximate", forms, &form));
    c->op = form == 1 ? HRF_OP_GELU_TANH : HRF_OP_GELU;
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
    if (c->a.resize.mode == HRF_RESIZE_CUBIC)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "mode 'cubic' is read from opset 11 on: export with opset 13");
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
    return c->reader->opset < 11 ? convert_old_resize(c) : HRF_OK;
}

static enum hrf_status convert_softmax(struct hrf_onnx_conversion *c)
{
    const bool legacy = c->reader->opset < 13;
    if (legacy && hrf_onnx_attribute(c, "axis") == NULL)
        c->a.axis = 1;
    c->a.legacy_axis = legacy && c->a.axis != -1;
    return HRF_OK;
}

static enum hrf_status convert_performer(struct hrf_onnx_conversion *c)
{
    if (c->a.performer.exponential && hrf_onnx_attribute(c, "epsilon") == NULL)
        c->a.performer.epsilon = 1e-4f;
    return HRF_OK;
}

static enum hrf_status convert_reduction(struct hrf_onnx_conversion *c)
{
    bool nothing_when_empty = false;
    HRF_TRY(hrf_onnx_get_bool(c, "noop_with_empty_axes", &nothing_when_empty));
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
    int64_t block = 0;
    HRF_TRY(hrf_onnx_get_int(c, "block_size", &block));
    if (block == 0)
        return HRF_OK;
    return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                           "block_size %lld is not supported: export with one scale for each "
                           "tensor or channel",
                           (long long)block);
}

/* Before opset 21 scale and bias belonged to the groups, and PyTorch never wrote it. */
static enum hrf_status convert_group_norm(struct hrf_onnx_conversion *c)
{
    if (c->reader->opset < 21)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "it is read from opset 21 on: export with opset 21 or newer");
    if (hrf_onnx_attribute(c, "num_groups") == NULL)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'num_groups' is missing");
    if (c->a.n_groups < 1)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'num_groups' is %lld",
                               (long long)c->a.n_groups);
    return HRF_OK;
}

/* ---- the table ----------------------------------------------------------------------------- */

/* Operators that older opsets, or attributes that change them, make more of than their rows in
 * engine/ir/op.c say, and names that become other operators. */
static const struct hrf_onnx_row table[] = {
    { "BatchNormalization",
      HRF_OP_BATCH_NORM,
      5,
      convert_batch_norm,
      { "is_test", "momentum", "spatial", "training_mode" } },
    { "Cast", HRF_OP_CAST, 1, NULL, { "round_mode", "saturate" } },
    { "CastLike", HRF_OP_CAST, 2, hrf_onnx_convert_cast_like, { "saturate", "round_mode" } },
    { "ConstantOfShape",
      HRF_OP_CONSTANT_OF_SHAPE,
      1,
      hrf_onnx_convert_constant_of_shape,
      { "value" } },
    { "DequantizeLinear", HRF_OP_DEQUANTIZE, 3, convert_quantize, { "block_size" } },
    { "Dropout", HRF_OP_IDENTITY, 3, convert_dropout, { "is_test", "ratio", "seed" } },
    { "Equal", HRF_OP_EQUAL, 2, convert_binary, { "axis", "broadcast" } },
    { "Gather", HRF_OP_GATHER, 2, hrf_onnx_convert_gather, { NULL } },
    { "GatherND", HRF_OP_GATHER_ND, 2, hrf_onnx_convert_gather_nd, { "batch_dims" } },
    { "Gemm", HRF_OP_GEMM, 3, convert_gemm, { "broadcast" } },
    { "Greater", HRF_OP_GREATER, 2, convert_binary, { "axis", "broadcast" } },
    { "Gelu", HRF_OP_GELU, 1, convert_gelu, { "approximate" } },
    { "GroupNormalization", HRF_OP_GROUP_NORM, 3, convert_group_norm, { "stash_type" } },
    /* `stash_type`: in float32 at least, always */
    { "LayerNormalization", HRF_OP_LAYER_NORM, 3, NULL, { "stash_type" } },
    { "Less", HRF_OP_LESS, 2, convert_binary, { "axis", "broadcast" } },
    { "LogSoftmax", HRF_OP_LOG_SOFTMAX, 1, convert_softmax, { NULL } },
    /* `storage_order`: of the indices, which nobody may ask for */
    { "MaxPool", HRF_OP_MAX_POOL, 1, NULL, { "storage_order" } },
    { "PRelu", HRF_OP_PRELU, 2, convert_prelu, { NULL } },
    { "Pad", HRF_OP_PAD, 4, hrf_onnx_convert_pad, { NULL } },
    { "PerformerAttention", HRF_OP_PERFORMER, 4, convert_performer, { NULL } },
    { "QuantizeLinear", HRF_OP_QUANTIZE, 3, convert_quantize, { "block_size", "saturate" } },
    { "RMSNormalization", HRF_OP_RMS_NORM, 2, NULL, { "stash_type" } },
    { "Range", HRF_OP_RANGE, 3, NULL, { "stash_type" } },
    /* `extrapolation_value`: of the mode that is refused */
    { "Resize", HRF_OP_RESIZE, 4, convert_resize, { "extrapolation_value" } },
    { "ScatterND", HRF_OP_SCATTER_ND, 3, hrf_onnx_convert_scatter_nd, { "reduction" } },
    { "Slice", HRF_OP_SLICE, 5, hrf_onnx_convert_slice, { NULL } },
    { "Softmax", HRF_OP_SOFTMAX, 1, convert_softmax, { NULL } },
    { "Upsample", HRF_OP_RESIZE, 2, convert_old_resize, { "scales" } },
};
enum { N_ROWS = sizeof table / sizeof table[0] };

/* The same of all other operators of a class. */
static const struct hrf_onnx_row classes[HRF_N_CLASSES] = {
    [HRF_CLASS_BINARY] = { .convert = convert_binary, .attributes = { "axis", "broadcast" } },
    [HRF_CLASS_REDUCE] = { .convert = convert_reduction, .attributes = { "noop_with_empty_axes" } },
};

/* Every name at least once: those of the table, of all operators that models bring, of chains of
 * nodes, and of what becomes several. */
const char *hrf_onnx_operator(size_t i)
{
    for (size_t k = 0; k < N_ROWS; k++)
        if (i-- == 0)
            return table[k].name;
    for (int op = 0; op < HRF_N_OPS; op++)
        if (!hrf_op_info((enum hrf_op)op)->is_made && i-- == 0)
            return hrf_op_name((enum hrf_op)op);
    return i == 0 ? "Sum" : hrf_onnx_compound_name(i - 1);
}

bool hrf_onnx_find_row(const char *name, struct hrf_onnx_row *out)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strcmp(table[i].name, name) == 0) {
            *out = table[i];
            return true;
        }
    const enum hrf_op op = hrf_op_find(name);
    /* GeluTanh is no operator of ONNX but Gelu with an attribute. */
    if (op == HRF_N_OPS || hrf_op_info(op)->is_made || op == HRF_OP_GELU_TANH)
        return false;
    const struct hrf_op_info *info = hrf_op_info(op);
    *out = classes[info->op_class];
    out->name = info->name;
    out->op = op;
    out->max_inputs = info->max_inputs;
    /* Passes add what comes after the bias. */
    if (info->op_class == HRF_CLASS_PRODUCT && out->max_inputs > HRF_CONV_BIAS + 1)
        out->max_inputs = HRF_CONV_BIAS + 1;
    return true;
}
