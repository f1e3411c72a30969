/* tape_dense.c - products, activations, softmax and losses of the tape. */
#include "heads/tape/tape_private.h"

#include "base/min_max.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static struct hrf_tape_operand operand(const struct hrf_tensor *t, const float *data,
                                       bool is_transposed)
{
    return (struct hrf_tape_operand){ data, t->rows, t->columns, is_transposed };
}

/* grad of a one-row tensor += (or =) the sums over the rows of dy. */
static void add_column_sums(struct hrf_tape *tape, const float *dy, int64_t rows, int64_t columns,
                            struct hrf_tensor *t)
{
    float beta;
    float *grad = hrf_tape_grad(t, &beta);
    const int64_t n_blocks = (rows + HRF_TAPE_BLOCK - 1) / HRF_TAPE_BLOCK;
    float *partial = hrf_tape_take(tape, n_blocks * columns, sizeof *partial);
    if (grad == NULL || partial == NULL)
        return;
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < n_blocks; b++) {
        float *sums = partial + b * columns;
        memset(sums, 0, (size_t)columns * sizeof *sums);
        for (int64_t i = b * HRF_TAPE_BLOCK; i < hrf_min((b + 1) * HRF_TAPE_BLOCK, rows); i++)
            hrf_loop_add(sums, dy + i * columns, columns);
    }
    if (beta == 0.0F)
        memset(grad, 0, (size_t)columns * sizeof *grad);
    for (int64_t b = 0; b < n_blocks; b++)
        hrf_loop_add(grad, partial + b * columns, columns);
}

/* ---- linear ---- */

struct hrf_tensor *hrf_tape_linear(struct hrf_tape *tape, struct hrf_tensor *x,
                                   struct hrf_tensor *w, struct hrf_tensor *b,
                                   enum hrf_tape_activation activation, float dropout)
{
    if (x == NULL)
        return NULL;
    assert(x->batch == 1 && x->columns == w->columns);
    const int64_t n = w->rows;
    struct hrf_tape_node *node = hrf_tape_append(
        tape, HRF_TAPE_LINEAR, (struct hrf_tensor *[]){ x, w, b }, 3, 1, x->rows, n);
    if (node == NULL)
        return NULL;
    node->activation = activation;
    node->dropout = hrf_tape_is_training(tape) ? dropout : 0.0F;
    node->key = node->dropout > 0.0F ? hrf_tape_draw_key(tape) : 0;
    float *y = node->output->data;
    hrf_tape_multiply(tape, 1, operand(x, x->data, false), operand(w, w->data, true), 1, 0, y);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < x->rows; i++) {
        if (b != NULL)
            hrf_loop_add(y + i * n, b->data, n);
        hrf_loop_activate(y + i * n, n, activation);
        if (node->dropout > 0.0F)
            hrf_loop_drop(y + i * n, y + i * n, node->dropout, node->key, i, n);
    }
    return node->output;
}

/* dy becomes the gradient before dropout and activation. y is the result with dropout: where a
 * number was not dropped, the activation's own result is y * (1 - p). */
static void undo_activation(const struct hrf_tape_node *node)
{
    const struct hrf_tensor *out = node->output;
    const int64_t n = out->columns;
    const float p = node->dropout;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < out->rows; i++) {
        float *dy = out->grad + i * n, *y = out->data + i * n;
        if (p > 0.0F) {
            hrf_loop_drop(dy, dy, p, node->key, i, n);
            hrf_loop_scaled(y, y, 1.0F - p, 0, n);
        }
        hrf_loop_slope(dy, y, n, node->activation);
    }
}

void hrf_tape_linear_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    struct hrf_tensor *x = node->inputs[0], *w = node->inputs[1], *b = node->inputs[2];
    struct hrf_tensor *out = node->output;
    float beta;
    if (node->activation != HRF_TAPE_PLAIN || node->dropout > 0.0F)
        undo_activation(node);
    float *dw = hrf_tape_grad(w, &beta);
    if (dw != NULL)
        hrf_tape_multiply(tape, 1, operand(out, out->grad, true), operand(x, x->data, false), 1,
                          beta, dw);
    if (b != NULL)
        add_column_sums(tape, out->grad, out->rows, out->columns, b);
    float *dx = hrf_tape_grad(x, &beta);
    if (dx != NULL)
        hrf_tape_multiply(tape, 1, operand(out, out->grad, false), operand(w, w->data, false), 1,
                          beta, dx);
}

/* ---- element by element ---- */

