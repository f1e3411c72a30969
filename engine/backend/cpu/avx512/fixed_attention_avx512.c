/* fixed_attention_avx512.c - attention (attention.h) whose products are of 16-bit integers, for
 * networks in INT8: VNNI multiplies twice as many of them as floats in the same time. Compiled with
 * -mavx512vnni, optimised always.
 *
 * With queries q[t][d], keys k[s][d] and values v[s][e] of a head, each in float32:
 *
 *   Q[t], K[s]  rows rounded by a scale of their own to at most M = sqrt((2^31 - 1) / d), 32767 at
 *               most: their product is exact in 32 bits
 *   x[t][s]     = scale * (Q[t] . K[s]) * their scales + mask[t][s]
 *   P[t][s]     = round(exp(x[t][s] - the row's largest x) * F[t]), with F the largest number for
 *               which P is at most 32767 and, before rounding, has a sum of at most 2^18
 *   V[s][c]     columns rounded by a scale of their own to at most 4095
 *   y[t][c]     = (sum over s of P V) * V's scale / (F * the sum of the exponentials)
 *
 * So a number is off by less than 2^-12 of the largest in its row of q or k or its column of v, and
 * a weight by 2^-19, or by 2^-16 of the row's largest weight if that is more. What a query gets
 * depends neither on the other queries nor on the number of threads. A row or column that holds a
 * NaN or an infinite number gives NaNs wherever it counts.
 */
#include "engine/backend/cpu/avx512/math_avx512.h"
#include "engine/backend/cpu/avx512/product_tile_avx512.h"
#include "engine/backend/cpu/avx512/rows_of_tokens_avx512.h"
#include "engine/backend/cpu/avx512/softmax_avx512.h"
#include "engine/backend/cpu/cpu_private.h"

#include <math.h>

enum {
    ROWS = 6,            /* queries that are multiplied together */
    PER_ROW = 2 * LANES, /* numbers that are rounded together */
    MAX_VALUE = 4095,    /* of V: times the largest sum of weights and a half for each key < 2^31 */
    MAX_KEYS = 1 << 18,  /* beyond, a sum of P V could pass 32 bits */
    MAX_NUMBER = 32767,
};

/* Numbers from one rounded row to the next. */
static int64_t row_of(int64_t n)
{
    return hrf_ceil_div(n, PER_ROW) * PER_ROW;
}

static int64_t packed_count(int64_t depth, int64_t columns)
{
    return hrf_ceil_div(depth, 2) * 2 * hrf_whole_lines(columns);
}

/* ---- rounding ---- */

/* The magnitudes' bits are ordered as the magnitudes are, a NaN's above all. */
HRF_ALWAYS_INLINE __m512i larger(__m512i most, __m512 x)
{
    return _mm512_max_epi32(most, _mm512_castps_si512(_mm512_abs_ps(x)));
}

static float max_of_keys(int64_t d)
{
    const float most = floorf(sqrtf(0x1.fffffep30f / (float)d));
    return most > MAX_NUMBER ? MAX_NUMBER : most;
}

/* What rounds to at most `most`, and its scale, which is not 0 even if all numbers are. */
HRF_ALWAYS_INLINE float inverse_of(float largest, float most, float *scale)
{
    const bool is_zero = largest < 0x1p-100f, is_broken = !(largest < INFINITY);
    *scale = is_broken ? NAN : is_zero ? 1.0f : largest / most;
    return is_zero || is_broken ? 0.0f : most / largest;
}

HRF_ALWAYS_INLINE float largest_of(const float *x, int64_t d)
{
    __m512i most = _mm512_setzero_si512();
    for (int64_t k = 0; k < d; k += LANES)
        most = larger(most, _mm512_maskz_loadu_ps(hrf_first_lanes_avx512(d - k), x + k));
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(most))));
}

