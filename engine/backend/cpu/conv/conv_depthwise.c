/* conv_depthwise.c - convolution with as many groups as channels, own kernels in every precision.
 *
 * The work is cut into images, bands of output rows, strips of columns and groups of channels. For
 * each of these parts a thread keeps the input rows that a window covers in a ring of lines, as
 * floats and with zeros where the image ends: a row is widened once for all windows that it is
 * part of. Lines are in blocks of 16 channels, so that a ring stays in the first-level cache.
 *
 * The rows may also come from the product before it (row_source.h), which makes them as they are
 * needed: a part has as many channels as the product has columns in a panel, and its ring stays in
 * the second-level cache. The first rows of a band are then made for the band above it, too.
 */
#include "engine/backend/cpu/conv/depthwise.h"
#include "engine/backend/cpu/conv/row_source.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/part_queues.h"

#include <omp.h>
#include <string.h>

enum {
    LANES = HRF_DEPTHWISE_LANES,
    RING_BYTES = 40 * 1024, /* of the first-level cache */
    STRIP = 24,             /* outputs of a strip, where the image has more */
    MOST_BLOCKS = 16,       /* of a group of channels */
    PARTS = 8,              /* for each thread, where the image is large enough */
    MOST_WINDOW_ROWS = 64,
    MOST_SPAN = 1024, /* columns of a window */
    /* Where another kernel makes the rows: */
    SOURCE_STRIP = 128,        /* outputs of a strip: the columns that strips share count little */
    SOURCE_PIXELS = 96,        /* to make at once, at least */
    SOURCE_BYTES = 512 * 1024, /* of a thread's scratch: half of the second level */
    SOURCE_SHARE = 12,         /* one of so many rows may be made twice */
};

/* The inner loops of one instruction set. */
struct loops {
    void (*widen)(const struct hrf_depthwise_pixels *pixels, const void *x, int64_t n,
                  int64_t n_channels, float *to, int64_t block_step);
    void (*line)(const struct hrf_depthwise_line *line, const struct hrf_depthwise_finish *finish,
                 float *sums);
};

/* How the work is cut into parts. */
struct cut {
    int64_t band_rows, n_bands, strip_columns, n_strips;
    int64_t group_blocks, n_groups; /* of channels; group_blocks: at most */
    int64_t n_slots;                /* rows of the ring */
    int64_t block_step;             /* floats from block to block of a line */
    bool has_source;                /* groups are panels of the product that makes the rows */
    int64_t made_rows;              /* that it makes at once */
};

struct depthwise_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    struct loops loops;
    struct hrf_spec *spec;
    struct hrf_depthwise_pixels in;
    int64_t n_images, rows, columns, out_rows, out_columns, channels;
    int64_t kernel[2], stride[2], dilation[2], pad[2];
    struct cut own, from_source;
    struct hrf_epilogue epilogue;
    bool has_bf16;
    struct hrf_requantize *requantize; /* NULL for floats */
    float *weights;                    /* [blocks][window rows][window columns][LANES] */
    float *bias, *multiplier;          /* [blocks][LANES] */
};

/* ---- running ---- */

struct part {
    int64_t image, row, n_rows, column, n_columns, block, n_blocks, channels, group;
    float *ring, *sums;
    char *made; /* rows of the source */
};

/* What a run works on. */
struct work {
    const struct depthwise_kernel *kernel;
    const struct hrf_kernel_call *call;
    const struct cut *cut;
    const struct hrf_cpu_row_source *source; /* NULL: the rows are in memory */
};

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

static int64_t row_span(const struct depthwise_kernel *k)
{
    return (k->kernel[0] - 1) * k->dilation[0] + 1;
}

static int64_t window_columns(const struct depthwise_kernel *k, int64_t n_columns)
{
    return (n_columns - 1) * k->stride[1] + (k->kernel[1] - 1) * k->dilation[1] + 1;
}

static int64_t ring_floats(const struct cut *c)
{
    return c->n_slots * c->group_blocks * c->block_step;
}

static int64_t sums_floats(const struct cut *c)
{
    return c->strip_columns * LANES;
}

/* Columns of the image that a source makes for a strip, at most. */
static int64_t made_columns(const struct depthwise_kernel *k, const struct cut *c)
{
    return c->n_strips == 1 ? k->columns
                            : hrf_least(k->columns, window_columns(k, c->strip_columns));
}

