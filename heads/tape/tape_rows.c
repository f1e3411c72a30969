/* tape_rows.c - operators of the tape that move, choose and average rows. */
#include "heads/tape/tape_private.h"

#include <assert.h>
#include <string.h>

static void copy_rows(float *to, const float *from, int64_t n_rows, int64_t columns)
{
    memcpy(to, from, (size_t)(n_rows * columns) * sizeof *to);
}

static void add_rows(float *to, const float *from, int64_t n_rows, int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_rows; i++)
        hrf_loop_add(to + i * columns, from + i * columns, columns);
}

/* Rows of several inputs laid out one after the other have this in common: the gradient of each is
 * a run of rows of dy. */
static void add_run(struct hrf_tensor *t, const float *dy)
{
    float *grad = hrf_tape_grad_zeroed(t);
    if (grad != NULL)
        add_rows(grad, dy, t->batch * t->rows, t->columns);
}

struct hrf_tensor *hrf_tape_transpose(struct hrf_tape *tape, struct hrf_tensor *x)
{
    if (x == NULL)
        return NULL;
    assert(x->batch == 1);
    struct hrf_tape_node *node = hrf_tape_append(tape, HRF_TAPE_TRANSPOSE, &x, 1, 1, x->columns,
                                                 x->rows);
    if (node == NULL)
        return NULL;
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->columns; j++)
            node->output->data[j * x->rows + i] = x->data[i * x->columns + j];
    return node->output;
}

void hrf_tape_transpose_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    struct hrf_tensor *x = node->inputs[0];
    float *grad = hrf_tape_grad_zeroed(x);
    for (int64_t i = 0; grad != NULL && i < x->rows; i++)
        for (int64_t j = 0; j < x->columns; j++)
            grad[i * x->columns + j] += node->output->grad[j * x->rows + i];
}

static struct hrf_tensor *gather(struct hrf_tape *tape, struct hrf_tensor *x,
                                 struct hrf_tensor *scores, enum hrf_tape_op op,
                                 const int64_t *rows, int64_t n)
{
    struct hrf_tape_node *node = hrf_tape_append(tape, op, (struct hrf_tensor *[]){ x, scores }, 2,
                                                 1, n, x->columns);
    int64_t *kept = hrf_tape_take(tape, n, sizeof *kept);
    if (node == NULL || kept == NULL)
        return NULL;
    memcpy(kept, rows, (size_t)n * sizeof *kept);
    node->rows = kept;
    for (int64_t i = 0; i < n; i++)
        copy_rows(node->output->data + i * x->columns, x->data + rows[i] * x->columns, 1,
                  x->columns);
    return node->output;
}

struct hrf_tensor *hrf_tape_gather(struct hrf_tape *tape, struct hrf_tensor *x, const int64_t *rows,
                                   int64_t n)
{
    return x == NULL ? NULL : gather(tape, x, NULL, HRF_TAPE_GATHER, rows, n);
}

struct hrf_tensor *hrf_tape_peaks(struct hrf_tape *tape, struct hrf_tensor *x,
                                  struct hrf_tensor *scores)
{
    if (x == NULL || scores == NULL)
        return NULL;
    const int64_t k = scores->columns;
    int64_t *rows = hrf_tape_take(tape, k, sizeof *rows);
    if (rows == NULL)
        return NULL;
    memset(rows, 0, (size_t)k * sizeof *rows);
    for (int64_t i = 1; i < scores->rows; i++)
        for (int64_t j = 0; j < k; j++)
            if (scores->data[i * k + j] > scores->data[rows[j] * k + j])
                rows[j] = i;
    return gather(tape, x, scores, HRF_TAPE_PEAKS, rows, k);
}

void hrf_tape_gather_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    struct hrf_tensor *x = node->inputs[0];
    float *grad = hrf_tape_grad_zeroed(x);
    for (int64_t i = 0; grad != NULL && i < node->output->rows; i++)
        hrf_loop_add(grad + node->rows[i] * x->columns, node->output->grad + i * x->columns,
                     x->columns);
}

struct hrf_tensor *hrf_tape_reshape(struct hrf_tape *tape, struct hrf_tensor *x, int64_t rows)
{
    if (x == NULL)
        return NULL;
    struct hrf_tape_node *node = hrf_tape_append(tape, HRF_TAPE_RESHAPE, &x, 1, 1, rows,
                                                 hrf_tensor_count(x) / rows);
    if (node == NULL)
        return NULL;
    node->n[0] = rows;
    copy_rows(node->output->data, x->data, 1, hrf_tensor_count(x));
    return node->output;
}

void hrf_tape_reshape_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    add_run(node->inputs[0], node->output->grad);
}

struct hrf_tensor *hrf_tape_group_mean(struct hrf_tape *tape, struct hrf_tensor *x, int64_t groups)
{
    if (x == NULL)
        return NULL;
    const int64_t n = x->columns, run = x->rows / groups;
    assert(run * groups == x->rows);
    struct hrf_tape_node *node = hrf_tape_append(tape, HRF_TAPE_GROUP_MEAN, &x, 1, x->batch, groups,
                                                 n);
    if (node == NULL)
        return NULL;
    node->n[0] = groups;
#pragma omp parallel for schedule(static)
    for (int64_t g = 0; g < x->batch * groups; g++) {
        float *y = node->output->data + g * n;
        memset(y, 0, (size_t)n * sizeof *y);
        for (int64_t i = 0; i < run; i++)
            hrf_loop_add(y, x->data + (g * run + i) * n, n);
        hrf_loop_scaled(y, y, 1.0F / (float)run, 0, n);
    }
    return node->output;
}

