/* plain_functions.c - unary and binary functions, in double. */
#include "engine/backend/cpu/plain/plain.h"
#include "engine/backend/formulas.h"

#include <assert.h>
#include <math.h>

static double clip(double x, double low, double high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

_Static_assert(HRF_N_FORMULAS + 2 == HRF_OP_CLIP - HRF_OP_RELU,
               "a formula for every function of one number but RELU, LEAKY_RELU and CLIP");
_Static_assert(HRF_N_BINARY_FORMULAS == HRF_OP_PRELU + 1 - HRF_OP_ADD,
               "a formula for every function of two numbers");

#define CASE(OP, FORMULA)                                                                          \
    case HRF_OP_##OP:                                                                              \
        return FORMULA;

double hrf_unary_value(enum hrf_op op, const struct hrf_attributes *a, double x)
{
    const double alpha = (double)a->alpha, beta = (double)a->beta;
    switch (op) {
        HRF_FORMULAS(CASE)
    default: /* activations are computed in float by the callers */
        assert(false);
        return NAN;
    }
}

double hrf_binary_value(enum hrf_op op, double a, double b)
{
    switch (op) {
        HRF_BINARY_FORMULAS(CASE)
    default:
        assert(false);
        return NAN;
    }
}