static void round_row(const float *x, int64_t d, float inverse_number, int16_t *to)
{
    const __m512 inverse = _mm512_set1_ps(inverse_number);
    for (int64_t k = 0; k < d; k += PER_ROW) {
        __m512i q[2];
        for (int i = 0; i < 2; i++) {
            const __mmask16 mask = hrf_first_lanes_avx512(d - k - i * LANES);
            q[i] = _mm512_cvtps_epi32(
                _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + k + i * LANES), inverse));
        }
        _mm512_storeu_si512(to + k, hrf_join_i16_avx512(q[0], q[1]));
    }
}

/* Rows of d floats, x_stride apart, to rows of row_of(d), zeros beyond d. Six by six: a row's
 * largest number comes late, and meanwhile the processor works on others. */
static void round_rows(const float *x, int64_t x_stride, int64_t n_rows, int64_t d, int16_t *to,
                       float *scales)
{
    const int64_t stride = row_of(d);
    const float bound = max_of_keys(d);
    float inverses[ROWS];
    for (int64_t first = 0; first < n_rows; first += ROWS) {
        const int64_t n = n_rows - first < ROWS ? n_rows - first : ROWS;
        const float *rows = x + first * x_stride;
        for (int64_t r = 0; r < n; r++)
            inverses[r] = inverse_of(largest_of(rows + r * x_stride, d), bound, &scales[first + r]);
        for (int64_t r = 0; r < n; r++)
            round_row(rows + r * x_stride, d, inverses[r], to + (first + r) * stride);
    }
}

/* The rounded rows of all keys: panels of keys, [pairs of d][panel's keys][2]. */
static void pack_keys(const int16_t *rows, int64_t n_keys, int64_t d, int16_t *to)
{
    const int64_t steps = (d + 1) / 2, words = row_of(d) / 2;
    for (int64_t p = 0; p < hrf_product_count_panels(n_keys); p++) {
        const int64_t begin = hrf_product_panel_begin(n_keys, p);
        const int64_t width = hrf_product_panel_begin(n_keys, p + 1) - begin;
        /* Pairs of integers are moved as if they were floats. */
        hrf_transpose_avx512(HRF_F32, rows + begin * 2 * words, words, n_keys - begin, steps, width,
                             (float *)(void *)(to + begin * 2 * steps));
    }
}

/* Columns [first, first + 16) of two rows, pair by pair. */
HRF_ALWAYS_INLINE __m512i pair(const float *x, const float *next, __mmask16 mask, __m512 inverse)
{
    const __m512i low = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x), inverse));
    if (next == NULL)
        return _mm512_and_si512(low, _mm512_set1_epi32(0xffff));
    const __m512i high = _mm512_cvtps_epi32(
        _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, next), inverse));
    return _mm512_mask_blend_epi16(0xaaaaaaaa, low, _mm512_slli_epi32(high, 16));
}

static void pack_columns(const float *x, int64_t x_stride, int64_t n_keys, __mmask16 mask,
                         int16_t *to, int64_t width, float *scales)
{
    _Alignas(LINE) float largest[LANES], inverses[LANES];
    __m512i most = _mm512_setzero_si512();
    for (int64_t k = 0; k < n_keys; k++)
        most = larger(most, _mm512_maskz_loadu_ps(mask, x + k * x_stride));
    _mm512_store_si512(largest, most);
    for (int i = 0; i < LANES; i++)
        inverses[i] = inverse_of(largest[i], MAX_VALUE, &scales[i]);
    const __m512 inverse = _mm512_load_ps(inverses);
    for (int64_t k = 0; k < n_keys; k += 2, x += 2 * x_stride, to += 2 * width)
        _mm512_storeu_si512(to, pair(x, k + 1 < n_keys ? x + x_stride : NULL, mask, inverse));
}

