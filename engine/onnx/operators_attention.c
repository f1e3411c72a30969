/* operators_attention.c - Attention and RotaryEmbedding of opset 23. */
#include "engine/onnx/convert_private.h"

#include <math.h>
#include <onnx.pb-c.h>

/* [N][T][heads * d] to [N][heads][T][d]. */
static enum hrf_status split_heads(struct hrf_onnx_conversion *c, int64_t heads, int32_t *value)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t shape[4] = { 0, 0, heads, -1 };
    int32_t pair[2] = { *value };
    HRF_TRY(hrf_onnx_put_integers(c, shape, 4, &pair[1]));
    HRF_TRY(hrf_onnx_put(c, HRF_OP_RESHAPE, pair, 2, &a, value));
    a.n_axes = 4;
    for (int32_t i = 0; i < 4; i++)
        a.axes[i] = i == 1 ? 2 : i == 2 ? 1 : i;
    return hrf_onnx_put(c, HRF_OP_TRANSPOSE, value, 1, &a, value);
}

/* The way back, to output 0. */
static enum hrf_status put_joined_heads(struct hrf_onnx_conversion *c, int32_t value)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t shape[3] = { 0, 0, -1 };
    int32_t pair[2];
    a.n_axes = 4;
    for (int32_t i = 0; i < 4; i++)
        a.axes[i] = i == 1 ? 2 : i == 2 ? 1 : i;
    HRF_TRY(hrf_onnx_put(c, HRF_OP_TRANSPOSE, &value, 1, &a, &pair[0]));
    HRF_TRY(hrf_onnx_put_integers(c, shape, 3, &pair[1]));
    a = hrf_attributes_default();
    return hrf_onnx_put_output(c, 0, HRF_OP_RESHAPE, pair, 2, &a);
}

/* Truth values to numbers that are added: 0, or minus infinity where a token is not seen. */
static enum hrf_status read_mask(struct hrf_onnx_conversion *c, int32_t *mask)
{
    const struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_value *value = hrf_onnx_input(c, 3);
    int32_t inputs[3];
    *mask = hrf_onnx_has_input(c, 3) ? c->inputs[3] : HRF_NO_VALUE;
    if (value == NULL || value->dtype != HRF_BOOL)
        return HRF_OK;
    inputs[0] = *mask;
    HRF_TRY(hrf_onnx_put_float(c, 0, &inputs[1]));
    HRF_TRY(hrf_onnx_put_float(c, -INFINITY, &inputs[2]));
    return hrf_onnx_put(c, HRF_OP_WHERE, inputs, 3, &a, mask);
}

enum hrf_status hrf_onnx_convert_attention(struct hrf_onnx_conversion *c)
{
    struct hrf_attributes a = hrf_attributes_default();
    int64_t heads = 0, kv_heads = 0, unused = 0;
    float softcap = 0;
    int32_t inputs[4] = { c->inputs[0], c->inputs[1], c->inputs[2] }, y;
    a.attention.scale = 0;
    HRF_TRY(hrf_onnx_get_bool(c, "is_causal", &a.attention.causal));
    HRF_TRY(hrf_onnx_get_int(c, "q_num_heads", &heads));
    HRF_TRY(hrf_onnx_get_int(c, "kv_num_heads", &kv_heads));
    HRF_TRY(
        hrf_onnx_get_int(c, "qk_matmul_output_mode", &unused)); /* of an output that is not read */
    HRF_TRY(hrf_onnx_get_int(c, "softmax_precision", &unused)); /* float32 at least, always */
    HRF_TRY(hrf_onnx_get_float(c, "scale", &a.attention.scale));
    HRF_TRY(hrf_onnx_get_float(c, "softcap", &softcap));
    if (softcap != 0 || hrf_onnx_has_input(c, 4) || hrf_onnx_has_input(c, 5) ||
        hrf_onnx_has_input(c, 6))
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "softcap, past keys and past values are not supported: export the "
                               "model without a cache of keys and values");
    HRF_TRY(hrf_onnx_refuse_outputs(c, 1));
    HRF_TRY(read_mask(c, &inputs[3]));
    const int32_t n = inputs[3] >= 0 ? 4 : 3;
    if (heads == 0)
        return hrf_onnx_put_output(c, 0, HRF_OP_ATTENTION, inputs, n, &a);
    if (heads < 0 || kv_heads <= 0)
        return hrf_onnx_refuse(c, HRF_E_USER, "%lld and %lld heads make no sense", (long long)heads,
                               (long long)kv_heads);
    for (int32_t k = 0; k < 3; k++)
        HRF_TRY(split_heads(c, k == 0 ? heads : kv_heads, &inputs[k]));
    HRF_TRY(hrf_onnx_put(c, HRF_OP_ATTENTION, inputs, n, &a, &y));
    return put_joined_heads(c, y);
}

/* ---- RotaryEmbedding ---- */

/* A part of the last axis: elements from `start` on, up to `end`, each `step`-th. */
static enum hrf_status put_part(struct hrf_onnx_conversion *c, int32_t value, int64_t start,
                                int64_t end, int64_t step, int32_t *out)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_axes = 1;
    a.axes[0] = -1;
    a.slice.starts[0] = start;
    a.slice.ends[0] = end;
    a.slice.steps[0] = step;
    return hrf_onnx_put(c, HRF_OP_SLICE, &value, 1, &a, out);
}

