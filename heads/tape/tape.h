/* tape.h - a calculation on matrices that remembers its steps, so that gradients can be computed
 * and the network be written down.
 *
 * Each function below computes its result at once and appends a node. hrf_tape_backward() then
 * walks the nodes in reverse. All tensors that a function returns belong to the tape and live until
 * hrf_tape_clear(); parameters belong to the caller and outlive it. Errors stick: after the first
 * one every function returns NULL and takes NULL, and hrf_tape_status() reports it. Results do not
 * depend on the number of threads. One thread uses a tape; its loops use OpenMP's.
 */
#ifndef HRF_HEADS_TAPE_TAPE_H
#define HRF_HEADS_TAPE_TAPE_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* `batch` matrices of rows x columns, dense. */
struct hrf_tensor {
    int64_t batch, rows, columns;
    float *data;
    float *grad;      /* of the loss; NULL: not wanted */
    bool has_grad;    /* grad has been written since the last clear */
    const char *name; /* of a parameter; NULL: computed, or the input */
};
static inline int64_t hrf_tensor_count(const struct hrf_tensor *t)
{
    return t->batch * t->rows * t->columns;
}

enum hrf_tape_op {
    HRF_TAPE_LINEAR,
    HRF_TAPE_GATE,
    HRF_TAPE_MATMUL,
    HRF_TAPE_SOFTMAX,
    HRF_TAPE_TRANSPOSE,
    HRF_TAPE_ADD,
    HRF_TAPE_GATHER,
    HRF_TAPE_PEAKS,
    HRF_TAPE_RESHAPE,
    HRF_TAPE_ROW_DOT,
    HRF_TAPE_GROUP_MEAN,
    HRF_TAPE_CROSS_ENTROPY,
    HRF_TAPE_LAYER_NORM,
    HRF_TAPE_SQUARE,
    HRF_TAPE_CONCAT,
    HRF_TAPE_PAD_FRONT,
    HRF_TAPE_ROWS,
    HRF_TAPE_SPLIT_HEADS,
    HRF_TAPE_MERGE_HEADS,
    HRF_TAPE_INVERSE_START,
    HRF_TAPE_EYE_MINUS,
    HRF_TAPE_TOKEN_CONV,
    HRF_TAPE_GRID_CONV,
    HRF_TAPE_DROPOUT,
    HRF_TAPE_N_OPS
};
enum hrf_tape_activation { HRF_TAPE_PLAIN, HRF_TAPE_RELU, HRF_TAPE_TANH, HRF_TAPE_SIGMOID };

/* Which rows ROWS takes. */
enum hrf_tape_range { HRF_TAPE_GIVEN, HRF_TAPE_FIRST, HRF_TAPE_LAST, HRF_TAPE_FIRST_OF_LAST };

enum { HRF_TAPE_MAX_INPUTS = 7 };
/* One step, as it is read to write the network down. */
struct hrf_tape_node {
    enum hrf_tape_op op;
    struct hrf_tensor *inputs[HRF_TAPE_MAX_INPUTS];
    struct hrf_tensor *output;
    enum hrf_tape_activation activation;
    enum hrf_tape_range range;
    bool transpose_b;
    int64_t n[2]; /* counts of the operator, named beside its function */
    float alpha, beta;
    float dropout; /* share of numbers that become 0 */
    uint64_t key;  /* of the draws of dropout */
    int64_t *rows; /* GATHER, PEAKS: which rows */
    float *saved;  /* what the operator keeps for its gradient */
    struct hrf_tape_node *next;
    struct hrf_tape_node *previous;
};

struct hrf_tape; /* opaque */
HRF_CHECKED enum hrf_status hrf_tape_create(struct hrf_tape **out, struct hrf_error *err);
void hrf_tape_destroy(struct hrf_tape *tape);
HRF_DEFINE_AUTO(hrf_tape)
/* Forgets all nodes and keeps the memory for the next calculation. `seed` sets the draws of
 * dropout; `is_training` false: dropout does nothing. */
void hrf_tape_clear(struct hrf_tape *tape, uint64_t seed, bool is_training);
HRF_CHECKED enum hrf_status hrf_tape_status(const struct hrf_tape *tape, struct hrf_error *err);
const struct hrf_tape_node *hrf_tape_first(const struct hrf_tape *tape);
/* Fills the gradients of everything that `loss` (one number) was computed from, except of what has
 * no grad. */
HRF_CHECKED enum hrf_status hrf_tape_backward(struct hrf_tape *tape, struct hrf_tensor *loss,
                                              struct hrf_error *err);

/* A tensor without gradient over the caller's numbers. */
struct hrf_tensor *hrf_tape_input(struct hrf_tape *tape, const float *data, int64_t rows,
                                  int64_t columns);
/* dropout(activation(x w' + b)), w [outputs][inputs] as PyTorch's Linear; b may be NULL. */
struct hrf_tensor *hrf_tape_linear(struct hrf_tape *tape, struct hrf_tensor *x,
                                   struct hrf_tensor *w, struct hrf_tensor *b,
                                   enum hrf_tape_activation activation, float dropout);
struct hrf_tensor *hrf_tape_gate(struct hrf_tape *tape, struct hrf_tensor *a,
                                 struct hrf_tensor *b); /* a * b, element by element */