/* Panels of e: [pairs of keys][panel's columns][2]. */
static void pack_values(const float *x, int64_t x_stride, int64_t n_keys, int64_t e, int16_t *to,
                        float *scales)
{
    const int64_t steps = (n_keys + 1) / 2;
    for (int64_t p = 0; p < hrf_product_count_panels(e); p++) {
        const int64_t begin = hrf_product_panel_begin(e, p);
        const int64_t width = hrf_product_panel_begin(e, p + 1) - begin;
        for (int64_t c = begin; c < begin + width; c += LANES)
            pack_columns(x + c, x_stride, n_keys, hrf_first_lanes_avx512(e - c),
                         to + begin * 2 * steps + (c - begin) * 2, width, scales + c);
    }
}

/* ---- multiplying ---- */

/* Up to six rows by one panel. */
struct tile {
    const char *a[ROWS]; /* the last ones may repeat others */
    const char *w;
    int64_t steps;
    const float *column_scales;
    const struct hrf_score_row *rows; /* whose factors are applied, too; NULL: none */
    int n_rows;
    float *y; /* of the panel's first column */
    int64_t y_stride;
    __mmask16 mask[MOST_REGISTERS];
};

HRF_ALWAYS_INLINE void store_row(const int registers, const struct tile *t, int row, __m512 *x)
{
    UNROLLED for (int c = 0; c < registers; c++)
        x[c] = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_castps_si512(x[c])),
                             _mm512_loadu_ps(t->column_scales + c * LANES));
    if (t->rows != NULL)
        UNROLLED for (int c = 0; c < registers; c++)
            x[c] = _mm512_mul_ps(x[c], _mm512_set1_ps(t->rows[row].factor));
    UNROLLED for (int c = 0; c < registers; c++)
        _mm512_mask_storeu_ps(t->y + row * t->y_stride + c * LANES, t->mask[c], x[c]);
}

HRF_ALWAYS_INLINE void add_step(const int registers, const char *const a[], int64_t offset,
                                const char *w, const int at, __m512 *x)
{
    hrf_tile_add_step(HRF_TILE_I16, ROWS, registers, a, offset, w, at, x);
}

HRF_ALWAYS_INLINE void run(const int registers, const struct tile *t)
{
    const char *a[ROWS], *w = t->w;
    int64_t offset = 0, left = t->steps;
    __m512 x[ROWS * MOST_REGISTERS];
    UNROLLED for (int i = 0; i < ROWS; i++) a[i] = t->a[i];
    UNROLLED for (int i = 0; i < ROWS * registers; i++) x[i] = _mm512_setzero_ps();
    for (; left >= UNROLL; left -= UNROLL) {
        add_step(registers, a, offset, w, 0, x);
        add_step(registers, a, offset, w, 1, x);
        add_step(registers, a, offset, w, 2, x);
        add_step(registers, a, offset, w, 3, x);
        w += UNROLL * registers * LINE;
        offset += UNROLL * WORD;
    }
    for (; left > 0; left--) {
        add_step(registers, a, offset, w, 0, x);
        w += registers * LINE;
        offset += WORD;
    }
    UNROLLED for (int i = 0; i < ROWS; i++) if (i < t->n_rows)
        store_row(registers, t, i, x + i * registers);
}

static void run_1(const struct tile *t)
{
    run(1, t);
}

static void run_2(const struct tile *t)
{
    run(2, t);
}

static void run_3(const struct tile *t)
{
    run(3, t);
}

static void run_4(const struct tile *t)
{
    run(4, t);
}

enum { AHEAD_ROWS = 2 }; /* of each matrix, with each tile: a head has fewer rows than tiles */

/* Rows of integers by packed ones. */
struct product {
    const int16_t *a, *packed;
    int64_t a_stride, depth, columns, n_rows;
    bool is_padded; /* y has whole registers of columns */
    const float *column_scales;
    const struct hrf_score_row *rows; /* as a tile's */
    float *y;
    int64_t y_stride;
    struct hrf_rows_ahead *ahead;
};

