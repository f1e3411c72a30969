/* tape.c - the tape's memory and nodes, and the walk back. */
#include "heads/tape/tape_private.h"

#include "base/host.h"
#include "base/min_max.h"
#include "base/random.h"
#include "heads/tape/matrix.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK_BYTES = 64 << 20, ALIGNMENT = 64, MEGABYTE = 1000000 };

struct chunk {
    struct chunk *next;
    char *bytes;
    size_t size, used;
};

struct hrf_tape {
    struct chunk *chunks, *current;
    struct hrf_tape_node *first, *last;
    struct hrf_random random;
    bool is_training;
    struct hrf_error failed; /* status HRF_OK: it has not */
};

void hrf_tape_create(struct hrf_tape **out)
{
    struct hrf_tape *tape = hrf_calloc(1, sizeof *tape);
    *out = tape;
}

void hrf_tape_destroy(struct hrf_tape *tape)
{
    for (struct chunk *c = tape != NULL ? tape->chunks : NULL, *next; c != NULL; c = next) {
        next = c->next;
        hrf_free(c->bytes);
        hrf_free(c);
    }
    hrf_free(tape);
}

void hrf_tape_clear(struct hrf_tape *tape, uint64_t seed, bool is_training)
{
    for (struct chunk *c = tape->chunks; c != NULL; c = c->next)
        c->used = 0;
    tape->current = tape->chunks;
    tape->first = tape->last = NULL;
    tape->random = hrf_random_init(seed);
    tape->is_training = is_training;
    tape->failed.status = HRF_OK;
}

static void tape_fail(struct hrf_tape *tape, enum hrf_status status, const char *text)
{
    if (tape->failed.status == HRF_OK)
        hrf_error_set(&tape->failed, status, "%s", text);
}

enum hrf_status hrf_tape_status(const struct hrf_tape *tape, struct hrf_error *err)
{
    return tape->failed.status == HRF_OK
               ? HRF_OK
               : hrf_error_set(err, tape->failed.status, "%s", tape->failed.text);
}

const struct hrf_tape_node *hrf_tape_first(const struct hrf_tape *tape)
{
    return tape->first;
}

bool hrf_tape_is_training(const struct hrf_tape *tape)
{
    return tape->is_training;
}

uint64_t hrf_tape_draw_key(struct hrf_tape *tape)
{
    return hrf_random_u64(&tape->random);
}

/* ---- memory ---- */

int64_t hrf_tape_bytes(const struct hrf_tape *tape)
{
    size_t n = 0;
    for (const struct chunk *c = tape->chunks; c != NULL; c = c->next)
        n += c->used;
    return (int64_t)n;
}

static struct chunk *add_chunk(struct hrf_tape *tape, size_t n_bytes)
{
    const size_t size = n_bytes > CHUNK_BYTES ? n_bytes : CHUNK_BYTES;
    const int64_t left = hrf_process_memory_left();
    char *bytes = size <= (uint64_t)left ? hrf_alloc_aligned(size, ALIGNMENT) : NULL;
    if (bytes == NULL) {
        char text[160];
        snprintf(text, sizeof text,
                 "the calculation of a bag has taken %lld MB and needs %lld MB more, and %lld MB "
                 "of memory are left",
                 (long long)(hrf_tape_bytes(tape) / MEGABYTE), (long long)(size / MEGABYTE),
                 (long long)(left / MEGABYTE));
        tape_fail(tape, HRF_E_NOMEM, text);
        return NULL;
    }
    struct chunk *c = hrf_calloc(1, sizeof *c);
    c->size = size;
    c->bytes = bytes;
    struct chunk **end = &tape->chunks;
    while (*end != NULL)
        end = &(*end)->next;
    *end = c;
    return c;
}

void *hrf_tape_take(struct hrf_tape *tape, int64_t count, size_t size)
{
    int64_t wanted = 0;
    if (tape->failed.status != HRF_OK)
        return NULL;
    if (!hrf_checked_mul(count, (int64_t)size, &wanted))
        wanted = INT64_MAX / 2;
    const size_t n_bytes = hrf_round_up((size_t)wanted, ALIGNMENT);
    while (tape->current != NULL && tape->current->size - tape->current->used < n_bytes)
        tape->current = tape->current->next;
    if (tape->current == NULL)
        tape->current = add_chunk(tape, n_bytes);
    if (tape->current == NULL)
        return NULL;
    void *memory = tape->current->bytes + tape->current->used;
    tape->current->used += n_bytes;
    return memory;
}

static struct hrf_tensor *take_tensor(struct hrf_tape *tape, int64_t batch, int64_t rows,
                                      int64_t columns)
{
    struct hrf_tensor *t = hrf_tape_take(tape, 1, sizeof *t);
    if (t != NULL)
        *t = (struct hrf_tensor){ .batch = batch, .rows = rows, .columns = columns };
    return t;
}

struct hrf_tensor *hrf_tape_input(struct hrf_tape *tape, const float *data, int64_t rows,
                                  int64_t columns)
{
    struct hrf_tensor *t = take_tensor(tape, 1, rows, columns);
    if (t == NULL)
        return NULL;
    union {
        const float *borrowed;
        float *data;
    } u = {
        .borrowed = data
    }; /* never written: it has no gradient, and no operator works in place */
    t->data = u.data;
    return t;
}

