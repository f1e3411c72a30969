/* evaluate.c - shape arithmetic: computes small integer tensors with known inputs during inference.
 *
 * Everything is done in int64_t on copies; the results are stored in the output's type. Wraps
 * around on overflow, as the ONNX operators do, without undefined behaviour.
 */
#include "engine/ir/infer_shapes_private.h"

#include "engine/ir/op.h"

#include <string.h>

/* A larger tensor is not shape arithmetic and is not evaluated. */
enum { MAX_ELEMENTS = 1 << 16 };

static bool is_integer(enum hrf_dtype dtype)
{
    return dtype == HRF_S64 || dtype == HRF_S32 || dtype == HRF_BOOL;
}

static int64_t get(const struct hrf_value *value, int64_t i)
{
    switch (value->dtype) {
    case HRF_S64:
        return ((const int64_t *)value->data)[i];
    case HRF_S32:
        return ((const int32_t *)value->data)[i];
    default:
        return ((const uint8_t *)value->data)[i] != 0;
    }
}

static void store(enum hrf_dtype dtype, void *data, int64_t i, int64_t x)
{
    if (dtype == HRF_S64)
        ((int64_t *)data)[i] = x;
    else if (dtype == HRF_S32)
        ((int32_t *)data)[i] = (int32_t)(uint32_t)(uint64_t)x;
    else
        ((uint8_t *)data)[i] = x != 0;
}

/* The element of `value` that is broadcast to element `i` of `shape`. */
static int64_t get_broadcast(const struct hrf_value *value, const struct hrf_shape *shape,
                             int64_t i)
{
    int64_t at = 0, pitch = 1;
    for (int32_t axis = 1; axis <= shape->rank; axis++) {
        int64_t dim = shape->dims[shape->rank - axis];
        if (axis <= value->shape.rank) {
            int64_t own = value->shape.dims[value->shape.rank - axis];
            at += (own == 1 ? 0 : i % dim) * pitch;
            pitch *= own;
        }
        i /= dim;
    }
    return get(value, at);
}

static enum hrf_status arithmetic(struct hrf_inference *in, int64_t *out, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t a = (uint64_t)get_broadcast(hrf_infer_input(in, 0), &in->shape, i);
        uint64_t b = (uint64_t)get_broadcast(hrf_infer_input(in, 1), &in->shape, i);
        switch (in->node->op) {
        case HRF_OP_ADD:
            out[i] = (int64_t)(a + b);
            break;
        case HRF_OP_SUB:
            out[i] = (int64_t)(a - b);
            break;
        case HRF_OP_MUL:
            out[i] = (int64_t)(a * b);
            break;
        default:
            if (b == 0)
                return hrf_infer_fail(in, "division by zero");
            out[i] = b == UINT64_MAX ? (int64_t)(0 - a) : (int64_t)a / (int64_t)b;
        }
    }
    return HRF_OK;
}

