/* stem_avx512.c - the inner loops of stem.h, for AVX-512. Compiled with -mavx512f and the rest. */
#include "engine/backend/cpu/epilogue_avx512.h"
#include "engine/backend/cpu/stem.h"

#include <immintrin.h>

enum {
    LANES = HRF_STEM_LANES,
    ALL = 0xffff,
    IN = HRF_STEM_IN,
    OUT = HRF_STEM_OUT,
    TILES = HRF_STEM_TILES,
    GROUP = IN / 2,       /* points of a column, */
    SIDE = HRF_STEM_SIDE, /* tiles, */
    HALVES = 2, /* registers of output channels whose sums are in registers together: 24 */
};

#define ROOT      1.41421356237309505f /* sqrt(2) */
#define HALF_ROOT 0.70710678118654752f /* 1 / sqrt(2) */

/* Inlined once for each number of tiles. */
#define INLINE static inline __attribute__((always_inline))

/* B^T x, as in winograd_avx512.c. */
INLINE void transform_input(const __m512 x[IN], __m512 y[IN])
{
    const __m512 two = _mm512_set1_ps(2.0f), half = _mm512_set1_ps(0.5f);
    const __m512 even1 = _mm512_fnmadd_ps(two, x[2], x[4]);
    const __m512 odd1 = _mm512_fnmadd_ps(two, x[1], x[3]);
    const __m512 even2 = _mm512_fnmadd_ps(half, x[2], x[4]);
    const __m512 odd2 = _mm512_fnmadd_ps(half, x[1], x[3]);
    y[0] = _mm512_fnmadd_ps(_mm512_set1_ps(2.5f), x[2], _mm512_add_ps(x[0], x[4]));
    y[1] = _mm512_fmadd_ps(_mm512_set1_ps(HALF_ROOT), odd1, even1);
    y[2] = _mm512_fnmadd_ps(_mm512_set1_ps(HALF_ROOT), odd1, even1);
    y[3] = _mm512_fmadd_ps(_mm512_set1_ps(ROOT), odd2, even2);
    y[4] = _mm512_fnmadd_ps(_mm512_set1_ps(ROOT), odd2, even2);
    y[5] = _mm512_fnmadd_ps(_mm512_set1_ps(2.5f), x[3], _mm512_add_ps(x[1], x[5]));
}

/* The first three points' share of A^T x: their sum, and the pair's sum and difference. */
INLINE void fold_first(__m512 x0, __m512 x1, __m512 x2, __m512 y[OUT])
{
    y[2] = _mm512_add_ps(x1, x2);
    y[1] = _mm512_sub_ps(x1, x2);
    y[0] = _mm512_add_ps(x0, y[2]);
}

/* And the rest. */
INLINE void fold_last(__m512 x3, __m512 x4, __m512 x5, __m512 y[OUT])
{
    const __m512 sum = _mm512_add_ps(x3, x4), difference = _mm512_sub_ps(x3, x4);
    y[0] = _mm512_add_ps(y[0], sum);
    y[1] = _mm512_fmadd_ps(_mm512_set1_ps(ROOT), difference,
                           _mm512_mul_ps(_mm512_set1_ps(HALF_ROOT), y[1]));
    y[2] = _mm512_fmadd_ps(_mm512_set1_ps(2.0f), sum,
                           _mm512_fmadd_ps(_mm512_set1_ps(0.5f), y[2], x5));
}

/* Which of two columns' numbers lie inside the image. */
static __mmask16 inside(int64_t column, int64_t n_columns, int64_t channels)
{
    const int64_t begin = column < 0 ? -column : 0;
    const int64_t end = column + 2 > n_columns ? n_columns - column : 2;
    if (begin >= end)
        return 0;
    return (__mmask16)((1U << end * channels) - (1U << begin * channels));
}

