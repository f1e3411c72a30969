/* attention_plain.c - attention (attention.h) by the product of float_product.h, for any processor:
 * with all keys at once, or with keys in blocks. */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/float_product.h"
#include "engine/backend/cpu/transformer/attention.h"
#include "engine/backend/cpu/transformer/softmax.h"

static void attention_plain_measure(const struct hrf_attention *k,
                                    int64_t bytes[HRF_ATTENTION_BUFFERS])
{
    const int64_t d = k->view.of[HRF_HEAD_Q].columns, e = k->view.of[HRF_HEAD_V].columns;
    const int64_t size = sizeof(float);
    bytes[HRF_PACKED_KEYS] = (int64_t)hrf_product_packed_count(d, k->keys) * size;
    bytes[HRF_PACKED_VALUES] = (int64_t)hrf_product_packed_count(k->keys, e) * size;
    bytes[HRF_QUERIES] = k->block * d * size;
    bytes[HRF_SCORES] = k->block * k->score_row * size;
}

/* Row `first` of a matrix of the tile's head. */
static const float *row_of(const struct hrf_attention_tile *t, int which, int64_t first)
{
    return (const float *)hrf_spec_data(t->of->spec, t->call, which) + t->begin[which] +
           first * t->of->view.of[which].row;
}

/* Packs K as the right matrix of the first product, [d][keys], and V as that of the second,
 * [keys][e]. */
static void attention_plain_pack(struct hrf_attention_tile *t)
{
    const struct hrf_head_matrix *k = &t->of->view.of[HRF_HEAD_K], *v = &t->of->view.of[HRF_HEAD_V];
    hrf_float_product_pack(row_of(t, HRF_HEAD_K, t->first_key), k->column, k->row, k->columns,
                           t->n_keys, 0, hrf_float_product_count_panels(t->n_keys),
                           t->buffer[HRF_PACKED_KEYS]);
    hrf_float_product_pack(row_of(t, HRF_HEAD_V, t->first_key), v->row, v->column, t->n_keys,
                           v->columns, 0, hrf_float_product_count_panels(v->columns),
                           t->buffer[HRF_PACKED_VALUES]);
}

static void attention_plain_load(struct hrf_attention_tile *t)
{
    const struct hrf_head_matrix *q = &t->of->view.of[HRF_HEAD_Q];
    const float *from = row_of(t, HRF_HEAD_Q, t->first);
    const float scale = t->of->spec->attributes.attention.scale;
    float *row = t->buffer[HRF_QUERIES];
    for (int64_t i = 0; i < t->n; i++, from += q->row, row += q->columns)
        for (int64_t c = 0; c < q->columns; c++)
            row[c] = from[c * q->column] * scale;
}

/* y = a b, with a row for each of the tile's queries. */
static void attention_plain_multiply(const struct hrf_attention_tile *t, const float *a,
                                     int64_t a_row, const float *packed, int64_t depth,
                                     int64_t columns, float *y, int64_t y_row)
{
    const struct hrf_float_product product = { .a = a,
                                               .a_stride = a_row,
                                               .packed = packed,
                                               .y = y,
                                               .y_stride = y_row,
                                               .n_rows = t->n,
                                               .depth = depth,
                                               .columns = columns,
                                               .end_panel = hrf_float_product_count_panels(
                                                   columns) };
    hrf_float_product(&product);
}

static void attention_plain_score(struct hrf_attention_tile *t)
{
    const int64_t d = t->of->view.of[HRF_HEAD_Q].columns;
    attention_plain_multiply(t, t->buffer[HRF_QUERIES], d, t->buffer[HRF_PACKED_KEYS], d, t->n_keys,
                             t->buffer[HRF_SCORES], t->of->score_row);
}

#ifdef HRF_BUILD_AVX2 /* which the back end requires */
#define SOFTMAX(what) hrf_softmax_##what##_avx2
#else
#define SOFTMAX(what) hrf_softmax_##what##_plain
#endif

static void attention_plain_weigh(struct hrf_attention_tile *t, struct hrf_score_row *rows,
                                  int64_t n_rows)
{
    SOFTMAX(rows)(rows, n_rows, t->n_keys);
}

static void weigh_block(struct hrf_attention_tile *t, struct hrf_score_row *rows, int64_t n_rows)
{
    SOFTMAX(block)(rows, n_rows, t->n_keys);
}

static void attention_plain_sum(struct hrf_attention_tile *t, enum hrf_dtype type, void *y,
                                int64_t y_row)
{
    const int64_t e = t->of->view.of[HRF_HEAD_V].columns;
    (void)type; /* float32 */
    attention_plain_multiply(t, t->buffer[HRF_SCORES], t->of->score_row,
                             t->buffer[HRF_PACKED_VALUES], t->n_keys, e, y, y_row);
}

static const char *long_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_attention_is_long(graph, node) ? NULL : HRF_CPU_FEW_KEYS;
}

#define FORM(...)                                                                                  \
    .forms = HRF_FORM_FLOAT, .isa = HRF_ISA_ANY, .compile = hrf_attention_compile,                 \
    .own = &(const struct hrf_attention_form)                                                      \
    {                                                                                              \
        .measure = attention_plain_measure, .pack = attention_plain_pack,                          \
        .load = attention_plain_load, .score = attention_plain_score, .sum = attention_plain_sum,  \
        .scales_products = true, __VA_ARGS__                                                       \
    }

const struct hrf_kernel_row hrf_cpu_attention_long_plain = {
    .name = "long",
    HRF_ROW_OPS(HRF_OP_TOKEN_ATTENTION, HRF_OP_ATTENTION_PART),
    .misfit = long_misfit,
    FORM(.weigh = weigh_block, .keys = HRF_ATTENTION_KEYS, .step = 1,
         .min_queries = HRF_ATTENTION_MAX_QUERIES, .max_queries = HRF_ATTENTION_MAX_QUERIES),
};

const struct hrf_kernel_row hrf_cpu_attention_plain = {
    .name = "attention",
    HRF_ROW_OPS(HRF_OP_ATTENTION, HRF_OP_TOKEN_ATTENTION),
    FORM(.weigh = attention_plain_weigh, .min_queries = 12, .max_queries = 96, .step = 1),
};
