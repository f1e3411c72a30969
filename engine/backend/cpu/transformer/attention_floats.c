/* attention_floats.c - attention (attention.h) by the matrix product of product.h, with AVX-512: in
 * floats, in floats with keys in blocks, and in pairs of bfloat16. 16-bit inputs are widened when
 * they are packed, and results are narrowed when they are stored; or inputs are multiplied as
 * pairs, with weights of bfloat16. */
#include "engine/backend/cpu/avx512/rows_of_tokens_avx512.h"
#include "engine/backend/cpu/avx512/softmax_avx512.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/transformer/attention.h"

static int64_t numbers_of_word(const struct hrf_attention *k)
{
    return k->form->word_type == HRF_WORD_B16_PAIR ? 2 : 1;
}

static void attention_floats_measure(const struct hrf_attention *k,
                                     int64_t bytes[HRF_ATTENTION_BUFFERS])
{
    const int64_t per_word = numbers_of_word(k), word = sizeof(float);
    const int64_t d = k->view.of[HRF_HEAD_Q].columns, e = k->view.of[HRF_HEAD_V].columns;
    bytes[HRF_PACKED_KEYS] = (int64_t)hrf_product_packed_count(d / per_word, k->keys) * word;
    bytes[HRF_PACKED_VALUES] = (int64_t)hrf_product_packed_count(hrf_ceil_div(k->keys, per_word),
                                                                 e) *
                               word;
    bytes[HRF_QUERIES] = k->block * hrf_whole_lines(d) * word;
    bytes[HRF_SCORES] = k->block * k->score_row * word;
}

/* Packs K as the right matrix of the first product, [d][keys], and V as that of the second,
 * [keys][e]. Pairs are two channels of a key, which are copied like floats, and two values of a
 * channel. */
static void attention_floats_pack(struct hrf_attention_tile *t)
{
    const bool has_pairs = t->of->form->word_type == HRF_WORD_B16_PAIR;
    const int64_t n = t->n_keys, per_word = numbers_of_word(t->of);
    const int64_t d = t->of->view.of[HRF_HEAD_Q].columns / per_word;
    const int64_t e = t->of->view.of[HRF_HEAD_V].columns;
    const struct hrf_stored_rows keys = hrf_head_rows(t, HRF_HEAD_K, t->first_key, n);
    for (int64_t p = 0; p < hrf_product_count_panels(n); p++) {
        const int64_t begin = hrf_product_panel_begin(n, p);
        const int64_t width = hrf_product_panel_begin(n, p + 1) - begin;
        hrf_transpose_avx512(has_pairs ? HRF_F32 : keys.type,
                             keys.at + begin * keys.row * (int64_t)hrf_dtype_size(keys.type),
                             keys.row / per_word, n - begin, d, width,
                             (float *)t->buffer[HRF_PACKED_KEYS] + begin * d);
    }
    const struct hrf_stored_rows values = hrf_head_rows(t, HRF_HEAD_V, t->first_key, n);
    for (int64_t p = 0; p < hrf_product_count_panels(e); p++) {
        const int64_t begin = hrf_product_panel_begin(e, p);
        const int64_t width = hrf_product_panel_begin(e, p + 1) - begin;
        const char *from = values.at + begin * (int64_t)hrf_dtype_size(values.type);
        float *to = (float *)t->buffer[HRF_PACKED_VALUES] + begin * hrf_ceil_div(n, per_word);
        if (has_pairs)
            hrf_pair_rows_avx512((const uint16_t *)(const void *)from, values.row, n, e - begin,
                                 width, (uint32_t *)(void *)to);
        else
            hrf_widen_rows_avx512(values.type, from, values.row, n, e - begin, width, to);
    }
    if (t->of->form->keys == 0)
        hrf_rows_prefetch(&t->ahead, INT64_MAX);
}

/* True if queries are copied. They are multiplied in place if they are pairs, or floats that need
 * no scale. */
static bool are_copied(const struct hrf_attention *k, enum hrf_dtype type)
{
    return k->form->scales_products || (type != HRF_F32 && k->form->word_type == HRF_WORD_F32);
}

static void attention_floats_load(struct hrf_attention_tile *t)
{
    const struct hrf_attention *k = t->of;
    const int64_t d = k->view.of[HRF_HEAD_Q].columns, row = hrf_whole_lines(d);
    float *queries = t->buffer[HRF_QUERIES];
    const enum hrf_dtype type = k->spec->inputs[HRF_HEAD_Q].dtype;
    if (!are_copied(k, type))
        return;
    const struct hrf_stored_rows q = hrf_head_rows(t, HRF_HEAD_Q, t->first, t->n);
    hrf_widen_rows_avx512(q.type, q.at, q.row, t->n, d, row, queries);
    for (int64_t i = 0; i < t->n * row && k->form->scales_products; i++)
        queries[i] *= k->spec->attributes.attention.scale;
}

static void attention_floats_multiply(const struct hrf_attention *k, const void *a,
                                      int64_t a_stride, const void *packed, int64_t depth,
                                      enum hrf_dtype type, void *y, int64_t y_stride, int64_t n,
                                      int64_t columns)
{
    const struct hrf_epilogue plain = { .type = type };
    const struct hrf_ahead nothing = { 0 };
    hrf_product_avx512(k->form->word_type, a, a_stride, packed, depth, y, y_stride, n, columns, 0,
                       hrf_product_count_panels(columns), &plain, &nothing);
}

