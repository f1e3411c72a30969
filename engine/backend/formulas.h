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

/* Derivatives of all functions of one number, at a corner that of the side that PyTorch takes, where
 * logistic(x) is 1 / (1 + exp(-x)), too; `low` and `high` are the bounds of Clip. */
#define HRF_DERIVATIVES(F)                                                                         \
    F(RELU, x > 0 ? 1 : 0)                                                                         \
    F(LEAKY_RELU, x > 0 ? 1 : alpha)                                                               \
    F(CLIP, x >= low && x <= high ? 1 : 0)                                                         \
    F(SIGMOID, logistic(x) * logistic(-x))                                                         \
    F(TANH, 1 - tanh(x) * tanh(x))                                                                 \
    F(EXP, exp(x))                                                                                 \
    F(LOG, 1 / x)                                                                                  \
    F(SQRT, 0.5f / sqrt(x))                                                                        \
    F(NEG, -1)                                                                                     \
    F(ABS, x > 0 ? 1 : x < 0 ? -1 : x)                                                             \
    F(RECIPROCAL, -1 / (x * x))                                                                    \
    F(FLOOR, 0)                                                                                    \
    F(CEIL, 0)                                                                                     \
    F(ERF, 1.1283791670955126f * exp(-x * x))                                                      \
    F(ELU, x > 0 ? 1 : alpha * exp(x))                                                             \
    F(SELU, beta * (x > 0 ? 1 : alpha * exp(x)))                                                   \
    F(HARD_SIGMOID, alpha * x + beta > 0 && alpha * x + beta < 1 ? alpha : 0)                      \
    F(HARD_SWISH, x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5f)                                         \
    F(SOFTPLUS, logistic(x))                                                                       \
    F(SOFTSIGN, 1 / ((1 + fabs(x)) * (1 + fabs(x))))                                               \
    F(CELU, x > 0 ? 1 : exp(x / alpha))                                                            \
    F(THRESHOLDED_RELU, x > alpha ? 1 : 0)                                                         \
    F(SIN, cos(x))                                                                                 \
    F(COS, -sin(x))                                                                                \
    F(ATAN, 1 / (1 + x * x))                                                                       \
    F(TAN, 1 + tan(x) * tan(x))                                                                    \
    F(SINH, cosh(x))                                                                               \
    F(COSH, sinh(x))                                                                               \
    F(ASIN, 1 / sqrt((1 - x) * (1 + x)))                                                           \
    F(ACOS, -1 / sqrt((1 - x) * (1 + x)))                                                          \
    F(ASINH, 1 / sqrt(x * x + 1))                                                                  \
    F(ACOSH, 1 / sqrt((x - 1) * (x + 1)))                                                          \
    F(ATANH, 1 / ((1 - x) * (1 + x)))                                                              \
    F(SHRINK, x < -alpha || x > alpha ? 1 : 0)                                                     \
    F(GELU, 0.5f * (1 + erf(x * 0.70710678118654752f)) +                                           \
                x * 0.39894228040143268f * exp(-0.5f * x * x))                                     \
    F(GELU_TANH, 0.5f * (1 + tanh(0.79788456080286536f * (x + 0.044715f * x * x * x))) +           \
                     0.5f * x *                                                                    \
                         (1 - tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)) *           \
                                  tanh(0.79788456080286536f * (x + 0.044715f * x * x * x))) *      \
                         0.79788456080286536f * (1 + 0.134145f * x * x))                           \
    F(SWISH, logistic(alpha * x) * (1 + alpha * x * logistic(-alpha * x)))                         \
    F(MISH, tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))) +                                     \
                x * logistic(x) *                                                                  \
                    (1 - tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))) *                        \
                             tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)))))                    \
    F(ROUND, 0)                                                                                    \
    F(SIGN, 0)

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
    HRF_N_DERIVATIVES = HRF_DERIVATIVES(HRF_COUNT_FORMULA),
    HRF_N_BINARY_FORMULAS = HRF_BINARY_FORMULAS(HRF_COUNT_FORMULA)
};
#undef HRF_COUNT_FORMULA

#endif
