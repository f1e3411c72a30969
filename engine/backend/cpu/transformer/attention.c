/* attention.c - the loop of every softmax attention (attention.h): division among threads, memory,
 * masks, blocks of keys, and outputs whose channels are not contiguous. */
#include "engine/backend/cpu/transformer/attention.h"

#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/part_queues.h"
#include "engine/ir/number.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum {
    SCORE_BYTES = 128 *
                  1024, /* of a block of queries; leaves room in the cache for keys and values */
    SLACK = 16,         /* words between rows, so that rows of a tile map to different cache sets */
};

static bool is_in_blocks(const struct hrf_attention *k)
{
    return k->form->keys > 0;
}

/* ---- memory ---- */

/* Places the buffers from `memory` on, if it is not NULL; returns their total size in bytes. */
static int64_t lay_out(const struct hrf_attention *k, char *memory,
                       void *buffer[HRF_ATTENTION_BUFFERS])
{
    const struct hrf_head_matrix *q = &k->view.of[HRF_HEAD_Q], *v = &k->view.of[HRF_HEAD_V];
    const bool has_mask = hrf_spec_has(k->spec, HRF_ATTENTION_MASK);
    const int64_t sums = k->block * v->columns * (int64_t)sizeof(float);
    int64_t bytes[HRF_ATTENTION_BUFFERS] = { 0 }, used = 0;
    k->form->measure(k, bytes);
    for (int which = HRF_HEAD_Q; which <= HRF_HEAD_V; which++)
        if (!hrf_head_is_dense(&k->view, which))
            bytes[HRF_DENSE] = (int64_t)sizeof(float) * hrf_max(k->keys, k->block) *
                               hrf_max(q->columns, v->columns);
    bytes[HRF_MASK_ROW] = has_mask && k->mask == NULL ? k->keys * (int64_t)sizeof(float) : 0;
    bytes[HRF_SUMS] = is_in_blocks(k) || !hrf_head_is_dense(&k->view, HRF_HEAD_Y) ? sums : 0;
    bytes[HRF_SEEN_SUMS] = is_in_blocks(k) ? sums : 0;
    for (int i = 0; i < HRF_ATTENTION_BUFFERS; i++) {
        buffer[i] = memory != NULL ? memory + used : NULL;
        used += hrf_ceil_div(bytes[i], HRF_BUFFER_ALIGNMENT) * HRF_BUFFER_ALIGNMENT;
    }
    return used;
}

/* ---- where numbers lie ---- */

static const char *element(enum hrf_dtype type, const void *data, int64_t i)
{
    return (const char *)data + i * (int64_t)hrf_dtype_size(type);
}

static float number_at(enum hrf_dtype type, const void *data, int64_t i)
{
    float number;
    hrf_floats_from(type, element(type, data, i), &number, 1);
    return number;
}

struct hrf_stored_rows hrf_head_rows(const struct hrf_attention_tile *t, int which, int64_t first,
                                     int64_t n)
{
    const struct hrf_head_matrix *m = &t->of->view.of[which];
    const enum hrf_dtype type = t->of->spec->inputs[which].dtype;
    const void *data = hrf_spec_data(t->of->spec, t->call, which);
    const int64_t begin = t->begin[which] + first * m->row;
    float *dense = t->buffer[HRF_DENSE];
    if (hrf_head_is_dense(&t->of->view, which))
        return (struct hrf_stored_rows){ type, element(type, data, begin), m->row };
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < m->columns; c++)
            dense[i * m->columns + c] = number_at(type, data, begin + i * m->row + c * m->column);
    return (struct hrf_stored_rows){ HRF_F32, (const char *)dense, m->columns };
}

