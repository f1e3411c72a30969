/* product_avx512.c - the product by tiles of up to 6 rows by 64 columns (9 by 48) in registers.
 *
 * The depth is cut into chains of hrf_product_chain() words, which go on from piece to piece of it
 * and whose weights (64 columns: 32 KiB) stay in the first-level cache while all tiles of a block
 * of rows are multiplied by them. Between chains the sums of a tile wait in memory. Every chain
 * starts from zero and is added to the sums before it; bias and residual are added at the end. So a
 * chain of zeros, and zeros in a chain, may be left out.
 *
 * What bfloat16 needs more is written in assembler, so that no other of that instruction set gets
 * into this file. Compiled with -mavx512f, optimised always.
 */
#include "engine/backend/cpu/avx512/epilogue_avx512.h"
#include "engine/backend/cpu/avx512/product_tile_avx512.h"
#include "engine/backend/cpu/product.h"

#include <immintrin.h>
#include <math.h>

/* Words of the depth that follow each other in the rows and in the weights. */
struct segment {
    int64_t offset; /* bytes from a row's pointer */
    int64_t depth;  /* words */
    const char *w;
};

/* One chain of a tile. */
struct tile {
    const char *const *a; /* [rows] */
    char *const *y; /* [rows], of the panel's first column; only the last chain stores there */
    const struct segment *segments;
    int64_t n_segments;
    const float *bias; /* of the panel's columns; NULL: none */
    float *sums;       /* [rows][registers][LANES] */
    const char *far;   /* memory to ask for */
    bool is_first, is_last;
    bool is_plain;   /* the end of a tile of pairs is what FINISH_PAIRS() does in registers */
    float low, high; /* then: what its activation clips to */
    __mmask16 mask[MOST_REGISTERS]; /* which of the panel's columns exist */
};

#define DECLARE_ROW(i)  const char *const p##i = t->a[i];
#define DECLARE(i, c)   __m512 x##i##c;
#define BIAS(i, c)      x##i##c = _mm512_add_ps(x##i##c, hrf_bias(t->bias, (c)*LANES, t->mask[c]));
#define CLEAR(i, c)     x##i##c = _mm512_setzero_ps();
#define SUMS(i, c)      (t->sums + ((i)*REGISTERS + (c)) * LANES)
#define JOIN(i, c)      x##i##c = _mm512_add_ps(x##i##c, _mm512_load_ps(SUMS(i, c)));
#define KEEP(i, c)      _mm512_store_ps(SUMS(i, c), x##i##c);
#define TAKE_BACK(i, c) x##i##c = _mm512_load_ps(SUMS(i, c));
#define SIZE            (e->type == HRF_F32 ? 4 : 2)
#define PLACE(i, c)     (t->y[i] + (c)*LANES * SIZE)
#define RESIDUAL(i, c)                                                                             \
    x##i##c = _mm512_add_ps(x##i##c, hrf_load_avx512(e->type, PLACE(i, c), t->mask[c]));
#define ACTIVATE(i, c)   x##i##c = hrf_activate_avx512(x##i##c, e);
#define STORE(i, c)      _mm512_mask_storeu_ps(PLACE(i, c), t->mask[c], x##i##c);
#define STORE_HALF(i, c) hrf_store_avx512(e->type, PLACE(i, c), t->mask[c], x##i##c);
/* The lines that the tile will write. */
#define ASK_Y(i, c) _mm_prefetch(PLACE(i, c), _MM_HINT_T0);

#define LOAD_MASK(i, c) const __mmask16 mask##c = t->mask[c];
#define LOAD_BIAS(i, c) const __m512 bias##c = hrf_bias(t->bias, (c)*LANES, mask##c);
#define ADD_BIAS(i, c)  x##i##c = _mm512_add_ps(x##i##c, bias##c);
#define PLACE_B16(i, c) (t->y[i] + (c)*LANES * 2)
#define ADD_B16(i, c)                                                                              \
    x##i##c = _mm512_add_ps(x##i##c, hrf_load_avx512(HRF_B16, PLACE_B16(i, c), mask##c));
