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
    const float *bias;    /* of the panel's columns; NULL: none */
    float *sums;          /* [rows][registers][LANES] */
    const char *prefetch; /* memory to ask for */
    bool is_first, is_last;
    bool is_plain;   /* the end of a tile of pairs is what finish_pairs() does in registers */
    float low, high; /* then: what its activation clips to */
    __mmask16 mask[MOST_REGISTERS]; /* which of the panel's columns exist */
};

/* What a tile is compiled for. */
struct form {
    enum hrf_word_type word_type;
    int rows, registers;
};

/* Each sum of a tile, row by row: number i is of row i / f.registers, register i % f.registers. */
#define EACH_SUM UNROLLED for (int i = 0; i < f.rows * f.registers; i++)
#define MASK     (t->mask[i % f.registers])

/* Where a sum goes; `size` of a number there. */
HRF_ALWAYS_INLINE char *output_at(struct form f, const struct tile *t, int i, int64_t size)
{
    return t->y[i / f.registers] + i % f.registers * LANES * size;
}

/* ---- products ---- */

HRF_ALWAYS_INLINE void add_step(struct form f, const char *const p[], int64_t offset, const char *w,
                                const int at, __m512 *x)
{
    hrf_tile_add_step(f.word_type == HRF_WORD_B16_PAIR ? HRF_TILE_B16 : HRF_TILE_FLOATS, f.rows,
                      f.registers, p, offset, w, at, x);
}

/* Sums of all segments, from zero. */
HRF_ALWAYS_INLINE void add_segments(struct form f, const struct tile *t, __m512 *x)
{
    const char *p[MOST_ROWS], *prefetch = t->prefetch;
    UNROLLED for (int i = 0; i < f.rows; i++) p[i] = t->a[i];
    EACH_SUM x[i] = _mm512_setzero_ps();
    for (int64_t s = 0; s < t->n_segments; s++) {
        int64_t offset = t->segments[s].offset, left = t->segments[s].depth;
        const char *w = t->segments[s].w;
        for (; left >= UNROLL; left -= UNROLL) {
            hrf_tile_prefetch(prefetch, 0);
            add_step(f, p, offset, w, 0, x);
            hrf_tile_prefetch(prefetch, 1);
            add_step(f, p, offset, w, 1, x);
            hrf_tile_prefetch(prefetch, 2);
            add_step(f, p, offset, w, 2, x);
            hrf_tile_prefetch(prefetch, 3);
            add_step(f, p, offset, w, 3, x);
            w += UNROLL * f.registers * LINE;
            prefetch += UNROLL * LINE;
            offset += UNROLL * WORD;
        }
        for (; left > 0; left--) {
            add_step(f, p, offset, w, 0, x);
            w += f.registers * LINE;
            offset += WORD;
        }
    }
}

HRF_ALWAYS_INLINE void store_sums(struct form f, const struct tile *t, const __m512 *x)
{
    EACH_SUM _mm512_store_ps(t->sums + i * LANES, x[i]);
}

/* ---- ends ---- */

HRF_ALWAYS_INLINE void finish_floats(struct form f, const struct tile *t,
                                     const struct hrf_epilogue *e, __m512 *x)
{
    const int64_t size = e->type == HRF_F32 ? 4 : 2;
    if (t->bias != NULL)
        EACH_SUM x[i] = _mm512_add_ps(x[i], hrf_bias(t->bias, i % f.registers * LANES, MASK));
    if (e->accumulate)
        EACH_SUM x[i] = _mm512_add_ps(x[i],
                                      hrf_load_avx512(e->type, output_at(f, t, i, size), MASK));
    if (hrf_has_function(e)) {
        store_sums(f, t, x);
        hrf_activate_sums_avx512(t->sums, f.rows * f.registers, e);
        EACH_SUM x[i] = _mm512_load_ps(t->sums + i * LANES);
    } else if (e->activation != HRF_ACT_NONE) {
        EACH_SUM x[i] = hrf_activate_avx512(x[i], e);
    }
    if (e->type == HRF_F32)
        EACH_SUM _mm512_mask_storeu_ps(output_at(f, t, i, 4), MASK, x[i]);
    else
        EACH_SUM hrf_store_avx512(e->type, output_at(f, t, i, 2), MASK, x[i]);
}

