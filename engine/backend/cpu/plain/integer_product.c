/* integer_product.c - see integer_product.h: packs the weights, and shares blocks of rows and
 * panels of columns out over the threads. */
#include "engine/backend/cpu/plain/integer_product.h"

#include "base/min_max.h"
#include "engine/backend/cpu/part_queues.h"

enum {
    ROWS = HRF_INTEGER_ROWS,
    PANEL = HRF_INTEGER_PANEL,
    BLOCK_BYTES = 96 * 1024, /* of rows: leaves the second level room for a panel of weights */
    MOST_BLOCK = 96,         /* rows: more would not save much of reading the weights */
    PARTS = 4, /* for each thread at least, so that threads end at about the same time */
};

static int64_t count_pairs(const struct hrf_integer_product *p)
{
    return hrf_ceil_div(p->depth, 2);
}

static int64_t count_panels(const struct hrf_integer_product *p)
{
    return hrf_ceil_div(p->n_columns, PANEL);
}

static int64_t panel_bytes(const struct hrf_integer_product *p)
{
    return count_pairs(p) * PANEL * 2;
}

size_t hrf_integer_packed_bytes(const struct hrf_integer_product *p)
{
    return (size_t)(p->n_groups * count_panels(p) * panel_bytes(p));
}

void hrf_integer_pack_column(const struct hrf_integer_product *p, int64_t group, int64_t column,
                             const int8_t *w, int8_t *packed)
{
    int8_t *to = packed + (group * count_panels(p) + column / PANEL) * panel_bytes(p) +
                 column % PANEL * 2;
    for (int64_t k = 0; k < p->depth; k++)
        to[k / 2 * PANEL * 2 + k % 2] = w[k];
}

/* Numbers from row to row: whole lines of the cache, and no multiple of 1 KiB, so that the rows of
 * a tile do not compete for few sets of the first level. */
static int64_t row_stride(const struct hrf_integer_product *p)
{
    const int64_t lines = hrf_ceil_div(p->depth, 32);
    return (lines % 16 == 0 ? lines + 1 : lines) * 32;
}

static size_t scratch_bytes(const struct hrf_integer_product *p)
{
    return (size_t)p->block * ((size_t)row_stride(p) * sizeof(int16_t) + sizeof(float));
}

size_t hrf_integer_product_plan(struct hrf_integer_product *p, int64_t n_threads)
{
    const int64_t row_bytes = row_stride(p) * (int64_t)sizeof(int16_t);
    const int64_t most = hrf_clamp(BLOCK_BYTES / row_bytes, ROWS, MOST_BLOCK) / ROWS * ROWS;
    p->n_threads = n_threads;
    const int64_t least_blocks = hrf_max(hrf_ceil_div(p->n_rows, most), 1);
    p->block = hrf_max(hrf_ceil_div(hrf_ceil_div(p->n_rows, least_blocks), ROWS), 1) * ROWS;
    p->n_blocks = hrf_max(hrf_ceil_div(p->n_rows, p->block), 1);
    p->n_slices = hrf_clamp(hrf_ceil_div(PARTS * n_threads, p->n_blocks), 1,
                            p->n_groups * count_panels(p));
    return hrf_parts_workspace(n_threads, scratch_bytes(p));
}

struct run {
    const struct hrf_integer_product *product;
    const void *context;
};

static void integer_product_load(const struct run *run, const struct hrf_integer_rows *rows)
{
    const struct hrf_integer_product *p = run->product;
    p->load(run->context, rows);
    for (int64_t r = 0; r < rows->n && p->depth % 2 == 1; r++)
        rows->numbers[r * rows->stride + p->depth] = 0;
}

static void multiply_panel(const struct run *run, const struct hrf_integer_rows *rows,
                           int64_t panel)
{
    const struct hrf_integer_product *p = run->product;
    const int8_t *w = p->packed + (rows->group * count_panels(p) + panel) * panel_bytes(p);
    const int64_t column = panel * PANEL, n = hrf_min(PANEL, p->n_columns - column);
    for (int64_t r = 0; r < rows->n; r += ROWS) {
        _Alignas(64) int32_t sums[ROWS * PANEL];
        const struct hrf_integer_rows tile = { .first = rows->first + r,
                                               .n = hrf_min(ROWS, rows->n - r),
                                               .group = rows->group,
                                               .numbers = rows->numbers + r * rows->stride,
                                               .stride = rows->stride,
                                               .scales = rows->scales + r };
        HRF_INTEGER_LOOPS(hrf_integer_sums)
        (tile.numbers, tile.stride, tile.n, w, n, count_pairs(p), sums);
        p->finish(run->context, &tile, column, n, sums);
    }
}

/* A slice of the panels of all groups, for one block of rows. These are loaded already if the
 * thread's last part was another slice of them. */
static void run_part(const void *context, int64_t part, int64_t before, void *scratch)
{
    const struct run *run = context;
    const struct hrf_integer_product *p = run->product;
    const int64_t block = part / p->n_slices, slice = part % p->n_slices;
    const int64_t n_panels = count_panels(p), n_all = p->n_groups * n_panels;
    struct hrf_integer_rows rows = { .first = block * p->block,
                                     .n = hrf_min(p->block, p->n_rows - block * p->block),
                                     .group = -1,
                                     .numbers = scratch,
                                     .stride = row_stride(p) };
    rows.scales = (float *)(void *)(rows.numbers + p->block * rows.stride);
    if (p->n_groups == 1 && before >= 0 && before / p->n_slices == block)
        rows.group = 0;
    for (int64_t i = n_all * slice / p->n_slices; i < n_all * (slice + 1) / p->n_slices;) {
        const int64_t group = i / n_panels, first = i % n_panels;
        const int64_t end = hrf_min(n_panels, n_all * (slice + 1) / p->n_slices - group * n_panels);
        const bool is_loaded = rows.group == group;
        rows.group = group;
        if (!is_loaded)
            integer_product_load(run, &rows);
        for (int64_t panel = first; panel < end; panel++)
            multiply_panel(run, &rows, panel);
        if (p->end != NULL)
            p->end(run->context, &rows, first * PANEL, hrf_min(end * PANEL, p->n_columns));
        i += end - first;
    }
}

void hrf_integer_product_run(const struct hrf_integer_product *p, const void *context,
                             void *workspace)
{
    const struct run run = { p, context };
    hrf_parts_run(workspace, p->n_threads, p->n_blocks * p->n_slices, scratch_bytes(p), run_part,
                  &run);
}
