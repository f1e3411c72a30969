/* product_avx512.c - the product by tiles: up to 14 rows by 32 columns held in 28 registers.
 *
 * The first chain of sums starts from the bias, the others from zero; the residual is added at the
 * end, where its lines are written, too.
 * What bfloat16 needs more is written in assembler, so that no other of that instruction set gets
 * into this file. Compiled with -mavx512f, optimised always.
 */
#include "engine/backend/cpu/epilogue_avx512.h"
#include "engine/backend/cpu/product.h"
#include "engine/backend/cpu/product_steps_avx512.h"

#include <immintrin.h>

enum {
    AHEAD = 16, /* steps between asking for weights and using them: the second level's latency */
    SMALL_WEIGHTS = 256 * 1024, /* bytes: a quarter of the second level */
};

#define START(i, pointer, offset) __m512 x##i = bias0, y##i = bias1;
/* Chains of sums that are finished are kept in `sums`, in the first-level cache (product.h). */
#define CLEAR(i, pointer, offset)                                                                  \
    sums[i][0] = _mm512_setzero_ps();                                                              \
    sums[i][1] = _mm512_setzero_ps();
#define JOIN(i, pointer, offset)                                                                   \
    x##i = _mm512_add_ps(x##i, sums[i][0]);                                                        \
    y##i = _mm512_add_ps(y##i, sums[i][1]);
