/* build.c - constants and nodes of an encoder (build_private.h). */
#include "engine/encoder/build_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int32_t hrf_encoder_fail(struct hrf_encoder_build *b, enum hrf_status status)
{
    if (b->status == HRF_OK)
        b->status = status;
    if (b->status != HRF_OK)
        b->err = NULL; /* it has the first failure's text */
    return HRF_NO_VALUE;
}

int32_t hrf_encoder_refuse(struct hrf_encoder_build *b, const char *what)
{
    return hrf_encoder_fail(b, hrf_error_set(b->err, HRF_E_USER, "%s: %s", b->file->path, what));
}

struct hrf_safetensor *hrf_encoder_look(struct hrf_encoder_build *b, const char *format, ...)
{
    char name[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    return b->status == HRF_OK ? hrf_safetensors_find(b->file, name) : NULL;
}

static bool build_fits(const struct hrf_shape *shape, int32_t rank, const int64_t *dims)
{
    for (int32_t i = 0; i < rank && shape->rank == rank; i++)
        if (dims[i] >= 0 && dims[i] != shape->dims[i])
            return false;
    return shape->rank == rank;
}

/* The numbers of a tensor, heap; NULL: it failed. */
static float *build_read(struct hrf_encoder_build *b, const char *name, int32_t rank,
                         const int64_t *dims, struct hrf_shape *shape)
{
    struct hrf_safetensor *t = hrf_encoder_look(b, "%s", name);
    float *numbers = NULL;
    char have[128], want[128];
    if (b->status != HRF_OK)
        return NULL;
    if (t == NULL) {
        hrf_encoder_fail(b, hrf_error_set(b->err, HRF_E_USER,
                                          "%s has no tensor '%s', which the network needs: it is "
                                          "of another architecture, or its names are not timm's",
                                          b->file->path, name));
        return NULL;
    }
    *shape = t->shape;
    while (shape->rank > rank && shape->dims[shape->rank - 1] == 1)
        shape->rank--;
    if (!build_fits(shape, rank, dims)) {
        struct hrf_shape wanted = { .rank = rank };
        for (int32_t i = 0; i < rank; i++)
            wanted.dims[i] = dims[i];
        hrf_shape_text(&t->shape, have);
        hrf_shape_text(&wanted, want);
        hrf_encoder_fail(b, hrf_error_set(b->err, HRF_E_USER,
                                          "%s: tensor '%s' is %s, and the network needs %s (-1: "
                                          "any)",
                                          b->file->path, name, have, want));
        return NULL;
    }
    if (hrf_encoder_fail(b, hrf_safetensors_read(b->file, t, &numbers, b->err)),
        b->status != HRF_OK)
        return NULL;
    return numbers;
}

static int32_t build_take(struct hrf_encoder_build *b, const char *name,
                          const struct hrf_shape *shape, float *numbers)
{
    int32_t index = HRF_NO_VALUE;
    void *data = numbers;
    if (numbers == NULL)
        return HRF_NO_VALUE;
    hrf_encoder_fail(b,
                     hrf_graph_take_value(b->graph, name, HRF_F32, shape, &data, &index, b->err));
    if (b->status != HRF_OK)
        hrf_free(data);
    return index;
}

int32_t hrf_encoder_tensor(struct hrf_encoder_build *b, const char *name, int32_t rank,
                           const int64_t *dims)
{
    struct hrf_shape shape;
    float *numbers = build_read(b, name, rank, dims, &shape);
    return build_take(b, name, &shape, numbers);
}

/* A matrix [rows][columns] of the file as a constant [columns][rows]. Axes of one element at the
 * end are left out, so that 1x1 convolutions are matrices, too. */
static int32_t encoder_matrix(struct hrf_encoder_build *b, const char *name, int64_t rows,
                              int64_t columns)
{
    struct hrf_shape shape;
    HRF_AUTO_FREE float *numbers = build_read(b, name, 2, (const int64_t[]){ rows, columns },
                                              &shape);
    if (numbers == NULL)
        return HRF_NO_VALUE;
    float *transposed = hrf_try_alloc_array((size_t)(rows * columns) + 1, sizeof *transposed);
    if (transposed == NULL)
        return hrf_encoder_fail(b, hrf_error_set(b->err, HRF_E_NOMEM, "no memory for '%s'", name));
    enum { TILE = 32 };
    for (int64_t r0 = 0; r0 < rows; r0 += TILE)
        for (int64_t c0 = 0; c0 < columns; c0 += TILE)
            for (int64_t r = r0; r < rows && r < r0 + TILE; r++)
                for (int64_t c = c0; c < columns && c < c0 + TILE; c++)
                    transposed[c * rows + r] = numbers[r * columns + c];
    shape = (struct hrf_shape){ .rank = 2, .dims = { columns, rows } };
    return build_take(b, name, &shape, transposed);
}

static char *next_name(struct hrf_encoder_build *b, const char *what)
{
    return hrf_format("%s_%d", what, b->n_made++);
}

int32_t hrf_encoder_constant(struct hrf_encoder_build *b, enum hrf_dtype dtype, int32_t rank,
                             const int64_t *dims, const void *data)
{
    int32_t index = HRF_NO_VALUE;
    struct hrf_shape shape = { .rank = rank };
    memcpy(shape.dims, dims, (size_t)rank * sizeof *dims);
    if (b->status != HRF_OK)
        return HRF_NO_VALUE;
    HRF_AUTO_FREE char *name = next_name(b, "constant");
    hrf_encoder_fail(b, hrf_graph_add_value(b->graph, name, dtype, &shape, data, &index, b->err));
    return index;
}

int32_t hrf_encoder_node(struct hrf_encoder_build *b, enum hrf_op op, const int32_t *inputs,
                         int32_t n_inputs, const struct hrf_attributes *attributes)
{
    const struct hrf_shape unknown = { .rank = -1 };
    int32_t index = HRF_NO_VALUE;
    if (b->status != HRF_OK)
        return HRF_NO_VALUE;
    HRF_AUTO_FREE char *name = next_name(b, hrf_op_name(op));
    hrf_encoder_fail(b,
                     hrf_graph_add_value(b->graph, name, HRF_F32, &unknown, NULL, &index, b->err));
    if (b->status == HRF_OK)
        hrf_encoder_fail(b, hrf_graph_add_node(b->graph, op, name, inputs, n_inputs, &index, 1,
                                               attributes, b->err));
    return index;
}

int32_t hrf_encoder_unary(struct hrf_encoder_build *b, enum hrf_op op, int32_t x)
{
    return hrf_encoder_node(b, op, &x, 1, NULL);
}

int32_t hrf_encoder_binary(struct hrf_encoder_build *b, enum hrf_op op, int32_t x, int32_t y)
{
    return hrf_encoder_node(b, op, (const int32_t[]){ x, y }, 2, NULL);
}

int32_t hrf_encoder_reshape(struct hrf_encoder_build *b, int32_t x, int32_t rank,
                            const int64_t *dims)
{
    const int64_t n = rank;
    return hrf_encoder_binary(b, HRF_OP_RESHAPE, x, hrf_encoder_constant(b, HRF_S64, 1, &n, dims));
}

int32_t hrf_encoder_transpose(struct hrf_encoder_build *b, int32_t x, int32_t rank,
                              const int64_t *axes)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.n_axes = rank;
    memcpy(a.axes, axes, (size_t)rank * sizeof *axes);
    return hrf_encoder_node(b, HRF_OP_TRANSPOSE, &x, 1, &a);
}

