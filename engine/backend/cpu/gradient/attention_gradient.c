/* attention_gradient.c - ATTENTION_GRADIENT by the product of float_product.h. A task is a head,
 * whose queries are taken a block at a time: their weights are computed again and never stored, so
 * that memory does not grow with queries times keys. The bits do not depend on the threads. */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/float_product.h"
#include "engine/backend/cpu/transformer/softmax.h"

#include <math.h>
#include <omp.h>

enum {
    BLOCK = 96 /* queries, at most: their scores for 200 keys stay in the second-level cache */
};

#ifdef HRF_BUILD_AVX2 /* which the back end requires */
#define SOFTMAX(what) hrf_softmax_##what##_avx2
#else
#define SOFTMAX(what) hrf_softmax_##what##_plain
#endif

/* A matrix of a head: element (i, c) is at[i * row + c * column]. */
struct matrix {
    const float *at;
    int64_t row, column;
};

/* Memory of one thread. */
enum buffer {
    KEYS_ACROSS, /* packed: [d][keys] */
    VALUES_ACROSS,
    KEYS, /* packed: [keys][d] */
    QUERIES,
    DY,
    PACKED_QUERIES,
    PACKED_DY,
    WEIGHTS, /* [queries][keys] */
    GRADIENT,
    TURNED, /* one of the two, transposed */
    DQ,
    DK,
    DV,
    N_BUFFERS
};

struct geometry {
    int64_t n_heads, n_queries, n_keys, d;
    int64_t block; /* queries, at most */
    float scale;
    bool is_causal;
    int64_t begin[N_BUFFERS + 1];
};

static struct geometry geometry_of(const struct hrf_spec *spec)
{
    const struct hrf_shape *q = &spec->inputs[HRF_ATTENTION_Q].shape;
    const struct hrf_shape *v = &spec->inputs[HRF_ATTENTION_V].shape;
    struct geometry g = { .n_queries = q->dims[q->rank - 2],
                          .n_keys = v->dims[v->rank - 2],
                          .d = q->dims[q->rank - 1],
                          .is_causal = spec->attributes.attention.causal };
    const int64_t n_blocks = hrf_ceil_div(g.n_queries, BLOCK);
    const float given = spec->attributes.attention.scale;
    g.n_heads = hrf_shape_count(q) / (g.n_queries * g.d);
    g.block = hrf_ceil_div(g.n_queries, n_blocks); /* equal blocks */
    g.scale = given != 0 ? given : (float)(1 / sqrt((double)g.d));
    const int64_t sizes[N_BUFFERS] = {
        [KEYS_ACROSS] = (int64_t)hrf_product_packed_count(g.d, g.n_keys),
        [VALUES_ACROSS] = (int64_t)hrf_product_packed_count(g.d, g.n_keys),
        [KEYS] = (int64_t)hrf_product_packed_count(g.n_keys, g.d),
        [QUERIES] = g.block * g.d,
        [DY] = g.block * g.d,
        [PACKED_QUERIES] = (int64_t)hrf_product_packed_count(g.block, g.d),
        [PACKED_DY] = (int64_t)hrf_product_packed_count(g.block, g.d),
        [WEIGHTS] = g.block * g.n_keys,
        [GRADIENT] = g.block * g.n_keys,
        [TURNED] = g.block * g.n_keys,
        [DQ] = g.block * g.d,
        [DK] = g.n_keys * g.d,
        [DV] = g.n_keys * g.d,
    };
    for (int i = 0; i < N_BUFFERS; i++)
        g.begin[i + 1] = g.begin[i] + hrf_whole_lines(sizes[i]);
    return g;
}

size_t hrf_cpu_attention_gradient_workspace(const struct hrf_spec *spec)
{
    const struct geometry g = geometry_of(spec);
    return (size_t)omp_get_max_threads() * (size_t)g.begin[N_BUFFERS] * sizeof(float);
}

/* Offset of a head; *row and *column: steps of its last two axes. */
static int64_t find_head(const struct hrf_shape *shape, int64_t head, int64_t *row, int64_t *column)
{
    int64_t strides[HRF_MAX_RANK], at = 0;
    hrf_layout_strides(shape, strides);
    for (int32_t i = shape->rank - 3; i >= 0; i--) {
        at += head % shape->dims[i] * strides[i];
        head /= shape->dims[i];
    }
    *row = strides[shape->rank - 2];
    *column = strides[shape->rank - 1];
    return at;
}

static struct matrix input_of(const struct hrf_spec *spec, const struct hrf_kernel_call *call,
                              int32_t input, int64_t head)
{
    struct matrix m;
    const float *data = hrf_spec_data(spec, call, input);
    m.at = data + find_head(&spec->inputs[input].shape, head, &m.row, &m.column);
    if (input == HRF_ATTENTION_K && spec->attributes.attention.transpose_k)
        m = (struct matrix){ m.at, m.column, m.row };
    return m;
}

/* Packs rows x columns of a matrix as the right one of a product. */
static void pack_matrix(const struct matrix *m, int64_t rows, int64_t columns, float *packed)
{
    hrf_float_product_pack(m->at, m->row, m->column, rows, columns, 0,
                           hrf_float_product_count_panels(columns), packed);
}

/* y = a b, or y + a b: a is [n_rows][depth], dense, and b packed. */
static void multiply(const float *a, const float *packed, int64_t n_rows, int64_t depth,
                     int64_t columns, float *y, bool accumulate)
{
    const struct hrf_float_product product = {
        .a = a,
        .a_stride = depth,
        .packed = packed,
        .y = y,
        .y_stride = columns,
        .n_rows = n_rows,
        .depth = depth,
        .columns = columns,
        .end_panel = hrf_float_product_count_panels(columns),
        .accumulate = accumulate,
    };
    hrf_float_product(&product);
}

