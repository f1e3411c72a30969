/* product_avx512.c - the inner loop: up to 14 rows by 32 columns held in 28 registers.
 *
 * Per step of depth: two loads of weights and 14 broadcasts feed 28 multiply-adds, so the two
 * multiply-add units stay busy (measured: 95 to 100 % of their peak while the operands lie in
 * the second-level cache). Rows are reached through five pointers with scaled offsets, since 14
 * pointers do not fit into the general registers. Compiled with -mavx512f, optimised always.
 */
#include "engine/backend/cpu/epilogue_avx512.h"
#include "engine/backend/cpu/product.h"
#include "engine/backend/cpu/rows_avx512.h"

#include <immintrin.h>

enum { UNROLL = 4 };

#define ZERO(i, pointer, offset) __m512 x##i = _mm512_setzero_ps(), y##i = _mm512_setzero_ps();
#define MULTIPLY(i, pointer, offset)                                                               \
    {                                                                                              \
        const __m512 v = _mm512_set1_ps(                                                           \
            *(const float *)(const void *)((pointer) + (offset) + at));                            \
        x##i = _mm512_fmadd_ps(v, w0, x##i);                                                       \
        y##i = _mm512_fmadd_ps(v, w1, y##i);                                                       \
    }
/* One step of depth, `step` beyond where the pointers are. */
#define STEP(n, step)                                                                              \
    {                                                                                              \
        enum { at = (step) * sizeof(float) };                                                      \
        const __m512 w0 = _mm512_load_ps(w + (step)*HRF_PANEL);                                    \
        const __m512 w1 = _mm512_load_ps(w + (step)*HRF_PANEL + 16);                               \
        ROWS_##n(MULTIPLY)                                                                         \
    }
#define ADVANCE(steps)                                                                             \
    w += (steps)*HRF_PANEL;                                                                        \
    p0 += (steps) * sizeof(float);                                                                 \
    p1 += (steps) * sizeof(float);                                                                 \
    p2 += (steps) * sizeof(float);                                                                 \
    p3 += (steps) * sizeof(float);                                                                 \
    p4 += (steps) * sizeof(float);

/* The epilogue, one thing at a time over all rows, so that each question is asked once a tile. */
#define ADD_BIAS(i, pointer, offset)                                                               \
    x##i = _mm512_add_ps(x##i, bias0);                                                             \
    y##i = _mm512_add_ps(y##i, bias1);
#define ADD_RESIDUAL(i, pointer, offset)                                                           \
    x##i = _mm512_add_ps(x##i, _mm512_maskz_loadu_ps(t->mask[0], t->y + (i)*t->y_pitch));          \
    y##i = _mm512_add_ps(y##i, _mm512_maskz_loadu_ps(t->mask[1], t->y + (i)*t->y_pitch + 16));
#define RELU(i, pointer, offset)                                                                   \
    x##i = _mm512_max_ps(x##i, _mm512_setzero_ps());                                               \
    y##i = _mm512_max_ps(y##i, _mm512_setzero_ps());
#define ACTIVATE(i, pointer, offset)                                                               \
    x##i = hrf_activate_avx512(x##i, e);                                                           \
    y##i = hrf_activate_avx512(y##i, e);
