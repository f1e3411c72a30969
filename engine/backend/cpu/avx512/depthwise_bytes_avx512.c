/* depthwise_bytes_avx512.c - see conv/depthwise_bytes.h. */
#include "engine/backend/cpu/conv/depthwise_bytes.h"

#include "base/inline.h"

#include <immintrin.h>
#include <string.h>

enum {
    ROWS = HRF_INTERLEAVED_ROWS,
    QUARTERS = HRF_INTERLEAVED_QUARTERS,
    BYTES = HRF_REGISTER_BYTES
};

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static __mmask64 first_bytes(int64_t n)
{
    return n >= BYTES ? ~0ull : (1ull << n) - 1;
}

/* ---- lines ---- */

/* Columns from first on whose phase is `phase`, counted among those of the phase. */
static int64_t count_before(const struct hrf_interleaved_lines *l, int64_t column, int64_t phase)
{
    return column <= phase ? 0 : (column - phase + l->stride - 1) / l->stride;
}

HRF_ALWAYS_INLINE void store_interleaved(const __m512i x[ROWS], uint8_t *to, int64_t quarter_step)
{
    const __m512i low01 = _mm512_unpacklo_epi8(x[0], x[1]);
    const __m512i high01 = _mm512_unpackhi_epi8(x[0], x[1]);
    const __m512i low23 = _mm512_unpacklo_epi8(x[2], x[3]);
    const __m512i high23 = _mm512_unpackhi_epi8(x[2], x[3]);
    _mm512_storeu_si512(to, _mm512_unpacklo_epi16(low01, low23));
    _mm512_storeu_si512(to + quarter_step, _mm512_unpackhi_epi16(low01, low23));
    _mm512_storeu_si512(to + 2 * quarter_step, _mm512_unpacklo_epi16(high01, high23));
    _mm512_storeu_si512(to + 3 * quarter_step, _mm512_unpackhi_epi16(high01, high23));
}