/* A head's queries, keys and values, to be prefetched. */
static struct hrf_rows_ahead rows_of_head(const struct hrf_attention_tile *t, int64_t head)
{
    const struct hrf_attention *k = t->of;
    struct hrf_rows_ahead ahead = { .n_rows = { 0 } };
    for (int which = HRF_HEAD_Q; which <= HRF_HEAD_V && head < k->view.n_heads; which++) {
        const struct hrf_head_matrix *m = &k->view.of[which];
        const enum hrf_dtype type = k->spec->inputs[which].dtype;
        const int64_t size = (int64_t)hrf_dtype_size(type);
        ahead.at[which] = element(type, hrf_spec_data(k->spec, t->call, which),
                                  hrf_head_begin(&k->view, which, head));
        ahead.stride[which] = m->row * size;
        ahead.n_bytes[which] = m->columns * size;
        ahead.n_rows[which] = hrf_head_is_dense(&k->view, which) ? m->rows : 0;
    }
    return ahead;
}

/* The mask's row of a query; copied unless it is contiguous floats. */
static const float *find_mask(const struct hrf_attention_tile *t, int64_t query, int64_t n)
{
    const struct hrf_attention *k = t->of;
    const struct hrf_head_matrix *m = &k->view.of[HRF_HEAD_MASK];
    const void *data = hrf_spec_data(k->spec, t->call, HRF_ATTENTION_MASK);
    float *copy = t->buffer[HRF_MASK_ROW];
    if (data == NULL)
        return NULL;
    if (k->mask != NULL)
        return k->mask + (k->mask_block[t->head] * k->mask_rows + (k->mask_rows > 1 ? query : 0)) *
                             m->columns;
    const enum hrf_dtype type = k->spec->inputs[HRF_ATTENTION_MASK].dtype;
    const int64_t begin = t->begin[HRF_HEAD_MASK] + query * m->row;
    if (m->column == 1 && type == HRF_F32)
        return (const float *)data + begin;
    for (int64_t i = 0; i < n; i++)
        copy[i] = number_at(type, data, begin + i * m->column);
    return copy;
}

/* Copies the results to an output in which a head's channels are not contiguous. */
static void scatter(const struct hrf_attention_tile *t, int64_t begin)
{
    const struct hrf_head_matrix *m = &t->of->view.of[HRF_HEAD_Y];
    const enum hrf_dtype type = t->of->spec->output.dtype;
    const float *sums = t->buffer[HRF_SUMS];
    for (int64_t i = 0; i < t->n * m->columns; i++) {
        const int64_t at = begin + i / m->columns * m->row + i % m->columns * m->column;
        hrf_floats_to(type, &sums[i], (char *)t->call->output + at * (int64_t)hrf_dtype_size(type),
                      1);
    }
}

/* ---- keys in blocks ----
 *
 * Each query keeps a running state of the keys so far (graph.h, ATTENTION_PART). Its result does
 * not depend on how keys are divided into parts that begin at multiples of a block. Source: Milakov
 * and Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et al., "FlashAttention"
 * (2022). */

/* The position of a query's state in a tensor [N][T][heads * (size + 2)]. */
static int64_t state_begin(const struct hrf_attention_tile *t, int64_t query)
{
    const struct hrf_attributes *a = &t->of->spec->attributes;
    const int64_t size = a->attention.head_size + HRF_ATTENTION_STATE;
    const int64_t token = t->head / a->attention.heads * t->of->view.of[HRF_HEAD_Q].rows + query;
    return (token * a->attention.heads + t->head % a->attention.heads) * size;
}

static void begin_sums(struct hrf_attention_tile *t)
{
    const int64_t e = t->of->view.of[HRF_HEAD_V].columns;
    const float *state = hrf_spec_data(t->of->spec, t->call, HRF_ATTENTION_SEEN);
    float *sums = t->buffer[HRF_SEEN_SUMS];
    memset(sums, 0, (size_t)(t->n * e) * sizeof *sums);
    for (int64_t i = 0; i < t->n; i++) {
        t->rows[i] = (struct hrf_score_row){ .largest = -INFINITY };
        if (state == NULL)
            continue;
        const float *from = state + state_begin(t, t->first + i);
        memcpy(sums + i * e, from, (size_t)e * sizeof *from);
        t->rows[i].largest = from[e];
        t->rows[i].factor = from[e + 1];
    }
}

/* Adds a block's sums to the earlier ones, which are rescaled to the new largest score. Until the
 * last block, a row's factor is the sum of its exponentials. */