static size_t scratch_bytes(const struct depthwise_kernel *k, const struct cut *c)
{
    const int64_t made = c->made_rows * made_columns(k, c) * c->group_blocks * LANES;
    return (size_t)(ring_floats(c) + sums_floats(c) + (c->has_source ? made : 0)) * sizeof(float);
}

static int64_t count_parts(const struct depthwise_kernel *k, const struct cut *c)
{
    return k->n_images * c->n_bands * c->n_strips * c->n_groups;
}

static struct part part_of(const struct work *w, int64_t i, float *scratch)
{
    const struct depthwise_kernel *k = w->kernel;
    const struct cut *c = w->cut;
    const int64_t group = i % c->n_groups, strip = i / c->n_groups % c->n_strips;
    const int64_t band = i / (c->n_groups * c->n_strips) % c->n_bands;
    const int64_t n_blocks = hrf_ceil_div(k->channels, LANES);
    struct part p = { .image = i / (c->n_groups * c->n_strips * c->n_bands),
                      .row = band * c->band_rows,
                      .column = strip * c->strip_columns,
                      .group = group,
                      .ring = scratch,
                      .sums = scratch + ring_floats(c) };
    p.made = (char *)(p.sums + sums_floats(c));
    p.block = c->has_source ? hrf_product_panel_begin(k->channels, group) / LANES
                            : group * c->group_blocks;
    p.n_blocks = c->has_source
                     ? hrf_ceil_div(hrf_product_panel_begin(k->channels, group + 1), LANES) -
                           p.block
                     : hrf_least(c->group_blocks, n_blocks - p.block);
    p.n_rows = hrf_least(c->band_rows, k->out_rows - p.row);
    p.n_columns = hrf_least(c->strip_columns, k->out_columns - p.column);
    p.channels = hrf_least(p.n_blocks * LANES, k->channels - p.block * LANES);
    return p;
}

/* Where row y of the image stands in the ring, which is not negative. */
static float *slot(const struct cut *c, const struct part *p, int64_t y)
{
    return p->ring + y % c->n_slots * c->group_blocks * c->block_step;
}

/* Columns of a part's lines, [begin, end) of them in the image, whose column `left` is the first.
 */
struct span {
    int64_t n, left, begin, end;
};

static struct span span_of(const struct depthwise_kernel *k, const struct part *p)
{
    struct span s = { .n = window_columns(k, p->n_columns),
                      .left = p->column * k->stride[1] - k->pad[1] };
    s.begin = clamp(-s.left, 0, s.n);
    s.end = clamp(k->columns - s.left, s.begin, s.n);
    return s;
}

/* x: the first of the part's channels, of the line's first pixel inside the image. */
static void fill_row(const struct work *w, const struct part *p, const struct span *s,
                     const struct hrf_depthwise_pixels *pixels, const char *x, int64_t y)
{
    const struct cut *c = w->cut;
    float *to = slot(c, p, y);
    for (int64_t b = 0; b < p->n_blocks; b++) {
        float *line = to + b * c->block_step;
        memset(line, 0, (size_t)(s->begin * LANES) * sizeof *line);
        memset(line + s->end * LANES, 0, (size_t)((s->n - s->end) * LANES) * sizeof *line);
    }
    if (s->end > s->begin)
        w->kernel->loops.widen(pixels, x, s->end - s->begin, p->channels, to + s->begin * LANES,
                               c->block_step);
}

static void fill_from_image(const struct work *w, const struct part *p, const struct span *s,
                            int64_t y)
{
    const struct depthwise_kernel *k = w->kernel;
    const int64_t pixel = (p->image * k->rows + y) * k->columns + s->left + s->begin;
    const char *x = w->call->inputs[HRF_CONV_X];
    fill_row(w, p, s, &k->in,
             x + (pixel * k->channels + p->block * LANES) * (int64_t)hrf_dtype_size(k->in.type), y);
}

