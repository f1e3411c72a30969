/* tape_transformer.c - the tape's operators for TransMIL: layer norm, heads, the pseudo-inverse of
 * Nystroem attention, convolutions over tokens and over the grid of patches.
 *
 * Sources: Shao et al., "TransMIL" (2021); Xiong et al., "Nystroemformer" (2021). */
#include "heads/tape/tape_private.h"

#include "base/min_max.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const float layer_norm_epsilon = 1e-5F; /* PyTorch's default */

/* ---- layer norm ---- */

struct hrf_tensor *hrf_tape_layer_norm(struct hrf_tape *tape, struct hrf_tensor *x,
                                       struct hrf_tensor *w, struct hrf_tensor *b)
{
    if (x == NULL)
        return NULL;
    const int64_t n = x->columns;
    struct hrf_tape_node *node = hrf_tape_append(
        tape, HRF_TAPE_LAYER_NORM, (struct hrf_tensor *[]){ x, w, b }, 3, 1, x->rows, n);
    float *saved = hrf_tape_take(tape, 2 * x->rows, sizeof *saved); /* mean, 1 / deviation */
    if (node == NULL || saved == NULL)
        return NULL;
    node->saved = saved;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < x->rows; i++) {
        const float *row = x->data + i * n;
        float *y = node->output->data + i * n;
        const float mean = hrf_loop_sum(row, n) / (float)n;
        for (int64_t j = 0; j < n; j++)
            y[j] = row[j] - mean;
        const float inverse = 1.0F / sqrtf(hrf_loop_dot(y, y, n) / (float)n + layer_norm_epsilon);
        for (int64_t j = 0; j < n; j++)
            y[j] = y[j] * inverse * w->data[j] + b->data[j];
        saved[2 * i] = mean;
        saved[2 * i + 1] = inverse;
    }
    return node->output;
}

/* With u = (x - mean) / deviation and g = dy w: dx = (g - mean of g - u * mean of g u) / deviation;
 * dw and db are sums over the rows, block by block. */
void hrf_tape_layer_norm_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    struct hrf_tensor *x = node->inputs[0], *w = node->inputs[1], *b = node->inputs[2];
    const int64_t n = x->columns, n_blocks = (x->rows + HRF_TAPE_BLOCK - 1) / HRF_TAPE_BLOCK;
    float *partial = hrf_tape_take(tape, n_blocks * 4 * n, sizeof *partial);
    float *dw = hrf_tape_grad_zeroed(w), *db = hrf_tape_grad_zeroed(b);
    float *dx = hrf_tape_grad_zeroed(x);
    if (partial == NULL)
        return;
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < n_blocks; block++) {
        float *sum_w = partial + block * 4 * n, *sum_b = sum_w + n, *u = sum_b + n, *g = u + n;
        memset(sum_w, 0, (size_t)(2 * n) * sizeof *sum_w);
        for (int64_t i = block * HRF_TAPE_BLOCK; i < hrf_min((block + 1) * HRF_TAPE_BLOCK, x->rows);
             i++) {
            const float *row = x->data + i * n, *dy = node->output->grad + i * n;
            const float mean = node->saved[2 * i], inverse = node->saved[2 * i + 1];
            for (int64_t j = 0; j < n; j++) {
                u[j] = (row[j] - mean) * inverse;
                g[j] = dy[j] * w->data[j];
                sum_w[j] += dy[j] * u[j];
                sum_b[j] += dy[j];
            }
            const float g_mean = hrf_loop_sum(g, n) / (float)n;
            const float gu_mean = hrf_loop_dot(g, u, n) / (float)n;
            for (int64_t j = 0; dx != NULL && j < n; j++)
                dx[i * n + j] += (g[j] - g_mean - u[j] * gu_mean) * inverse;
        }
    }
    for (int64_t block = 0; block < n_blocks; block++) {
        if (dw != NULL)
            hrf_loop_add(dw, partial + block * 4 * n, n);
        if (db != NULL)
            hrf_loop_add(db, partial + block * 4 * n + n, n);
    }
}

/* ---- heads ---- */

