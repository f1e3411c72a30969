/* product.h - the matrix product for AVX-512 that convolutions and layers use.
 *
 * y[rows][columns] = activation(a[rows][depth] * w[depth][columns] + bias + residual), in float32;
 * y may be stored in 16 bits. `w` is packed once, in panels of up to HRF_PANEL columns, padded with
 * zeros to a multiple of 16, each [depth][width]. One thread. The order in which an output is
 * summed depends on the depth alone, and its residual is added last, so its bits depend neither on
 * the number of threads nor on how rows and columns are cut.
 *
 * An output is summed in chains of hrf_product_chain() words of the depth. Each chain starts from
 * zero and is then added to the sum of those before it. So the error grows with the length of a
 * chain and with the number of chains, not with the depth.
 *
 * a and w are counted in words of 32 bits:
 *
 * HRF_WORD_F32: floats. Products are added one after the other, each by a fused multiply-add that
 * rounds once. A product passes at most n roundings, n being the smaller of the depth and 128 plus
 * the number of chains (and one more if there is a bias, and one for a residual). So an output is
 * off by at most n u / (1 - n u) times the sum of its products' magnitudes, u = 2^-24, whatever the
 * data; products with a zero add exactly nothing.
 *
 * HRF_WORD_B16_PAIR: pairs of consecutive bfloat16 of the depth, if the processor multiplies them:
 * twice the multiply-adds in the same time. Their products and sums are float32, too, each rounded
 * to nearest; the second product of a pair is added first. Subnormal numbers (below 2^-126) count
 * as zero there, also in a y of bfloat16.
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

#define HRF_PANEL 64 /* the most columns of a panel: four registers of 16 floats */

#define HRF_PRODUCT_CHAIN      128 /* floats of the depth in one chain */
#define HRF_PRODUCT_MOST_CHAIN 256

/* What a word of 32 bits holds. */
enum hrf_word_type { HRF_WORD_F32, HRF_WORD_B16_PAIR };

/* The words of a chain. For pairs on processors that execute 512-bit instructions in two halves it
 * is HRF_PRODUCT_MOST_CHAIN: a step of the depth then takes long enough to load its weights from
 * the L2 cache, and fewer sums are stored between chains (3 % faster at 768 words). */
int64_t hrf_product_chain(enum hrf_word_type word_type);

struct hrf_epilogue {
    const float *bias;   /* per column; NULL: none */
    enum hrf_dtype type; /* of y: F32, F16 or B16 */
    bool accumulate;     /* y holds the residual, which is added before the activation */
    enum hrf_activation activation;
    float low, high; /* CLIP */
    float slope;     /* LEAKY_RELU; HARD_SIGMOID: alpha */
    float offset;    /* HARD_SIGMOID: beta */
};

/* The most rows of one call of hrf_product_rows_avx512(): they share the weights of a chain in the
 * L1 cache. */
enum { HRF_PRODUCT_ROWS = 252 };

/* The number of panels. Columns are cut into panels of about equal width, in multiples of 16. */
int64_t hrf_product_count_panels(int64_t columns);
/* The first column of a panel. For `panel` equal to the number of panels: the end of the last
 * one. */
int64_t hrf_product_panel_begin(int64_t columns, int64_t panel);
/* The number of words of the packed form; `depth` in words. */
size_t hrf_product_packed_count(int64_t depth, int64_t columns);
/* Packs w, whose element [k][c] is w[k * depth_stride + c * column_stride]. `depth` is in elements;
 * for pairs it is even, and elements are rounded to bfloat16. */
void hrf_product_pack(enum hrf_word_type word_type, const float *w, int64_t depth_stride,
                      int64_t column_stride, int64_t depth, int64_t columns, void *packed);

/* What is prefetched during a product. These are only hints: the memory need not exist. */
struct hrf_ahead {
    const char *memory; /* what the caller will read next; it is prefetched into the L2 cache */
    int64_t n_bytes;    /* of `memory`; 0: nothing */
    /* The weights are not in the L2 cache yet: each chain's weights are prefetched during the chain
     * before it, and `memory` is not. */
    bool prefetches_weights;
};

/* Computes panels [first_panel, end_panel) of y. a_stride: words from one row to the next;
 * y_stride: elements. */
void hrf_product_avx512(enum hrf_word_type word_type, const void *a, int64_t a_stride,
                        const void *packed, int64_t depth, void *y, int64_t y_stride,
                        int64_t n_rows, int64_t columns, int64_t first_panel, int64_t end_panel,
                        const struct hrf_epilogue *epilogue, const struct hrf_ahead *ahead);

/* Rows at arbitrary addresses. */
struct hrf_product_rows {
    const char *const *a;
    char *const *y;
    int64_t n;        /* 1 to HRF_PRODUCT_ROWS */
    int64_t y_offset; /* bytes from each y to column 0; negative if y begins at a later column */
    /* For each row, the pieces of the depth that are all zeros, as bits, so that they may be
     * skipped; NULL: not known. Only for up to 64 pieces. */
    const uint64_t *absent;
};

/* Consecutive words of the depth that are contiguous in every row, for example a row of a
 * window. */
struct hrf_product_piece {
    int64_t offset; /* words from the beginning of a row of `a` */
    int64_t depth;
    int64_t at; /* their position in the depth of `packed` */
};

/* The same product with the depth in one or more pieces, so that the windows of a convolution are
 * multiplied in place. Words of packed_depth that no piece names count as products with zero. */
void hrf_product_rows_avx512(enum hrf_word_type word_type, const struct hrf_product_rows *rows,
                             const struct hrf_product_piece *pieces, int64_t n_pieces,
                             const void *packed, int64_t packed_depth, int64_t columns,
                             int64_t first_panel, int64_t end_panel,
                             const struct hrf_epilogue *epilogue, const struct hrf_ahead *ahead);

#endif
