/* attention.h - softmax attention as one loop, with several forms of arithmetic.
 *
 * The loop (attention.c) divides heads, or parts of their queries, among threads. A thread packs a
 * head's keys and values, takes a block of queries at a time and computes their scores, the softmax
 * of these (the weights), and the weighted sums of values. A form says how elements are packed,
 * multiplied and rounded, and how large blocks are. The result of a query depends neither on the
 * threads nor on other queries.
 *
 * PERFORMER (performer.h) is another algorithm: it has no scores.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_TRANSFORMER_ATTENTION_H
#define HRF_ENGINE_BACKEND_CPU_TRANSFORMER_ATTENTION_H

#include "engine/backend/compute.h"
#include "engine/backend/cpu/product.h"

/* ---- where the numbers of a head lie ---- */

/* Element (i, c) lies i * row + c * column elements from the beginning of the head. */
struct hrf_head_matrix {
    int64_t rows, columns, row, column;
};

/* Q, K (a row for each key, whatever transpose_k says), V, Y, and the mask, [queries][keys], with
 * stride 0 along broadcast axes. */
enum { HRF_HEAD_Q, HRF_HEAD_K, HRF_HEAD_V, HRF_HEAD_Y, HRF_HEAD_MASK, HRF_HEAD_MATRICES };

/* An axis of the heads: head p along it begins p / divisor % size * step elements further on. */
struct hrf_head_axis {
    int64_t divisor, size, step;
};

struct hrf_head_view {
    int64_t n_heads; /* of all images */
    struct hrf_head_matrix of[HRF_HEAD_MATRICES];
    int32_t n_axes;
    int64_t dims[HRF_MAX_RANK]; /* heads along each axis */
    int64_t first[HRF_HEAD_MATRICES];
    struct hrf_head_axis axes[HRF_HEAD_MATRICES][HRF_MAX_RANK];
};
void hrf_head_view(const struct hrf_graph *graph, const struct hrf_node *node,
                   struct hrf_head_view *out);
/* The offset of head `head` of that matrix, in elements of its tensor. */
int64_t hrf_head_begin(const struct hrf_head_view *view, int which, int64_t head);
/* True if the rows of that matrix are contiguous. */
static inline bool hrf_head_is_dense(const struct hrf_head_view *view, int which)
{
    return view->of[which].column == 1 || view->of[which].columns == 1;
}

/* ---- what the loop and a form share ---- */

/* The parts of a thread's memory, each aligned to a cache line. */
enum hrf_attention_buffer {
    HRF_PACKED_KEYS,
    HRF_PACKED_VALUES,
    HRF_KEY_TERMS, /* a term for each key, and for each column of the values */
    HRF_VALUE_TERMS,
    HRF_QUERIES,     /* of a block, in the form that is multiplied */
    HRF_QUERY_TERMS, /* a term for each query */
    HRF_SCORES,
    HRF_WEIGHTS, /* if they are narrower than scores; otherwise they overwrite the scores */
    HRF_OF_KEYS, /* a row with an element for each key */
    /* For the loop itself: */
    HRF_DENSE,     /* a dense copy of a matrix whose rows are not contiguous */
    HRF_MASK_ROW,  /* copied */
    HRF_SUMS,      /* of values, if they are not stored in the output directly */
    HRF_SEEN_SUMS, /* the states over the blocks of keys so far: sums, largest score, sum of
                      exponentials */
    HRF_ATTENTION_BUFFERS
};

enum { HRF_ATTENTION_MAX_QUERIES = 192 /* of a block */ };

/* A query's scores for a block of keys, which become weights. */
struct hrf_score_row {
    void *scores;
    void *weights;
    const float *mask; /* added after scaling; NULL: none */
    int64_t n_seen;    /* the number of keys that the query sees; the weights of the others are 0 */
    float scale;       /* of the scores */
    float factor;      /* out: the factor for weighted sums of values */
    /* For keys in blocks. largest: the largest score so far, updated by the form. sum: out, the sum
     * of the exponentials in this block. */
    float largest, sum;
};

