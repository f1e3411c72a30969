/* gradient_private.h - what the rules of gradients are written with; for this folder only.
 *
 * A rule adds to the graph what computes the gradients to a node's inputs from that to its output.
 * The first failure ends everything: later calls do nothing, so that a rule does not ask.
 */
#ifndef HRF_ENGINE_PASSES_GRADIENT_GRADIENT_PRIVATE_H
#define HRF_ENGINE_PASSES_GRADIENT_GRADIENT_PRIVATE_H

#include "engine/ir/op.h"
#include "engine/passes/gradient/gradient.h"

struct hrf_backward {
    struct hrf_graph *graph;
    struct hrf_node node; /* whose inputs get gradients; a copy: the graph's array moves */
    int32_t y, dy;        /* its output, and the gradient of the loss to that */
    int32_t origin;       /* 1 + its number; 0: the loss is being made */
    int32_t *gradients;   /* of each value of the network; HRF_NO_VALUE: none yet */
    bool *is_wanted;      /* the value depends on weights */
    enum hrf_status status;
    struct hrf_error *err;
};
typedef void hrf_gradient_function(struct hrf_backward *b);

#define HRF_DECLARE_GRADIENT(RULE, function) hrf_gradient_function hrf_gradient_##function;
HRF_GRADIENT_RULES(HRF_DECLARE_GRADIENT)
#undef HRF_DECLARE_GRADIENT

/* The shape of a value, and that of input k of the node. */
struct hrf_shape hrf_backward_shape(const struct hrf_backward *b, int32_t value);
static inline struct hrf_shape hrf_backward_input_shape(const struct hrf_backward *b, int32_t k)
{
    return hrf_backward_shape(b, b->node.inputs[k]);
}
/* Whether input k of the node wants a gradient, and giving it one of the input's shape. */
bool hrf_backward_wants(const struct hrf_backward *b, int32_t k);
void hrf_backward_give(struct hrf_backward *b, int32_t k, int32_t gradient);
/* The value that `op` gives; attributes NULL: the defaults of the operator. */
int32_t hrf_backward_apply(struct hrf_backward *b, enum hrf_op op,
                           const struct hrf_attributes *attributes, const struct hrf_shape *shape,
                           const int32_t *inputs, int32_t n_inputs);
#define HRF_APPLY(b, op, attributes, shape, ...)                                                   \
    hrf_backward_apply(b, op, attributes, shape, (const int32_t[]){ __VA_ARGS__ },                 \
                       sizeof((const int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t))
/* The same of a function of one number, and of a pointwise operator of two values, of which one
 * broadcasts to the other. */
int32_t hrf_backward_unary(struct hrf_backward *b, enum hrf_op op, int32_t x);
int32_t hrf_backward_binary(struct hrf_backward *b, enum hrf_op op, int32_t x, int32_t z);
/* dy times the derivative at x of a function with these attributes; NULL: the defaults. */
int32_t hrf_backward_derivative(struct hrf_backward *b, enum hrf_op function,
                                const struct hrf_attributes *attributes, int32_t x, int32_t dy);
int32_t hrf_backward_constant(struct hrf_backward *b, enum hrf_dtype dtype,
                              const struct hrf_shape *shape, const void *data);
int32_t hrf_backward_scalar(struct hrf_backward *b, double number);
int32_t hrf_backward_reshape(struct hrf_backward *b, int32_t x, const struct hrf_shape *to);
int32_t hrf_backward_expand(struct hrf_backward *b, int32_t x, const struct hrf_shape *to);
int32_t hrf_backward_transpose(struct hrf_backward *b, int32_t x, const int64_t *axes);
int32_t hrf_backward_swap_last(struct hrf_backward *b, int32_t x); /* the last two axes */
/* REDUCE_SUM or REDUCE_MEAN over the axes that are set in `axes`, which stay with length 1. */
int32_t hrf_backward_reduce(struct hrf_backward *b, enum hrf_op op, int32_t x, uint32_t axes);
/* The sum of all that a value of the shape `to` was broadcast to. */
int32_t hrf_backward_sum_to(struct hrf_backward *b, int32_t x, const struct hrf_shape *to);
/* The gradient to x of its maximum or minimum over `axes`: elements that are equal to `extreme`
 * share dy, which has the shape of `extreme`, equally. */
int32_t hrf_backward_share_of_extreme(struct hrf_backward *b, int32_t x, int32_t extreme,
                                      int32_t dy, uint32_t axes);
/* The product of two stacks of matrices, of which one broadcasts to the other. */
int32_t hrf_backward_matmul(struct hrf_backward *b, int32_t u, int32_t v);
/* Sums dy by indices[n] along an axis of `length` (GATHER_GRADIENT). */
int32_t hrf_backward_scatter(struct hrf_backward *b, int32_t dy, int64_t axis,
                             const int64_t *indices, int64_t n, int64_t length);
/* Attributes of a CONV_TRANSPOSE that spreads windows over exactly rows x columns of input, also
 * where the windows do not reach the end of it, or reach beyond. */
struct hrf_attributes hrf_backward_spread(const struct hrf_attributes *conv,
                                          const struct hrf_shape *x, const struct hrf_shape *dy);
/* The gradient to the weights of a CONV with the node's attributes, from x to what has the gradient
 * dy. */
int32_t hrf_backward_weight_gradient(struct hrf_backward *b, int32_t x, int32_t dy,
                                     int32_t weights);
/* Ends everything: "node 'x' (Op): " and the text. */
void hrf_backward_refuse(struct hrf_backward *b, const char *format, ...) HRF_PRINTF(2, 3);

#endif
