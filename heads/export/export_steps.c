/* export_steps.c - each step of the tape as nodes whose sizes follow the bag.
 *
 * A tensor of one matrix has rank 2, a batch of matrices rank 3. */
#include "heads/export/export_private.h"

static int64_t row_axis(const struct hrf_tensor *t)
{
    return t->batch > 1 ? 1 : 0;
}

static int32_t put_scaled(struct hrf_export *e, int32_t x, float factor)
{
    return factor == 1.0F ? x : hrf_export_binary(e, HRF_OP_MUL, x, hrf_export_float(e, factor));
}

static int32_t put_swapped(struct hrf_export *e, int32_t x, bool is_batch)
{
    static const int64_t two[] = { 1, 0 }, three[] = { 0, 2, 1 };
    return is_batch ? hrf_export_permute(e, x, three, 3) : hrf_export_permute(e, x, two, 2);
}

static int32_t put_linear(struct hrf_export *e, const struct hrf_tape_node *n)
{
    static const enum hrf_op activations[] = { [HRF_TAPE_RELU] = HRF_OP_RELU,
                                               [HRF_TAPE_TANH] = HRF_OP_TANH,
                                               [HRF_TAPE_SIGMOID] = HRF_OP_SIGMOID };
    struct hrf_attributes a = hrf_attributes_default();
    const struct hrf_tensor *w = n->inputs[1];
    int32_t inputs[3] = { hrf_export_find(e, n->inputs[0]), hrf_export_find(e, w), -1 };
    a.gemm.transpose_b = true;
    if (w->rows == 1 && inputs[1] >= 0) /* a matrix of one row is kept as a vector */
        inputs[1] = hrf_export_reshape(e, inputs[1], (int64_t[]){ 1, w->columns }, 2);
    if (n->inputs[2] != NULL)
        inputs[2] = hrf_export_find(e, n->inputs[2]);
    const int32_t y = hrf_export_put(e, HRF_OP_GEMM, inputs, n->inputs[2] != NULL ? 3 : 2, &a);
    return n->activation == HRF_TAPE_PLAIN ? y : hrf_export_unary(e, activations[n->activation], y);
}

static int32_t put_matmul(struct hrf_export *e, const struct hrf_tape_node *n)
{
    const bool is_batch = n->output->batch > 1;
    int32_t b = hrf_export_find(e, n->inputs[1]);
    if (n->transpose_b)
        b = put_swapped(e, b, is_batch);
    return put_scaled(e, hrf_export_binary(e, HRF_OP_MATMUL, hrf_export_find(e, n->inputs[0]), b),
                      n->alpha);
}

static int32_t put_softmax(struct hrf_export *e, const struct hrf_tape_node *n)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = n->output->batch > 1 ? 2 : 1;
    return hrf_export_put(e, HRF_OP_SOFTMAX, (int32_t[]){ hrf_export_find(e, n->inputs[0]) }, 1,
                          &a);
}

/* 1 where a score is the highest of its column, else 0 (any distance times 1e30 is above 1; equal
 * highest ones share), times x. */
static int32_t put_peaks(struct hrf_export *e, const struct hrf_tape_node *n)
{
    static const int64_t rows = 0;
    const int32_t scores = hrf_export_find(e, n->inputs[1]);
    const int32_t max = hrf_export_reduce(e, HRF_OP_REDUCE_MAX, scores, &rows, 1, true);
    int32_t mark = hrf_export_binary(e, HRF_OP_SUB, scores, max);
    mark = put_scaled(e, mark, 1e30F);
    mark = hrf_export_binary(e, HRF_OP_ADD, mark, hrf_export_float(e, 1));
    mark = hrf_export_unary(e, HRF_OP_RELU, mark);
    mark = hrf_export_binary(e, HRF_OP_DIV, mark,
                             hrf_export_reduce(e, HRF_OP_REDUCE_SUM, mark, &rows, 1, true));
    return hrf_export_binary(e, HRF_OP_MATMUL, put_swapped(e, mark, false),
                             hrf_export_find(e, n->inputs[0]));
}

static int32_t put_row_dot(struct hrf_export *e, const struct hrf_tape_node *n)
{
    static const int64_t columns = 1;
    int32_t y = hrf_export_binary(e, HRF_OP_MUL, hrf_export_find(e, n->inputs[0]),
                                  hrf_export_find(e, n->inputs[1]));
    y = hrf_export_reduce(e, HRF_OP_REDUCE_SUM, y, &columns, 1, true);
    return hrf_export_binary(e, HRF_OP_ADD, put_swapped(e, y, false),
                             hrf_export_find(e, n->inputs[2]));
}