/* The four phases side by side: two columns of a row and, above them, of the next row. */
INLINE __m512 read_phases(enum hrf_dtype type, const char *even, const char *odd, int64_t at,
                          __mmask16 low, __mmask16 high)
{
    return _mm512_or_ps(hrf_load_avx512(type, even + at, low),
                        hrf_load_avx512(type, odd + at, high));
}

INLINE void read_columns(const struct hrf_stem *stem, const struct hrf_stem_input *in,
                         enum hrf_dtype type, int64_t n, float *half)
{
    const int64_t number = (int64_t)hrf_dtype_size(type), run = 2 * stem->channels;
    const char *rows[HRF_STEM_ROWS];
    for (int i = 0; i < HRF_STEM_ROWS; i++) /* an odd row's lanes stand above an even one's */
        rows[i] = in->rows[i] - i % 2 * run * number;
    for (int64_t i = 0, column = in->first; i < n; i++, column += 2, half += IN * LANES) {
        const __mmask16 low = inside(column, in->n_columns, stem->channels);
        const __mmask16 high = (__mmask16)(low << run);
        const int64_t at = column * stem->channels * number;
        __m512 x[IN], y[IN];
#pragma GCC unroll 6
        for (int row = 0; row < IN; row++)
            x[row] = read_phases(type, rows[2 * row], rows[2 * row + 1], at, low, high);
        transform_input(x, y);
#pragma GCC unroll 6
        for (int row = 0; row < IN; row++)
            _mm512_store_ps(half + row * LANES, y[row]);
    }
}

/* whole: [column's point][tile][row's point][lane]. */
static void transform_rows(const float *half, int64_t n, float *whole)
{
    for (int64_t tile = 0; tile < n; tile++, half += OUT * IN * LANES, whole += IN * LANES) {
#pragma GCC unroll 1
        for (int row = 0; row < IN; row++) {
            __m512 x[IN], y[IN];
#pragma GCC unroll 6
            for (int i = 0; i < IN; i++)
                x[i] = _mm512_load_ps(half + (i * IN + row) * LANES);
            transform_input(x, y);
#pragma GCC unroll 6
            for (int i = 0; i < IN; i++)
                _mm512_store_ps(whole + (i * TILES * IN + row) * LANES, y[i]);
        }
    }
}

void hrf_stem_input_avx512(const struct hrf_stem *stem, const struct hrf_stem_input *in, int64_t n,
                           float *half, float *whole)
{
    const int64_t n_columns = (n + 1) * OUT;
    if (in->type == HRF_F32)
        read_columns(stem, in, HRF_F32, n_columns, half);
    else if (in->type == HRF_F16)
        read_columns(stem, in, HRF_F16, n_columns, half);
    else
        read_columns(stem, in, HRF_B16, n_columns, half);
    transform_rows(half, n, whole);
}

/* What is multiplied at a time: n tiles, n_halves of 16 output channels. */
typedef __m512 sums_of[GROUP][SIDE][HALVES], folded_of[SIDE][HALVES][OUT];

INLINE void clear(sums_of sums, int n, int n_halves)
{
#pragma GCC unroll 3
    for (int point = 0; point < GROUP; point++)
#pragma GCC unroll 4
        for (int tile = 0; tile < n; tile++)
#pragma GCC unroll 2
            for (int half = 0; half < n_halves; half++)
                sums[point][tile][half] = _mm512_setzero_ps();
}

/* n_lanes of v times weights of n_points each. */
INLINE const float *add_products(sums_of sums, const float *v, const float *w, int64_t n_lanes,
                                 int n_points, int n, int n_halves)
{
    for (const float *end = v + n_lanes; v < end; v++, w += n_points * n_halves * LANES) {
#pragma GCC unroll 3
        for (int point = 0; point < n_points; point++) {
            __m512 weights[HALVES];
#pragma GCC unroll 2
            for (int half = 0; half < n_halves; half++)
                weights[half] = _mm512_load_ps(w + (point * n_halves + half) * LANES);
#pragma GCC unroll 4
            for (int tile = 0; tile < n; tile++) {
                const __m512 x = _mm512_set1_ps(v[(tile * IN + point) * LANES]);
#pragma GCC unroll 2
                for (int half = 0; half < n_halves; half++)
                    sums[point][tile][half] = _mm512_fmadd_ps(weights[half], x,
                                                              sums[point][tile][half]);
            }
        }
    }
    return w;
}

