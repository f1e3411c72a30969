/* export_graph.c - values and nodes of the graph that is exported. */
#include "heads/export/export_private.h"

#include <stdio.h>
#include <string.h>

static bool note(struct hrf_export *e, enum hrf_status status)
{
    if (e->status == HRF_OK)
        e->status = status;
    return status == HRF_OK;
}

int32_t hrf_export_find(struct hrf_export *e, const struct hrf_tensor *t)
{
    for (int32_t i = e->n_tensors - 1; i >= 0; i--)
        if (e->tensors[i] == t)
            return e->values[i];
    if (t == NULL || t->name == NULL || e->status != HRF_OK)
        return -1;
    /* A parameter, on its first use. */
    struct hrf_shape shape = { .rank = 2, .dims = { t->rows, t->columns } };
    int32_t value = -1;
    if (t->rows == 1)
        shape = (struct hrf_shape){ .rank = 1, .dims = { t->columns } };
    if (!note(e, hrf_graph_add_value(e->graph, t->name, HRF_F32, &shape, t->data, &value, e->err)))
        return -1;
    hrf_export_bind(e, t, value);
    return value;
}

void hrf_export_bind(struct hrf_export *e, const struct hrf_tensor *t, int32_t value)
{
    const size_t need = (size_t)e->n_tensors + 1;
    void *tensors = (void *)e->tensors, *values = e->values;
    hrf_array_reserve(&tensors, &e->tensors_capacity, need, sizeof *e->tensors);
    hrf_array_reserve(&values, &e->values_capacity, need, sizeof *e->values);
    e->tensors = tensors;
    e->values = values;
    e->tensors[e->n_tensors] = t;
    e->values[e->n_tensors++] = value;
}

int32_t hrf_export_put(struct hrf_export *e, enum hrf_op op, const int32_t *inputs,
                       int32_t n_inputs, const struct hrf_attributes *a)
{
    const struct hrf_attributes plain = hrf_attributes_default();
    const struct hrf_shape unknown = { .rank = -1 };
    char name[64];
    int32_t value = -1;
    for (int32_t i = 0; i < n_inputs; i++)
        if (inputs[i] < 0)
            note(e, hrf_error_set(e->err, HRF_E_BUG, "input %d of %s is not there", (int)i,
                                  hrf_op_name(op)));
    if (e->status != HRF_OK)
        return -1;
    snprintf(name, sizeof name, "%s_%d", hrf_op_name(op), (int)e->n_names++);
    if (!note(e, hrf_graph_add_value(e->graph, name, HRF_F32, &unknown, NULL, &value, e->err)) ||
        !note(e, hrf_graph_add_node(e->graph, op, name, inputs, n_inputs, &value, 1,
                                    a != NULL ? a : &plain, e->err)))
        return -1;
    return value;
}

static int32_t constant(struct hrf_export *e, enum hrf_dtype dtype, const struct hrf_shape *shape,
                        const void *data)
{
    char name[32];
    int32_t value = -1;
    if (e->status != HRF_OK)
        return -1;
    snprintf(name, sizeof name, "constant_%d", (int)e->n_names++);
    note(e, hrf_graph_add_value(e->graph, name, dtype, shape, data, &value, e->err));
    return value;
}

int32_t hrf_export_integers(struct hrf_export *e, const int64_t *values, int32_t n)
{
    const struct hrf_shape shape = { .rank = 1, .dims = { n } };
    return constant(e, HRF_S64, &shape, values);
}

int32_t hrf_export_floats(struct hrf_export *e, const float *values, const int64_t *dims,
                          int32_t rank)
{
    struct hrf_shape shape = { .rank = rank };
    memcpy(shape.dims, dims, (size_t)rank * sizeof *dims);
    return constant(e, HRF_F32, &shape, values);
}

int32_t hrf_export_float(struct hrf_export *e, float value)
{
    const struct hrf_shape scalar = { .rank = 0 };
    return constant(e, HRF_F32, &scalar, &value);
}

int32_t hrf_export_unary(struct hrf_export *e, enum hrf_op op, int32_t x)
{
    return hrf_export_put(e, op, &x, 1, NULL);
}

int32_t hrf_export_binary(struct hrf_export *e, enum hrf_op op, int32_t a, int32_t b)
{
    return hrf_export_put(e, op, (int32_t[]){ a, b }, 2, NULL);
}

int32_t hrf_export_permute(struct hrf_export *e, int32_t x, const int64_t *axes, int32_t n)
{
    struct hrf_attributes a = hrf_attributes_default();
    memcpy(a.axes, axes, (size_t)n * sizeof *axes);
    a.n_axes = n;
    return hrf_export_put(e, HRF_OP_TRANSPOSE, &x, 1, &a);
}

int32_t hrf_export_reshape(struct hrf_export *e, int32_t x, const int64_t *dims, int32_t n)
{
    return hrf_export_binary(e, HRF_OP_RESHAPE, x, hrf_export_integers(e, dims, n));
}

int32_t hrf_export_reduce(struct hrf_export *e, enum hrf_op op, int32_t x, const int64_t *axes,
                          int32_t n, bool keep)
{
    struct hrf_attributes a = hrf_attributes_default();
    memcpy(a.axes, axes, (size_t)n * sizeof *axes);
    a.n_axes = n;
    a.keep_dims = keep;
    return hrf_export_put(e, op, &x, 1, &a);
}

int32_t hrf_export_slice(struct hrf_export *e, int32_t x, int32_t starts, int32_t ends,
                         int64_t axis)
{
    const int32_t axes = hrf_export_integers(e, &axis, 1);
    return hrf_export_put(e, HRF_OP_SLICE, (int32_t[]){ x, starts, ends, axes }, 4, NULL);
}

int32_t hrf_export_rows_of(struct hrf_export *e, int32_t x, int64_t axis)
{
    const int64_t end = axis + 1;
    return hrf_export_slice(e, hrf_export_unary(e, HRF_OP_SHAPE, x),
                            hrf_export_integers(e, &axis, 1), hrf_export_integers(e, &end, 1), 0);
}

int32_t hrf_export_concat(struct hrf_export *e, const int32_t *inputs, int32_t n)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = 0;
    return hrf_export_put(e, HRF_OP_CONCAT, inputs, n, &a);
}