/* What is rarer, of a tile of pairs whose sums are in memory, with their bias. */
static __attribute__((noinline)) void
finish_apart(const struct tile *t, const struct hrf_epilogue *e, int64_t rows, int64_t registers)
{
    const int64_t step = LANES * (e->type == HRF_F32 ? 4 : 2);
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

/* Pairs mostly become bfloat16, by one instruction; its ten others would make a short depth take a
 * third longer. Masks are in registers, which the compiler does not know to be free of stores. */
HRF_ALWAYS_INLINE void finish_pairs(struct form f, const struct tile *t,
                                    const struct hrf_epilogue *e, __m512 *x)
{
    __mmask16 mask[MOST_REGISTERS];
    __m512 bias[MOST_REGISTERS];
    UNROLLED for (int c = 0; c < f.registers; c++)
    {
        mask[c] = t->mask[c];
        bias[c] = hrf_bias(t->bias, c * LANES, mask[c]);
    }
    EACH_SUM x[i] = _mm512_add_ps(x[i], bias[i % f.registers]);
    if (!t->is_plain) {
        store_sums(f, t, x);
        finish_apart(t, e, f.rows, f.registers);
        return;
    }
    if (e->accumulate)
        EACH_SUM x[i] = _mm512_add_ps(
            x[i], hrf_load_avx512(HRF_B16, output_at(f, t, i, 2), mask[i % f.registers]));
    const __m512 low = _mm512_set1_ps(t->low), high = _mm512_set1_ps(t->high);
    EACH_SUM _mm256_mask_storeu_epi16(
        output_at(f, t, i, 2), mask[i % f.registers],
        hrf_narrow_b16_avx512(_mm512_min_ps(high, _mm512_max_ps(low, x[i]))));
}

HRF_ALWAYS_INLINE void run(struct form f, const struct tile *t, const struct hrf_epilogue *e)
{
    __m512 x[MOST_ROWS * MOST_REGISTERS];
    const int64_t size = e->type == HRF_F32 ? 4 : 2;
    if (t->is_last) /* asks for the lines that it will write */
        EACH_SUM _mm_prefetch(output_at(f, t, i, size), _MM_HINT_T0);
    add_segments(f, t, x);
    if (!t->is_first)
        EACH_SUM x[i] = _mm512_add_ps(x[i], _mm512_load_ps(t->sums + i * LANES));
    if (!t->is_last)
        store_sums(f, t, x);
    else if (f.word_type == HRF_WORD_B16_PAIR)
        finish_pairs(f, t, e, x);
    else
        finish_floats(f, t, e, x);
}

/* ---- tiles by words, registers and rows ---- */

typedef void tile_function(const struct tile *t, const struct hrf_epilogue *e);

#define DEFINE(word_type, registers, rows)                                                         \
    static void word_type##_##rows##_##registers(const struct tile *t,                             \
                                                 const struct hrf_epilogue *e)                     \
    {                                                                                              \
        run((struct form){ HRF_WORD_##word_type, rows, registers }, t, e);                         \
    }
#define NAME(word_type, registers, rows) word_type##_##rows##_##registers,
/* clang-format off */
#define UP_TO_6(DO, type, registers)                                                               \
    DO(type, registers, 1) DO(type, registers, 2) DO(type, registers, 3)                           \
    DO(type, registers, 4) DO(type, registers, 5) DO(type, registers, 6)
#define UP_TO_9(DO, type, registers)                                                               \
    UP_TO_6(DO, type, registers)                                                                   \
    DO(type, registers, 7) DO(type, registers, 8) DO(type, registers, 9)
#define DEFINE_ALL(type)                                                                           \
    UP_TO_9(DEFINE, type, 1) UP_TO_9(DEFINE, type, 2) UP_TO_9(DEFINE, type, 3)                     \
    UP_TO_6(DEFINE, type, 4)
DEFINE_ALL(F32)
DEFINE_ALL(B16_PAIR)
#define TILES(type)                                                                                \
    { NULL }, { NULL, UP_TO_9(NAME, type, 1) }, { NULL, UP_TO_9(NAME, type, 2) },                  \
    { NULL, UP_TO_9(NAME, type, 3) }, { NULL, UP_TO_6(NAME, type, 4) }
/* clang-format on */
static tile_function *const tiles[][MOST_REGISTERS + 1][MOST_ROWS + 1] = {
    [HRF_WORD_F32] = { TILES(F32) },
    [HRF_WORD_B16_PAIR] = { TILES(B16_PAIR) },
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

static struct panel panel_of(enum hrf_word_type word_type, const char *packed, int64_t depth,
                             int64_t columns, int64_t index)
{
    const int64_t first = hrf_product_panel_begin(columns, index) / LANES;
    const int64_t end = hrf_product_panel_begin(columns, index + 1) / LANES;
    return (struct panel){ .tiles = tiles[word_type][end - first],
                           .packed = packed + first * depth * LINE,
                           .first = first,
                           .registers = end - first,
                           .rows_at_once = end - first == MOST_REGISTERS ? 6 : MOST_ROWS,
                           .chain = hrf_product_chain(word_type) };
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
struct position {
    int64_t piece, at;
};

static uint64_t pieces_below(int64_t piece)
{
    return piece < 64 ? ((uint64_t)1 << piece) - 1 : ~(uint64_t)0;
}

/* The chain from `position` on, which it moves behind it. */
static void take_chain(const struct panel *panel, const struct hrf_product_piece *pieces,
                       int64_t n_pieces, struct position *position, struct chain *c)
{
    c->begins = position->piece == 0 && position->at == 0;
    c->before = pieces_below(position->piece + (position->at > 0));
    c->n_segments = c->depth = 0;
    while (position->piece < n_pieces && c->depth < panel->chain) {
        const struct hrf_product_piece *piece = &pieces[position->piece];
        const int64_t left = piece->depth - position->at, room = panel->chain - c->depth;
        const int64_t depth = left < room ? left : room;
        c->pieces[c->n_segments] = position->piece;
        c->segments[c->n_segments++] = (struct segment){
            .offset = (piece->offset + position->at) * WORD,
            .depth = depth,
            .w = panel->packed + (piece->at + position->at) * panel->registers * LINE,
        };
        c->depth += depth;
        *position = depth < left ? (struct position){ position->piece, position->at + depth }
                                 : (struct position){ position->piece + 1, 0 };
    }
    c->ends = position->piece >= n_pieces;
    c->after = ~pieces_below(position->piece);
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
            t->prefetch = memory->n_bytes > 0 ? memory->at : c->segments[0].w;
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
                      const struct hrf_epilogue *e, bool prefetches_weights, float *sums,
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
    for (struct position position = { 0, 0 }; position.piece < n_pieces;) {
        take_chain(panel, pieces, n_pieces, &position, &chain);
        /* The next chain's weights, or the next panel's first. */
        const int64_t w_bytes = chain.depth * panel->registers * LINE;
        struct lines next = { chain.segments[0].w + w_bytes, prefetches_weights ? w_bytes : 0 };
        run_chain(panel, &t, &chain, &tiling, present, all, rows, y, e,
                  prefetches_weights ? &next : memory);
    }
}

void hrf_product_rows_avx512(enum hrf_word_type word_type, const struct hrf_product_rows *rows,
                             const struct hrf_product_piece *pieces, int64_t n_pieces,
                             const void *packed, int64_t packed_depth, int64_t columns,
                             int64_t first_panel, int64_t end_panel,
                             const struct hrf_epilogue *epilogue, const struct hrf_ahead *ahead)
{
    _Alignas(LINE) float sums[HRF_PRODUCT_ROWS * MOST_REGISTERS * LANES];
    struct lines memory = { ahead->memory, ahead->n_bytes };
    for (int64_t i = first_panel; i < end_panel; i++) {
        const struct panel panel = panel_of(word_type, packed, packed_depth, columns, i);
        run_panel(&panel, rows, pieces, n_pieces, columns, epilogue, ahead->prefetches_weights,
                  sums, &memory);
    }
}

void hrf_product_avx512(enum hrf_word_type word_type, const void *a, int64_t a_stride,
                        const void *packed, int64_t depth, void *y, int64_t y_stride,
                        int64_t n_rows, int64_t columns, int64_t first_panel, int64_t end_panel,
                        const struct hrf_epilogue *epilogue, const struct hrf_ahead *ahead)
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
        hrf_product_rows_avx512(word_type, &rows, &whole, 1, packed, depth, columns, first_panel,
                                end_panel, epilogue, ahead);
    }
}