static void concat(const struct hrf_inference *in, int64_t *out)
{
    int64_t axis = in->node->attributes.axis, inner = 1, outer = 1, at = 0;
    for (int32_t i = 0; i < in->shape.rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : in->shape.dims[i];
    for (int64_t o = 0; o < outer; o++)
        for (int32_t k = 0; k < in->node->n_inputs; k++) {
            const struct hrf_value *value = hrf_infer_input(in, k);
            int64_t run = value->shape.dims[axis] * inner;
            for (int64_t i = 0; i < run; i++)
                out[at++] = get(value, o * run + i);
        }
}

static void gather(const struct hrf_inference *in, int64_t *out)
{
    const struct hrf_value *x = hrf_infer_input(in, 0), *indices = hrf_infer_input(in, 1);
    int64_t axis = in->node->attributes.axis, inner = 1, outer = 1, at = 0;
    for (int32_t i = 0; i < x->shape.rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : x->shape.dims[i];
    int64_t dim = x->shape.dims[axis], n = hrf_shape_count(&indices->shape);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < n; k++) {
            int64_t index = get(indices, k);
            index += index < 0 ? dim : 0;
            for (int64_t i = 0; i < inner; i++)
                out[at++] = get(x, (o * dim + index) * inner + i);
        }
}

/* Position along each axis of element `i` of `shape`. */
static void unravel(const struct hrf_shape *shape, int64_t i, int64_t position[HRF_MAX_RANK])
{
    for (int32_t axis = shape->rank - 1; axis >= 0; axis--) {
        position[axis] = i % shape->dims[axis];
        i /= shape->dims[axis];
    }
}

static int64_t ravel(const struct hrf_shape *shape, const int64_t position[HRF_MAX_RANK])
{
    int64_t at = 0;
    for (int32_t axis = 0; axis < shape->rank; axis++)
        at = at * shape->dims[axis] + position[axis];
    return at;
}

static void slice_or_transpose(const struct hrf_inference *in, int64_t *out, int64_t count)
{
    const struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_value *x = hrf_infer_input(in, 0);
    for (int64_t i = 0; i < count; i++) {
        int64_t to[HRF_MAX_RANK] = { 0 }, from[HRF_MAX_RANK] = { 0 };
        unravel(&in->shape, i, to);
        memcpy(from, to, sizeof from);
        for (int32_t k = 0; k < a->n_axes; k++) {
            if (in->node->op == HRF_OP_TRANSPOSE)
                from[a->axes[k]] = to[k];
            else
                from[a->axes[k]] = a->starts[k] + to[a->axes[k]] * a->steps[k];
        }
        out[i] = get(x, ravel(&x->shape, from));
    }
}

static enum hrf_status compute(struct hrf_inference *in, int64_t *out, int64_t count)
{
    switch (in->node->op) {
    case HRF_OP_ADD:
    case HRF_OP_SUB:
    case HRF_OP_MUL:
    case HRF_OP_DIV:
        return arithmetic(in, out, count);
    case HRF_OP_CONCAT:
        concat(in, out);
        return HRF_OK;
    case HRF_OP_GATHER:
        gather(in, out);
        return HRF_OK;
    case HRF_OP_SLICE:
    case HRF_OP_TRANSPOSE:
        slice_or_transpose(in, out, count);
        return HRF_OK;
    case HRF_OP_CONSTANT_OF_SHAPE:
        for (int64_t i = 0; i < count; i++)
            out[i] = in->node->attributes.fill;
        return HRF_OK;
    case HRF_OP_SHAPE: {
        const struct hrf_attributes *a = &in->node->attributes;
        const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
        int64_t begin = a->n_axes == 1 ? a->starts[0] : 0;
        begin = begin < 0 ? begin + x->rank : begin;
        begin = begin < 0 ? 0 : begin;
        for (int64_t i = 0; i < count; i++)
            out[i] = x->dims[begin + i];
        return HRF_OK;
    }
    default: /* the others keep the elements and their order */
        for (int64_t i = 0; i < count; i++)
            out[i] = get(hrf_infer_input(in, 0), i);
        return HRF_OK;
    }
}

bool hrf_infer_can_evaluate(const struct hrf_inference *in)
{
    const int64_t count = hrf_shape_count(&in->shape);
    if (in->node->op == HRF_OP_QUANTIZE || in->node->op == HRF_OP_DEQUANTIZE)
        return hrf_infer_input(in, HRF_QUANTIZE_X)->data != NULL;
    if (!is_integer(in->dtype) || count < 0 || count > MAX_ELEMENTS)
        return false;
    switch (in->node->op) {
    case HRF_OP_SHAPE:
        return true;
    case HRF_OP_ADD:
    case HRF_OP_SUB:
    case HRF_OP_MUL:
    case HRF_OP_DIV:
    case HRF_OP_CONCAT:
    case HRF_OP_GATHER:
    case HRF_OP_SLICE:
    case HRF_OP_TRANSPOSE:
    case HRF_OP_CONSTANT_OF_SHAPE:
    case HRF_OP_CAST:
    case HRF_OP_IDENTITY:
    case HRF_OP_RESHAPE:
    case HRF_OP_FLATTEN:
    case HRF_OP_SQUEEZE:
    case HRF_OP_UNSQUEEZE:
        break;
    default:
        return false;
    }
    for (int32_t k = 0; k < in->node->n_inputs; k++) {
        const struct hrf_value *value = hrf_infer_input(in, k);
        if (value != NULL && (value->data == NULL || !is_integer(value->dtype)))
            return false;
    }
    return true;
}

enum hrf_status hrf_infer_evaluate(struct hrf_inference *in)
{
    const int64_t count = hrf_shape_count(&in->shape);
    if (!hrf_infer_can_evaluate(in))
        return HRF_OK;
    if (in->node->op == HRF_OP_QUANTIZE || in->node->op == HRF_OP_DEQUANTIZE)
        return hrf_infer_convert_constant(in);
    HRF_AUTO_FREE int64_t *wide = hrf_alloc_array((size_t)count, sizeof *wide);
    HRF_AUTO_FREE void *data = hrf_alloc_array((size_t)count, hrf_dtype_size(in->dtype));
    if (wide == NULL || data == NULL)
        return hrf_error_set(in->err, HRF_E_NOMEM, "out of memory for node '%s'", in->node->name);
    HRF_TRY(compute(in, wide, count));
    for (int64_t i = 0; i < count; i++)
        store(in->dtype, data, i, wide[i]);
    in->graph->values[in->node->outputs[0]].data = data;
    data = NULL;
    return HRF_OK;
}