/* The rows [y, end), as made by the source: whole ones at once, of a strip row by row. */
static void fill_from_source(const struct work *w, const struct part *p, const struct span *s,
                             int64_t y, int64_t end)
{
    const struct depthwise_kernel *k = w->kernel;
    const bool is_whole = w->cut->n_strips == 1;
    const int64_t left = is_whole ? 0 : s->left + s->begin;
    const int64_t n = is_whole ? k->columns : s->end - s->begin;
    const int64_t first = (p->image * k->rows + y) * k->columns + left;
    const struct hrf_depthwise_pixels pixels = { .type = k->in.type, .stride = p->channels };
    const int64_t pixel_bytes = p->channels * (int64_t)hrf_dtype_size(k->in.type);
    if (is_whole)
        w->source->make(w->source, first, n * (end - y), p->group, p->made);
    for (int64_t i = 0; i < end - y; i++) {
        char *row = p->made + i * n * pixel_bytes;
        if (!is_whole && n > 0)
            w->source->make(w->source, first + i * k->columns, n, p->group, row);
        fill_row(w, p, s, &pixels, row + (s->left + s->begin - left) * pixel_bytes, y + i);
    }
}

/* Of one block, one row of outputs. */
static void run_line(const struct work *w, const struct part *p, int64_t row, int64_t b)
{
    const struct depthwise_kernel *k = w->kernel;
    const struct hrf_kernel_call *call = w->call;
    const float *rows[MOST_WINDOW_ROWS];
    const int64_t top = row * k->stride[0] - k->pad[0], block = p->block + b;
    const int64_t first = ((p->image * k->out_rows + row) * k->out_columns + p->column) *
                              k->channels +
                          block * LANES;
    for (int64_t r = 0; r < k->kernel[0]; r++) {
        const int64_t y = top + r * k->dilation[0];
        rows[r] = y >= 0 && y < k->rows ? slot(w->cut, p, y) + b * w->cut->block_step : NULL;
    }
    const struct hrf_depthwise_line line = {
        .rows = rows,
        .weights = k->weights + block * k->kernel[0] * k->kernel[1] * LANES,
        .window_rows = k->kernel[0],
        .window_columns = k->kernel[1],
        .dilation = k->dilation[1],
        .stride = k->stride[1],
        .n = p->n_columns,
    };
    const struct hrf_operand *y = &k->spec->output;
    const bool adds = hrf_spec_has(k->spec, HRF_CONV_RESIDUAL);
    const enum hrf_dtype residual = adds ? k->spec->inputs[HRF_CONV_RESIDUAL].dtype : HRF_F32;
    const struct hrf_depthwise_finish finish = {
        .n = p->n_columns,
        .n_channels = hrf_least(LANES, k->channels - block * LANES),
        .y = (char *)call->output + first * (int64_t)hrf_dtype_size(y->dtype),
        .residual = adds ? (const char *)call->inputs[HRF_CONV_RESIDUAL] +
                               first * (int64_t)hrf_dtype_size(residual)
                         : NULL,
        .stride = k->channels,
        .ahead = k->out_columns * k->channels * (int64_t)hrf_dtype_size(y->dtype),
        .type = y->dtype,
        .residual_type = residual,
        .bias = k->bias + block * LANES,
        .epilogue = &k->epilogue,
        .has_bf16 = k->has_bf16,
        .requantize = k->requantize,
        .multiplier = k->multiplier + block * LANES,
        .zero_point = y->quantization.zero_point,
    };
    k->loops.line(&line, &finish, p->sums);
}

static void run_part(const struct work *w, const struct part *p)
{
    const struct depthwise_kernel *k = w->kernel;
    const struct span s = span_of(k, p);
    const int64_t last = (p->row + p->n_rows - 1) * k->stride[0] - k->pad[0] + row_span(k);
    const int64_t end_row = hrf_least(last, k->rows);
    int64_t filled = 0; /* rows before it are in the ring or no longer needed */
    for (int64_t row = p->row; row < p->row + p->n_rows; row++) {
        const int64_t top = row * k->stride[0] - k->pad[0];
        const int64_t end = hrf_least(top + row_span(k), k->rows);
        filled = filled > top ? filled : top;
        while (filled < end) {
            const int64_t next = hrf_least(filled + w->cut->made_rows, end_row);
            if (w->source != NULL)
                fill_from_source(w, p, &s, filled, next);
            else
                fill_from_image(w, p, &s, filled);
            filled = next;
        }
        for (int64_t b = 0; b < p->n_blocks; b++)
            run_line(w, p, row, b);
    }
}

