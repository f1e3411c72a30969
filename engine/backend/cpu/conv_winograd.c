/* conv_winograd.c - 3x3 convolution of stride 1 or 2 by Winograd's transforms, own kernels.
 *
 * A part of the work is a block of tiles times a slice of the output channels: one thread reads
 * the block's tiles, runs a product for each point and writes the tiles, with nothing shared but
 * the weights. Of small weights a block is small, too, so that its scratch stays in the
 * second-level cache beside them. Large weights come from memory for each block: then there are as
 * few blocks as threads, and slices where those would be too small to hide the weights behind the
 * products.
 *
 * The scratch has a slot for each point's input and one more: point p's input lies in slot p + 1,
 * its product goes to slot p, whose input has been used by then. So products are written where
 * lines are still in the cache, and there is half as much scratch.
 */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/prologue.h"
#include "engine/backend/cpu/winograd.h"

#include <omp.h>
#include <string.h>

enum {
    LANES = 16,
    BLOCK_TILES = 14,             /* one tile of the product */
    LARGE_WEIGHT_BYTES = 3 << 20, /* beyond, they do not come fast enough for so few tiles */
    MIN_LARGE_BLOCK = 28,         /* tiles that hide them */
    LARGE_BLOCK_BYTES = 6 << 20,  /* of scratch, for each thread, in the shared cache */
    PITCH_SLACK = LANES,          /* keeps the points' streams off one set of the caches */
};

/* What differs between the strides. */
struct form {
    int64_t stride;
    int64_t out, in;                    /* rows, columns of a tile and of the pixels under it */
    int64_t n_points;                   /* products of a tile */
    int64_t n_phases;                   /* times the channels: the depth of a product, at most */
    int64_t n_products;                 /* times the channels: of all points */
    double input_cycles, output_cycles; /* of a tile's 16 channels: see winograd_cycles() */
};

static const struct form plain = {
    .stride = 1,
    .out = HRF_WINOGRAD_OUT,
    .in = HRF_WINOGRAD_IN,
    .n_points = HRF_WINOGRAD_POINTS,
    .n_phases = 1,
    .n_products = HRF_WINOGRAD_POINTS,
    .input_cycles = 168,
    .output_cycles = 130,
};

static const struct form strided = {
    .stride = 2,
    .out = HRF_STRIDED_OUT,
    .in = HRF_STRIDED_IN,
    .n_points = HRF_STRIDED_POINTS,
    .n_phases = HRF_STRIDED_PHASES,
    .n_products = HRF_STRIDED_PRODUCTS,
    .input_cycles = 250,
    .output_cycles = 90,
};

struct winograd_kernel {
    struct hrf_kernel base;
    const struct form *form;
    struct hrf_backend *backend; /* borrowed */
    int64_t n, rows, columns, channels, out_rows, out_columns, out_channels;
    int64_t pad[2];
    int64_t tile_rows, tile_columns, n_tiles;
    int64_t v_pitch, m_pitch; /* floats from one tile to the next, of one point */
    int64_t slot;             /* floats from one point to the next */
    int64_t block;            /* tiles, at most */
    int64_t n_blocks, n_slices;
    bool is_large; /* the weights, and scratch with them */
    enum hrf_dtype type, out_type;
    struct hrf_epilogue epilogue;
    bool has_residual;
    struct hrf_cpu_prologue prologue;
    float *weights;      /* packed, point by point */
    float *bias, *zeros; /* zeros: one pixel outside the image */
};

struct place {
    int64_t image, row, column; /* of the tile's first output */
};

static struct place place_of(const struct winograd_kernel *k, int64_t tile)
{
    const int64_t per_image = k->tile_rows * k->tile_columns;
    return (struct place){ .image = tile / per_image,
                           .row = tile % per_image / k->tile_columns * k->form->out,
                           .column = tile % k->tile_columns * k->form->out };
}

/* Of the next tile, without divisions: those of place_of() take as long as a few transforms. */
static void advance(const struct winograd_kernel *k, struct place *at)
{
    at->column += k->form->out;
    if (at->column < k->out_columns)
        return;
    at->column = 0;
    at->row += k->form->out;
    if (at->row < k->out_rows)
        return;
    at->row = 0;
    at->image++;
}

static struct hrf_winograd_phases phases_of(const struct form *f, int64_t point)
{
    return f->stride == 2 ? hrf_strided_phases(point)
                          : (struct hrf_winograd_phases){ .first = 0, .end = 1 };
}

static int64_t n_slots(const struct winograd_kernel *k)
{
    return k->form->n_points + 1;
}

