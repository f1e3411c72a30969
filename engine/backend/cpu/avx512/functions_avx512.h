/* functions_avx512.h - functions of one number over runs of numbers, where there is AVX-512. The
 * result for a number does not depend on where it stands in the run. */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_FUNCTIONS_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_FUNCTIONS_AVX512_H

#include "engine/ir/graph.h"

#include <stdbool.h>
#include <stdint.h>

/* True if the next function takes this operator: EXP, ERF, TANH, SIGMOID, SWISH, GELU, GELU_TANH,
 * HARD_SIGMOID and HARD_SWISH. */
bool hrf_functions_have_avx512(enum hrf_op op);
/* y[i] = op(x[i]) for n numbers. x_type and y_type: F32, F16 or B16. y may be x if the types have
 * the same size. */
void hrf_functions_avx512(enum hrf_op op, const struct hrf_attributes *attributes,
                          enum hrf_dtype x_type, const void *x, enum hrf_dtype y_type, void *y,
                          int64_t n);

#endif
