/* plain_functions.c - functions of one number and of two, in double. */
#include "engine/backend/cpu/plain.h"

#include <math.h>

static double clip(double x, double low, double high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

double hrf_unary_value(enum hrf_op op, const struct hrf_attributes *a, double x)
{
    const double alpha = (double)a->alpha, beta = (double)a->beta;
    switch (op) {
    case HRF_OP_RELU:
        return x > 0 ? x : 0;
    case HRF_OP_LEAKY_RELU:
        return x >= 0 ? x : alpha * x;
    case HRF_OP_SIGMOID:
        return 1 / (1 + exp(-x));
    case HRF_OP_TANH:
        return tanh(x);
    case HRF_OP_CLIP:
        return clip(x, (double)a->activation_min, (double)a->activation_max);
    case HRF_OP_EXP:
        return exp(x);
    case HRF_OP_LOG:
        return log(x);
    case HRF_OP_SQRT:
        return sqrt(x);
    case HRF_OP_NEG:
        return -x;
    case HRF_OP_ABS:
        return fabs(x);
    case HRF_OP_RECIPROCAL:
        return 1 / x;
    case HRF_OP_FLOOR:
        return floor(x);
    case HRF_OP_CEIL:
        return ceil(x);
    case HRF_OP_ERF:
        return erf(x);
    case HRF_OP_ELU:
        return x < 0 ? alpha * (exp(x) - 1) : x;
    case HRF_OP_SELU:
        return beta * (x > 0 ? x : alpha * (exp(x) - 1));
    case HRF_OP_HARD_SIGMOID:
        return clip(alpha * x + beta, 0, 1);
    case HRF_OP_HARD_SWISH:
        return x * clip(x / 6 + 0.5, 0, 1);
    case HRF_OP_SOFTPLUS: /* without overflow for large x */
        return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
    case HRF_OP_SOFTSIGN:
        return x / (1 + fabs(x));
    default:
        return x;
    }
}

double hrf_binary_value(enum hrf_op op, double a, double b)
{
    switch (op) {
    case HRF_OP_SUB:
        return a - b;
    case HRF_OP_MUL:
        return a * b;
    case HRF_OP_DIV:
        return a / b;
    case HRF_OP_POW:
        return pow(a, b);
    case HRF_OP_MAX:
        return a > b ? a : b;
    case HRF_OP_MIN:
        return a < b ? a : b;
    case HRF_OP_PRELU:
        return a < 0 ? a * b : a;
    default:
        return a + b;
    }
}