static int64_t pixel_bytes(const struct winograd_kernel *k)
{
    return k->channels * (int64_t)hrf_dtype_size(k->type);
}

/* Bytes from x to a tile's first pixel, which may lie outside the image. */
static int64_t offset_of(const struct winograd_kernel *k, const struct place *at)
{
    const int64_t row = at->image * k->rows + at->row * k->form->stride - k->pad[0];
    return (row * k->columns + at->column * k->form->stride - k->pad[1]) * pixel_bytes(k);
}

static void read_tile(const struct winograd_kernel *k, const char *x, const struct place *at,
                      int64_t ahead, float *v)
{
    const char *pixels[HRF_WINOGRAD_POINTS]; /* the more of the two */
    const struct form *const f = k->form;
    const char *outside = hrf_cpu_prologue_is_there(&k->prologue) ? NULL : (const char *)k->zeros;
    const int64_t top = at->row * f->stride - k->pad[0], left = at->column * f->stride - k->pad[1];
    const int64_t pixel = pixel_bytes(k);
    const char *row = x + offset_of(k, at), **to = pixels;
    for (int64_t i = 0; i < f->in; i++, row += k->columns * pixel) {
        const bool row_is_there = top + i >= 0 && top + i < k->rows;
        for (int64_t j = 0; j < f->in; j++) {
            const bool inside = row_is_there && left + j >= 0 && left + j < k->columns;
            *to++ = inside ? row + j * pixel : outside;
        }
    }
    if (f->stride == 2)
        hrf_strided_input_avx512(k->type, pixels, k->channels, ahead, v, k->slot, k->is_large);
    else if (outside == NULL)
        hrf_winograd_prologue_avx512(k->type, pixels, k->channels, &k->prologue, v, k->slot,
                                     k->is_large);
    else
        hrf_winograd_input_avx512(k->type, pixels, k->channels, v, k->slot, k->is_large);
}

/* What one thread does at a time. */
struct part {
    int64_t first, n;        /* tiles */
    int64_t column, columns; /* output channels */
};

static struct part part_of(const struct winograd_kernel *k, int64_t i)
{
    const int64_t block = i % k->n_blocks, slice = i / k->n_blocks;
    const int64_t n_panels = hrf_ceil_div(k->out_channels, HRF_PANEL);
    struct part p = { .first = k->n_tiles * block / k->n_blocks,
                      .column = n_panels * slice / k->n_slices * HRF_PANEL };
    p.n = k->n_tiles * (block + 1) / k->n_blocks - p.first;
    const int64_t end = n_panels * (slice + 1) / k->n_slices * HRF_PANEL;
    p.columns = (end < k->out_channels ? end : k->out_channels) - p.column;
    return p;
}

static void write_tile(const struct winograd_kernel *k, const float *m, const struct place *at,
                       const struct part *p, const struct hrf_epilogue *epilogue, char *out)
{
    char *outputs[HRF_WINOGRAD_OUTPUTS], **to = outputs;
    const int64_t size = (int64_t)hrf_dtype_size(k->out_type), side = k->form->out;
    const int64_t pixel = k->out_channels * size, row_bytes = k->out_columns * pixel;
    char *row = out + (at->image * k->out_rows + at->row) * row_bytes + at->column * pixel +
                p->column * size;
    for (int64_t i = 0; i < side; i++, row += row_bytes)
        for (int64_t j = 0; j < side; j++) {
            const bool inside = at->row + i < k->out_rows && at->column + j < k->out_columns;
            *to++ = inside ? row + j * pixel : NULL;
        }
    if (k->form->stride == 2)
        hrf_strided_output_avx512(m, k->slot, p->columns, k->is_large, outputs, epilogue);
    else
        hrf_winograd_output_avx512(m, k->slot, p->columns, k->is_large, outputs, epilogue);
}

static void read_tiles(const struct winograd_kernel *k, const struct part *p, const char *x,
                       float *v)
{
    struct place at = place_of(k, p->first);
    for (int64_t i = 0; i < p->n; i++) {
        const struct place tile = at;
        advance(k, &at);
        read_tile(k, x, &tile, offset_of(k, &at) - offset_of(k, &tile), v + i * k->v_pitch);
    }
}

static void write_tiles(const struct winograd_kernel *k, const struct part *p, const float *m,
                        char *out)
{
    struct hrf_epilogue epilogue = k->epilogue;
    epilogue.bias += p->column;
    struct place at = place_of(k, p->first);
    for (int64_t i = 0; i < p->n; i++, advance(k, &at))
        write_tile(k, m + i * k->m_pitch, &at, p, &epilogue, out);
}

