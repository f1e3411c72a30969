/* group_tile_avx512.c - see group_tile_avx512.h. Compiled with -mavx512f, optimised always; what
 * bfloat16 needs more is written in assembler, so that no other of that instruction set gets into
 * this file. */
#include "engine/backend/cpu/avx512/group_tile_avx512.h"

#include "engine/backend/cpu/avx512/epilogue_avx512.h"

#include <immintrin.h>
#include <math.h>

enum { LANES = HRF_GROUP_LANES, COLUMNS = HRF_GROUP_COLUMNS, MOST = HRF_GROUP_OUTPUTS };

#define UNROLL _Pragma("GCC unroll 32")

/* What a tile is compiled for. */
struct form {
    enum hrf_word_type word_type;
    bool is_divided; /* lanes read different inputs */
    int n, stride;
};

HRF_ALWAYS_INLINE int pixel_words(struct form f)
{
    return f.word_type == HRF_WORD_B16_PAIR ? LANES / 2 : LANES;
}

/* ---- products ---- */

HRF_ALWAYS_INLINE __m512 multiply_add(struct form f, __m512 x, __m512 w, __m512 sum)
{
    if (f.word_type == HRF_WORD_F32)
        return _mm512_fmadd_ps(x, w, sum);
#ifdef HRF_EMULATE_AVX512
    return hrf_emulated_dpbf16(sum, x, w);
#else
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
#endif
}

/* One word of a pixel in each lane. `word`: where it stands; of divided lanes, it is `at` that says
 * where in the pixel. */
HRF_ALWAYS_INLINE __m512 spread(struct form f, const float *pixel, int64_t word, __m512i at)
{
    if (!f.is_divided)
        return _mm512_set1_ps(pixel[word]);
    if (f.word_type == HRF_WORD_F32)
        return _mm512_permutexvar_ps(at, _mm512_load_ps(pixel));
    return _mm512_permutexvar_ps(at, _mm512_castps256_ps512(_mm256_load_ps(pixel)));
}

/* One word of one row of the windows: each pixel is read once. */
HRF_ALWAYS_INLINE void add_word(__m512 *sums, struct form f, const float *x, int64_t word,
                                __m512i at, const float *w)
{
    const __m512 w0 = _mm512_load_ps(w), w1 = _mm512_load_ps(w + LANES);
    const __m512 w2 = _mm512_load_ps(w + 2 * LANES);
    const __m512 weights[COLUMNS] = { w0, w1, w2 };
    UNROLL for (int pixel = 0; pixel < (f.n - 1) * f.stride + COLUMNS; pixel++)
    {
        const __m512 v = spread(f, x + pixel * pixel_words(f), word, at);
        UNROLL for (int c = 0; c < COLUMNS; c++)
        {
            const int to = pixel - c;
            if (to >= 0 && to % f.stride == 0 && to / f.stride < f.n)
                sums[to / f.stride] = multiply_add(f, v, weights[c], sums[to / f.stride]);
        }
    }
}

/* Which of a pixel's words each lane multiplies first. */
HRF_ALWAYS_INLINE __m512i first_words(const struct hrf_group_tile *t, int64_t words_each)
{
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const int shift = __builtin_ctz((unsigned int)t->lanes_each);
    return _mm512_mullo_epi32(_mm512_srl_epi32(lanes, _mm_cvtsi32_si128(shift)),
                              _mm512_set1_epi32((int32_t)words_each));
}

/* The words that each lane has of one plane. */
HRF_ALWAYS_INLINE void add_plane(__m512 *sums, struct form f, const struct hrf_group_tile *t,
                                 const char *x, const float *w, int64_t n_words, __m512i first)
{
    for (int64_t row = t->first_row; row < t->end_row; row++) {
        const float *pixels = (const void *)(x + (row - t->first_row) * t->line_bytes);
        const float *row_weights = w + row * t->row_weights;
        __m512i at = first;
        for (int64_t word = 0; word < n_words; word++) {
            add_word(sums, f, pixels, word, at, row_weights + word * COLUMNS * LANES);
            at = _mm512_add_epi32(at, _mm512_set1_epi32(1));
        }
    }
}

