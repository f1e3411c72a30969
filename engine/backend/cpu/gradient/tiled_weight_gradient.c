/* tiled_weight_gradient.c - CONV_WEIGHT_GRADIENT of one group with tiles for AVX2 (weight_tile.h).
 *
 * The outputs are taken in blocks: some whole images, or some rows of one. A block's pixels are
 * packed in panels of channels, with zeros where windows see padding; then each thread computes
 * some of the weights, for which it multiplies a panel of x, moved to each element of the window,
 * by a panel of dy. Each weight is summed over the blocks in their order by one thread, so that the
 * bits do not depend on the number of threads, and threads need no sums of their own. */
#include "base/inline.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/gradient/weight_tile.h"
#include "engine/ir/window_span.h"

#include <string.h>

enum {
    ROWS = HRF_WEIGHT_ROWS,
    COLUMNS = HRF_WEIGHT_COLUMNS,
    /* Outputs of a block, about: a panel of their pixels stays in the first-level cache, and sums
     * are added to memory seldom. */
    BLOCK = 512,
    PANELS = 8, /* panels of dy that are one task */
};

#ifdef HRF_BUILD_AVX2 /* which the back end requires */
#define TILE hrf_weight_tile_avx2
#else
#define TILE hrf_weight_tile_plain
#endif

struct geometry {
    const struct hrf_window *window;
    int64_t n_images, in, out, rows, columns, out_rows, out_columns;
    int64_t span_columns;             /* that the windows of a row of outputs see, and padding */
    int64_t x_panels, dy_panels;      /* of channels */
    int64_t block_images, block_rows; /* outputs of a block, at most */
    int64_t block_span;               /* rows that the windows of block_rows outputs see */
};

/* Outputs [first_row, first_row + n_rows) of some images. */
struct block {
    int64_t first_image, n_images, first_row, n_rows;
    int64_t span_rows; /* that their windows see of each image, and padding */
};

static struct geometry geometry_of(const struct hrf_spec *spec)
{
    const int64_t *in = spec->inputs[0].shape.dims, *out = spec->inputs[1].shape.dims;
    const struct hrf_window *w = &spec->attributes.window;
    struct geometry g = { .window = w,
                          .n_images = in[0],
                          .in = in[1],
                          .out = out[1],
                          .rows = in[2],
                          .columns = in[3],
                          .out_rows = out[2],
                          .out_columns = out[3],
                          .span_columns = hrf_window_span(w, 1, out[3]),
                          .x_panels = hrf_ceil_div(in[1], COLUMNS),
                          .dy_panels = hrf_ceil_div(out[1], ROWS) };
    const int64_t area = out[2] * out[3];
    g.block_images = hrf_min(hrf_max(BLOCK / area, 1), g.n_images);
    g.block_rows = area <= BLOCK ? out[2] : hrf_max(BLOCK / out[3], 1);
    g.block_span = hrf_window_span(w, 0, g.block_rows);
    return g;
}

const char *hrf_cpu_tiled_weight_gradient_misfit(const struct hrf_graph *graph,
                                                 const struct hrf_node *node)
{
    const struct hrf_shape *dy = &graph->values[node->inputs[1]].shape;
    if (node->attributes.group != 1)
        return "it has groups";
    if (graph->values[node->outputs[0]].shape.dims[1] < COLUMNS / 2)
        return "its input has too few channels for a register";
    return hrf_shape_count(dy) > 0 ? NULL : "it has no outputs";
}

/* The panels of a block. */
static int64_t x_floats(const struct geometry *g)
{
    return g->block_images * g->block_span * g->span_columns * COLUMNS;
}

static int64_t dy_floats(const struct geometry *g)
{
    return g->block_images * g->block_rows * g->out_columns * ROWS;
}

size_t hrf_cpu_tiled_weight_gradient_workspace(const struct hrf_spec *spec)
{
    const struct geometry g = geometry_of(spec);
    return (size_t)(g.x_panels * x_floats(&g) + g.dy_panels * dy_floats(&g)) * sizeof(float);
}

/* Packs some channels of n pixels `stride` floats apart, and zeros for the rest of the panel.
 * `width` is a constant. */
HRF_ALWAYS_INLINE void pack_pixels(const float *from, int64_t stride, int64_t n, int64_t n_channels,
                                   const int width, float *to)
{
    if (n_channels >= width) {
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * width, from + i * stride, (size_t)width * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < width; c++)
            to[i * width + c] = c < n_channels ? from[i * stride + c] : 0;
}

/* Row `row`, which may be padding, of one image in all panels. */
static void pack_x(const struct geometry *g, const float *image, int64_t row, int64_t panel_step,
                   float *to)
{
    const int64_t left = hrf_min(g->window->pad_begin[1], g->span_columns);
    const int64_t seen = hrf_min(g->columns, g->span_columns - left);
    const int64_t right = g->span_columns - left - seen;
    const bool is_there = row >= 0 && row < g->rows;
    const float *from = image + row * g->columns * g->in;
    for (int64_t panel = 0; panel < g->x_panels; panel++, to += panel_step) {
        if (!is_there) {
            memset(to, 0, (size_t)(g->span_columns * COLUMNS) * sizeof *to);
            continue;
        }
        memset(to, 0, (size_t)(left * COLUMNS) * sizeof *to);
        pack_pixels(from + panel * COLUMNS, g->in, seen, g->in - panel * COLUMNS, COLUMNS,
                    to + left * COLUMNS);
        memset(to + (left + seen) * COLUMNS, 0, (size_t)(right * COLUMNS) * sizeof *to);
    }
}

