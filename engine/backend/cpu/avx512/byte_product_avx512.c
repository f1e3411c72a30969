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

static inline float largest(const struct hrf_byte_product *p, const float *x)
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
            inverses[r] = inverse_of(largest(p, rows + r * p->depth), &scales[first + r]);
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
    const char *far; /* memory to ask for: a line for UNROLL steps */
};

/* The same, activated, from rows of whole registers to those of y. */
static void store(const struct tile *t, int n_registers, float *numbers)
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

#define CHOOSE_ROW(i) const char *const p##i = (const char *)t->a + (i)*t->stride;
#define AT(c)         (t->first + (c)*LANES)
#define Y(i, c)       (t->y + (i)*p->columns + (c)*LANES)
#define MASK(c)       hrf_first_lanes_avx512(p->columns - AT(c))
#define START(i, c)   __m512 x##i##c = start_of(p, AT(c));
#define ASK_Y(i, c)   _mm_prefetch((const char *)Y(i, c), _MM_HINT_T0);
#define SCALE(i, c)   x##i##c = scale(p, AT(c), t->row_scales[i], x##i##c);
#define GELU(i, c)    x##i##c = hrf_v_gelu(x##i##c);
#define STORE(i, c)   _mm512_mask_storeu_ps(Y(i, c), MASK(c), x##i##c);
#define KEEP(i, c)    _mm512_store_ps(numbers + ((i)*REGISTERS + (c)) * LANES, x##i##c);
#define RESIDUAL(i, c)                                                                             \
    x##i##c = _mm512_add_ps(                                                                       \
        x##i##c, _mm512_maskz_loadu_ps(MASK(c), t->residual + (i)*p->columns + (c)*LANES));
/* Weights of a deep product come from the second level. */
#define ASK_W(step, c)                                                                             \
    _mm_prefetch(w + ((WEIGHTS_AHEAD + (step)) * REGISTERS + (c)) * LINE, _MM_HINT_T0);

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

/* Whole tiles with no activation, or the one of transformers. */
static inline bool ends_in_registers(const struct tile *t)
{
    const enum hrf_activation activation = t->product->epilogue.activation;
    return t->n_rows == ROWS && (activation == HRF_ACT_NONE || activation == HRF_ACT_GELU);
}

/* clang-format off */
#define DEFINE_TILE(registers)                                                                     \
    static void run_tile_##registers(const struct tile *t)                                         \
    {                                                                                              \
        enum { REGISTERS = registers };                                                            \
        const struct hrf_byte_product *const p = t->product;                                       \
        const char *w = (const char *)t->w, *far = t->far;                                         \
        int64_t offset = 0, left = t->steps;                                                       \
        ROWS_6(CHOOSE_ROW) TILE_6(registers, ASK_Y) TILE_6(registers, START)                     \
        for (; left >= UNROLL; left -= UNROLL) {                                                   \
            ASK(0)                                                                                 \
            ONE_##registers(ASK_W, 0) STEP(BYTES, 6, registers, 0)                                 \
            ONE_##registers(ASK_W, 1) STEP(BYTES, 6, registers, 1)                                 \
            ONE_##registers(ASK_W, 2) STEP(BYTES, 6, registers, 2)                                 \
            ONE_##registers(ASK_W, 3) STEP(BYTES, 6, registers, 3)                                 \
            w += UNROLL * REGISTERS * LINE;                                                        \
            far += LINE;                                                                           \
            offset += UNROLL * WORD;                                                               \
        }                                                                                          \
        for (; left > 0; left--) {                                                                 \
            STEP(BYTES, 6, registers, 0)                                                           \
            w += REGISTERS * LINE;                                                                 \
            offset += WORD;                                                                        \
        }                                                                                          \
        TILE_6(registers, SCALE)                                                                  \
        if (!ends_in_registers(t)) {                                                               \
            _Alignas(LINE) float numbers[ROWS * REGISTERS * LANES];                                \
            TILE_6(registers, KEEP)                                                               \
            store(t, REGISTERS, numbers);                                                          \
            return;                                                                                \
        }                                                                                          \
        if (t->residual != NULL) {                                                                 \
            TILE_6(registers, RESIDUAL)                                                           \
        }                                                                                          \
        if (p->epilogue.activation == HRF_ACT_GELU) {                                              \
            TILE_6(registers, GELU)                                                               \
        }                                                                                          \
        TILE_6(registers, STORE)                                                                  \
    }
DEFINE_TILE(1)
DEFINE_TILE(2)
DEFINE_TILE(3)
DEFINE_TILE(4)
/* clang-format on */

void hrf_byte_product_avx512(const struct hrf_byte_product *p, const struct hrf_row_norm *norm,
                             const float *x, const float *residual, float *y, int64_t n_rows,
                             int64_t first_panel, int64_t end_panel, const struct hrf_ahead *ahead,
                             void *scratch)
{
    static void (*const run[])(const struct tile *) = { NULL, run_tile_1, run_tile_2, run_tile_3,
                                                        run_tile_4 };
    const int64_t stride = hrf_byte_stride(p->depth);
    const char *far = ahead->memory, *const end = far + ahead->n_bytes;
    uint8_t *integers = scratch;
    float *scales = (float *)(void *)(integers + (n_rows + ROWS - 1) / ROWS * ROWS * stride);
    float *const normed = scales + (n_rows + ROWS - 1) / ROWS * ROWS;
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
            t.far = far < end ? far : (const char *)t.w;
            far += far < end ? t.steps / UNROLL * LINE : 0;
            run[width / LANES](&t);
        }
    }
}
