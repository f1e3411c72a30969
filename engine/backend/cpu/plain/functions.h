/* functions.h - functions of one number over runs of numbers, by base/elementary.h, compiled for
 * each instruction set. One thread; the result for a number does not depend on where it stands in
 * the run. */
#ifndef HRF_ENGINE_BACKEND_CPU_PLAIN_FUNCTIONS_H
#define HRF_ENGINE_BACKEND_CPU_PLAIN_FUNCTIONS_H

#include "engine/ir/graph.h"

#include <stdbool.h>

/* For each instruction set NAME:
 * hrf_functions_have_NAME(): true of EXP, ERF, TANH, SIGMOID, SWISH, GELU and GELU_TANH, with
 * AVX-512 also of HARD_SIGMOID and HARD_SWISH.
 * hrf_functions_run_NAME(): y[i] = op(x[i]) for n numbers, and an operator of those. Types are F32,
 * with AVX-512 also F16 and B16. y may be x if the types have the same size. */
#define HRF_FUNCTIONS_DECLARE(name)                                                                \
    bool hrf_functions_have_##name(enum hrf_op op);                                                \
    void hrf_functions_run_##name(enum hrf_op op, const struct hrf_attributes *attributes,         \
                                  enum hrf_dtype x_type, const void *x, enum hrf_dtype y_type,     \
                                  void *y, int64_t n);
HRF_FUNCTIONS_DECLARE(plain)
HRF_FUNCTIONS_DECLARE(avx2)
HRF_FUNCTIONS_DECLARE(avx512)

#endif
