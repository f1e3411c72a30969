/* Converters of the operators that move elements or speak of shapes and types, without arithmetic.
 */
#include "engine/onnx/convert_private.h"

#include <onnx.pb-c.h>

enum hrf_status hrf_onnx_convert_gather(struct hrf_onnx_conversion *c)
{
    hrf_onnx_choose_rows(c);
    return HRF_OK;
}

enum hrf_status hrf_onnx_convert_pad(struct hrf_onnx_conversion *c)
{
    if (c->reader->opset >= 11)
        return HRF_OK;
    if (c->a.n_axes == 0)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'pads' is missing");
    for (int32_t i = 0; i < c->a.n_axes; i++)
        c->a.axes[i] = i;
    return HRF_OK;
}

enum hrf_status hrf_onnx_convert_slice(struct hrf_onnx_conversion *c)
{
    if (c->reader->opset >= 10)
        return HRF_OK;
    int64_t starts[HRF_MAX_RANK], ends[HRF_MAX_RANK], axes[HRF_MAX_RANK];
    int32_t n, n_ends, n_axes;
    HRF_TRY(hrf_onnx_get_ints(c, "starts", starts, HRF_MAX_RANK, &n));
    HRF_TRY(hrf_onnx_get_ints(c, "ends", ends, HRF_MAX_RANK, &n_ends));
    HRF_TRY(hrf_onnx_get_ints(c, "axes", axes, HRF_MAX_RANK, &n_axes));
    if (n < 0 || n_ends != n || (n_axes >= 0 && n_axes != n))
        return hrf_onnx_refuse(c, HRF_E_USER, "starts, ends and axes do not have the same length");
    HRF_TRY(hrf_onnx_add_integers(c, "starts", starts, n));
    HRF_TRY(hrf_onnx_add_integers(c, "ends", ends, n));
    return n_axes < 0 ? HRF_OK : hrf_onnx_add_integers(c, "axes", axes, n);
}

enum hrf_status hrf_onnx_convert_constant_of_shape(struct hrf_onnx_conversion *c)
{
    const Onnx__AttributeProto *value = hrf_onnx_attribute(c, "value");
    if (value == NULL)
        return HRF_OK;
    if (value->t == NULL)
        return hrf_onnx_wrong_type(c, "value", "a tensor");
    HRF_AUTO_FREE void *data = NULL;
    struct hrf_shape shape;
    HRF_TRY(hrf_onnx_constant(c->reader, value->t, "value", &c->a.to, &shape, &data));
    if (hrf_shape_count(&shape) != 1)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'value' does not hold one element");
    if (c->a.to == HRF_F32)
        c->a.fill.real = *(const float *)data;
    else if (c->a.to == HRF_BOOL || c->a.to == HRF_U8)
        c->a.fill.integer = *(const uint8_t *)data;
    else if (c->a.to == HRF_S8)
        c->a.fill.integer = *(const int8_t *)data;
    else if (c->a.to == HRF_S64)
        c->a.fill.integer = *(const int64_t *)data;
    else if (c->a.to == HRF_S32)
        c->a.fill.integer = *(const int32_t *)data;
    return HRF_OK;
}

enum hrf_status hrf_onnx_convert_gather_nd(struct hrf_onnx_conversion *c)
{
    int64_t batch = 0;
    HRF_TRY(hrf_onnx_get_int(c, "batch_dims", &batch));
    if (batch != 0)
        return hrf_onnx_refuse(c, HRF_E_UNSUPPORTED,
                               "batch_dims %lld is not supported: write it as gather or as a "
                               "product in the model, and export again",
                               (long long)batch);
    /* Lists of one index each: rows, as Gather takes them, which may be computed at run time. */
    const struct hrf_value *indices = hrf_onnx_input(c, 1);
    if (indices->data == NULL || indices->shape.rank < 1 ||
        indices->shape.dims[indices->shape.rank - 1] != 1)
        return HRF_OK;
    struct hrf_attributes last = hrf_attributes_default();
    last.n_axes = 1;
    last.axes[0] = -1;
    c->op = HRF_OP_GATHER;
    c->a.axis = 0;
    return hrf_onnx_put(c, HRF_OP_SQUEEZE, &c->inputs[1], 1, &last, &c->inputs[1]);
}

enum hrf_status hrf_onnx_convert_scatter_nd(struct hrf_onnx_conversion *c)
{
    static const char *const forms[] = { "none", NULL };
    int form = 0;
    return hrf_onnx_get_word(c, "reduction", forms, &form);
}

/* The type of another value, which must be a constant or an input: types of computed ones are not
 * known yet, but they are float32. */
enum hrf_status hrf_onnx_convert_cast_like(struct hrf_onnx_conversion *c)
{
    const struct hrf_value *like = hrf_onnx_input(c, 1);
    c->a.to = like != NULL && like->dtype != HRF_DTYPE_NONE ? like->dtype : HRF_F32;
    c->n_inputs = 1;
    return HRF_OK;
}
