/* attention_heads.c - softmax attention with AVX-512: a thread takes some queries of one head,
 * packs its keys and values for the matrix product (product.h), and computes the scores of a block
 * of queries at a time, which the second-level cache holds. Numbers of 16 bits are widened where
 * they are packed and narrowed where they are stored, or multiplied as pairs of bfloat16, and then
 * the weights are bfloat16, too. A query's result depends on neither the
 * threads nor the other queries. With VNNI, products may be of 16-bit integers
 * (avx512/fixed_attention_avx512.h): half of the time. */
#include "engine/backend/cpu/avx512/fixed_attention_avx512.h"
#include "engine/backend/cpu/avx512/rows_of_tokens_avx512.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/part_queues.h"
#include "engine/backend/cpu/transformer/attention.h"
#include "engine/ir/number.h"

#include <omp.h>

enum {
    SCORE_BYTES = 128 * 1024, /* of a block of queries: leaves the cache room for keys, values */
    LEAST_QUERIES = 12,       /* of a block: two tiles */
    MOST_QUERIES = 96,
    SLACK = 16, /* words between rows, so that rows of a tile are in different sets of the cache */
    FIXED_QUERIES = 4 * HRF_FIXED_ROWS, /* of a block whose scores the first-level cache holds */
};

struct heads_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    struct hrf_spec *spec;
    struct hrf_head_view view;
    int64_t n_parts, part; /* of a head: queries of each */
    int64_t block;         /* queries */
    int64_t score_stride;  /* words */
    int64_t scratch_words; /* of a thread */
    bool is_fixed;         /* products of 16-bit integers */
    enum hrf_words words;  /* of other products */
    /* A constant mask as floats: blocks of rows of keys, of which heads may share some. NULL: none.
     */
    float *mask;
    int32_t *mask_block; /* [n_heads] */
    int64_t mask_rows;   /* of a block: 1, or the queries */
};

/* A thread's memory. */
struct scratch {
    float *keys, *values; /* packed */
    float *dense;         /* a matrix whose columns are not neighbours in memory, or a mask's row */
    float *queries, *scores, *result; /* of a block */
    /* Of products of integers: keys, values and scales of a head; rounded rows, of the keys until
     * they are packed, then of a block's queries, whose scales follow; weights of a block. */
    struct hrf_fixed_head head;
    int16_t *rows, *weights;
    float *query_scales;
};

