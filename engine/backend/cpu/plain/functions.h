/* functions.h - elementwise functions (base/elementary.h), compiled for each instruction set. One
 * thread; a result does not depend on the position of the element. */
#ifndef HRF_ENGINE_BACKEND_CPU_PLAIN_FUNCTIONS_H
#define HRF_ENGINE_BACKEND_CPU_PLAIN_FUNCTIONS_H

#include "engine/ir/graph.h"

#include <stdbool.h>

/* For each instruction set NAME: hrf_functions_have_NAME() is true for EXP, ERF, TANH, SIGMOID,
 * SWISH, GELU and GELU_TANH, with AVX-512 also for HARD_SIGMOID and HARD_SWISH.
 * hrf_functions_run_NAME() sets y[i] = op(x[i]) for n elements and one of these operators. Types
 * are F32, with AVX-512 also F16 and B16. y may be x if the types have the same size.
 * hrf_functions_derives_NAME() is true for RELU, EXP, ERF, TANH, SIGMOID, SWISH, GELU and
 * GELU_TANH; hrf_functions_derive_NAME() sets to[i] = dy[i] times the derivative of one of these at
 * x[i]; `to` may be one of both. */
#define HRF_FUNCTIONS_DECLARE(name)                                                                \
    bool hrf_functions_have_##name(enum hrf_op op);                                                \
    void hrf_functions_run_##name(enum hrf_op op, const struct hrf_attributes *attributes,         \
                                  enum hrf_dtype x_type, const void *x, enum hrf_dtype y_type,     \
                                  void *y, int64_t n);                                             \
    bool hrf_functions_derives_##name(enum hrf_op op);                                             \
    void hrf_functions_derive_##name(enum hrf_op op, const struct hrf_attributes *attributes,      \
                                     const float *x, const float *dy, float *to, int64_t n);
HRF_FUNCTIONS_DECLARE(plain)
HRF_FUNCTIONS_DECLARE(avx2)
HRF_FUNCTIONS_DECLARE(avx512)

#endif
