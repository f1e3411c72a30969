/* byte_product_avx512.c - see byte_product.h. Compiled with -mavx512vnni and without contraction,
 * which would round once where the contract rounds twice; optimised always.
 *
 * VNNI multiplies unsigned by signed bytes: rows are stored as q + 128, and sums begin at -128
 * times the sum of their column's weights.
 */
#include "engine/backend/cpu/avx512/epilogue_avx512.h"
#include "engine/backend/cpu/avx512/math_avx512.h"
#include "engine/backend/cpu/avx512/product_tile_avx512.h"
#include "engine/backend/cpu/transformer/byte_product.h"

#include <immintrin.h>
#include <math.h>

enum {
    ROWS = HRF_BYTE_ROWS,
    PIECE = 4 * LANES,  /* numbers that are rounded together */
    WEIGHTS_AHEAD = 16, /* steps: weights of a deep product come from the second level */
};

/* ---- rounding ---- */

/* Numbers of a row that are rounded together. */
struct piece {
    __m512 x[4];
};

/* is_whole: known when this is compiled; the last piece of a row may end before its end. */
HRF_ALWAYS_INLINE struct piece load_piece(const struct hrf_byte_product *p, const float *x,
                                          int64_t k, const bool is_whole)
{
    struct piece piece;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const int64_t at = k + i * LANES;
        const __mmask16 mask = is_whole ? 0xffff : hrf_first_lanes_avx512(p->depth - at);
        piece.x[i] = _mm512_maskz_loadu_ps(mask, x + at);
        if (p->factors != NULL)
            piece.x[i] = _mm512_mul_ps(piece.x[i], _mm512_maskz_loadu_ps(mask, p->factors + at));
    }
    return piece;
}

/* The magnitudes' bits are ordered as the magnitudes are, a NaN's above all. */
HRF_ALWAYS_INLINE void take_largest(const struct piece piece, __m512i most[4])
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        most[i] = _mm512_max_epi32(most[i], _mm512_castps_si512(_mm512_abs_ps(piece.x[i])));
}

static inline float byte_product_avx512_largest(const struct hrf_byte_product *p, const float *x)
{
    __m512i most[4] = { _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                        _mm512_setzero_si512() };
    int64_t k = 0;
    for (; k + PIECE <= p->depth; k += PIECE)
        take_largest(load_piece(p, x, k, true), most);
    if (k < p->depth)
        take_largest(load_piece(p, x, k, false), most);
    const __m512i all = _mm512_max_epi32(_mm512_max_epi32(most[0], most[1]),
                                         _mm512_max_epi32(most[2], most[3]));
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(all))));
}

/* As bytes: packing leaves fours of each register beside those of the others. */
HRF_ALWAYS_INLINE __m512i round_piece(const struct piece piece, __m512 inverse)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i q[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        q[i] = _mm512_cvtps_epi32(_mm512_mul_ps(piece.x[i], inverse));
    const __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(q[0], q[1]),
                                             _mm512_packs_epi32(q[2], q[3]));
    return _mm512_xor_si512(_mm512_permutexvar_epi32(order, bytes), _mm512_set1_epi8((char)-128));
}

/* What a row of this largest magnitude is multiplied by; sets its scale. Products of broken rows
 * are of integers, too: what they are does not matter. */
static float inverse_of(float most, float *scale)
{
    const bool is_zero = most < 0x1p-100f, is_broken = !(most < INFINITY);
    *scale = is_broken ? NAN : is_zero ? 0.0f : most / 127.0f;
    return is_zero || is_broken ? 0.0f : 127.0f / most;
}

static void round_row(const struct hrf_byte_product *p, const float *x, uint8_t *to,
                      float inverse_number)
{
    const __m512 inverse = _mm512_set1_ps(inverse_number);
    int64_t k = 0;
    for (; k + PIECE <= p->depth; k += PIECE)
        _mm512_store_si512(to + k, round_piece(load_piece(p, x, k, true), inverse));
    if (k < p->depth)
        _mm512_store_si512(to + k, round_piece(load_piece(p, x, k, false), inverse));
}

/* Fills integers and scales of the rows, six by six: a row's largest number comes late, and
 * meanwhile the processor works on other rows. `normed`: room for six rows. */
