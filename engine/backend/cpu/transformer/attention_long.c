/* attention_long.c - softmax attention over more keys than a block of scores can hold, with
 * AVX-512: keys are taken in blocks of HRF_ATTENTION_KEYS, in their order, and each query keeps its
 * sum so far, its largest score and the sum of its exponentials (graph.h, ATTENTION_PART). A
 * query's result depends on neither the threads nor the other queries, nor on how its keys are
 * divided into parts that begin at multiples of a block. Source: Milakov and Gimelshein, "Online
 * normalizer calculation for softmax" (2018); Dao et al., "FlashAttention" (2022). */
#include "engine/backend/cpu/avx512/rows_of_tokens_avx512.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/transformer/attention.h"
#include "engine/ir/number.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { QUERIES = 192, SLACK = 16 }; /* of a block: scores stay in the second-level cache */

struct long_kernel {
    struct hrf_kernel base;
    struct hrf_spec *spec;
    struct hrf_head_view view;
    int64_t n_blocks; /* of queries, of a head */
    int64_t scratch_words;
};

/* A thread's memory. */
struct scratch {
    float *keys, *values;                 /* packed */
    float *queries, *scores, *seen;       /* of a block */
    float *sums, *largest, *exponentials; /* of its queries: what they have seen so far */
};

static int64_t line_up(int64_t words)
{
    return hrf_ceil_div(words, 16) * 16;
}

static int64_t place(const struct long_kernel *k, float *at, struct scratch *out)
{
    const int64_t d = k->spec->attributes.size, block = HRF_ATTENTION_KEYS;
    const int64_t sizes[] = { (int64_t)hrf_product_packed_count(d, block),
                              (int64_t)hrf_product_packed_count(block, d),
                              QUERIES * line_up(d),
                              QUERIES * (block + SLACK),
                              QUERIES * d,
                              QUERIES * d,
                              QUERIES,
                              QUERIES };
    float **const parts[] = { &out->keys, &out->values, &out->queries, &out->scores,
                              &out->seen, &out->sums,   &out->largest, &out->exponentials };
    int64_t used = 0;
    for (int i = 0; i < 8; i++) {
        if (at != NULL)
            *parts[i] = at + used;
        used += line_up(sizes[i]);
    }
    return used;
}

/* Row `first` of a head's matrix. */
static const char *row_of(const struct long_kernel *k, const struct hrf_kernel_call *call,
                          int which, int64_t head, int64_t first)
{
    const int64_t at = hrf_head_begin(k->spec, which, head) + first * k->view.of[which].row;
    return (const char *)hrf_spec_data(k->spec, call, which) +
           at * (int64_t)hrf_dtype_size(k->spec->inputs[which].dtype);
}

/* Keys and values [first, first + n), as attention_heads.c packs them. */
static void pack(const struct long_kernel *k, const struct hrf_kernel_call *call, int64_t head,
                 int64_t first, int64_t n, const struct scratch *s)
{
    const int64_t d = k->spec->attributes.size;
    const enum hrf_dtype types[] = { k->spec->inputs[HRF_HEAD_K].dtype,
                                     k->spec->inputs[HRF_HEAD_V].dtype };
    for (int64_t p = 0; p < hrf_product_count_panels(n); p++) {
        const int64_t begin = hrf_product_panel_begin(n, p);
        const int64_t width = hrf_product_panel_begin(n, p + 1) - begin;
        hrf_turn_avx512(types[0], row_of(k, call, HRF_HEAD_K, head, first + begin),
                        k->view.of[HRF_HEAD_K].row, n - begin, d, width, s->keys + begin * d);
    }
    const char *values = row_of(k, call, HRF_HEAD_V, head, first);
    for (int64_t p = 0; p < hrf_product_count_panels(d); p++) {
        const int64_t begin = hrf_product_panel_begin(d, p);
        const int64_t width = hrf_product_panel_begin(d, p + 1) - begin;
        hrf_widen_rows_avx512(types[1], values + begin * (int64_t)hrf_dtype_size(types[1]),
                              k->view.of[HRF_HEAD_V].row, n, d - begin, width,
                              s->values + begin * n);
    }
}