/* Rows that will be read next. They are not contiguous, so hardware does not prefetch them. */
enum { HRF_AHEAD_MATRICES = 3 };
struct hrf_rows_ahead {
    const char *at[HRF_AHEAD_MATRICES]; /* the next row of each matrix */
    int64_t stride[HRF_AHEAD_MATRICES], n_bytes[HRF_AHEAD_MATRICES]; /* of a row */
    int64_t n_rows[HRF_AHEAD_MATRICES];                              /* remaining rows */
};
/* Prefetches the next `n` rows of each matrix. */
static inline void hrf_rows_prefetch(struct hrf_rows_ahead *ahead, int64_t n)
{
    for (int m = 0; m < HRF_AHEAD_MATRICES; m++)
        for (int64_t i = 0; i < n && ahead->n_rows[m] > 0; i++) {
            for (int64_t at = 0; at < ahead->n_bytes[m]; at += HRF_BUFFER_ALIGNMENT)
                __builtin_prefetch(ahead->at[m] + at, 0, 2);
            ahead->at[m] += ahead->stride[m];
            ahead->n_rows[m]--;
        }
}

struct hrf_attention; /* the kernel */

/* The state of a block: queries [first, first + n) of a head, and keys [first_key, first_key +
 * n_keys). */
struct hrf_attention_tile {
    const struct hrf_attention *of;
    const struct hrf_kernel_call *call;
    int64_t head, first, n, first_key, n_keys;
    int64_t begin[HRF_HEAD_MATRICES]; /* of the head, in elements */
    void *buffer[HRF_ATTENTION_BUFFERS];
    struct hrf_score_row rows[HRF_ATTENTION_MAX_QUERIES];
    struct hrf_rows_ahead ahead; /* of the next head */
};

struct hrf_attention_form {
    enum hrf_word_type word_type; /* for products of floats */
    /* Queries of a block: as many as there is room for scores, a multiple of `step`. */
    int64_t min_queries, max_queries, step;
    int64_t keys;         /* of a block; 0: all keys at once */
    bool scales_products; /* the products are scaled, not the scores */
    /* Makes the kernel's constants, which hrf_free() releases. Optional. */
    void *(*prepare)(const struct hrf_spec *spec);
    /* Sets the sizes of the form's buffers in bytes. */
    void (*measure)(const struct hrf_attention *a, int64_t bytes[HRF_ATTENTION_BUFFERS]);
    /* Called in this order; pack() and load() only for new keys or queries. */
    void (*pack)(struct hrf_attention_tile *t); /* keys and values */
    void (*load)(struct hrf_attention_tile *t); /* queries */
    void (*score)(struct hrf_attention_tile *t);
    void (*weigh)(struct hrf_attention_tile *t, struct hrf_score_row *rows, int64_t n_rows);
    /* Computes weighted sums of values into rows that are y_row elements apart. */
    void (*sum)(struct hrf_attention_tile *t, enum hrf_dtype type, void *y, int64_t y_row);
};

struct hrf_attention {
    struct hrf_kernel base;
    const struct hrf_attention_form *form;
    struct hrf_backend *backend; /* borrowed */
    struct hrf_spec *spec;
    struct hrf_head_view view;
    void *constants;       /* the form's */
    int64_t n_parts, part; /* parts of a head, and the queries of each */
    int64_t block, keys;   /* the most queries and keys of a block */
    int64_t score_row;     /* 32-bit elements from one query's scores to the next */
    int64_t scratch_bytes; /* of a thread */
    /* A constant mask as floats, in blocks of rows of keys that heads may share. NULL: none. */
    float *mask;
    int32_t *mask_block; /* [n_heads] */
    int64_t mask_rows;   /* rows of a block: 1, or one for each query */
};

/* Rounds a number of 32-bit elements up to whole cache lines. */
static inline int64_t hrf_whole_lines(int64_t n)
{
    return (n + 15) / 16 * 16;
}

/* A matrix in memory whose rows are contiguous. */
struct hrf_stored_rows {
    enum hrf_dtype type;
    const char *at;
    int64_t row; /* elements from one row to the next */
};
/* Rows [first, first + n) of Q, K or V of the tile's head; copied to HRF_DENSE as floats if rows
 * are not contiguous. */
struct hrf_stored_rows hrf_head_rows(const struct hrf_attention_tile *t, int which, int64_t first,
                                     int64_t n);

/* The compile() of rows whose `own` is a form. */
HRF_CHECKED enum hrf_status hrf_attention_compile(const struct hrf_kernel_row *row,
                                                  struct hrf_backend *backend,
                                                  const struct hrf_graph *graph,
                                                  const struct hrf_node *node,
                                                  struct hrf_kernel **out, struct hrf_error *err);

#endif
