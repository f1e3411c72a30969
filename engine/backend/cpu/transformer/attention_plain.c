/* attention_plain.c - attention (attention.h) by oneDNN's product of matrices, for any processor.
 */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/transformer/attention.h"

#include <math.h>

static void measure(const struct hrf_attention *k, int64_t bytes[HRF_ATTENTION_BUFFERS])
{
    const struct hrf_head_matrix *q = &k->view.of[HRF_HEAD_Q], *v = &k->view.of[HRF_HEAD_V];
    bytes[HRF_PACKED_KEYS] = k->keys * q->columns * (int64_t)sizeof(float);
    bytes[HRF_PACKED_VALUES] = k->keys * v->columns * (int64_t)sizeof(float);
    bytes[HRF_QUERIES] = k->block * q->columns * (int64_t)sizeof(float);
    bytes[HRF_SCORES] = k->block * k->score_row * (int64_t)sizeof(float);
}

/* n rows of a matrix, dense. */
static void gather(struct hrf_attention_tile *t, int which, int64_t first, int64_t n,
                   enum hrf_attention_buffer to)
{
    const struct hrf_head_matrix *m = &t->of->view.of[which];
    const float *from = (const float *)hrf_spec_data(t->of->spec, t->call, which) +
                        t->begin[which] + first * m->row;
    float *row = t->buffer[to];
    for (int64_t i = 0; i < n; i++, from += m->row, row += m->columns)
        for (int64_t c = 0; c < m->columns; c++)
            row[c] = from[c * m->column];
}

static void pack(struct hrf_attention_tile *t)
{
    gather(t, HRF_HEAD_K, 0, t->n_keys, HRF_PACKED_KEYS);
    gather(t, HRF_HEAD_V, 0, t->n_keys, HRF_PACKED_VALUES);
}

static void load(struct hrf_attention_tile *t)
{
    gather(t, HRF_HEAD_Q, t->first, t->n, HRF_QUERIES);
}

/* y = scale a b, or a b' if `turned` is 'T'; y has its own rows. The tile keeps the first failure.
 */
static void multiply(struct hrf_attention_tile *t, char turned, float scale, const float *a,
                     int64_t a_row, int64_t depth, const float *b, int64_t b_row, int64_t columns,
                     float *y, int64_t y_row)
{
    const dnnl_status_t status = dnnl_sgemm('N', turned, t->n, columns, depth, scale, a, a_row, b,
                                            b_row, 0.0f, y, y_row);
    if (t->failure == 0)
        t->failure = (int)status;
}

static void score(struct hrf_attention_tile *t)
{
    const int64_t d = t->of->view.of[HRF_HEAD_Q].columns;
    multiply(t, 'T', t->of->spec->attributes.attention.scale, t->buffer[HRF_QUERIES], d, d,
             t->buffer[HRF_PACKED_KEYS], d, t->n_keys, t->buffer[HRF_SCORES], t->of->score_row);
}

static void weigh_row(const struct hrf_score_row *row, int64_t n_keys)
{
    float *scores = row->scores, largest = -INFINITY;
    double sum = 0;
    for (int64_t s = 0; s < row->n_seen; s++) {
        if (row->mask != NULL)
            scores[s] += row->mask[s];
        largest = scores[s] <= largest ? largest : scores[s]; /* a NaN, too */
    }
    for (int64_t s = 0; s < row->n_seen; s++) {
        scores[s] = largest != -INFINITY ? expf(scores[s] - largest) : 0;
        sum += (double)scores[s];
    }
    const float factor = sum == 0 ? 0 : (float)(1 / sum); /* 0: a query that sees no key */
    for (int64_t s = 0; s < n_keys; s++)
        scores[s] = s < row->n_seen ? scores[s] * factor : 0;
}

static void weigh(struct hrf_attention_tile *t, struct hrf_score_row *rows, int64_t n_rows)
{
    for (int64_t i = 0; i < n_rows; i++)
        weigh_row(&rows[i], t->n_keys);
}

static void sum(struct hrf_attention_tile *t, enum hrf_dtype type, void *y, int64_t y_row)
{
    const int64_t e = t->of->view.of[HRF_HEAD_V].columns;
    (void)type; /* float32 */
    multiply(t, 'N', 1.0f, t->buffer[HRF_SCORES], t->of->score_row, t->n_keys,
             t->buffer[HRF_PACKED_VALUES], e, e, y, y_row);
}

const struct hrf_kernel_row hrf_cpu_attention_plain = {
    .name = "attention",
    HRF_ROW_OPS(HRF_OP_ATTENTION, HRF_OP_TOKEN_ATTENTION),
    .forms = HRF_FORM_FLOAT,
    .isa = HRF_ISA_ANY,
    .compile = hrf_attention_compile,
    .own =
        &(const struct hrf_attention_form){
            .min_queries = 12,
            .max_queries = 96,
            .step = 1,
            .scales_products = true,
            .measure = measure,
            .pack = pack,
            .load = load,
            .score = score,
            .weigh = weigh,
            .sum = sum,
        },
};
