/* product.h - the matrix product that convolutions are made of, for AVX-512.
 *
 * y[rows][columns] = activation(a[rows][depth] * w[depth][columns] + bias + residual), in float32;
 * y may be stored in 16 bits.
 * `w` is packed once: panels of up to HRF_PANEL columns, a multiple of 16 that is filled up with
 * zeros, each [depth][width]. One thread. The order in which an output is summed depends on the
 * depth alone, and its residual is added last, so the bits depend neither on the number of threads
 * nor on how rows and columns are cut.
 *
 * An output is summed in chains of hrf_product_chain() words of the depth. Each chain starts from
 * zero and is then added to the sum of those before it. So the error grows with the length of a
 * chain and with the number of chains, not with the depth.
 *
 * a and w are counted in words of 32 bits:
 *
 * FLOATS. Products are added one after the other, each by a fused multiply-add that rounds once. A
 * product passes at most n roundings, n being the smaller of the depth and 128 plus the number of
 * chains (and one more if there is a bias, and one for a residual). So an output is off by at most
 * n u / (1 - n u) times the sum of its products' magnitudes, u = 2^-24, whatever the data; products
 * with a zero add exactly nothing.
 *
 * PAIRS of bfloat16 that follow each other in the depth, where the processor multiplies those:
 * twice the multiply-adds in the same time. Products and sums of these are float32, too, each
 * rounded to nearest; of a pair, the second product is added first. Subnormal numbers (below
 * 2^-126) count as zero there, also where y is bfloat16.
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

#define HRF_PANEL 64 /* columns, at most: four registers of 16 floats */

#define HRF_PRODUCT_CHAIN      128 /* floats of the depth that are summed without a break */
#define HRF_PRODUCT_MOST_CHAIN 256

enum hrf_words { HRF_FLOATS, HRF_PAIRS };

/* Words of a chain. Of pairs, HRF_PRODUCT_MOST_CHAIN where 512 bits go through in two halves: a
 * step of the depth takes long enough there to bring its weights from the second-level cache, and
 * fewer sums wait in memory (3 % at 768 words). */
int64_t hrf_product_chain(enum hrf_words words);

struct hrf_epilogue {
    const float *bias;   /* per column; NULL: none */
    enum hrf_dtype type; /* of y: F32, F16 or B16 */
    bool accumulate;     /* y holds the residual: it is added before the activation */
    enum hrf_activation activation;
    float low, high; /* CLIP */
    float slope;     /* LEAKY_RELU; HARD_SIGMOID: alpha */
    float offset;    /* HARD_SIGMOID: beta */
};

/* Rows that share the weights of a chain in the first-level cache: at most, in one call of
 * hrf_product_rows_avx512(). */
enum { HRF_PRODUCT_ROWS = 252 };

/* Columns are cut into panels of about the same width, in multiples of 16. */
int64_t hrf_product_count_panels(int64_t columns);
/* The first column of a panel; of the number of panels: where the last one ends. */
int64_t hrf_product_panel_begin(int64_t columns, int64_t panel);
/* Words of the packed form; depth in words. */
size_t hrf_product_packed_count(int64_t depth, int64_t columns);
/* w[k][c] stands at w[k * depth_stride + c * column_stride]; depth in numbers, an even one for
 * pairs, which are rounded. */
void hrf_product_pack(enum hrf_words words, const float *w, int64_t depth_stride,
                      int64_t column_stride, int64_t depth, int64_t columns, void *packed);

/* What is prefetched during a product. These are only hints: the memory need not exist. */
struct hrf_ahead {
    const char *memory; /* what the caller will read next, into the second-level cache */
    int64_t n_bytes;    /* of it; 0: nothing */
    /* The weights are not in that cache yet: each chain's are prefetched while the chain before it
     * is computed, and `memory` is not. */
    bool prefetches_weights;
};

/* Panels [first_panel, end_panel) of y. a_stride: words from one row to the next, y_stride:
 * numbers. */
void hrf_product_avx512(enum hrf_words words, const void *a, int64_t a_stride, const void *packed,
                        int64_t depth, void *y, int64_t y_stride, int64_t n_rows, int64_t columns,
                        int64_t first_panel, int64_t end_panel, const struct hrf_epilogue *epilogue,
                        const struct hrf_ahead *ahead);

/* Rows that stand anywhere. */
struct hrf_product_rows {
    const char *const *a;
    char *const *y;
    int64_t n;        /* 1 to HRF_PRODUCT_ROWS */
    int64_t y_offset; /* bytes beyond each y, of the first column; negative if y has none of it */
    /* NULL, or of each row the pieces of the depth that are all zeros, as bits; then they may be
     * left out. Only for up to 64 pieces. */
    const uint64_t *absent;
};

/* Words of the depth that follow each other in every row: a row of a window, for example. */
struct hrf_product_piece {
    int64_t offset; /* words from where a row of `a` begins */
    int64_t depth;
    int64_t at; /* their place in the depth of `packed` */
};

/* The same product with a depth in pieces, at least one, so that the windows of a convolution are
 * multiplied where they stand. Words of packed_depth that no piece names count as products with
 * zero. */
void hrf_product_rows_avx512(enum hrf_words words, const struct hrf_product_rows *rows,
                             const struct hrf_product_piece *pieces, int64_t n_pieces,
                             const void *packed, int64_t packed_depth, int64_t columns,
                             int64_t first_panel, int64_t end_panel,
                             const struct hrf_epilogue *epilogue, const struct hrf_ahead *ahead);

#endif
