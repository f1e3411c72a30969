/* amx_attention_gradient.c - ATTENTION_GRADIENT of bfloat16 by AMX (amx_tile.h). A task is a head,
 * whose queries are taken a block at a time, as in attention_gradient.c: the bits do not depend on
 * the threads. Weights, and their gradients, are rounded to bfloat16 before they are multiplied,
 * and all sums are float32. */
#include "engine/backend/cpu/amx_tile.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/narrow_floats.h"
#include "engine/backend/cpu/transformer/softmax.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum {
    TILE = HRF_AMX_TILE,
    BLOCK = 96, /* queries, at most: whole steps of a depth */
};

#ifdef HRF_BUILD_AVX2 /* which the back end requires */
#define SOFTMAX(what) hrf_softmax_##what##_avx2
#else
#define SOFTMAX(what) hrf_softmax_##what##_plain
#endif

/* Memory of one thread. In float32: */
enum floats {
    QUERIES, /* times the scale */
    KEYS,
    VALUES,
    DY,
    WEIGHTS, /* [queries][keys] */
    GRADIENT,
    DQ,
    DK,
    DV,
    N_FLOATS
};
/* In bfloat16, as the left or the right matrix of a product: */
enum halves {
    LEFT,          /* the rows of a block, or weights across: [keys][queries] */
    KEYS_ACROSS,   /* [d][keys] */
    VALUES_ACROSS, /* [d][keys] */
    KEYS_DOWN,     /* [keys][d] */
    RIGHT,         /* queries or dy of a block: [queries][d] */
    N_HALVES
};

/* `wide_` is rounded up to whole tiles, in which rows and columns beyond the last are zeros. */
struct geometry {
    int64_t n_heads, n_queries, n_keys, d;
    int64_t block, wide_keys, wide_d;
    float scale;
    bool is_causal;
    int64_t floats[N_FLOATS + 1], halves[N_HALVES + 1], addresses;
};

static int64_t round_up(int64_t n)
{
    return hrf_ceil_div(n, HRF_AMX_DEPTH) * HRF_AMX_DEPTH;
}

static struct geometry geometry_of(const struct hrf_spec *spec)
{
    const struct hrf_shape *q = &spec->inputs[HRF_ATTENTION_Q].shape;
    const struct hrf_shape *v = &spec->inputs[HRF_ATTENTION_V].shape;
    const float given = spec->attributes.attention.scale;
    struct geometry g = { .n_queries = q->dims[q->rank - 2],
                          .n_keys = v->dims[v->rank - 2],
                          .d = q->dims[q->rank - 1],
                          .is_causal = spec->attributes.attention.causal };
    g.n_heads = hrf_shape_count(q) / (g.n_queries * g.d);
    g.scale = given != 0 ? given : (float)(1 / sqrt((double)g.d));
    const int64_t n_blocks = hrf_ceil_div(g.n_queries, BLOCK);
    g.block = round_up(hrf_ceil_div(g.n_queries, n_blocks)); /* about equal blocks */
    g.wide_keys = round_up(g.n_keys);
    g.wide_d = round_up(g.d);
    const int64_t longest = hrf_amx_stride(hrf_max(hrf_max(g.wide_keys, g.wide_d), g.block));
    const int64_t floats[N_FLOATS] = {
        [QUERIES] = g.block * g.wide_d,    [KEYS] = g.wide_keys * g.wide_d,
        [VALUES] = g.wide_keys * g.wide_d, [DY] = g.block * g.wide_d,
        [WEIGHTS] = g.block * g.wide_keys, [GRADIENT] = g.block * g.wide_keys,
        [DQ] = g.block * g.wide_d,         [DK] = g.wide_keys * g.wide_d,
        [DV] = g.wide_keys * g.wide_d,
    };
    const int64_t halves[N_HALVES] = {
        [LEFT] = hrf_max(g.wide_keys, g.block) * longest,
        [KEYS_ACROSS] = g.wide_keys * g.wide_d,
        [VALUES_ACROSS] = g.wide_keys * g.wide_d,
        [KEYS_DOWN] = g.wide_keys * g.wide_d,
        [RIGHT] = g.block * g.wide_d,
    };
    for (int i = 0; i < N_FLOATS; i++)
        g.floats[i + 1] = g.floats[i] + floats[i]; /* whole cache lines, all of them */
    for (int i = 0; i < N_HALVES; i++)
        g.halves[i + 1] = g.halves[i] + halves[i];
    g.addresses = hrf_max(g.wide_keys, g.block);
    return g;
}

