/* fixed_attention_avx512.h - softmax attention whose products are of 16-bit integers, for networks
 * in INT8: VNNI multiplies twice as many of them as floats in the same time.
 *
 * With queries q[t][d], keys k[s][d] and values v[s][e] of a head, each in float32:
 *
 *   Q[t], K[s]  rows rounded by a scale of their own to at most M = sqrt((2^31 - 1) / d), 32767 at
 *               most: their product is exact in 32 bits
 *   x[t][s]     = scale * (Q[t] . K[s]) * their scales + mask[t][s]
 *   P[t][s]     = round(exp(x[t][s] - the row's largest x) * F[t]), with F the largest number for
 *               which P is at most 32767 and, before rounding, has a sum of at most 2^18
 *   V[s][c]     columns rounded by a scale of their own to at most 4095
 *   y[t][c]     = (sum over s of P V) * V's scale / (F * the sum of the exponentials)
 *
 * So a number is off by less than 2^-12 of the largest in its row of q or k or its column of v, and
 * a weight by 2^-19, or by 2^-16 of the row's largest weight if that is more. What a query gets
 * depends neither on the other queries nor on the number of threads. A row or column that holds a
 * NaN or an infinite number gives NaNs wherever it counts.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_AVX512_FIXED_ATTENTION_AVX512_H
#define HRF_ENGINE_BACKEND_CPU_AVX512_FIXED_ATTENTION_AVX512_H

#include <stdint.h>

enum {
    HRF_FIXED_ROWS = 6,       /* queries that are multiplied together */
    HRF_FIXED_KEYS = 1 << 18, /* at most: beyond, a sum of P V could pass 32 bits */
};

/* Rows that will be read next, which stand apart in memory, so that no processor foresees it: some
 * of them are asked for with each tile. */
enum { HRF_FIXED_MATRICES = 3 };
struct hrf_fixed_ahead {
    const char *at[HRF_FIXED_MATRICES];                              /* the next row of each */
    int64_t stride[HRF_FIXED_MATRICES], n_bytes[HRF_FIXED_MATRICES]; /* of a row */
    int64_t n_rows[HRF_FIXED_MATRICES];                              /* left */
};

/* One head's keys and values, packed. Panels of columns are those of product.h. */
struct hrf_fixed_head {
    int64_t n_keys, d, e;
    int16_t *keys;       /* panels of keys: [pairs of d][panel's keys][2] */
    int16_t *values;     /* panels of e: [pairs of keys][panel's columns][2] */
    float *key_scales;   /* [n_keys] and 0 up to a multiple of 16 */
    float *value_scales; /* [e], the same */
    struct hrf_fixed_ahead *ahead;
};

/* Numbers from one rounded row to the next. */
int64_t hrf_fixed_stride(int64_t n);
/* Numbers of packed keys (columns: n_keys, depth: d) or values (e and n_keys). */
int64_t hrf_fixed_packed_count(int64_t depth, int64_t columns);

/* Rows of d floats, x_stride apart, to rows of hrf_fixed_stride(d); zeros beyond d. */
void hrf_fixed_round_rows_avx512(const float *x, int64_t x_stride, int64_t n_rows, int64_t d,
                                 int16_t *to, float *scales);
/* The rounded rows of all keys as keys. */
void hrf_fixed_pack_keys_avx512(const int16_t *rows, int64_t n_keys, int64_t d, int16_t *to);
void hrf_fixed_pack_values_avx512(const float *x, int64_t x_stride, int64_t n_keys, int64_t e,
                                  int16_t *to, float *scales);

/* A query's scores on their way to weights. */
struct hrf_fixed_row {
    float *scores;     /* whole registers */
    int16_t *weights;  /* hrf_fixed_stride(n_keys) */
    const float *mask; /* NULL: none */
    int64_t n_seen;    /* the first keys; the others count nothing */
    float scale;       /* of the query and of the attention */
    float factor;      /* out: what sums of weights are multiplied by */
};
/* scores = Q K' times the keys' scales, of n_rows queries. */
void hrf_fixed_scores_avx512(const struct hrf_fixed_head *head, const int16_t *queries,
                             int64_t n_rows, float *scores, int64_t stride);
void hrf_fixed_weights_avx512(struct hrf_fixed_row *rows, int64_t n_rows, int64_t n_keys);
/* y, of rows y_stride apart. The weights of the rows follow each other. */
void hrf_fixed_values_avx512(const struct hrf_fixed_head *head, const struct hrf_fixed_row *rows,
                             int64_t n_rows, float *y, int64_t y_stride);

#endif