struct hrf_tensor *hrf_tape_split_heads(struct hrf_tape *tape, struct hrf_tensor *x, int64_t third,
                                        int64_t heads, float alpha)
{
    if (x == NULL)
        return NULL;
    const int64_t width = x->columns / 3, d = width / heads;
    struct hrf_tape_node *node = hrf_tape_append(tape, HRF_TAPE_SPLIT_HEADS, &x, 1, heads, x->rows,
                                                 d);
    if (node == NULL)
        return NULL;
    node->n[0] = third;
    node->n[1] = heads;
    node->alpha = alpha;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t h = 0; h < heads; h++)
            hrf_loop_scaled(node->output->data + (h * x->rows + i) * d,
                            x->data + i * x->columns + third * width + h * d, alpha, 0, d);
    return node->output;
}

void hrf_tape_split_heads_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    struct hrf_tensor *x = node->inputs[0];
    const int64_t width = x->columns / 3, heads = node->n[1], d = width / heads;
    float *grad = hrf_tape_grad_zeroed(x);
    if (grad == NULL)
        return;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t h = 0; h < heads; h++)
            hrf_loop_scaled(grad + i * x->columns + node->n[0] * width + h * d,
                            node->output->grad + (h * x->rows + i) * d, node->alpha, 1, d);
}

struct hrf_tensor *hrf_tape_merge_heads(struct hrf_tape *tape, struct hrf_tensor *x)
{
    if (x == NULL)
        return NULL;
    const int64_t d = x->columns, width = x->batch * d;
    struct hrf_tape_node *node = hrf_tape_append(tape, HRF_TAPE_MERGE_HEADS, &x, 1, 1, x->rows,
                                                 width);
    if (node == NULL)
        return NULL;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t h = 0; h < x->batch; h++)
            memcpy(node->output->data + i * width + h * d, x->data + (h * x->rows + i) * d,
                   (size_t)d * sizeof *x->data);
    return node->output;
}

void hrf_tape_merge_heads_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    struct hrf_tensor *x = node->inputs[0];
    const int64_t d = x->columns, width = x->batch * d;
    float beta;
    float *grad = hrf_tape_grad(x, &beta);
    if (grad == NULL)
        return;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t h = 0; h < x->batch; h++)
            hrf_loop_scaled(grad + (h * x->rows + i) * d, node->output->grad + i * width + h * d, 1,
                            beta, d);
}

/* ---- the pseudo-inverse ---- */

/* The largest sum of |x| over a row (or a column), over the whole batch, and where it is. */
struct extreme {
    float sum;
    int64_t matrix, index;
};

static struct extreme largest_sum(const struct hrf_tensor *x, bool of_rows)
{
    struct extreme best = { -1.0F, 0, 0 };
    const int64_t row_step = of_rows ? x->columns : 1, step = of_rows ? 1 : x->columns;
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t i = 0; i < (of_rows ? x->rows : x->columns); i++) {
            const float *line = x->data + b * x->rows * x->columns + i * row_step;
            float sum = 0;
            for (int64_t j = 0; j < (of_rows ? x->columns : x->rows); j++)
                sum += fabsf(line[j * step]);
            if (sum > best.sum)
                best = (struct extreme){ sum, b, i };
        }
    return best;
}

struct hrf_tensor *hrf_tape_inverse_start(struct hrf_tape *tape, struct hrf_tensor *x)
{
    if (x == NULL)
        return NULL;
    assert(x->rows == x->columns);
    const int64_t m = x->rows;
    struct hrf_tape_node *node = hrf_tape_append(tape, HRF_TAPE_INVERSE_START, &x, 1, x->batch, m,
                                                 m);
    if (node == NULL)
        return NULL;
    const float scale = 1.0F / (largest_sum(x, true).sum * largest_sum(x, false).sum);
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < m; j++)
                node->output->data[(b * m + j) * m + i] = x->data[(b * m + i) * m + j] * scale;
    return node->output;
}

/* z = x' / (r c): dx = dz' / (r c) - (sum of dz z) / r at the row of r, and the same for c. */
void hrf_tape_inverse_start_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    struct hrf_tensor *x = node->inputs[0];
    const struct hrf_tensor *z = node->output;
    const int64_t m = x->rows;
    const struct extreme row = largest_sum(x, true), column = largest_sum(x, false);
    const float scale = 1.0F / (row.sum * column.sum);
    float *grad = hrf_tape_grad_zeroed(x);
    if (grad == NULL)
        return;
    double share = 0; /* sum of dz z */
    for (int64_t i = 0; i < hrf_tensor_count(z); i++)
        share += (double)z->grad[i] * z->data[i];
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < m; j++)
                grad[(b * m + i) * m + j] += z->grad[(b * m + j) * m + i] * scale;
    for (int64_t j = 0; j < m; j++) {
        const int64_t in_row = (row.matrix * m + row.index) * m + j;
        const int64_t in_column = (column.matrix * m + j) * m + column.index;
        grad[in_row] -= copysignf((float)(share / row.sum), x->data[in_row]);
        grad[in_column] -= copysignf((float)(share / column.sum), x->data[in_column]);
    }
}