static int64_t line_up(int64_t words)
{
    return hrf_ceil_div(words, 16) * 16;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Lays the parts of the memory at `at` out; returns the words of all. */
static int64_t place(const struct heads_kernel *k, float *at, struct scratch *out)
{
    const struct hrf_head_matrix *q = &k->view.of[HRF_HEAD_Q], *v = &k->view.of[HRF_HEAD_V];
    const int64_t widest = most(most(q->columns, v->columns), 1);
    const int64_t sizes[] = { (int64_t)hrf_product_packed_count(q->columns, v->rows),
                              (int64_t)hrf_product_packed_count(v->rows, v->columns),
                              most(v->rows, k->block) * widest,
                              k->block * line_up(q->columns),
                              k->block * k->score_stride,
                              k->block * v->columns };
    float **const parts[] = { &out->keys,    &out->values, &out->dense,
                              &out->queries, &out->scores, &out->result };
    int64_t used = 0;
    for (int i = 0; i < 6; i++) {
        if (at != NULL)
            *parts[i] = at + used;
        used += line_up(sizes[i]);
    }
    return used;
}

/* The same for products of integers. */
static int64_t place_fixed(const struct heads_kernel *k, float *at, struct scratch *out)
{
    const struct hrf_head_matrix *q = &k->view.of[HRF_HEAD_Q], *v = &k->view.of[HRF_HEAD_V];
    const int64_t words[] = { hrf_fixed_packed_count(q->columns, v->rows) / 2,
                              hrf_fixed_packed_count(v->rows, v->columns) / 2,
                              most(v->rows, k->block) * hrf_fixed_stride(q->columns) / 2,
                              k->block * hrf_fixed_stride(v->rows) / 2,
                              v->rows,
                              v->columns,
                              k->block,
                              v->rows, /* a mask's row */
                              k->block * k->score_stride };
    float *parts[9] = { NULL };
    int64_t used = 0;
    for (int i = 0; i < 9; i++) {
        parts[i] = at != NULL ? at + used : NULL;
        used += line_up(words[i]);
    }
    out->head = (struct hrf_fixed_head){ .n_keys = v->rows,
                                         .d = q->columns,
                                         .e = v->columns,
                                         .keys = (int16_t *)(void *)parts[0],
                                         .values = (int16_t *)(void *)parts[1],
                                         .key_scales = parts[4],
                                         .value_scales = parts[5] };
    out->rows = (int16_t *)(void *)parts[2];
    out->weights = (int16_t *)(void *)parts[3];
    out->query_scales = parts[6];
    out->dense = parts[7];
    out->scores = parts[8];
    return used;
}

static float number_at(enum hrf_dtype type, const char *x, int64_t i)
{
    float number;
    hrf_floats_from(type, x + i * (int64_t)hrf_dtype_size(type), &number, 1);
    return number;
}

/* A matrix in memory: of a head, or what was copied of it. */
struct stored {
    enum hrf_dtype type;
    const char *at;
    int64_t row;
};

static struct stored rows_from(const struct stored *m, int64_t first)
{
    const int64_t size = (int64_t)hrf_dtype_size(m->type);
    return (struct stored){ m->type, m->at + first * m->row * size, m->row };
}

static const void *data_of(const struct heads_kernel *k, const struct hrf_kernel_call *call,
                           int which)
{
    return hrf_spec_data(k->spec, call, which == HRF_HEAD_MASK ? HRF_ATTENTION_MASK : which);
}

/* Rows [first, first + n) of a head's matrix; copied to `dense` if its columns are apart. */
static struct stored find_rows(const struct heads_kernel *k, const struct hrf_kernel_call *call,
                               int which, int64_t head, int64_t first, int64_t n, float *dense)
{
    const struct hrf_head_matrix *m = &k->view.of[which];
    const enum hrf_dtype type = k->spec->inputs[which].dtype;
    const int64_t begin = hrf_head_begin(k->spec, which, head) + first * m->row;
    const char *data = data_of(k, call, which);
    if (m->column == 1 || m->columns == 1)
        return (struct stored){ type, data + begin * (int64_t)hrf_dtype_size(type), m->row };
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < m->columns; c++)
            dense[i * m->columns + c] = number_at(type, data, begin + i * m->row + c * m->column);
    return (struct stored){ HRF_F32, (const char *)dense, m->columns };
}

/* K as the right side of q k': [d][keys]; V as that of the second product: [keys][e]. */
static void pack(const struct heads_kernel *k, const struct hrf_kernel_call *call, int64_t head,
                 const struct scratch *s)
{
    const struct hrf_head_matrix *v = &k->view.of[HRF_HEAD_V];
    const int64_t n = v->rows, d = k->view.of[HRF_HEAD_Q].columns, e = v->columns;
    const struct stored keys = find_rows(k, call, HRF_HEAD_K, head, 0, n, s->dense);
    for (int64_t p = 0; p < hrf_product_count_panels(n); p++) {
        const int64_t begin = hrf_product_panel_begin(n, p);
        const int64_t width = hrf_product_panel_begin(n, p + 1) - begin;
        const struct stored from = rows_from(&keys, begin);
        hrf_turn_avx512(from.type, from.at, from.row, n - begin, d, width, s->keys + begin * d);
    }
    const struct stored values = find_rows(k, call, HRF_HEAD_V, head, 0, n, s->dense);
    for (int64_t p = 0; p < hrf_product_count_panels(e); p++) {
        const int64_t begin = hrf_product_panel_begin(e, p);
        const int64_t width = hrf_product_panel_begin(e, p + 1) - begin;
        hrf_widen_rows_avx512(values.type, values.at + begin * (int64_t)hrf_dtype_size(values.type),
                              values.row, n, e - begin, width, s->values + begin * n);
    }
}