static int32_t put_group_mean(struct hrf_export *e, const struct hrf_tape_node *n)
{
    static const int64_t axes[] = { 0, 1, 2 };
    const struct hrf_tensor *x = n->inputs[0];
    const int32_t value = hrf_export_find(e, x);
    if (x->batch == 1 && n->n[0] == 1)
        return hrf_export_reduce(e, HRF_OP_REDUCE_MEAN, value, &axes[0], 1, true);
    if (x->batch == 1)
        return hrf_export_reduce(
            e, HRF_OP_REDUCE_MEAN,
            hrf_export_reshape(e, value, (int64_t[]){ n->n[0], -1, x->columns }, 3), &axes[1], 1,
            false);
    return hrf_export_reduce(
        e, HRF_OP_REDUCE_MEAN,
        hrf_export_reshape(e, value, (int64_t[]){ x->batch, n->n[0], -1, x->columns }, 4), &axes[2],
        1, false);
}

static int32_t put_layer_norm(struct hrf_export *e, const struct hrf_tape_node *n)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.axis = -1;
    a.epsilon = 1e-5F;
    return hrf_export_put(e, HRF_OP_LAYER_NORM,
                          (int32_t[]){ hrf_export_find(e, n->inputs[0]),
                                       hrf_export_find(e, n->inputs[1]),
                                       hrf_export_find(e, n->inputs[2]) },
                          3, &a);
}

/* The side is ceil(sqrt(rows)); the patches twice are always enough rows for the square. */
static int32_t put_square(struct hrf_export *e, const struct hrf_tape_node *n)
{
    static const int64_t zero = 0;
    struct hrf_attributes a = hrf_attributes_default();
    const int32_t x = hrf_export_find(e, n->inputs[0]);
    int32_t side = hrf_export_rows_of(e, x, 0);
    a.to = HRF_F32;
    side = hrf_export_put(e, HRF_OP_CAST, &side, 1, &a);
    side = hrf_export_unary(e, HRF_OP_CEIL, hrf_export_unary(e, HRF_OP_SQRT, side));
    a.to = HRF_S64;
    e->side = hrf_export_put(e, HRF_OP_CAST, &side, 1, &a);
    const int32_t total = hrf_export_binary(e, HRF_OP_MUL, e->side, e->side);
    return hrf_export_slice(e, hrf_export_concat(e, (int32_t[]){ x, x }, 2),
                            hrf_export_integers(e, &zero, 1), total, 0);
}

/* (multiple - rows % multiple) % multiple rows of zeros. */
static int32_t put_pad_front(struct hrf_export *e, const struct hrf_tape_node *n)
{
    static const int64_t zeros[3] = { 0, 0, 0 };
    const int32_t x = hrf_export_find(e, n->inputs[0]);
    const int32_t multiple = hrf_export_integers(e, &n->n[0], 1);
    int32_t more = hrf_export_binary(e, HRF_OP_MOD, hrf_export_rows_of(e, x, 0), multiple);
    more = hrf_export_binary(e, HRF_OP_SUB, multiple, more);
    more = hrf_export_binary(e, HRF_OP_MOD, more, multiple);
    const int32_t pads = hrf_export_concat(e, (int32_t[]){ more, hrf_export_integers(e, zeros, 3) },
                                           2);
    return hrf_export_put(e, HRF_OP_PAD, (int32_t[]){ x, pads, hrf_export_float(e, 0) }, 3, NULL);
}

static int32_t put_rows(struct hrf_export *e, const struct hrf_tape_node *n)
{
    static const int64_t zero = 0, one = 1, all = INT64_MAX;
    const struct hrf_tensor *t = n->inputs[0];
    const int32_t x = hrf_export_find(e, t);
    const int64_t axis = row_axis(t), end = n->n[1] < 0 ? all : n->n[0] + n->n[1];
    if (n->range == HRF_TAPE_GIVEN)
        return hrf_export_slice(e, x, hrf_export_integers(e, &n->n[0], 1),
                                hrf_export_integers(e, &end, 1), axis);
    const int32_t like = hrf_export_rows_of(e, hrf_export_find(e, n->inputs[1]), 0);
    if (n->range == HRF_TAPE_FIRST)
        return hrf_export_slice(e, x, hrf_export_integers(e, &zero, 1), like, axis);
    const int32_t first = hrf_export_binary(e, HRF_OP_SUB, hrf_export_rows_of(e, x, axis), like);
    const int32_t next = n->range == HRF_TAPE_LAST
                             ? hrf_export_integers(e, &all, 1)
                             : hrf_export_binary(e, HRF_OP_ADD, first,
                                                 hrf_export_integers(e, &one, 1));
    return hrf_export_slice(e, x, first, next, axis);
}