void hrf_tape_group_mean_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    struct hrf_tensor *x = node->inputs[0];
    const int64_t n = x->columns, run = x->rows / node->n[0];
    float beta;
    float *grad = hrf_tape_grad(x, &beta);
    if (grad == NULL)
        return;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < x->batch * x->rows; i++)
        hrf_loop_scaled(grad + i * n, node->output->grad + i / run * n, 1.0F / (float)run, beta, n);
}

struct hrf_tensor *hrf_tape_square(struct hrf_tape *tape, struct hrf_tensor *x)
{
    int64_t side = 1;
    if (x == NULL)
        return NULL;
    while (side * side < x->rows)
        side++;
    struct hrf_tape_node *node = hrf_tape_append(tape, HRF_TAPE_SQUARE, &x, 1, 1, side * side,
                                                 x->columns);
    if (node == NULL)
        return NULL;
    node->n[0] = side;
    copy_rows(node->output->data, x->data, x->rows, x->columns);
    copy_rows(node->output->data + x->rows * x->columns, x->data, side * side - x->rows,
              x->columns);
    return node->output;
}

void hrf_tape_square_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    struct hrf_tensor *x = node->inputs[0];
    float *grad = hrf_tape_grad_zeroed(x);
    if (grad == NULL)
        return;
    add_rows(grad, node->output->grad, x->rows, x->columns);
    add_rows(grad, node->output->grad + x->rows * x->columns, node->output->rows - x->rows,
             x->columns);
}

struct hrf_tensor *hrf_tape_concat(struct hrf_tape *tape, struct hrf_tensor *a,
                                   struct hrf_tensor *b)
{
    if (a == NULL || b == NULL)
        return NULL;
    struct hrf_tape_node *node = hrf_tape_append(tape, HRF_TAPE_CONCAT,
                                                 (struct hrf_tensor *[]){ a, b }, 2, 1,
                                                 a->rows + b->rows, a->columns);
    if (node == NULL)
        return NULL;
    copy_rows(node->output->data, a->data, a->rows, a->columns);
    copy_rows(node->output->data + a->rows * a->columns, b->data, b->rows, b->columns);
    return node->output;
}

void hrf_tape_concat_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    add_run(node->inputs[0], node->output->grad);
    add_run(node->inputs[1], node->output->grad + hrf_tensor_count(node->inputs[0]));
}

struct hrf_tensor *hrf_tape_pad_front(struct hrf_tape *tape, struct hrf_tensor *x, int64_t multiple)
{
    if (x == NULL)
        return NULL;
    const int64_t more = (multiple - x->rows % multiple) % multiple;
    struct hrf_tape_node *node = hrf_tape_append(tape, HRF_TAPE_PAD_FRONT, &x, 1, 1, x->rows + more,
                                                 x->columns);
    if (node == NULL)
        return NULL;
    node->n[0] = multiple;
    memset(node->output->data, 0, (size_t)(more * x->columns) * sizeof *node->output->data);
    copy_rows(node->output->data + more * x->columns, x->data, x->rows, x->columns);
    return node->output;
}

void hrf_tape_pad_front_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    const struct hrf_tensor *x = node->inputs[0];
    add_run(node->inputs[0], node->output->grad + (node->output->rows - x->rows) * x->columns);
}

static struct hrf_tensor *take_rows(struct hrf_tape *tape, struct hrf_tensor *x,
                                    struct hrf_tensor *like, enum hrf_tape_range range,
                                    int64_t first, int64_t n)
{
    if (x == NULL)
        return NULL;
    const int64_t count = n < 0 ? x->rows - first : n;
    assert(first >= 0 && first + count <= x->rows);
    struct hrf_tape_node *node = hrf_tape_append(
        tape, HRF_TAPE_ROWS, (struct hrf_tensor *[]){ x, like }, 2, x->batch, count, x->columns);
    if (node == NULL)
        return NULL;
    node->range = range;
    node->n[0] = first;
    node->n[1] = n;
    for (int64_t b = 0; b < x->batch; b++)
        copy_rows(node->output->data + b * count * x->columns,
                  x->data + (b * x->rows + first) * x->columns, count, x->columns);
    return node->output;
}

struct hrf_tensor *hrf_tape_rows(struct hrf_tape *tape, struct hrf_tensor *x, int64_t first,
                                 int64_t n)
{
    return take_rows(tape, x, NULL, HRF_TAPE_GIVEN, first, n);
}

struct hrf_tensor *hrf_tape_rows_like(struct hrf_tape *tape, struct hrf_tensor *x,
                                      struct hrf_tensor *like, enum hrf_tape_range range)
{
    return x == NULL || like == NULL
               ? NULL
               : take_rows(tape, x, like, range, range == HRF_TAPE_LAST ? x->rows - like->rows : 0,
                           like->rows);
}

struct hrf_tensor *hrf_tape_first_of_last(struct hrf_tape *tape, struct hrf_tensor *x,
                                          struct hrf_tensor *like)
{
    return x == NULL || like == NULL
               ? NULL
               : take_rows(tape, x, like, HRF_TAPE_FIRST_OF_LAST, x->rows - like->rows, 1);
}

void hrf_tape_rows_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    struct hrf_tensor *x = node->inputs[0];
    const int64_t n = node->output->rows;
    float *grad = hrf_tape_grad_zeroed(x);
    for (int64_t b = 0; grad != NULL && b < x->batch; b++)
        add_rows(grad + (b * x->rows + node->n[0]) * x->columns,
                 node->output->grad + b * n * x->columns, n, x->columns);
}