struct hrf_tensor *hrf_tape_eye_minus(struct hrf_tape *tape, float alpha, struct hrf_tensor *x)
{
    if (x == NULL)
        return NULL;
    const int64_t m = x->columns;
    struct hrf_tape_node *node = hrf_tape_append(tape, HRF_TAPE_EYE_MINUS, &x, 1, x->batch, m, m);
    if (node == NULL)
        return NULL;
    node->alpha = alpha;
    for (int64_t i = 0; i < x->batch * m; i++) {
        hrf_loop_scaled(node->output->data + i * m, x->data + i * m, -1, 0, m);
        node->output->data[i * m + i % m] += alpha;
    }
    return node != NULL ? node->output : NULL;
}

void hrf_tape_eye_minus_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    float beta;
    float *grad = hrf_tape_grad(node->inputs[0], &beta);
    if (grad != NULL)
        hrf_loop_scaled(grad, node->output->grad, -1, beta, hrf_tensor_count(node->output));
}

/* ---- convolutions ---- */

struct hrf_tensor *hrf_tape_token_conv(struct hrf_tape *tape, struct hrf_tensor *x,
                                       struct hrf_tensor *w)
{
    if (x == NULL)
        return NULL;
    const int64_t n = x->rows, d = x->columns, half = w->columns / 2;
    struct hrf_tape_node *node = hrf_tape_append(
        tape, HRF_TAPE_TOKEN_CONV, (struct hrf_tensor *[]){ x, w }, 2, x->batch, n, d);
    if (node == NULL)
        return NULL;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < x->batch * n; at++) {
        const int64_t h = at / n, i = at % n;
        float *y = node->output->data + at * d;
        memset(y, 0, (size_t)d * sizeof *y);
        for (int64_t t = hrf_max(0, half - i); t < hrf_min(w->columns, n + half - i); t++)
            hrf_loop_scaled(y, x->data + (at + t - half) * d, w->data[h * w->columns + t], 1, d);
    }
    return node->output;
}

void hrf_tape_token_conv_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    (void)tape;
    struct hrf_tensor *x = node->inputs[0], *w = node->inputs[1];
    const int64_t n = x->rows, d = x->columns, size = w->columns, half = size / 2;
    const float *dy = node->output->grad;
    float *dx = hrf_tape_grad_zeroed(x), *dw = hrf_tape_grad_zeroed(w);
    if (dx != NULL) {
#pragma omp parallel for schedule(static)
        for (int64_t at = 0; at < x->batch * n; at++) {
            const int64_t h = at / n, i = at % n;
            for (int64_t t = hrf_max(0, i + half - n + 1); t < hrf_min(size, i + half + 1); t++)
                hrf_loop_scaled(dx + at * d, dy + (at + half - t) * d, w->data[h * size + t], 1, d);
        }
    }
    if (dw == NULL)
        return;
#pragma omp parallel for schedule(dynamic)
    for (int64_t k = 0; k < x->batch * size; k++) {
        const int64_t h = k / size, t = k % size;
        const int64_t first = hrf_max(0, half - t), end = hrf_min(n, n + half - t);
        if (first < end)
            dw[k] += hrf_loop_dot(dy + (h * n + first) * d,
                                  x->data + (h * n + first + t - half) * d, (end - first) * d);
    }
}

/* One 7 x 7 kernel, [49][c], is the sum of the three and the identity. */
enum { SIDE = 7, TAPS = SIDE * SIDE };

