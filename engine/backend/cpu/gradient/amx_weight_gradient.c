/* amx_weight_gradient.c - CONV_WEIGHT_GRADIENT of bfloat16 and one group by AMX (amx_tile.h).
 *
 * The weights' gradient is a product: channels of the output by channels of the input, and its
 * depth are the pixels. For one element of the window, the pixel of x that belongs to an output
 * lies at a constant distance from it, if x's rows are laid out behind each other as wide as dy's
 * with zeros at their ends, and if pixels that a stride keeps apart lie in images of their own
 * (planes). So x and dy are packed once for a block of outputs, and each element of the window
 * multiplies the same dy with x from another position on. x is packed in pairs of pixels; a second
 * copy is one pixel further, for odd positions.
 *
 * The blocks depend on the shapes alone, and each weight is summed over them in their order by one
 * thread, so that the bits do not depend on the number of threads. */
#include "engine/backend/cpu/amx_tile.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/ir/window_span.h"

#include <string.h>

enum {
    TILE = HRF_AMX_TILE,
    /* Outputs of a block, about: what is packed of them stays in the second-level cache. */
    BLOCK = 1024,
    MOST_PHASES = 8, /* of a stride */
};

/* Along one axis: which of the pixels that a stride keeps apart each element of the window sees. */
struct axis {
    int64_t stride, dilation, pad, taps;
    int64_t phases[MOST_PHASES], n_phases;
    int64_t most; /* the farthest step in a plane */
};

struct geometry {
    struct axis row, column;
    int64_t n_images, in, out, rows, columns, out_rows, out_columns;
    int64_t pitch;                  /* positions from one row to the next */
    int64_t part_images, part_rows; /* outputs that lie behind each other, at most */
    int64_t n_parts;                /* of a block, at most */
    int64_t depth;                  /* positions of a part, in whole steps */
    int64_t most_shift, n_pairs;    /* pairs of positions of a part of x */
    int64_t n_planes, n_copies;     /* of x: the second is one position further */
    int64_t in_panels, out_panels, a_stride;
};

/* Of a block: parts of images. */
struct block {
    int64_t first_image, first_row, n_parts, part_images, part_rows;
};

static struct axis axis_of(const struct hrf_window *w, int i)
{
    struct axis a = { .stride = w->stride[i],
                      .dilation = w->dilation[i],
                      .pad = w->pad_begin[i],
                      .taps = w->kernel[i] };
    for (int64_t k = 0; k < a.taps; k++) {
        const int64_t phase = k * a.dilation % a.stride;
        int64_t p = 0;
        while (p < a.n_phases && a.phases[p] != phase)
            p++;
        if (p == a.n_phases && p < MOST_PHASES)
            a.phases[a.n_phases++] = phase;
        a.most = hrf_max(a.most, k * a.dilation / a.stride);
    }
    return a;
}

static int64_t plane_of(const struct axis *a, int64_t tap)
{
    int64_t p = 0;
    while (a->phases[p] != tap * a->dilation % a->stride)
        p++;
    return p;
}

static struct geometry geometry_of(const struct hrf_spec *spec)
{
    const int64_t *in = spec->inputs[0].shape.dims, *out = spec->inputs[1].shape.dims;
    const struct hrf_window *w = &spec->attributes.window;
    struct geometry g = { .row = axis_of(w, 0),
                          .column = axis_of(w, 1),
                          .n_images = in[0],
                          .in = in[1],
                          .out = out[1],
                          .rows = in[2],
                          .columns = in[3],
                          .out_rows = out[2],
                          .out_columns = out[3],
                          .in_panels = hrf_ceil_div(in[1], TILE),
                          .out_panels = hrf_ceil_div(out[1], TILE) };
    g.pitch = g.out_columns + g.column.most;
    g.most_shift = g.row.most * g.pitch + g.column.most;
    g.n_copies = g.most_shift > 0 ? 2 : 1;
    g.n_planes = g.row.n_phases * g.column.n_phases;
    const int64_t image = g.out_rows * g.pitch;
    const int64_t n_images = hrf_clamp(BLOCK / image, 1, g.n_images);
    g.part_rows = image <= BLOCK ? g.out_rows : hrf_max(BLOCK / g.pitch, 1);
    g.part_images = g.most_shift == 0 ? n_images : 1; /* no part sees a pixel beside it */
    g.n_parts = g.most_shift == 0 ? 1 : n_images;
    g.depth = hrf_ceil_div(g.part_images * g.part_rows * g.pitch, HRF_AMX_DEPTH) * HRF_AMX_DEPTH;
    g.n_pairs = (g.depth + g.most_shift) / 2 + 1;
    g.a_stride = hrf_amx_stride(g.n_parts * g.depth);
    return g;
}