/* Each plane's products begin from zero; the sum of those before waits in memory. */
HRF_ALWAYS_INLINE void add_planes(__m512 *sums, struct form f, const struct hrf_group_tile *t,
                                  float *memory)
{
    const int64_t words_each = f.is_divided ? pixel_words(f) * t->lanes_each / LANES
                                            : pixel_words(f);
    const __m512i first = first_words(t, words_each);
    const char *x = t->x;
    const float *w = t->weights;
    int64_t left = t->n_words;
    do {
        UNROLL for (int i = 0; i < f.n; i++) sums[i] = _mm512_setzero_ps();
        add_plane(sums, f, t, x, w, left < words_each ? left : words_each, first);
        if (left < t->n_words) {
            UNROLL for (int i = 0; i < f.n; i++)
                sums[i] = _mm512_add_ps(_mm512_load_ps(memory + i * LANES), sums[i]);
        }
        if (left > words_each) {
            UNROLL for (int i = 0; i < f.n; i++) _mm512_store_ps(memory + i * LANES, sums[i]);
        }
        x += t->plane_bytes;
        w += t->plane_weights;
        left -= words_each;
    } while (left > 0);
}

/* ---- ends ---- */

/* Residual and result of one output. */
HRF_ALWAYS_INLINE __m512 load_output(enum hrf_dtype type, const struct hrf_group_tile *t,
                                     const char *y, bool is_halved)
{
    if (!is_halved)
        return hrf_load_avx512(type, y, t->mask);
    const __m512 low = hrf_load_avx512(type, y, t->mask & 0xff);
    const __m512 high = hrf_load_avx512(type, y + t->half_bytes, t->mask >> 8);
    return _mm512_shuffle_f32x4(low, high, 0x44);
}

HRF_ALWAYS_INLINE void store_floats(const struct hrf_group_tile *t, char *y, bool is_halved,
                                    __m512 x)
{
    if (!is_halved) {
        _mm512_mask_storeu_ps(y, t->mask, x);
        return;
    }
    _mm256_mask_storeu_ps(y, (__mmask8)t->mask, _mm512_castps512_ps256(x));
    _mm256_mask_storeu_ps(y + t->half_bytes, (__mmask8)(t->mask >> 8),
                          _mm512_castps512_ps256(_mm512_shuffle_f32x4(x, x, 0xee)));
}

HRF_ALWAYS_INLINE void store_halves(const struct hrf_group_tile *t, char *y, bool is_halved,
                                    __m256i x)
{
    if (!is_halved) {
        _mm256_mask_storeu_epi16(y, t->mask, x);
        return;
    }
    _mm_mask_storeu_epi16(y, (__mmask8)t->mask, _mm256_castsi256_si128(x));
    _mm_mask_storeu_epi16(y + t->half_bytes, (__mmask8)(t->mask >> 8),
                          _mm256_extracti128_si256(x, 1));
}

/* The usual end: floats of floats and bfloat16 of pairs, clipped at most. A NaN stays one. */
HRF_ALWAYS_INLINE void finish(__m512 *sums, struct form f, const struct hrf_group_tile *t,
                              const struct hrf_epilogue *e, bool is_halved)
{
    const __m512 bias = _mm512_loadu_ps(t->bias);
    const bool is_clip = e->activation == HRF_ACT_CLIP;
    const __m512 low = _mm512_set1_ps(is_clip                         ? e->low
                                      : e->activation == HRF_ACT_RELU ? 0
                                                                      : -INFINITY);
    const __m512 high = _mm512_set1_ps(is_clip ? e->high : INFINITY);
    const enum hrf_dtype type = f.word_type == HRF_WORD_B16_PAIR ? HRF_B16 : HRF_F32;
    UNROLL for (int i = 0; i < f.n; i++)
    {
        char *y = t->y + i * t->y_bytes;
        __m512 x = _mm512_add_ps(sums[i], bias);
        if (e->accumulate)
            x = _mm512_add_ps(x, load_output(type, t, y, is_halved));
        x = _mm512_min_ps(high, _mm512_max_ps(low, x));
        if (f.word_type == HRF_WORD_B16_PAIR)
            store_halves(t, y, is_halved, hrf_narrow_b16_avx512(x));
        else
            store_floats(t, y, is_halved, x);
    }
}