static void round_rows(const struct hrf_byte_product *p, const struct hrf_row_norm *norm,
                       const float *x, int64_t n_rows, float *normed, uint8_t *integers,
                       float *scales)
{
    const int64_t stride = hrf_byte_stride(p->depth);
    float inverses[ROWS];
    for (int64_t first = 0; first < n_rows; first += ROWS) {
        const int64_t n = n_rows - first < ROWS ? n_rows - first : ROWS;
        const float *rows = x + first * p->depth;
        if (norm != NULL) {
            hrf_rows_norm_avx512(norm, n, rows, normed);
            rows = normed;
        }
        for (int64_t r = 0; r < n; r++)
            inverses[r] = inverse_of(byte_product_avx512_largest(p, rows + r * p->depth),
                                     &scales[first + r]);
        for (int64_t r = 0; r < n; r++)
            round_row(p, rows + r * p->depth, integers + (first + r) * stride, inverses[r]);
    }
}

/* ---- multiplying ---- */

/* Up to six rows by one panel. */
struct tile {
    const struct hrf_byte_product *product;
    const uint8_t *a; /* rows that begin `stride` bytes apart; the last ones may repeat others */
    int64_t stride, steps;
    const int8_t *w;
    int64_t first; /* column */
    int n_rows;
    const float *row_scales; /* [rows] */
    const float *residual;   /* NULL, or of the first row and the panel's first column, as y */
    float *y;
    const char *prefetched; /* memory to prefetch: a line for UNROLL steps */
};

/* Stores the numbers of a tile, plus the residual and activated, to its rows of y. The usual tiles
 * do without: whole ones with no activation, or with a function. */
static __attribute__((noinline)) void store(const struct tile *t, int n_registers, float *numbers)
{
    const struct hrf_epilogue *e = &t->product->epilogue;
    const int64_t columns = t->product->columns;
    for (int i = 0; i < t->n_rows && t->residual != NULL; i++)
        for (int c = 0; c < n_registers; c++) {
            const __mmask16 mask = hrf_first_lanes_avx512(columns - t->first - c * LANES);
            float *to = numbers + (i * n_registers + c) * LANES;
            _mm512_store_ps(to, _mm512_add_ps(_mm512_load_ps(to),
                                              _mm512_maskz_loadu_ps(
                                                  mask, t->residual + i * columns + c * LANES)));
        }
    if (hrf_has_function(e))
        hrf_activate_sums_avx512(numbers, t->n_rows * n_registers, e);
    for (int i = 0; i < t->n_rows; i++)
        for (int c = 0; c < n_registers; c++, numbers += LANES)
            _mm512_mask_storeu_ps(t->y + i * columns + c * LANES,
                                  hrf_first_lanes_avx512(columns - t->first - c * LANES),
                                  hrf_activate_avx512(_mm512_load_ps(numbers), e));
}

/* 16 sums, as the bits of integers. */
HRF_ALWAYS_INLINE __m512 start_of(const struct hrf_byte_product *p, int64_t column)
{
    return _mm512_castsi512_ps(
        _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(p->sums + column)));
}

HRF_ALWAYS_INLINE __m512 scale(const struct hrf_byte_product *p, int64_t column, float row_scale,
                               __m512 sums)
{
    const __m512 x = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_castps_si512(sums)),
                                   _mm512_loadu_ps(p->scales + column));
    return _mm512_add_ps(_mm512_mul_ps(x, _mm512_set1_ps(row_scale)),
                         _mm512_loadu_ps(p->epilogue.bias + column));
}

/* Each sum of a tile, row by row: number i is of row i / registers, register i % registers. */
#define EACH_SUM UNROLLED for (int i = 0; i < ROWS * registers; i++)
#define COLUMN   (i % registers * LANES) /* of the panel */
#define Y        (t->y + i / registers * p->columns + COLUMN)
#define MASK     hrf_first_lanes_avx512(p->columns - t->first - COLUMN)

/* `at` steps (a constant) beyond where the pointers are. Weights of a deep product come from the
 * second level. */
HRF_ALWAYS_INLINE void add_step(const int registers, const char *const a[], int64_t offset,
                                const char *w, const int at, __m512 *x)
{
    UNROLLED for (int c = 0; c < registers; c++)
        _mm_prefetch(w + ((WEIGHTS_AHEAD + at) * registers + c) * LINE, _MM_HINT_T0);
    hrf_tile_add_step(HRF_TILE_BYTES, ROWS, registers, a, offset, w, at, x);
}