/* The same as pairs: of a key's channels, and of a channel of two values. */
static void pack_pairs(const struct heads_kernel *k, const struct hrf_kernel_call *call,
                       int64_t head, const struct scratch *s)
{
    const struct hrf_head_matrix *v = &k->view.of[HRF_HEAD_V];
    const int64_t n = v->rows, d = k->view.of[HRF_HEAD_Q].columns / 2, e = v->columns;
    const struct stored keys = find_rows(k, call, HRF_HEAD_K, head, 0, n, s->dense);
    for (int64_t p = 0; p < hrf_product_count_panels(n); p++) {
        const int64_t begin = hrf_product_panel_begin(n, p);
        const int64_t width = hrf_product_panel_begin(n, p + 1) - begin;
        hrf_turn_avx512(HRF_F32, rows_from(&keys, begin).at, keys.row / 2, n - begin, d, width,
                        s->keys + begin * d);
    }
    const struct stored values = find_rows(k, call, HRF_HEAD_V, head, 0, n, s->dense);
    for (int64_t p = 0; p < hrf_product_count_panels(e); p++) {
        const int64_t begin = hrf_product_panel_begin(e, p);
        const int64_t width = hrf_product_panel_begin(e, p + 1) - begin;
        hrf_pair_rows_avx512((const uint16_t *)(const void *)values.at + begin, values.row, n,
                             e - begin, width,
                             (uint32_t *)(void *)(s->values + begin * hrf_ceil_div(n, 2)));
    }
}

/* Rows [first, ...) of a head's matrix in float32 whose columns are neighbours. */
static const float *floats_of(const struct heads_kernel *k, const struct hrf_kernel_call *call,
                              int which, int64_t head, int64_t first)
{
    return (const float *)data_of(k, call, which) + hrf_head_begin(k->spec, which, head) +
           first * k->view.of[which].row;
}

static void pack_fixed(const struct heads_kernel *k, const struct hrf_kernel_call *call,
                       int64_t head, const struct scratch *s)
{
    const struct hrf_fixed_head *h = &s->head;
    const int64_t padded = line_up(h->n_keys);
    for (int64_t i = h->n_keys; i < padded; i++)
        h->key_scales[i] = 0;
    hrf_fixed_round_rows_avx512(floats_of(k, call, HRF_HEAD_K, head, 0), k->view.of[HRF_HEAD_K].row,
                                h->n_keys, h->d, s->rows, h->key_scales);
    hrf_fixed_pack_keys_avx512(s->rows, h->n_keys, h->d, h->keys);
    hrf_fixed_pack_values_avx512(floats_of(k, call, HRF_HEAD_V, head, 0),
                                 k->view.of[HRF_HEAD_V].row, h->n_keys, h->e, h->values,
                                 h->value_scales);
}

/* The mask's row of a query; copied to `dense` unless it is one already. */
static const float *find_mask(const struct heads_kernel *k, const struct hrf_kernel_call *call,
                              int64_t head, int64_t query, int64_t n, float *dense)
{
    const struct hrf_head_matrix *m = &k->view.of[HRF_HEAD_MASK];
    const void *data = data_of(k, call, HRF_HEAD_MASK);
    if (data == NULL)
        return NULL;
    if (k->mask != NULL)
        return k->mask +
               (k->mask_block[head] * k->mask_rows + (k->mask_rows > 1 ? query : 0)) * m->columns;
    const enum hrf_dtype type = k->spec->inputs[HRF_ATTENTION_MASK].dtype;
    const int64_t begin = hrf_head_begin(k->spec, HRF_HEAD_MASK, head) + query * m->row;
    if (m->column == 1 && type == HRF_F32)
        return (const float *)data + begin;
    for (int64_t s = 0; s < n; s++)
        dense[s] = number_at(type, data, begin + s * m->column);
    return dense;
}

static void multiply(enum hrf_words words, const float *a, int64_t a_stride, const float *packed,
                     int64_t depth, void *y, enum hrf_dtype type, int64_t y_stride, int64_t n,
                     int64_t columns)
{
    const struct hrf_epilogue plain = { .type = type };
    const struct hrf_ahead nothing = { 0 };
    hrf_product_avx512(words, a, a_stride, packed, depth, y, y_stride, n, columns, 0,
                       hrf_product_count_panels(columns), &plain, &nothing);
}