/* What is rarer, of sums in memory. */
static __attribute__((noinline)) void finish_apart(float *sums, enum hrf_word_type word_type,
                                                   int64_t n, const struct hrf_group_tile *t,
                                                   const struct hrf_epilogue *e)
{
    for (int64_t i = 0; i < n; i++) {
        float *at = sums + i * LANES;
        __m512 x = _mm512_add_ps(_mm512_load_ps(at), _mm512_loadu_ps(t->bias));
        if (e->accumulate)
            x = _mm512_add_ps(x, load_output(e->type, t, t->y + i * t->y_bytes, t->is_halved));
        _mm512_store_ps(at, x);
    }
    if (hrf_has_function(e))
        hrf_activate_sums_avx512(sums, n, e);
    for (int64_t i = 0; i < n; i++) {
        char *y = t->y + i * t->y_bytes;
        const __m512 x = hrf_activate_avx512(_mm512_load_ps(sums + i * LANES), e);
        if (e->type == HRF_F32)
            store_floats(t, y, t->is_halved, x);
        else
            store_halves(t, y, t->is_halved,
                         e->type == HRF_F16               ? hrf_to_f16_avx512(x)
                         : word_type == HRF_WORD_B16_PAIR ? hrf_narrow_b16_avx512(x)
                                                          : hrf_to_b16_avx512(x));
    }
}

HRF_ALWAYS_INLINE void run(struct form f, const struct hrf_group_tile *t,
                           const struct hrf_epilogue *e)
{
    __m512 sums[MOST];
    _Alignas(64) float memory[MOST * LANES];
    UNROLL for (int i = 0; i < f.n; i++) _mm_prefetch(t->y + i * t->y_bytes, _MM_HINT_T0);
    add_planes(sums, f, t, memory);
    if (e->activation > HRF_ACT_CLIP ||
        e->type != (f.word_type == HRF_WORD_B16_PAIR ? HRF_B16 : HRF_F32)) {
        UNROLL for (int i = 0; i < f.n; i++) _mm512_store_ps(memory + i * LANES, sums[i]);
        finish_apart(memory, f.word_type, f.n, t, e);
    } else if (f.is_divided && t->is_halved) {
        finish(sums, f, t, e, true);
    } else {
        finish(sums, f, t, e, false);
    }
}

/* ---- tiles by words, division, stride and number of outputs ---- */

typedef void tile_function(const struct hrf_group_tile *t, const struct hrf_epilogue *e);