struct hrf_tensor *hrf_tape_gate(struct hrf_tape *tape, struct hrf_tensor *a, struct hrf_tensor *b)
{
    if (a == NULL || b == NULL)
        return NULL;
    struct hrf_tape_node *node = hrf_tape_append(
        tape, HRF_TAPE_GATE, (struct hrf_tensor *[]){ a, b }, 2, 1, a->rows, a->columns);
    if (node == NULL)
        return NULL;
    const int64_t n = a->columns;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a->rows; i++)
        hrf_loop_product(node->output->data + i * n, a->data + i * n, b->data + i * n, 0, n);
    return node->output;
}

void hrf_tape_gate_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    for (int side = 0; side < 2; side++) {
        struct hrf_tensor *t = node->inputs[side], *other = node->inputs[1 - side];
        const int64_t n = t->columns;
        float beta;
        float *grad = hrf_tape_grad(t, &beta);
        if (grad == NULL)
            continue;
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < t->rows; i++)
            hrf_loop_product(grad + i * n, node->output->grad + i * n, other->data + i * n, beta,
                             n);
    }
}

struct hrf_tensor *hrf_tape_add(struct hrf_tape *tape, struct hrf_tensor *a, float alpha,
                                struct hrf_tensor *b, float beta)
{
    if (a == NULL || b == NULL)
        return NULL;
    assert(hrf_tensor_count(a) == hrf_tensor_count(b));
    struct hrf_tape_node *node = hrf_tape_append(
        tape, HRF_TAPE_ADD, (struct hrf_tensor *[]){ a, b }, 2, a->batch, a->rows, a->columns);
    if (node == NULL)
        return NULL;
    node->alpha = alpha;
    node->beta = beta;
    const int64_t n = a->columns;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < a->batch * a->rows; i++) {
        float *y = node->output->data + i * n;
        hrf_loop_scaled(y, a->data + i * n, alpha, 0, n);
        hrf_loop_scaled(y, b->data + i * n, beta, 1, n);
    }
    return node->output;
}

void hrf_tape_add_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    for (int side = 0; side < 2; side++) {
        struct hrf_tensor *t = node->inputs[side];
        const int64_t n = t->columns;
        float beta;
        float *grad = hrf_tape_grad(t, &beta);
        if (grad == NULL)
            continue;
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < t->batch * t->rows; i++)
            hrf_loop_scaled(grad + i * n, node->output->grad + i * n,
                            side == 0 ? node->alpha : node->beta, beta, n);
    }
}

/* ---- products ---- */

struct hrf_tensor *hrf_tape_matmul(struct hrf_tape *tape, struct hrf_tensor *a,
                                   struct hrf_tensor *b, bool transpose_b, float alpha)
{
    if (a == NULL || b == NULL)
        return NULL;
    assert(a->batch == b->batch && a->columns == (transpose_b ? b->columns : b->rows));
    struct hrf_tape_node *node = hrf_tape_append(tape, HRF_TAPE_MATMUL,
                                                 (struct hrf_tensor *[]){ a, b }, 2, a->batch,
                                                 a->rows, transpose_b ? b->rows : b->columns);
    if (node == NULL)
        return NULL;
    node->transpose_b = transpose_b;
    node->alpha = alpha;
    hrf_tape_multiply(tape, a->batch, operand(a, a->data, false), operand(b, b->data, transpose_b),
                      alpha, 0, node->output->data);
    return node->output;
}

/* y = a b: da = dy b', db = a' dy. y = a b': da = dy b, db = dy' a. */
void hrf_tape_matmul_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    struct hrf_tensor *a = node->inputs[0], *b = node->inputs[1], *y = node->output;
    float beta;
    float *da = hrf_tape_grad(a, &beta);
    if (da != NULL)
        hrf_tape_multiply(tape, a->batch, operand(y, y->grad, false),
                          operand(b, b->data, !node->transpose_b), node->alpha, beta, da);
    float *db = hrf_tape_grad(b, &beta);
    if (db != NULL && node->transpose_b)
        hrf_tape_multiply(tape, a->batch, operand(y, y->grad, true), operand(a, a->data, false),
                          node->alpha, beta, db);
    else if (db != NULL)
        hrf_tape_multiply(tape, a->batch, operand(a, a->data, true), operand(y, y->grad, false),
                          node->alpha, beta, db);
}