/* Where a tensor has images between a head's channels. */
static void scatter(const struct heads_kernel *k, void *y, int64_t begin, const float *result,
                    int64_t n)
{
    const struct hrf_head_matrix *m = &k->view.of[HRF_HEAD_Y];
    const enum hrf_dtype type = k->spec->output.dtype;
    for (int64_t i = 0; i < n * m->columns; i++) {
        const int64_t at = begin + i / m->columns * m->row + i % m->columns * m->column;
        hrf_floats_to(type, &result[i], (char *)y + at * (int64_t)hrf_dtype_size(type), 1);
    }
}

/* The scores of queries [first, first + n) become weights. A mask's row that had to be copied is
 * used up before the next. */
static void weigh(const struct heads_kernel *k, const struct hrf_kernel_call *call, int64_t head,
                  int64_t first, int64_t n, const struct scratch *s)
{
    const int64_t n_keys = k->view.of[HRF_HEAD_K].rows;
    struct hrf_softmax_row rows[HRF_SOFTMAX_ROWS];
    int64_t n_rows = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t seen = k->spec->attributes.causal ? hrf_least(first + i + 1, n_keys) : n_keys;
        const float *mask = find_mask(k, call, head, first + i, seen, s->dense);
        rows[n_rows++] = (struct hrf_softmax_row){ s->scores + i * k->score_stride, seen, mask };
        if (n_rows < HRF_SOFTMAX_ROWS && i + 1 < n && mask != s->dense)
            continue;
        (k->words == HRF_PAIRS ? hrf_rows_softmax_b16_avx512 : hrf_rows_softmax_avx512)(
            rows, n_rows, n_keys, k->spec->attributes.scale);
        n_rows = 0;
    }
}

/* Queries [first, first + n) of a head whose keys and values are packed as integers. */
static void attend_fixed(const struct heads_kernel *k, const struct hrf_kernel_call *call,
                         int64_t head, int64_t first, int64_t n, const struct scratch *s)
{
    const struct hrf_head_matrix *y = &k->view.of[HRF_HEAD_Y];
    const struct hrf_fixed_head *h = &s->head;
    struct hrf_fixed_row rows[FIXED_QUERIES];
    hrf_fixed_round_rows_avx512(floats_of(k, call, HRF_HEAD_Q, head, first),
                                k->view.of[HRF_HEAD_Q].row, n, h->d, s->rows, s->query_scales);
    hrf_fixed_scores_avx512(h, s->rows, n, s->scores, k->score_stride);
    int64_t done = 0; /* a mask's row that had to be copied is used up before the next */
    for (int64_t i = 0; i < n; i++) {
        const int64_t seen = k->spec->attributes.causal ? hrf_least(first + i + 1, h->n_keys)
                                                        : h->n_keys;
        rows[i] = (struct hrf_fixed_row){
            .scores = s->scores + i * k->score_stride,
            .weights = s->weights + i * hrf_fixed_stride(h->n_keys),
            .mask = find_mask(k, call, head, first + i, seen, s->dense),
            .n_seen = seen,
            .scale = s->query_scales[i] * k->spec->attributes.scale,
        };
        if (rows[i].mask == s->dense || i + 1 == n) {
            hrf_fixed_weights_avx512(rows + done, i + 1 - done, h->n_keys);
            done = i + 1;
        }
    }
    hrf_fixed_values_avx512(
        h, rows, n,
        (float *)call->output + hrf_head_begin(k->spec, HRF_HEAD_Y, head) + first * y->row, y->row);
}