static size_t bytes_of_thread(const struct geometry *g)
{
    return hrf_buffer_aligned((size_t)g->floats[N_FLOATS] * sizeof(float) +
                              (size_t)g->halves[N_HALVES] * sizeof(uint16_t) +
                              (size_t)g->addresses * sizeof(void *));
}

size_t hrf_cpu_amx_attention_gradient_workspace(const struct hrf_spec *spec)
{
    const struct geometry g = geometry_of(spec);
    return (size_t)omp_get_max_threads() * bytes_of_thread(&g);
}

const char *hrf_cpu_amx_attention_gradient_misfit(const struct hrf_graph *graph,
                                                  const struct hrf_node *node)
{
    for (int32_t i = 0; i < 4; i++)
        if (graph->values[node->inputs[i]].dtype != HRF_B16 ||
            graph->values[node->inputs[i]].data != NULL)
            return "its matrices are not all of bfloat16";
    return NULL;
}

struct head {
    const struct geometry *g;
    float *floats[N_FLOATS];
    uint16_t *halves[N_HALVES];
    const void **addresses;
};

/* ---- rows of tensors ---- */

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

/* Rows [first, first + n) of an input's head, and zeros up to `wide` rows of whole tiles. */
static void get_rows(const struct head *h, const struct hrf_spec *spec,
                     const struct hrf_kernel_call *call, int32_t input, int64_t head, int64_t first,
                     int64_t n, int64_t wide, float scale, float *to)
{
    const int64_t d = h->g->d, stride = h->g->wide_d;
    int64_t row, column;
    const uint16_t *at = hrf_spec_data(spec, call, input);
    at += find_head(&spec->inputs[input].shape, head, &row, &column);
    if (input == HRF_ATTENTION_K && spec->attributes.attention.transpose_k) {
        const int64_t other = row;
        row = column;
        column = other;
    }
    memset(to, 0, (size_t)(wide * stride) * sizeof *to);
    for (int64_t i = 0; i < n; i++, to += stride) {
        const uint16_t *from = at + (first + i) * row;
        if (column == 1)
            hrf_cpu_widen(HRF_B16, from, to, d);
        else
            for (int64_t c = 0; c < d; c++)
                hrf_cpu_widen(HRF_B16, from + c * column, to + c, 1);
        for (int64_t c = 0; c < d && scale != 1; c++)
            to[c] *= scale;
    }
}

/* Rows [first, first + n) of the output's head. */
static void put_rows(const struct head *h, const struct hrf_spec *spec,
                     const struct hrf_kernel_call *call, int64_t head, int64_t first, int64_t n,
                     float scale, float *from)
{
    const enum hrf_dtype type = spec->output.dtype;
    const int64_t size = (int64_t)hrf_dtype_size(type), d = h->g->d;
    int64_t row, column;
    const int64_t begin = find_head(&spec->output.shape, head, &row, &column);
    for (int64_t i = 0; i < n; i++, from += h->g->wide_d) {
        char *to = (char *)call->output + (begin + (first + i) * row) * size;
        for (int64_t c = 0; c < d && scale != 1; c++)
            from[c] *= scale;
        if (column == 1)
            hrf_cpu_narrow(type, from, to, d);
        else
            for (int64_t c = 0; c < d; c++)
                hrf_cpu_narrow(type, from + c, to + c * column * size, 1);
    }
}

/* ---- products ---- */

