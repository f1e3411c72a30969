/* infer_shapes_quantize.c - shape inference for QUANTIZE and DEQUANTIZE nodes of a model. If their
 * input is a constant, the result is computed here, whatever its size, unless 8-bit products can
 * read the constant as it is (integer_weights.h). Source:
 * ONNX QuantizeLinear and DequantizeLinear, opsets 10 to 19. */
#include "engine/ir/infer_shapes_private.h"

#include "engine/ir/integer_weights.h"
#include "engine/ir/number.h"

#include <math.h>
#include <string.h>

static enum hrf_status check_known(struct hrf_inference *in, const struct hrf_value *value,
                                   const char *what)
{
    if (value == NULL || value->data != NULL)
        return HRF_OK;
    return hrf_infer_refuse(in, "its %s, %s must be a constant of the model", what,
                            hrf_infer_call(in, value).text);
}

/* A scale is one number, or one for each index along the axis. */
static enum hrf_status check_scale(struct hrf_inference *in, const struct hrf_value *scale,
                                   const struct hrf_value *zero)
{
    const struct hrf_shape *x = &hrf_infer_input(in, HRF_QUANTIZE_X)->shape;
    const int64_t n = hrf_shape_count(&scale->shape);
    if (scale->dtype != HRF_F32)
        return hrf_infer_refuse(in, "its scale is %s; float32 is supported",
                                hrf_dtype_name(scale->dtype));
    if (scale->shape.rank > 1)
        return hrf_infer_refuse(in,
                                "its scale has rank %d: one scale, or one for each place along "
                                "an axis, is supported, blocks are not",
                                (int)scale->shape.rank);
    int64_t *axis = &in->node->attributes.axis;
    if (n != 1) {
        HRF_TRY(hrf_infer_axis(in, axis, x->rank));
        if (n != x->dims[*axis])
            return hrf_infer_fail(in, "%lld scales for %lld places along axis %lld", (long long)n,
                                  (long long)x->dims[*axis], (long long)*axis);
    }
    if (zero != NULL && hrf_shape_count(&zero->shape) != n)
        return hrf_infer_fail(in, "%lld zero points for %lld scales",
                              (long long)hrf_shape_count(&zero->shape), (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const float s = ((const float *)scale->data)[i];
        if (!isfinite(s) || s <= 0)
            return hrf_infer_fail(in, "its scale %lld is %g: it must be above 0", (long long)i,
                                  (double)s);
    }
    return HRF_OK;
}

static enum hrf_status check_inputs(struct hrf_inference *in)
{
    const struct hrf_value *scale = hrf_infer_input(in, HRF_QUANTIZE_SCALE);
    const struct hrf_value *zero = hrf_infer_input(in, HRF_QUANTIZE_ZERO_POINT);
    if (scale == NULL)
        return hrf_infer_fail(in, "has no scale");
    HRF_TRY(check_known(in, scale, "scale"));
    HRF_TRY(check_known(in, zero, "zero point"));
    if (zero != NULL && zero->dtype != HRF_S8 && zero->dtype != HRF_U8 && zero->dtype != HRF_S32)
        return hrf_infer_refuse(in, "its zero point is %s; int8 and uint8 are supported",
                                hrf_dtype_name(zero->dtype));
    return check_scale(in, scale, zero);
}

static void narrow(const struct hrf_graph *graph, const struct hrf_node *node,
                   const struct hrf_shape *shape, const float *x, void *out)
{
    const enum hrf_dtype type = graph->values[node->outputs[0]].dtype;
    for (int64_t i = 0; i < hrf_shape_count(shape); i++) {
        const struct hrf_quantization q = hrf_quantization_at(graph, node, shape, i);
        ((uint8_t *)out)[i] = (uint8_t)(hrf_quantize(x[i], type, &q) & 0xff);
    }
}

void hrf_graph_output_from_float(const struct hrf_graph *graph, int32_t output,
                                 const struct hrf_shape *shape, const float *x, void *out)
{
    const struct hrf_value *value = &graph->values[graph->outputs[output]];
    if (value->dtype == HRF_F32)
        memcpy(out, x, (size_t)hrf_shape_count(shape) * sizeof *x);
    else
        narrow(graph, &graph->nodes[value->producer], shape, x, out);
}

static struct hrf_value *output_of(struct hrf_inference *in)
{
    return &in->graph->values[in->node->outputs[0]];
}

enum hrf_status hrf_infer_convert_constant(struct hrf_inference *in)
{
    const struct hrf_value *x = hrf_infer_input(in, HRF_QUANTIZE_X);
    const bool is_quantize = in->node->op == HRF_OP_QUANTIZE;
    HRF_AUTO_FREE void *data = is_quantize ? hrf_try_alloc_array((size_t)hrf_shape_count(&x->shape),
                                                                 hrf_dtype_size(in->dtype))
                                           : hrf_dequantize_constant(in->graph, in->node);
    HRF_CHECK_MEMORY(data != NULL, in->err, "out of memory for node '%s'", in->node->name);
    if (is_quantize)
        narrow(in->graph, in->node, &x->shape, x->data, data);
    output_of(in)->data = data;
    data = NULL;
    return HRF_OK;
}

enum hrf_status hrf_infer_quantize(struct hrf_inference *in)
{
    const struct hrf_value *x = hrf_infer_input(in, HRF_QUANTIZE_X);
    const struct hrf_value *zero = hrf_infer_input(in, HRF_QUANTIZE_ZERO_POINT);
    HRF_TRY(check_inputs(in));
    if (x->dtype != HRF_F32)
        return hrf_infer_refuse(in, "its input is %s; float32 is supported",
                                hrf_dtype_name(x->dtype));
    in->shape = x->shape;
    in->dtype = zero != NULL                                ? zero->dtype
                : in->node->attributes.to != HRF_DTYPE_NONE ? in->node->attributes.to
                                                            : HRF_U8;
    if (in->dtype != HRF_S8 && in->dtype != HRF_U8)
        return hrf_infer_refuse(in, "it gives %s; int8 and uint8 are supported",
                                hrf_dtype_name(in->dtype));
    const bool is_one = hrf_shape_count(&hrf_infer_input(in, HRF_QUANTIZE_SCALE)->shape) == 1;
    output_of(in)->quantization = is_one ? hrf_quantization_at(in->graph, in->node, &x->shape, 0)
                                         : (struct hrf_quantization){ .scale = 0 };
    return HRF_OK;
}

/* Dequantising with another scale than the value was quantised with is legal, but surely a mistake
 * of the model. */
static enum hrf_status check_pair(struct hrf_inference *in, const struct hrf_value *x)
{
    const struct hrf_quantization own = hrf_quantization_at(in->graph, in->node, &x->shape, 0);
    const int64_t n = hrf_shape_count(&hrf_infer_input(in, HRF_QUANTIZE_SCALE)->shape);
    if (x->producer < 0 || in->graph->nodes[x->producer].op != HRF_OP_QUANTIZE)
        return hrf_infer_refuse(in,
                                "%s does not come from a QuantizeLinear: 8-bit values live only "
                                "between the two",
                                hrf_infer_call(in, x).text);
    if (n > 1)
        return hrf_infer_refuse(in, "it gives a computed value %lld scales; one is supported",
                                (long long)n);
    if (x->quantization.scale != own.scale || x->quantization.zero_point != own.zero_point)
        return hrf_infer_refuse(
            in,
            "it reads its input with scale %g and zero point %d; it was written "
            "with %g and %d",
            (double)own.scale, (int)own.zero_point, (double)x->quantization.scale,
            (int)x->quantization.zero_point);
    return HRF_OK;
}

enum hrf_status hrf_infer_dequantize(struct hrf_inference *in)
{
    const struct hrf_value *x = hrf_infer_input(in, HRF_QUANTIZE_X);
    const struct hrf_value *zero = hrf_infer_input(in, HRF_QUANTIZE_ZERO_POINT);
    HRF_TRY(check_inputs(in));
    if (x->dtype != HRF_S8 && x->dtype != HRF_U8 && x->dtype != HRF_S32)
        return hrf_infer_refuse(in, "its input is %s; int8, uint8 and int32 are supported",
                                hrf_dtype_name(x->dtype));
    if (zero != NULL && zero->dtype != x->dtype)
        return hrf_infer_fail(in, "its zero point is %s, its input %s", hrf_dtype_name(zero->dtype),
                              hrf_dtype_name(x->dtype));
    in->shape = x->shape;
    in->dtype = HRF_F32;
    return x->data != NULL ? HRF_OK : check_pair(in, x);
}