/* Queries [first, first + n) of a head whose keys and values are packed. */
static void attend(const struct heads_kernel *k, const struct hrf_kernel_call *call, int64_t head,
                   int64_t first, int64_t n, const struct scratch *s)
{
    const struct hrf_head_matrix *m = k->view.of, *y = &m[HRF_HEAD_Y];
    const int64_t n_keys = m[HRF_HEAD_K].rows, d = m[HRF_HEAD_Q].columns;
    const int64_t per_word = k->words == HRF_PAIRS ? 2 : 1;
    struct stored q = find_rows(k, call, HRF_HEAD_Q, head, first, n, s->queries);
    if (q.type != HRF_F32 && k->words != HRF_PAIRS) {
        hrf_widen_rows_avx512(q.type, q.at, q.row, n, d, line_up(d), s->queries);
        q = (struct stored){ HRF_F32, (const char *)s->queries, line_up(d) };
    }
    multiply(k->words, (const float *)(const void *)q.at, q.row / per_word, s->keys, d / per_word,
             s->scores, HRF_F32, k->score_stride, n, n_keys);
    weigh(k, call, head, first, n, s);
    const int64_t begin = hrf_head_begin(k->spec, HRF_HEAD_Y, head) + first * y->row;
    const bool is_dense = y->column == 1 || y->columns == 1;
    char *out = (char *)call->output + begin * (int64_t)hrf_dtype_size(k->spec->output.dtype);
    multiply(k->words, s->scores, k->score_stride, s->values, hrf_ceil_div(n_keys, per_word),
             is_dense ? (void *)out : s->result, is_dense ? k->spec->output.dtype : HRF_F32,
             is_dense ? y->row : y->columns, n, y->columns);
    if (!is_dense)
        scatter(k, call->output, begin, s->result, n);
}

/* Asks for a head's rows of a matrix: they stand apart, which no processor foresees. */
static void ask(const struct heads_kernel *k, const struct hrf_kernel_call *call, int which,
                int64_t head)
{
    enum { LINE = 64 };
    const struct hrf_head_matrix *m = &k->view.of[which];
    const int64_t size = (int64_t)hrf_dtype_size(k->spec->inputs[which].dtype);
    if (head >= k->view.n_heads || (m->column != 1 && m->columns != 1))
        return;
    const char *row = (const char *)data_of(k, call, which) +
                      hrf_head_begin(k->spec, which, head) * size;
    for (int64_t i = 0; i < m->rows; i++, row += m->row * size)
        for (int64_t at = 0; at < m->columns * size; at += LINE)
            __builtin_prefetch(row + at, 0, 2);
}

static struct hrf_fixed_ahead rows_ahead(const struct heads_kernel *k,
                                         const struct hrf_kernel_call *call, int64_t head)
{
    struct hrf_fixed_ahead ahead = { .n_rows = { 0 } };
    for (int which = HRF_HEAD_Q; which <= HRF_HEAD_V && head < k->view.n_heads; which++) {
        const struct hrf_head_matrix *m = &k->view.of[which];
        ahead.at[which] = (const char *)floats_of(k, call, which, head, 0);
        ahead.stride[which] = m->row * (int64_t)sizeof(float);
        ahead.n_bytes[which] = m->columns * (int64_t)sizeof(float);
        ahead.n_rows[which] = m->rows;
    }
    return ahead;
}

/* Queries [begin, end) of a head. */
static void run_fixed(const struct heads_kernel *k, const struct hrf_kernel_call *call,
                      int64_t head, int64_t begin, int64_t end, float *memory)
{
    struct hrf_fixed_ahead ahead = rows_ahead(k, call,
                                              k->n_parts == 1 ? head + 1 : k->view.n_heads);
    struct scratch s = { 0 };
    place_fixed(k, memory, &s);
    s.head.ahead = &ahead;
    pack_fixed(k, call, head, &s);
    for (int64_t first = begin; first < end; first += k->block)
        attend_fixed(k, call, head, first, hrf_least(k->block, end - first), &s);
}

