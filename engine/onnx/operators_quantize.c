/* operators_quantize.c - operators that compute in 8-bit integers.
 *
 * QLinearConv and QLinearMatMul become DequantizeLinear, the operator in float32 and
 * QuantizeLinear: the form that lowering turns back into 8 bits with the model's own scales. What
 * is quantised by a scale that is computed for each input (DynamicQuantizeLinear, MatMulInteger,
 * ConvInteger) is computed in float32 with integer values: rounded as the standard says, summed in
 * float32.
 */
#include "engine/onnx/convert_private.h"

#include <float.h>
#include <onnx.pb-c.h>

/* A node without attributes. */
static enum hrf_status put_plain(struct hrf_onnx_conversion *c, enum hrf_op op,
                                 const int32_t *inputs, int32_t n_inputs, int32_t *out)
{
    const struct hrf_attributes a = hrf_attributes_default();
    return hrf_onnx_put(c, op, inputs, n_inputs, &a, out);
}

/* x, scale, zero point at inputs k, k + 1 and k + 2; `axis` is that of a list of scales. */
static enum hrf_status dequantize(struct hrf_onnx_conversion *c, int32_t k, int64_t axis,
                                  int32_t *out)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int32_t inputs[3] = { c->inputs[k], c->inputs[k + 1], c->inputs[k + 2] };
    a.axis = axis;
    return hrf_onnx_put(c, HRF_OP_DEQUANTIZE, inputs, inputs[2] >= 0 ? 3 : 2, &a, out);
}

static enum hrf_status quantize(struct hrf_onnx_conversion *c, int32_t value)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int32_t inputs[3] = { value, c->inputs[6], c->inputs[7] };
    a.axis = 1;
    return hrf_onnx_put_output(c, 0, HRF_OP_QUANTIZE, inputs, inputs[2] >= 0 ? 3 : 2, &a);
}

/* The bias of 32-bit integers has the scale of the products. */
static enum hrf_status real_bias(struct hrf_onnx_conversion *c, int32_t *out)
{
    const struct hrf_value *bias = hrf_onnx_input(c, 8), *x_scale = hrf_onnx_input(c, 1);
    const struct hrf_value *w_scale = hrf_onnx_input(c, 4);
    *out = HRF_NO_VALUE;
    if (bias == NULL)
        return HRF_OK;
    if (bias->data == NULL || x_scale->data == NULL || w_scale->data == NULL ||
        bias->dtype != HRF_S32 || x_scale->dtype != HRF_F32 || w_scale->dtype != HRF_F32 ||
        hrf_shape_count(&x_scale->shape) != 1)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "its bias and scales are not constants: export it with constant "
                               "scales (static quantisation)");
    const int64_t n = hrf_shape_count(&bias->shape), n_scales = hrf_shape_count(&w_scale->shape);
    if (n_scales != 1 && n_scales != n)
        return hrf_onnx_refuse(c, HRF_E_USER, "%lld scales of weights do not fit %lld biases",
                               (long long)n_scales, (long long)n);
    HRF_AUTO_FREE void *data = hrf_try_alloc_array((size_t)n, sizeof(float));
    if (data == NULL)
        return hrf_onnx_refuse(c, HRF_E_NOMEM, "out of memory");
    for (int64_t i = 0; i < n; i++)
        ((float *)data)[i] = (float)((double)((const int32_t *)bias->data)[i] *
                                     (double)*(const float *)x_scale->data *
                                     (double)((const float *)w_scale->data)[n_scales > 1 ? i : 0]);
    const struct hrf_shape shape = { .rank = 1, .dims = { n } };
    return hrf_onnx_put_constant(c, HRF_F32, &shape, &data, out);
}

enum hrf_status hrf_onnx_convert_qlinear_conv(struct hrf_onnx_conversion *c)
{
    int32_t inputs[3], y;
    HRF_TRY(hrf_onnx_read_attributes(c, HRF_OP_CONV));
    HRF_TRY(dequantize(c, 0, 1, &inputs[0]));
    HRF_TRY(dequantize(c, 3, 0, &inputs[1]));
    HRF_TRY(real_bias(c, &inputs[2]));
    HRF_TRY(hrf_onnx_put(c, HRF_OP_CONV, inputs, inputs[2] >= 0 ? 3 : 2, &c->a, &y));
    return quantize(c, y);
}

enum hrf_status hrf_onnx_convert_qlinear_matmul(struct hrf_onnx_conversion *c)
{
    int32_t inputs[2], y;
    HRF_TRY(dequantize(c, 0, -2, &inputs[0]));
    HRF_TRY(dequantize(c, 3, -1, &inputs[1]));
    HRF_TRY(put_plain(c, HRF_OP_MATMUL, inputs, 2, &y));
    return quantize(c, y);
}

/* Binary operators in a row, for what follows. */
static enum hrf_status put_pair(struct hrf_onnx_conversion *c, enum hrf_op op, int32_t a, int32_t b,
                                int32_t *out)
{
    const int32_t inputs[2] = { a, b };
    return put_plain(c, op, inputs, 2, out);
}

