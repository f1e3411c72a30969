/* tape.h - reverse-mode automatic differentiation: a calculation on matrices that records its
 * steps, from which gradients are computed and the network is exported.
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
    float *grad;      /* gradient of the loss; NULL: none is wanted */
    bool has_grad;    /* grad has been written since the last clear */
    const char *name; /* a parameter's; NULL for the input and for computed tensors */
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
    HRF_TAPE_N_OPS
};
enum hrf_tape_activation { HRF_TAPE_PLAIN, HRF_TAPE_RELU, HRF_TAPE_TANH, HRF_TAPE_SIGMOID };

/* Which rows the operator ROWS takes. */
enum hrf_tape_range { HRF_TAPE_GIVEN, HRF_TAPE_FIRST, HRF_TAPE_LAST, HRF_TAPE_FIRST_OF_LAST };

enum { HRF_TAPE_MAX_INPUTS = 7 };
/* One recorded step; the export reads it. */
struct hrf_tape_node {
    enum hrf_tape_op op;
    struct hrf_tensor *inputs[HRF_TAPE_MAX_INPUTS];
    struct hrf_tensor *output;
    enum hrf_tape_activation activation;
    enum hrf_tape_range range;
    bool transpose_b;
    int64_t n[2]; /* counts of the operator; the comment of its function says which */
    float alpha, beta;
    float dropout; /* share of numbers that become 0 */
    uint64_t key;  /* seeds the draws of dropout */
    int64_t *rows; /* the rows that GATHER and PEAKS take */
    float *saved;  /* what the operator keeps for its gradient */
    struct hrf_tape_node *next;
    struct hrf_tape_node *previous;
};

struct hrf_tape; /* opaque */
void hrf_tape_create(struct hrf_tape **out);
void hrf_tape_destroy(struct hrf_tape *tape);
/* Bytes that the present calculation has taken. */
int64_t hrf_tape_bytes(const struct hrf_tape *tape);
HRF_DEFINE_AUTO(hrf_tape)
/* Removes all nodes and keeps the memory for the next calculation. `seed` determines the draws of
 * dropout; without `is_training`, dropout does nothing. */
void hrf_tape_clear(struct hrf_tape *tape, uint64_t seed, bool is_training);
HRF_CHECKED enum hrf_status hrf_tape_status(const struct hrf_tape *tape, struct hrf_error *err);
const struct hrf_tape_node *hrf_tape_first(const struct hrf_tape *tape);
/* Computes the gradients of all tensors that `loss` (one number) was computed from and that have a
 * `grad`. */
HRF_CHECKED enum hrf_status hrf_tape_backward(struct hrf_tape *tape, struct hrf_tensor *loss,
                                              struct hrf_error *err);

/* Returns a tensor without gradient over the caller's numbers. */
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
/* Takes n rows of x by their numbers; a row may be taken several times. */
struct hrf_tensor *hrf_tape_gather(struct hrf_tape *tape, struct hrf_tensor *x, const int64_t *rows,
                                   int64_t n);
/* Takes, for each column of `scores` [n][k], the row of x [n][d] at which the column is highest
 * (the first of equals): [k][d]. No gradient flows into the scores. */
struct hrf_tensor *hrf_tape_peaks(struct hrf_tape *tape, struct hrf_tensor *x,
                                  struct hrf_tensor *scores);
/* Returns the same numbers as one matrix of `rows` (n[0]) rows. */
struct hrf_tensor *hrf_tape_reshape(struct hrf_tape *tape, struct hrf_tensor *x, int64_t rows);
/* Returns [1][k]: the product of each row of x [k][d] with the same row of w, plus b[k]. */
struct hrf_tensor *hrf_tape_row_dot(struct hrf_tape *tape, struct hrf_tensor *x,
                                    struct hrf_tensor *w, struct hrf_tensor *b);
/* Returns the means of `groups` (n[0]) groups of consecutive rows, all of the same size. */
struct hrf_tensor *hrf_tape_group_mean(struct hrf_tape *tape, struct hrf_tensor *x, int64_t groups);
/* Returns one number, the mean of -log softmax(x)[target of the row] over the rows of x. */
struct hrf_tensor *hrf_tape_cross_entropy(struct hrf_tape *tape, struct hrf_tensor *x,
                                          const int64_t *targets);

/* ---- for transformers ---- */

/* Normalises each row, with an epsilon of 1e-5. */
struct hrf_tensor *hrf_tape_layer_norm(struct hrf_tape *tape, struct hrf_tensor *x,
                                       struct hrf_tensor *w, struct hrf_tensor *b);
/* Returns the rows of x followed by its first rows again, up to the next square number of rows;
 * n[0] is the root of that number. */
struct hrf_tensor *hrf_tape_square(struct hrf_tape *tape, struct hrf_tensor *x);
struct hrf_tensor *hrf_tape_concat(struct hrf_tape *tape, struct hrf_tensor *a,
                                   struct hrf_tensor *b); /* rows of a, then of b */
/* Puts rows of zeros in front, up to a multiple (n[0]) of rows. */
struct hrf_tensor *hrf_tape_pad_front(struct hrf_tape *tape, struct hrf_tensor *x,
                                      int64_t multiple);
/* Takes n (n[1]) rows from `first` (n[0]) on, or all that follow if n < 0. */
struct hrf_tensor *hrf_tape_rows(struct hrf_tape *tape, struct hrf_tensor *x, int64_t first,
                                 int64_t n);
/* Takes as many of the first or last rows as `like` (the second input) has. */
struct hrf_tensor *hrf_tape_rows_like(struct hrf_tape *tape, struct hrf_tensor *x,
                                      struct hrf_tensor *like, enum hrf_tape_range range);
/* Takes the first of the last rows, of which there are as many as `like` has. */
struct hrf_tensor *hrf_tape_first_of_last(struct hrf_tape *tape, struct hrf_tensor *x,
                                          struct hrf_tensor *like);
/* Columns [third * c, (third + 1) * c) of x [n][3 c] as [heads][n][c / heads], times alpha;
 * n[0] = third, n[1] = heads. */
struct hrf_tensor *hrf_tape_split_heads(struct hrf_tape *tape, struct hrf_tensor *x, int64_t third,
                                        int64_t heads, float alpha);
struct hrf_tensor *hrf_tape_merge_heads(struct hrf_tape *tape, struct hrf_tensor *x);
/* Returns the start of the iteration for the pseudo-inverse: x' / (largest row sum * largest column
 * sum of |x| over the whole batch). */
struct hrf_tensor *hrf_tape_inverse_start(struct hrf_tape *tape, struct hrf_tensor *x);
struct hrf_tensor *hrf_tape_eye_minus(struct hrf_tape *tape, float alpha,
                                      struct hrf_tensor *x); /* alpha * identity - x */
/* Convolves each matrix h of x along its rows with w[h], whose length is odd, with zero padding. */
struct hrf_tensor *hrf_tape_token_conv(struct hrf_tape *tape, struct hrf_tensor *x,
                                       struct hrf_tensor *w);
/* Takes x [side * side][c] as an image and returns x + its depth-wise convolutions with w7 [c][7 *
 * 7], w5 [c][5 * 5] and w3 [c][3 * 3], plus their biases; n[0] = side. */
struct hrf_tensor *hrf_tape_grid_conv(struct hrf_tape *tape, struct hrf_tensor *x,
                                      struct hrf_tensor *const weights[3],
                                      struct hrf_tensor *const biases[3]);

#endif
