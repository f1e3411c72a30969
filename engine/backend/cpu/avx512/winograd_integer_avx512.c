/* winograd_integer_avx512.c - the transforms, 32 shorts or 16 sums at a time, and the products.
 * Formulas: Lavin and Gray, "Fast
 * algorithms for convolutional neural networks", CVPR 2016, rows scaled to whole numbers. Compiled
 * with -mavx512vnni, optimised always. */
#include "engine/backend/cpu/avx512/vector_avx512.h"
#include "engine/backend/cpu/conv/winograd_integer.h"

#include <immintrin.h>

enum {
    IN = HRF_INTEGER_IN,
    OUT = HRF_INTEGER_OUT,
    POINTS = HRF_INTEGER_POINTS,
    PANEL = HRF_INTEGER_PANEL,
    LANES = 32, /* shorts */
};

#define UNROLLED _Pragma("GCC unroll 32")

/* ---- weights ---- */

/* G g, rows times 24, 6, 6, 24, 24, 6 of the usual ones. */
static inline void transform_weights(const __m512i g[3], __m512i u[], int step)
{
    const __m512i ends = _mm512_add_epi16(g[0], g[2]),
                  minus = _mm512_sub_epi16(_mm512_setzero_si512(), ends);
    const __m512i wide = _mm512_add_epi16(g[0], _mm512_slli_epi16(g[2], 2));
    const __m512i twice = _mm512_slli_epi16(g[1], 1), six = _mm512_set1_epi16(6);
    u[0] = _mm512_mullo_epi16(g[0], six);
    u[1 * step] = _mm512_sub_epi16(minus, g[1]);
    u[2 * step] = _mm512_add_epi16(minus, g[1]);
    u[3 * step] = _mm512_add_epi16(wide, twice);
    u[4 * step] = _mm512_sub_epi16(wide, twice);
    u[5 * step] = _mm512_mullo_epi16(g[2], six);
}

void hrf_integer_winograd_weights(const int8_t *w, int64_t channels, int16_t *u)
{
    const int64_t stride = hrf_integer_weights_stride(channels);
    for (int64_t at = 0; at < channels * PANEL; at += LANES) {
        __m512i half[3 * IN], line[3], done[IN];
        for (int column = 0; column < 3; column++) {
            for (int row = 0; row < 3; row++)
                line[row] = _mm512_cvtepi8_epi16(
                    _mm256_load_si256((const void *)(w + (row * 3 + column) * stride + at)));
            transform_weights(line, half + column, 3);
        }
        for (int row = 0; row < IN; row++) {
            transform_weights(half + row * 3, done, 1);
            for (int column = 0; column < IN; column++)
                _mm512_store_si512(u + (row * IN + column) * stride + at, done[column]);
        }
    }
}

/* ---- inputs ---- */

/* B^T x, the usual one. */
static inline void transform_input(const __m512i x[IN], __m512i y[], int step)
{
    const __m512i a = _mm512_sub_epi16(x[4], _mm512_slli_epi16(x[2], 2));
    const __m512i b = _mm512_sub_epi16(x[3], _mm512_slli_epi16(x[1], 2));
    const __m512i c = _mm512_sub_epi16(x[4], x[2]);
    const __m512i d = _mm512_slli_epi16(_mm512_sub_epi16(x[3], x[1]), 1);
    y[0] = _mm512_add_epi16(_mm512_slli_epi16(_mm512_sub_epi16(x[0], x[2]), 2), c);
    y[1 * step] = _mm512_add_epi16(a, b);
    y[2 * step] = _mm512_sub_epi16(a, b);
    y[3 * step] = _mm512_add_epi16(c, d);
    y[4 * step] = _mm512_sub_epi16(c, d);
    y[5 * step] = _mm512_sub_epi16(_mm512_sub_epi16(x[5], x[3]), _mm512_slli_epi16(d, 1));
}

static inline __m512i read_pixel(const uint8_t *pixel, __mmask32 mask, bool is_signed,
                                 __m512i zero_point)
{
    if (pixel == NULL)
        return _mm512_setzero_si512();
    const __m256i bytes = _mm256_maskz_loadu_epi8(mask, pixel);
    return _mm512_sub_epi16(is_signed ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes),
                            zero_point);
}

