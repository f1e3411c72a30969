/* head_build.c - see head_build.h. */
#include "heads/model/head_build.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int32_t hrf_head_fail(struct hrf_head_build *b, enum hrf_status status)
{
    if (b->status == HRF_OK)
        b->status = status;
    return HRF_NO_VALUE;
}

int32_t hrf_head_parameter(struct hrf_head_build *b, const char *format, ...)
{
    char name[HRF_HEAD_NAME];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return hrf_graph_find_value(b->graph, name);
}

int32_t hrf_head_node(struct hrf_head_build *b, enum hrf_op op, const int32_t *inputs,
                      int32_t n_inputs, const struct hrf_attributes *attributes)
{
    const struct hrf_attributes plain = hrf_attributes_default();
    const struct hrf_shape unknown = { .rank = -1 };
    char name[64];
    int32_t value = HRF_NO_VALUE;
    for (int32_t i = 0; i < n_inputs && b->status == HRF_OK; i++)
        if (inputs[i] < 0)
            hrf_head_fail(b, hrf_error_set(b->err, HRF_E_BUG, "input %d of %s is not there", (int)i,
                                           hrf_op_name(op)));
    if (b->status != HRF_OK)
        return HRF_NO_VALUE;
    snprintf(name, sizeof name, "%s_%d", hrf_op_name(op), (int)b->n_made++);
    b->status = hrf_graph_add_value(b->graph, name, HRF_F32, &unknown, NULL, &value, b->err);
    if (b->status == HRF_OK)
        b->status = hrf_graph_add_node(b->graph, op, name, inputs, n_inputs, &value, 1,
                                       attributes != NULL ? attributes : &plain, b->err);
    return b->status == HRF_OK ? value : HRF_NO_VALUE;
}

static int32_t add_constant(struct hrf_head_build *b, enum hrf_dtype dtype,
                            const struct hrf_shape *shape, const void *data)
{
    char name[32];
    int32_t value = HRF_NO_VALUE;
    if (b->status != HRF_OK)
        return HRF_NO_VALUE;
    snprintf(name, sizeof name, "constant_%d", (int)b->n_made++);
    b->status = hrf_graph_add_value(b->graph, name, dtype, shape, data, &value, b->err);
    return value;
}

int32_t hrf_head_integers(struct hrf_head_build *b, const int64_t *values, int32_t n)
{
    const struct hrf_shape shape = { .rank = 1, .dims = { n } };
    return add_constant(b, HRF_S64, &shape, values);
}

int32_t hrf_head_number(struct hrf_head_build *b, float number)
{
    const struct hrf_shape scalar = { .rank = 0 };
    return add_constant(b, HRF_F32, &scalar, &number);
}

int32_t hrf_head_floats(struct hrf_head_build *b, const float *values, const int64_t *dims,
                        int32_t rank)
{
    struct hrf_shape shape = { .rank = rank };
    memcpy(shape.dims, dims, (size_t)rank * sizeof *dims);
    return add_constant(b, HRF_F32, &shape, values);
}

int32_t hrf_head_scaled(struct hrf_head_build *b, int32_t x, float factor)
{
    return factor == 1.0F ? x : HRF_NODE(b, HRF_OP_MUL, NULL, x, hrf_head_number(b, factor));
}

int32_t hrf_head_permuted(struct hrf_head_build *b, int32_t x, const int64_t *axes, int32_t rank)
{
    struct hrf_attributes a = hrf_attributes_default();
    memcpy(a.axes, axes, (size_t)rank * sizeof *axes);
    a.n_axes = rank;
    return HRF_NODE(b, HRF_OP_TRANSPOSE, &a, x);
}

int32_t hrf_head_transposed(struct hrf_head_build *b, int32_t x, int32_t rank)
{
    static const int64_t two[] = { 1, 0 }, three[] = { 0, 2, 1 };
    return hrf_head_permuted(b, x, rank == 3 ? three : two, rank);
}

int32_t hrf_head_reshaped(struct hrf_head_build *b, int32_t x, const int64_t *dims, int32_t rank)
{
    return HRF_NODE(b, HRF_OP_RESHAPE, NULL, x, hrf_head_integers(b, dims, rank));
}

int32_t hrf_head_reduced(struct hrf_head_build *b, enum hrf_op op, int32_t x, const int64_t *axes,
                         int32_t n, bool keeps_axes)
{
    struct hrf_attributes a = hrf_attributes_default();
    memcpy(a.axes, axes, (size_t)n * sizeof *axes);
    a.n_axes = n;
    a.keep_dims = keeps_axes;
    return HRF_NODE(b, op, &a, x);
}

int32_t hrf_head_softmax(struct hrf_head_build *b, enum hrf_op op, int32_t x, int64_t axis)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = axis;
    return HRF_NODE(b, op, &a, x);
}

int32_t hrf_head_concat(struct hrf_head_build *b, int32_t x, int32_t y, int64_t axis)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = axis;
    return HRF_NODE(b, HRF_OP_CONCAT, &a, x, y);
}

int32_t hrf_head_sliced(struct hrf_head_build *b, int32_t x, int32_t begin, int32_t end,
                        int64_t axis)
{
    return HRF_NODE(b, HRF_OP_SLICE, NULL, x, begin, end, hrf_head_integers(b, &axis, 1));
}

int32_t hrf_head_part(struct hrf_head_build *b, int32_t x, int64_t begin, int64_t end, int64_t axis)
{
    return hrf_head_sliced(b, x, hrf_head_integers(b, &begin, 1), hrf_head_integers(b, &end, 1),
                           axis);
}

int32_t hrf_head_length(struct hrf_head_build *b, int32_t x, int64_t axis)
{
    return hrf_head_part(b, HRF_NODE(b, HRF_OP_SHAPE, NULL, x), axis, axis + 1, 0);
}

int32_t hrf_head_linear(struct hrf_head_build *b, const char *name, int32_t x)
{
    struct hrf_attributes a = hrf_attributes_default();
    const int32_t inputs[] = { x, hrf_head_parameter(b, "%s.weight", name),
                               hrf_head_parameter(b, "%s.bias", name) };
    a.gemm.transpose_b = true;
    return hrf_head_node(b, HRF_OP_GEMM, inputs, inputs[2] >= 0 ? 3 : 2, &a);
}

int32_t hrf_head_dropped(struct hrf_head_build *b, int32_t x, int64_t n_rows, int64_t width)
{
    const struct hrf_shape shape = { 2, { n_rows, width } };
    int32_t mask = HRF_NO_VALUE;
    if (b->step == NULL || b->head->form.dropout <= 0 || b->status != HRF_OK)
        return x;
    HRF_AUTO_FREE char *name = hrf_format("dropout_%d", (int)b->n_inputs);
    b->status = hrf_graph_add_value(b->graph, name, HRF_F32, &shape, NULL, &mask, b->err);
    b->inputs[b->n_inputs++] = mask;
    return HRF_NODE(b, HRF_OP_MUL, NULL, x, mask);
}