#define KEEP(i, pointer, offset)                                                                   \
    sums[i][0] = _mm512_add_ps(x##i, sums[i][0]);                                                  \
    sums[i][1] = _mm512_add_ps(y##i, sums[i][1]);                                                  \
    x##i = _mm512_setzero_ps();                                                                    \
    y##i = _mm512_setzero_ps();
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

/* The same where y is of bfloat16, both registers of a row at once. */
#define ADD_B16(i, pointer, offset)                                                                \
    x##i = _mm512_add_ps(x##i, hrf_load_avx512(HRF_B16, b + (i)*t->y_pitch, t->mask[0]));          \
    y##i = _mm512_add_ps(y##i, hrf_load_avx512(HRF_B16, b + (i)*t->y_pitch + 16, t->mask[1]));
#define NARROW(i)                                                                                  \
    __m512i b##i;                                                                                  \
    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(b##i) : "v"(x##i), "v"(y##i));
#define STORE_B16(i, pointer, offset)                                                              \
    NARROW(i)                                                                                      \
    _mm512_storeu_si512(b + (i)*t->y_pitch, b##i);
#define STORE_SOME_B16(i, pointer, offset)                                                         \
    NARROW(i)                                                                                      \
    _mm512_mask_storeu_epi16(b + (i)*t->y_pitch, _mm512_kunpackw(t->mask[1], t->mask[0]), b##i);

/* A tile's steps, some at a time, and what they ask for: first what the caller reads next, or the
 * next panel; then the next tile's rows of y, as many each time as the kind of words has time for;
 * last, beside those, the weights with which the next tile begins. */
struct tile {
    const char *a, *w;
    const float *bias;
    void *y;
    int64_t a_pitch, y_pitch;  /* words; numbers */
    int64_t times;             /* of the unrolled steps */
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

#define DEFINE_TILE(KIND, n)                                                                       \
    static void KIND##_##n(const struct tile *t, const struct hrf_epilogue *e)                     \
    {                                                                                              \
        ROW_PLACES(t->a, t->a_pitch *WORD)                                                         \
        const char *w = t->w;                                                                      \
        float *const y = t->y;                                                                     \
        uint16_t *const b = t->y;                                                                  \
        const bool is_b16 = HRF_##KIND == HRF_PAIRS && e->type == HRF_B16;                         \
        const __m512 bias0 = hrf_bias(t->bias, 0, t->mask[0]);                                     \
        const __m512 bias1 = hrf_bias(t->bias, 16, t->mask[1]);                                    \
        ROWS_##n(START) const char *far = t->memory;                                               \
        int64_t far_step = t->memory_step, ahead = AHEAD * STEP_BYTES;                             \
        enum { CHAIN = HRF_PRODUCT_CHAIN / UNROLL_##KIND };                                        \
        int64_t times = t->times;                                                                  \
        __m512 sums[n][2];                                                                         \
        if (times > CHAIN) {                                                                       \
            ROWS_##n(CLEAR)                                                                        \
        }                                                                                          \
        for (int64_t end = times; end > 0;) {                                                      \
            end = times > CHAIN ? times - CHAIN : 0;                                               \
            for (; times > end; times--) {                                                         \
                SWITCH(rows_left, far, rows)                                                       \
                SWITCH(rows_left, far_step, rows_step)                                             \
                SWITCH(restart_left, ahead, restart)                                               \
                ALL_STEPS_##KIND(n) ADVANCE(UNROLL_##KIND)                                         \
            }                                                                                      \
            if (end > 0) {                                                                         \
                ROWS_##n(KEEP)                                                                     \
            }                                                                                      \
        }                                                                                          \
        for (int64_t rest = t->rest; rest > 0; rest--) {                                           \
            REST_##KIND(n) ADVANCE(1)                                                              \
        }                                                                                          \
        if (t->times > CHAIN) {                                                                    \
            ROWS_##n(JOIN)                                                                         \
        }                                                                                          \
        if (e->accumulate && is_b16) {                                                             \
            ROWS_##n(ADD_B16)                                                                      \
        } else if (e->accumulate && t->mask[1] == 0xffff) {                                        \
            ROWS_##n(ADD)                                                                          \
        } else if (e->accumulate) {                                                                \
            ROWS_##n(ADD_SOME)                                                                     \
        }                                                                                          \
        if (e->activation == HRF_ACT_RELU) {                                                       \
            ROWS_##n(RELU)                                                                         \
        } else if (e->activation != HRF_ACT_NONE) {                                                \
            ROWS_##n(ACTIVATE)                                                                     \
        }                                                                                          \
        if (is_b16 && t->mask[1] == 0xffff) {                                                      \
            ROWS_##n(STORE_B16)                                                                    \
        } else if (is_b16) {                                                                       \
            ROWS_##n(STORE_SOME_B16)                                                               \
        } else if (t->mask[1] == 0xffff) {                                                         \
            ROWS_##n(STORE)                                                                        \
        } else {                                                                                   \
            ROWS_##n(STORE_SOME)                                                                   \
        }                                                                                          \
    }

typedef void tile_function(const struct tile *t, const struct hrf_epilogue *e);
/* clang-format off */
#define DEFINE_TILES(KIND)                                                                         \
    DEFINE_TILE(KIND, 1) DEFINE_TILE(KIND, 2) DEFINE_TILE(KIND, 3) DEFINE_TILE(KIND, 4)            \
    DEFINE_TILE(KIND, 5) DEFINE_TILE(KIND, 6) DEFINE_TILE(KIND, 7) DEFINE_TILE(KIND, 8)            \
    DEFINE_TILE(KIND, 9) DEFINE_TILE(KIND, 10) DEFINE_TILE(KIND, 11) DEFINE_TILE(KIND, 12)         \
    DEFINE_TILE(KIND, 13) DEFINE_TILE(KIND, 14)
#define TILES(KIND)                                                                                \
    NULL,     KIND##_1, KIND##_2, KIND##_3,  KIND##_4,  KIND##_5, KIND##_6,                        \
    KIND##_7, KIND##_8, KIND##_9, KIND##_10, KIND##_11, KIND##_12, KIND##_13, KIND##_14
DEFINE_TILES(FLOATS)
DEFINE_TILES(PAIRS)
/* clang-format on */
static tile_function *const floats_tiles[] = { TILES(FLOATS) };
static tile_function *const pairs_tiles[] = { TILES(PAIRS) };

/* What differs between the kinds of words beside their steps. */
static const struct kind {
    tile_function *const *tiles;
    int64_t unroll;              /* steps that ask for far_bytes, of memory without gaps, in all */
    int64_t far_bytes, far_step; /* from beyond the second level */
    int64_t most;                /* times these steps, that ask for all rows of y */
} kinds[] = {
    [HRF_FLOATS] = { floats_tiles, UNROLL_FLOATS, 4 * LINE, 2 * LINE, HRF_PRODUCT_ROWS / 2 },
    /* y of 16 bits: one line each */
    [HRF_PAIRS] = { pairs_tiles, UNROLL_PAIRS, 8 * LINE, LINE, 2 },
};

/* Where y has 16 bits: the tile is done in floats beside it, which stay in the caches. */
static void run_narrow(tile_function *tile, const struct tile *t, int64_t n, char *y,
                       int64_t row_bytes, const struct hrf_epilogue *e)
{
    _Alignas(LINE) float sums[HRF_PRODUCT_ROWS * HRF_PANEL];
    struct tile own = *t;
    own.y = sums;
    own.y_pitch = HRF_PANEL;
    for (int64_t i = 0; e->accumulate && i < n; i++)
        for (int half = 0; half < 2; half++)
            _mm512_store_ps(sums + i * HRF_PANEL + half * 16,
                            hrf_load_avx512(e->type, y + i * row_bytes + half * 32, t->mask[half]));
    tile(&own, e);
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

/* What all tiles of a product have in common. */
struct product {
    const struct kind *kind;
    bool finishes_in_place; /* the tiles store y as it is to be */
    bool weights_are_far;
    const char *packed;
    int64_t depth, columns;
    int64_t panel_bytes;
    int64_t number_bytes, row_bytes; /* of y */
    const struct hrf_epilogue *epilogue;
};

/* How a tile's steps are divided. */
static void divide(struct tile *t, const struct kind *kind, int64_t depth, bool y_is_far)
{
    const int64_t restart = AHEAD / kind->unroll;
    t->times = depth / kind->unroll;
    t->rest = depth % kind->unroll;
    t->rows_left = !y_is_far ? 0 : t->times < kind->most ? t->times : kind->most;
    t->restart_left = t->times < restart ? t->times : restart;
}

/* For a tile whose next one's rows of y begin at next_y, in the same panel or (is_last) the next.
 */
static void plan_tile(const struct product *p, struct tile *t, struct lines *lines,
                      const char *next_y, bool is_last)
{
    const bool has_lines = lines->n_bytes > 0;
    const int64_t n_bytes = (t->times - t->rows_left) * p->kind->far_bytes;
    t->memory = has_lines ? lines->at : t->w;
    t->memory_step = has_lines ? p->kind->far_step : 0;
    lines->at += n_bytes;
    lines->n_bytes -= n_bytes;
    t->rows = next_y;
    t->restart = AHEAD * STEP_BYTES + (is_last ? p->panel_bytes : 0) - p->depth * STEP_BYTES;
}

/* Even tiles: 64 rows are 13+13+13+13+12, not 14+14+14+14+8. 32 bits: a division of 64 takes as
 * long as ten steps. */
static int32_t count_tiles(int32_t rows)
{
    return (rows + HRF_PRODUCT_ROWS - 1) / HRF_PRODUCT_ROWS;
}

/* All panels, one after the other, over some rows. */
static void run_panels(const struct product *p, struct tile *t, const char *a, char *y,
                       int32_t rows, struct lines *memory)
{
    const int32_t n_tiles = count_tiles(rows);
    const int32_t least = n_tiles > 1 ? rows / n_tiles : rows;
    const int32_t n_larger = rows - least * n_tiles;
    t->w = p->packed;
    for (int64_t column = 0; column < p->columns; column += HRF_PANEL, t->w += p->panel_bytes) {
        t->bias = p->epilogue->bias != NULL ? p->epilogue->bias + column : NULL;
        t->mask[0] = hrf_first_lanes_avx512(p->columns - column);
        t->mask[1] = hrf_first_lanes_avx512(p->columns - column - 16);
        t->a = a;
        char *const top = y + column * p->number_bytes;
        char *at = top;
        struct lines panel = { t->w + p->panel_bytes, p->weights_are_far ? p->panel_bytes : 0 };
        for (int32_t i = 0; i < n_tiles; i++) {
            const int64_t n = least + (i < n_larger);
            const bool is_last = i + 1 == n_tiles;
            char *const below = at + n * p->row_bytes;
            char *const next = is_last && column + HRF_PANEL < p->columns
                                   ? top + HRF_PANEL * p->number_bytes
                                   : below;
            plan_tile(p, t, panel.n_bytes > 0 ? &panel : memory, next, is_last);
            t->y = at;
            if (p->finishes_in_place)
                p->kind->tiles[n](t, p->epilogue);
            else
                run_narrow(p->kind->tiles[n], t, n, at, p->row_bytes, p->epilogue);
            t->a += n * t->a_pitch * WORD;
            at = below;
        }
    }
}

void hrf_product_avx512(enum hrf_words words, const void *a, int64_t a_pitch, const void *packed,
                        int64_t depth, void *y, int64_t y_pitch, int64_t rows, int64_t columns,
                        const struct hrf_epilogue *epilogue, const struct hrf_ahead *ahead)
{
    const bool is_pairs = words == HRF_PAIRS;
    const int64_t number_bytes = epilogue->type == HRF_F32 ? (int64_t)sizeof(float) : 2;
    const struct product p = {
        .kind = &kinds[words],
        .finishes_in_place = epilogue->type == HRF_F32 || (is_pairs && epilogue->type == HRF_B16),
        .packed = packed,
        .depth = depth,
        .columns = columns,
        .panel_bytes = (int64_t)(hrf_product_packed_count(depth, 1) * sizeof(float)),
        .number_bytes = number_bytes,
        .row_bytes = y_pitch * number_bytes,
        .epilogue = epilogue,
        .weights_are_far = ahead->weights_are_far,
    };
    struct tile t = { .a_pitch = a_pitch, .y_pitch = y_pitch, .rows_step = p.row_bytes };
    struct lines memory = { ahead->memory, ahead->n_bytes };
    divide(&t, p.kind, depth, ahead->y_is_far);
    /* Pairs come to a new panel in half the time, whose lines of y must be there by then: where the
     * weights stay near, they go through all panels tile by tile, so that the lines of a row follow
     * each other (64 channels to 256, with a residual: 4.0 -> 2.9 ms). */
    const bool by_tiles = is_pairs && depth * columns * WORD <= SMALL_WEIGHTS;
    const int32_t n_tiles = count_tiles((int32_t)rows);
    const int64_t once = by_tiles ? ((int32_t)rows + n_tiles - 1) / n_tiles : rows;
    for (int64_t row = 0; row < rows; row += once)
        run_panels(&p, &t, (const char *)a + row * a_pitch * WORD, (char *)y + row * p.row_bytes,
                   (int32_t)(rows - row < once ? rows - row : once), &memory);
}