void hrf_integer_winograd_input(const uint8_t *const pixels[POINTS], int64_t channels,
                                bool is_signed, int32_t zero_point, int16_t *v, int64_t stride)
{
    const __m512i zero = _mm512_set1_epi16((short)zero_point);
    for (int64_t c = 0; c < channels; c += LANES) {
        const __mmask32 mask = channels - c >= LANES ? 0xffffffffu : (1u << (channels - c)) - 1u;
        __m512i half[POINTS], line[IN], done[IN];
        for (int column = 0; column < IN; column++) {
            for (int row = 0; row < IN; row++) {
                const uint8_t *pixel = pixels[row * IN + column];
                line[row] = read_pixel(pixel != NULL ? pixel + c : NULL, mask, is_signed, zero);
            }
            transform_input(line, half + column, IN);
        }
        for (int row = 0; row < IN; row++) {
            transform_input(half + row * IN, done, 1);
            for (int column = 0; column < IN; column++)
                _mm512_mask_storeu_epi16(v + (row * IN + column) * stride + c, mask, done[column]);
        }
    }
}

/* ---- products ---- */

/* Where the rows of a tile lie: 14 pointers do not fit into the general registers, so every third
 * row has one, and offsets lead to the two after it. */
struct rows {
    const char *pointer[(HRF_INTEGER_TILES + 2) / 3];
    int64_t offset[3];
};

/* Both sums of one row: two channels of it, `at` bytes (a constant) beyond its place. */
HRF_ALWAYS_INLINE void add_row(__m512i *sums, const char *pointer, int64_t offset, const int at,
                               __m512i w0, __m512i w1)
{
#ifdef HRF_EMULATE_AVX512
    const __m512i two = hrf_emulated_broadcast(pointer + offset + at);
    sums[0] = _mm512_dpwssd_epi32(sums[0], two, w0);
    sums[1] = _mm512_dpwssd_epi32(sums[1], two, w1);
#else
    __m512i two;
    __asm__ volatile("vpbroadcastd %c7(%5,%6), %2\n\t"
                     "vpdpwssd %3, %2, %0\n\t"
                     "vpdpwssd %4, %2, %1"
                     : "+v"(sums[0]), "+v"(sums[1]), "=&v"(two)
                     : "v"(w0), "v"(w1), "r"(pointer), "r"(offset), "i"(at)
                     : "memory");
#endif
}

/* Two channels of n rows, `step` steps (a constant) beyond where the pointers are. */
HRF_ALWAYS_INLINE void add_step(const int n, const struct rows *rows, const int16_t *u,
                                const int step, __m512i *sums)
{
    const __m512i w0 = _mm512_load_si512(u + step * 2 * PANEL);
    const __m512i w1 = _mm512_load_si512(u + step * 2 * PANEL + PANEL);
    UNROLLED for (int i = 0; i < n; i++)
        add_row(sums + 2 * i, rows->pointer[i / 3], rows->offset[i % 3], step * 4, w0, w1);
}

HRF_ALWAYS_INLINE void prefetch_256(const char *memory)
{
    UNROLLED for (int i = 0; i < 256; i += 64) _mm_prefetch(memory + i, _MM_HINT_T0);
}

/* What is read next is asked for all the while: the weights 1.5 KiB ahead, and at `next` the rows
 * of the next product. */
HRF_ALWAYS_INLINE void run(const int n, const char *v, int64_t stride, const int16_t *u,
                           int64_t channels, const char *next, int32_t *to)
{
    struct rows rows = { .offset = { 0, stride, 2 * stride } };
    __m512i sums[2 * HRF_INTEGER_TILES];
    UNROLLED for (int i = 0; i < n; i += 3) rows.pointer[i / 3] = v + i * stride;
    UNROLLED for (int i = 0; i < 2 * n; i++) sums[i] = _mm512_setzero_si512();
    for (int64_t k = 0; k < channels; k += 8) {
        prefetch_256(next);
        prefetch_256((const char *)u + 1536);
        prefetch_256((const char *)u + 1792);
        next += 16 * n;
        add_step(n, &rows, u, 0, sums);
        add_step(n, &rows, u, 1, sums);
        add_step(n, &rows, u, 2, sums);
        add_step(n, &rows, u, 3, sums);
        u += 8 * PANEL;
        UNROLLED for (int i = 0; i < 3; i++) rows.offset[i] += 16;
    }
    UNROLLED for (int i = 0; i < 2 * n; i++) _mm512_store_si512(to + i * 16, sums[i]);
}