static struct hrf_amx_rows rows_of(const struct head *h, const float *matrix, int64_t n,
                                   int64_t stride)
{
    for (int64_t i = 0; i < n; i++)
        h->addresses[i] = matrix + i * stride;
    return (struct hrf_amx_rows){ .rows = h->addresses, .of_floats = true };
}

/* Packs a matrix [rows][columns] as the right one of a product: its rows are the depth. */
static void pack_down(const struct head *h, const float *matrix, int64_t rows, int64_t columns,
                      uint16_t *to)
{
    const struct hrf_amx_rows r = rows_of(h, matrix, rows, columns);
    for (int64_t c = 0; c < columns; c += TILE)
        hrf_amx_pack_pairs(&r, rows, c, TILE, to + c * rows);
}

/* Packs its transpose as the right one: its columns are the depth. */
static void pack_across(const struct head *h, const float *matrix, int64_t rows, int64_t columns,
                        uint16_t *to)
{
    const struct hrf_amx_rows r = rows_of(h, matrix, rows, columns);
    for (int64_t c = 0; c < rows; c += TILE)
        hrf_amx_pack_columns(&r, columns, c, TILE, to + c * columns);
}

/* y = (y +) a b, of whole tiles: a is [rows][depth], and b packed. */
static void multiply(const uint16_t *a, int64_t a_stride, int64_t rows, int64_t depth,
                     const uint16_t *b, int64_t columns, float *y, bool accumulates)
{
    for (int64_t c = 0; c < columns; c += HRF_AMX_BLOCK)
        for (int64_t r = 0; r < rows; r += HRF_AMX_BLOCK) {
            const struct hrf_amx_block block = {
                .a = a + r * a_stride,
                .a_stride = a_stride,
                .b = b + c * depth,
                .b_panel = TILE * depth,
                .n_segments = 1,
                .n_steps = depth / HRF_AMX_DEPTH,
                .c = y + r * columns + c,
                .c_stride = columns,
                .row_tiles = 2,
                .column_tiles = 2,
                .accumulates = accumulates,
            };
            hrf_amx_multiply(&block);
        }
}

/* y = x b for a matrix x [rows][depth] of floats. */
static void multiply_rows(const struct head *h, const float *x, int64_t rows, int64_t depth,
                          const uint16_t *b, int64_t columns, float *y)
{
    const int64_t stride = hrf_amx_stride(depth);
    for (int64_t i = 0; i < rows; i++)
        hrf_cpu_narrow(HRF_B16, x + i * depth, h->halves[LEFT] + i * stride, depth);
    multiply(h->halves[LEFT], stride, rows, depth, b, columns, y, false);
}

/* y = (y +) x' b for a matrix x [depth][rows] of floats. */
static void multiply_across(const struct head *h, const float *x, int64_t depth, int64_t rows,
                            const uint16_t *b, int64_t columns, float *y, bool accumulates)
{
    const int64_t stride = hrf_amx_stride(depth);
    const struct hrf_amx_rows r = rows_of(h, x, depth, rows);
    for (int64_t i = 0; i < rows; i += TILE)
        hrf_amx_pack_transposed(&r, depth, i, TILE, h->halves[LEFT] + i * stride, stride);
    multiply(h->halves[LEFT], stride, rows, depth, b, columns, y, accumulates);
}

/* ---- a head ---- */

/* P = softmax(S) with S = scale Q K': dV = P' dY, dP = dY V', dS = P (dP - sum of P dP),
 * dQ = scale dS K, dK = dS' (scale Q). Rows and columns beyond the last stay zero: of the weights,
 * because they are set so, and of dS, because they are its factors. */