static void multiply(const float *a, int64_t a_stride, const float *packed, int64_t depth, float *y,
                     int64_t y_stride, int64_t n, int64_t columns)
{
    const struct hrf_epilogue plain = { .type = HRF_F32 };
    const struct hrf_ahead nothing = { 0 };
    hrf_product_avx512(HRF_FLOATS, a, a_stride, packed, depth, y, y_stride, n, columns, 0,
                       hrf_product_count_panels(columns), &plain, &nothing);
}

/* ---- what a query has seen so far ---- */

/* Of the first query of the block: the head's numbers in a tensor [N][T][group * (size + 2)]. */
static int64_t state_begin(const struct long_kernel *k, int64_t head, int64_t first)
{
    const struct hrf_attributes *a = &k->spec->attributes;
    const int64_t row = a->group * (a->size + HRF_ATTENTION_STATE);
    const int64_t token = head / a->group * k->view.of[HRF_HEAD_Q].rows + first;
    return token * row + head % a->group * (a->size + HRF_ATTENTION_STATE);
}

static void load_state(const struct long_kernel *k, const struct hrf_kernel_call *call,
                       int64_t head, int64_t first, int64_t n, const struct scratch *s)
{
    const struct hrf_attributes *a = &k->spec->attributes;
    const bool has_state = hrf_spec_has(k->spec, HRF_ATTENTION_SEEN);
    const float *state = has_state ? hrf_spec_data(k->spec, call, HRF_ATTENTION_SEEN) : NULL;
    memset(s->sums, 0, (size_t)(n * a->size) * sizeof *s->sums);
    for (int64_t i = 0; i < n; i++) {
        s->largest[i] = -INFINITY;
        s->exponentials[i] = 0;
        if (!has_state)
            continue;
        const float *from = state + state_begin(k, head, first + i);
        memcpy(s->sums + i * a->size, from, (size_t)a->size * sizeof *from);
        s->largest[i] = from[a->size];
        s->exponentials[i] = from[a->size + 1];
    }
}

static void store_state(const struct long_kernel *k, const struct hrf_kernel_call *call,
                        int64_t head, int64_t first, int64_t n, const struct scratch *s)
{
    const struct hrf_attributes *a = &k->spec->attributes;
    for (int64_t i = 0; i < n; i++) {
        float *to = (float *)call->output + state_begin(k, head, first + i);
        memcpy(to, s->sums + i * a->size, (size_t)a->size * sizeof *to);
        to[a->size] = s->largest[i];
        to[a->size + 1] = s->exponentials[i];
    }
}

static void store_result(const struct long_kernel *k, const struct hrf_kernel_call *call,
                         int64_t head, int64_t first, int64_t n, const struct scratch *s)
{
    const int64_t d = k->spec->attributes.size, row = k->view.of[HRF_HEAD_Y].row;
    const enum hrf_dtype type = k->spec->output.dtype;
    int64_t at = hrf_head_begin(k->spec, HRF_HEAD_Y, head) + first * row;
    for (int64_t i = 0; i < n; i++, at += row) {
        float *sums = s->sums + i * d;
        const float factor = s->exponentials[i] != 0 ? 1 / s->exponentials[i] : 0;
        for (int64_t c = 0; c < d; c++)
            sums[c] *= factor;
        hrf_floats_to(type, sums, (char *)call->output + at * (int64_t)hrf_dtype_size(type), d);
    }
}