const char *hrf_cpu_amx_weight_gradient_misfit(const struct hrf_graph *graph,
                                               const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[0]];
    const struct hrf_value *dy = &graph->values[node->inputs[1]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const struct hrf_window *w = &node->attributes.window;
    if (x->dtype != HRF_B16 || dy->dtype != HRF_B16 || y->dtype != HRF_F32)
        return "its images are not both of bfloat16";
    if (node->attributes.group != 1)
        return "it has groups";
    if (w->stride[0] > MOST_PHASES || w->stride[1] > MOST_PHASES)
        return "its windows are far apart";
    return hrf_shape_count(&dy->shape) > 0 && hrf_shape_count(&x->shape) > 0 &&
                   hrf_shape_count(&y->shape) > 0
               ? NULL
               : "it has no outputs";
}

/* ---- the workspace: dy packed, x packed, and the addresses of the pixels of both ---- */

static int64_t a_count(const struct geometry *g)
{
    return g->out_panels * TILE * g->a_stride;
}

static int64_t panel_count(const struct geometry *g) /* of x, of one panel and copy of a plane */
{
    return g->n_parts * g->n_pairs * 2 * TILE;
}

static int64_t b_count(const struct geometry *g)
{
    return g->n_planes * g->n_copies * g->in_panels * panel_count(g);
}

/* Of a part: a plane's positions, and one more for the copy that is one further. */
static int64_t positions(const struct geometry *g)
{
    return 2 * g->n_pairs + 1;
}

size_t hrf_cpu_amx_weight_gradient_workspace(const struct hrf_spec *spec)
{
    const struct geometry g = geometry_of(spec);
    return hrf_buffer_aligned((size_t)(a_count(&g) + b_count(&g)) * sizeof(uint16_t)) +
           (size_t)(g.n_parts * (g.depth + g.n_planes * positions(&g))) * sizeof(void *);
}

struct work {
    const struct geometry *g;
    const uint16_t *x, *dy;
    float *weights;
    uint16_t *a, *b;
    const void **of_dy, **of_x; /* [n_parts][depth], [n_planes][n_parts][positions] */
};

static void find_dy(const struct work *k, const struct block *b, int64_t part)
{
    const struct geometry *g = k->g;
    const void **to = k->of_dy + part * g->depth;
    const int64_t first = b->first_image + part * b->part_images;
    for (int64_t p = 0; p < g->depth; p++) {
        const int64_t row = p / g->pitch, column = p % g->pitch;
        const int64_t image = first + row / b->part_rows;
        const int64_t at = (image * g->out_rows + b->first_row + row % b->part_rows) *
                               g->out_columns +
                           column;
        to[p] = row < b->part_images * b->part_rows && column < g->out_columns ? k->dy + at * g->out
                                                                               : NULL;
    }
}

static void find_x(const struct work *k, const struct block *b, int64_t plane, int64_t part)
{
    const struct geometry *g = k->g;
    const void **to = k->of_x + (plane * g->n_parts + part) * positions(g);
    const int64_t first = b->first_image + part * b->part_images;
    /* Images that lie behind each other have windows of one element. */
    const int64_t seen_rows = b->part_images == 1 ? b->part_rows + g->row.most : b->part_rows;
    const int64_t row_phase = g->row.phases[plane / g->column.n_phases];
    const int64_t column_phase = g->column.phases[plane % g->column.n_phases];
    for (int64_t p = 0; p < positions(g); p++) {
        const int64_t i = p / g->pitch, image = first + i / seen_rows;
        const int64_t row = (b->first_row + i % seen_rows) * g->row.stride + row_phase - g->row.pad;
        const int64_t column = p % g->pitch * g->column.stride + column_phase - g->column.pad;
        const bool is_there = i < b->part_images * seen_rows && row >= 0 && row < g->rows &&
                              column >= 0 && column < g->columns;
        to[p] = is_there ? k->x + ((image * g->rows + row) * g->columns + column) * g->in : NULL;
    }
}

static void pack_dy(const struct work *k, const struct block *b, int64_t panel)
{
    const struct geometry *g = k->g;
    for (int64_t part = 0; part < b->n_parts; part++) {
        const struct hrf_amx_rows rows = { .rows = k->of_dy + part * g->depth };
        hrf_amx_pack_transposed(&rows, g->depth, panel * TILE, hrf_min(g->out - panel * TILE, TILE),
                                k->a + panel * TILE * g->a_stride + part * g->depth, g->a_stride);
    }
}

static uint16_t *panel_of_x(const struct work *k, int64_t plane, int64_t copy, int64_t panel)
{
    const struct geometry *g = k->g;
    return k->b + ((plane * g->n_copies + copy) * g->in_panels + panel) * panel_count(g);
}

static void pack_x(const struct work *k, const struct block *b, int64_t plane, int64_t panel)
{
    const struct geometry *g = k->g;
    for (int64_t copy = 0; copy < g->n_copies; copy++)
        for (int64_t part = 0; part < b->n_parts; part++) {
            const struct hrf_amx_rows rows = {
                .rows = k->of_x + (plane * g->n_parts + part) * positions(g) + copy
            };
            hrf_amx_pack_pairs(&rows, 2 * g->n_pairs, panel * TILE,
                               hrf_min(g->in - panel * TILE, TILE),
                               panel_of_x(k, plane, copy, panel) + part * g->n_pairs * 2 * TILE);
        }
}