#define DEFINE_TILE(n)                                                                             \
    static void tile_##n(const char *v, int64_t stride, const int16_t *u, int64_t channels,        \
                         const char *next, int32_t *sums)                                          \
    {                                                                                              \
        run(n, v, stride, u, channels, next, sums);                                                \
    }
/* clang-format off */
DEFINE_TILE(1) DEFINE_TILE(2) DEFINE_TILE(3) DEFINE_TILE(4) DEFINE_TILE(5) DEFINE_TILE(6)
DEFINE_TILE(7) DEFINE_TILE(8) DEFINE_TILE(9) DEFINE_TILE(10) DEFINE_TILE(11) DEFINE_TILE(12)
DEFINE_TILE(13) DEFINE_TILE(14)
    /* clang-format on */

    typedef void tile_function(const char *v, int64_t stride, const int16_t *u, int64_t channels,
                               const char *next, int32_t *sums);
static tile_function *const tiles[HRF_INTEGER_TILES + 1] = {
    NULL,   tile_1, tile_2,  tile_3,  tile_4,  tile_5,  tile_6,  tile_7,
    tile_8, tile_9, tile_10, tile_11, tile_12, tile_13, tile_14,
};

void hrf_integer_winograd_multiply(const int16_t *v, int64_t point_stride, int64_t tile_stride,
                                   int64_t n, const int16_t *u, int64_t channels, int32_t *sums)
{
    for (int64_t p = 0; p < POINTS; p++) {
        const int16_t *row = v + p * point_stride;
        tiles[n]((const char *)row, tile_stride * 2, u + p * hrf_integer_weights_stride(channels),
                 channels, (const char *)(row + point_stride),
                 sums + p * HRF_INTEGER_TILES * PANEL);
    }
}

/* ---- outputs ---- */

/* A^T m for the scaled weights; rows times 24, 12, 6, 6 of the true sums. */
static inline void transform_output(const __m512i m[IN], __m512i y[], int step)
{
    const __m512i t1 = _mm512_add_epi32(m[1], m[2]), t2 = _mm512_sub_epi32(m[1], m[2]);
    const __m512i t3 = _mm512_add_epi32(m[3], m[4]), t4 = _mm512_sub_epi32(m[3], m[4]);
    y[0] = _mm512_add_epi32(_mm512_add_epi32(m[0], t3), _mm512_slli_epi32(t1, 2));
    y[1 * step] = _mm512_add_epi32(_mm512_add_epi32(t2, t2), t4);
    y[2 * step] = _mm512_add_epi32(t1, t3);
    y[3 * step] = _mm512_add_epi32(_mm512_add_epi32(t2, m[5]), _mm512_add_epi32(t4, t4));
}

/* 16 sums to 16 bytes, in the order of struct hrf_requantize. */
static inline void finish(__m512i sums, __mmask16 mask, uint8_t *y, __m512 bias, __m512 multiplier,
                          const struct hrf_integer_epilogue *e)
{
    __m512 t = _mm512_mul_ps(_mm512_add_ps(_mm512_cvtepi32_ps(sums), bias), multiplier);
    if (e->accumulate) {
        const __m128i bytes = _mm_maskz_loadu_epi8(mask, y);
        const __m512i q = e->residual_is_signed ? _mm512_cvtepi8_epi32(bytes)
                                                : _mm512_cvtepu8_epi32(bytes);
        t = _mm512_fmadd_ps(_mm512_cvtepi32_ps(q), _mm512_set1_ps(e->residual_scale), t);
    }
    if (e->is_leaky)
        t = _mm512_mask_mul_ps(t, _mm512_cmp_ps_mask(t, _mm512_setzero_ps(), _CMP_LT_OQ), t,
                               _mm512_set1_ps(e->slope));
    t = _mm512_min_ps(_mm512_max_ps(t, _mm512_set1_ps(e->low)), _mm512_set1_ps(e->high));
    const __m512i q = _mm512_add_epi32(_mm512_cvtps_epi32(t), _mm512_set1_epi32(e->zero_point));
    _mm_mask_storeu_epi8(y, mask, _mm512_cvtepi32_epi8(q));
}