/* Each panel stays in the first-level cache while all rows are multiplied by it. */
static void fixed_attention_avx512_multiply(const struct product *p)
{
    static void (*const run_tile[])(const struct tile *) = { NULL, run_1, run_2, run_3, run_4 };
    struct tile t = { .steps = (p->depth + 1) / 2, .y_stride = p->y_stride };
    for (int64_t panel = 0; panel < hrf_product_count_panels(p->columns); panel++) {
        const int64_t first = hrf_product_panel_begin(p->columns, panel);
        const int64_t registers = (hrf_product_panel_begin(p->columns, panel + 1) - first) / LANES;
        t.w = (const char *)(p->packed + first * 2 * t.steps);
        t.column_scales = p->column_scales + first;
        for (int64_t c = 0; c < registers; c++)
            t.mask[c] = p->is_padded ? 0xffff
                                     : hrf_first_lanes_avx512(p->columns - first - c * LANES);
        for (int64_t r = 0; r < p->n_rows; r += ROWS) {
            t.n_rows = p->n_rows - r < ROWS ? (int)(p->n_rows - r) : ROWS;
            for (int i = 0; i < ROWS; i++)
                t.a[i] = (const char *)(p->a + (r + (i < t.n_rows ? i : 0)) * p->a_stride);
            t.rows = p->rows != NULL ? p->rows + r : NULL;
            t.y = p->y + r * t.y_stride + first;
            hrf_rows_prefetch(p->ahead, AHEAD_ROWS);
            run_tile[registers](&t);
        }
    }
}

/* ---- the form ---- */

static void fixed_attention_avx512_measure(const struct hrf_attention *k,
                                           int64_t bytes[HRF_ATTENTION_BUFFERS])
{
    const int64_t d = k->view.of[HRF_HEAD_Q].columns, e = k->view.of[HRF_HEAD_V].columns;
    bytes[HRF_PACKED_KEYS] = packed_count(d, k->keys) * 2;
    bytes[HRF_PACKED_VALUES] = packed_count(k->keys, e) * 2;
    bytes[HRF_KEY_TERMS] = hrf_whole_lines(k->keys) * 4;
    bytes[HRF_VALUE_TERMS] = hrf_whole_lines(e) * 4;
    bytes[HRF_QUERIES] = hrf_max(k->keys, k->block) * row_of(d) * 2; /* first of all keys */
    bytes[HRF_QUERY_TERMS] = k->block * 4;
    bytes[HRF_SCORES] = k->block * k->score_row * 4;
    bytes[HRF_WEIGHTS] = k->block * row_of(k->keys) * 2;
}

/* Rows of float32 of a matrix of the head. */
static const float *floats_of(const struct hrf_attention_tile *t, int which, int64_t first)
{
    return (const float *)(const void *)hrf_head_rows(t, which, first, 0).at;
}

static void fixed_attention_avx512_pack(struct hrf_attention_tile *t)
{
    const struct hrf_head_matrix *m = t->of->view.of;
    const int64_t n = t->n_keys, d = m[HRF_HEAD_Q].columns;
    float *scales = t->buffer[HRF_KEY_TERMS];
    for (int64_t i = n; i < hrf_whole_lines(n); i++)
        scales[i] = 0;
    round_rows(floats_of(t, HRF_HEAD_K, 0), m[HRF_HEAD_K].row, n, d, t->buffer[HRF_QUERIES],
               scales);
    pack_keys(t->buffer[HRF_QUERIES], n, d, t->buffer[HRF_PACKED_KEYS]);
    pack_values(floats_of(t, HRF_HEAD_V, 0), m[HRF_HEAD_V].row, n, m[HRF_HEAD_V].columns,
                t->buffer[HRF_PACKED_VALUES], t->buffer[HRF_VALUE_TERMS]);
}

static void fixed_attention_avx512_load(struct hrf_attention_tile *t)
{
    const struct hrf_head_matrix *q = &t->of->view.of[HRF_HEAD_Q];
    round_rows(floats_of(t, HRF_HEAD_Q, t->first), q->row, t->n, q->columns, t->buffer[HRF_QUERIES],
               t->buffer[HRF_QUERY_TERMS]);
}