#define STORE(i, pointer, offset)                                                                  \
    _mm512_storeu_ps(t->y + (i)*t->y_pitch, x##i);                                                 \
    _mm512_storeu_ps(t->y + (i)*t->y_pitch + 16, y##i);
#define STORE_SOME(i, pointer, offset)                                                             \
    _mm512_mask_storeu_ps(t->y + (i)*t->y_pitch, t->mask[0], x##i);                                \
    _mm512_mask_storeu_ps(t->y + (i)*t->y_pitch + 16, t->mask[1], y##i);

struct tile {
    const float *a, *w, *bias;
    float *y;
    int64_t a_pitch, y_pitch, depth;
    /* What the next tiles will read is asked for while this one computes, a little in every
     * UNROLL steps, since a burst would hold up the loads of this tile. Steps in bytes. */
    const char *next_w, *next_a, *next_y;
    int64_t w_step, a_step, y_step;
    int64_t n_next_y;  /* rows of the next tile's residual to ask for */
    __mmask16 mask[2]; /* which of the panel's columns exist */
};

#define DEFINE_TILE(n)                                                                             \
    static void tile_##n(const struct tile *t, const struct hrf_epilogue *e)                       \
    {                                                                                              \
        const int64_t pitch = t->a_pitch * (int64_t)sizeof(float);                                 \
        const char *p0 = (const char *)t->a, *p1 = p0 + 3 * pitch, *p2 = p1 + 3 * pitch;           \
        const char *p3 = p2 + 3 * pitch, *p4 = p3 + 3 * pitch;                                     \
        const float *w = t->w;                                                                     \
        const char *next_w = t->next_w, *next_a = t->next_a, *next_y = t->next_y;                  \
        int64_t n_next_y = t->n_next_y;                                                            \
        ROWS_##n(ZERO) int64_t k = 0;                                                              \
        for (; k + UNROLL <= t->depth; k += UNROLL) {                                              \
            _mm_prefetch(next_w, _MM_HINT_T1);                                                     \
            _mm_prefetch(next_w + t->w_step, _MM_HINT_T1);                                         \
            _mm_prefetch(next_a, _MM_HINT_T1);                                                     \
            next_w += 2 * t->w_step;                                                               \
            next_a += t->a_step;                                                                   \
            if (n_next_y-- > 0) {                                                                  \
                _mm_prefetch(next_y, _MM_HINT_T0);                                                 \
                _mm_prefetch(next_y + 64, _MM_HINT_T0);                                            \
                next_y += t->y_step;                                                               \
            }                                                                                      \
            STEP(n, 0) STEP(n, 1) STEP(n, 2) STEP(n, 3) ADVANCE(UNROLL)                            \
        }                                                                                          \
        for (; k < t->depth; k++) {                                                                \
            STEP(n, 0)                                                                             \
            ADVANCE(1)                                                                             \
        }                                                                                          \
        if (t->bias != NULL) {                                                                     \
            const __m512 bias0 = _mm512_maskz_loadu_ps(t->mask[0], t->bias);                       \
            const __m512 bias1 = _mm512_maskz_loadu_ps(t->mask[1], t->bias + 16);                  \
            ROWS_##n(ADD_BIAS)                                                                     \
        }                                                                                          \
        if (e->accumulate) {                                                                       \
            ROWS_##n(ADD_RESIDUAL)                                                                 \
        }                                                                                          \
        if (e->activation == HRF_ACT_RELU) {                                                       \
            ROWS_##n(RELU)                                                                         \
        } else if (e->activation != HRF_ACT_NONE) {                                                \
            ROWS_##n(ACTIVATE)                                                                     \
        }                                                                                          \
        if (t->mask[1] == 0xffff) {                                                                \
            ROWS_##n(STORE)                                                                        \
        } else {                                                                                   \
            ROWS_##n(STORE_SOME)                                                                   \
        }                                                                                          \
    }

/* clang-format off */
DEFINE_TILE(1) DEFINE_TILE(2) DEFINE_TILE(3) DEFINE_TILE(4) DEFINE_TILE(5) DEFINE_TILE(6)
DEFINE_TILE(7) DEFINE_TILE(8) DEFINE_TILE(9) DEFINE_TILE(10) DEFINE_TILE(11) DEFINE_TILE(12)
DEFINE_TILE(13) DEFINE_TILE(14)
    /* clang-format on */

    typedef void tile_function(const struct tile *t, const struct hrf_epilogue *e);
static tile_function *const tiles[HRF_MAX_ROWS + 1] = {
    NULL,   tile_1, tile_2,  tile_3,  tile_4,  tile_5,  tile_6,  tile_7,
    tile_8, tile_9, tile_10, tile_11, tile_12, tile_13, tile_14,
};

static __mmask16 first_columns(int64_t n)
{
    if (n <= 0)
        return (__mmask16)0;
    return (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1u);
}

/* Rows of tile i of `columns`-wide panels; even tiles: 64 rows are 13+13+13+13+12, not 14+14+14+
 * 14+8. */
struct cut {
    int64_t rows, n_tiles;
};

static int64_t first_row(const struct cut *cut, int64_t tile)
{
    return cut->rows * tile / cut->n_tiles;
}

void hrf_product_avx512(const float *a, int64_t a_pitch, const float *packed, int64_t depth,
                        float *y, int64_t y_pitch, int64_t rows, int64_t columns,
                        const struct hrf_epilogue *epilogue, const struct hrf_ahead *ahead)
{
    const struct cut cut = { .rows = rows, .n_tiles = (rows + HRF_MAX_ROWS - 1) / HRF_MAX_ROWS };
    const int64_t panel_bytes = depth * HRF_PANEL * (int64_t)sizeof(float);
    const int64_t n_bursts = depth / UNROLL > 0 ? depth / UNROLL : 1;
    const int64_t n_all = n_bursts * cut.n_tiles * ((columns + HRF_PANEL - 1) / HRF_PANEL);
    struct tile t = { .a_pitch = a_pitch,
                      .y_pitch = y_pitch,
                      .depth = depth,
                      .next_a = ahead->memory,
                      .a_step = ahead->n_bytes / n_all,
                      .w_step = panel_bytes / n_bursts / cut.n_tiles / 2,
                      .y_step = y_pitch * (int64_t)sizeof(float) };
    for (int64_t column = 0; column < columns; column += HRF_PANEL) {
        t.w = packed + column * depth;
        t.bias = epilogue->bias != NULL ? epilogue->bias + column : NULL;
        t.mask[0] = first_columns(columns - column);
        t.mask[1] = first_columns(columns - column - 16);
        for (int64_t i = 0; i < cut.n_tiles; i++) {
            const int64_t first = first_row(&cut, i), end = first_row(&cut, i + 1);
            const bool is_last = i + 1 == cut.n_tiles;
            const float *next_y = is_last ? y + column + HRF_PANEL : y + end * y_pitch + column;
            t.a = a + first * a_pitch;
            t.y = y + first * y_pitch + column;
            t.next_w = (const char *)(t.w + depth * HRF_PANEL) + panel_bytes * i / cut.n_tiles;
            t.next_y = (const char *)next_y;
            t.n_next_y = epilogue->accumulate ? end - first : 0;
            tiles[end - first](&t, epilogue);
            t.next_a += t.a_step * n_bursts;
        }
    }
}