/* n of a register's pixels, `step` bytes apart; the others become zeros. */
HRF_ALWAYS_INLINE __m512i load_pixels(const uint8_t *x, int64_t step, const int n_pixels, int64_t n,
                                      __mmask64 channels)
{
    if (n_pixels == 1)
        return _mm512_maskz_loadu_epi8(channels, x);
    if (n_pixels == 2) {
        const __m256i a = _mm256_maskz_loadu_epi8((__mmask32)channels, x);
        const __m256i b = _mm256_maskz_loadu_epi8(n > 1 ? (__mmask32)channels : 0, x + step);
        return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
    }
    __m128i part[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        part[i] = _mm_maskz_loadu_epi8(i < n ? (__mmask16)channels : 0, x + i * step);
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(part[0]), part[1], 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(part[2]), part[3], 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* Inlined for each number of pixels, and for bytes that are taken as they are. */
HRF_ALWAYS_INLINE void fill_phase(const struct hrf_interleaved_lines *l, int64_t phase,
                                  const int n_pixels, const bool flips)
{
    const int64_t begin = count_before(l, l->begin, phase), end = count_before(l, l->end, phase);
    const int64_t unit = BYTES / n_pixels;
    const __mmask64 channels = first_bytes(l->n_channels);
    const __m512i flip = _mm512_set1_epi8((char)l->flip);
    const uint8_t *from[ROWS];
    int64_t step[ROWS];
    for (int r = 0; r < ROWS; r++) {
        step[r] = l->steps[r] * l->stride;
        from[r] = l->rows[r] + l->steps[r] * (begin * l->stride + phase - l->begin);
    }
    uint8_t *to = l->to + phase * l->phase_step + begin * unit;
    for (int64_t i = begin; i < end; i += n_pixels, to += BYTES) {
        __m512i x[ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; r++) {
            x[r] = load_pixels(from[r], step[r], n_pixels, end - i, channels);
            if (flips)
                x[r] = _mm512_xor_si512(x[r], flip);
            from[r] += n_pixels * step[r];
        }
        store_interleaved(x, to, l->quarter_step);
    }
}

/* Of columns [first, last) of a phase, whole registers: what they overwrite behind is filled
 * later. */
static void fill_border(const struct hrf_interleaved_lines *l, int64_t phase, int64_t first,
                        int64_t last)
{
    const int64_t unit = BYTES / l->n_pixels;
    const __m512i border = _mm512_set1_epi8((char)l->border);
    for (int q = 0; q < QUARTERS; q++) {
        uint8_t *to = l->to + q * l->quarter_step + phase * l->phase_step;
        for (int64_t at = first * unit; at < last * unit; at += BYTES)
            _mm512_storeu_si512(to + at, border);
    }
}

void hrf_interleaved_lines_fill(const struct hrf_interleaved_lines *l)
{
    for (int64_t phase = 0; phase < l->stride; phase++) {
        fill_border(l, phase, 0, count_before(l, l->begin, phase));
        if (l->n_pixels == 1 && l->flip == 0)
            fill_phase(l, phase, 1, false);
        else if (l->n_pixels == 1)
            fill_phase(l, phase, 1, true);
        else if (l->n_pixels == 2)
            fill_phase(l, phase, 2, true);
        else
            fill_phase(l, phase, 4, true);
        fill_border(l, phase, count_before(l, l->end, phase), count_before(l, l->n, phase));
    }
}

/* ---- outputs ---- */

enum { MAX_REGISTERS = 12 }; /* of sums */

/* n registers of a row of outputs, the first of them its register i. Of the last one pixels beyond
 * the row's end are not there. */
static void store_bytes(const struct hrf_interleaved_outputs *o, const uint8_t (*y)[BYTES],
                        int64_t row, int64_t i, int64_t n)
{
    const int64_t n_pixels = o->n_pixels, step = o->pixel_step;
    char *to = (char *)o->y + row * o->row_step + i * n_pixels * step;
    const __mmask64 channels = first_bytes(o->n_channels);
    if (n_pixels == 1) {
        for (int64_t k = 0; k < n; k++, to += step)
            _mm512_mask_storeu_epi8(to, channels, _mm512_load_si512(y[k]));
        return;
    }
    const int64_t count = min_of(n * n_pixels, o->n - i * n_pixels), unit = BYTES / n_pixels;
    const uint8_t *from = y[0];
    if (step == unit && o->n_channels == unit) {
        memcpy(to, from, (size_t)(count * unit));
        return;
    }
    for (int64_t p = 0; p < count; p++, to += step, from += unit)
        _mm256_mask_storeu_epi8(to, (__mmask32)channels,
                                _mm256_loadu_si256((const __m256i *)(const void *)from));
}

/* Register i of a row; lane l of the quarters' four has 16 channels in their order. */
static void store_floats(const struct hrf_interleaved_outputs *o,
                         const float steps[QUARTERS][HRF_REGISTER_SUMS], int64_t row, int64_t i)
{
    __m512 q[QUARTERS];
#pragma GCC unroll 4
    for (int k = 0; k < QUARTERS; k++)
        q[k] = _mm512_load_ps(steps[k]);
    const __m512 low01 = _mm512_shuffle_f32x4(q[0], q[1], 0x44);
    const __m512 low23 = _mm512_shuffle_f32x4(q[2], q[3], 0x44);
    const __m512 high01 = _mm512_shuffle_f32x4(q[0], q[1], 0xee);
    const __m512 high23 = _mm512_shuffle_f32x4(q[2], q[3], 0xee);
    const __m512 lanes[4] = {
        _mm512_shuffle_f32x4(low01, low23, 0x88),
        _mm512_shuffle_f32x4(low01, low23, 0xdd),
        _mm512_shuffle_f32x4(high01, high23, 0x88),
        _mm512_shuffle_f32x4(high01, high23, 0xdd),
    };
    char *to = (char *)o->y + row * o->row_step + i * o->n_pixels * o->pixel_step;
    const int64_t n = min_of(o->n_pixels, o->n - i * o->n_pixels), of_pixel = 4 / o->n_pixels;
    for (int64_t l = 0; l < n * of_pixel; l++) {
        const int64_t c = l % of_pixel * 16;
        if (c < o->n_channels)
            _mm512_mask_storeu_ps(to + l / of_pixel * o->pixel_step + c * 4,
                                  (__mmask16)first_bytes(min_of(o->n_channels - c, 16)), lanes[l]);
    }
}

/* As instructions, because the compiler copies sums around the intrinsic, and spills what it
 * loads. */
HRF_ALWAYS_INLINE __m512i load(const void *x)
{
#ifdef HRF_EMULATE_AVX512
    return _mm512_loadu_si512(x);
#else
    __m512i y;
    __asm__("vmovdqu64 %1, %0" : "=v"(y) : "m"(*(const __m512i_u *)x));
    return y;
#endif
}

HRF_ALWAYS_INLINE void add_products(__m512i *sum, __m512i pixels, __m512i weights)
{
#ifdef HRF_EMULATE_AVX512
    *sum = _mm512_dpbusd_epi32(*sum, pixels, weights);
#else
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(pixels), "v"(weights));
#endif
}

/* Of n neighbouring registers in each of `rows` rows. */
HRF_ALWAYS_INLINE void add_tap(const int rows, const int n, const uint8_t *x, const int8_t *w,
                               int64_t of_row, __m512i *sum)
{
    __m512i weights[4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
        weights[r] = load(w + r * of_row);
#pragma GCC unroll 12
    for (int k = 0; k < n; k++) {
        const __m512i pixels = load(x + k * BYTES);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            add_products(&sum[r * n + k], pixels, weights[r]);
    }
}

/* Sums of quarter q of `rows` rows of n registers, the first of them register i of its row. With
 * is_3x3 all taps are of one group, and three. */
HRF_ALWAYS_INLINE void sum_quarter(const struct hrf_interleaved_outputs *o, const bool is_3x3,
                                   const int rows, const int n, int64_t i, int q, __m512i *sum)
{
    const __m512i start = _mm512_loadu_si512(o->start + q * HRF_REGISTER_SUMS);
#pragma GCC unroll 12
    for (int k = 0; k < rows * n; k++)
        sum[k] = start;
    const uint8_t *line = o->lines + q * o->quarter_step + i * BYTES;
    const int8_t *w = o->weights + q * BYTES;
    const int64_t of_tap = QUARTERS * BYTES, of_row = o->n_groups * o->n_taps * of_tap;
    if (is_3x3) {
#pragma GCC unroll 3
        for (int t = 0; t < 3; t++)
            add_tap(rows, n, line + o->taps[t], w + t * of_tap, 3 * of_tap, sum);
        return;
    }
    for (int64_t g = 0; g < o->n_groups; g++, line += o->group_step)
        for (int64_t t = 0; t < o->n_taps; t++, w += of_tap)
            add_tap(rows, n, line + o->taps[t], w, of_row, sum);
}

HRF_ALWAYS_INLINE __m512 scale(const struct hrf_interleaved_outputs *o, int q, __m512i sum)
{
    const __m512 bias = _mm512_loadu_ps(o->bias + q * HRF_REGISTER_SUMS);
    const __m512 multiplier = _mm512_loadu_ps(o->multiplier + q * HRF_REGISTER_SUMS);
    return _mm512_mul_ps(_mm512_add_ps(_mm512_cvtepi32_ps(sum), bias), multiplier);
}

HRF_ALWAYS_INLINE void tile_of_bytes(const struct hrf_interleaved_outputs *o, const bool is_3x3,
                                     const int rows, const int n, int64_t i)
{
    __m512i sum[MAX_REGISTERS], first[MAX_REGISTERS], words[2][MAX_REGISTERS];
    const __m512i zero = _mm512_set1_epi16(o->zero);
#pragma GCC unroll 4
    for (int q = 0; q < QUARTERS; q++) {
        sum_quarter(o, is_3x3, rows, n, i, q, sum);
#pragma GCC unroll 12
        for (int k = 0; k < rows * n; k++) {
            const __m512i steps = _mm512_cvtps_epi32(scale(o, q, sum[k]));
            if (q % 2 == 0)
                first[k] = steps;
            else
                words[q / 2][k] = _mm512_adds_epi16(_mm512_packs_epi32(first[k], steps), zero);
        }
    }
    const __m512i min = _mm512_set1_epi8((char)o->min), max = _mm512_set1_epi8((char)o->max);
    const __m512i flip = _mm512_set1_epi8((char)o->flip);
    _Alignas(64) uint8_t y[MAX_REGISTERS + 1][BYTES]; /* the last: read behind one of 16 bytes */
#pragma GCC unroll 12
    for (int k = 0; k < rows * n; k++) {
        const __m512i all = _mm512_packus_epi16(words[0][k], words[1][k]);
        const __m512i clipped = _mm512_min_epu8(_mm512_max_epu8(all, min), max);
        _mm512_store_si512(y[k], _mm512_xor_si512(clipped, flip));
    }
    for (int r = 0; r < rows; r++)
        store_bytes(o, (const uint8_t(*)[BYTES])y[r * n], r, i, n);
}

HRF_ALWAYS_INLINE void tile_of_floats(const struct hrf_interleaved_outputs *o, const int rows,
                                      const int n, int64_t i)
{
    __m512i sum[MAX_REGISTERS];
    _Alignas(64) float y[MAX_REGISTERS][QUARTERS][HRF_REGISTER_SUMS];
    const __m512 low = _mm512_set1_ps(o->low), high = _mm512_set1_ps(o->high);
#pragma GCC unroll 4
    for (int q = 0; q < QUARTERS; q++) {
        sum_quarter(o, false, rows, n, i, q, sum);
#pragma GCC unroll 12
        for (int k = 0; k < rows * n; k++)
            _mm512_store_ps(y[k][q], _mm512_min_ps(_mm512_max_ps(scale(o, q, sum[k]), low), high));
    }
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < n; k++)
            store_floats(o, (const float(*)[HRF_REGISTER_SUMS])y[r * n + k], r, i + k);
}

typedef void tile_function(const struct hrf_interleaved_outputs *o, int64_t i);

/* A function each, so that one's registers do not depend on another's. */
#define TILE_OF_3X3(rows, n)                                                                       \
    static __attribute__((noinline)) void bytes_3x3_##rows##_##n(                                  \
        const struct hrf_interleaved_outputs *o, int64_t i)                                        \
    {                                                                                              \
        tile_of_bytes(o, true, rows, n, i);                                                        \
    }
