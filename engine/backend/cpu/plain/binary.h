/* binary.h - elementwise sums, differences, products and quotients. One thread. */
#ifndef HRF_ENGINE_BACKEND_CPU_PLAIN_BINARY_H
#define HRF_ENGINE_BACKEND_CPU_PLAIN_BINARY_H

#include "engine/ir/graph.h"

/* y[i] = a[i * a_step] op b[i * b_step], computed in float32 and rounded once. */
struct hrf_binary_run {
    enum hrf_op op; /* ADD, SUB, MUL or DIV */
    enum hrf_dtype a_type, b_type, y_type;
    int64_t a_step, b_step; /* 0 or 1 */
    int64_t n;
};

/* Declares hrf_binary_run_NAME() for an instruction set. Types are F32, with AVX-512 also F16 and
 * B16. y may be a or b. */
#define HRF_BINARY_DECLARE(name)                                                                   \
    void hrf_binary_run_##name(const struct hrf_binary_run *run, const void *a, const void *b,     \
                               void *y);
HRF_BINARY_DECLARE(plain)
HRF_BINARY_DECLARE(avx2)
HRF_BINARY_DECLARE(avx512)

#endif