/* Computes a block of sums whose rows or columns do not all exist in memory of its own. */
static void multiply_at_edge(struct hrf_amx_block *m, int64_t n_rows, int64_t n_columns)
{
    float own[HRF_AMX_BLOCK * HRF_AMX_BLOCK], *c = m->c;
    const int64_t stride = m->c_stride;
    const bool accumulates = m->accumulates;
    m->c = own;
    m->c_stride = HRF_AMX_BLOCK;
    m->accumulates = false;
    hrf_amx_multiply(m);
    for (int64_t i = 0; i < n_rows; i++)
        for (int64_t j = 0; j < n_columns; j++)
            c[i * stride + j] = own[i * HRF_AMX_BLOCK + j] + (accumulates ? c[i * stride + j] : 0);
}

static void compute(const struct work *k, const struct block *b, int64_t task)
{
    const struct geometry *g = k->g;
    const int64_t n_taps = g->row.taps * g->column.taps;
    const int64_t in_blocks = hrf_ceil_div(g->in_panels, 2);
    const int64_t tap = task % n_taps, of_in = task / n_taps % in_blocks * 2;
    const int64_t of_out = task / n_taps / in_blocks * 2;
    const int64_t y = tap / g->column.taps, x = tap % g->column.taps;
    const int64_t plane = plane_of(&g->row, y) * g->column.n_phases + plane_of(&g->column, x);
    const int64_t shift = y * g->row.dilation / g->row.stride * g->pitch +
                          x * g->column.dilation / g->column.stride;
    struct hrf_amx_block m = {
        .a = k->a + of_out * TILE * g->a_stride,
        .a_stride = g->a_stride,
        .a_segment = g->depth,
        .b = panel_of_x(k, plane, shift % 2, of_in) + shift / 2 * 2 * TILE,
        .b_panel = panel_count(g),
        .b_segment = g->n_pairs * 2 * TILE,
        .n_segments = b->n_parts,
        .n_steps = g->depth / HRF_AMX_DEPTH,
        .c = k->weights + (of_out * TILE * n_taps + tap) * g->in + of_in * TILE,
        .c_stride = n_taps * g->in,
        .row_tiles = (int)hrf_min(g->out_panels - of_out, 2),
        .column_tiles = (int)hrf_min(g->in_panels - of_in, 2),
        .accumulates = b->first_image > 0 || b->first_row > 0,
    };
    const int64_t n_rows = hrf_min(g->out - of_out * TILE, HRF_AMX_BLOCK);
    const int64_t n_columns = hrf_min(g->in - of_in * TILE, HRF_AMX_BLOCK);
    if (n_rows == m.row_tiles * TILE && n_columns == m.column_tiles * TILE)
        hrf_amx_multiply(&m);
    else
        multiply_at_edge(&m, n_rows, n_columns);
}

/* The work of all threads of a region, each of which calls it. */
static void run_block(const struct work *k, const struct block *b)
{
    const struct geometry *g = k->g;
    const int64_t n_tasks = hrf_ceil_div(g->out_panels, 2) * hrf_ceil_div(g->in_panels, 2) *
                            g->row.taps * g->column.taps;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < b->n_parts * (1 + g->n_planes); i++) {
        if (i < b->n_parts)
            find_dy(k, b, i);
        else
            find_x(k, b, i / b->n_parts - 1, i % b->n_parts);
    }
#pragma omp for schedule(static)
    for (int64_t i = 0; i < g->out_panels + g->n_planes * g->in_panels; i++) {
        if (i < g->out_panels)
            pack_dy(k, b, i);
        else
            pack_x(k, b, (i - g->out_panels) / g->in_panels, (i - g->out_panels) % g->in_panels);
    }
#pragma omp for schedule(static)
    for (int64_t i = 0; i < n_tasks; i++)
        compute(k, b, i);
}

void hrf_cpu_amx_weight_gradient(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct geometry g = geometry_of(spec);
    struct work k = { .g = &g,
                      .x = hrf_spec_data(spec, call, 0),
                      .dy = hrf_spec_data(spec, call, 1),
                      .weights = call->output,
                      .a = call->workspace };
    k.b = k.a + a_count(&g);
    k.of_dy = (const void **)(void *)((char *)call->workspace +
                                      hrf_buffer_aligned((size_t)(a_count(&g) + b_count(&g)) *
                                                         sizeof(uint16_t)));
    k.of_x = k.of_dy + g.n_parts * g.depth;
    const int64_t step = g.n_parts * g.part_images;
#pragma omp parallel
    {
        hrf_amx_begin();
        for (int64_t image = 0; image < g.n_images; image += step)
            for (int64_t row = 0; row < g.out_rows; row += g.part_rows) {
                const int64_t n_images = hrf_min(g.n_images - image, step);
                const struct block b = { .first_image = image,
                                         .first_row = row,
                                         .n_parts = g.n_parts > 1 ? n_images : 1,
                                         .part_images = g.n_parts > 1 ? 1 : n_images,
                                         .part_rows = hrf_min(g.out_rows - row, g.part_rows) };
                run_block(&k, &b);
            }
        hrf_amx_end();
    }
}
