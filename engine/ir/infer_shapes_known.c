/* infer_shapes_known.c - shape inference for operators that broadcast, compare and generate: the
 * arithmetic that exporters put around shapes. Most of them must be known when the model is loaded.
 */
#include "engine/ir/infer_shapes_private.h"

#include "engine/ir/op.h"

#include <math.h>

/* Reads a constant that an operator's shape depends on. */
static enum hrf_status read_known(struct hrf_inference *in, int32_t k, int64_t *out, int32_t max,
                                  int32_t *n)
{
    const struct hrf_value *value = hrf_infer_input(in, k);
    if (value == NULL)
        return hrf_infer_fail(in, "input %d is missing", (int)k);
    return hrf_infer_integers(in, value, out, max, n);
}

enum hrf_status hrf_infer_comparison(struct hrf_inference *in)
{
    const struct hrf_value *a = hrf_infer_input(in, 0), *b = hrf_infer_input(in, 1);
    const enum hrf_op op = in->node->op;
    const bool is_logic = op == HRF_OP_AND || op == HRF_OP_OR || op == HRF_OP_XOR;
    if (a->dtype != b->dtype || (is_logic && a->dtype != HRF_BOOL))
        return hrf_infer_fail(in, "the inputs' types do not fit: %s and %s",
                              hrf_dtype_name(a->dtype), hrf_dtype_name(b->dtype));
    if (!hrf_infer_broadcast(&a->shape, &b->shape, &in->shape))
        return hrf_infer_fail(in, "the shapes do not broadcast");
    in->dtype = op == HRF_OP_MOD ? a->dtype : HRF_BOOL;
    return HRF_OK;
}

enum hrf_status hrf_infer_not(struct hrf_inference *in)
{
    in->shape = hrf_infer_input(in, 0)->shape;
    return in->dtype == HRF_BOOL ? HRF_OK : hrf_infer_fail(in, "needs truth values");
}

enum hrf_status hrf_infer_where(struct hrf_inference *in)
{
    const struct hrf_value *condition = hrf_infer_input(in, 0);
    const struct hrf_value *x = hrf_infer_input(in, 1), *y = hrf_infer_input(in, 2);
    struct hrf_shape both;
    if (condition->dtype != HRF_BOOL || x->dtype != y->dtype)
        return hrf_infer_fail(in, "needs truth values and two inputs of one type");
    if (!hrf_infer_broadcast(&x->shape, &y->shape, &both) ||
        !hrf_infer_broadcast(&both, &condition->shape, &in->shape))
        return hrf_infer_fail(in, "the shapes do not broadcast");
    in->dtype = x->dtype;
    return HRF_OK;
}

enum hrf_status hrf_infer_select_max(struct hrf_inference *in)
{
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    const struct hrf_shape *scores = &hrf_infer_input(in, 1)->shape;
    if (x->rank != 2 || scores->rank != 2)
        return hrf_infer_refuse(in, "rows are chosen by their scores only if both are matrices");
    if (x->dims[0] != scores->dims[0])
        return hrf_infer_fail(in, "has %lld rows and scores of %lld", (long long)x->dims[0],
                              (long long)scores->dims[0]);
    in->shape.rank = 2;
    in->shape.dims[0] = scores->dims[1];
    in->shape.dims[1] = x->dims[1];
    return HRF_OK;
}

/* The importer has replaced what can be computed. */
enum hrf_status hrf_infer_top_k(struct hrf_inference *in)
{
    in->remedy = "write it as max or softmax in the model, and export again";
    return hrf_infer_refuse(in, "indices of the greatest elements are computed only to choose "
                                "whole rows by the greatest score of a column (axis 0)");
}

/* Both sides broadcast: a size of 1 in the wanted shape keeps the size of the input. */
enum hrf_status hrf_infer_expand(struct hrf_inference *in)
{
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    struct hrf_shape wanted;
    HRF_TRY(read_known(in, 1, wanted.dims, HRF_MAX_RANK, &wanted.rank));
    for (int32_t i = 0; i < wanted.rank; i++)
        if (wanted.dims[i] < 0)
            return hrf_infer_fail(in, "the wanted shape has the impossible size %lld at %d",
                                  (long long)wanted.dims[i], (int)i);
    if (!hrf_infer_broadcast(x, &wanted, &in->shape))
        return hrf_infer_fail(in, "the input does not broadcast to the wanted shape");
    return HRF_OK;
}

enum hrf_status hrf_infer_tile(struct hrf_inference *in)
{
    int64_t repeats[HRF_MAX_RANK];
    int32_t n;
    in->shape = hrf_infer_input(in, 0)->shape;
    HRF_TRY(read_known(in, 1, repeats, HRF_MAX_RANK, &n));
    if (n != in->shape.rank)
        return hrf_infer_fail(in, "%d repeats do not fit %d axes", (int)n, (int)in->shape.rank);
    for (int32_t i = 0; i < n; i++) {
        int64_t *dim = &in->shape.dims[i];
        if (repeats[i] < 0 || (*dim > 0 && repeats[i] > HRF_MAX_ELEMENTS / *dim))
            return hrf_infer_fail(in, "axis %d cannot be repeated %lld times", (int)i,
                                  (long long)repeats[i]);
        *dim *= repeats[i];
    }
    return HRF_OK;
}

