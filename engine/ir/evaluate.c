/* evaluate.c - computes what is known when a model is loaded: arithmetic on shapes, and what
 * exporters leave to be computed from constants. Moves are in evaluate_move.c, functions of numbers
 * in evaluate_number.c. */
#include "engine/ir/evaluate_private.h"

#include "engine/ir/op.h"

#include <math.h>

bool hrf_evaluate_is_integer(enum hrf_dtype dtype)
{
    return dtype == HRF_S64 || dtype == HRF_S32 || dtype == HRF_S8 || dtype == HRF_U8 ||
           dtype == HRF_BOOL;
}

int64_t hrf_evaluate_integer(const struct hrf_value *value, int64_t i)
{
    switch (value->dtype) {
    case HRF_S64:
        return ((const int64_t *)value->data)[i];
    case HRF_S32:
        return ((const int32_t *)value->data)[i];
    case HRF_S8:
        return ((const int8_t *)value->data)[i];
    case HRF_U8:
        return ((const uint8_t *)value->data)[i];
    default:
        return ((const uint8_t *)value->data)[i] != 0;
    }
}

double hrf_infer_number(const struct hrf_value *value, int64_t i)
{
    if (value->dtype == HRF_F32)
        return (double)((const float *)value->data)[i];
    if (value->dtype == HRF_F64)
        return ((const double *)value->data)[i];
    return (double)hrf_evaluate_integer(value, i);
}

void hrf_evaluate_put_integer(enum hrf_dtype dtype, void *data, int64_t i, int64_t x)
{
    switch (dtype) {
    case HRF_S64:
        ((int64_t *)data)[i] = x;
        break;
    case HRF_S32:
        ((int32_t *)data)[i] = (int32_t)(uint32_t)(uint64_t)x;
        break;
    case HRF_S8:
    case HRF_U8:
        ((uint8_t *)data)[i] = (uint8_t)(uint64_t)x;
        break;
    case HRF_BOOL:
        ((uint8_t *)data)[i] = x != 0;
        break;
    default:
        hrf_evaluate_put_real(dtype, data, i, (double)x);
        break;
    }
}

/* Converts to an integer, rounding towards zero. Values out of range saturate; a NaN becomes 0. */
static int64_t truncate(double x)
{
    if (isnan(x))
        return 0;
    return x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
}

void hrf_evaluate_put_real(enum hrf_dtype dtype, void *data, int64_t i, double x)
{
    if (dtype == HRF_F32)
        ((float *)data)[i] = (float)x;
    else if (dtype == HRF_F64)
        ((double *)data)[i] = x;
    else
        hrf_evaluate_put_integer(dtype, data, i, dtype == HRF_BOOL ? x != 0 : truncate(x));
}

void hrf_evaluate_unravel(const struct hrf_shape *shape, int64_t i, int64_t position[HRF_MAX_RANK])
{
    for (int32_t axis = shape->rank - 1; axis >= 0; axis--) {
        position[axis] = i % shape->dims[axis];
        i /= shape->dims[axis];
    }
}

int64_t hrf_evaluate_ravel(const struct hrf_shape *shape, const int64_t position[HRF_MAX_RANK])
{
    int64_t at = 0;
    for (int32_t axis = 0; axis < shape->rank; axis++)
        at = at * shape->dims[axis] + position[axis];
    return at;
}

int64_t hrf_evaluate_broadcast(const struct hrf_shape *shape, const struct hrf_shape *to, int64_t i)
{
    int64_t at = 0, stride = 1;
    for (int32_t axis = 1; axis <= shape->rank; axis++) {
        const int64_t dim = to->dims[to->rank - axis], own = shape->dims[shape->rank - axis];
        at += (own == 1 ? 0 : i % dim) * stride;
        stride *= own;
        i /= dim;
    }
    return at;
}

static bool is_float_or_integer(enum hrf_dtype dtype)
{
    return dtype == HRF_F32 || dtype == HRF_F64 || hrf_evaluate_is_integer(dtype);
}

/* Operators whose result does not depend on the elements of their input. */
static bool needs_shape_only(enum hrf_op op)
{
    return op == HRF_OP_SHAPE || op == HRF_OP_SIZE || op == HRF_OP_EYE_LIKE;
}

bool hrf_infer_can_evaluate(const struct hrf_inference *in)
{
    const int64_t count = hrf_shape_count(&in->shape);
    const enum hrf_op op = in->node->op;
    if (op == HRF_OP_QUANTIZE || op == HRF_OP_DEQUANTIZE)
        return hrf_infer_input(in, HRF_QUANTIZE_X)->data != NULL && !in->is_integer_weights;
    const bool is_move = hrf_evaluate_move_rule(op) != NULL;
    if (count < 0 || (!is_move && hrf_evaluate_number_rule(op) == NULL) ||
        !is_float_or_integer(in->dtype))
        return false;
    /* Weights may be moved whatever their size; hrf_graph_infer_shapes() bounds the work. */
    if (in->dtype != HRF_F32 && !is_move && count > HRF_INFER_MAX_KNOWN)
        return false;
    for (int32_t k = 0; k < in->node->n_inputs && !needs_shape_only(op); k++) {
        const struct hrf_value *value = hrf_infer_input(in, k);
        if (value != NULL && (value->data == NULL || !is_float_or_integer(value->dtype)))
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
    HRF_AUTO_FREE void *data = hrf_try_alloc_array((size_t)count, hrf_dtype_size(in->dtype));
    HRF_CHECK_MEMORY(data != NULL, in->err, "out of memory for node '%s'", in->node->name);
    hrf_evaluate_rule *const move = hrf_evaluate_move_rule(in->node->op);
    hrf_evaluate_rule *const rule = move != NULL ? move : hrf_evaluate_number_rule(in->node->op);
    HRF_TRY(rule(in, count, data));
    HRF_MOVE(in->graph->values[in->node->outputs[0]].data, data);
    return HRF_OK;
}