/* Rounded half to even to 0 .. 255. */
static enum hrf_status put_saturated(struct hrf_onnx_conversion *c, int32_t value, int32_t *out)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.activation_min = 0;
    a.activation_max = 255;
    return hrf_onnx_put(c, HRF_OP_CLIP, &value, 1, &a, out);
}

/* The largest (or smallest) number and 0. */
static enum hrf_status put_extreme(struct hrf_onnx_conversion *c, enum hrf_op reduce,
                                   enum hrf_op op, int32_t zero, int32_t *out)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.keep_dims = false;
    HRF_TRY(hrf_onnx_put(c, reduce, c->inputs, 1, &a, out));
    return put_pair(c, op, *out, zero, out);
}

/* y, its scale and its zero point. Source: ONNX DynamicQuantizeLinear. */
enum hrf_status hrf_onnx_convert_dynamic_quantize(struct hrf_onnx_conversion *c)
{
    int32_t zero, steps, tiny, high, low, span, scale, point, minus, y;
    const int32_t *result[3] = { &y, &scale, &point };
    const struct hrf_attributes a = hrf_attributes_default();
    HRF_TRY(hrf_onnx_put_float(c, 0, &zero));
    HRF_TRY(hrf_onnx_put_float(c, 255, &steps));
    HRF_TRY(hrf_onnx_put_float(c, FLT_MIN, &tiny)); /* of nothing but zeros */
    HRF_TRY(put_extreme(c, HRF_OP_REDUCE_MAX, HRF_OP_MAX, zero, &high));
    HRF_TRY(put_extreme(c, HRF_OP_REDUCE_MIN, HRF_OP_MIN, zero, &low));
    HRF_TRY(put_pair(c, HRF_OP_SUB, high, low, &span));
    HRF_TRY(put_pair(c, HRF_OP_DIV, span, steps, &scale));
    HRF_TRY(put_pair(c, HRF_OP_MAX, scale, tiny, &scale));
    HRF_TRY(put_pair(c, HRF_OP_SUB, zero, low, &minus));
    HRF_TRY(put_pair(c, HRF_OP_DIV, minus, scale, &point));
    HRF_TRY(put_plain(c, HRF_OP_ROUND, &point, 1, &point));
    HRF_TRY(put_saturated(c, point, &point));
    HRF_TRY(put_pair(c, HRF_OP_DIV, c->inputs[0], scale, &y));
    HRF_TRY(put_plain(c, HRF_OP_ROUND, &y, 1, &y));
    HRF_TRY(put_pair(c, HRF_OP_ADD, y, point, &y));
    HRF_TRY(put_saturated(c, y, &y));
    for (size_t k = 0; k < 3; k++)
        if (hrf_onnx_has_output(c, k))
            HRF_TRY(hrf_onnx_put_output(c, k, HRF_OP_IDENTITY, result[k], 1, &a));
    return HRF_OK;
}

/* Input k as float32, less its zero point at input `zero`. A list of zero points belongs to axis
 * `axis` of `rank` axes. */
static enum hrf_status put_centred(struct hrf_onnx_conversion *c, int32_t k, int32_t zero,
                                   int32_t axis, int32_t rank, int32_t *out)
{
    struct hrf_attributes cast = hrf_attributes_default(), add_axes = hrf_attributes_default();
    int32_t point;
    cast.to = HRF_F32;
    HRF_TRY(hrf_onnx_put(c, HRF_OP_CAST, &c->inputs[k], 1, &cast, out));
    if (!hrf_onnx_has_input(c, zero))
        return HRF_OK;
    HRF_TRY(hrf_onnx_put(c, HRF_OP_CAST, &c->inputs[zero], 1, &cast, &point));
    const struct hrf_value *list = hrf_onnx_input(c, zero);
    if (list->shape.rank == 1 && list->shape.dims[0] > 1) {
        for (int32_t i = axis + 1; i < rank; i++)
            add_axes.axes[add_axes.n_axes++] = i - axis;
        if (add_axes.n_axes > 0)
            HRF_TRY(hrf_onnx_put(c, HRF_OP_UNSQUEEZE, &point, 1, &add_axes, &point));
    }
    return put_pair(c, HRF_OP_SUB, *out, point, out);
}

enum hrf_status hrf_onnx_convert_matmul_integer(struct hrf_onnx_conversion *c)
{
    const struct hrf_attributes a = hrf_attributes_default();
    int32_t inputs[2];
    HRF_TRY(put_centred(c, 0, 2, 0, 2, &inputs[0]));
    HRF_TRY(put_centred(c, 1, 3, 1, 2, &inputs[1]));
    return hrf_onnx_put_output(c, 0, HRF_OP_MATMUL, inputs, 2, &a);
}

enum hrf_status hrf_onnx_convert_conv_integer(struct hrf_onnx_conversion *c)
{
    int32_t inputs[2];
    HRF_TRY(hrf_onnx_read_attributes(c, HRF_OP_CONV));
    HRF_TRY(put_centred(c, 0, 2, 0, 1, &inputs[0]));
    HRF_TRY(put_centred(c, 1, 3, 0, 4, &inputs[1]));
    return hrf_onnx_put_output(c, 0, HRF_OP_CONV, inputs, 2, &c->a);
}