#define TILE(rows, n)                                                                              \
    static __attribute__((noinline)) void bytes_##rows##_##n(                                      \
        const struct hrf_interleaved_outputs *o, int64_t i)                                        \
    {                                                                                              \
        tile_of_bytes(o, false, rows, n, i);                                                       \
    }                                                                                              \
    static __attribute__((noinline)) void floats_##rows##_##n(                                     \
        const struct hrf_interleaved_outputs *o, int64_t i)                                        \
    {                                                                                              \
        tile_of_floats(o, rows, n, i);                                                             \
    }
#define EACH_OF_1(what)                                                                            \
    what(1, 1) what(1, 2) what(1, 3) what(1, 4) what(1, 5) what(1, 6) what(1, 7) what(1, 8)
#define EACH_OF_2(what) what(2, 1) what(2, 2) what(2, 3) what(2, 4) what(2, 5) what(2, 6)
#define EACH_OF_4(what) what(4, 1) what(4, 2) what(4, 3)
EACH_OF_1(TILE)
EACH_OF_2(TILE)
EACH_OF_4(TILE)
EACH_OF_1(TILE_OF_3X3)
EACH_OF_2(TILE_OF_3X3)

enum tile_kind { OF_BYTES, OF_FLOATS, OF_BYTES_3X3 };
#define BYTES_NAME(rows, n)  bytes_##rows##_##n,
#define FLOATS_NAME(rows, n) floats_##rows##_##n,
#define NAME_3X3(rows, n)    bytes_3x3_##rows##_##n,
enum { MAX_REGISTERS_OF_1 = 8, MAX_REGISTERS_OF_2 = 6, MAX_REGISTERS_OF_4 = 3 };
static tile_function *const tiles_of_1[3][MAX_REGISTERS_OF_1] = { { EACH_OF_1(BYTES_NAME) },
                                                                  { EACH_OF_1(FLOATS_NAME) },
                                                                  { EACH_OF_1(NAME_3X3) } };