/* The tile's 16 true sums of 16 columns. */
static inline void true_sums(const int32_t *sums, __m512i out[HRF_INTEGER_OUTPUTS])
{
    /* Powers of two in (24, 12, 6, 6) x (24, 12, 6, 6); the other factor is always 9. */
    static const unsigned shifts[OUT] = { 3, 2, 1, 1 };
    const __m512i inverse_of_9 = _mm512_set1_epi32(0x38e38e39);
    __m512i half[OUT * IN], line[IN];
    for (int i = 0; i < IN; i++) {
        for (int row = 0; row < IN; row++)
            line[row] = _mm512_load_si512(sums + (row * IN + i) * HRF_INTEGER_TILES * PANEL);
        transform_output(line, half + i, IN);
    }
    for (int row = 0; row < OUT; row++) {
        transform_output(half + row * IN, out + row * OUT, 1);
        for (int i = 0; i < OUT; i++)
            out[row * OUT + i] = _mm512_srai_epi32(
                _mm512_mullo_epi32(out[row * OUT + i], inverse_of_9), shifts[row] + shifts[i]);
    }
}

static void output_any(const int32_t *sums, __mmask16 mask, int64_t column, int64_t first,
                       uint8_t *const outputs[HRF_INTEGER_OUTPUTS],
                       const struct hrf_integer_epilogue *e)
{
    const __m512 bias = _mm512_loadu_ps(e->bias + first + column);
    const __m512 multiplier = _mm512_loadu_ps(e->multiplier + first + column);
    __m512i out[HRF_INTEGER_OUTPUTS];
    true_sums(sums + column, out);
    for (int i = 0; i < HRF_INTEGER_OUTPUTS; i++)
        if (outputs[i] != NULL)
            finish(out[i], mask, outputs[i] + column, bias, multiplier, e);
}

static inline __m512i steps(__m512i sums, __m512 bias, __m512 multiplier)
{
    return _mm512_cvtps_epi32(
        _mm512_mul_ps(_mm512_add_ps(_mm512_cvtepi32_ps(sums), bias), multiplier));
}

/* The usual epilogue, for a whole panel: two outputs at a time are narrowed together. */
static void output_plain(const int32_t *sums, int64_t first,
                         uint8_t *const outputs[HRF_INTEGER_OUTPUTS],
                         const struct hrf_integer_epilogue *e)
{
    const __m512 bias0 = _mm512_loadu_ps(e->bias + first);
    const __m512 bias1 = _mm512_loadu_ps(e->bias + first + 16);
    const __m512 multiplier0 = _mm512_loadu_ps(e->multiplier + first);
    const __m512 multiplier1 = _mm512_loadu_ps(e->multiplier + first + 16);
    /* The packing instructions leave four numbers of each of their operands by turns. */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i low[HRF_INTEGER_OUTPUTS], high[HRF_INTEGER_OUTPUTS];
    true_sums(sums, low);
    true_sums(sums + 16, high);
    for (int i = 0; i < HRF_INTEGER_OUTPUTS; i += 2) {
        const __m512i a = _mm512_packs_epi32(steps(low[i], bias0, multiplier0),
                                             steps(high[i], bias1, multiplier1));
        const __m512i b = _mm512_packs_epi32(steps(low[i + 1], bias0, multiplier0),
                                             steps(high[i + 1], bias1, multiplier1));
        const __m512i bytes = e->is_signed ? _mm512_packs_epi16(a, b) : _mm512_packus_epi16(a, b);
        const __m512i both = _mm512_permutexvar_epi32(order, bytes);
        if (outputs[i] != NULL)
            _mm256_storeu_si256((void *)outputs[i], _mm512_castsi512_si256(both));
        if (outputs[i + 1] != NULL)
            _mm256_storeu_si256((void *)outputs[i + 1], _mm512_extracti64x4_epi64(both, 1));
    }
}

void hrf_integer_winograd_output(const int32_t *sums, int64_t n_columns, int64_t first,
                                 uint8_t *const outputs[HRF_INTEGER_OUTPUTS],
                                 const struct hrf_integer_epilogue *epilogue)
{
    if (epilogue->is_plain && n_columns == PANEL) {
        output_plain(sums, first, outputs, epilogue);
        return;
    }
    for (int64_t column = 0; column < n_columns; column += 16)
        output_any(sums, hrf_first_lanes_avx512(n_columns - column), column, first, outputs,
                   epilogue);
}