struct hrf_tensor *hrf_tape_grid_conv(struct hrf_tape *tape, struct hrf_tensor *x,
                                      struct hrf_tensor *const weights[3],
                                      struct hrf_tensor *const biases[3])
{
    if (x == NULL)
        return NULL;
    const int64_t c = x->columns, side = (int64_t)llround(sqrt((double)x->rows));
    assert(side * side == x->rows);
    struct hrf_tape_node *node = hrf_tape_append(tape, HRF_TAPE_GRID_CONV,
                                                 (struct hrf_tensor *[]){ x, weights[0], biases[0],
                                                                          weights[1], biases[1],
                                                                          weights[2], biases[2] },
                                                 HRF_TAPE_MAX_INPUTS, 1, x->rows, c);
    float *kernel = hrf_tape_take(tape, (TAPS + 1) * c, sizeof *kernel);
    if (node == NULL || kernel == NULL)
        return NULL;
    node->n[0] = side;
    node->saved = kernel;
    memset(kernel, 0, (size_t)((TAPS + 1) * c) * sizeof *kernel);
    for (int64_t j = 0; j < c; j++)
        kernel[TAPS / 2 * c + j] = 1.0F;
    for (int64_t k = 0; k < 3; k++) {
        const int64_t size = SIDE - 2 * k;
        for (int64_t t = 0; t < size * size; t++)
            for (int64_t j = 0; j < c; j++)
                kernel[((t / size + k) * SIDE + t % size + k) * c + j] +=
                    weights[k]->data[j * size * size + t];
        hrf_loop_add(kernel + TAPS * c, biases[k]->data, c);
    }
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < x->rows; at++) {
        float *y = node->output->data + at * c;
        memcpy(y, kernel + TAPS * c, (size_t)c * sizeof *y);
        for (int64_t t = 0; t < TAPS; t++) {
            const int64_t row = at / side + t / SIDE - SIDE / 2;
            const int64_t column = at % side + t % SIDE - SIDE / 2;
            if (row >= 0 && row < side && column >= 0 && column < side)
                hrf_loop_product(y, x->data + (row * side + column) * c, kernel + t * c, 1, c);
        }
    }
    return node->output;
}

static void grid_input_gradient(const struct hrf_tape_node *node, float *dx)
{
    const int64_t c = node->output->columns, side = node->n[0];
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < side * side; at++)
        for (int64_t t = 0; t < TAPS; t++) {
            const int64_t row = at / side - t / SIDE + SIDE / 2;
            const int64_t column = at % side - t % SIDE + SIDE / 2;
            if (row >= 0 && row < side && column >= 0 && column < side)
                hrf_loop_product(dx + at * c, node->output->grad + (row * side + column) * c,
                                 node->saved + t * c, 1, c);
        }
}

/* dk [TAPS + 1][c]: of the whole kernel, and of the bias. */
static void grid_kernel_gradient(const struct hrf_tape_node *node, float *dk)
{
    const int64_t c = node->output->columns, side = node->n[0];
    const float *x = node->inputs[0]->data, *dy = node->output->grad;
    memset(dk, 0, (size_t)((TAPS + 1) * c) * sizeof *dk);
#pragma omp parallel for schedule(dynamic)
    for (int64_t t = 0; t <= TAPS; t++)
        for (int64_t at = 0; at < side * side; at++) {
            const int64_t row = at / side + t / SIDE - SIDE / 2;
            const int64_t column = at % side + t % SIDE - SIDE / 2;
            if (t == TAPS)
                hrf_loop_add(dk + t * c, dy + at * c, c);
            else if (row >= 0 && row < side && column >= 0 && column < side)
                hrf_loop_product(dk + t * c, dy + at * c, x + (row * side + column) * c, 1, c);
        }
}

void hrf_tape_grid_conv_gradient(struct hrf_tape *tape, struct hrf_tape_node *node)
{
    const int64_t c = node->output->columns;
    float *dx = hrf_tape_grad_zeroed(node->inputs[0]);
    float *dk = hrf_tape_take(tape, (TAPS + 1) * c, sizeof *dk);
    if (dk == NULL)
        return;
    if (dx != NULL)
        grid_input_gradient(node, dx);
    grid_kernel_gradient(node, dk);
    for (int64_t k = 0; k < 3; k++) {
        const int64_t size = SIDE - 2 * k;
        float *dw = hrf_tape_grad_zeroed(node->inputs[1 + 2 * k]);
        float *db = hrf_tape_grad_zeroed(node->inputs[2 + 2 * k]);
        for (int64_t t = 0; dw != NULL && t < size * size; t++)
            for (int64_t j = 0; j < c; j++)
                dw[j * size * size + t] += dk[((t / size + k) * SIDE + t % size + k) * c + j];
        if (db != NULL)
            hrf_loop_add(db, dk + TAPS * c, c);
    }
}
