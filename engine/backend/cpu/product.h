/* product.h - the matrix product that convolutions are made of, for AVX-512.
 *
 * y[rows][columns] = activation(a[rows][depth] * w[depth][columns] + bias + residual), in float32;
 * y may be stored in 16 bits.
 * `w` is packed once: panels of HRF_PANEL columns, each [depth][HRF_PANEL], the last filled up
 * with zeros. One thread. The order in which an output is summed depends on the depth alone, and
 * its residual is added last, so the bits depend neither on the number of threads nor on how rows
 * and columns are cut.
 *
 * An output is summed in chains of HRF_PRODUCT_CHAIN words of the depth (the last may be up to 7
 * words longer). Each chain starts from zero (the first from the bias) and is then added to the sum
 * of those before it. So the error grows with the length of a chain and with the number of chains,
 * not with the depth.
 *
 * a and w are counted in words of 32 bits:
 *
 * FLOATS. Products are added one after the other, each by a fused multiply-add that rounds once. A
 * product passes at most n roundings, n being the smaller of the depth and 135 + depth / 128. So an
 * output is off by at most n u / (1 - n u) times the sum of its products' magnitudes, u = 2^-24,
 * whatever the data; products with a zero add exactly nothing. (Winograd's inner product of 1968,
 * which trades multiplications for additions, has no such bound: a factor's size enters where the
 * other factor is small.)
 *
 * PAIRS of bfloat16 that follow each other in the depth, where the processor multiplies those:
 * twice the multiply-adds in the same time. Products and sums of these are float32, too, each
 * rounded to nearest; of a pair, the second product is added first. Subnormal numbers (below
 * 2^-126) count as zero there, in y as well if it is of bfloat16.
 *
 * Knows nothing of tensors. Only to be called where hrf_cpu_has_avx512(), or of pairs
 * hrf_cpu_has_avx512_bf16(), says so.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_PRODUCT_H
#define HRF_ENGINE_BACKEND_CPU_PRODUCT_H

#include "engine/ir/graph.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HRF_PANEL 32 /* columns: two registers of 16 floats */

#define HRF_PRODUCT_CHAIN 128 /* words of the depth that are summed without a break */

enum hrf_words { HRF_FLOATS, HRF_PAIRS };

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
/* The same of its instructions for bfloat16. */
bool hrf_cpu_has_avx512_bf16(void);
/* Of floats, that a core can begin: 32, or 16 where 512 bits go through in two halves. */
int hrf_cpu_multiply_adds_per_cycle(void);

/* Rows of a product that are computed at once: multiples of it are best. */
enum { HRF_PRODUCT_ROWS = 14 };

/* Words of the packed form, of which a panel has as many as 1 column; depth in words. */
size_t hrf_product_packed_count(int64_t depth, int64_t columns);
/* w[k][c] stands at w[k * depth_stride + c * column_stride]; depth in numbers, an even one for
 * pairs, which are rounded. */
void hrf_product_pack(enum hrf_words words, const float *w, int64_t depth_stride,
                      int64_t column_stride, int64_t depth, int64_t columns, void *packed);
/* What is asked for ahead of its use. Only hints: the memory need not exist. */
struct hrf_ahead {
    const char *memory;   /* that the caller will read next: comes into the second-level cache */
    int64_t n_bytes;      /* 0: nothing */
    bool weights_are_far; /* the same of the weights: each panel comes while the last is done */
    bool y_is_far;        /* y lies beyond that cache: a tile's lines come while the last is done */
};

/* `a_pitch`: words from one row to the next, `y_pitch`: numbers. 1 to 2^31 - 1 rows and columns. */
void hrf_product_avx512(enum hrf_words words, const void *a, int64_t a_pitch, const void *packed,
                        int64_t depth, void *y, int64_t y_pitch, int64_t rows, int64_t columns,
                        const struct hrf_epilogue *epilogue, const struct hrf_ahead *ahead);

#endif