/* Scores of query i and n keys become exponentials; what the query has seen is scaled to them. */
static void weigh(const struct scratch *s, int64_t i, int64_t d, float *scores, int64_t n)
{
    float sum;
    const float before = s->largest[i];
    const float most = hrf_row_exponentials_avx512(scores, n, before, &sum);
    const float factor = before == most ? 1 : expf(before - most);
    s->largest[i] = most;
    s->exponentials[i] = s->exponentials[i] * factor + sum;
    for (int64_t c = 0; c < d && factor != 1; c++)
        s->sums[i * d + c] *= factor;
}

/* ---- running ---- */

static void attend(const struct long_kernel *k, const struct hrf_kernel_call *call, int64_t head,
                   int64_t first, int64_t n, const struct scratch *s)
{
    const int64_t n_keys = k->view.of[HRF_HEAD_K].rows, d = k->spec->attributes.size;
    const int64_t stride = HRF_ATTENTION_KEYS + SLACK, q_stride = line_up(d);
    hrf_widen_rows_avx512(k->spec->inputs[HRF_HEAD_Q].dtype,
                          row_of(k, call, HRF_HEAD_Q, head, first), k->view.of[HRF_HEAD_Q].row, n,
                          d, q_stride, s->queries);
    for (int64_t i = 0; i < n * q_stride; i++)
        s->queries[i] *= k->spec->attributes.scale;
    load_state(k, call, head, first, n, s);
    for (int64_t begin = 0; begin < n_keys; begin += HRF_ATTENTION_KEYS) {
        const int64_t width = hrf_least(HRF_ATTENTION_KEYS, n_keys - begin);
        pack(k, call, head, begin, width, s);
        multiply(s->queries, q_stride, s->keys, d, s->scores, stride, n, width);
        for (int64_t i = 0; i < n; i++)
            weigh(s, i, d, s->scores + i * stride, width);
        multiply(s->scores, stride, s->values, width, s->seen, d, n, d);
        for (int64_t i = 0; i < n * d; i++)
            s->sums[i] += s->seen[i];
    }
    if (hrf_attention_gives_state(&k->spec->attributes, &k->spec->output.shape))
        store_state(k, call, head, first, n, s);
    else
        store_result(k, call, head, first, n, s);
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    const struct long_kernel *k = (const struct long_kernel *)base;
    const int64_t queries = k->view.of[HRF_HEAD_Q].rows;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < k->view.n_heads * k->n_blocks; i++) {
        const int64_t first = i % k->n_blocks * QUERIES;
        struct scratch s = { 0 };
        place(k, (float *)call->workspace + omp_get_thread_num() * k->scratch_words, &s);
        attend(k, call, i / k->n_blocks, first, hrf_least(QUERIES, queries - first), &s);
    }
    return HRF_OK;
}

static void destroy(struct hrf_kernel *base)
{
    struct long_kernel *k = (struct long_kernel *)base;
    hrf_spec_destroy(k->spec);
    hrf_free(k);
}

bool hrf_cpu_attention_long_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_cpu_has_avx512() && hrf_attention_is_long(graph, node);
}

enum hrf_status hrf_cpu_attention_long_compile(struct hrf_backend *backend,
                                               const struct hrf_graph *graph,
                                               const struct hrf_node *node, struct hrf_kernel **out,
                                               struct hrf_error *err)
{
    struct long_kernel *k = hrf_calloc(1, sizeof *k);
    if (k == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    k->base = (struct hrf_kernel){ .run = run, .destroy = destroy };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    HRF_TRY(hrf_spec_create(graph, node, &k->spec, err));
    hrf_head_view(k->spec, &k->view);
    k->n_blocks = hrf_ceil_div(k->view.of[HRF_HEAD_Q].rows, QUERIES);
    k->scratch_words = place(k, NULL, &(struct scratch){ 0 });
    k->base.workspace_bytes = (size_t)(backend->n_threads * k->scratch_words) * sizeof(float);
    k->base.implementation = HRF_CPU_NAME(k->spec->inputs[HRF_HEAD_Q].dtype, "long:avx512");
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
