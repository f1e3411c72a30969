/* Converters of the operators that move elements or speak of shapes and types, without arithmetic.
 */
#include "engine/onnx/convert_private.h"

#include <onnx.pb-c.h>

enum hrf_status hrf_onnx_convert_concat(struct hrf_onnx_conversion *c)
{
    if (hrf_onnx_attribute(c, "axis") == NULL)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'axis' is missing");
    return hrf_onnx_get_int(c, "axis", &c->a.axis);
}

enum hrf_status hrf_onnx_convert_flatten(struct hrf_onnx_conversion *c)
{
    c->a.axis = 1;
    return hrf_onnx_get_int(c, "axis", &c->a.axis);
}

enum hrf_status hrf_onnx_convert_gather(struct hrf_onnx_conversion *c)
{
    HRF_TRY(hrf_onnx_get_int(c, "axis", &c->a.axis));
    hrf_onnx_choose_rows(c);
    return HRF_OK;
}

enum hrf_status hrf_onnx_convert_reshape(struct hrf_onnx_conversion *c)
{
    return hrf_onnx_get_bool(c, "allowzero", &c->a.allow_zero);
}

enum hrf_status hrf_onnx_convert_transpose(struct hrf_onnx_conversion *c)
{
    HRF_TRY(hrf_onnx_get_ints(c, "perm", c->a.axes, HRF_MAX_RANK, &c->a.n_axes));
    c->a.n_axes = c->a.n_axes < 0 ? 0 : c->a.n_axes;
    return HRF_OK;
}

enum hrf_status hrf_onnx_convert_axes(struct hrf_onnx_conversion *c)
{
    HRF_TRY(hrf_onnx_get_ints(c, "axes", c->a.axes, HRF_MAX_RANK, &c->a.n_axes));
    c->a.n_axes = c->a.n_axes < 0 ? 0 : c->a.n_axes;
    return HRF_OK;
}

enum hrf_status hrf_onnx_convert_pad(struct hrf_onnx_conversion *c)
{
    static const char *const modes[] = { "constant", "edge", "reflect", "wrap", NULL };
    int mode = HRF_PAD_CONSTANT;
    HRF_TRY(hrf_onnx_get_word(c, "mode", modes, &mode));
    c->a.pad_mode = (enum hrf_pad_mode)mode;
    if (c->reader->opset >= 11)
        return HRF_OK;
    int32_t n;
    HRF_TRY(hrf_onnx_get_float(c, "value", &c->a.value));
    HRF_TRY(hrf_onnx_get_ints(c, "pads", c->a.pads, 2 * HRF_MAX_RANK, &n));
    if (n < 0 || n % 2 != 0)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'pads' is missing or of odd length");
    c->a.n_axes = n / 2;
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

enum hrf_status hrf_onnx_convert_shape(struct hrf_onnx_conversion *c)
{
    const int64_t open = INT64_MAX;
    c->a.ends[0] = open;
    HRF_TRY(hrf_onnx_get_int(c, "start", &c->a.starts[0]));
    HRF_TRY(hrf_onnx_get_int(c, "end", &c->a.ends[0]));
    if (c->a.starts[0] != 0 || c->a.ends[0] != open)
        c->a.n_axes = 1;
    return HRF_OK;
}

enum hrf_status hrf_onnx_convert_cast(struct hrf_onnx_conversion *c)
{
    int64_t to = 0;
    HRF_TRY(hrf_onnx_get_int(c, "to", &to));
    if (to < 0 || to > INT32_MAX)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'to' is %lld", (long long)to);
    HRF_TRY(
        hrf_onnx_dtype((int32_t)to, hrf_onnx_text(c->proto->output[0]), &c->a.to, c->reader->err));
    c->a.to = hrf_onnx_graph_dtype(c->a.to);
    return HRF_OK;
}

enum hrf_status hrf_onnx_convert_constant_of_shape(struct hrf_onnx_conversion *c)
{
    const Onnx__AttributeProto *value = hrf_onnx_attribute(c, "value");
    c->a.to = HRF_F32;
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
        c->a.value = *(const float *)data;
    else if (c->a.to == HRF_BOOL || c->a.to == HRF_U8)
        c->a.fill = *(const uint8_t *)data;
    else if (c->a.to == HRF_S8)
        c->a.fill = *(const int8_t *)data;
    else if (c->a.to == HRF_S64)
        c->a.fill = *(const int64_t *)data;
    else if (c->a.to == HRF_S32)
        c->a.fill = *(const int32_t *)data;
    return HRF_OK;
}

enum hrf_status hrf_onnx_convert_trilu(struct hrf_onnx_conversion *c)
{
    c->a.upper = true;
    return hrf_onnx_get_bool(c, "upper", &c->a.upper);
}

enum hrf_status hrf_onnx_convert_cum_sum(struct hrf_onnx_conversion *c)
{
    HRF_TRY(hrf_onnx_get_bool(c, "exclusive", &c->a.exclusive));
    return hrf_onnx_get_bool(c, "reverse", &c->a.reverse);
}

enum hrf_status hrf_onnx_convert_eye_like(struct hrf_onnx_conversion *c)
{
    int64_t type = 0;
    HRF_TRY(hrf_onnx_get_int(c, "k", &c->a.fill));
    HRF_TRY(hrf_onnx_get_int(c, "dtype", &type));
    if (type == 0)
        return HRF_OK;
    if (type < 0 || type > INT32_MAX)
        return hrf_onnx_refuse(c, HRF_E_USER, "attribute 'dtype' is %lld", (long long)type);
    HRF_TRY(hrf_onnx_dtype((int32_t)type, hrf_onnx_text(c->proto->output[0]), &c->a.to,
                           c->reader->err));
    c->a.to = hrf_onnx_graph_dtype(c->a.to);
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
