/* product_avx512.c - the inner loop: up to 14 rows by 32 columns held in 28 registers.
 *
 * Per step of depth: two loads of weights and 14 broadcasts feed 28 multiply-adds, which keep both
 * multiply-add units busy as long as nothing else takes their issue slots and every load hits the
 * first-level cache (measured: 98 % of their peak at a depth of 1024, 84 % at 64). Additions to
 * pointers take such slots, so there are few: five fixed pointers and three offsets that advance
 * reach all 14 rows, eight steps at a time. The steps are written in assembler, since a compiler
 * turns these addresses back into pointers that do not fit into its registers (measured: 6 to
 * 11 %). Each step asks for the weights of AHEAD steps later: the hardware does not, as a panel
 * comes round for every tile anew. Sums start from the bias; the residual is added at the end,
 * where its lines are written, too. Compiled with -mavx512f, optimised always.
 */
#include "engine/backend/cpu/epilogue_avx512.h"
#include "engine/backend/cpu/product.h"
#include "engine/backend/cpu/rows_avx512.h"

#include <immintrin.h>

enum {
    LINE = 64,  /* bytes of a line of the caches */
    UNROLL = 8, /* steps of depth */
    AHEAD = 16, /* steps between asking for weights and using them: the second level's latency */
    FAR = 4,    /* lines that UNROLL steps ask for from beyond the second level */
    STEP_BYTES = HRF_PANEL * sizeof(float), /* of weights */
};

