/* product.h - the matrix product that convolutions are made of, for AVX-512.
 *
 * y[rows][columns] = activation(a[rows][depth] * w[depth][columns] + bias + residual), in float32;
 * y may be stored in 16 bits.
 * `w` is packed once: panels of HRF_PANEL columns, each [depth][HRF_PANEL], the last filled up
 * with zeros. One thread; the order in which an output is summed hangs on the depth alone, and its
 * residual is added last, so the bits depend neither on the number of threads nor on how rows and
 * columns are cut.
 *
 * a and w are counted in words of 32 bits:
 *
 * FLOATS.
 *
 * CROSSED floats: two multiply-adds become one and two additions, which is quicker where a core
 * adds beside its multiply-adds. a1 w1 + a2 w2 = (a1 + w2)(a2 + w1) - a1 a2 - w1 w2, and the last
 * two are sums over a row and over a column alone, made once (Winograd, "A new algorithm for inner
 * product", IEEE Transactions on Computers C-17, 1968). Of 16 numbers of depth five pairs are
 * crossed, 11 multiply-adds and 10 additions where 16 multiply-adds were; the rest beyond the last
 * 16 as floats are. Both factors of a product are about as large: rows and columns are scaled by
 * powers of two, and every other pair is crossed as a1 w1 + a2 w2 = a1 a2 + w1 w2
 * - (w2 - a1)(w1 - a2), so that the sums to take away stay small. So the error is 1.1 to 1.7 times
 * that of plain sums, up to 2.7 times where all numbers of a long row have one sign (test_product.c
 * measures it). A row or column with a number that is not finite gives +infinity in all its
 * outputs.
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

enum hrf_words { HRF_FLOATS, HRF_CROSSED, HRF_PAIRS };
enum {
    HRF_CROSSED_ENDS = 2
}; /* floats behind a crossed row: what is added, what it is scaled by */

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
/* A core adds floats beside that, on units of their own, and has the time to load what crossed
 * products take: those are the quicker. */
bool hrf_cpu_adds_beside(void);

/* Of that many numbers each, crossed rows are then made in less time than they save. */
bool hrf_product_crossing_pays(int64_t depth, int64_t columns);
#define HRF_CROSSED_COST (11.0 / 16) /* multiply-adds, of those that were */

/* Rows of a product that are done at once: multiples of them are best. */
int64_t hrf_product_rows(enum hrf_words words);

/* Words of the packed form, of which a panel has as many as 1 column; depth in words. */
size_t hrf_product_packed_count(enum hrf_words words, int64_t depth, int64_t columns);
/* w[k][c] stands at w[k * depth_stride + c * column_stride]; depth in numbers, an even one for
 * pairs, which are rounded. */
void hrf_product_pack(enum hrf_words words, const float *w, int64_t depth_stride,
                      int64_t column_stride, int64_t depth, int64_t columns, void *packed);
/* Rows of floats as a crossed product takes them: scaled, HRF_CROSSED_ENDS more behind each. `to`
 * may be x, with the same pitch. */
void hrf_product_cross_rows_avx512(const float *x, int64_t x_pitch, int64_t depth, int64_t rows,
                                   float *to, int64_t to_pitch);
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
