/* gradient_reduce.c - gradients of reductions over any axes. */
#include "engine/passes/gradient/gradient_private.h"

/* The axes that the node reduces, which are all where it names none. */
static uint32_t reduced(const struct hrf_backward *b)
{
    uint32_t axes = 0;
    for (int32_t i = 0; i < b->node.attributes.n_axes; i++)
        axes |= 1u << b->node.attributes.axes[i];
    return axes != 0 ? axes : (1u << hrf_backward_input_shape(b, 0).rank) - 1;
}

/* `value`, of the output's shape, with the reduced axes as axes of length 1. */
static int32_t kept(struct hrf_backward *b, int32_t value)
{
    struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    for (int32_t i = 0; i < shape.rank; i++)
        if ((reduced(b) & (1u << i)) != 0)
            shape.dims[i] = 1;
    return hrf_backward_reshape(b, value, &shape);
}

void hrf_gradient_reduce_sum(struct hrf_backward *b)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, 0);
    hrf_backward_give(b, 0, hrf_backward_expand(b, kept(b, b->dy), &shape));
}

/* Every group's loss depends on the sum, and the loss of the batch is the sum of theirs. */
void hrf_gradient_all_reduce(struct hrf_backward *b)
{
    hrf_backward_give(b, 0, hrf_backward_unary(b, HRF_OP_ALL_REDUCE, b->dy));
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

int32_t hrf_backward_share_of_extreme(struct hrf_backward *b, int32_t x, int32_t extreme,
                                      int32_t dy, uint32_t axes)
{
    const int32_t apart = hrf_backward_unary(b, HRF_OP_ABS,
                                             hrf_backward_binary(b, HRF_OP_SUB, x, extreme));
    const int32_t is_it = hrf_backward_binary(b, HRF_OP_SUB, hrf_backward_scalar(b, 1),
                                              hrf_backward_unary(b, HRF_OP_SIGN, apart));
    const int32_t n = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, is_it, axes);
    return hrf_backward_binary(b, HRF_OP_MUL, is_it, hrf_backward_binary(b, HRF_OP_DIV, dy, n));
}

/* All elements that are the maximum or the minimum share dy equally: PyTorch's amax and amin. (Its
 * max along one axis, which gives the element's place, too, is written to ONNX as the same
 * operator; there one of equal elements has all of dy. Shares do not depend on how a file orders
 * elements.) */
void hrf_gradient_reduce_extreme(struct hrf_backward *b)
{
    hrf_backward_give(b, 0,
                      hrf_backward_share_of_extreme(b, b->node.inputs[0], kept(b, b->y),
                                                    kept(b, b->dy), reduced(b)));
}

/* dy times the product of the others, which is p / x where none is 0, with p the product of those
 * that are not 0; if one is 0, p for that and 0 for the others; 0 if more are. */
void hrf_gradient_reduce_prod(struct hrf_backward *b)
{
    const int32_t x = b->node.inputs[0], one = hrf_backward_scalar(b, 1);
    const int32_t is_other = hrf_backward_unary(b, HRF_OP_ABS,
                                                hrf_backward_unary(b, HRF_OP_SIGN, x));
    const int32_t is_zero = hrf_backward_binary(b, HRF_OP_SUB, one, is_other);
    const int32_t divisor = hrf_backward_binary(b, HRF_OP_ADD, x, is_zero);
    const int32_t p = hrf_backward_reduce(b, HRF_OP_REDUCE_PROD, divisor, reduced(b));
    const int32_t n = hrf_backward_reduce(b, HRF_OP_REDUCE_SUM, is_zero, reduced(b));
    const int32_t is_none = hrf_backward_binary(b, HRF_OP_SUB, one,
                                                hrf_backward_unary(b, HRF_OP_SIGN, n));
    const int32_t less = hrf_backward_binary(b, HRF_OP_SUB, n, one);
    const int32_t is_one = hrf_backward_binary(
        b, HRF_OP_SUB, one,
        hrf_backward_unary(b, HRF_OP_ABS, hrf_backward_unary(b, HRF_OP_SIGN, less)));
    const int32_t all = hrf_backward_binary(b, HRF_OP_MUL, kept(b, b->dy), p);
    const int32_t of_others = hrf_backward_binary(
        b, HRF_OP_DIV, hrf_backward_binary(b, HRF_OP_MUL, all, is_none), divisor);
    const int32_t of_zero = hrf_backward_binary(
        b, HRF_OP_MUL, hrf_backward_binary(b, HRF_OP_MUL, all, is_one), is_zero);
    hrf_backward_give(b, 0, hrf_backward_binary(b, HRF_OP_ADD, of_others, of_zero));
}