#define START(i, pointer, offset) __m512 x##i = bias0, y##i = bias1;
#define MULTIPLY(i, pointer, offset)                                                               \
    __asm__ volatile("vbroadcastss %c7(%5,%6), %2\n\t"                                             \
                     "vfmadd231ps %3, %2, %0\n\t"                                                  \
                     "vfmadd231ps %4, %2, %1"                                                      \
                     : "+v"(x##i), "+v"(y##i), "=&v"(v)                                            \
                     : "v"(w0), "v"(w1), "r"(pointer), "r"(offset), "i"(at)                        \
                     : "memory");
/* One step of depth, `step` beyond where the pointers are. */
#define STEP(n, step)                                                                              \
    {                                                                                              \
        enum { at = (step) * sizeof(float) };                                                      \
        const __m512 w0 = _mm512_load_ps(w + (step)*STEP_BYTES);                                   \
        const __m512 w1 = _mm512_load_ps(w + (step)*STEP_BYTES + LINE);                            \
        __m512 v;                                                                                  \
        ROWS_##n(MULTIPLY)                                                                         \
    }
#define STEP_AHEAD(n, step)                                                                        \
    __asm__ volatile("prefetcht0 %c2(%0,%1)\n\tprefetcht0 %c3(%0,%1)" ::"r"(w), "r"(ahead),        \
                     "i"((step)*STEP_BYTES), "i"((step)*STEP_BYTES + LINE));                       \
    STEP(n, step)
#define ASK(place) __asm__ volatile("prefetcht0 " place ::"r"(far), "r"(far_step));
/* clang-format off */
#define ALL_STEPS(n)                                                                               \
    ASK("(%0)") STEP_AHEAD(n, 0) STEP_AHEAD(n, 1)                                                  \
    ASK("64(%0)") STEP_AHEAD(n, 2) STEP_AHEAD(n, 3)                                                \
    ASK("(%0,%1)") STEP_AHEAD(n, 4) STEP_AHEAD(n, 5)                                               \
    ASK("64(%0,%1)") STEP_AHEAD(n, 6) STEP_AHEAD(n, 7)
/* clang-format on */
#define ADVANCE(steps)                                                                             \
    w += (steps)*STEP_BYTES;                                                                       \
    ADVANCE_ROWS((steps) * (int)sizeof(float))

/* The epilogue, one thing at a time over all rows, so that each question is asked once a tile. */
#define ADD(i, pointer, offset)                                                                    \
    x##i = _mm512_add_ps(x##i, _mm512_loadu_ps(y + (i)*t->y_pitch));                               \
    y##i = _mm512_add_ps(y##i, _mm512_loadu_ps(y + (i)*t->y_pitch + 16));
#define ADD_SOME(i, pointer, offset)                                                               \
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

/* A tile's steps, UNROLL at a time, and what they ask for: first what the caller reads next, or the
 * next panel; then the next tile's rows of y, two each time; last, beside those, the weights with
 * which the next tile begins. */
struct tile {
    const char *a, *w;
    const float *bias;
    float *y;
    int64_t a_pitch, y_pitch;  /* floats */
    int64_t times;             /* UNROLL steps each */
    int64_t rows_left;         /* times left when the rows of y begin; 0: they are not asked for */
    int64_t restart_left;      /* the same of the weights of the next tile */
    const char *memory, *rows; /* the first two lines asked for */
    int64_t memory_step, rows_step; /* bytes from them to the next two */
    int64_t restart;                /* bytes from the weights that are used to the next tile's */
    int64_t rest;                   /* steps after those */
    __mmask16 mask[2];              /* which of the panel's columns exist */
};

/* Without a branch, which would be mispredicted once a tile. */
#define SWITCH(when, what, to)                                                                     \
    __asm__("cmpq %2, %1\n\tcmoveq %3, %0"                                                         \
            : "+r"(what)                                                                           \
            : "r"(times), "m"(t->when), "m"(t->to)                                                 \
            : "cc");

#define DEFINE_TILE(n)                                                                             \
    static void tile_##n(const struct tile *t, const struct hrf_epilogue *e)                       \
    {                                                                                              \
        ROW_PLACES(t->a, t->a_pitch *(int64_t)sizeof(float))                                       \
        const char *w = t->w;                                                                      \
        float *const y = t->y;                                                                     \
        const __m512 bias0 = hrf_bias(t->bias, 0, t->mask[0]);                                     \
        const __m512 bias1 = hrf_bias(t->bias, 16, t->mask[1]);                                    \
        ROWS_##n(START) const char *far = t->memory;                                               \
        int64_t far_step = t->memory_step, ahead = AHEAD * STEP_BYTES;                             \
        for (int64_t times = t->times; times > 0; times--) {                                       \
            SWITCH(rows_left, far, rows)                                                           \
            SWITCH(rows_left, far_step, rows_step)                                                 \
            SWITCH(restart_left, ahead, restart) ALL_STEPS(n) ADVANCE(UNROLL) far += 2 * far_step; \
        }                                                                                          \
        for (int64_t rest = t->rest; rest > 0; rest--) {                                           \
            STEP(n, 0) ADVANCE(1)                                                                  \
        }                                                                                          \
        if (e->accumulate && t->mask[1] == 0xffff) {                                               \
            ROWS_##n(ADD)                                                                          \
        } else if (e->accumulate) {                                                                \
            ROWS_##n(ADD_SOME)                                                                     \
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

/* Where y has 16 bits: the tile is done in floats beside it, which stay in the caches. */
static void run_narrow(const struct tile *t, int64_t n, char *y, int64_t row_bytes,
                       const struct hrf_epilogue *e)
{
    _Alignas(LINE) float sums[HRF_MAX_ROWS * HRF_PANEL];
    struct tile own = *t;
    own.y = sums;
    own.y_pitch = HRF_PANEL;
    for (int64_t i = 0; e->accumulate && i < n; i++)
        for (int half = 0; half < 2; half++)
            _mm512_store_ps(sums + i * HRF_PANEL + half * 16,
                            hrf_load_avx512(e->type, y + i * row_bytes + half * 32, t->mask[half]));
    tiles[n](&own, e);
    for (int64_t i = 0; i < n; i++)
        for (int half = 0; half < 2; half++)
            hrf_store_avx512(e->type, y + i * row_bytes + half * 32, t->mask[half],
                             _mm512_load_ps(sums + i * HRF_PANEL + half * 16));
}

/* Memory that is asked for line by line, by one stretch after the other. */
struct lines {
    const char *at;
    int64_t n_bytes; /* left */
};

/* How a tile's steps are divided. */
static void divide(struct tile *t, int64_t depth, bool y_is_far)
{
    const int64_t most = HRF_MAX_ROWS / 2, restart = AHEAD / UNROLL;
    t->times = depth / UNROLL;
    t->rest = depth % UNROLL;
    t->rows_left = !y_is_far ? 0 : t->times < most ? t->times : most;
    t->restart_left = t->times < restart ? t->times : restart;
}

/* For a tile whose next one's rows of y begin at next_y, in the same panel or (is_last) the next.
 */
static void plan_tile(struct tile *t, struct lines *lines, const char *next_y, int64_t panel_bytes,
                      bool is_last)
{
    const bool has_lines = lines->n_bytes > 0;
    const int64_t n_bytes = (t->times - t->rows_left) * FAR * LINE;
    t->memory = has_lines ? lines->at : t->w;
    t->memory_step = has_lines ? 2 * LINE : 0;
    lines->at += n_bytes;
    lines->n_bytes -= n_bytes;
    t->rows = next_y;
    t->restart = AHEAD * STEP_BYTES - (is_last ? 0 : panel_bytes);
}

void hrf_product_avx512(const float *a, int64_t a_pitch, const float *packed, int64_t depth,
                        void *y, int64_t y_pitch, int64_t rows, int64_t columns,
                        const struct hrf_epilogue *epilogue, const struct hrf_ahead *ahead)
{
    /* 32 bits: a division of 64 takes as long as ten steps. Even tiles: 64 rows are 13+13+13+13+12,
     * not 14+14+14+14+8. */
    const int32_t n_tiles = ((int32_t)rows + HRF_MAX_ROWS - 1) / HRF_MAX_ROWS;
    const int32_t least = n_tiles > 1 ? (int32_t)rows / n_tiles : (int32_t)rows;
    const int32_t n_larger = (int32_t)rows - least * n_tiles;
    const int64_t size = epilogue->type == HRF_F32 ? (int64_t)sizeof(float) : 2;
    const int64_t row_bytes = y_pitch * size, panel_bytes = depth * STEP_BYTES;
    struct tile t = { .a_pitch = a_pitch, .y_pitch = y_pitch };
    struct lines memory = { ahead->memory, ahead->n_bytes };
    divide(&t, depth, ahead->y_is_far);
    t.rows_step = row_bytes;
    for (int64_t column = 0; column < columns; column += HRF_PANEL) {
        t.w = (const char *)(packed + column * depth);
        t.bias = epilogue->bias != NULL ? epilogue->bias + column : NULL;
        t.mask[0] = first_columns(columns - column);
        t.mask[1] = first_columns(columns - column - 16);
        t.a = (const char *)a;
        char *const top = (char *)y + column * size;
        char *at = top;
        struct lines panel = { t.w + panel_bytes, ahead->weights_are_far ? panel_bytes : 0 };
        for (int64_t i = 0; i < n_tiles; i++) {
            const int64_t n = least + (i < n_larger);
            const bool is_last = i + 1 == n_tiles;
            char *const next = is_last ? top + HRF_PANEL * size : at + n * row_bytes;
            plan_tile(&t, panel.n_bytes > 0 ? &panel : &memory, next, panel_bytes, is_last);
            t.y = (float *)(void *)at;
            if (epilogue->type == HRF_F32)
                tiles[n](&t, epilogue);
            else
                run_narrow(&t, n, at, row_bytes, epilogue);
            t.a += n * a_pitch * (int64_t)sizeof(float);
            at = next;
        }
    }
}
