/* group_tile_avx512.c - see group_tile_avx512.h. Compiled with -mavx512f, optimised always. */
#include "engine/backend/cpu/avx512/group_tile_avx512.h"

#include "engine/backend/cpu/avx512/epilogue_avx512.h"

#include <immintrin.h>

enum { LANES = HRF_GROUP_LANES, COLUMNS = HRF_GROUP_COLUMNS, MOST = HRF_GROUP_OUTPUTS };

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 32")

/* One input channel of one row of the windows: each pixel is broadcast once. */
INLINE void add_channel(__m512 *sums, int n, int stride, __mmask16 lanes, const float *x,
                        const float *w)
{
    const __m512 w0 = _mm512_load_ps(w), w1 = _mm512_load_ps(w + LANES);
    const __m512 w2 = _mm512_load_ps(w + 2 * LANES);
    const __m512 weights[COLUMNS] = { w0, w1, w2 };
    UNROLL for (int pixel = 0; pixel < (n - 1) * stride + COLUMNS; pixel++)
    {
        const __m512 v = _mm512_set1_ps(x[pixel * LANES]);
        UNROLL for (int c = 0; c < COLUMNS; c++)
        {
            const int at = pixel - c;
            if (at >= 0 && at % stride == 0 && at / stride < n)
                sums[at / stride] = _mm512_mask3_fmadd_ps(v, weights[c], sums[at / stride], lanes);
        }
    }
}

INLINE void add_windows(__m512 *sums, int n, int stride, const struct hrf_group_tile *t)
{
    const int64_t row_weights = LANES * COLUMNS * LANES;
    for (int64_t row = t->first_row; row < t->end_row; row++) {
        const float *x = t->x + (row - t->first_row) * t->line_words;
        const float *w = t->weights + row * row_weights;
        for (int c = 0; c < LANES / 2; c++)
            add_channel(sums, n, stride, t->lanes[0], x + c, w + c * COLUMNS * LANES);
        for (int c = LANES / 2; c < LANES; c++)
            add_channel(sums, n, stride, t->lanes[1], x + c, w + c * COLUMNS * LANES);
    }
}

INLINE void finish(__m512 *sums, int n, const struct hrf_group_tile *t,
                   const struct hrf_epilogue *e)
{
    const __m512 bias = _mm512_loadu_ps(t->bias);
    UNROLL for (int i = 0; i < n; i++) hrf_finish(sums[i], t->mask, t->y + i * t->y_bytes, bias, e);
}

/* An activation that is a function of its own: all outputs at once. */
INLINE void finish_function(__m512 *sums, int n, const struct hrf_group_tile *t,
                            const struct hrf_epilogue *e)
{
    _Alignas(64) float memory[MOST * LANES];
    const __m512 bias = _mm512_loadu_ps(t->bias);
    UNROLL for (int i = 0; i < n; i++)
    {
        sums[i] = _mm512_add_ps(sums[i], bias);
        if (e->accumulate)
            sums[i] = _mm512_add_ps(sums[i],
                                    hrf_load_avx512(e->type, t->y + i * t->y_bytes, t->mask));
        _mm512_store_ps(memory + i * LANES, sums[i]);
    }
    hrf_activate_sums_avx512(memory, n, e);
    for (int i = 0; i < n; i++)
        hrf_store_avx512(e->type, t->y + i * t->y_bytes, t->mask,
                         _mm512_load_ps(memory + i * LANES));
}

INLINE void run(int n, int stride, const struct hrf_group_tile *t, const struct hrf_epilogue *e)
{
    __m512 sums[MOST];
    UNROLL for (int i = 0; i < n; i++) sums[i] = _mm512_setzero_ps();
    add_windows(sums, n, stride, t);
    if (hrf_has_function(e)) {
        finish_function(sums, n, t, e);
    } else if (hrf_is_relu_alone(e)) {
        const struct hrf_epilogue relu = hrf_relu_alone(NULL);
        finish(sums, n, t, &relu);
    } else {
        finish(sums, n, t, e);
    }
}

#define DEFINE(n)                                                                                  \
    static void tile_##n##_1(const struct hrf_group_tile *t, const struct hrf_epilogue *e)         \
    {                                                                                              \
        run(n, 1, t, e);                                                                           \
    }                                                                                              \
    static void tile_##n##_2(const struct hrf_group_tile *t, const struct hrf_epilogue *e)         \
    {                                                                                              \
        run(n, 2, t, e);                                                                           \
    }
/* clang-format off */
DEFINE(1) DEFINE(2) DEFINE(3) DEFINE(4) DEFINE(5) DEFINE(6) DEFINE(7)
DEFINE(8) DEFINE(9) DEFINE(10) DEFINE(11) DEFINE(12) DEFINE(13) DEFINE(14)
#define TILES(stride) { NULL,                                                                      \
    tile_1_##stride, tile_2_##stride, tile_3_##stride, tile_4_##stride, tile_5_##stride,           \
    tile_6_##stride, tile_7_##stride, tile_8_##stride, tile_9_##stride, tile_10_##stride,          \
    tile_11_##stride, tile_12_##stride, tile_13_##stride, tile_14_##stride }
    /* clang-format on */
    typedef void tile_function(const struct hrf_group_tile *t, const struct hrf_epilogue *e);

void hrf_group_tile_avx512(int64_t n, int64_t stride, const struct hrf_group_tile *tile,
                           const struct hrf_epilogue *epilogue)
{
    static tile_function *const tiles[][MOST + 1] = { TILES(1), TILES(2) };
    tiles[stride - 1][n](tile, epilogue);
}

void hrf_group_fill_avx512(enum hrf_dtype type, const void *x, int64_t stride, int64_t n,
                           int64_t n_channels, float *to, int64_t plane_words)
{
    const int64_t n_whole = n_channels / LANES, size = type == HRF_F32 ? 4 : 2;
    for (int64_t i = 0; i < n; i++) {
        const char *from = (const char *)x + i * stride * size;
        float *pixel = to + i * LANES;
        for (int64_t plane = 0; plane < n_whole; plane++, pixel += plane_words)
            _mm512_store_ps(pixel, hrf_load_avx512(type, from + plane * LANES * size, 0xffff));
        if (n_channels % LANES != 0)
            _mm512_store_ps(pixel, hrf_load_avx512(type, from + n_whole * LANES * size,
                                                   hrf_first_lanes_avx512(n_channels % LANES)));
    }
}