int32_t hrf_encoder_slice(struct hrf_encoder_build *b, int32_t x, int64_t axis, int64_t begin,
                          int64_t end)
{
    const struct hrf_attributes a = hrf_attributes_slice(axis, begin, end);
    return hrf_encoder_node(b, HRF_OP_SLICE, &x, 1, &a);
}

int32_t hrf_encoder_linear(struct hrf_encoder_build *b, const char *name, int32_t x, int64_t rows,
                           int64_t columns)
{
    char weight[128], bias[128];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    const int32_t y = hrf_encoder_binary(b, HRF_OP_MATMUL, x,
                                         encoder_matrix(b, weight, rows, columns));
    if (hrf_encoder_look(b, "%s", bias) == NULL)
        return y;
    return hrf_encoder_binary(b, HRF_OP_ADD, y, hrf_encoder_tensor(b, bias, 1, &rows));
}

int32_t hrf_encoder_layer_norm(struct hrf_encoder_build *b, const char *name, int32_t x,
                               int64_t axis, int64_t n, float epsilon)
{
    char weight[128], bias[128];
    struct hrf_attributes a = hrf_attributes_default();
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    a.axis = axis;
    a.epsilon = epsilon;
    const int32_t inputs[] = { x, hrf_encoder_tensor(b, weight, 1, &n),
                               hrf_encoder_tensor(b, bias, 1, &n) };
    return hrf_encoder_node(b, HRF_OP_LAYER_NORM, inputs, 3, &a);
}

int32_t hrf_encoder_conv(struct hrf_encoder_build *b, const char *name, int32_t x, int64_t in,
                         int64_t out, int64_t kernel, int64_t stride, int64_t pad, int64_t group)
{
    char weight[128], bias[128];
    struct hrf_attributes a = hrf_attributes_default();
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    a.group = group;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        a.window.kernel[i] = kernel;
        a.window.stride[i] = stride;
        a.window.pad_begin[i] = a.window.pad_end[i] = pad;
    }
    const int64_t dims[] = { out, in / group, kernel, kernel };
    const bool has_bias = hrf_encoder_look(b, "%s", bias) != NULL;
    int32_t inputs[3] = { x, hrf_encoder_tensor(b, weight, 4, dims), HRF_NO_VALUE };
    if (has_bias)
        inputs[2] = hrf_encoder_tensor(b, bias, 1, &out);
    return hrf_encoder_node(b, HRF_OP_CONV, inputs, has_bias ? 3 : 2, &a);
}
