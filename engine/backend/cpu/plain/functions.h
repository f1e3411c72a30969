/* functions.h - functions of one number over runs of numbers, for processors without AVX-512. One
 * thread; the result for a number does not depend on where it stands in the run. */
#ifndef HRF_ENGINE_BACKEND_CPU_PLAIN_FUNCTIONS_H
#define HRF_ENGINE_BACKEND_CPU_PLAIN_FUNCTIONS_H

#include "engine/ir/graph.h"

#include <stdbool.h>

/* For each instruction set NAME, hrf_functions_run_NAME(): y[i] = op(x[i]) for n floats; y may be
 * x. False, and nothing is done, for operators other than EXP, ERF, TANH, SIGMOID, SWISH, GELU and
 * GELU_TANH. The errors are bounded as those of avx512/math_avx512.h, whose polynomials these are.
 */
#define HRF_FUNCTIONS_DECLARE(name)                                                                \
    bool hrf_functions_run_##name(enum hrf_op op, float alpha, const float *x, float *y, int64_t n);
HRF_FUNCTIONS_DECLARE(plain)
HRF_FUNCTIONS_DECLARE(avx2)

#endif