static void attention_floats_score(struct hrf_attention_tile *t)
{
    const struct hrf_attention *k = t->of;
    const int64_t per_word = numbers_of_word(k), d = k->view.of[HRF_HEAD_Q].columns;
    struct hrf_stored_rows q = { HRF_F32, t->buffer[HRF_QUERIES], hrf_whole_lines(d) };
    if (!are_copied(k, k->spec->inputs[HRF_HEAD_Q].dtype))
        q = hrf_head_rows(t, HRF_HEAD_Q, t->first, t->n);
    attention_floats_multiply(k, q.at, q.row / per_word, t->buffer[HRF_PACKED_KEYS], d / per_word,
                              HRF_F32, t->buffer[HRF_SCORES], k->score_row, t->n, t->n_keys);
}

static void attention_floats_weigh(struct hrf_attention_tile *t, struct hrf_score_row *rows,
                                   int64_t n_rows)
{
    hrf_rows_softmax_avx512(rows, n_rows, t->n_keys);
}

static void weigh_pairs(struct hrf_attention_tile *t, struct hrf_score_row *rows, int64_t n_rows)
{
    hrf_rows_softmax_b16_avx512(rows, n_rows, t->n_keys);
}

static void weigh_block(struct hrf_attention_tile *t, struct hrf_score_row *rows, int64_t n_rows)
{
    hrf_rows_exponentials_avx512(rows, n_rows, t->n_keys);
}

static void attention_floats_sum(struct hrf_attention_tile *t, enum hrf_dtype type, void *y,
                                 int64_t y_row)
{
    attention_floats_multiply(t->of, t->buffer[HRF_SCORES], t->of->score_row,
                              t->buffer[HRF_PACKED_VALUES],
                              hrf_ceil_div(t->n_keys, numbers_of_word(t->of)), type, y, y_row, t->n,
                              t->of->view.of[HRF_HEAD_V].columns);
}

/* ---- rows ---- */

static const char *attention_floats_misfit(const struct hrf_graph *graph,
                                           const struct hrf_node *node)
{
    return hrf_shape_count(&graph->values[node->outputs[0]].shape) > 0 ? NULL
                                                                       : "its output is empty";
}

static const char *long_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_attention_is_long(graph, node) ? NULL : HRF_CPU_FEW_KEYS;
}

/* Queries, keys and values must already be pairs of bfloat16. */
static const char *pairs_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    struct hrf_head_view view;
    if (attention_floats_misfit(graph, node) != NULL)
        return attention_floats_misfit(graph, node);
    hrf_head_view(graph, node, &view);
    if (view.of[HRF_HEAD_Q].columns % 2 != 0)
        return HRF_CPU_NO_PAIRS;
    for (int which = HRF_HEAD_Q; which <= HRF_HEAD_V; which++) {
        const struct hrf_head_matrix *m = &view.of[which];
        if (graph->values[node->inputs[which]].dtype != HRF_B16 || m->column != 1 ||
            m->row % 2 != 0)
            return HRF_CPU_NO_PAIRS;
        for (int64_t head = 0; head < view.n_heads; head++)
            if (hrf_head_begin(&view, which, head) % 2 != 0)
                return HRF_CPU_NO_PAIRS;
    }
    return NULL;
}

#define FORM(...)                                                                                  \
    .own = &(const struct hrf_attention_form)                                                      \
    {                                                                                              \
        .measure = attention_floats_measure, .pack = attention_floats_pack,                        \
        .load = attention_floats_load, .score = attention_floats_score,                            \
        .sum = attention_floats_sum, .step = 1, __VA_ARGS__                                        \
    }

const struct hrf_kernel_row hrf_cpu_attention_long = {
    .name = "long:avx512",
    HRF_ROW_OPS(HRF_OP_TOKEN_ATTENTION, HRF_OP_ATTENTION_PART),
    .forms = HRF_FORM_FLOAT | HRF_FORM_HALF,
    .isa = HRF_ISA_AVX512,
    .misfit = long_misfit,
    .compile = hrf_attention_compile,
    /* The L2 cache holds the scores of a block of this many queries. */
    FORM(.weigh = weigh_block, .word_type = HRF_WORD_F32, .keys = HRF_ATTENTION_KEYS,
         .min_queries = HRF_ATTENTION_MAX_QUERIES, .max_queries = HRF_ATTENTION_MAX_QUERIES,
         .scales_products = true),
};

/* Blocks have at least two tiles of the product. */
#define ROW_OF_HEADS(title, in_forms, on, why_not, ...)                                            \
    {                                                                                              \
        .name = title, HRF_ROW_OPS(HRF_OP_ATTENTION, HRF_OP_TOKEN_ATTENTION), .forms = in_forms,   \
        .isa = on, .misfit = why_not, .compile = hrf_attention_compile,                            \
        FORM(.min_queries = 12, .max_queries = 96, __VA_ARGS__)                                    \
    }
const struct hrf_kernel_row hrf_cpu_attention_of_pairs = ROW_OF_HEADS(
    "heads:avx512_bf16", HRF_FORM_HALF, HRF_ISA_AVX512_BF16, pairs_misfit,
    .word_type = HRF_WORD_B16_PAIR, .weigh = weigh_pairs);
const struct hrf_kernel_row hrf_cpu_attention_heads = ROW_OF_HEADS(
    "heads:avx512", HRF_FORM_FLOAT | HRF_FORM_HALF, HRF_ISA_AVX512, attention_floats_misfit,
    .word_type = HRF_WORD_F32, .weigh = attention_floats_weigh);