struct hrf_tape_node *hrf_tape_append(struct hrf_tape *tape, enum hrf_tape_op op,
                                      struct hrf_tensor *const *inputs, int32_t n_inputs,
                                      int64_t batch, int64_t rows, int64_t columns)
{
    bool wants_grad = false;
    if (tape->failed.status != HRF_OK)
        return NULL;
    for (int32_t i = 0; i < n_inputs; i++)
        wants_grad = wants_grad || (inputs[i] != NULL && inputs[i]->grad != NULL);
    struct hrf_tape_node *node = hrf_tape_take(tape, 1, sizeof *node);
    struct hrf_tensor *output = take_tensor(tape, batch, rows, columns);
    float *data = hrf_tape_take(tape, batch * rows * columns, sizeof *data), *grad = NULL;
    if (wants_grad && tape->is_training)
        grad = hrf_tape_take(tape, batch * rows * columns, sizeof *grad);
    if (tape->failed.status != HRF_OK)
        return NULL;
    *node = (struct hrf_tape_node){ .op = op, .output = output, .previous = tape->last };
    if (n_inputs > 0)
        memcpy(node->inputs, inputs, (size_t)n_inputs * sizeof(struct hrf_tensor *));
    output->data = data;
    output->grad = grad;
    if (tape->last != NULL)
        tape->last->next = node;
    else
        tape->first = node;
    tape->last = node;
    return node;
}

/* ---- gradients ---- */

float *hrf_tape_grad(struct hrf_tensor *t, float *beta)
{
    *beta = t->has_grad ? 1.0F : 0.0F;
    if (t->grad != NULL)
        t->has_grad = true;
    return t->grad;
}

float *hrf_tape_grad_zeroed(struct hrf_tensor *t)
{
    float beta;
    float *grad = hrf_tape_grad(t, &beta);
    if (grad != NULL && beta == 0.0F)
        memset(grad, 0, (size_t)hrf_tensor_count(t) * sizeof *grad);
    return grad;
}

void hrf_tape_multiply(struct hrf_tape *tape, int64_t batch, struct hrf_tape_operand a,
                       struct hrf_tape_operand b, float alpha, float beta, float *c)
{
    const int64_t m = a.is_transposed ? a.columns : a.rows;
    const int64_t n = b.is_transposed ? b.rows : b.columns;
    const struct hrf_product_request request = { .transpose_a = a.is_transposed,
                                                 .transpose_b = b.is_transposed,
                                                 .m = m,
                                                 .n = n,
                                                 .k = a.is_transposed ? a.rows : a.columns,
                                                 .alpha = alpha,
                                                 .beta = beta,
                                                 .a = a.data,
                                                 .b = b.data,
                                                 .c = c,
                                                 .lda = a.columns,
                                                 .ldb = b.columns,
                                                 .ldc = n,
                                                 .batch = batch,
                                                 .step_a = a.rows * a.columns,
                                                 .step_b = b.rows * b.columns,
                                                 .step_c = m * n };
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_matrix_multiply(&request, &err) != HRF_OK)
        tape_fail(tape, err.status, err.text);
}

static hrf_tape_gradient *const gradients[HRF_TAPE_N_OPS] = {
    [HRF_TAPE_LINEAR] = hrf_tape_linear_gradient,
    [HRF_TAPE_GATE] = hrf_tape_gate_gradient,
    [HRF_TAPE_MATMUL] = hrf_tape_matmul_gradient,
    [HRF_TAPE_SOFTMAX] = hrf_tape_softmax_gradient,
    [HRF_TAPE_TRANSPOSE] = hrf_tape_transpose_gradient,
    [HRF_TAPE_ADD] = hrf_tape_add_gradient,
    [HRF_TAPE_GATHER] = hrf_tape_gather_gradient,
    [HRF_TAPE_PEAKS] = hrf_tape_gather_gradient,
    [HRF_TAPE_RESHAPE] = hrf_tape_reshape_gradient,
    [HRF_TAPE_ROW_DOT] = hrf_tape_row_dot_gradient,
    [HRF_TAPE_GROUP_MEAN] = hrf_tape_group_mean_gradient,
    [HRF_TAPE_CROSS_ENTROPY] = hrf_tape_cross_entropy_gradient,
    [HRF_TAPE_LAYER_NORM] = hrf_tape_layer_norm_gradient,
    [HRF_TAPE_SQUARE] = hrf_tape_square_gradient,
    [HRF_TAPE_CONCAT] = hrf_tape_concat_gradient,
    [HRF_TAPE_PAD_FRONT] = hrf_tape_pad_front_gradient,
    [HRF_TAPE_ROWS] = hrf_tape_rows_gradient,
    [HRF_TAPE_SPLIT_HEADS] = hrf_tape_split_heads_gradient,
    [HRF_TAPE_MERGE_HEADS] = hrf_tape_merge_heads_gradient,
    [HRF_TAPE_INVERSE_START] = hrf_tape_inverse_start_gradient,
    [HRF_TAPE_EYE_MINUS] = hrf_tape_eye_minus_gradient,
    [HRF_TAPE_TOKEN_CONV] = hrf_tape_token_conv_gradient,
    [HRF_TAPE_GRID_CONV] = hrf_tape_grid_conv_gradient,
};

enum hrf_status hrf_tape_backward(struct hrf_tape *tape, struct hrf_tensor *loss,
                                  struct hrf_error *err)
{
    HRF_TRY(hrf_tape_status(tape, err));
    if (loss == NULL || loss->grad == NULL || hrf_tensor_count(loss) != 1)
        return hrf_error_set(err, HRF_E_BUG, "the loss is no number that parameters lead to");
    loss->grad[0] = 1.0F;
    loss->has_grad = true;
    for (struct hrf_tape_node *n = tape->last; n != NULL; n = n->previous)
        if (n->output->has_grad) /* else the loss does not depend on it */
            gradients[n->op](tape, n);
    return hrf_tape_status(tape, err);
}
