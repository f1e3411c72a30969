/* product.h - the matrix product that convolutions are made of, for AVX-512.
 *
 * y[rows][columns] = activation(a[rows][depth] * w[depth][columns] + bias + residual), in float32;
 * y may be stored in 16 bits.
 * `w` is packed once: panels of HRF_PANEL columns, each [depth][HRF_PANEL], the last filled up
 * with zeros. One thread; every output starts from the bias, is summed in the order of depth, and
 * its residual is added last, so the bits depend neither on the number of threads nor on how rows
 * and columns are cut.
 * Knows nothing of tensors. Only to be called where hrf_cpu_has_avx512() says so.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_PRODUCT_H
#define HRF_ENGINE_BACKEND_CPU_PRODUCT_H

#include "engine/ir/graph.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HRF_PANEL 32 /* columns: two registers of 16 floats */

struct hrf_epilogue {
    const float *bias;   /* per column; NULL: none */
    enum hrf_dtype type; /* of y: F32, F16 or B16 */
    bool accumulate;     /* y holds the residual: it is added before the activation */
    enum hrf_activation activation;
    float low, high; /* CLIP */
    float slope;     /* LEAKY_RELU */
};

/* True when the processor has AVX-512 and oneDNN may use it (ONEDNN_MAX_CPU_ISA lowers both). */
bool hrf_cpu_has_avx512(void);

/* Floats of the packed form. */
size_t hrf_product_packed_count(int64_t depth, int64_t columns);
/* w[k][c] stands at w[k * depth_stride + c * column_stride]. */
void hrf_product_pack(const float *w, int64_t depth_stride, int64_t column_stride, int64_t depth,
                      int64_t columns, float *packed);
/* What is asked for ahead of its use. Only hints: the memory need not exist. */
struct hrf_ahead {
    const char *memory;   /* that the caller will read next: comes into the second-level cache */
    int64_t n_bytes;      /* 0: nothing */
    bool weights_are_far; /* the same of the weights: each panel comes while the last is done */
    bool y_is_far;        /* y lies beyond that cache: a tile's lines come while the last is done */
};

/* `a_pitch` and `y_pitch`: numbers from one row to the next. 1 to 2^31 - 1 rows and columns. */
void hrf_product_avx512(const float *a, int64_t a_pitch, const float *packed, int64_t depth,
                        void *y, int64_t y_pitch, int64_t rows, int64_t columns,
                        const struct hrf_epilogue *epilogue, const struct hrf_ahead *ahead);

#endif