/* The image rows under a part's tiles. */
static struct hrf_ahead rows_under(const struct winograd_kernel *k, const char *x,
                                   const struct part *p)
{
    const struct place from = place_of(k, p->first), to = place_of(k, p->first + p->n - 1);
    const int64_t row_bytes = k->columns * pixel_bytes(k);
    const int64_t stride = k->form->stride;
    const int64_t begin = from.image * k->rows + from.row * stride;
    int64_t end = to.image * k->rows + (to.row + k->form->out) * stride + 1;
    end = end < k->n * k->rows ? end : k->n * k->rows;
    return (struct hrf_ahead){ .memory = x + begin * row_bytes,
                               .n_bytes = (end - begin) * row_bytes };
}

/* Between the products the thread asks for what it will read: the next point's input where that
 * has left the second level, and else its share of `next`. */
static void multiply(const struct winograd_kernel *k, const struct part *p, float *slots,
                     struct hrf_ahead next)
{
    static const struct hrf_epilogue as_is = { .type = HRF_F32, .activation = HRF_ACT_NONE };
    const int64_t n_points = k->form->n_points, n_bytes = next.n_bytes / n_points;
    const int64_t whole = hrf_ceil_div(k->out_channels, HRF_PANEL) * HRF_PANEL;
    const float *weights = k->weights;
    next.n_bytes = n_bytes;
    for (int64_t point = 0; point < n_points; point++, next.memory += n_bytes) {
        const struct hrf_winograd_phases phases = phases_of(k->form, point);
        const int64_t depth = (phases.end - phases.first) * k->channels;
        float *const m = slots + point * k->slot, *const v = m + k->slot;
        const struct hrf_ahead far = { .memory = (const char *)(v + k->slot),
                                       .n_bytes = p->n * k->v_pitch * (int64_t)sizeof(float),
                                       .weights_are_far = true };
        hrf_product_avx512(v + phases.first * k->channels, k->v_pitch, weights + p->column * depth,
                           depth, m, k->m_pitch, p->n, p->columns, &as_is,
                           k->is_large ? &far : &next);
        weights += whole * depth;
    }
}

/* A thread knows its next part before it begins one, and asks for its pixels meanwhile. */
static void run_parts(const struct winograd_kernel *k, const char *x, char *out, float *slots,
                      int64_t *n_taken)
{
    const int64_t n_parts = k->n_blocks * k->n_slices;
    for (int64_t i = omp_get_thread_num(), next; i < n_parts; i = next) {
#pragma omp atomic capture
        next = (*n_taken)++;
        const struct part part = part_of(k, i), after = part_of(k, next < n_parts ? next : i);
        read_tiles(k, &part, x, slots + k->slot);
        multiply(k, &part, slots, rows_under(k, x, &after));
        write_tiles(k, &part, slots, out);
    }
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    const struct winograd_kernel *k = (const struct winograd_kernel *)base;
    if (k->has_residual && call->inputs[HRF_CONV_RESIDUAL] != call->output)
        memcpy(call->output, call->inputs[HRF_CONV_RESIDUAL],
               (size_t)(k->n * k->out_rows * k->out_columns * k->out_channels) *
                   hrf_dtype_size(k->out_type));
    int64_t n_taken = 0;
#pragma omp parallel
    {
#pragma omp single
        n_taken = omp_get_num_threads(); /* the first ones go by number */
        run_parts(k, call->inputs[HRF_CONV_X], call->output,
                  (float *)call->workspace + omp_get_thread_num() * n_slots(k) * k->slot, &n_taken);
    }
    return HRF_OK;
}

static void destroy(struct hrf_kernel *base)
{
    struct winograd_kernel *k = (struct winograd_kernel *)base;
    hrf_free(k->weights);
    hrf_free(k->bias);
    hrf_free(k->zeros);
    hrf_cpu_prologue_release(&k->prologue);
    hrf_free(k);
}

/* In cycles of one thread, from the machine's own limits: 32 multiply-adds a cycle at 85 %, the
 * transforms' instructions one a cycle (they wait for memory; of stride 2 what was measured, whose
 * pixels come from beyond the second-level cache), weights at what a core reads from
 * main memory: 5 bytes a cycle. With few tiles the last decides, as there are four times as many
 * transformed weights (measured: one image of 512 channels at 8x8, 3.7 ms against 2.9). */
enum { WEIGHT_BYTES_PER_CYCLE = 5 };

static double weight_cycles(double n_weights)
{
    return n_weights * sizeof(float) / WEIGHT_BYTES_PER_CYCLE;
}