static void do_block(const struct head *h, int64_t first, int64_t n)
{
    const struct geometry *g = h->g;
    const int64_t keys = g->wide_keys, d = g->wide_d, block = g->block;
    float *weights = h->floats[WEIGHTS], *gradient = h->floats[GRADIENT];
    struct hrf_score_row rows[BLOCK];
    multiply_rows(h, h->floats[QUERIES], block, d, h->halves[KEYS_ACROSS], keys, weights);
    for (int64_t i = 0; i < n; i++)
        rows[i] = (struct hrf_score_row){ .scores = weights + i * keys,
                                          .n_seen = g->is_causal ? hrf_min(first + i + 1, g->n_keys)
                                                                 : g->n_keys };
    SOFTMAX(rows)(rows, n, g->n_keys);
    for (int64_t i = 0; i < block; i++) {
        const int64_t from = i < n ? g->n_keys : 0;
        memset(weights + i * keys + from, 0, (size_t)(keys - from) * sizeof *weights);
    }
    pack_down(h, h->floats[DY], block, d, h->halves[RIGHT]);
    multiply_across(h, weights, block, keys, h->halves[RIGHT], d, h->floats[DV], first > 0);
    multiply_rows(h, h->floats[DY], block, d, h->halves[VALUES_ACROSS], keys, gradient);
    for (int64_t i = 0; i < n; i++)
        SOFTMAX(back)(weights + i * keys, gradient + i * keys, g->n_keys);
    multiply_rows(h, gradient, block, keys, h->halves[KEYS_DOWN], d, h->floats[DQ]);
    pack_down(h, h->floats[QUERIES], block, d, h->halves[RIGHT]);
    multiply_across(h, gradient, block, keys, h->halves[RIGHT], d, h->floats[DK], first > 0);
}

static void do_head(const struct head *h, const struct hrf_spec *spec,
                    const struct hrf_kernel_call *call, int64_t head)
{
    const struct geometry *g = h->g;
    get_rows(h, spec, call, HRF_ATTENTION_K, head, 0, g->n_keys, g->wide_keys, 1, h->floats[KEYS]);
    get_rows(h, spec, call, HRF_ATTENTION_V, head, 0, g->n_keys, g->wide_keys, 1,
             h->floats[VALUES]);
    pack_across(h, h->floats[KEYS], g->wide_keys, g->wide_d, h->halves[KEYS_ACROSS]);
    pack_across(h, h->floats[VALUES], g->wide_keys, g->wide_d, h->halves[VALUES_ACROSS]);
    pack_down(h, h->floats[KEYS], g->wide_keys, g->wide_d, h->halves[KEYS_DOWN]);
    for (int64_t first = 0; first < g->n_queries; first += g->block) {
        const int64_t n = hrf_min(g->block, g->n_queries - first);
        get_rows(h, spec, call, HRF_ATTENTION_Q, head, first, n, g->block, g->scale,
                 h->floats[QUERIES]);
        get_rows(h, spec, call, 3, head, first, n, g->block, 1, h->floats[DY]);
        do_block(h, first, n);
        put_rows(h, spec, call, head, first, n, g->scale, h->floats[DQ]);
    }
    put_rows(h, spec, call, head, g->n_queries, g->n_keys, 1, h->floats[DK]);
    put_rows(h, spec, call, head, g->n_queries + g->n_keys, g->n_keys, 1, h->floats[DV]);
}

void hrf_cpu_amx_attention_gradient(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct geometry g = geometry_of(spec);
#pragma omp parallel
    {
        char *memory = (char *)call->workspace + (size_t)omp_get_thread_num() * bytes_of_thread(&g);
        struct head h = { .g = &g };
        for (int i = 0; i < N_FLOATS; i++)
            h.floats[i] = (float *)(void *)memory + g.floats[i];
        memory += (size_t)g.floats[N_FLOATS] * sizeof(float);
        for (int i = 0; i < N_HALVES; i++)
            h.halves[i] = (uint16_t *)(void *)memory + g.halves[i];
        h.addresses = (const void **)(void *)(memory +
                                              (size_t)g.halves[N_HALVES] * sizeof(uint16_t));
        hrf_amx_begin();
#pragma omp for schedule(static)
        for (int64_t head = 0; head < g.n_heads; head++)
            do_head(&h, spec, call, head);
        hrf_amx_end();
    }
}
