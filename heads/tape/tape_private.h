/* tape_private.h - what the files of heads/tape share. */
#ifndef HRF_HEADS_TAPE_TAPE_PRIVATE_H
#define HRF_HEADS_TAPE_TAPE_PRIVATE_H

#include "heads/tape/tape.h"

/* Rows of one unit of work for a thread: fixed, so that sums do not depend on the threads. */
enum { HRF_TAPE_BLOCK = 128 };

/* A node and its output of this size, with a gradient if an input has one; NULL: the tape has
 * failed. */
struct hrf_tape_node *hrf_tape_append(struct hrf_tape *tape, enum hrf_tape_op op,
                                      struct hrf_tensor *const *inputs, int32_t n_inputs,
                                      int64_t batch, int64_t rows, int64_t columns);
/* Memory of the tape, aligned to 64 bytes; NULL: the tape has failed. */
void *hrf_tape_take(struct hrf_tape *tape, int64_t count, size_t size);
bool hrf_tape_is_training(const struct hrf_tape *tape);
uint64_t hrf_tape_draw_key(struct hrf_tape *tape); /* another one for each dropout */

/* The gradient of t before the first write (*beta 0) or after it (1). NULL: not wanted. */
float *hrf_tape_grad(struct hrf_tensor *t, float *beta);
/* The same, with zeros before the first write, for operators that write only a part. */
float *hrf_tape_grad_zeroed(struct hrf_tensor *t);

/* c = alpha * op(a) op(b) + beta * c on whole tensors; for gradients. */
struct hrf_tape_operand {
    const float *data;
    int64_t rows, columns; /* as stored */
    bool is_transposed;
};
void hrf_tape_multiply(struct hrf_tape *tape, int64_t batch, struct hrf_tape_operand a,
                       struct hrf_tape_operand b, float alpha, float beta, float *c);

typedef void hrf_tape_gradient(struct hrf_tape *tape, struct hrf_tape_node *node);
hrf_tape_gradient hrf_tape_linear_gradient, hrf_tape_gate_gradient, hrf_tape_matmul_gradient,
    hrf_tape_softmax_gradient, hrf_tape_transpose_gradient, hrf_tape_add_gradient,
    hrf_tape_gather_gradient, hrf_tape_reshape_gradient, hrf_tape_row_dot_gradient,
    hrf_tape_group_mean_gradient, hrf_tape_cross_entropy_gradient, hrf_tape_layer_norm_gradient,
    hrf_tape_square_gradient, hrf_tape_concat_gradient, hrf_tape_pad_front_gradient,
    hrf_tape_rows_gradient, hrf_tape_split_heads_gradient, hrf_tape_merge_heads_gradient,
    hrf_tape_inverse_start_gradient, hrf_tape_eye_minus_gradient, hrf_tape_token_conv_gradient,
    hrf_tape_grid_conv_gradient;

/* ---- loops over rows (loops.c) ---- */

/* A finalised hash of a 32-bit number, for draws. */
void hrf_loop_activate(float *y, int64_t n, enum hrf_tape_activation activation);
/* dy *= the activation's slope, from its result y. */
void hrf_loop_slope(float *dy, const float *y, int64_t n, enum hrf_tape_activation activation);
void hrf_loop_add(float *y, const float *x, int64_t n); /* y += x */
void hrf_loop_scaled(float *y, const float *x, float a, float beta,
                     int64_t n); /* y = a x + beta y */
void hrf_loop_product(float *y, const float *a, const float *b, float beta, int64_t n);
float hrf_loop_sum(const float *x, int64_t n);
float hrf_loop_dot(const float *a, const float *b, int64_t n);
float hrf_loop_largest(const float *x, int64_t n);
/* y = exp(x - largest), *sum their sum. */
float hrf_loop_exp(float *y, const float *x, float largest, int64_t n);
/* Numbers of a row that are drawn become 0, the others are divided by 1 - p. */
void hrf_loop_drop(float *y, const float *x, float p, uint64_t key, int64_t row, int64_t n);

#endif
