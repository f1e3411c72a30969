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
    int32_t *gradients;   /* of each value of the network; HRF_NO_VALUE: none yet */
    bool *is_wanted;      /* the value depends on weights */
    enum hrf_status status;
    struct hrf_error *err;
};
typedef void hrf_gradient_function(struct hrf_backward *b);

hrf_gradient_function hrf_gradient_function_of_one, hrf_gradient_add, hrf_gradient_sub,
    hrf_gradient_mul, hrf_gradient_div, hrf_gradient_pow, hrf_gradient_extreme, hrf_gradient_prelu,
    hrf_gradient_where;
hrf_gradient_function hrf_gradient_conv, hrf_gradient_conv_transpose, hrf_gradient_gemm,
    hrf_gradient_matmul, hrf_gradient_attention;
hrf_gradient_function hrf_gradient_batch_norm, hrf_gradient_softmax, hrf_gradient_log_softmax,
    hrf_gradient_layer_norm, hrf_gradient_rms_norm, hrf_gradient_group_norm;
hrf_gradient_function hrf_gradient_max_pool, hrf_gradient_average_pool, hrf_gradient_global_mean,
    hrf_gradient_global_max, hrf_gradient_resize;
hrf_gradient_function hrf_gradient_view, hrf_gradient_concat, hrf_gradient_transpose,
    hrf_gradient_pad, hrf_gradient_gather, hrf_gradient_slice, hrf_gradient_expand,
    hrf_gradient_tile, hrf_gradient_depth_to_space, hrf_gradient_space_to_depth;
hrf_gradient_function hrf_gradient_reduce_mean, hrf_gradient_reduce_sum, hrf_gradient_reduce_l1,
    hrf_gradient_reduce_l2, hrf_gradient_reduce_sum_square, hrf_gradient_reduce_log_sum,
    hrf_gradient_reduce_log_sum_exp;

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
/* Sums dy by indices[n] along an axis of `length` (GATHER_GRADIENT). */
int32_t hrf_backward_scatter(struct hrf_backward *b, int32_t dy, int64_t axis,
                             const int64_t *indices, int64_t n, int64_t length);
/* Attributes of a CONV_TRANSPOSE that spreads windows over exactly rows x columns of input, also
 * where the windows do not reach the end of it, or reach beyond. */
struct hrf_attributes hrf_backward_spread(const struct hrf_attributes *conv,
                                          const struct hrf_shape *x, const struct hrf_shape *dy);
/* Ends everything: "node 'x' (Op): " and the text. */
void hrf_backward_refuse(struct hrf_backward *b, const char *format, ...) HRF_PRINTF(2, 3);

#endif