static void run_parts(const struct work *w)
{
    const struct depthwise_kernel *k = w->kernel;
    const struct hrf_part_queues parts = hrf_part_queues_begin(
        w->call->workspace, k->backend->n_threads, count_parts(k, w->cut));
#pragma omp parallel
    {
        char *const scratch = (char *)(parts.of + parts.n_threads) +
                              (size_t)omp_get_thread_num() * scratch_bytes(k, w->cut);
        for (int64_t i; (i = hrf_part_queues_take(&parts)) >= 0;) {
            const struct part part = part_of(w, i, (float *)(void *)scratch);
            run_part(w, &part);
        }
    }
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    const struct depthwise_kernel *k = (const struct depthwise_kernel *)base;
    run_parts(&(struct work){ .kernel = k, .call = call, .cut = &k->own });
    return HRF_OK;
}

bool hrf_cpu_depthwise_takes_source(const struct hrf_kernel *kernel)
{
    const struct depthwise_kernel *k = (const struct depthwise_kernel *)kernel;
    return kernel->run == run && k->from_source.has_source;
}

void hrf_cpu_depthwise_run_source(const struct hrf_kernel *kernel,
                                  const struct hrf_kernel_call *call,
                                  const struct hrf_cpu_row_source *source)
{
    const struct depthwise_kernel *k = (const struct depthwise_kernel *)kernel;
    run_parts(
        &(struct work){ .kernel = k, .call = call, .cut = &k->from_source, .source = source });
}

static void destroy(struct hrf_kernel *base)
{
    struct depthwise_kernel *k = (struct depthwise_kernel *)base;
    hrf_spec_destroy(k->spec);
    hrf_requantize_destroy(k->requantize);
    hrf_free(k->weights);
    hrf_free(k->bias);
    hrf_free(k->multiplier);
    hrf_free(k);
}

/* ---- making one ---- */

static void take_shapes(struct depthwise_kernel *k)
{
    const struct hrf_operand *x = &k->spec->inputs[HRF_CONV_X];
    const struct hrf_shape *w = &k->spec->inputs[HRF_CONV_WEIGHTS].shape,
                           *y = &k->spec->output.shape;
    const struct hrf_window *window = &k->spec->attributes.window;
    k->n_images = x->shape.dims[0];
    k->channels = x->shape.dims[1];
    k->rows = x->shape.dims[2];
    k->columns = x->shape.dims[3];
    k->out_rows = y->dims[2];
    k->out_columns = y->dims[3];
    k->in = (struct hrf_depthwise_pixels){ .type = x->dtype,
                                           .zero_point = x->quantization.zero_point,
                                           .stride = k->channels };
    k->in.ahead = k->columns * k->channels * (int64_t)hrf_dtype_size(x->dtype);
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        k->kernel[i] = w->dims[2 + i];
        k->stride[i] = window->stride[i];
        k->dilation[i] = window->dilation[i];
        k->pad[i] = window->pad_begin[i];
    }
}

static bool is_integer(enum hrf_dtype type)
{
    return type == HRF_S8 || type == HRF_U8;
}

static void choose_strips(const struct depthwise_kernel *k, int64_t most, struct cut *c)
{
    c->n_strips = hrf_ceil_div(k->out_columns, most);
    c->strip_columns = hrf_ceil_div(k->out_columns, c->n_strips);
    c->n_strips = hrf_ceil_div(k->out_columns, c->strip_columns);
    c->block_step = window_columns(k, c->strip_columns) * LANES;
}

static void choose_bands(const struct depthwise_kernel *k, int64_t n_bands, struct cut *c)
{
    c->band_rows = hrf_ceil_div(k->out_rows, n_bands);
    c->n_bands = hrf_ceil_div(k->out_rows, c->band_rows);
}