static void pack_dy(const struct geometry *g, const float *row, int64_t panel_step, float *to)
{
    for (int64_t panel = 0; panel < g->dy_panels; panel++, to += panel_step)
        pack_pixels(row + panel * ROWS, g->out, g->out_columns, g->out - panel * ROWS, ROWS, to);
}

static void pack_block(const struct geometry *g, const struct block *b, const float *x,
                       const float *dy, float *packed_x, float *packed_dy)
{
    const int64_t n_x = b->n_images * b->span_rows, n_dy = b->n_images * b->n_rows;
    const int64_t top = hrf_window_first(g->window, 0, b->first_row);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_x + n_dy; i++) {
        if (i < n_x) {
            const float *image = x +
                                 (b->first_image + i / b->span_rows) * g->rows * g->columns * g->in;
            pack_x(g, image, top + i % b->span_rows, x_floats(g),
                   packed_x + i * g->span_columns * COLUMNS);
        } else {
            const int64_t k = i - n_x, image = b->first_image + k / b->n_rows;
            const int64_t row = image * g->out_rows + b->first_row + k % b->n_rows;
            pack_dy(g, dy + row * g->out_columns * g->out, dy_floats(g),
                    packed_dy + k * g->out_columns * ROWS);
        }
    }
}

/* Runs a tile whose rows or columns do not all exist in memory of its own. */
static void run_at_edge(struct hrf_weight_tile *tile, int64_t n_rows, int64_t n_columns)
{
    float own[ROWS * COLUMNS], *sums = tile->sums;
    const int64_t stride = tile->stride;
    const bool is_first = tile->is_first;
    tile->sums = own;
    tile->stride = COLUMNS;
    tile->is_first = true;
    TILE(tile);
    for (int64_t i = 0; i < n_rows; i++)
        for (int64_t c = 0; c < n_columns; c++)
            sums[i * stride + c] = own[i * COLUMNS + c] + (is_first ? 0 : sums[i * stride + c]);
}

/* Rows that follow each other in x as they do in dy are one: windows of one pixel, side by side. */
static void join_rows(struct hrf_weight_tile *tile)
{
    if (tile->row_step != tile->columns * tile->column_step)
        return;
    tile->columns *= tile->rows;
    tile->rows = 1;
    if (tile->image_step != tile->columns * tile->column_step)
        return;
    tile->columns *= tile->images;
    tile->images = 1;
}

/* All elements of the window, of one panel of x and one of dy. */
static void compute_weights(const struct geometry *g, const struct block *b, int64_t of_x,
                            int64_t of_dy, const float *x, const float *dy, float *weights)
{
    const struct hrf_window *w = g->window;
    const int64_t n_taps = w->kernel[0] * w->kernel[1], row = g->span_columns * COLUMNS;
    const int64_t n_rows = hrf_min(g->out - of_dy * ROWS, ROWS);
    const int64_t n_columns = hrf_min(g->in - of_x * COLUMNS, COLUMNS);
    float *to = weights + of_dy * ROWS * n_taps * g->in + of_x * COLUMNS;
    for (int64_t tap = 0; tap < n_taps; tap++) {
        const int64_t y = tap / w->kernel[1] * w->dilation[0];
        const int64_t u = tap % w->kernel[1] * w->dilation[1];
        struct hrf_weight_tile tile = { .dy = dy,
                                        .x = x + y * row + u * COLUMNS,
                                        .images = b->n_images,
                                        .rows = b->n_rows,
                                        .columns = g->out_columns,
                                        .image_step = b->span_rows * row,
                                        .row_step = w->stride[0] * row,
                                        .column_step = w->stride[1] * COLUMNS,
                                        .sums = to + tap * g->in,
                                        .stride = n_taps * g->in,
                                        .is_first = b->first_image == 0 && b->first_row == 0 };
        join_rows(&tile);
        if (n_rows == ROWS && n_columns == COLUMNS)
            TILE(&tile);
        else
            run_at_edge(&tile, n_rows, n_columns);
    }
}

static void compute_block(const struct geometry *g, const struct block *b, const float *packed_x,
                          const float *packed_dy, float *weights)
{
    const int64_t n_groups = hrf_ceil_div(g->dy_panels, PANELS);
#pragma omp parallel for schedule(static)
    for (int64_t task = 0; task < g->x_panels * n_groups; task++) {
        const int64_t of_x = task / n_groups, first = task % n_groups * PANELS;
        const int64_t end = hrf_min(first + PANELS, g->dy_panels);
        for (int64_t of_dy = first; of_dy < end; of_dy++)
            compute_weights(g, b, of_x, of_dy, packed_x + of_x * x_floats(g),
                            packed_dy + of_dy * dy_floats(g), weights);
    }
}

void hrf_cpu_tiled_weight_gradient(const struct hrf_spec *spec, const struct hrf_kernel_call *call)
{
    const struct geometry g = geometry_of(spec);
    const float *x = hrf_spec_data(spec, call, 0), *dy = hrf_spec_data(spec, call, 1);
    float *packed_x = call->workspace, *packed_dy = packed_x + g.x_panels * x_floats(&g);
    struct block b = { 0 };
    for (b.first_image = 0; b.first_image < g.n_images; b.first_image += g.block_images)
        for (b.first_row = 0; b.first_row < g.out_rows; b.first_row += g.block_rows) {
            b.n_images = hrf_min(g.block_images, g.n_images - b.first_image);
            b.n_rows = hrf_min(g.block_rows, g.out_rows - b.first_row);
            b.span_rows = hrf_window_span(g.window, 0, b.n_rows);
            pack_block(&g, &b, x, dy, packed_x, packed_dy);
            compute_block(&g, &b, packed_x, packed_dy, hrf_floats(call));
        }
}
