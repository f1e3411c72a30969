/* formulas.h - functions of one number (engine/ir/graph.h) and of two, once for the CPU, which
 * computes them in double, and for CUDA, which computes them in float: both include it where exp()
 * and the others are functions of the type of x, and clip(x, low, high) too. Those that are
 * activations (Relu, LeakyRelu, Clip) are not here: every back end has them in its epilogue.
 */
#ifndef HRF_ENGINE_BACKEND_FORMULAS_H
#define HRF_ENGINE_BACKEND_FORMULAS_H

/* clang-format off */
#define HRF_FORMULAS(F)                                                                            \
    F(SIGMOID, 1 / (1 + exp(-x)))                                                                  \
    F(TANH, tanh(x))                                                                               \
    F(EXP, exp(x))                                                                                 \
    F(LOG, log(x))                                                                                 \
    F(SQRT, sqrt(x))                                                                               \
    F(NEG, -x)                                                                                     \
    F(ABS, fabs(x))                                                                                \
    F(RECIPROCAL, 1 / x)                                                                           \
    F(FLOOR, floor(x))                                                                             \
    F(CEIL, ceil(x))                                                                               \
    F(ERF, erf(x))                                                                                 \
    F(ELU, x < 0 ? alpha * expm1(x) : x)                                                           \
    F(SELU, beta * (x > 0 ? x : alpha * expm1(x)))                                                 \
    F(HARD_SIGMOID, clip(alpha * x + beta, 0, 1))                                                  \
    F(HARD_SWISH, x * clip(x / 6 + 0.5f, 0, 1))                                                    \
    F(SOFTPLUS, x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))) /* without overflow */                 \
    F(SOFTSIGN, x / (1 + fabs(x)))                                                                 \
    F(CELU, x < 0 ? alpha * expm1(x / alpha) : x)                                                  \
    F(THRESHOLDED_RELU, x > alpha ? x : 0)                                                         \
    F(SIN, sin(x))                                                                                 \
    F(COS, cos(x))                                                                                 \
    F(ATAN, atan(x))                                                                               \
    F(TAN, tan(x))                                                                                 \
    F(SINH, sinh(x))                                                                               \
    F(COSH, cosh(x))                                                                               \
    F(ASIN, asin(x))                                                                               \
    F(ACOS, acos(x))                                                                               \
    F(ASINH, asinh(x))                                                                             \
    F(ACOSH, acosh(x))                                                                             \
    F(ATANH, atanh(x))                                                                             \
    F(SHRINK, x < -alpha ? x + beta : x > alpha ? x - beta : 0)                                    \
    F(GELU, 0.5f * x * (1 + erf(x * 0.70710678118654752f)))                                        \
    F(GELU_TANH, 0.5f * x * (1 + tanh(0.79788456080286536f * (x + 0.044715f * x * x * x))))        \
    F(SWISH, x / (1 + exp(-alpha * x)))                                                            \
    F(MISH, x * tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))))                                  \
    F(ROUND, rint(x))                                                                              \
    F(SIGN, x > 0 ? 1 : x < 0 ? -1 : x)

/* Where a or b is a NaN, the larger and the smaller are one. */
#define HRF_BINARY_FORMULAS(F)                                                                     \
    F(ADD, a + b)                                                                                  \
    F(SUB, a - b)                                                                                  \
    F(MUL, a * b)                                                                                  \
    F(DIV, a / b)                                                                                  \
    F(POW, pow(a, b))                                                                              \
    F(MAX, a > b || a != a ? a : b)                                                                \
    F(MIN, a < b || a != a ? a : b)                                                                \
    F(PRELU, a < 0 ? a * b : a)
/* clang-format on */

#define HRF_COUNT_FORMULA(OP, FORMULA) +1
enum {
    HRF_N_FORMULAS = HRF_FORMULAS(HRF_COUNT_FORMULA),
    HRF_N_BINARY_FORMULAS = HRF_BINARY_FORMULAS(HRF_COUNT_FORMULA)
};
#undef HRF_COUNT_FORMULA

#endif
