/* evaluate_move.c - operators on constants that copy elements and compute none. */
#include "engine/ir/evaluate_private.h"

#include "engine/ir/op.h"

#include <string.h>

static enum hrf_status concat(struct hrf_inference *in, int64_t count, void *to)
{
    (void)count;
    const size_t size = hrf_dtype_size(in->dtype);
    char *out = to;
    int64_t axis = in->node->attributes.axis, inner = 1, outer = 1;
    for (int32_t i = 0; i < in->shape.rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : in->shape.dims[i];
    for (int64_t o = 0; o < outer; o++)
        for (int32_t k = 0; k < in->node->n_inputs; k++) {
            const struct hrf_value *value = hrf_infer_input(in, k);
            const size_t run = (size_t)(value->shape.dims[axis] * inner) * size;
            if (run > 0)
                memcpy(out, (const char *)value->data + (size_t)o * run, run);
            out += run;
        }
    return HRF_OK;
}

static enum hrf_status gather(struct hrf_inference *in, int64_t count, void *to)
{
    (void)count;
    const size_t size = hrf_dtype_size(in->dtype);
    char *out = to;
    const struct hrf_value *x = hrf_infer_input(in, 0), *indices = hrf_infer_input(in, 1);
    int64_t axis = in->node->attributes.axis, inner = 1, outer = 1;
    for (int32_t i = 0; i < x->shape.rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : x->shape.dims[i];
    const int64_t dim = x->shape.dims[axis], n = hrf_shape_count(&indices->shape);
    const size_t run = (size_t)inner * size;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < n; k++) {
            int64_t index = hrf_evaluate_integer(indices, k);
            index += index < 0 ? dim : 0;
            if (run > 0)
                memcpy(out, (const char *)x->data + (size_t)(o * dim + index) * run, run);
            out += run;
        }
    return HRF_OK;
}

/* The element of input 0 that becomes element `i` of the result. */
static int64_t source_of(const struct hrf_inference *in, int64_t i)
{
    const struct hrf_attributes *a = &in->node->attributes;
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    int64_t to[HRF_MAX_RANK] = { 0 }, from[HRF_MAX_RANK] = { 0 };
    if (in->node->op == HRF_OP_EXPAND)
        return hrf_evaluate_broadcast(x, &in->shape, i);
    hrf_evaluate_unravel(&in->shape, i, to);
    memcpy(from, to, sizeof from);
    if (in->node->op == HRF_OP_TILE)
        for (int32_t k = 0; k < x->rank; k++)
            from[k] = to[k] % x->dims[k];
    for (int32_t k = 0; k < a->n_axes && in->node->op == HRF_OP_TRANSPOSE; k++)
        from[a->axes[k]] = to[k];
    for (int32_t k = 0; k < a->n_axes && in->node->op == HRF_OP_SLICE; k++)
        from[a->axes[k]] = a->slice.starts[k] + to[a->axes[k]] * a->slice.steps[k];
    return hrf_evaluate_ravel(x, from);
}

static enum hrf_status pick(struct hrf_inference *in, int64_t count, void *out)
{
    const size_t size = hrf_dtype_size(in->dtype);
    const char *x = hrf_infer_input(in, 0)->data;
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)out + (size_t)i * size, x + (size_t)source_of(in, i) * size, size);
    return HRF_OK;
}

static enum hrf_status choose(struct hrf_inference *in, int64_t count, void *out)
{
    const size_t size = hrf_dtype_size(in->dtype);
    const struct hrf_value *condition = hrf_infer_input(in, 0);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = hrf_evaluate_broadcast(&condition->shape, &in->shape, i);
        const struct hrf_value *from = hrf_infer_input(
            in, hrf_evaluate_integer(condition, at) != 0 ? 1 : 2);
        memcpy((char *)out + (size_t)i * size,
               (const char *)from->data +
                   (size_t)hrf_evaluate_broadcast(&from->shape, &in->shape, i) * size,
               size);
    }
    return HRF_OK;
}

