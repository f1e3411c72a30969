/* gradient_reduce.c - gradients of reductions over any axes. */
#include "engine/passes/gradient/gradient_private.h"

/* `value`, of the output's shape, with the reduced axes as axes of length 1. */
static int32_t kept(struct hrf_backward *b, int32_t value)
{
    struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    for (int32_t i = 0; i < b->node.attributes.n_axes; i++)
        shape.dims[b->node.attributes.axes[i]] = 1;
    if (b->node.attributes.n_axes == 0)
        for (int32_t i = 0; i < shape.rank; i++)
            shape.dims[i] = 1;
    return hrf_backward_reshape(b, value, &shape);
}

void hrf_gradient_reduce_sum(struct hrf_backward *b)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    hrf_backward_give(b, 0, hrf_backward_expand(b, kept(b, b->dy), &shape));
}

void hrf_gradient_reduce_mean(struct hrf_backward *b)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    const struct hrf_shape of_y = hrf_backward_shape(b, b->y);
    const double share = (double)hrf_shape_count(&of_y) / (double)hrf_shape_count(&shape);
    const int32_t divided = hrf_backward_binary(b, HRF_OP_MUL, kept(b, b->dy),
                                                hrf_backward_scalar(b, share));
    hrf_backward_give(b, 0, hrf_backward_expand(b, divided, &shape));
}

/* dy sign(x). */
void hrf_gradient_reduce_l1(struct hrf_backward *b)
{
    const int32_t sign = hrf_backward_unary(b, HRF_OP_SIGN, b->node.inputs[0]);
    hrf_backward_give(b, 0, hrf_backward_binary(b, HRF_OP_MUL, sign, kept(b, b->dy)));
}

/* dy x / y. */
void hrf_gradient_reduce_l2(struct hrf_backward *b)
{
    const int32_t share = hrf_backward_binary(b, HRF_OP_DIV, kept(b, b->dy), kept(b, b->y));
    hrf_backward_give(b, 0, hrf_backward_binary(b, HRF_OP_MUL, b->node.inputs[0], share));
}

/* 2 dy x. */
void hrf_gradient_reduce_sum_square(struct hrf_backward *b)
{
    const int32_t twice = hrf_backward_binary(b, HRF_OP_MUL, kept(b, b->dy),
                                              hrf_backward_scalar(b, 2));
    hrf_backward_give(b, 0, hrf_backward_binary(b, HRF_OP_MUL, b->node.inputs[0], twice));
}

/* dy / exp(y), the sum. */
void hrf_gradient_reduce_log_sum(struct hrf_backward *b)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    const int32_t share = hrf_backward_binary(b, HRF_OP_DIV, b->dy,
                                              hrf_backward_unary(b, HRF_OP_EXP, b->y));
    hrf_backward_give(b, 0, hrf_backward_expand(b, kept(b, share), &shape));
}

/* dy exp(x - y). */
void hrf_gradient_reduce_log_sum_exp(struct hrf_backward *b)
{
    const int32_t less = hrf_backward_binary(b, HRF_OP_SUB, b->node.inputs[0], kept(b, b->y));
    const int32_t share = hrf_backward_unary(b, HRF_OP_EXP, less);
    hrf_backward_give(b, 0, hrf_backward_binary(b, HRF_OP_MUL, share, kept(b, b->dy)));
}