/* Adds a * b + c * d or a * b - c * d: half of a rotation. */
static enum hrf_status put_rotated_half(struct hrf_onnx_conversion *c, const int32_t pairs[4],
                                        enum hrf_op op, int32_t *out)
{
    const struct hrf_attributes a = hrf_attributes_default();
    int32_t products[2];
    for (int i = 0; i < 2; i++)
        HRF_TRY(hrf_onnx_put(c, HRF_OP_MUL, &pairs[2 * i], 2, &a, &products[i]));
    return hrf_onnx_put(c, op, products, 2, &a, out);
}

/* cos or sin as [N or 1][1][T][d / 2]. With position_ids each token has its own row of the table.
 */
static enum hrf_status read_table(struct hrf_onnx_conversion *c, int32_t k, int32_t *out)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int32_t pair[2] = { c->inputs[k],
                              hrf_onnx_has_input(c, 3) ? c->inputs[3] : HRF_NO_VALUE };
    *out = pair[0];
    if (pair[1] >= 0)
        HRF_TRY(hrf_onnx_put(c, HRF_OP_GATHER, pair, 2, &a, out));
    a.n_axes = 1;
    a.axes[0] = 1;
    return hrf_onnx_put(c, HRF_OP_UNSQUEEZE, out, 1, &a, out);
}

/* Pairs of numbers as (first, second) to the order that they came in. */
static enum hrf_status put_rotated(struct hrf_onnx_conversion *c, bool interleaved,
                                   const int32_t parts[2], int32_t *out)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int64_t shape[4] = { 0, 0, 0, -1 };
    int32_t wide[2] = { parts[0], parts[1] }, pair[2];
    a.axis = -1;
    if (!interleaved)
        return hrf_onnx_put(c, HRF_OP_CONCAT, wide, 2, &a, out);
    struct hrf_attributes add = hrf_attributes_default();
    add.n_axes = 1;
    add.axes[0] = 4;
    for (int i = 0; i < 2; i++)
        HRF_TRY(hrf_onnx_put(c, HRF_OP_UNSQUEEZE, &wide[i], 1, &add, &wide[i]));
    HRF_TRY(hrf_onnx_put(c, HRF_OP_CONCAT, wide, 2, &a, &pair[0]));
    HRF_TRY(hrf_onnx_put_integers(c, shape, 4, &pair[1]));
    return hrf_onnx_put(c, HRF_OP_RESHAPE, pair, 2, &a, out);
}

enum hrf_status hrf_onnx_convert_rotary(struct hrf_onnx_conversion *c)
{
    struct hrf_attributes a = hrf_attributes_default();
    int64_t heads = 0, size = 0;
    bool interleaved = false;
    int32_t x = c->inputs[0], rotated, tables[2], parts[2], rest[2], result[2];
    HRF_TRY(hrf_onnx_get_int(c, "num_heads", &heads));
    HRF_TRY(hrf_onnx_get_int(c, "rotary_embedding_dim", &size));
    HRF_TRY(hrf_onnx_get_bool(c, "interleaved", &interleaved));
    if (size < 0 || heads < 0 || size % 2 != 0)
        return hrf_onnx_refuse(c, HRF_E_USER, "%lld heads and %lld numbers to rotate make no sense",
                               (long long)heads, (long long)size);
    if (heads > 0)
        HRF_TRY(split_heads(c, heads, &x));
    rotated = x;
    if (size > 0)
        HRF_TRY(put_part(c, x, 0, size, 1, &rotated));
    for (int i = 0; i < 2; i++) {
        HRF_TRY(read_table(c, 1 + i, &tables[i]));
        if (interleaved) {
            HRF_TRY(put_part(c, rotated, i, INT64_MAX, 2, &parts[i]));
            continue;
        }
        a.n_axes = 1;
        a.axes[0] = -1;
        a.slice.part = i;
        a.slice.n_parts = 2;
        HRF_TRY(hrf_onnx_put(c, HRF_OP_SLICE, &rotated, 1, &a, &parts[i]));
    }
    const int32_t first[4] = { parts[0], tables[0], parts[1], tables[1] };
    const int32_t second[4] = { parts[0], tables[1], parts[1], tables[0] };
    HRF_TRY(put_rotated_half(c, first, HRF_OP_SUB, &result[0]));
    HRF_TRY(put_rotated_half(c, second, HRF_OP_ADD, &result[1]));
    HRF_TRY(put_rotated(c, interleaved, result, &rest[0]));
    if (size > 0) {
        struct hrf_attributes last = hrf_attributes_default();
        last.axis = -1;
        HRF_TRY(put_part(c, x, size, INT64_MAX, 1, &rest[1]));
        HRF_TRY(hrf_onnx_put(c, HRF_OP_CONCAT, rest, 2, &last, &rest[0]));
    }
    if (heads > 0)
        return put_joined_heads(c, rest[0]);
    a = hrf_attributes_default();
    return hrf_onnx_put_output(c, 0, HRF_OP_IDENTITY, rest, 1, &a);
}
