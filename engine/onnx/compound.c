/* compound.c - operators of ONNX that become several nodes: Split, windows over one axis,
 * InstanceNormalization, Mean. */
#include "engine/onnx/convert_private.h"

#include <onnx.pb-c.h>
#include <string.h>

/* Before opset 13 the sizes are an attribute, then an input; without them the parts are equal. */
static enum hrf_status convert_split(struct hrf_onnx_conversion *c)
{
    struct hrf_attributes a = hrf_attributes_default();
    int64_t n_outputs = (int64_t)c->proto->n_output, sizes[64], begin = 0;
    int32_t n = -1, inputs[4] = { c->inputs[0] };
    if (c->reader->opset >= 18)
        HRF_TRY(hrf_onnx_get_int(c, "num_outputs", &n_outputs));
    HRF_TRY(hrf_onnx_get_int(c, "axis", &a.axes[0]));
    HRF_TRY(hrf_onnx_get_ints(c, "split", sizes, 64, &n));
    const struct hrf_value *given = hrf_onnx_input(c, 1);
    if (given != NULL) {
        const int64_t count = hrf_shape_count(&given->shape);
        if (given->data == NULL || given->dtype != HRF_S64 || count > 64)
            return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                                   "its sizes must be at most 64 integer constants: export with "
                                   "constant sizes (torch.split with numbers)");
        n = (int32_t)count;
        memcpy(sizes, given->data, (size_t)n * sizeof sizes[0]);
    }
    if ((n >= 0 && n != (int64_t)c->proto->n_output) || n_outputs < (int64_t)c->proto->n_output)
        return hrf_onnx_refuse(c, HRF_E_USER, "has %zu outputs, and sizes for another number",
                               c->proto->n_output);
    a.n_axes = 1;
    for (size_t k = 0; k < c->proto->n_output; k++) {
        if (n >= 0 && (sizes[k] < 0 || sizes[k] > HRF_MAX_ELEMENTS))
            return hrf_onnx_refuse(c, HRF_E_USER, "the size %lld is impossible",
                                   (long long)sizes[k]);
        const int64_t end = begin + (n < 0 ? 0 : sizes[k]);
        a.slice.part = (int64_t)k;
        a.slice.n_parts = n < 0 ? n_outputs : 0;
        if (hrf_onnx_has_output(c, k) && n < 0) {
            HRF_TRY(hrf_onnx_put_output(c, k, HRF_OP_SLICE, inputs, 1, &a));
        } else if (hrf_onnx_has_output(c, k)) {
            const struct hrf_attributes plain = hrf_attributes_default();
            HRF_TRY(hrf_onnx_put_integers(c, &begin, 1, &inputs[1]));
            HRF_TRY(hrf_onnx_put_integers(c, &end, 1, &inputs[2]));
            HRF_TRY(hrf_onnx_put_integers(c, &a.axes[0], 1, &inputs[3]));
            HRF_TRY(hrf_onnx_put_output(c, k, HRF_OP_SLICE, inputs, 4, &plain));
        }
        begin = end;
    }
    return HRF_OK;
}

/* Inserts an axis of one row before the last, so that a window over one axis is one over rows and
 * columns; weights likewise. */
static enum hrf_status add_rows(struct hrf_onnx_conversion *c, int32_t value, int32_t *out)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_axes = 1;
    a.axes[0] = 2;
    return hrf_onnx_put(c, HRF_OP_UNSQUEEZE, &value, 1, &a, out);
}