static void copy_rows(const struct matrix *m, int64_t first, int64_t n, int64_t d, float scale,
                      float *to)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < d; c++)
            to[i * d + c] = m->at[(first + i) * m->row + c * m->column] * scale;
}

/* to[columns][rows] of from[rows][columns], in squares whose lines stay in the cache. */
static void turn(const float *from, int64_t rows, int64_t columns, float *to)
{
    enum { SIDE = 16 };
    for (int64_t r = 0; r < rows; r += SIDE)
        for (int64_t c = 0; c < columns; c += SIDE)
            for (int64_t k = c; k < hrf_min(c + SIDE, columns); k++)
                for (int64_t i = r; i < hrf_min(r + SIDE, rows); i++)
                    to[k * rows + i] = from[i * columns + k];
}

/* The weights of queries [first, first + n). */
static void weigh(const struct geometry *g, int64_t first, int64_t n, float *weights)
{
    struct hrf_score_row rows[BLOCK];
    for (int64_t i = 0; i < n; i++)
        rows[i] = (struct hrf_score_row){ .scores = weights + i * g->n_keys,
                                          .n_seen = g->is_causal ? hrf_min(first + i + 1, g->n_keys)
                                                                 : g->n_keys };
    SOFTMAX(rows)(rows, n, g->n_keys);
}

/* P = softmax(S) with S = scale Q K': dV = P' dY, dP = dY V', dS = P (dP - sum of P dP),
 * dQ = scale dS K, dK = dS' (scale Q). */
static void do_block(const struct geometry *g, float *const buffer[N_BUFFERS], int64_t first,
                     int64_t n)
{
    const int64_t keys = g->n_keys, d = g->d;
    const struct matrix q = { buffer[QUERIES], d, 1 }, dy = { buffer[DY], d, 1 };
    const bool accumulate = first > 0;
    pack_matrix(&q, n, d, buffer[PACKED_QUERIES]);
    pack_matrix(&dy, n, d, buffer[PACKED_DY]);
    multiply(buffer[QUERIES], buffer[KEYS_ACROSS], n, d, keys, buffer[WEIGHTS], false);
    weigh(g, first, n, buffer[WEIGHTS]);
    turn(buffer[WEIGHTS], n, keys, buffer[TURNED]);
    multiply(buffer[TURNED], buffer[PACKED_DY], keys, n, d, buffer[DV], accumulate);
    multiply(buffer[DY], buffer[VALUES_ACROSS], n, d, keys, buffer[GRADIENT], false);
    for (int64_t i = 0; i < n; i++)
        SOFTMAX(back)(buffer[WEIGHTS] + i * keys, buffer[GRADIENT] + i * keys, keys);
    multiply(buffer[GRADIENT], buffer[KEYS], n, keys, d, buffer[DQ], false);
    turn(buffer[GRADIENT], n, keys, buffer[TURNED]);
    multiply(buffer[TURNED], buffer[PACKED_QUERIES], keys, n, d, buffer[DK], accumulate);
}

/* Rows [first, first + n) of the head's output. */
static void put_rows(const struct hrf_spec *spec, const struct hrf_kernel_call *call, int64_t head,
                     int64_t first, int64_t n, const float *from, float scale)
{
    const struct hrf_shape *shape = &spec->output.shape;
    const int64_t d = shape->dims[shape->rank - 1];
    int64_t row, column;
    float *to = hrf_floats(call) + find_head(shape, head, &row, &column) + first * row;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < d; c++)
            to[i * row + c * column] = from[i * d + c] * scale;
}

static void do_head(const struct geometry *g, const struct hrf_spec *spec,
                    const struct hrf_kernel_call *call, int64_t head, float *memory)
{
    const struct matrix q = input_of(spec, call, HRF_ATTENTION_Q, head);
    const struct matrix k = input_of(spec, call, HRF_ATTENTION_K, head);
    const struct matrix v = input_of(spec, call, HRF_ATTENTION_V, head);
    const struct matrix dy = input_of(spec, call, 3, head);
    const struct matrix keys_across = { k.at, k.column, k.row };
    const struct matrix values_across = { v.at, v.column, v.row };
    float *buffer[N_BUFFERS];
    for (int i = 0; i < N_BUFFERS; i++)
        buffer[i] = memory + g->begin[i];
    pack_matrix(&keys_across, g->d, g->n_keys, buffer[KEYS_ACROSS]);
    pack_matrix(&values_across, g->d, g->n_keys, buffer[VALUES_ACROSS]);
    pack_matrix(&k, g->n_keys, g->d, buffer[KEYS]);
    for (int64_t first = 0; first < g->n_queries; first += g->block) {
        const int64_t n = hrf_min(g->block, g->n_queries - first);
        copy_rows(&q, first, n, g->d, g->scale, buffer[QUERIES]);
        copy_rows(&dy, first, n, g->d, 1, buffer[DY]);
        do_block(g, buffer, first, n);
        put_rows(spec, call, head, first, n, buffer[DQ], g->scale);
    }
    put_rows(spec, call, head, g->n_queries, g->n_keys, buffer[DK], 1);
    put_rows(spec, call, head, g->n_queries + g->n_keys, g->n_keys, buffer[DV], 1);
}

void hrf_cpu_attention_gradient(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct geometry g = geometry_of(spec);
    float *memory = call->workspace;
#pragma omp parallel for schedule(static)
    for (int64_t head = 0; head < g.n_heads; head++)
        do_head(&g, spec, call, head, memory + omp_get_thread_num() * g.begin[N_BUFFERS]);
}