/* Parts of about the same size, several for each thread. */
static void choose_own_cut(const struct depthwise_kernel *k, struct cut *c)
{
    const int64_t n_blocks = hrf_ceil_div(k->channels, LANES), n_threads = k->backend->n_threads;
    const int64_t most = hrf_least(k->n_images * n_blocks, 1 << 20); /* without bands and strips */
    c->made_rows = 1;
    c->n_slots = hrf_least(row_span(k), k->rows);
    choose_strips(k, STRIP, c);
    const int64_t fit = RING_BYTES / (c->n_slots * c->block_step * (int64_t)sizeof(float));
    const int64_t fair = hrf_ceil_div(most * c->n_strips, PARTS * n_threads);
    c->group_blocks = clamp(hrf_least(fit, fair), 1, MOST_BLOCKS);
    c->n_groups = hrf_ceil_div(n_blocks, c->group_blocks);
    c->group_blocks = hrf_ceil_div(n_blocks, c->n_groups);
    c->n_groups = hrf_ceil_div(n_blocks, c->group_blocks);
    const int64_t n_parts = k->n_images * c->n_strips * c->n_groups;
    choose_bands(k,
                 clamp(hrf_ceil_div(PARTS * n_threads, n_parts), 1,
                       hrf_ceil_div(k->out_rows * k->stride[0], 2 * c->n_slots)),
                 c);
}

/* As few bands as share out the images evenly, each with all of its channels, so that a thread
 * leaves whole pixels to the next layer; where that takes too many bands, channels are shared out,
 * too. */
static int64_t bands_of_source(const struct depthwise_kernel *k, const struct cut *c)
{
    const int64_t n_threads = k->backend->n_threads, overlap = row_span(k) - k->stride[0];
    const int64_t most = overlap > 0 ? 1 + k->rows / (SOURCE_SHARE * overlap) : k->out_rows;
    for (int64_t n = 1; n <= most; n++)
        if (hrf_part_queues_are_even(k->n_images * n, n_threads))
            return n;
    for (int64_t n = 1; n <= most; n++)
        if (hrf_part_queues_are_even(k->n_images * n * c->n_strips * c->n_groups, n_threads))
            return n;
    return most;
}

static void choose_source_cut(const struct depthwise_kernel *k, struct cut *c)
{
    const int64_t span = row_span(k);
    choose_strips(k, SOURCE_STRIP, c);
    c->n_groups = hrf_product_count_panels(k->channels);
    c->group_blocks = hrf_least(HRF_PANEL / LANES, hrf_ceil_div(k->channels, LANES));
    c->made_rows = clamp(hrf_ceil_div(SOURCE_PIXELS, made_columns(k, c)), 1, k->rows);
    c->n_slots = hrf_least(span + c->made_rows - 1, k->rows);
    choose_bands(k, bands_of_source(k, c), c);
    c->has_source = true;
    c->has_source = !is_integer(k->in.type) && scratch_bytes(k, c) <= SOURCE_BYTES;
}

static void choose_cuts(struct depthwise_kernel *k)
{
    choose_own_cut(k, &k->own);
    choose_source_cut(k, &k->from_source);
    size_t scratch = scratch_bytes(k, &k->own);
    if (k->from_source.has_source && scratch_bytes(k, &k->from_source) > scratch)
        scratch = scratch_bytes(k, &k->from_source);
    k->base.workspace_bytes = (size_t)k->backend->n_threads *
                              (sizeof(struct hrf_part_queue) + scratch);
}

/* [channel][area] to [block][area][LANES]. */
static void pack_weights(struct depthwise_kernel *k)
{
    const struct hrf_operand *w = &k->spec->inputs[HRF_CONV_WEIGHTS];
    const int64_t area = k->kernel[0] * k->kernel[1];
    for (int64_t c = 0; c < k->channels; c++)
        for (int64_t i = 0; i < area; i++)
            k->weights[(c / LANES * area + i) * LANES + c % LANES] =
                w->dtype == HRF_S8 ? (float)((const int8_t *)w->constant)[c * area + i]
                                   : ((const float *)w->constant)[c * area + i];
}