static void add_block(struct hrf_attention_tile *t, const float *before)
{
    const int64_t e = t->of->view.of[HRF_HEAD_V].columns;
    const float *added = t->buffer[HRF_SUMS];
    for (int64_t i = 0; i < t->n; i++) {
        struct hrf_score_row *row = &t->rows[i];
        float *sums = (float *)t->buffer[HRF_SEEN_SUMS] + i * e;
        const float factor = before[i] == row->largest ? 1 : expf(before[i] - row->largest);
        row->factor = row->factor * factor + row->sum;
        for (int64_t c = 0; c < e && factor != 1; c++)
            sums[c] *= factor;
        for (int64_t c = 0; c < e; c++)
            sums[c] += added[i * e + c];
    }
}

static void end_sums(struct hrf_attention_tile *t)
{
    const struct hrf_attention *k = t->of;
    const int64_t e = k->view.of[HRF_HEAD_V].columns, y_row = k->view.of[HRF_HEAD_Y].row;
    const enum hrf_dtype type = k->spec->output.dtype;
    const bool gives_state = hrf_attention_gives_state(&k->spec->attributes,
                                                       &k->spec->output.shape);
    for (int64_t i = 0; i < t->n; i++) {
        float *sums = (float *)t->buffer[HRF_SEEN_SUMS] + i * e;
        const float sum = t->rows[i].factor, factor = sum != 0 ? 1 / sum : 0;
        if (gives_state) {
            float *to = (float *)t->call->output + state_begin(t, t->first + i);
            memcpy(to, sums, (size_t)e * sizeof *to);
            to[e] = t->rows[i].largest;
            to[e + 1] = sum;
            continue;
        }
        for (int64_t c = 0; c < e; c++)
            sums[c] *= factor;
        const int64_t at = t->begin[HRF_HEAD_Y] + (t->first + i) * y_row;
        hrf_floats_to(type, sums, (char *)t->call->output + at * (int64_t)hrf_dtype_size(type), e);
    }
}

/* ---- running ---- */

/* Turns the block's scores into weights, row by row if mask rows are copied, because there is room
 * for one copy. */
static void attention_weigh(struct hrf_attention_tile *t)
{
    const struct hrf_attention *k = t->of;
    const struct hrf_attributes *a = &k->spec->attributes;
    int64_t done = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const int64_t query = t->first + i;
        struct hrf_score_row *row = &t->rows[i];
        row->scores = (float *)t->buffer[HRF_SCORES] + i * k->score_row;
        row->n_seen = a->attention.causal ? hrf_min(query + 1, t->n_keys) : t->n_keys;
        row->mask = find_mask(t, query, row->n_seen);
        row->scale = k->form->scales_products ? 1 : a->attention.scale;
        if (i + 1 == t->n || (row->mask != NULL && row->mask == t->buffer[HRF_MASK_ROW])) {
            k->form->weigh(t, t->rows + done, i + 1 - done);
            done = i + 1;
        }
    }
}

static void sum_values(struct hrf_attention_tile *t)
{
    const struct hrf_attention *k = t->of;
    const struct hrf_head_matrix *y = &k->view.of[HRF_HEAD_Y];
    const enum hrf_dtype type = k->spec->output.dtype;
    const int64_t begin = t->begin[HRF_HEAD_Y] + t->first * y->row;
    if (hrf_head_is_dense(&k->view, HRF_HEAD_Y)) {
        k->form->sum(t, type, (char *)t->call->output + begin * (int64_t)hrf_dtype_size(type),
                     y->row);
        return;
    }
    k->form->sum(t, HRF_F32, t->buffer[HRF_SUMS], y->columns);
    scatter(t, begin);
}

/* Computes the tile's queries with all keys, in blocks of keys. */
static void attend_in_blocks(struct hrf_attention_tile *t, int64_t n_keys)
{
    float before[HRF_ATTENTION_MAX_QUERIES];
    begin_sums(t);
    t->of->form->load(t);
    for (t->first_key = 0; t->first_key < n_keys; t->first_key += t->of->keys) {
        t->n_keys = hrf_min(t->of->keys, n_keys - t->first_key);
        for (int64_t i = 0; i < t->n; i++)
            before[i] = t->rows[i].largest;
        t->of->form->pack(t);
        t->of->form->score(t);
        attention_weigh(t);
        t->of->form->sum(t, HRF_F32, t->buffer[HRF_SUMS], t->of->view.of[HRF_HEAD_V].columns);
        add_block(t, before);
    }
    end_sums(t);
}