/* Stays on the stack meanwhile: to `half` it would go as well, not instead. */
INLINE void fold_sums(sums_of sums, int n, int n_halves, folded_of y)
{
#pragma GCC unroll 4
    for (int tile = 0; tile < n; tile++)
#pragma GCC unroll 2
        for (int half = 0; half < n_halves; half++)
            fold_first(sums[0][tile][half], sums[1][tile][half], sums[2][tile][half],
                       y[tile][half]);
}

/* half: [tile][column's point][row][output channel]. */
INLINE void store_sums(folded_of y, sums_of sums, int n, int n_halves, float *m)
{
#pragma GCC unroll 4
    for (int tile = 0; tile < n; tile++, m += OUT * IN * n_halves * LANES)
#pragma GCC unroll 2
        for (int half = 0; half < n_halves; half++) {
            fold_last(sums[0][tile][half], sums[1][tile][half], sums[2][tile][half], y[tile][half]);
#pragma GCC unroll 3
            for (int i = 0; i < OUT; i++)
                _mm512_store_ps(m + (i * n_halves + half) * LANES, y[tile][half][i]);
        }
}

/* One column of points. */
INLINE void multiply(const struct hrf_stem *stem, const float *v, const float *w, int64_t n_lanes,
                     int n, int n_halves, float *m)
{
    const int64_t run = 2 * stem->channels;
    sums_of sums;
    folded_of y;
    clear(sums, n, n_halves);
    if (n_lanes == run) /* the end of a loop takes as long as half of it */
        w = add_products(sums, v, w, 2 * run, GROUP, n, n_halves);
    else
        for (int phase = 0; phase < 2; phase++)
            w = add_products(sums, v + phase * run, w, n_lanes, GROUP, n, n_halves);
    fold_sums(sums, n, n_halves, y);
    v += GROUP * LANES;
    clear(sums, n, n_halves);
    for (int64_t phase = 0; phase < 2; phase++, v += run) {
        if (phase < stem->n_far[0])
            w = add_products(sums, v, w, n_lanes, GROUP, n, n_halves);
        else
            w = add_products(sums, v, w, n_lanes, GROUP - 1, n, n_halves);
    }
    store_sums(y, sums, n, n_halves, m);
}

INLINE void multiply_rest(const struct hrf_stem *stem, const float *v, const float *w,
                          int64_t n_lanes, int64_t n, int n_halves, float *m)
{
    if (n == 3)
        multiply(stem, v, w, n_lanes, 3, n_halves, m);
    else if (n == 2)
        multiply(stem, v, w, n_lanes, 2, n_halves, m);
    else if (n == 1)
        multiply(stem, v, w, n_lanes, 1, n_halves, m);
}

/* Column by column of points, whose weights stay in the first-level cache meanwhile. */
INLINE void multiply_as(const struct hrf_stem *stem, const float *whole, const float *packed,
                        int64_t n, int n_halves, float *half)
{
    const int64_t width = n_halves * LANES, run = 2 * stem->channels;
    for (int column = 0; column < IN; column++, whole += TILES * IN * LANES) {
        const int64_t n_lanes = column < IN - 1 ? run : stem->n_far[1] * stem->channels;
        const float *v = whole;
        float *m = half + column * OUT * width;
        int64_t left = n;
        for (; left >= SIDE; left -= SIDE, v += SIDE * IN * LANES, m += SIDE * OUT * IN * width)
            multiply(stem, v, packed, n_lanes, SIDE, n_halves, m);
        multiply_rest(stem, v, packed, n_lanes, left, n_halves, m);
        packed += n_lanes * (2 * IN - 2 + stem->n_far[0]) * width;
    }
}