static int64_t count_tiles(const struct form *f, const struct hrf_shape *y)
{
    return y->dims[0] * hrf_ceil_div(y->dims[2], f->out) * hrf_ceil_div(y->dims[3], f->out);
}

static double winograd_cycles(const struct form *f, const struct hrf_shape *y, int64_t c,
                              int32_t n_threads)
{
    const int64_t m = y->dims[1];
    const double tiles = (double)count_tiles(f, y), products = (double)(c * m * f->n_products);
    const double transforms = tiles * (f->input_cycles * (double)c + f->output_cycles * (double)m) /
                              LANES;
    return (tiles * products / (32 * 0.85) + transforms + weight_cycles(products)) / n_threads;
}

static const struct form *form_of(const struct hrf_window *w)
{
    return w->stride[0] == 2 ? &strided : &plain;
}

static double direct_cycles(const struct hrf_shape *y, int64_t c, int32_t n_threads)
{
    const double pixels = (double)(y->dims[0] * y->dims[2] * y->dims[3]);
    const double products = (double)c * (double)y->dims[1] * 9;
    return (pixels * products / (32 * 0.9) + weight_cycles(products)) / n_threads;
}

bool hrf_cpu_winograd_fits(const struct hrf_backend *backend, const struct hrf_graph *graph,
                           const struct hrf_node *node)
{
    const struct hrf_window *w = &node->attributes.window;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_shape *k = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    const struct form *f = form_of(w);
    const bool square = k->dims[2] == 3 && k->dims[3] == 3 && w->stride[0] == f->stride &&
                        w->stride[1] == f->stride && w->dilation[0] == 1 && w->dilation[1] == 1;
    if (!hrf_cpu_has_avx512() || !hrf_cpu_types_fit(graph, node) ||
        !hrf_cpu_comes_at_run_time(graph, node) || !square || node->attributes.group != 1 ||
        x->dims[1] % LANES != 0 || y->dims[1] % LANES != 0 || hrf_shape_count(y) == 0 ||
        (f->stride == 2 && hrf_node_has_prologue(node)))
        return false;
    return winograd_cycles(f, y, x->dims[1], backend->n_threads) <
           direct_cycles(y, x->dims[1], backend->n_threads);
}

/* Of each point [m][its phases][c]. */
static void transform_weights(const struct winograd_kernel *k, const float *w, float *point_major)
{
    const int64_t pairs = k->channels * k->out_channels;
    for (int64_t i = 0; i < pairs; i++) { /* w is [m][c][3][3] */
        double u[HRF_WINOGRAD_POINTS];    /* the more of the two */
        const double *from = u;
        float *to = point_major;
        if (k->form->stride == 2)
            hrf_strided_weights(w + i * 9, u);
        else
            hrf_winograd_weights(w + i * 9, 3, u);
        for (int64_t point = 0; point < k->form->n_points; point++) {
            const struct hrf_winograd_phases phases = phases_of(k->form, point);
            const int64_t n = phases.end - phases.first;
            float *const row = to + i / k->channels * n * k->channels + i % k->channels;
            for (int64_t phase = 0; phase < n; phase++)
                row[phase * k->channels] = (float)*from++;
            to += n * pairs;
        }
    }
}

static void pack_weights(struct winograd_kernel *k, const float *point_major)
{
    float *packed = k->weights;
    for (int64_t point = 0; point < k->form->n_points; point++) {
        const struct hrf_winograd_phases phases = phases_of(k->form, point);
        const int64_t depth = (phases.end - phases.first) * k->channels;
        hrf_product_pack(point_major, 1, depth, depth, k->out_channels, packed);
        point_major += depth * k->out_channels;
        packed += hrf_product_packed_count(depth, k->out_channels);
    }
}

static enum hrf_status prepare_constants(struct winograd_kernel *k, const struct hrf_graph *graph,
                                         const struct hrf_node *node, struct hrf_error *err)
{
    const size_t n_products = (size_t)k->form->n_products;
    const size_t n_bytes = hrf_product_packed_count(k->channels, k->out_channels) * n_products *
                           sizeof(float);
    const size_t out_channels = (size_t)k->out_channels, channels = (size_t)k->channels;
    HRF_AUTO_FREE float *point_major = hrf_alloc_array(n_products * out_channels * channels,
                                                       sizeof(float));
    k->weights = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    k->zeros = hrf_calloc(channels, sizeof(float));
    k->bias = hrf_calloc(out_channels, sizeof(float));
    if (point_major == NULL || k->weights == NULL || k->zeros == NULL || k->bias == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "weights of node '%s': %zu bytes", node->name,
                             n_bytes);
    HRF_TRY(hrf_cpu_prologue_init(&k->prologue, graph, node, err));
    transform_weights(k, graph->values[node->inputs[HRF_CONV_WEIGHTS]].data, point_major);
    pack_weights(k, point_major);
    const float *bias = hrf_cpu_constant(graph, node, HRF_CONV_BIAS);
    if (bias != NULL)
        memcpy(k->bias, bias, out_channels * sizeof(float));
    k->base.weight_bytes = n_bytes + out_channels * sizeof(float);
    return HRF_OK;
}