/* Computes queries [begin, end) of a head. */
static void attend(const struct hrf_attention *k, const struct hrf_kernel_call *call, int64_t head,
                   int64_t begin, int64_t end, char *memory)
{
    const int64_t n_keys = k->view.of[HRF_HEAD_K].rows;
    const int n_matrices = hrf_spec_has(k->spec, HRF_ATTENTION_MASK) ? HRF_HEAD_MATRICES
                                                                     : HRF_HEAD_MASK;
    struct hrf_attention_tile t; /* not initialised, because clearing its rows would take long */
    t.of = k;
    t.call = call;
    t.head = head;
    for (int which = 0; which < n_matrices; which++)
        t.begin[which] = hrf_head_begin(&k->view, which, head);
    lay_out(k, memory, t.buffer);
    t.first = begin;
    t.n = hrf_min(k->block, end - begin);
    if (!is_in_blocks(k)) {
        const bool is_last = end == k->view.of[HRF_HEAD_Q].rows;
        t.ahead = rows_of_head(&t, is_last ? head + 1 : k->view.n_heads);
        t.first_key = 0;
        t.n_keys = n_keys;
        k->form->pack(&t);
    }
    for (; t.first < end; t.first += k->block) {
        t.n = hrf_min(k->block, end - t.first);
        if (is_in_blocks(k)) {
            attend_in_blocks(&t, n_keys);
            continue;
        }
        k->form->load(&t);
        k->form->score(&t);
        attention_weigh(&t);
        sum_values(&t);
    }
}

static enum hrf_status attention_run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                     struct hrf_error *err)
{
    const struct hrf_attention *k = (const struct hrf_attention *)base;
    const struct hrf_part_queues parts = hrf_part_queues_begin(
        call->workspace, k->backend->n_threads, k->view.n_heads * k->n_parts);
    (void)err;
#pragma omp parallel
    for (int64_t i; (i = hrf_part_queues_take(&parts)) >= 0;) {
        const int64_t begin = i % k->n_parts * k->part;
        const int64_t end = hrf_min(begin + k->part, k->view.of[HRF_HEAD_Q].rows);
        char *memory = (char *)(parts.of + parts.n_threads) +
                       omp_get_thread_num() * k->scratch_bytes;
        if (begin < end)
            attend(k, call, i / k->n_parts, begin, end, memory);
    }
    return HRF_OK;
}

static void attention_destroy(struct hrf_kernel *base)
{
    struct hrf_attention *k = (struct hrf_attention *)base;
    hrf_spec_destroy(k->spec);
    hrf_free(k->constants);
    hrf_free(k->mask);
    hrf_free(k->mask_block);
    hrf_free(k);
}

/* ---- compiling ---- */

/* If there are few heads, they are divided into parts, for which each thread packs keys and values
 * itself. */
static void choose_blocks(struct hrf_attention *k)
{
    const int64_t queries = k->view.of[HRF_HEAD_Q].rows, n_keys = k->view.of[HRF_HEAD_K].rows;
    const int64_t n_threads = k->backend->n_threads, step = k->form->step;
    k->n_parts = k->view.n_heads % n_threads == 0 || k->view.n_heads >= 8 * n_threads ? 1
                                                                                      : n_threads;
    k->part = hrf_ceil_div(queries, k->n_parts);
    k->keys = is_in_blocks(k) ? k->form->keys : n_keys;
    k->score_row = hrf_whole_lines(hrf_max(k->keys, k->view.of[HRF_HEAD_V].columns)) + SLACK;
    const int64_t block = hrf_clamp(SCORE_BYTES / (k->score_row * (int64_t)sizeof(float)),
                                    k->form->min_queries, k->form->max_queries);
    const int64_t n_blocks = hrf_max(1, hrf_ceil_div(k->part, block));
    k->block = hrf_max(1, hrf_ceil_div(hrf_ceil_div(k->part, n_blocks), step)) * step;
    k->scratch_bytes = lay_out(k, NULL, (void *[HRF_ATTENTION_BUFFERS]){ NULL });
    k->base.workspace_bytes = (size_t)n_threads *
                              (sizeof(struct hrf_part_queue) + (size_t)k->scratch_bytes);
}

