/* product_avx512.c - the inner loop: up to 14 rows by 32 columns held in 28 registers.
 *
 * Per step of depth: two loads of weights and 14 broadcasts feed 28 multiply-adds, which keeps
 * both multiply-add units busy as long as nothing else takes their issue slots and every load
 * hits the first-level cache (measured: 98 % of their peak with a panel of 128 KiB in the second
 * level). So the loop counts one thing only, its prefetches have constant steps, and each step
 * asks for the weights of AHEAD steps later: the hardware does not, as a panel comes round for
 * every tile anew. Rows are reached through five pointers with scaled offsets, since 14 pointers
 * do not fit into the general registers. Compiled with -mavx512f, optimised always.
 */
#include "engine/backend/cpu/epilogue_avx512.h"
#include "engine/backend/cpu/product.h"
#include "engine/backend/cpu/rows_avx512.h"

#include <immintrin.h>
#include <stdatomic.h>

enum {
    LINE = 64,  /* bytes of a line of the caches */
    UNROLL = 2, /* steps of depth */
    AHEAD = 12, /* steps between asking for weights and using them: the second level's latency */
};

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
/* The same, and what later steps (first level) and tiles (second level) will read. */
#define STEP_AHEAD(n, step)                                                                        \
    _mm_prefetch((const char *)(w + (AHEAD + (step)) * HRF_PANEL), _MM_HINT_T0);                   \
    _mm_prefetch((const char *)(w + (AHEAD + (step)) * HRF_PANEL + 16), _MM_HINT_T0);              \
    STEP(n, step)                                                                                  \
    atomic_signal_fence(memory_order_acq_rel); /* no instruction: keeps the prefetches apart */
#define ADVANCE(steps)                                                                             \
    w += (steps)*HRF_PANEL;                                                                        \
    p0 += (steps) * sizeof(float);                                                                 \
    p1 += (steps) * sizeof(float);                                                                 \
    p2 += (steps) * sizeof(float);                                                                 \
    p3 += (steps) * sizeof(float);                                                                 \
    p4 += (steps) * sizeof(float);