static void choose_blocks(struct winograd_kernel *k)
{
    const int64_t n_threads = k->backend->n_threads;
    const int64_t n_panels = hrf_ceil_div(k->out_channels, HRF_PANEL);
    const int64_t weight_bytes = k->channels * k->out_channels * k->form->n_products *
                                 (int64_t)sizeof(float);
    k->v_pitch = k->form->n_phases * k->channels + PITCH_SLACK;
    const int64_t v_floats = k->form->n_products * k->channels;
    const int64_t m_floats = k->form->n_points * k->out_channels;
    const int64_t most = v_floats > m_floats ? v_floats : m_floats;
    const int64_t tile_bytes = /* that are touched */
        (most + n_slots(k) * PITCH_SLACK) * (int64_t)sizeof(float);
    k->is_large = weight_bytes > LARGE_WEIGHT_BYTES;
    int64_t block = BLOCK_TILES;
    if (k->is_large && LARGE_BLOCK_BYTES / tile_bytes > block)
        block = LARGE_BLOCK_BYTES / tile_bytes;
    int64_t n_blocks = hrf_ceil_div(k->n_tiles, block);
    if (!k->is_large || k->n_tiles / n_threads >= MIN_LARGE_BLOCK)
        n_blocks = hrf_ceil_div(n_blocks, n_threads) * n_threads; /* as many for each thread */
    else if (k->n_tiles / MIN_LARGE_BLOCK > n_blocks)
        n_blocks = k->n_tiles / MIN_LARGE_BLOCK;
    k->n_slices = k->is_large ? hrf_least(hrf_ceil_div(n_threads, n_blocks), n_panels) : 1;
    k->block = hrf_ceil_div(k->n_tiles, n_blocks);
    k->n_blocks = hrf_ceil_div(k->n_tiles, k->block);
    k->m_pitch = hrf_least(hrf_ceil_div(n_panels, k->n_slices) * HRF_PANEL, k->out_channels) +
                 PITCH_SLACK;
    k->slot = k->block * (k->v_pitch > k->m_pitch ? k->v_pitch : k->m_pitch) + PITCH_SLACK;
    k->base.workspace_bytes = (size_t)(n_threads * n_slots(k) * k->slot) * sizeof(float);
}

enum hrf_status hrf_cpu_winograd_compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                                         const struct hrf_node *node, struct hrf_kernel **out,
                                         struct hrf_error *err)
{
    const enum hrf_dtype x_type = graph->values[node->inputs[HRF_CONV_X]].dtype;
    struct winograd_kernel *k = hrf_calloc(1, sizeof *k);
    if (k == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    k->base = (struct hrf_kernel){ .run = run, .destroy = destroy };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    k->backend = backend;
    k->form = form_of(&node->attributes.window);
    k->type = x_type;
    k->base.implementation = k->form == &plain
                                 ? HRF_CPU_NAME(x_type, "winograd_4x4:avx512")
                                 : HRF_CPU_NAME(x_type, "winograd_2x2_stride_2:avx512");
    k->out_type = graph->values[node->outputs[0]].dtype;
    k->n = y->dims[0];
    k->channels = x->dims[1];
    k->rows = x->dims[2];
    k->columns = x->dims[3];
    k->out_channels = y->dims[1];
    k->out_rows = y->dims[2];
    k->out_columns = y->dims[3];
    k->pad[0] = node->attributes.window.pad_begin[0];
    k->pad[1] = node->attributes.window.pad_begin[1];
    k->tile_rows = hrf_ceil_div(k->out_rows, k->form->out);
    k->tile_columns = hrf_ceil_div(k->out_columns, k->form->out);
    k->n_tiles = count_tiles(k->form, y);
    k->has_residual = node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0;
    choose_blocks(k);
    HRF_TRY(prepare_constants(k, graph, node, err));
    k->epilogue = hrf_cpu_epilogue(&node->attributes, k->out_type, k->bias, k->has_residual);
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