static void fixed_attention_avx512_score(struct hrf_attention_tile *t)
{
    const int64_t d = t->of->view.of[HRF_HEAD_Q].columns;
    fixed_attention_avx512_multiply(&(struct product){ .a = t->buffer[HRF_QUERIES],
                                                       .a_stride = row_of(d),
                                                       .packed = t->buffer[HRF_PACKED_KEYS],
                                                       .depth = d,
                                                       .columns = t->n_keys,
                                                       .n_rows = t->n,
                                                       .is_padded = true,
                                                       .column_scales = t->buffer[HRF_KEY_TERMS],
                                                       .y = t->buffer[HRF_SCORES],
                                                       .y_stride = t->of->score_row,
                                                       .ahead = &t->ahead });
}

static void fixed_attention_avx512_weigh(struct hrf_attention_tile *t, struct hrf_score_row *rows,
                                         int64_t n_rows)
{
    const int64_t first = rows - t->rows, row = row_of(t->n_keys);
    const float *scales = t->buffer[HRF_QUERY_TERMS];
    for (int64_t i = 0; i < n_rows; i++) {
        rows[i].scale *= scales[first + i];
        rows[i].weights = (int16_t *)t->buffer[HRF_WEIGHTS] + (first + i) * row;
    }
    hrf_rows_softmax_i16_avx512(rows, n_rows, t->n_keys);
}

static void fixed_attention_avx512_sum(struct hrf_attention_tile *t, enum hrf_dtype type, void *y,
                                       int64_t y_row)
{
    (void)type; /* float32 */
    fixed_attention_avx512_multiply(
        &(struct product){ .a = t->buffer[HRF_WEIGHTS],
                           .a_stride = row_of(t->n_keys),
                           .packed = t->buffer[HRF_PACKED_VALUES],
                           .depth = t->n_keys,
                           .columns = t->of->view.of[HRF_HEAD_V].columns,
                           .n_rows = t->n,
                           .column_scales = t->buffer[HRF_VALUE_TERMS],
                           .rows = t->rows,
                           .y = y,
                           .y_stride = y_row,
                           .ahead = &t->ahead });
}

static const char *fixed_attention_avx512_misfit(const struct hrf_graph *graph,
                                                 const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    struct hrf_head_view view;
    if (hrf_shape_count(&graph->values[node->outputs[0]].shape) <= 0)
        return "its output is empty";
    hrf_head_view(graph, node, &view);
    for (int which = HRF_HEAD_Q; which <= HRF_HEAD_Y; which++) {
        const int32_t value = which == HRF_HEAD_Y ? node->outputs[0] : node->inputs[which];
        if (!hrf_head_is_dense(&view, which) || graph->values[value].dtype != HRF_F32)
            return "its numbers are no rows of float32";
    }
    return a->attention.fixed_point && a->attention.scale > 0 &&
                   view.of[HRF_HEAD_K].rows <= MAX_KEYS
               ? NULL
               : "its products are not of 16-bit integers";
}

const struct hrf_kernel_row hrf_cpu_attention_fixed = {
    .name = "int16 heads:avx512_vnni",
    HRF_ROW_OPS(HRF_OP_ATTENTION, HRF_OP_TOKEN_ATTENTION),
    .forms = HRF_FORM_FLOAT | HRF_FORM_HALF,
    .isa = HRF_ISA_AVX512_VNNI,
    .misfit = fixed_attention_avx512_misfit,
    .compile = hrf_attention_compile,
    .own =
        &(const struct hrf_attention_form){
            /* The first-level cache holds so many queries' scores. */
            .min_queries = 4 * ROWS,
            .max_queries = 4 * ROWS,
            .step = ROWS,
            .measure = fixed_attention_avx512_measure,
            .pack = fixed_attention_avx512_pack,
            .load = fixed_attention_avx512_load,
            .score = fixed_attention_avx512_score,
            .weigh = fixed_attention_avx512_weigh,
            .sum = fixed_attention_avx512_sum,
        },
};