enum hrf_status hrf_infer_size(struct hrf_inference *in)
{
    in->dtype = HRF_S64;
    in->shape = (struct hrf_shape){ .rank = 0 };
    return HRF_OK;
}

/* The inputs are constants of one element each: start, limit, step. */
enum hrf_status hrf_infer_range(struct hrf_inference *in)
{
    double number[3];
    for (int32_t k = 0; k < 3; k++) {
        const struct hrf_value *value = hrf_infer_input(in, k);
        if (hrf_shape_count(&value->shape) != 1 || value->dtype != in->dtype)
            return hrf_infer_fail(in, "%s is not one number of the start's type",
                                  hrf_infer_call(in, value).text);
        number[k] = hrf_infer_number(value, 0);
    }
    const double count = ceil((number[1] - number[0]) / number[2]);
    if (!isfinite(count) || count > HRF_INFER_MAX_KNOWN)
        return hrf_infer_fail(in, "from %g to %g by %g are not at most %d numbers", number[0],
                              number[1], number[2], HRF_INFER_MAX_KNOWN);
    in->shape = (struct hrf_shape){ .rank = 1, .dims = { count < 0 ? 0 : (int64_t)count } };
    return HRF_OK;
}

enum hrf_status hrf_infer_trilu(struct hrf_inference *in)
{
    const struct hrf_value *k = hrf_infer_input(in, 1);
    in->shape = hrf_infer_input(in, 0)->shape;
    if (in->shape.rank < 2)
        return hrf_infer_fail(in, "needs matrices");
    if (k != NULL && (hrf_shape_count(&k->shape) != 1 || k->dtype != HRF_S64))
        return hrf_infer_fail(in, "the diagonal is not one integer");
    return HRF_OK;
}

enum hrf_status hrf_infer_cum_sum(struct hrf_inference *in)
{
    const struct hrf_value *axis = hrf_infer_input(in, 1);
    int64_t at[1];
    int32_t n;
    in->shape = hrf_infer_input(in, 0)->shape;
    HRF_TRY(hrf_infer_integers(in, axis, at, 1, &n));
    return n == 1 ? hrf_infer_axis(in, at, in->shape.rank)
                  : hrf_infer_fail(in, "the axis is not one number");
}

/* The inputs are data, indices [..][depth], and updates of the shape [..] followed by the axes of
 * data after `depth`. */
enum hrf_status hrf_infer_scatter_nd(struct hrf_inference *in)
{
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    const struct hrf_value *indices = hrf_infer_input(in, 1), *updates = hrf_infer_input(in, 2);
    const struct hrf_shape *at = &indices->shape;
    if (at->rank < 1 || at->dims[at->rank - 1] > x->rank || indices->dtype != HRF_S64 ||
        updates->dtype != in->dtype)
        return hrf_infer_fail(in, "the indices do not fit the data");
    const int32_t depth = (int32_t)at->dims[at->rank - 1];
    struct hrf_shape wanted = { .rank = at->rank - 1 + x->rank - depth };
    if (wanted.rank > HRF_MAX_RANK)
        return hrf_infer_fail(in, "the updates have too many axes");
    for (int32_t i = 0; i < wanted.rank; i++)
        wanted.dims[i] = i < at->rank - 1 ? at->dims[i] : x->dims[depth + i - (at->rank - 1)];
    if (!hrf_shape_equal(&wanted, &updates->shape))
        return hrf_infer_fail(in, "the updates do not have the shape that the indices ask for");
    in->shape = *x;
    return HRF_OK;
}

/* The inputs are data and indices [..][depth]; the output's shape is [..] followed by the axes of
 * data after `depth`. */
enum hrf_status hrf_infer_gather_nd(struct hrf_inference *in)
{
    const struct hrf_shape *x = &hrf_infer_input(in, 0)->shape;
    const struct hrf_value *indices = hrf_infer_input(in, 1);
    const struct hrf_shape *at = &indices->shape;
    if (at->rank < 1 || at->dims[at->rank - 1] > x->rank || indices->dtype != HRF_S64)
        return hrf_infer_fail(in, "the indices do not fit the data");
    const int32_t depth = (int32_t)at->dims[at->rank - 1];
    if (at->rank - 1 + x->rank - depth > HRF_MAX_RANK)
        return hrf_infer_fail(in, "the result has too many axes");
    in->shape.rank = at->rank - 1 + x->rank - depth;
    for (int32_t i = 0; i < in->shape.rank; i++)
        in->shape.dims[i] = i < at->rank - 1 ? at->dims[i] : x->dims[depth + i - (at->rank - 1)];
    return HRF_OK;
}

enum hrf_status hrf_infer_eye_like(struct hrf_inference *in)
{
    in->shape = hrf_infer_input(in, 0)->shape;
    in->dtype = in->node->attributes.to != HRF_DTYPE_NONE ? in->node->attributes.to : in->dtype;
    return in->shape.rank == 2 ? HRF_OK : hrf_infer_fail(in, "needs a matrix");
}

/* The output has a column for each element other than 0, so the value must be known. */
enum hrf_status hrf_infer_non_zero(struct hrf_inference *in)
{
    const struct hrf_value *x = hrf_infer_input(in, 0);
    const int64_t count = hrf_shape_count(&x->shape);
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++)
        n += hrf_infer_number(x, i) != 0;
    in->shape = (struct hrf_shape){ .rank = 2, .dims = { x->shape.rank, n } };
    in->dtype = HRF_S64;
    return HRF_OK;
}