/* alpha * a b, or alpha * a b' with `transpose_b`, for each matrix of the batch. */
struct hrf_tensor *hrf_tape_matmul(struct hrf_tape *tape, struct hrf_tensor *a,
                                   struct hrf_tensor *b, bool transpose_b, float alpha);
struct hrf_tensor *hrf_tape_softmax(struct hrf_tape *tape, struct hrf_tensor *x); /* of each row */
struct hrf_tensor *hrf_tape_transpose(struct hrf_tape *tape, struct hrf_tensor *x);
struct hrf_tensor *hrf_tape_add(struct hrf_tape *tape, struct hrf_tensor *a, float alpha,
                                struct hrf_tensor *b, float beta); /* alpha a + beta b */
/* Rows of x by number, each any number of times. */
struct hrf_tensor *hrf_tape_gather(struct hrf_tape *tape, struct hrf_tensor *x, const int64_t *rows,
                                   int64_t n);
/* Of each column of `scores` [n][k], the row of x [n][d] where it is highest (the first of equals):
 * [k][d]. No gradient flows into the scores. */
struct hrf_tensor *hrf_tape_peaks(struct hrf_tape *tape, struct hrf_tensor *x,
                                  struct hrf_tensor *scores);
/* The same numbers as one matrix of `rows` (n[0]) rows. */
struct hrf_tensor *hrf_tape_reshape(struct hrf_tape *tape, struct hrf_tensor *x, int64_t rows);
/* [1][k]: for each row of x [k][d] its product with that row of w, plus b[k]. */
struct hrf_tensor *hrf_tape_row_dot(struct hrf_tape *tape, struct hrf_tensor *x,
                                    struct hrf_tensor *w, struct hrf_tensor *b);
/* The means of `groups` (n[0]) equal runs of consecutive rows. */
struct hrf_tensor *hrf_tape_group_mean(struct hrf_tape *tape, struct hrf_tensor *x, int64_t groups);
/* The mean over the rows of x of -log softmax(x)[target of the row]: one number. */
struct hrf_tensor *hrf_tape_cross_entropy(struct hrf_tape *tape, struct hrf_tensor *x,
                                          const int64_t *targets);
struct hrf_tensor *hrf_tape_dropout(struct hrf_tape *tape, struct hrf_tensor *x, float dropout);

/* ---- for transformers ---- */

/* Of each row, epsilon 1e-5. */
struct hrf_tensor *hrf_tape_layer_norm(struct hrf_tape *tape, struct hrf_tensor *x,
                                       struct hrf_tensor *w, struct hrf_tensor *b);
/* Rows of x and then the first ones again, up to the next square number: n[0] is its root. */
struct hrf_tensor *hrf_tape_square(struct hrf_tape *tape, struct hrf_tensor *x);
struct hrf_tensor *hrf_tape_concat(struct hrf_tape *tape, struct hrf_tensor *a,
                                   struct hrf_tensor *b); /* rows of a, then of b */
/* Rows of zeros in front, up to a multiple of n[0]. */
struct hrf_tensor *hrf_tape_pad_front(struct hrf_tape *tape, struct hrf_tensor *x,
                                      int64_t multiple);
/* Rows from `first` (n[0]) on: n[1] of them, or with n < 0 all that follow. */
struct hrf_tensor *hrf_tape_rows(struct hrf_tape *tape, struct hrf_tensor *x, int64_t first,
                                 int64_t n);
/* As many of the first rows, or of the last ones, as `like` (the second input) has. */
struct hrf_tensor *hrf_tape_rows_like(struct hrf_tape *tape, struct hrf_tensor *x,
                                      struct hrf_tensor *like, enum hrf_tape_range range);
/* Only the first of the last rows, of as many as `like` has. */
struct hrf_tensor *hrf_tape_first_of_last(struct hrf_tape *tape, struct hrf_tensor *x,
                                          struct hrf_tensor *like);
/* Columns [third * c, (third + 1) * c) of x [n][3 c] as [heads][n][c / heads], times alpha;
 * n[0] = third, n[1] = heads. */
struct hrf_tensor *hrf_tape_split_heads(struct hrf_tape *tape, struct hrf_tensor *x, int64_t third,
                                        int64_t heads, float alpha);
struct hrf_tensor *hrf_tape_merge_heads(struct hrf_tape *tape, struct hrf_tensor *x);
/* Where the iteration to the pseudo-inverse starts: x' / (largest row sum * largest column sum of
 * |x| over the whole batch). */
struct hrf_tensor *hrf_tape_inverse_start(struct hrf_tape *tape, struct hrf_tensor *x);
struct hrf_tensor *hrf_tape_eye_minus(struct hrf_tape *tape, float alpha,
                                      struct hrf_tensor *x); /* alpha * identity - x */
/* Along the rows of each matrix h of x, by w[h], of odd length; zeros around. */
struct hrf_tensor *hrf_tape_token_conv(struct hrf_tape *tape, struct hrf_tensor *x,
                                       struct hrf_tensor *w);
/* x [side * side][c] as an image: x + its depth-wise convolutions by w7, w5 and w3 [c][7 * 7] and
 * so on, plus their biases; n[0] = side. */
struct hrf_tensor *hrf_tape_grid_conv(struct hrf_tape *tape, struct hrf_tensor *x,
                                      struct hrf_tensor *const weights[3],
                                      struct hrf_tensor *const biases[3]);

#endif