#define STORE_B16(i, c)                                                                            \
    _mm256_mask_storeu_epi16(                                                                      \
        PLACE_B16(i, c), mask##c,                                                                  \
        hrf_narrow_b16_avx512(_mm512_min_ps(high, _mm512_max_ps(low, x##i##c))));

/* What is rarer, of a tile of pairs whose sums are in memory, with their bias. */
static __attribute__((noinline)) void
finish_apart(const struct tile *t, const struct hrf_epilogue *e, int64_t rows, int64_t registers)
{
    const int64_t step = LANES * SIZE;
    for (int64_t i = 0; i < rows && e->accumulate; i++)
        for (int64_t c = 0; c < registers; c++) {
            float *sums = t->sums + (i * registers + c) * LANES;
            const __m512 y = hrf_load_avx512(e->type, t->y[i] + c * step, t->mask[c]);
            _mm512_store_ps(sums, _mm512_add_ps(_mm512_load_ps(sums), y));
        }
    if (hrf_has_function(e))
        hrf_activate_sums_avx512(t->sums, rows * registers, e);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < registers; c++) {
            const __m512 x = _mm512_load_ps(t->sums + (i * registers + c) * LANES);
            char *to = t->y[i] + c * step;
            if (e->type == HRF_B16)
                _mm256_mask_storeu_epi16(to, t->mask[c],
                                         hrf_narrow_b16_avx512(hrf_activate_avx512(x, e)));
            else
                hrf_store_avx512(e->type, to, t->mask[c], hrf_activate_avx512(x, e));
        }
}

#define DEFINE_TILE(KIND, n, registers)                                                            \
    static void KIND##_##n##_##registers(const struct tile *t, const struct hrf_epilogue *e)       \
    {                                                                                              \
        enum { REGISTERS = registers };                                                            \
        ROWS_##n(DECLARE_ROW) const char *far = t->far;                                            \
        ROWS_##n(DECLARE_##registers) ROWS_##n(CLEAR_##registers) if (t->is_last)                  \
        {                                                                                          \
            ROWS_##n(ASK_Y_##registers)                                                            \
        }                                                                                          \
        for (int64_t s = 0; s < t->n_segments; s++) {                                              \
            int64_t offset = t->segments[s].offset, left = t->segments[s].depth;                   \
            const char *w = t->segments[s].w;                                                      \
            for (; left >= UNROLL; left -= UNROLL) {                                               \
                STEPS(KIND, n, registers)                                                          \
                w += UNROLL * REGISTERS * LINE;                                                    \
                far += UNROLL * LINE;                                                              \
                offset += UNROLL * WORD;                                                           \
            }                                                                                      \
            for (; left > 0; left--) {                                                             \
                STEP(KIND, n, registers, 0)                                                        \
                w += REGISTERS * LINE;                                                             \
                offset += WORD;                                                                    \
            }                                                                                      \
        }                                                                                          \
        if (!t->is_first) {                                                                        \
            ROWS_##n(JOIN_##registers)                                                             \
        }                                                                                          \
        if (!t->is_last) {                                                                         \
            ROWS_##n(KEEP_##registers) return;                                                     \
        }                                                                                          \
        FINISH_##KIND(n, registers)                                                                \
    }

#define FINISH_FLOATS(n, registers)                                                                \
    if (t->bias != NULL) {                                                                         \
        ROWS_##n(BIAS_##registers)                                                                 \
    }                                                                                              \
    if (e->accumulate) {                                                                           \
        ROWS_##n(RESIDUAL_##registers)                                                             \
    }                                                                                              \
    if (hrf_has_function(e)) {                                                                     \
        ROWS_##n(KEEP_##registers) hrf_activate_sums_avx512(t->sums, (n)*REGISTERS, e);            \
        ROWS_##n(TAKE_BACK_##registers)                                                            \
    } else if (e->activation != HRF_ACT_NONE) {                                                    \
        ROWS_##n(ACTIVATE_##registers)                                                             \
    }                                                                                              \
    if (e->type == HRF_F32) {                                                                      \
        ROWS_##n(STORE_##registers)                                                                \
    } else {                                                                                       \
        ROWS_##n(STORE_HALF_##registers)                                                           \
    }

/* Pairs mostly become bfloat16, by one instruction; its ten others would make a short depth take a
 * third longer. Masks are in registers, which the compiler does not know to be free of stores. */
#define FINISH_PAIRS(n, registers)                                                                 \
    ONE_##registers(LOAD_MASK, _) ONE_##registers(LOAD_BIAS, _)                                    \
        ROWS_##n(ADD_BIAS_##registers) if (!t->is_plain)                                           \
    {                                                                                              \
        ROWS_##n(KEEP_##registers) finish_apart(t, e, n, registers);                               \
        return;                                                                                    \
    }                                                                                              \
    if (e->accumulate) {                                                                           \
        ROWS_##n(ADD_B16_##registers)                                                              \
    }                                                                                              \
    const __m512 low = _mm512_set1_ps(t->low), high = _mm512_set1_ps(t->high);                     \
    ROWS_##n(STORE_B16_##registers)

/* Each of the above over the registers of a row. */
#define DECLARE_1(i)    ONE_1(DECLARE, i)
#define DECLARE_2(i)    ONE_2(DECLARE, i)
#define DECLARE_3(i)    ONE_3(DECLARE, i)
#define DECLARE_4(i)    ONE_4(DECLARE, i)
#define BIAS_1(i)       ONE_1(BIAS, i)
#define BIAS_2(i)       ONE_2(BIAS, i)
#define BIAS_3(i)       ONE_3(BIAS, i)
#define BIAS_4(i)       ONE_4(BIAS, i)
#define CLEAR_1(i)      ONE_1(CLEAR, i)
#define CLEAR_2(i)      ONE_2(CLEAR, i)
#define CLEAR_3(i)      ONE_3(CLEAR, i)
#define CLEAR_4(i)      ONE_4(CLEAR, i)
#define JOIN_1(i)       ONE_1(JOIN, i)
#define JOIN_2(i)       ONE_2(JOIN, i)
#define JOIN_3(i)       ONE_3(JOIN, i)
#define JOIN_4(i)       ONE_4(JOIN, i)
#define TAKE_BACK_1(i)  ONE_1(TAKE_BACK, i)
#define TAKE_BACK_2(i)  ONE_2(TAKE_BACK, i)
#define TAKE_BACK_3(i)  ONE_3(TAKE_BACK, i)
#define TAKE_BACK_4(i)  ONE_4(TAKE_BACK, i)
#define KEEP_1(i)       ONE_1(KEEP, i)
#define KEEP_2(i)       ONE_2(KEEP, i)
#define KEEP_3(i)       ONE_3(KEEP, i)
#define KEEP_4(i)       ONE_4(KEEP, i)
#define RESIDUAL_1(i)   ONE_1(RESIDUAL, i)
#define RESIDUAL_2(i)   ONE_2(RESIDUAL, i)
#define RESIDUAL_3(i)   ONE_3(RESIDUAL, i)
#define RESIDUAL_4(i)   ONE_4(RESIDUAL, i)
#define ACTIVATE_1(i)   ONE_1(ACTIVATE, i)
#define ACTIVATE_2(i)   ONE_2(ACTIVATE, i)
#define ACTIVATE_3(i)   ONE_3(ACTIVATE, i)
#define ACTIVATE_4(i)   ONE_4(ACTIVATE, i)
#define STORE_1(i)      ONE_1(STORE, i)
#define STORE_2(i)      ONE_2(STORE, i)
#define STORE_3(i)      ONE_3(STORE, i)
#define STORE_4(i)      ONE_4(STORE, i)
#define STORE_HALF_1(i) ONE_1(STORE_HALF, i)
#define STORE_HALF_2(i) ONE_2(STORE_HALF, i)
#define STORE_HALF_3(i) ONE_3(STORE_HALF, i)
#define STORE_HALF_4(i) ONE_4(STORE_HALF, i)
#define ADD_BIAS_1(i)   ONE_1(ADD_BIAS, i)
#define ADD_BIAS_2(i)   ONE_2(ADD_BIAS, i)
#define ADD_BIAS_3(i)   ONE_3(ADD_BIAS, i)
#define ADD_BIAS_4(i)   ONE_4(ADD_BIAS, i)
#define ADD_B16_1(i)    ONE_1(ADD_B16, i)
#define ADD_B16_2(i)    ONE_2(ADD_B16, i)
#define ADD_B16_3(i)    ONE_3(ADD_B16, i)
#define ADD_B16_4(i)    ONE_4(ADD_B16, i)
#define STORE_B16_1(i)  ONE_1(STORE_B16, i)
#define STORE_B16_2(i)  ONE_2(STORE_B16, i)
#define STORE_B16_3(i)  ONE_3(STORE_B16, i)
#define STORE_B16_4(i)  ONE_4(STORE_B16, i)
#define ASK_Y_1(i)      ONE_1(ASK_Y, i)
#define ASK_Y_2(i)      ONE_2(ASK_Y, i)
#define ASK_Y_3(i)      ONE_3(ASK_Y, i)
#define ASK_Y_4(i)      ONE_4(ASK_Y, i)

typedef void tile_function(const struct tile *t, const struct hrf_epilogue *e);
/* clang-format off */
#define DEFINE_UP_TO_6(KIND, registers)                                                            \
    DEFINE_TILE(KIND, 1, registers) DEFINE_TILE(KIND, 2, registers)                                \
    DEFINE_TILE(KIND, 3, registers) DEFINE_TILE(KIND, 4, registers)                                \
    DEFINE_TILE(KIND, 5, registers) DEFINE_TILE(KIND, 6, registers)
#define DEFINE_UP_TO_9(KIND, registers)                                                            \
    DEFINE_UP_TO_6(KIND, registers) DEFINE_TILE(KIND, 7, registers)                                \
    DEFINE_TILE(KIND, 8, registers) DEFINE_TILE(KIND, 9, registers)
#define DEFINE_TILES(KIND)                                                                         \
    DEFINE_UP_TO_9(KIND, 1) DEFINE_UP_TO_9(KIND, 2) DEFINE_UP_TO_9(KIND, 3) DEFINE_UP_TO_6(KIND, 4)
#define UP_TO_6(KIND, registers)                                                                   \
    NULL, KIND##_1_##registers, KIND##_2_##registers, KIND##_3_##registers, KIND##_4_##registers,  \
    KIND##_5_##registers, KIND##_6_##registers
#define UP_TO_9(KIND, registers)                                                                   \
    UP_TO_6(KIND, registers), KIND##_7_##registers, KIND##_8_##registers, KIND##_9_##registers
#define TILES(KIND)                                                                                \
    { NULL }, { UP_TO_9(KIND, 1) }, { UP_TO_9(KIND, 2) }, { UP_TO_9(KIND, 3) }, { UP_TO_6(KIND, 4) }
DEFINE_TILES(FLOATS)
DEFINE_TILES(PAIRS)
/* clang-format on */
static tile_function *const tiles[][MOST_REGISTERS + 1][MOST_ROWS + 1] = {
    [HRF_FLOATS] = { TILES(FLOATS) },
    [HRF_PAIRS] = { TILES(PAIRS) },
};

/* Memory that is asked for line by line. */
struct lines {
    const char *at;
    int64_t n_bytes; /* left */
};

/* One panel of weights and one block of rows. */
struct panel {
    tile_function *const *tiles; /* by rows */
    const char *packed;
    int64_t first, registers; /* of its columns; they begin at LANES * first */
    int64_t rows_at_once;
    int64_t chain; /* words at most */
};

static struct panel panel_of(enum hrf_words words, const char *packed, int64_t depth,
                             int64_t columns, int64_t index)
{
    const int64_t first = hrf_product_panel_begin(columns, index) / LANES;
    const int64_t end = hrf_product_panel_begin(columns, index + 1) / LANES;
    return (struct panel){ .tiles = tiles[words][end - first],
                           .packed = packed + first * depth * LINE,
                           .first = first,
                           .registers = end - first,
                           .rows_at_once = end - first == MOST_REGISTERS ? 6 : MOST_ROWS,
                           .chain = hrf_product_chain(words) };
}

/* Even tiles: 16 rows are 6 + 5 + 5, not 6 + 6 + 4. 32 bits: a division of 64 takes long. */
struct tiling {
    int32_t n, least, n_larger;
};

static struct tiling divide(const struct panel *panel, int64_t rows)
{
    const int32_t most = (int32_t)panel->rows_at_once, n = ((int32_t)rows + most - 1) / most;
    const int32_t least = (int32_t)rows / n;
    return (struct tiling){ n, least, (int32_t)rows - least * n };
}

/* Which pieces of the depth a tile has, as bits: those that are zeros in all of its rows are left
 * out. Of more than 64 pieces all are there. `all`: the bits of all pieces. */
static void find_pieces(const struct tiling *tiling, const struct hrf_product_rows *rows,
                        int64_t n_pieces, uint64_t all, uint64_t *present)
{
    for (int32_t i = 0, row = 0; i < tiling->n; i++) {
        uint64_t absent = rows->absent != NULL && n_pieces <= 64 ? all : 0;
        for (const int32_t end = row + tiling->least + (i < tiling->n_larger); row < end; row++)
            if (absent != 0)
                absent &= rows->absent[row];
        present[i] = absent == all ? all : all & ~absent;
    }
}

/* Words of the depth that are summed without a break, of pieces that need not follow each other. */
struct chain {
    struct segment segments[HRF_PRODUCT_MOST_CHAIN];
    int64_t pieces[HRF_PRODUCT_MOST_CHAIN]; /* of the segments */
    int64_t n_segments, depth;
    bool begins, ends;      /* the whole depth */
    uint64_t before, after; /* pieces of which an earlier or a later chain has words */
};

/* Where the next chain begins. */
struct place {
    int64_t piece, at;
};

static uint64_t pieces_below(int64_t piece)
{
    return piece < 64 ? ((uint64_t)1 << piece) - 1 : ~(uint64_t)0;
}

/* The chain from `place` on, which it moves behind it. */
static void take_chain(const struct panel *panel, const struct hrf_product_piece *pieces,
                       int64_t n_pieces, struct place *place, struct chain *c)
{
    c->begins = place->piece == 0 && place->at == 0;
    c->before = pieces_below(place->piece + (place->at > 0));
    c->n_segments = c->depth = 0;
    while (place->piece < n_pieces && c->depth < panel->chain) {
        const struct hrf_product_piece *piece = &pieces[place->piece];
        const int64_t left = piece->depth - place->at, room = panel->chain - c->depth;
        const int64_t depth = left < room ? left : room;
        c->pieces[c->n_segments] = place->piece;
        c->segments[c->n_segments++] = (struct segment){
            .offset = (piece->offset + place->at) * WORD,
            .depth = depth,
            .w = panel->packed + (piece->at + place->at) * panel->registers * LINE,
        };
        c->depth += depth;
        *place = depth < left ? (struct place){ place->piece, place->at + depth }
                              : (struct place){ place->piece + 1, 0 };
    }
    c->ends = place->piece >= n_pieces;
    c->after = ~pieces_below(place->piece);
}

/* What a tile has of a chain: all of it, or without the pieces that are zeros in all of its rows.
 * Returns false if that is nothing. */
static bool select_segments(const struct chain *c, uint64_t present, uint64_t all,
                            struct segment *some, struct tile *t)
{
    t->segments = c->segments;
    t->n_segments = c->n_segments;
    t->is_first = c->begins;
    t->is_last = c->ends;
    if (present == all)
        return true;
    t->segments = some;
    t->n_segments = 0;
    for (int64_t i = 0; i < c->n_segments; i++)
        if ((present >> c->pieces[i] & 1) != 0)
            some[t->n_segments++] = c->segments[i];
    t->is_first = (present & c->before) == 0;
    t->is_last = (present & c->after & all) == 0;
    return t->n_segments > 0;
}

/* One chain over all tiles, which ask for `memory` meanwhile. */
static void run_chain(const struct panel *panel, struct tile *t, const struct chain *c,
                      const struct tiling *tiling, const uint64_t *present, uint64_t all,
                      const struct hrf_product_rows *rows, char **y, const struct hrf_epilogue *e,
                      struct lines *memory)
{
    struct segment some[HRF_PRODUCT_MOST_CHAIN];
    float *const sums = t->sums;
    for (int32_t i = 0, row = 0; i < tiling->n; i++) {
        const int32_t size = tiling->least + (i < tiling->n_larger);
        if (select_segments(c, present[i], all, some, t)) {
            t->a = rows->a + row;
            t->y = y + row;
            t->far = memory->n_bytes > 0 ? memory->at : c->segments[0].w;
            memory->at += c->depth * LINE;
            memory->n_bytes -= c->depth * LINE;
            panel->tiles[size](t, e);
        }
        t->sums += size * panel->registers * LANES;
        row += size;
    }
    t->sums = sums;
}

static void choose_end(const struct hrf_epilogue *e, struct tile *t)
{
    t->is_plain = e->type == HRF_B16 && e->activation <= HRF_ACT_CLIP;
    t->low = e->activation == HRF_ACT_CLIP ? e->low : e->activation == HRF_ACT_RELU ? 0 : -INFINITY;
    t->high = e->activation == HRF_ACT_CLIP ? e->high : INFINITY;
}

static void run_panel(const struct panel *panel, const struct hrf_product_rows *rows,
                      const struct hrf_product_piece *pieces, int64_t n_pieces, int64_t columns,
                      const struct hrf_epilogue *e, bool weights_are_far, float *sums,
                      struct lines *memory)
{
    const int64_t size = e->type == HRF_F32 ? 4 : 2;
    const int64_t y_offset = rows->y_offset + panel->first * LANES * size;
    const uint64_t all = pieces_below(n_pieces);
    const struct tiling tiling = divide(panel, rows->n);
    char *y[HRF_PRODUCT_ROWS];
    uint64_t present[HRF_PRODUCT_ROWS];
    struct tile t = { .bias = e->bias != NULL ? e->bias + panel->first * LANES : NULL,
                      .sums = sums };
    struct chain chain;
    for (int64_t i = 0; i < rows->n; i++)
        y[i] = rows->y[i] + y_offset;
    for (int64_t c = 0; c < panel->registers; c++)
        t.mask[c] = hrf_first_lanes_avx512(columns - (panel->first + c) * LANES);
    choose_end(e, &t);
    find_pieces(&tiling, rows, n_pieces, all, present);
    for (struct place place = { 0, 0 }; place.piece < n_pieces;) {
        take_chain(panel, pieces, n_pieces, &place, &chain);
        /* The next chain's weights, or the next panel's first. */
        const int64_t w_bytes = chain.depth * panel->registers * LINE;
        struct lines next = { chain.segments[0].w + w_bytes, weights_are_far ? w_bytes : 0 };
        run_chain(panel, &t, &chain, &tiling, present, all, rows, y, e,
                  weights_are_far ? &next : memory);
    }
}

void hrf_product_rows_avx512(enum hrf_words words, const struct hrf_product_rows *rows,
                             const struct hrf_product_piece *pieces, int64_t n_pieces,
                             const void *packed, int64_t packed_depth, int64_t columns,
                             int64_t first_panel, int64_t end_panel,
                             const struct hrf_epilogue *epilogue, const struct hrf_ahead *ahead)
{
    _Alignas(LINE) float sums[HRF_PRODUCT_ROWS * MOST_REGISTERS * LANES];
    struct lines memory = { ahead->memory, ahead->n_bytes };
    for (int64_t i = first_panel; i < end_panel; i++) {
        const struct panel panel = panel_of(words, packed, packed_depth, columns, i);
        run_panel(&panel, rows, pieces, n_pieces, columns, epilogue, ahead->weights_are_far, sums,
                  &memory);
    }
}

void hrf_product_avx512(enum hrf_words words, const void *a, int64_t a_stride, const void *packed,
                        int64_t depth, void *y, int64_t y_stride, int64_t n_rows, int64_t columns,
                        int64_t first_panel, int64_t end_panel, const struct hrf_epilogue *epilogue,
                        const struct hrf_ahead *ahead)
{
    const int64_t y_bytes = y_stride * (epilogue->type == HRF_F32 ? 4 : 2);
    const struct hrf_product_piece whole = { .depth = depth };
    const char *a_rows[HRF_PRODUCT_ROWS];
    char *y_rows[HRF_PRODUCT_ROWS];
    for (int64_t first = 0; first < n_rows; first += HRF_PRODUCT_ROWS) {
        const int64_t n = n_rows - first < HRF_PRODUCT_ROWS ? n_rows - first : HRF_PRODUCT_ROWS;
        for (int64_t i = 0; i < n; i++) {
            a_rows[i] = (const char *)a + (first + i) * a_stride * WORD;
            y_rows[i] = (char *)y + (first + i) * y_bytes;
        }
        const struct hrf_product_rows rows = { .a = a_rows, .y = y_rows, .n = n };
        hrf_product_rows_avx512(words, &rows, &whole, 1, packed, depth, columns, first_panel,
                                end_panel, epilogue, ahead);
    }
}