static enum hrf_status prepare_constants(struct depthwise_kernel *k, struct hrf_error *err)
{
    struct hrf_operand *w = &k->spec->inputs[HRF_CONV_WEIGHTS];
    const int64_t n_lanes = hrf_ceil_div(k->channels, LANES) * LANES;
    const size_t n_weights = (size_t)(n_lanes * k->kernel[0] * k->kernel[1]);
    const size_t n_bytes = n_weights * sizeof(float);
    k->weights = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    k->bias = hrf_calloc((size_t)n_lanes, sizeof(float));
    k->multiplier = hrf_calloc((size_t)n_lanes, sizeof(float));
    if (k->weights == NULL || k->bias == NULL || k->multiplier == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "weights of node '%s': %zu bytes", k->spec->name,
                             n_bytes);
    memset(k->weights, 0, n_bytes);
    pack_weights(k);
    hrf_free(w->constant); /* the packed copy is the one that is used */
    w->constant = NULL;
    const float *bias = hrf_spec_has(k->spec, HRF_CONV_BIAS)
                            ? k->spec->inputs[HRF_CONV_BIAS].constant
                            : NULL;
    if (is_integer(k->in.type)) {
        HRF_TRY(hrf_requantize_create(k->spec, &k->requantize, err));
        bias = k->requantize->bias;
        memcpy(k->multiplier, k->requantize->multiplier, (size_t)k->channels * sizeof(float));
    }
    if (bias != NULL)
        memcpy(k->bias, bias, (size_t)k->channels * sizeof(float));
    k->base.weight_bytes = n_bytes + 2 * (size_t)n_lanes * sizeof(float);
    return HRF_OK;
}

static const char *choose_loops(struct depthwise_kernel *k)
{
    const enum hrf_dtype type = k->in.type == HRF_F32 ? k->spec->output.dtype : k->in.type;
#ifdef HRF_BUILD_AVX512
    if (hrf_cpu_has_avx512()) {
        k->loops = (struct loops){ hrf_depthwise_widen_avx512, hrf_depthwise_line_avx512 };
        return k->requantize != NULL ? "depthwise:avx512 int8"
                                     : HRF_CPU_NAME(type, "depthwise:avx512");
    }
#endif
#ifdef HRF_BUILD_AVX2
    k->loops = (struct loops){ hrf_depthwise_widen_avx2, hrf_depthwise_line_avx2 };
    return k->requantize != NULL ? "depthwise:avx2 int8" : HRF_CPU_NAME(type, "depthwise:avx2");
#else
    k->loops = (struct loops){ hrf_depthwise_widen_plain, hrf_depthwise_line_plain };
    return k->requantize != NULL ? "depthwise int8" : HRF_CPU_NAME(type, "depthwise");
#endif
}

bool hrf_cpu_depthwise_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    if (node->op != HRF_OP_CONV || x->shape.rank != 4 || !hrf_cpu_comes_at_run_time(graph, node) ||
        hrf_node_has_prologue(node) || node->attributes.group != x->shape.dims[1] ||
        y->shape.dims[1] != x->shape.dims[1] || hrf_shape_count(&y->shape) <= 0)
        return false;
    const struct hrf_value *weights = &graph->values[node->inputs[HRF_CONV_WEIGHTS]];
    const int64_t area = weights->shape.dims[2] * weights->shape.dims[3];
    if (weights->data == NULL || weights->shape.dims[2] > MOST_WINDOW_ROWS ||
        (weights->shape.dims[3] - 1) * node->attributes.window.dilation[1] > MOST_SPAN)
        return false;
    if (!is_integer(x->dtype))
        return hrf_cpu_types_fit(graph, node) && weights->dtype == HRF_F32;
    const bool adds = node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0;
    return area <= HRF_DEPTHWISE_MOST_8BIT && weights->dtype == HRF_S8 &&
           (is_integer(y->dtype) || y->dtype == HRF_F32) &&
           (!adds || is_integer(graph->values[node->inputs[HRF_CONV_RESIDUAL]].dtype));
}

enum hrf_status hrf_cpu_depthwise_compile(struct hrf_backend *backend,
                                          const struct hrf_graph *graph,
                                          const struct hrf_node *node, struct hrf_kernel **out,
                                          struct hrf_error *err)
{
    struct depthwise_kernel *k = hrf_calloc(1, sizeof *k);
    if (k == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    k->base = (struct hrf_kernel){ .run = run, .destroy = destroy };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    k->backend = backend;
    HRF_TRY(hrf_spec_create(graph, node, &k->spec, err));
    take_shapes(k);
    choose_cuts(k);
    HRF_TRY(prepare_constants(k, err));
    k->epilogue = hrf_cpu_epilogue(&node->attributes, k->spec->output.dtype, k->bias, false);
    k->has_bf16 = hrf_cpu_has_avx512_bf16();
    k->base.implementation = choose_loops(k);
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