#define DEFINE_ONE(word_type, divided, n, stride)                                                  \
    static void word_type##_##divided##_##n##_##stride(const struct hrf_group_tile *t,             \
                                                       const struct hrf_epilogue *e)               \
    {                                                                                              \
        run((struct form){ HRF_WORD_##word_type, divided, n, stride }, t, e);                      \
    }
#define DEFINE(n, word_type, divided)                                                              \
    DEFINE_ONE(word_type, divided, n, 1) DEFINE_ONE(word_type, divided, n, 2)
/* clang-format off */
#define ALL(DO, ...)                                                                               \
    DO(1, __VA_ARGS__) DO(2, __VA_ARGS__) DO(3, __VA_ARGS__) DO(4, __VA_ARGS__) DO(5, __VA_ARGS__) \
    DO(6, __VA_ARGS__) DO(7, __VA_ARGS__) DO(8, __VA_ARGS__) DO(9, __VA_ARGS__) DO(10, __VA_ARGS__)\
    DO(11, __VA_ARGS__) DO(12, __VA_ARGS__) DO(13, __VA_ARGS__) DO(14, __VA_ARGS__)
ALL(DEFINE, F32, 0)
ALL(DEFINE, F32, 1)
ALL(DEFINE, B16_PAIR, 0)
ALL(DEFINE, B16_PAIR, 1)
#define NAME(n, word_type, divided, stride) word_type##_##divided##_##n##_##stride,
#define TILES(type, divided)                                                                       \
    { { NULL, ALL(NAME, type, divided, 1) }, { NULL, ALL(NAME, type, divided, 2) } }
/* clang-format on */

void hrf_group_tile_avx512(enum hrf_word_type word_type, int64_t n, int64_t stride,
                           const struct hrf_group_tile *tile, const struct hrf_epilogue *epilogue)
{
    static tile_function *const tiles[][2][2][MOST + 1] = {
        [HRF_WORD_F32] = { TILES(F32, 0), TILES(F32, 1) },
        [HRF_WORD_B16_PAIR] = { TILES(B16_PAIR, 0), TILES(B16_PAIR, 1) },
    };
    tiles[word_type][tile->lanes_each < LANES][stride - 1][n](tile, epilogue);
}

/* ---- filling ---- */

HRF_ALWAYS_INLINE void store_pixel(enum hrf_word_type word_type, int64_t lanes, char *to,
                                   __m256i halves, __m512 floats)
{
    if (word_type == HRF_WORD_B16_PAIR && lanes == LANES)
        _mm256_store_si256((__m256i *)(void *)to, halves);
    else if (word_type == HRF_WORD_B16_PAIR)
        _mm_store_si128((__m128i *)(void *)to, _mm256_castsi256_si128(halves));
    else if (lanes == LANES)
        _mm512_store_ps(to, floats);
    else
        _mm256_store_ps((float *)(void *)to, _mm512_castps512_ps256(floats));
}

HRF_ALWAYS_INLINE void zero_pixels(enum hrf_word_type word_type, int64_t lanes, char *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        store_pixel(word_type, lanes, to + i * hrf_group_pixel_bytes(word_type),
                    _mm256_setzero_si256(), _mm512_setzero_ps());
}

/* 16 numbers, those that the mask has. */
HRF_ALWAYS_INLINE void copy_pixel(enum hrf_word_type word_type, enum hrf_dtype type, int64_t lanes,
                                  __mmask16 mask, const char *from, char *to)
{
    if (word_type == HRF_WORD_B16_PAIR)
        store_pixel(word_type, lanes, to, _mm256_maskz_loadu_epi16(mask, from),
                    _mm512_setzero_ps());
    else
        store_pixel(word_type, lanes, to, _mm256_setzero_si256(),
                    hrf_load_avx512(type, from, mask));
}

HRF_ALWAYS_INLINE void fill(enum hrf_word_type word_type, enum hrf_dtype type, int64_t lanes,
                            const struct hrf_group_line *l, char *to, int64_t plane_bytes)
{
    const int64_t pixel_bytes = hrf_group_pixel_bytes(word_type);
    const int64_t size = type == HRF_F32 ? 4 : 2, n_whole = l->n_channels / lanes;
    const __mmask16 all = hrf_first_lanes_avx512(lanes);
    const __mmask16 some = hrf_first_lanes_avx512(l->n_channels % lanes);
    for (int64_t plane = 0; plane * lanes < l->n_channels; plane++) {
        char *line = to + plane * plane_bytes;
        zero_pixels(word_type, lanes, line, l->n_before);
        zero_pixels(word_type, lanes, line + (l->n_before + l->n) * pixel_bytes, l->n_after);
    }
    to += l->n_before * pixel_bytes;
    for (int64_t i = 0; i < l->n; i++) {
        const char *from = l->x + i * l->stride * size;
        char *pixel = to + i * pixel_bytes;
        for (int64_t plane = 0; plane < n_whole; plane++, pixel += plane_bytes)
            copy_pixel(word_type, type, lanes, all, from + plane * lanes * size, pixel);
        if (some != 0)
            copy_pixel(word_type, type, lanes, some, from + n_whole * lanes * size, pixel);
    }
}

void hrf_group_fill_avx512(enum hrf_word_type word_type, enum hrf_dtype type, int64_t lanes,
                           const struct hrf_group_line *line, char *to, int64_t plane_bytes)
{
    if (word_type == HRF_WORD_B16_PAIR && lanes == LANES)
        fill(HRF_WORD_B16_PAIR, HRF_B16, LANES, line, to, plane_bytes);
    else if (word_type == HRF_WORD_B16_PAIR)
        fill(HRF_WORD_B16_PAIR, HRF_B16, LANES / 2, line, to, plane_bytes);
    else if (type == HRF_F32 && lanes == LANES)
        fill(HRF_WORD_F32, HRF_F32, LANES, line, to, plane_bytes);
    else
        fill(HRF_WORD_F32, type, lanes, line, to, plane_bytes);
}