/* Finds the position in `x` that index tuple `i` points to, counted in runs of the remaining
 * axes. */
static enum hrf_status point(struct hrf_inference *in, const struct hrf_shape *x,
                             const struct hrf_value *indices, int64_t i, int64_t *at)
{
    const int64_t depth = indices->shape.dims[indices->shape.rank - 1];
    *at = 0;
    for (int64_t k = 0; k < depth; k++) {
        const int64_t index = hrf_evaluate_integer(indices, i * depth + k), dim = x->dims[k];
        if (index < -dim || index >= dim)
            return hrf_infer_fail(in, "index %lld is outside the %lld of axis %lld",
                                  (long long)index, (long long)dim, (long long)k);
        *at = *at * dim + (index < 0 ? index + dim : index);
    }
    return HRF_OK;
}

/* Counts the index tuples, and the elements that each points to. */
static void count_runs(const struct hrf_shape *x, const struct hrf_shape *indices, int64_t *n,
                       int64_t *inner)
{
    *n = *inner = 1;
    for (int32_t i = 0; i + 1 < indices->rank; i++)
        *n *= indices->dims[i];
    for (int32_t i = (int32_t)indices->dims[indices->rank - 1]; i < x->rank; i++)
        *inner *= x->dims[i];
}

static enum hrf_status gather_nd(struct hrf_inference *in, int64_t count, void *out)
{
    (void)count;
    const size_t size = hrf_dtype_size(in->dtype);
    const struct hrf_value *x = hrf_infer_input(in, 0), *indices = hrf_infer_input(in, 1);
    int64_t n, inner, at;
    count_runs(&x->shape, &indices->shape, &n, &inner);
    for (int64_t i = 0; i < n && inner > 0; i++) {
        HRF_TRY(point(in, &x->shape, indices, i, &at));
        memcpy((char *)out + (size_t)(i * inner) * size,
               (const char *)x->data + (size_t)(at * inner) * size, (size_t)inner * size);
    }
    return HRF_OK;
}

/* Later updates of an element win. */
static enum hrf_status scatter(struct hrf_inference *in, int64_t count, void *out)
{
    const size_t size = hrf_dtype_size(in->dtype);
    const struct hrf_value *x = hrf_infer_input(in, 0), *indices = hrf_infer_input(in, 1);
    const struct hrf_value *updates = hrf_infer_input(in, 2);
    int64_t n, inner, at;
    count_runs(&x->shape, &indices->shape, &n, &inner);
    if (count > 0)
        memcpy(out, x->data, (size_t)count * size);
    for (int64_t i = 0; i < n && inner > 0; i++) {
        HRF_TRY(point(in, &x->shape, indices, i, &at));
        memcpy((char *)out + (size_t)(at * inner) * size,
               (const char *)updates->data + (size_t)(i * inner) * size, (size_t)inner * size);
    }
    return HRF_OK;
}

static enum hrf_status keep(struct hrf_inference *in, int64_t count, void *out)
{
    if (count > 0)
        memcpy(out, hrf_infer_input(in, 0)->data, (size_t)count * hrf_dtype_size(in->dtype));
    return HRF_OK;
}

hrf_evaluate_rule *hrf_evaluate_move_rule(enum hrf_op op)
{
    static hrf_evaluate_rule *const rules[HRF_N_OPS] = {
        [HRF_OP_CONCAT] = concat,  [HRF_OP_GATHER] = gather,      [HRF_OP_SLICE] = pick,
        [HRF_OP_TRANSPOSE] = pick, [HRF_OP_EXPAND] = pick,        [HRF_OP_TILE] = pick,
        [HRF_OP_WHERE] = choose,   [HRF_OP_SCATTER_ND] = scatter, [HRF_OP_GATHER_ND] = gather_nd,
    };
    return hrf_op_info(op)->op_class == HRF_CLASS_VIEW ? keep : rules[op];
}