void hrf_stem_multiply_avx512(const struct hrf_stem *stem, const float *whole, const float *packed,
                              int64_t n, int64_t n_outputs, float *half)
{
    if (n_outputs > LANES)
        multiply_as(stem, whole, packed, n, 2, half);
    else
        multiply_as(stem, whole, packed, n, 1, half);
}

/* A row of a tile: 16 channels of its outputs. */
INLINE void fold_row(const float *m, int64_t n_outputs, __m512 y[OUT])
{
    __m512 x[IN];
#pragma GCC unroll 6
    for (int i = 0; i < IN; i++)
        x[i] = _mm512_load_ps(m + i * OUT * n_outputs);
    fold_first(x[0], x[1], x[2], y);
    fold_last(x[3], x[4], x[5], y);
}

INLINE void write_as(const float *m, int64_t n_columns, int64_t n_outputs, int64_t pixel_bytes,
                     char *const rows[OUT], const struct hrf_epilogue *e)
{
    const int64_t size = e->type == HRF_F32 ? 4 : 2, tile_floats = OUT * IN * n_outputs;
    for (int64_t column = 0; column < n_columns; column += OUT, m += tile_floats)
        for (int64_t channel = 0; channel < n_outputs; channel += LANES) {
            const __m512 bias = hrf_bias(e->bias, channel, ALL);
            for (int row = 0; row < OUT; row++) {
                char *to = rows[row];
                if (to == NULL)
                    continue;
                __m512 y[OUT];
                fold_row(m + row * n_outputs + channel, n_outputs, y);
                to += column * pixel_bytes + channel * size;
                hrf_finish(y[0], ALL, to, bias, e);
                if (column + 1 < n_columns)
                    hrf_finish(y[1], ALL, to + pixel_bytes, bias, e);
                if (column + 2 < n_columns)
                    hrf_finish(y[2], ALL, to + 2 * pixel_bytes, bias, e);
            }
        }
}

void hrf_stem_output_avx512(const float *half, int64_t n_columns, int64_t n_outputs,
                            int64_t pixel_bytes, char *const rows[HRF_STEM_OUT],
                            const struct hrf_epilogue *epilogue)
{
    if (hrf_is_relu_alone(epilogue)) {
        const struct hrf_epilogue relu = hrf_relu_alone(epilogue->bias);
        write_as(half, n_columns, n_outputs, pixel_bytes, rows, &relu);
    } else {
        write_as(half, n_columns, n_outputs, pixel_bytes, rows, epilogue);
    }
}

/* ---- the same and a max pool ---- */

/* RELU, which makes 0 of a NaN, as max takes its second operand. */
INLINE __m512 relu(__m512 x)
{
    return _mm512_max_ps(x, _mm512_setzero_ps());
}

/* A tile's outputs before RELU; outside the image 0, which leaves the largest as it is. */
INLINE void make_tile(const float *m, int64_t n_outputs, __m512 bias, int64_t n_rows,
                      int64_t n_columns, __m512 y[OUT][OUT])
{
#pragma GCC unroll 3
    for (int row = 0; row < OUT; row++) {
        fold_row(m + row * n_outputs, n_outputs, y[row]);
#pragma GCC unroll 3
        for (int i = 0; i < OUT; i++) {
            y[row][i] = _mm512_add_ps(y[row][i], bias);
            if (row >= n_rows || i >= n_columns)
                y[row][i] = _mm512_setzero_ps();
        }
    }
}

/* A column of a tile: its share in each of the windows one below the other. From an even row on,
 * the first two outputs end one and the last two begin another; from an odd one on, the first ends
 * one, all three are one, and the last begins a third. */
