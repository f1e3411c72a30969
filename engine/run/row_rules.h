/* row_rules.h - which parts of a network can be computed on some of the rows of its input at a
 * time.
 *
 * A slide head's input is a bag, [N][D] with N open. A value with an axis of N rows, each of which
 * is made of the same row of the bag and of values without such an axis, is computed in blocks of
 * rows. A joint is a value that is made of all rows; its results of several blocks are joined into
 * that of all. An average by softmax weights over the rows is one, too: each block's is weighted by
 * its share of the sum of exponentials. Pure: knows no session and no file.
 */
#ifndef HRF_ENGINE_RUN_ROW_RULES_H
#define HRF_ENGINE_RUN_ROW_RULES_H

#include "engine/ir/op.h"

/* What is known of a value of the network, by its index. */
struct hrf_row_value {
    int32_t axis;    /* the one with N rows; -1: none */
    int32_t level;   /* so many passes over the bag come before it can be computed */
    int32_t softmax; /* it is linear in the weights of this one; -1: of none */
    int32_t branch;  /* with softmax: the axis of its branches; -1: it has one */
    bool varies;     /* made of N itself: not the same in a block as in the whole */
    int32_t joint;   /* -1: it is none */
};
/* A softmax over the rows. Its branches are the numbers that each row has. */
struct hrf_row_softmax {
    int32_t input, level;
    int64_t n_branches;
};
struct hrf_row_joint {
    int32_t value;
    enum hrf_joining how;
    int32_t softmax; /* HRF_JOIN_SOFTMAX */
    int32_t scores;  /* HRF_JOIN_SELECT_MAX: the value that it is chosen by */
};

struct hrf_row_rules {
    struct hrf_graph *probe; /* the network with its shapes for some number of rows */
    struct hrf_row_value *values;
    struct hrf_row_softmax *softmaxes;
    struct hrf_row_joint *joints;
    int32_t n_softmaxes, n_joints;
    int32_t n_passes;  /* over the bag */
    char why_not[256]; /* "": the network can be computed in blocks */
};
void hrf_row_rules_destroy(struct hrf_row_rules *rules);
HRF_DEFINE_AUTO(hrf_row_rules)

/* Finds the rules for embeddings of `width` numbers. A network that needs all rows at once is no
 * error: why_not names its first such node. */
HRF_CHECKED enum hrf_status hrf_row_rules_create(const struct hrf_graph *graph, int64_t width,
                                                 struct hrf_row_rules **out, struct hrf_error *err);

/* How the numbers of a value lie around an axis: [outer][size][inner]. Axis -1: size 1, inner all.
 */
struct hrf_row_layout {
    int64_t outer, size, inner;
};
struct hrf_row_layout hrf_row_layout_of(const struct hrf_shape *shape, int32_t axis);

/* Sets the shape of graph input 0 to n rows of `width` numbers. */
HRF_CHECKED enum hrf_status hrf_row_input_set(struct hrf_graph *graph, int64_t n, int64_t width,
                                              struct hrf_error *err);

#endif
