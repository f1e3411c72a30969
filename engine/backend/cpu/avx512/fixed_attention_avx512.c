/* fixed_attention_avx512.c - see fixed_attention_avx512.h. Compiled with -mavx512vnni, optimised
 * always. */
#include "engine/backend/cpu/avx512/fixed_attention_avx512.h"

#include "engine/backend/cpu/avx512/number_avx512.h"
#include "engine/backend/cpu/avx512/product_tile_avx512.h"
#include "engine/backend/cpu/avx512/rows_of_tokens_avx512.h"

#include <immintrin.h>
#include <math.h>

enum {
    ROWS = HRF_FIXED_ROWS,
    PER_ROW = 2 * LANES, /* numbers that are rounded together */
    MOST_VALUE = 4095,   /* of V: times SUM_OF_WEIGHTS and a half for each key below 2^31 */
    SUM_OF_WEIGHTS = 1 << 18,
    MOST_WEIGHT = 32767,
};

#define ALWAYS static inline __attribute__((always_inline))

static int64_t up_to(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

int64_t hrf_fixed_stride(int64_t n)
{
    return up_to(n, PER_ROW);
}

int64_t hrf_fixed_packed_count(int64_t depth, int64_t columns)
{
    return (depth + 1) / 2 * 2 * up_to(columns, LANES);
}

/* ---- rounding ---- */

/* The magnitudes' bits are ordered as the magnitudes are, a NaN's above all. */
ALWAYS __m512i larger(__m512i most, __m512 x)
{
    return _mm512_max_epi32(most, _mm512_castps_si512(_mm512_abs_ps(x)));
}

/* 32 integers of two registers, in order. */
ALWAYS __m512i join(__m512i low, __m512i high)
{
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    return _mm512_permutexvar_epi64(order, _mm512_packs_epi32(low, high));
}

static float most_of_keys(int64_t d)
{
    const float most = floorf(sqrtf(0x1.fffffep30f / (float)d));
    return most > MOST_WEIGHT ? MOST_WEIGHT : most;
}

/* What rounds to at most `most`, and its scale, which is not 0 even if all numbers are. */
ALWAYS float inverse_of(float largest, float most, float *scale)
{
    const bool is_zero = largest < 0x1p-100f, is_broken = !(largest < INFINITY);
    *scale = is_broken ? NAN : is_zero ? 1.0f : largest / most;
    return is_zero || is_broken ? 0.0f : most / largest;
}

ALWAYS float largest_of(const float *x, int64_t d)
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
        _mm512_storeu_si512(to + k, join(q[0], q[1]));
    }
}

/* Six by six: a row's largest number comes late, and meanwhile the processor works on others. */
void hrf_fixed_round_rows_avx512(const float *x, int64_t x_stride, int64_t n_rows, int64_t d,
                                 int16_t *to, float *scales)
{
    const int64_t stride = hrf_fixed_stride(d);
    const float bound = most_of_keys(d);
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

void hrf_fixed_pack_keys_avx512(const int16_t *rows, int64_t n_keys, int64_t d, int16_t *to)
{
    const int64_t steps = (d + 1) / 2, words = hrf_fixed_stride(d) / 2;
    for (int64_t p = 0; p < hrf_product_count_panels(n_keys); p++) {
        const int64_t begin = hrf_product_panel_begin(n_keys, p);
        const int64_t width = hrf_product_panel_begin(n_keys, p + 1) - begin;
        /* Pairs of integers are moved as if they were floats. */
        hrf_turn_avx512(HRF_F32, rows + begin * 2 * words, words, n_keys - begin, steps, width,
                        (float *)(void *)(to + begin * 2 * steps));
    }
}

/* Columns [first, first + 16) of two rows, pair by pair. */
ALWAYS __m512i pair(const float *x, const float *next, __mmask16 mask, __m512 inverse)
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
        inverses[i] = inverse_of(largest[i], MOST_VALUE, &scales[i]);
    const __m512 inverse = _mm512_load_ps(inverses);
    for (int64_t k = 0; k < n_keys; k += 2, x += 2 * x_stride, to += 2 * width)
        _mm512_storeu_si512(to, pair(x, k + 1 < n_keys ? x + x_stride : NULL, mask, inverse));
}

void hrf_fixed_pack_values_avx512(const float *x, int64_t x_stride, int64_t n_keys, int64_t e,
                                  int16_t *to, float *scales)
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
    const struct hrf_fixed_row *rows; /* whose factors are applied, too; NULL: none */
    int n_rows;
    float *y; /* of the panel's first column */
    int64_t y_stride;
    __mmask16 mask[MOST_REGISTERS];
};

#define CHOOSE_ROW(i) const char *const p##i = t->a[i];
#define START(i, c)   __m512 x##i##c = _mm512_setzero_ps();
#define SCALE(i, c)                                                                                \
    x##i##c = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_castps_si512(x##i##c)),                      \
                            _mm512_loadu_ps(t->column_scales + (c)*LANES));
