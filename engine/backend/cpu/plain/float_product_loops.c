/* float_product_loops.c - see float_product.h; compiled once for each instruction set, whose name
 * is HRF_INSTRUCTION_SET.
 *
 * A step of the depth loads a panel's 16 weights, broadcasts one number of each row and multiplies
 * all of them: 6 rows do 12 multiply-adds of eight lanes with 8 loads, and their sums, weights and
 * one number fill 15 of 16 registers. The weights of a chain (8 KiB) stay in the first-level cache
 * while all rows are multiplied by them; between chains the sums of a panel wait in memory.
 */
#include "engine/backend/cpu/float_product.h"

#ifdef __AVX2__
#include "base/vector_8.h"
#else
#include "base/vector_1.h"
#endif

#include <string.h>

#define JOIN(set)         hrf_float_product_##set
#define EXPAND(set)       JOIN(set)
#define HRF_FLOAT_PRODUCT EXPAND(HRF_INSTRUCTION_SET)

enum {
    PANEL = HRF_NARROW_PANEL,
    LANES = HRF_VECTOR_LANES,
    REGISTERS = PANEL / LANES,
    MOST_ROWS = 6,
    BLOCK = 192,           /* rows whose sums wait together, at most */
    FAR_WEIGHTS = 1 << 16, /* so many floats do not stay in the second level beside the rows */
};

#define UNROLLED    _Pragma("GCC unroll 96")
#define EACH_SUM(i) UNROLLED for (int i = 0; i < rows * REGISTERS; i++)
#define ROW(i)      ((i) / REGISTERS)
#define COLUMN(i)   ((i) % REGISTERS * LANES)

/* One chain of some rows and a panel. */
struct tile {
    const float *a;
    int64_t a_stride;
    const float *w; /* [depth][PANEL] */
    int64_t depth;
    float *sums; /* [rows][PANEL]: of the chains before */
    bool is_first, is_last;
    /* The last one stores there: */
    float *y;
    int64_t y_stride;
    const float *bias; /* [PANEL] */
    bool accumulate;
};

HRF_ALWAYS_INLINE void run(const int rows, const struct tile *t)
{
    hrf_vector x[MOST_ROWS * REGISTERS], w[REGISTERS];
    const float *a[MOST_ROWS], *weights = t->w;
    UNROLLED for (int i = 0; i < rows; i++) a[i] = t->a + i * t->a_stride;
    EACH_SUM(i) x[i] = hrf_v_all(0.0f);
    for (int64_t k = 0; k < t->depth; k++, weights += PANEL) {
        UNROLLED for (int c = 0; c < REGISTERS; c++) w[c] = hrf_v_load(weights + c * LANES);
        UNROLLED for (int i = 0; i < rows; i++)
        {
            const hrf_vector v = hrf_v_all(a[i][k]);
            UNROLLED for (int c = 0; c < REGISTERS; c++)
                x[i * REGISTERS + c] = hrf_v_fma(v, w[c], x[i * REGISTERS + c]);
        }
    }
    if (!t->is_first)
        EACH_SUM(i) x[i] = x[i] + hrf_v_load(t->sums + i * LANES);
    if (!t->is_last) {
        EACH_SUM(i) hrf_v_store(t->sums + i * LANES, x[i]);
        return;
    }
    EACH_SUM(i) x[i] = x[i] + hrf_v_load(t->bias + COLUMN(i));
    if (t->accumulate)
        EACH_SUM(i) x[i] = x[i] + hrf_v_load(t->y + ROW(i) * t->y_stride + COLUMN(i));
    EACH_SUM(i) hrf_v_store(t->y + ROW(i) * t->y_stride + COLUMN(i), x[i]);
}

static void run_rows(int64_t rows, const struct tile *t)
{
    switch (rows) {
    case 1:
        run(1, t);
        break;
    case 2:
        run(2, t);
        break;
    case 3:
        run(3, t);
        break;
    case 4:
        run(4, t);
        break;
    case 5:
        run(5, t);
        break;
    default:
        run(6, t);
        break;
    }
}

/* A panel that y has only some columns of is computed in memory of its own: this copies them there,
 * and back. */
static void copy_columns(const float *from, int64_t from_stride, int64_t n_rows, int64_t n,
                         float *to, int64_t to_stride)
{
    for (int64_t i = 0; i < n_rows; i++)
        memcpy(to + i * to_stride, from + i * from_stride, (size_t)n * sizeof *to);
}

/* Lines [first, end) of the weights that come next, or of what lies behind them: only a hint. */
HRF_ALWAYS_INLINE void ask_for(const float *weights, int64_t first, int64_t end)
{
    for (int64_t line = first; line < end; line++)
        __builtin_prefetch(weights + line * PANEL);
}

/* Rows [first, first + n) of one panel, of which `width` columns exist. */
static void run_panel(const struct hrf_float_product *p, int64_t panel, int64_t width,
                      int64_t first, int64_t n)
{
    float sums[BLOCK * PANEL], apart[BLOCK * PANEL], bias[PANEL] = { 0 };
    float *const y = p->y + first * p->y_stride + panel * PANEL;
    const float *const w = p->packed + panel * PANEL * p->depth;
    const int64_t n_tiles = (n + MOST_ROWS - 1) / MOST_ROWS;
    const bool is_far = p->depth * p->columns > FAR_WEIGHTS;
    struct tile t = { .a_stride = p->a_stride, .bias = bias, .accumulate = p->accumulate };
    if (p->bias != NULL)
        memcpy(bias, p->bias + panel * PANEL, (size_t)width * sizeof *bias);
    if (width < PANEL && p->accumulate)
        copy_columns(y, p->y_stride, n, width, apart, PANEL);
    t.y_stride = width < PANEL ? PANEL : p->y_stride;
    for (int64_t k = 0; k == 0 || k < p->depth; k += HRF_PRODUCT_CHAIN) {
        t.w = w + k * PANEL;
        t.depth = p->depth - k < HRF_PRODUCT_CHAIN ? p->depth - k : HRF_PRODUCT_CHAIN;
        t.is_first = k == 0;
        t.is_last = k + t.depth == p->depth;
        for (int64_t i = 0; i < n_tiles; i++) {
            const int64_t row = n * i / n_tiles; /* even tiles: 8 rows are 4 + 4 */
            t.a = p->a + (first + row) * p->a_stride + k;
            t.sums = sums + row * PANEL;
            t.y = width < PANEL ? apart + row * PANEL : y + row * p->y_stride;
            if (is_far)
                ask_for(t.w + t.depth * PANEL, t.depth * i / n_tiles, t.depth * (i + 1) / n_tiles);
            run_rows(n * (i + 1) / n_tiles - row, &t);
        }
    }
    if (width < PANEL)
        copy_columns(apart, PANEL, n, width, y, p->y_stride);
}

void HRF_FLOAT_PRODUCT(const struct hrf_float_product *p)
{
    for (int64_t first = 0; first < p->n_rows; first += BLOCK)
        for (int64_t panel = p->first_panel; panel < p->end_panel; panel++) {
            const int64_t columns = p->columns - panel * PANEL, rows = p->n_rows - first;
            run_panel(p, panel, columns < PANEL ? columns : PANEL, first,
                      rows < BLOCK ? rows : BLOCK);
        }
}