static tile_function *const tiles_of_2[3][MAX_REGISTERS_OF_2] = { { EACH_OF_2(BYTES_NAME) },
                                                                  { EACH_OF_2(FLOATS_NAME) },
                                                                  { EACH_OF_2(NAME_3X3) } };
static tile_function *const tiles_of_4[3][MAX_REGISTERS_OF_4] = { { EACH_OF_4(BYTES_NAME) },
                                                                  { EACH_OF_4(FLOATS_NAME) },
                                                                  { EACH_OF_4(BYTES_NAME) } };

void hrf_interleaved_outputs_compute(const struct hrf_interleaved_outputs *o)
{
    const bool is_3x3 = o->n_groups == 1 && o->n_taps == 3;
    const enum tile_kind kind = o->to_floats ? OF_FLOATS : is_3x3 ? OF_BYTES_3X3 : OF_BYTES;
    tile_function *const *tiles = o->n_rows == 4   ? tiles_of_4[kind]
                                  : o->n_rows == 2 ? tiles_of_2[kind]
                                                   : tiles_of_1[kind];
    const int64_t most = o->n_rows == 4   ? MAX_REGISTERS_OF_4
                         : o->n_rows == 2 ? MAX_REGISTERS_OF_2
                                          : MAX_REGISTERS_OF_1;
    const int64_t n = (o->n + o->n_pixels - 1) / o->n_pixels, n_tiles = (n + most - 1) / most;
    for (int64_t t = 0; t < n_tiles; t++) {
        const int64_t first = n * t / n_tiles;
        tiles[n * (t + 1) / n_tiles - first - 1](o, first);
    }
}