static void run_floats(const struct heads_kernel *k, const struct hrf_kernel_call *call,
                       int64_t head, int64_t begin, int64_t end, float *memory)
{
    struct scratch s = { 0 };
    place(k, memory, &s);
    (k->words == HRF_PAIRS ? pack_pairs : pack)(k, call, head, &s);
    for (int which = HRF_HEAD_Q; which <= HRF_HEAD_V && end == k->view.of[HRF_HEAD_Q].rows; which++)
        ask(k, call, which, head + 1);
    for (int64_t first = begin; first < end; first += k->block)
        attend(k, call, head, first, hrf_least(k->block, end - first), &s);
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    const struct heads_kernel *k = (const struct heads_kernel *)base;
    const int64_t queries = k->view.of[HRF_HEAD_Q].rows;
    const struct hrf_part_queues parts = hrf_part_queues_begin(
        call->workspace, k->backend->n_threads, k->view.n_heads * k->n_parts);
#pragma omp parallel
    for (int64_t i; (i = hrf_part_queues_take(&parts)) >= 0;) {
        const int64_t head = i / k->n_parts, begin = i % k->n_parts * k->part;
        const int64_t end = hrf_least(begin + k->part, queries);
        float *const memory = (float *)(void *)(parts.of + parts.n_threads) +
                              omp_get_thread_num() * k->scratch_words;
        if (begin < end)
            (k->is_fixed ? run_fixed : run_floats)(k, call, head, begin, end, memory);
    }
    return HRF_OK;
}

static void destroy(struct hrf_kernel *base)
{
    struct heads_kernel *k = (struct heads_kernel *)base;
    hrf_spec_destroy(k->spec);
    hrf_free(k->mask);
    hrf_free(k->mask_block);
    hrf_free(k);
}

/* Few heads are shared out in parts, whose keys and values each thread packs for itself. */
static void choose_blocks(struct heads_kernel *k)
{
    const int64_t queries = k->view.of[HRF_HEAD_Q].rows, n_keys = k->view.of[HRF_HEAD_K].rows;
    const int64_t n_threads = k->backend->n_threads;
    k->n_parts = k->view.n_heads % n_threads == 0 || k->view.n_heads >= 8 * n_threads ? 1
                                                                                      : n_threads;
    k->part = hrf_ceil_div(queries, k->n_parts);
    k->score_stride = line_up(n_keys) + SLACK;
    int64_t block = SCORE_BYTES / (k->score_stride * (int64_t)sizeof(float));
    block = most(LEAST_QUERIES, hrf_least(block, MOST_QUERIES));
    k->block = k->is_fixed ? FIXED_QUERIES
                           : most(1, hrf_ceil_div(k->part, hrf_ceil_div(k->part, block)));
    k->scratch_words = (k->is_fixed ? place_fixed : place)(k, NULL, &(struct scratch){ 0 });
    k->base.workspace_bytes = (size_t)n_threads * (sizeof(struct hrf_part_queue) +
                                                   (size_t)k->scratch_words * sizeof(float));
}

/* Numbers the blocks of a mask: heads whose numbers begin at the same place share one. */
static enum hrf_status number_blocks(struct heads_kernel *k, int32_t *n_blocks,
                                     struct hrf_error *err)
{
    const int64_t n = hrf_shape_count(&k->spec->inputs[HRF_ATTENTION_MASK].shape);
    HRF_AUTO_FREE int32_t *block_at = hrf_alloc_array((size_t)n + 1, sizeof *block_at);
    k->mask_block = hrf_alloc_array((size_t)k->view.n_heads + 1, sizeof *k->mask_block);
    if (block_at == NULL || k->mask_block == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "mask of node '%s'", k->spec->name);
    for (int64_t i = 0; i < n; i++)
        block_at[i] = -1;
    *n_blocks = 0;
    for (int64_t head = 0; head < k->view.n_heads; head++) {
        const int64_t begin = hrf_head_begin(k->spec, HRF_HEAD_MASK, head);
        if (block_at[begin] < 0)
            block_at[begin] = (*n_blocks)++;
        k->mask_block[head] = block_at[begin];
    }
    return HRF_OK;
}

