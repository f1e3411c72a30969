/* byte_attention.h - attention of 8-bit queries, keys and values that rounds scores and weights to
 * 8 bits: exact sums of integers, so that every instruction set gives the same bytes.
 *
 * Bytes count as unsigned on the left side of a product and as signed on the right side, where the
 * numbers of 4 rows stand together for each of 16 columns: [columns / 16][rows / 4][16][4].
 */
#ifndef HRF_ENGINE_BACKEND_CPU_TRANSFORMER_BYTE_ATTENTION_H
#define HRF_ENGINE_BACKEND_CPU_TRANSFORMER_BYTE_ATTENTION_H

#include "engine/ir/graph.h"

enum { HRF_BYTE_QUERIES = 8 }; /* that are computed together */

/* A matrix of bytes in a tensor; `flip` makes unsigned bytes of signed ones, or the reverse. */
struct hrf_byte_matrix {
    const uint8_t *data;
    int64_t row;  /* bytes from one row to the next */
    uint8_t flip; /* 0 or 128 */
    int32_t zero; /* zero point, once flipped */
};

/* How sums become bytes: clipped steps, rounded half to even, and the zero point. */
struct hrf_byte_steps {
    float factor, low, high;
    int32_t zero;
};

struct hrf_byte_attention {
    int64_t n_queries, n_keys, depth; /* channels of a head */
    struct hrf_byte_matrix q, k, v;
    uint8_t *y;
    int64_t y_row;
    struct hrf_byte_steps scores, output; /* scores: zero counts from the lowest byte */
    /* exp() of what a score lies below the largest one, in steps, as integers. */
    const uint32_t *exponentials; /* [256] */
    double weight_scale;
    struct hrf_byte_steps weights; /* as unsigned bytes */
    int32_t weights_zero;
    void *workspace; /* hrf_byte_attention_bytes() */
};

/* 1 in exponentials: so many that sums of HRF_ATTENTION_LONG of them fit into 32 bits. */
#define HRF_BYTE_EXPONENTIAL 0x1p19
int64_t hrf_byte_attention_bytes(int64_t n_keys, int64_t depth);

#define HRF_BYTE_ATTENTION(SET) void hrf_byte_attention_##SET(const struct hrf_byte_attention *a)
HRF_BYTE_ATTENTION(plain);
HRF_BYTE_ATTENTION(avx512);

#endif