#define FACTOR(i, c) x##i##c = _mm512_mul_ps(x##i##c, _mm512_set1_ps(t->rows[i].factor));
#define STORE(i, c)  _mm512_mask_storeu_ps(t->y + (i)*t->y_stride + (c)*LANES, t->mask[c], x##i##c);
#define START_1(i)   ONE_1(START, i)
#define START_2(i)   ONE_2(START, i)
#define START_3(i)   ONE_3(START, i)
#define START_4(i)   ONE_4(START, i)
#define SCALE_1(i)   ONE_1(SCALE, i)
#define SCALE_2(i)   ONE_2(SCALE, i)
#define SCALE_3(i)   ONE_3(SCALE, i)
#define SCALE_4(i)   ONE_4(SCALE, i)
#define FACTOR_1(i)  ONE_1(FACTOR, i)
#define FACTOR_2(i)  ONE_2(FACTOR, i)
#define FACTOR_3(i)  ONE_3(FACTOR, i)
#define FACTOR_4(i)  ONE_4(FACTOR, i)
#define FINISH(registers, i)                                                                       \
    if ((i) < t->n_rows) {                                                                         \
        SCALE_##registers(i) if (t->rows != NULL){ FACTOR_##registers(i) } ONE_##registers(STORE,  \
                                                                                           i)      \
    }
#define FINISH_1(i) FINISH(1, i)
#define FINISH_2(i) FINISH(2, i)
#define FINISH_3(i) FINISH(3, i)
#define FINISH_4(i) FINISH(4, i)

/* clang-format off */
#define DEFINE_TILE(registers)                                                                     \
    static void run_tile_##registers(const struct tile *t)                                         \
    {                                                                                              \
        const char *w = t->w;                                                                      \
        int64_t offset = 0, left = t->steps;                                                       \
        ROWS_6(CHOOSE_ROW) ROWS_6(START_##registers)                                               \
        for (; left >= UNROLL; left -= UNROLL) {                                                   \
            STEP(WORDS, 6, registers, 0)                                                           \
            STEP(WORDS, 6, registers, 1)                                                           \
            STEP(WORDS, 6, registers, 2)                                                           \
            STEP(WORDS, 6, registers, 3)                                                           \
            w += UNROLL * registers * LINE;                                                        \
            offset += UNROLL * WORD;                                                               \
        }                                                                                          \
        for (; left > 0; left--) {                                                                 \
            STEP(WORDS, 6, registers, 0)                                                           \
            w += registers * LINE;                                                                 \
            offset += WORD;                                                                        \
        }                                                                                          \
        ROWS_6(FINISH_##registers)                                                                 \
    }
DEFINE_TILE(1)
DEFINE_TILE(2)
DEFINE_TILE(3)
DEFINE_TILE(4)
/* clang-format on */

enum { AHEAD_ROWS = 2 }; /* of each matrix, with each tile: a head has fewer rows than tiles */

static void ask(struct hrf_fixed_ahead *ahead)
{
    for (int m = 0; m < HRF_FIXED_MATRICES; m++)
        for (int i = 0; i < AHEAD_ROWS && ahead->n_rows[m] > 0; i++) {
            for (int64_t at = 0; at < ahead->n_bytes[m]; at += LINE)
                _mm_prefetch(ahead->at[m] + at, _MM_HINT_T1);
            ahead->at[m] += ahead->stride[m];
            ahead->n_rows[m]--;
        }
}

/* Rows of integers by packed ones. */
struct product {
    const int16_t *a, *packed;
    int64_t a_stride, depth, columns, n_rows;
    bool is_padded; /* y has whole registers of columns */
    const float *column_scales;
    const struct hrf_fixed_row *rows; /* as a tile's */
    float *y;
    int64_t y_stride;
    struct hrf_fixed_ahead *ahead;
};

/* Each panel stays in the first-level cache while all rows are multiplied by it. */
static void multiply(const struct product *p)
{
    static void (*const run[])(const struct tile *) = { NULL, run_tile_1, run_tile_2, run_tile_3,
                                                        run_tile_4 };
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
            ask(p->ahead);
            run[registers](&t);
        }
    }
}

void hrf_fixed_scores_avx512(const struct hrf_fixed_head *head, const int16_t *queries,
                             int64_t n_rows, float *scores, int64_t stride)
{
    multiply(&(struct product){ .a = queries,
                                .a_stride = hrf_fixed_stride(head->d),
                                .packed = head->keys,
                                .depth = head->d,
                                .columns = head->n_keys,
                                .n_rows = n_rows,
                                .is_padded = true,
                                .column_scales = head->key_scales,
                                .y = scores,
                                .y_stride = stride,
                                .ahead = head->ahead });
}