static int32_t put_split_heads(struct hrf_export *e, const struct hrf_tape_node *n)
{
    static const int64_t order[] = { 1, 0, 2 };
    const int64_t width = n->inputs[0]->columns / 3, heads = n->n[1];
    const int64_t first = n->n[0] * width, end = first + width;
    int32_t x = hrf_export_slice(e, hrf_export_find(e, n->inputs[0]),
                                 hrf_export_integers(e, &first, 1), hrf_export_integers(e, &end, 1),
                                 1);
    if (heads > 1) {
        x = hrf_export_reshape(e, x, (int64_t[]){ -1, heads, width / heads }, 3);
        x = hrf_export_permute(e, x, order, 3);
    }
    return put_scaled(e, x, n->alpha);
}

static int32_t put_merge_heads(struct hrf_export *e, const struct hrf_tape_node *n)
{
    static const int64_t order[] = { 1, 0, 2 };
    const int32_t x = hrf_export_find(e, n->inputs[0]);
    return n->inputs[0]->batch == 1 ? x
                                    : hrf_export_reshape(e, hrf_export_permute(e, x, order, 3),
                                                         (int64_t[]){ -1, n->output->columns }, 2);
}

static int32_t put_inverse_start(struct hrf_export *e, const struct hrf_tape_node *n)
{
    static const int64_t axes[] = { 0, 1, 2 };
    const bool is_batch = n->output->batch > 1;
    const int32_t x = hrf_export_find(e, n->inputs[0]), rank = is_batch ? 3 : 2;
    int32_t sums[2];
    for (int i = 0; i < 2; i++)
        sums[i] = hrf_export_reduce(
            e, HRF_OP_REDUCE_MAX,
            hrf_export_reduce(e, HRF_OP_REDUCE_L1, x, &axes[rank - 1 - i], 1, true), axes, rank,
            true);
    return hrf_export_binary(e, HRF_OP_DIV, put_swapped(e, x, is_batch),
                             hrf_export_binary(e, HRF_OP_MUL, sums[0], sums[1]));
}

static int32_t put_eye_minus(struct hrf_export *e, const struct hrf_tape_node *n)
{
    const int64_t m = n->output->columns, dims[2] = { m, m };
    HRF_AUTO_FREE float *eye = hrf_try_calloc((size_t)(m * m), sizeof *eye);
    if (eye == NULL)
        return -1; /* the next node reports it */
    for (int64_t i = 0; i < m; i++)
        eye[i * m + i] = n->alpha;
    return hrf_export_binary(e, HRF_OP_SUB, hrf_export_floats(e, eye, dims, 2),
                             hrf_export_find(e, n->inputs[0]));
}

static int32_t put_conv(struct hrf_export *e, int32_t x, int32_t weights, int32_t bias,
                        int64_t group, int64_t rows, int64_t columns)
{
    struct hrf_attributes a = hrf_attributes_default();
    a.group = group;
    a.window.kernel[0] = rows;
    a.window.kernel[1] = columns;
    a.window.pad_begin[0] = a.window.pad_end[0] = rows / 2;
    a.window.pad_begin[1] = a.window.pad_end[1] = columns / 2;
    return hrf_export_put(e, HRF_OP_CONV, (int32_t[]){ x, weights, bias }, bias >= 0 ? 3 : 2, &a);
}

/* [heads][n][d] as an image of `heads` channels. */
static int32_t put_token_conv(struct hrf_export *e, const struct hrf_tape_node *n)
{
    const struct hrf_tensor *x = n->inputs[0], *w = n->inputs[1];
    const int32_t weights = hrf_export_reshape(e, hrf_export_find(e, w),
                                               (int64_t[]){ x->batch, 1, w->columns, 1 }, 4);
    int32_t y = hrf_export_reshape(e, hrf_export_find(e, x),
                                   (int64_t[]){ 1, x->batch, -1, x->columns }, 4);
    y = put_conv(e, y, weights, -1, x->batch, w->columns, 1);
    return x->batch > 1 ? hrf_export_reshape(e, y, (int64_t[]){ x->batch, -1, x->columns }, 3)
                        : hrf_export_reshape(e, y, (int64_t[]){ -1, x->columns }, 2);
}

