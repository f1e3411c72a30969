/* head_build.h - the graph of a head, which grows node by node; for this folder only.
 *
 * Errors stick: after the first one, everything returns HRF_NO_VALUE and takes it.
 */
#ifndef HRF_HEADS_MODEL_HEAD_BUILD_H
#define HRF_HEADS_MODEL_HEAD_BUILD_H

#include "heads/model/head.h"

enum { HRF_HEAD_MAX_INPUTS = 8 };
struct hrf_head_build {
    const struct hrf_head *head;
    struct hrf_graph *graph;
    const struct hrf_head_step *step;    /* NULL: the network of a file, without dropout */
    int32_t inputs[HRF_HEAD_MAX_INPUTS]; /* the bag, then the masks of dropout */
    int32_t n_inputs, n_made;
    enum hrf_status status;
    struct hrf_error *err;
};

/* The parameter of that name (printf's). */
int32_t hrf_head_parameter(struct hrf_head_build *b, const char *format, ...) HRF_PRINTF(2, 3);
/* A node with these attributes (NULL: the defaults); its output. */
int32_t hrf_head_node(struct hrf_head_build *b, enum hrf_op op, const int32_t *inputs,
                      int32_t n_inputs, const struct hrf_attributes *attributes);
#define HRF_NODE(b, op, attributes, ...)                                                           \
    hrf_head_node(b, op, (const int32_t[]){ __VA_ARGS__ },                                         \
                  sizeof((const int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t), attributes)
int32_t hrf_head_integers(struct hrf_head_build *b, const int64_t *values, int32_t n); /* [n] */
int32_t hrf_head_number(struct hrf_head_build *b, float number);                       /* rank 0 */
int32_t hrf_head_floats(struct hrf_head_build *b, const float *values, const int64_t *dims,
                        int32_t rank);
int32_t hrf_head_scaled(struct hrf_head_build *b, int32_t x, float factor); /* 1: x itself */
/* Of a matrix (rank 2), or of each matrix of a stack (rank 3). */
int32_t hrf_head_transposed(struct hrf_head_build *b, int32_t x, int32_t rank);
int32_t hrf_head_permuted(struct hrf_head_build *b, int32_t x, const int64_t *axes, int32_t rank);
int32_t hrf_head_reshaped(struct hrf_head_build *b, int32_t x, const int64_t *dims, int32_t rank);
int32_t hrf_head_reduced(struct hrf_head_build *b, enum hrf_op op, int32_t x, const int64_t *axes,
                         int32_t n, bool keeps_axes);
int32_t hrf_head_softmax(struct hrf_head_build *b, enum hrf_op op, int32_t x, int64_t axis);
int32_t hrf_head_concat(struct hrf_head_build *b, int32_t x, int32_t y, int64_t axis);
/* Elements [begin, end) along an axis; `begin` and `end` are values [1]. */
int32_t hrf_head_sliced(struct hrf_head_build *b, int32_t x, int32_t begin, int32_t end,
                        int64_t axis);
/* The same of known numbers; end INT64_MAX: all that follow. */
int32_t hrf_head_part(struct hrf_head_build *b, int32_t x, int64_t begin, int64_t end,
                      int64_t axis);
/* The length of an axis, [1]. */
int32_t hrf_head_length(struct hrf_head_build *b, int32_t x, int64_t axis);
/* x times "NAME.weight" transposed, plus "NAME.bias" if there is one. */
int32_t hrf_head_linear(struct hrf_head_build *b, const char *name, int32_t x);
/* While it trains, x [n_rows][width] with dropout. */
int32_t hrf_head_dropped(struct hrf_head_build *b, int32_t x, int64_t n_rows, int64_t width);
/* Sets the status unless one is set; always HRF_NO_VALUE. */
int32_t hrf_head_fail(struct hrf_head_build *b, enum hrf_status status);

/* What a head gives. */
struct hrf_head_outputs {
    int32_t logits;    /* [1][K] */
    int32_t attention; /* [1 or K][N]; HRF_NO_VALUE: it has none */
    int32_t terms;     /* [1][n]: more terms of the loss; HRF_NO_VALUE: none */
};
struct hrf_head_outputs hrf_transmil_build(struct hrf_head_build *b, int32_t bag);

/* Adds a parameter, whose numbers are drawn later. */
void hrf_head_declare(struct hrf_head *head, const char *name, const struct hrf_shape *shape,
                      enum hrf_head_start start, int64_t fan_in);
/* "NAME.weight" [outputs][inputs] and "NAME.bias" [outputs], as PyTorch's Linear. */
void hrf_head_declare_linear(struct hrf_head *head, const char *name, int64_t inputs,
                             int64_t outputs);
void hrf_transmil_declare(struct hrf_head *head);

#endif