HRF_ALWAYS_INLINE void run(const int registers, const struct tile *t)
{
    const struct hrf_byte_product *const p = t->product;
    const char *a[ROWS], *w = (const char *)t->w, *prefetched = t->prefetched;
    int64_t offset = 0, left = t->steps;
    __m512 x[ROWS * MOST_REGISTERS];
    UNROLLED for (int i = 0; i < ROWS; i++) a[i] = (const char *)t->a + i * t->stride;
    EACH_SUM _mm_prefetch((const char *)Y, _MM_HINT_T0);
    EACH_SUM x[i] = start_of(p, t->first + COLUMN);
    for (; left >= UNROLL; left -= UNROLL) {
        hrf_tile_prefetch(prefetched, 0);
        add_step(registers, a, offset, w, 0, x);
        add_step(registers, a, offset, w, 1, x);
        add_step(registers, a, offset, w, 2, x);
        add_step(registers, a, offset, w, 3, x);
        w += UNROLL * registers * LINE;
        prefetched += LINE;
        offset += UNROLL * WORD;
    }
    for (; left > 0; left--) {
        hrf_tile_add_step(HRF_TILE_BYTES, ROWS, registers, a, offset, w, 0, x);
        w += registers * LINE;
        offset += WORD;
    }
    EACH_SUM x[i] = scale(p, t->first + COLUMN, t->row_scales[i / registers], x[i]);
    const bool has_function = hrf_has_function(&p->epilogue);
    _Alignas(LINE) float numbers[ROWS * MOST_REGISTERS * LANES];
    if (t->n_rows < ROWS || (p->epilogue.activation != HRF_ACT_NONE && !has_function)) {
        EACH_SUM _mm512_store_ps(numbers + i * LANES, x[i]);
        store(t, registers, numbers);
        return;
    }
    if (t->residual != NULL)
        EACH_SUM x[i] = _mm512_add_ps(
            x[i], _mm512_maskz_loadu_ps(MASK, t->residual + i / registers * p->columns + COLUMN));
    if (has_function) {
        EACH_SUM _mm512_store_ps(numbers + i * LANES, x[i]);
        hrf_activate_sums_avx512(numbers, ROWS * registers, &p->epilogue);
        EACH_SUM x[i] = _mm512_load_ps(numbers + i * LANES);
    }
    EACH_SUM _mm512_mask_storeu_ps(Y, MASK, x[i]);
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

void hrf_byte_product_avx512(const struct hrf_byte_product *p, const struct hrf_row_norm *norm,
                             const float *x, const float *residual, float *y, int64_t n_rows,
                             int64_t first_panel, int64_t end_panel, const struct hrf_ahead *ahead,
                             void *scratch)
{
    static void (*const run_tile[])(const struct tile *) = { NULL, run_1, run_2, run_3, run_4 };
    const int64_t stride = hrf_byte_stride(p->depth);
    const char *prefetched = ahead->memory, *const end = prefetched + ahead->n_bytes;
    uint8_t *integers = scratch;
    float *scales = (float *)(void *)(integers + (n_rows + ROWS - 1) / ROWS * ROWS * stride);
    float *const normed = scales + hrf_round_up((size_t)n_rows, ROWS);
    round_rows(p, norm, x, n_rows, normed, integers, scales);
    for (int64_t panel = first_panel; panel < end_panel; panel++) {
        const int64_t first = hrf_product_panel_begin(p->columns, panel);
        const int64_t width = hrf_product_panel_begin(p->columns, panel + 1) - first;
        struct tile t = {
            .product = p, .stride = stride, .steps = hrf_byte_steps(p->depth), .first = first
        };
        t.w = p->packed + first * t.steps * 4;
        for (int64_t r = 0; r < n_rows; r += ROWS) {
            t.a = integers + r * stride;
            t.n_rows = n_rows - r < ROWS ? (int)(n_rows - r) : ROWS;
            t.row_scales = scales + r;
            t.residual = residual != NULL ? residual + r * p->columns + first : NULL;
            t.y = y + r * p->columns + first;
            t.prefetched = prefetched < end ? prefetched : (const char *)t.w;
            prefetched += prefetched < end ? t.steps / UNROLL * LINE : 0;
            run_tile[width / LANES](&t);
        }
    }
}
