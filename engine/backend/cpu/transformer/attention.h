/* attention.h - softmax attention as one loop, and what each form of its arithmetic adds to it.
 *
 * The loop (attention.c) shares out heads, or parts of their queries, over threads; a thread packs
 * a head's keys and values, takes a block of queries at a time and computes their scores, the
 * weights that the softmax makes of these, and the weighted sums of values. A form says how numbers
 * are packed, multiplied and rounded, and how large its blocks are. What a query gets depends
 * neither on the threads nor on the other queries.
 *
 * PERFORMER (performer.h) is another algorithm: it has no scores.
 */
#ifndef HRF_ENGINE_BACKEND_CPU_TRANSFORMER_ATTENTION_H
#define HRF_ENGINE_BACKEND_CPU_TRANSFORMER_ATTENTION_H

#include "engine/backend/compute.h"
#include "engine/backend/cpu/product.h"

/* ---- where the numbers of a head lie ---- */

/* Element (i, c) stands at i * row + c * column from where the head begins, in elements. */
struct hrf_head_matrix {
    int64_t rows, columns, row, column;
};

/* Q, K (a row for each key, whatever transpose_k says), V, Y, and the mask, [queries][keys], whose
 * steps are 0 where it broadcasts. */
enum { HRF_HEAD_Q, HRF_HEAD_K, HRF_HEAD_V, HRF_HEAD_Y, HRF_HEAD_MASK, HRF_HEAD_MATRICES };

/* An axis of the heads: the p-th along it begins p / divisor % size * step elements further on. */
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
/* Where head `head` of that matrix begins, in elements of its tensor. */
int64_t hrf_head_begin(const struct hrf_head_view *view, int which, int64_t head);
/* True if the columns of that matrix are neighbours in memory. */
static inline bool hrf_head_is_dense(const struct hrf_head_view *view, int which)
{
    return view->of[which].column == 1 || view->of[which].columns == 1;
}

/* ---- what the loop and a form share ---- */

/* The parts of a thread's memory; each begins at a line of the cache. */
enum hrf_attention_buffer {
    HRF_PACKED_KEYS,
    HRF_PACKED_VALUES,
    HRF_KEY_TERMS, /* a number for each key, and for each column of the values */
    HRF_VALUE_TERMS,
    HRF_QUERIES,     /* of a block, as the form multiplies them */
    HRF_QUERY_TERMS, /* a number for each of them */
    HRF_SCORES,
    HRF_WEIGHTS, /* if they are narrower than scores, which otherwise become weights */
    HRF_OF_KEYS, /* a row of a number for each key */
    /* The loop's own: */
    HRF_DENSE,     /* a matrix whose columns are apart in memory */
    HRF_MASK_ROW,  /* copied */
    HRF_SUMS,      /* of values, if they are not stored where they belong */
    HRF_SEEN_SUMS, /* of the blocks of keys so far, of the largest score and of its exponentials */
    HRF_ATTENTION_BUFFERS
};

enum { HRF_ATTENTION_MAX_QUERIES = 192 /* of a block */ };

/* A query's scores of a block of keys, on their way to weights. */
struct hrf_score_row {
    void *scores;
    void *weights;
    const float *mask; /* is added after scaling; NULL: none */
    int64_t n_seen;    /* the first keys; the others count nothing */
    float scale;       /* of the scores */
    float factor;      /* out: what sums of values by these weights are multiplied by */
    /* Of keys in blocks: the largest score so far, which the form brings up to date, and out: the
     * sum of the exponentials in this block. */
    float largest, sum;
};

/* Rows that will be read next, which stand apart in memory, so that no processor foresees it. */
enum { HRF_AHEAD_MATRICES = 3 };
struct hrf_rows_ahead {
    const char *at[HRF_AHEAD_MATRICES];                              /* the next row of each */
    int64_t stride[HRF_AHEAD_MATRICES], n_bytes[HRF_AHEAD_MATRICES]; /* of a row */
    int64_t n_rows[HRF_AHEAD_MATRICES];                              /* left */
};
/* Asks for the next `n` rows of each. */
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

/* Queries [first, first + n) of a head, and keys [first_key, first_key + n_keys). */
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
    enum hrf_words words; /* of products of floats */
    /* Queries of a block: as many as scores leave room for, a multiple of `step`. */
    int64_t min_queries, max_queries, step;
    int64_t keys;         /* of a block; 0: all, so that a query's weights are known at once */
    bool scales_products; /* the products are scaled, not the scores */
    /* Constants of the kernel, released by hrf_free(). Optional. */
    void *(*prepare)(const struct hrf_spec *spec);
    /* Bytes of the form's buffers. */
    void (*measure)(const struct hrf_attention *a, int64_t bytes[HRF_ATTENTION_BUFFERS]);
    /* In this order, the first two if there is something new: */
    void (*pack)(struct hrf_attention_tile *t); /* keys and values */
    void (*load)(struct hrf_attention_tile *t); /* queries */
    void (*score)(struct hrf_attention_tile *t);
    void (*weigh)(struct hrf_attention_tile *t, struct hrf_score_row *rows, int64_t n_rows);
    /* Weighted sums of values, to rows that are y_row numbers apart. */
    void (*sum)(struct hrf_attention_tile *t, enum hrf_dtype type, void *y, int64_t y_row);
};

struct hrf_attention {
    struct hrf_kernel base;
    const struct hrf_attention_form *form;
    struct hrf_backend *backend; /* borrowed */
    struct hrf_spec *spec;
    struct hrf_head_view view;
    void *constants;       /* the form's */
    int64_t n_parts, part; /* of a head: queries of each */
    int64_t block, keys;   /* queries and keys of a block, at most */
    int64_t score_row;     /* numbers of 32 bits from one query's scores to the next */
    int64_t scratch_bytes; /* of a thread */
    /* A constant mask as floats: blocks of rows of keys, of which heads may share some. NULL: none.
     */
    float *mask;
    int32_t *mask_block; /* [n_heads] */
    int64_t mask_rows;   /* of a block: 1, or the queries */
};

/* Numbers of 32 bits that fill whole lines. */
static inline int64_t hrf_whole_lines(int64_t n)
{
    return (n + 15) / 16 * 16;
}

/* A matrix in memory whose columns are neighbours. */
struct hrf_stored_rows {
    enum hrf_dtype type;
    const char *at;
    int64_t row; /* elements from one row to the next */
};
/* Rows [first, first + n) of Q, K or V of the tile's head; copied to HRF_DENSE as floats if its
 * columns are apart. */
struct hrf_stored_rows hrf_head_rows(const struct hrf_attention_tile *t, int which, int64_t first,
                                     int64_t n);

/* A kernel of the row, whose `own` is its form. */
HRF_CHECKED enum hrf_status hrf_attention_compile(const struct hrf_kernel_row *row,
                                                  struct hrf_backend *backend,
                                                  const struct hrf_graph *graph,
                                                  const struct hrf_node *node,
                                                  struct hrf_kernel **out, struct hrf_error *err);

#endif