/* Numbers the blocks of a mask: heads whose mask begins at the same offset share a block. */
static enum hrf_status number_blocks(struct hrf_attention *k, int32_t *n_blocks,
                                     struct hrf_error *err)
{
    const int64_t n = hrf_shape_count(&k->spec->inputs[HRF_ATTENTION_MASK].shape);
    HRF_AUTO_FREE int32_t *block_at = hrf_try_alloc_array((size_t)n + 1, sizeof *block_at);
    k->mask_block = hrf_try_alloc_array((size_t)k->view.n_heads + 1, sizeof *k->mask_block);
    HRF_CHECK_MEMORY(block_at != NULL && k->mask_block != NULL, err, "mask of node '%s'",
                     k->spec->name);
    for (int64_t i = 0; i < n; i++)
        block_at[i] = -1;
    *n_blocks = 0;
    for (int64_t head = 0; head < k->view.n_heads; head++) {
        const int64_t begin = hrf_head_begin(&k->view, HRF_HEAD_MASK, head);
        if (block_at[begin] < 0)
            block_at[begin] = (*n_blocks)++;
        k->mask_block[head] = block_at[begin];
    }
    return HRF_OK;
}

static enum hrf_status pack_mask(struct hrf_attention *k, struct hrf_error *err)
{
    const struct hrf_head_matrix *m = &k->view.of[HRF_HEAD_MASK];
    const void *data = k->spec->inputs[HRF_ATTENTION_MASK].constant;
    const enum hrf_dtype type = k->spec->inputs[HRF_ATTENTION_MASK].dtype;
    int32_t n_blocks = 0;
    HRF_TRY(number_blocks(k, &n_blocks, err));
    k->mask_rows = m->row == 0 ? 1 : m->rows;
    const int64_t n = k->mask_rows * m->columns;
    const size_t n_numbers = (size_t)(n_blocks * n);
    k->mask = hrf_try_alloc_array(n_numbers + 1, sizeof *k->mask);
    HRF_CHECK_MEMORY(k->mask != NULL, err, "mask of node '%s': %zu numbers", k->spec->name,
                     n_numbers);
    k->base.weight_bytes += n_numbers * sizeof *k->mask;
    for (int64_t head = 0, next = 0; head < k->view.n_heads; head++) {
        if (k->mask_block[head] != next)
            continue;
        const int64_t begin = hrf_head_begin(&k->view, HRF_HEAD_MASK, head);
        float *to = k->mask + next++ * n;
        for (int64_t i = 0; i < n; i++)
            to[i] = number_at(type, data,
                              begin + i / m->columns * m->row + i % m->columns * m->column);
    }
    return HRF_OK;
}

enum hrf_status hrf_attention_compile(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                                      const struct hrf_graph *graph, const struct hrf_node *node,
                                      struct hrf_kernel **out, struct hrf_error *err)
{
    struct hrf_attention *k = hrf_calloc(1, sizeof *k);
    k->base = (struct hrf_kernel){ .run = attention_run, .destroy = attention_destroy };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    k->form = row->own;
    k->backend = backend;
    HRF_TRY(hrf_spec_create(graph, node, &k->spec, err));
    hrf_head_view(graph, node, &k->view);
    k->base.weight_bytes = hrf_spec_constant_bytes(k->spec);
    if (hrf_spec_has(k->spec, HRF_ATTENTION_MASK) &&
        k->spec->inputs[HRF_ATTENTION_MASK].constant != NULL)
        HRF_TRY(pack_mask(k, err));
    if (k->form->prepare != NULL)
        k->constants = k->form->prepare(k->spec);
    choose_blocks(k);
    HRF_MOVE(*out, owned);
    return HRF_OK;
}