static enum hrf_status pack_mask(struct heads_kernel *k, struct hrf_error *err)
{
    const struct hrf_head_matrix *m = &k->view.of[HRF_HEAD_MASK];
    const void *data = k->spec->inputs[HRF_ATTENTION_MASK].constant;
    const enum hrf_dtype type = k->spec->inputs[HRF_ATTENTION_MASK].dtype;
    int32_t n_blocks = 0;
    HRF_TRY(number_blocks(k, &n_blocks, err));
    k->mask_rows = m->row == 0 ? 1 : m->rows;
    const size_t n = (size_t)(n_blocks * k->mask_rows * m->columns);
    k->mask = hrf_alloc_array(n + 1, sizeof *k->mask);
    HRF_CHECK_MEMORY(k->mask != NULL, err, "mask of node '%s'", k->spec->name);
    k->base.weight_bytes += n * sizeof *k->mask;
    for (int64_t head = 0, next = 0; head < k->view.n_heads; head++) {
        if (k->mask_block[head] != next)
            continue;
        const int64_t begin = hrf_head_begin(k->spec, HRF_HEAD_MASK, head);
        float *to = k->mask + next++ * k->mask_rows * m->columns;
        for (int64_t i = 0; i < k->mask_rows * m->columns; i++)
            to[i] = number_at(type, data,
                              begin + i / m->columns * m->row + i % m->columns * m->column);
    }
    return HRF_OK;
}

static bool is_fixed(const struct heads_kernel *k)
{
    for (int which = HRF_HEAD_Q; which <= HRF_HEAD_Y; which++) {
        const struct hrf_head_matrix *m = &k->view.of[which];
        const bool is_input = which != HRF_HEAD_Y;
        if ((m->column != 1 && m->columns != 1) ||
            (is_input ? k->spec->inputs[which].dtype : k->spec->output.dtype) != HRF_F32)
            return false;
    }
    return k->spec->attributes.fixed_point && k->spec->attributes.scale > 0 &&
           k->view.of[HRF_HEAD_K].rows <= HRF_FIXED_KEYS && hrf_cpu_token_product_is_fast();
}

/* True if queries, keys and values are pairs of bfloat16 as they stand. */
static bool has_pairs(const struct heads_kernel *k)
{
    if (!hrf_cpu_has_avx512_bf16() || k->view.of[HRF_HEAD_Q].columns % 2 != 0)
        return false;
    for (int which = HRF_HEAD_Q; which <= HRF_HEAD_V; which++) {
        const struct hrf_head_matrix *m = &k->view.of[which];
        if (k->spec->inputs[which].dtype != HRF_B16 || m->column != 1 || m->row % 2 != 0)
            return false;
        for (int64_t head = 0; head < k->view.n_heads; head++)
            if (hrf_head_begin(k->spec, which, head) % 2 != 0)
                return false;
    }
    return true;
}

bool hrf_cpu_attention_heads_fit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_cpu_has_avx512() && hrf_shape_count(&graph->values[node->outputs[0]].shape) > 0 &&
           hrf_node_form(graph, node) != HRF_FORM_INTEGER;
}

enum hrf_status hrf_cpu_attention_heads_compile(struct hrf_backend *backend,
                                                const struct hrf_graph *graph,
                                                const struct hrf_node *node,
                                                struct hrf_kernel **out, struct hrf_error *err)
{
    struct heads_kernel *k = hrf_calloc(1, sizeof *k);
    if (k == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    k->base = (struct hrf_kernel){ .run = run, .destroy = destroy };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    k->backend = backend;
    HRF_TRY(hrf_spec_create(graph, node, &k->spec, err));
    hrf_head_view(k->spec, &k->view);
    k->is_fixed = is_fixed(k);
    k->words = has_pairs(k) ? HRF_PAIRS : HRF_FLOATS;
    choose_blocks(k);
    k->base.weight_bytes = hrf_spec_constant_bytes(k->spec);
    if (hrf_spec_has(k->spec, HRF_ATTENTION_MASK) &&
        k->spec->inputs[HRF_ATTENTION_MASK].constant != NULL)
        HRF_TRY(pack_mask(k, err));
    k->base.implementation = k->is_fixed ? "int16 heads:avx512_vnni"
                             : k->words == HRF_PAIRS
                                 ? "heads:avx512_bf16"
                                 : HRF_CPU_NAME(k->spec->output.dtype, "heads:avx512");
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