#define KEEP(i, pointer, offset)                                                                   \
    _mm512_store_ps(sums + (i)*HRF_PANEL, x##i);                                                   \
    _mm512_store_ps(sums + (i)*HRF_PANEL + 16, y##i);

/* The epilogue, one thing at a time over all rows, so that each question is asked once a tile. */
#define ADD_BIAS(i, pointer, offset)                                                               \
    x##i = _mm512_add_ps(x##i, bias0);                                                             \
    y##i = _mm512_add_ps(y##i, bias1);
#define ADD_RESIDUAL(i, pointer, offset)                                                           \
    x##i = _mm512_add_ps(x##i, _mm512_maskz_loadu_ps(t->mask[0], y + (i)*t->y_pitch));             \
    y##i = _mm512_add_ps(y##i, _mm512_maskz_loadu_ps(t->mask[1], y + (i)*t->y_pitch + 16));
#define RELU(i, pointer, offset)                                                                   \
    x##i = _mm512_max_ps(x##i, _mm512_setzero_ps());                                               \
    y##i = _mm512_max_ps(y##i, _mm512_setzero_ps());
#define ACTIVATE(i, pointer, offset)                                                               \
    x##i = hrf_activate_avx512(x##i, e);                                                           \
    y##i = hrf_activate_avx512(y##i, e);
#define STORE(i, pointer, offset)                                                                  \
    _mm512_storeu_ps(y + (i)*t->y_pitch, x##i);                                                    \
    _mm512_storeu_ps(y + (i)*t->y_pitch + 16, y##i);
#define STORE_SOME(i, pointer, offset)                                                             \
    _mm512_mask_storeu_ps(y + (i)*t->y_pitch, t->mask[0], x##i);                                   \
    _mm512_mask_storeu_ps(y + (i)*t->y_pitch + 16, t->mask[1], y##i);

struct tile {
    const float *a, *w, *bias;
    char *y;
    int64_t a_pitch, y_pitch, depth;
    char *next_y;      /* of the next tile */
    int64_t row_bytes; /* from one row of y to the next */
    const char *next;  /* depth / UNROLL lines that the caller will read next */
    int64_t segment;   /* times UNROLL steps between asking for two rows of next_y */
    __mmask16 mask[2]; /* which of the panel's columns exist */
};

/* The epilogue where y has 16 bits: rare enough to go through memory. */
static inline void finish_as(enum hrf_dtype type, const float *sums, int64_t n,
                             const struct tile *t, const struct hrf_epilogue *e)
{
    struct hrf_epilogue typed = *e;
    typed.type = type;
    char *y = t->y;
    for (int half = 0; half < 2; half++) {
        const __m512 bias = hrf_bias(t->bias, half * 16, t->mask[half]);
        for (int64_t i = 0; i < n; i++)
            hrf_finish(_mm512_load_ps(sums + i * HRF_PANEL + half * 16), t->mask[half],
                       y + i * t->row_bytes + half * 32, bias, &typed);
    }
}

static void finish_narrow(const float *sums, int64_t n, const struct tile *t,
                          const struct hrf_epilogue *e)
{
    if (e->type == HRF_B16)
        finish_as(HRF_B16, sums, n, t, e);
    else
        finish_as(HRF_F16, sums, n, t, e);
}

#define DEFINE_TILE(n)                                                                             \
    static void tile_##n(const struct tile *t, const struct hrf_epilogue *e)                       \
    {                                                                                              \
        const int64_t pitch = t->a_pitch * (int64_t)sizeof(float);                                 \
        const char *p0 = (const char *)t->a, *p1 = p0 + 3 * pitch, *p2 = p1 + 3 * pitch;           \
        const char *p3 = p2 + 3 * pitch, *p4 = p3 + 3 * pitch;                                     \
        const float *w = t->w;                                                                     \
        const char *next = t->next;                                                                \
        const char *next_y = t->next_y;                                                            \
        ROWS_##n(ZERO) for (int64_t left = t->depth / UNROLL; left > 0;)                           \
        {                                                                                          \
            int64_t many = left < t->segment ? left : t->segment;                                  \
            left -= many;                                                                          \
            _mm_prefetch(next_y, _MM_HINT_ET0);                                                    \
            _mm_prefetch(next_y + LINE, _MM_HINT_ET0);                                             \
            next_y += t->row_bytes;                                                                \
            for (; many > 0; many--) {                                                             \
                _mm_prefetch(next, _MM_HINT_T1);                                                   \
                STEP_AHEAD(n, 0) STEP_AHEAD(n, 1) ADVANCE(UNROLL) next += LINE;                    \
            }                                                                                      \
        }                                                                                          \
        if (t->depth % UNROLL != 0)                                                                \
            STEP(n, 0)                                                                             \
        if (e->type != HRF_F32) {                                                                  \
            _Alignas(LINE) float sums[HRF_MAX_ROWS * HRF_PANEL];                                   \
            ROWS_##n(KEEP) finish_narrow(sums, n, t, e);                                           \
            return;                                                                                \
        }                                                                                          \
        float *const y = (float *)(void *)t->y;                                                    \
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

/* What is asked for from beyond the second level, shared out over the tiles: a line every UNROLL
 * steps, as more at a time would fill the buffers that a tile's own lines come through. */
struct plan {
    struct hrf_ahead left;
    int64_t n_weight_tiles; /* the first ones of a panel ask for the next panel */
    int64_t every, wait;    /* which of the others asks for what is left, after how many */
};

static int64_t tile_bytes(int64_t depth)
{
    return depth / UNROLL * LINE;
}

static struct plan plan_ahead(const struct hrf_ahead *ahead, int64_t n_tiles, int64_t n_panels,
                              int64_t depth)
{
    const int64_t some = tile_bytes(depth) > 0 ? tile_bytes(depth) : LINE;
    struct plan plan = { .left = *ahead, .every = 1 };
    if (ahead->weights_are_far) {
        plan.n_weight_tiles = HRF_PANEL * (int64_t)sizeof(float) * UNROLL / LINE; /* a panel */
        if (plan.n_weight_tiles > n_tiles)
            plan.n_weight_tiles = n_tiles;
    }
    if (ahead->n_bytes > 0)
        plan.every = (int32_t)((n_tiles - plan.n_weight_tiles) * n_panels * (some / LINE)) /
                     (int32_t)(ahead->n_bytes / LINE + 1);
    return plan;
}

/* For tile i of the panel that `t` is at. */
static const char *next_lines(struct plan *plan, const struct tile *t, int64_t i)
{
    const char *memory = plan->left.memory;
    if (i < plan->n_weight_tiles)
        return (const char *)(t->w + t->depth * HRF_PANEL) + i * tile_bytes(t->depth);
    if (plan->left.n_bytes <= 0 || plan->wait-- > 0)
        return (const char *)t->w; /* lines that are there */
    plan->wait = plan->every - 1;
    plan->left.memory += tile_bytes(t->depth);
    plan->left.n_bytes -= tile_bytes(t->depth);
    return memory;
}

void hrf_product_avx512(const float *a, int64_t a_pitch, const float *packed, int64_t depth,
                        void *y, int64_t y_pitch, int64_t rows, int64_t columns,
                        const struct hrf_epilogue *epilogue, const struct hrf_ahead *ahead)
{
    /* 32 bits: a division of 64 takes as long as ten steps. Even tiles: 64 rows are 13+13+13+13+12,
     * not 14+14+14+14+8. */
    const int32_t n_tiles = ((int32_t)rows + HRF_MAX_ROWS - 1) / HRF_MAX_ROWS;
    const int32_t least = (int32_t)rows / n_tiles, n_larger = (int32_t)rows % n_tiles;
    const int64_t n_panels = (columns + HRF_PANEL - 1) / HRF_PANEL;
    struct plan plan = plan_ahead(ahead, n_tiles, n_panels, depth);
    const int64_t size = epilogue->type == HRF_F32 ? (int64_t)sizeof(float) : 2;
    struct tile t = { .a_pitch = a_pitch,
                      .y_pitch = y_pitch,
                      .row_bytes = y_pitch * size,
                      .depth = depth,
                      .segment = depth };
    if (ahead->y_is_far) /* so that all rows have been asked for before the end */
        t.segment = depth / UNROLL / HRF_MAX_ROWS > 0 ? depth / UNROLL / HRF_MAX_ROWS : 1;
    for (int64_t column = 0; column < columns; column += HRF_PANEL) {
        t.w = packed + column * depth;
        t.bias = epilogue->bias != NULL ? epilogue->bias + column : NULL;
        t.mask[0] = first_columns(columns - column);
        t.mask[1] = first_columns(columns - column - 16);
        t.a = a;
        char *top = (char *)y + column * size;
        t.y = top;
        for (int64_t i = 0; i < n_tiles; i++) {
            const int64_t n = least + (i < n_larger);
            t.next = next_lines(&plan, &t, i);
            t.next_y = i + 1 < n_tiles ? t.y + n * t.row_bytes : top + HRF_PANEL * size;
            tiles[n](&t, epilogue);
            t.a += n * a_pitch;
            t.y = t.next_y;
        }
    }
}