/* The one 7 x 7 kernel that the tape has made of three, [49][c] and the bias, in ONNX's order. */
static int32_t put_grid_conv(struct hrf_export *e, const struct hrf_tape_node *n)
{
    enum { SIDE = 7, TAPS = SIDE * SIDE };
    const int64_t c = n->output->columns, dims[4] = { c, 1, SIDE, SIDE };
    HRF_AUTO_FREE float *kernel = hrf_try_alloc_array((size_t)c, TAPS * sizeof *kernel);
    if (kernel == NULL)
        return -1;
    for (int64_t j = 0; j < c; j++)
        for (int64_t t = 0; t < TAPS; t++)
            kernel[j * TAPS + t] = n->saved[t * c + j];
    const int32_t weights = hrf_export_floats(e, kernel, dims, 4);
    const int32_t bias = hrf_export_floats(e, n->saved + TAPS * c, &c, 1);
    const int64_t front[2] = { 1, c };
    const int32_t shape = hrf_export_concat(
        e, (int32_t[]){ hrf_export_integers(e, front, 2), e->side, e->side }, 3);
    int32_t y = put_swapped(e, hrf_export_find(e, n->inputs[0]), false);
    y = hrf_export_binary(e, HRF_OP_RESHAPE, y, shape);
    y = put_conv(e, y, weights, bias, c, SIDE, SIDE);
    return put_swapped(e, hrf_export_reshape(e, y, (int64_t[]){ c, -1 }, 2), false);
}

/* A vector parameter beside a matrix becomes a row. */
static int32_t put_concat(struct hrf_export *e, const struct hrf_tape_node *n)
{
    int32_t inputs[2];
    for (int i = 0; i < 2; i++) {
        inputs[i] = hrf_export_find(e, n->inputs[i]);
        if (n->inputs[i]->name != NULL && n->inputs[i]->rows == 1)
            inputs[i] = hrf_export_reshape(e, inputs[i], (int64_t[]){ 1, n->inputs[i]->columns },
                                           2);
    }
    return hrf_export_concat(e, inputs, 2);
}

static int32_t put_step(struct hrf_export *e, const struct hrf_tape_node *n)
{
    const int32_t x = hrf_export_find(e, n->inputs[0]);
    switch (n->op) {
    case HRF_TAPE_LINEAR:
        return put_linear(e, n);
    case HRF_TAPE_GATE:
        return hrf_export_binary(e, HRF_OP_MUL, x, hrf_export_find(e, n->inputs[1]));
    case HRF_TAPE_MATMUL:
        return put_matmul(e, n);
    case HRF_TAPE_SOFTMAX:
        return put_softmax(e, n);
    case HRF_TAPE_TRANSPOSE:
        return put_swapped(e, x, false);
    case HRF_TAPE_ADD:
        return hrf_export_binary(e, HRF_OP_ADD, put_scaled(e, x, n->alpha),
                                 put_scaled(e, hrf_export_find(e, n->inputs[1]), n->beta));
    case HRF_TAPE_PEAKS:
        return put_peaks(e, n);
    case HRF_TAPE_RESHAPE:
        return hrf_export_reshape(e, x, (int64_t[]){ n->n[0], -1 }, 2);
    case HRF_TAPE_ROW_DOT:
        return put_row_dot(e, n);
    case HRF_TAPE_GROUP_MEAN:
        return put_group_mean(e, n);
    case HRF_TAPE_LAYER_NORM:
        return put_layer_norm(e, n);
    case HRF_TAPE_SQUARE:
        return put_square(e, n);
    case HRF_TAPE_CONCAT:
        return put_concat(e, n);
    case HRF_TAPE_PAD_FRONT:
        return put_pad_front(e, n);
    case HRF_TAPE_ROWS:
        return put_rows(e, n);
    case HRF_TAPE_SPLIT_HEADS:
        return put_split_heads(e, n);
    case HRF_TAPE_MERGE_HEADS:
        return put_merge_heads(e, n);
    case HRF_TAPE_INVERSE_START:
        return put_inverse_start(e, n);
    case HRF_TAPE_EYE_MINUS:
        return put_eye_minus(e, n);
    case HRF_TAPE_TOKEN_CONV:
        return put_token_conv(e, n);
    case HRF_TAPE_GRID_CONV:
        return put_grid_conv(e, n);
    default: /* of the loss, which is not exported */
        return -1;
    }
}

void hrf_export_step(struct hrf_export *e, const struct hrf_tape_node *node)
{
    hrf_export_bind(e, node->output, put_step(e, node));
}