INLINE void share_column(__m512 y[OUT][OUT], int column, bool is_odd, __m512 shares[OUT])
{
    const __m512 a = y[0][column], b = y[1][column], c = y[2][column];
    if (is_odd) {
        shares[0] = relu(a);
        shares[2] = relu(c);
        shares[1] = _mm512_max_ps(b, _mm512_max_ps(a, shares[2]));
    } else {
        shares[2] = relu(b);
        shares[0] = _mm512_max_ps(a, shares[2]);
        shares[1] = _mm512_max_ps(c, shares[2]);
    }
}

INLINE void put_pooled(const struct hrf_stem_pool *pool, int row, int64_t at, int64_t channel,
                       __m512 x)
{
    if (pool->rows[row] == NULL || at >= pool->n_pooled)
        return;
    float *const to = pool->rows[row] + at * pool->pitch + channel;
    if (row == 0 && pool->goes_on)
        x = _mm512_max_ps(x, _mm512_loadu_ps(to));
    _mm512_storeu_ps(to, x);
}

/* The shares of a tile's columns in a row of the pool, likewise: `open` is the window's that
 * begins left of the tile, then that of the one which goes on to its right. */
INLINE void pool_columns(const struct hrf_stem_pool *pool, int row, int64_t at, int64_t channel,
                         bool is_odd, __m512 a, __m512 b, __m512 c, __m512 *open)
{
    if (is_odd) {
        put_pooled(pool, row, at, channel, _mm512_max_ps(*open, a));
        put_pooled(pool, row, at + 1, channel, _mm512_max_ps(a, _mm512_max_ps(b, c)));
        *open = c;
    } else {
        put_pooled(pool, row, at, channel, _mm512_max_ps(*open, _mm512_max_ps(a, b)));
        *open = _mm512_max_ps(b, c);
    }
}

/* 16 channels of a run of tiles. */
INLINE void pool_run(const float *m, int64_t n, int64_t n_outputs, int64_t channel, bool is_odd,
                     const struct hrf_stem_pool *pool)
{
    const __m512 bias = hrf_bias(pool->bias, channel, ALL);
    const int n_shares = is_odd ? OUT : OUT - 1;
    int64_t at = pool->first_tile * OUT / 2, left = pool->n_columns;
    float *const kept = pool->open + channel;
    __m512 open[OUT];
#pragma GCC unroll 3
    for (int i = 0; i < n_shares; i++)
        open[i] = pool->first_tile > 0 ? _mm512_loadu_ps(kept + i * pool->pitch)
                                       : _mm512_setzero_ps();
    for (int64_t tile = pool->first_tile; tile < pool->first_tile + n; tile++) {
        __m512 y[OUT][OUT], shares[OUT][OUT];
        make_tile(m + channel, n_outputs, bias, pool->n_rows, left, y);
#pragma GCC unroll 3
        for (int column = 0; column < OUT; column++)
            share_column(y, column, is_odd, shares[column]);
#pragma GCC unroll 3
        for (int i = 0; i < n_shares; i++)
            pool_columns(pool, i, at, channel, tile % 2 != 0, shares[0][i], shares[1][i],
                         shares[2][i], &open[i]);
        at += tile % 2 != 0 ? 2 : 1;
        left -= OUT;
        m += OUT * IN * n_outputs;
    }
#pragma GCC unroll 3
    for (int i = 0; i < n_shares; i++) {
        _mm512_storeu_ps(kept + i * pool->pitch, open[i]);
        if (left <= 0)
            put_pooled(pool, i, at, channel, open[i]);
    }
}

void hrf_stem_pool_avx512(const float *half, int64_t n, int64_t n_outputs,
                          const struct hrf_stem_pool *pool)
{
    for (int64_t channel = 0; channel < n_outputs; channel += LANES)
        if (pool->is_odd)
            pool_run(half, n, n_outputs, channel, true, pool);
        else
            pool_run(half, n, n_outputs, channel, false, pool);
}
