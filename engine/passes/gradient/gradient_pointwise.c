/* gradient_pointwise.c - gradients of functions of one number and of two. */
#include "engine/passes/gradient/gradient_private.h"

/* RELU's output is positive where its input is, and is kept in any case if a product reads it. */
void hrf_gradient_function_of_one(struct hrf_backward *b)
{
    const int32_t x = b->node.op == HRF_OP_RELU ? b->y : b->node.inputs[0];
    hrf_backward_give(b, 0, hrf_backward_derivative(b, b->node.op, &b->node.attributes, x, b->dy));
}

/* Gives input k the sum of `gradient`, of the output's shape, over all that the input was broadcast
 * to. */
static void give_sum(struct hrf_backward *b, int32_t k, int32_t gradient)
{
    const struct hrf_shape shape = hrf_backward_input_shape(b, k);
    hrf_backward_give(b, k, hrf_backward_sum_to(b, gradient, &shape));
}

void hrf_gradient_add(struct hrf_backward *b)
{
    for (int32_t k = 0; k < 2; k++)
        if (hrf_backward_wants(b, k))
            give_sum(b, k, b->dy);
}

void hrf_gradient_sub(struct hrf_backward *b)
{
    if (hrf_backward_wants(b, 0))
        give_sum(b, 0, b->dy);
    if (hrf_backward_wants(b, 1))
        give_sum(b, 1, hrf_backward_unary(b, HRF_OP_NEG, b->dy));
}

void hrf_gradient_mul(struct hrf_backward *b)
{
    for (int32_t k = 0; k < 2; k++)
        if (hrf_backward_wants(b, k))
            give_sum(b, k, hrf_backward_binary(b, HRF_OP_MUL, b->dy, b->node.inputs[1 - k]));
}

/* y = u / v: to v, -dy y / v. */
void hrf_gradient_div(struct hrf_backward *b)
{
    const int32_t of_u = hrf_backward_binary(b, HRF_OP_DIV, b->dy, b->node.inputs[1]);
    if (hrf_backward_wants(b, 0))
        give_sum(b, 0, of_u);
    if (hrf_backward_wants(b, 1))
        give_sum(b, 1,
                 hrf_backward_unary(b, HRF_OP_NEG, hrf_backward_binary(b, HRF_OP_MUL, of_u, b->y)));
}

/* y = u^v: to u, dy v u^(v - 1); to v, dy y log u. */
void hrf_gradient_pow(struct hrf_backward *b)
{
    const int32_t u = b->node.inputs[0], v = b->node.inputs[1];
    if (b->graph->values[v].dtype != HRF_F32) {
        hrf_backward_refuse(b, "the exponent is %s: only float32 is trained through",
                            hrf_dtype_name(b->graph->values[v].dtype));
        return;
    }
    if (hrf_backward_wants(b, 0)) {
        const struct hrf_shape shape = hrf_backward_shape(b, b->y);
        const int32_t less = hrf_backward_binary(b, HRF_OP_SUB, v, hrf_backward_scalar(b, 1));
        const int32_t power = HRF_APPLY(b, HRF_OP_POW, NULL, &shape, u, less);
        const int32_t slope = hrf_backward_binary(b, HRF_OP_MUL, power, v);
        give_sum(b, 0, hrf_backward_binary(b, HRF_OP_MUL, b->dy, slope));
    }
    if (hrf_backward_wants(b, 1)) {
        const int32_t slope = hrf_backward_binary(b, HRF_OP_MUL, b->y,
                                                  hrf_backward_unary(b, HRF_OP_LOG, u));
        give_sum(b, 1, hrf_backward_binary(b, HRF_OP_MUL, b->dy, slope));
    }
}

/* max(u, v) = v + relu(u - v), min(u, v) = v - relu(v - u): where both are equal, dy goes to v. */
void hrf_gradient_extreme(struct hrf_backward *b)
{
    const int32_t u = b->node.inputs[b->node.op == HRF_OP_MAX ? 0 : 1];
    const int32_t v = b->node.inputs[b->node.op == HRF_OP_MAX ? 1 : 0];
    const struct hrf_shape shape = hrf_backward_shape(b, b->y);
    const int32_t difference = HRF_APPLY(b, HRF_OP_SUB, NULL, &shape, u, v);
    const int32_t of_first = hrf_backward_derivative(b, HRF_OP_RELU, NULL, difference, b->dy);
    if (hrf_backward_wants(b, 0))
        give_sum(b, 0, of_first);
    if (hrf_backward_wants(b, 1))
        give_sum(b, 1, hrf_backward_binary(b, HRF_OP_SUB, b->dy, of_first));
}

/* y = x where x > 0, slope x elsewhere. */
void hrf_gradient_prelu(struct hrf_backward *b)
{
    const struct hrf_shape shape = hrf_backward_shape(b, b->y);
    const int32_t x = hrf_backward_expand(b, b->node.inputs[0], &shape);
    const int32_t slope = b->node.inputs[1];
    const int32_t above = hrf_backward_derivative(b, HRF_OP_RELU, NULL, x, b->dy);
    const int32_t below = hrf_backward_binary(b, HRF_OP_SUB, b->dy, above);
    if (hrf_backward_wants(b, 0))
        give_sum(b, 0,
                 hrf_backward_binary(b, HRF_OP_ADD, above,
                                     hrf_backward_binary(b, HRF_OP_MUL, below, slope)));
    if (hrf_backward_wants(b, 1))
        give_sum(b, 1, hrf_backward_binary(b, HRF_OP_MUL, below, x));
}

/* The condition is a constant. */
void hrf_gradient_where(struct hrf_backward *b)
{
    const struct hrf_shape shape = hrf_backward_shape(b, b->y);
    const int32_t condition = b->node.inputs[0], zero = hrf_backward_scalar(b, 0);
    if (hrf_backward_wants(b, 1))
        give_sum(b, 1, HRF_APPLY(b, HRF_OP_WHERE, NULL, &shape, condition, b->dy, zero));
    if (hrf_backward_wants(b, 2))
        give_sum(b, 2, HRF_APPLY(b, HRF_OP_WHERE, NULL, &shape, condition, zero, b->dy));
}