void hrf_fixed_values_avx512(const struct hrf_fixed_head *head, const struct hrf_fixed_row *rows,
                             int64_t n_rows, float *y, int64_t y_stride)
{
    multiply(&(struct product){ .a = rows[0].weights,
                                .a_stride = hrf_fixed_stride(head->n_keys),
                                .packed = head->values,
                                .depth = head->n_keys,
                                .columns = head->e,
                                .n_rows = n_rows,
                                .column_scales = head->value_scales,
                                .rows = rows,
                                .y = y,
                                .y_stride = y_stride,
                                .ahead = head->ahead });
}

/* ---- weights ---- */

/* The largest score, those that are not seen being -INFINITY. With a mask, scores become those of
 * the softmax. */
static float prepare(struct hrf_fixed_row *row, int64_t n_padded)
{
    const __m512 scale = _mm512_set1_ps(row->scale), none = _mm512_set1_ps(-INFINITY);
    const int64_t n_whole = row->mask != NULL ? 0 : row->n_seen / LANES * LANES;
    __m512 most = none;
    for (int64_t i = 0; i < n_whole; i += LANES)
        most = _mm512_max_ps(most, _mm512_load_ps(row->scores + i));
    for (int64_t i = n_whole; i < n_padded; i += LANES) {
        const __mmask16 seen = hrf_first_lanes_avx512(row->n_seen - i);
        __m512 x = _mm512_load_ps(row->scores + i);
        if (row->mask != NULL)
            x = _mm512_fmadd_ps(x, scale, _mm512_maskz_loadu_ps(seen, row->mask + i));
        x = _mm512_mask_mov_ps(none, seen, x);
        _mm512_store_ps(row->scores + i, x);
        most = _mm512_max_ps(most, x);
    }
    return _mm512_reduce_max_ps(most);
}

/* 2^t for t <= 0 (or a little above): relative error 3e-6; 2^-100 where it is less, which rounds to
 * 0 and, unlike subnormal numbers, takes no more cycles. A NaN stays one: it is the second operand
 * of the maximum, and its last bits, which are shifted to the exponent, are zeros. */
ALWAYS __m512 power(__m512 t)
{
    const __m512 whole = _mm512_set1_ps(0x1.8p23f);
    t = _mm512_max_ps(_mm512_set1_ps(-100.0f), t);
    const __m512 n = _mm512_add_ps(t, whole);
    const __m512 f = _mm512_sub_ps(t, _mm512_sub_ps(n, whole));
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(0x1.3997d2p-7f), f, _mm512_set1_ps(0x1.ca1440p-5f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ec06dap-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62e0dcp-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ffffe8p-1f));
    return _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(n), 23)));
}

/* scores = exp((scores - most) * scale); their sum. */
static float exponentials(const struct hrf_fixed_row *row, int64_t n_padded, float most)
{
    const float scale = (row->mask != NULL ? 1 : row->scale) * 0x1.715476p+0f;
    const __m512 s = _mm512_set1_ps(scale), off = _mm512_set1_ps(-most * scale);
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < n_padded; i += LANES) {
        const __m512 e = power(_mm512_fmadd_ps(_mm512_load_ps(row->scores + i), s, off));
        _mm512_store_ps(row->scores + i, e);
        sum = _mm512_add_ps(sum, e);
    }
    return _mm512_reduce_add_ps(sum);
}

static void round_weights(struct hrf_fixed_row *row, int64_t n_keys, int64_t n_padded, float sum)
{
    const float most = sum * MOST_WEIGHT < SUM_OF_WEIGHTS ? MOST_WEIGHT : SUM_OF_WEIGHTS / sum;
    const __m512 f = _mm512_set1_ps(most);
    row->factor = 1 / (most * sum);
    for (int64_t i = 0; i < n_keys; i += PER_ROW) {
        const __m512i low = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_load_ps(row->scores + i), f));
        const __m512i high = i + LANES < n_padded ? _mm512_cvtps_epi32(_mm512_mul_ps(
                                                        _mm512_load_ps(row->scores + i + LANES), f))
                                                  : _mm512_setzero_si512();
        _mm512_store_si512(row->weights + i, join(low, high));
    }
}

/* Each loop over all rows: a row's largest number and its sum come late, and meanwhile the
 * processor works on other rows. */
void hrf_fixed_weights_avx512(struct hrf_fixed_row *rows, int64_t n_rows, int64_t n_keys)
{
    const int64_t n_padded = up_to(n_keys, LANES);
    float most[ROWS], sums[ROWS];
    for (int64_t first = 0; first < n_rows; first += ROWS) {
        struct hrf_fixed_row *some = rows + first;
        const int64_t n = n_rows - first < ROWS ? n_rows - first : ROWS;
        for (int64_t r = 0; r < n; r++)
            most[r] = prepare(&some[r], n_padded);
        for (int64_t r = 0; r < n; r++)
            sums[r] = exponentials(&some[r], n_padded, most[r] > -INFINITY ? most[r] : 0);
        for (int64_t r = 0; r < n; r++)
            round_weights(&some[r], n_keys, n_padded, sums[r]);
    }
}