struct hrf_tensor *hrf_tape_row_dot(struct hrf_tape *tape, struct hrf_tensor *x,
                                    struct hrf_tensor *w, struct hrf_tensor *b)
{
    if (x == NULL)
        return NULL;
    struct hrf_tape_node *node = hrf_tape_append(
        tape, HRF_TAPE_ROW_DOT, (struct hrf_tensor *[]){ x, w, b }, 3, 1, 1, x->rows);
    for (int64_t i = 0; node != NULL && i < x->rows; i++)
        node->output->data[i] = b->data[i] + hrf_loop_dot(x->data + i * x->columns,
                                                          w->data + i * x->columns, x->columns);
    return node != NULL ? node->output : NULL;
}

void hrf_tape_row_dot_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    struct hrf_tensor *x = node->inputs[0], *w = node->inputs[1], *b = node->inputs[2];
    const float *dy = node->output->grad;
    float beta_x, beta_w, beta_b;
    float *dx = hrf_tape_grad(x, &beta_x), *dw = hrf_tape_grad(w, &beta_w);
    float *db = hrf_tape_grad(b, &beta_b);
    for (int64_t i = 0; i < x->rows; i++) {
        const int64_t at = i * x->columns;
        if (dx != NULL)
            hrf_loop_scaled(dx + at, w->data + at, dy[i], beta_x, x->columns);
        if (dw != NULL)
            hrf_loop_scaled(dw + at, x->data + at, dy[i], beta_w, x->columns);
        if (db != NULL)
            db[i] = dy[i] + (beta_b == 0.0F ? 0.0F : db[i]);
    }
}

/* ---- softmax and the loss ---- */

struct hrf_tensor *hrf_tape_softmax(struct hrf_tape *tape, struct hrf_tensor *x)
{
    if (x == NULL)
        return NULL;
    struct hrf_tape_node *node = hrf_tape_append(tape, HRF_TAPE_SOFTMAX, &x, 1, x->batch, x->rows,
                                                 x->columns);
    if (node == NULL)
        return NULL;
    const int64_t n = x->columns;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < x->batch * x->rows; i++) {
        float *y = node->output->data + i * n;
        const float sum = hrf_loop_exp(y, x->data + i * n, hrf_loop_largest(x->data + i * n, n), n);
        hrf_loop_scaled(y, y, 1.0F / sum, 0, n);
    }
    return node->output;
}

/* dx = y (dy - sum of dy y) */
void hrf_tape_softmax_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    struct hrf_tensor *x = node->inputs[0], *out = node->output;
    const int64_t n = x->columns;
    float beta;
    float *grad = hrf_tape_grad(x, &beta);
    if (grad == NULL)
        return;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < x->batch * x->rows; i++) {
        const float *y = out->data + i * n, *dy = out->grad + i * n;
        const float sum = hrf_loop_dot(y, dy, n);
        for (int64_t j = 0; j < n; j++) {
            const float g = y[j] * (dy[j] - sum);
            grad[i * n + j] = beta == 0.0F ? g : grad[i * n + j] + g;
        }
    }
}

struct hrf_tensor *hrf_tape_cross_entropy(struct hrf_tape *tape, struct hrf_tensor *x,
                                          const int64_t *targets)
{
    if (x == NULL)
        return NULL;
    struct hrf_tape_node *node = hrf_tape_append(tape, HRF_TAPE_CROSS_ENTROPY, &x, 1, 1, 1, 1);
    float *saved = hrf_tape_take(tape, hrf_tensor_count(x), sizeof *saved);
    int64_t *rows = hrf_tape_take(tape, x->rows, sizeof *rows);
    if (node == NULL || saved == NULL || rows == NULL)
        return NULL;
    memcpy(rows, targets, (size_t)x->rows * sizeof *rows);
    node->saved = saved; /* the softmax */
    node->rows = rows;
    double loss = 0;
    for (int64_t i = 0; i < x->rows; i++) {
        const float *row = x->data + i * x->columns;
        const double largest = hrf_loop_largest(row, x->columns);
        double sum = 0;
        for (int64_t j = 0; j < x->columns; j++)
            sum += exp(row[j] - largest);
        for (int64_t j = 0; j < x->columns; j++)
            saved[i * x->columns + j] = (float)(exp(row[j] - largest) / sum);
        loss += log(sum) + largest - row[targets[i]];
    }
    node->output->data[0] = (float)(loss / (double)x->rows);
    return node->output;
}

void hrf_tape_cross_entropy_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    struct hrf_tensor *x = node->inputs[0];
    const float scale = node->output->grad[0] / (float)x->rows;
    float *grad = hrf_tape_grad_zeroed(x);
    for (int64_t i = 0; grad != NULL && i < hrf_tensor_count(x); i++)
        grad[i] += scale *
                   (node->saved[i] - (i % x->columns == node->rows[i / x->columns] ? 1.0F : 0.0F));
}