static enum hrf_status convert_1d(struct hrf_onnx_conversion *c)
{
    struct hrf_attributes squeeze = hrf_attributes_default();
    int32_t inputs[3] = { HRF_NO_VALUE, HRF_NO_VALUE, HRF_NO_VALUE }, y;
    c->op = c->row->op;
    HRF_TRY(
        hrf_onnx_read_attributes(c, c->op)); /* numbers of one axis are read as those of columns */
    HRF_TRY(add_rows(c, c->inputs[0], &inputs[0]));
    if (hrf_onnx_has_input(c, 1))
        HRF_TRY(add_rows(c, c->inputs[1], &inputs[1]));
    inputs[2] = hrf_onnx_has_input(c, 2) ? c->inputs[2] : HRF_NO_VALUE;
    HRF_TRY(hrf_onnx_put(c, c->op, inputs, c->n_inputs, &c->a, &y));
    for (size_t k = 1; k < c->proto->n_output; k++)
        if (hrf_onnx_has_output(c, k))
            return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED, "its output %zu is not supported", k);
    squeeze.n_axes = 1;
    squeeze.axes[0] = 2;
    return hrf_onnx_put_output(c, 0, HRF_OP_SQUEEZE, &y, 1, &squeeze);
}

static enum hrf_status convert_instance_norm(struct hrf_onnx_conversion *c)
{
    c->a.n_groups = 0;
    HRF_TRY(hrf_onnx_get_float(c, "epsilon", &c->a.epsilon));
    return hrf_onnx_put_output(c, 0, HRF_OP_GROUP_NORM, c->inputs, 3, &c->a);
}

static enum hrf_status convert_mean(struct hrf_onnx_conversion *c)
{
    const struct hrf_attributes a = hrf_attributes_default();
    int32_t sum = c->inputs[0];
    for (int32_t k = 1; k < c->n_inputs; k++) {
        const int32_t pair[2] = { sum, c->inputs[k] };
        if (pair[1] < 0)
            return hrf_onnx_refuse(c, HRF_E_USER, "input %d is missing", (int)k);
        HRF_TRY(hrf_onnx_put(c, HRF_OP_ADD, pair, 2, &a, &sum));
    }
    int32_t last[2] = { sum };
    HRF_TRY(hrf_onnx_put_float(c, (float)c->n_inputs, &last[1]));
    return hrf_onnx_put_output(c, 0, HRF_OP_DIV, last, 2, &a);
}

/* ---- the tables ---- */

static const struct hrf_onnx_compound table[] = {
    { "ArgMax", 1, 1, hrf_onnx_convert_arg_max, { "axis", "keepdims", "select_last_index" } },
    { "Attention",
      3,
      7,
      hrf_onnx_convert_attention,
      { "is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale", "softcap",
        "softmax_precision" } },
    { "ConvInteger",
      2,
      4,
      hrf_onnx_convert_conv_integer,
      { "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides" } },
    { "DynamicQuantizeLinear", 1, 1, hrf_onnx_convert_dynamic_quantize, { NULL } },
    { "Einsum", 1, INT32_MAX, hrf_onnx_convert_einsum, { "equation" } },
    { "If", 1, 1, hrf_onnx_convert_if, { "else_branch", "then_branch" } },
    { "InstanceNormalization", 3, 3, convert_instance_norm, { "epsilon" } },
    { "MatMulInteger", 2, 4, hrf_onnx_convert_matmul_integer, { NULL } },
    { "Mean", 1, INT32_MAX, convert_mean, { NULL } },
    { "QLinearConv",
      8,
      9,
      hrf_onnx_convert_qlinear_conv,
      { "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides" } },
    { "QLinearMatMul", 8, 8, hrf_onnx_convert_qlinear_matmul, { NULL } },
    { "RotaryEmbedding",
      3,
      4,
      hrf_onnx_convert_rotary,
      { "interleaved", "num_heads", "rotary_embedding_dim" } },
    { "Split", 1, 2, convert_split, { "axis", "num_outputs", "split" } },
    { "TopK", 2, 2, hrf_onnx_convert_top_k, { "axis", "largest", "sorted" } },
};
/* Of windows along one axis; attributes and inputs are those of the operator. */
static const struct hrf_onnx_compound of_1d = { .convert = convert_1d };

const struct hrf_onnx_compound *hrf_onnx_find_compound(const char *name, bool is_1d)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0] && !is_1d; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return is_1d ? &of_1d : NULL;
}

const char *hrf_onnx_compound_name(size_t i)
{
    return i < sizeof table / sizeof table[0] ? table[i].name : NULL;
}
