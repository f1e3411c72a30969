/* conv_depthwise.c - depth-wise convolution (as many groups as channels) by own kernels, in every
 * precision.
 *
 * The work is cut into images, bands of output rows, strips of columns and slices of the channels.
 * For each part a thread keeps the input rows under a window in a ring buffer of lines
 * (conv_lines.h), as floats and zero-padded, so that a row is widened once for all windows that
 * read it. Lines are in blocks of 16 channels, so that the ring stays in the L1 cache.
 *
 * The rows may also come from the preceding 1x1 convolution (row_source.h), which computes them as
 * they are needed: a part then has as many channels as the product has columns in a panel, and its
 * ring stays in the L2 cache. The rows that two bands share are computed twice.
 */
#include "engine/backend/cpu/conv/conv_lines.h"
#include "engine/backend/cpu/conv/depthwise.h"
#include "engine/backend/cpu/conv/row_source.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/part_queues.h"

#include <string.h>

enum {
    LANES = HRF_DEPTHWISE_LANES,
    RING_BYTES = 40 * 1024, /* of the first-level cache */
    STRIP = 24,             /* outputs of a strip, where the image has more */
    MAX_BLOCKS = 16,        /* of a slice */
    PARTS = 8,              /* for each thread, where the image is large enough */
    MAX_WINDOW_ROWS = 64,
    MAX_SPAN = 1024, /* the most columns of a window */
    /* For rows that another kernel computes: */
    SOURCE_STRIP = 128,        /* outputs of a strip: the columns that strips share count little */
    SOURCE_PIXELS = 96,        /* computed at once, at least */
    SOURCE_BYTES = 512 * 1024, /* of a thread's scratch: half of the second level */
    SOURCE_SHARE = 12,         /* one of so many rows may be computed twice */
};

/* The inner loops of one instruction set. */
struct loops {
    void (*widen)(const struct hrf_depthwise_pixels *pixels, const void *x, int64_t n,
                  int64_t n_channels, float *to, int64_t block_step);
    void (*line)(const struct hrf_depthwise_line *line, const struct hrf_depthwise_finish *finish,
                 float *sums);
};

struct depthwise_kernel {
    struct hrf_own_conv own; /* weights: [blocks][window rows][window columns][LANES] floats */
    struct loops loops;
    struct hrf_depthwise_pixels in;
    struct hrf_conv_lines lines; /* units are blocks of channels */
    /* For rows that a product computes; slices are its panels. n_bands is 0 if it cannot be
     * fused. */
    struct hrf_conv_lines lines_of_source;
    enum hrf_dtype residual_type;
    int32_t out_zero_point;
    bool has_bf16;
    struct hrf_requantize *requantize; /* NULL for floats */
    float *multiplier;                 /* [blocks][LANES] */
};

/* ---- running ---- */

static int64_t count_channels(const struct hrf_conv_work *w)
{
    const struct hrf_conv_part *p = &w->part;
    return hrf_min((p->end_unit - p->unit) * LANES, w->kernel->shape.channels - p->unit * LANES);
}

/* The number of floats from one block of a line to the next. */
static int64_t block_step(const struct hrf_conv_shape *s, const struct hrf_conv_cut *c)
{
    return hrf_window_span(&s->window, 1, c->strip_columns) * LANES;
}

/* Scratch after the ring: the sums of an output row of one block, then the rows from the source. */
static float *sums_of(const struct hrf_conv_work *w)
{
    return (float *)(void *)(w->scratch + w->lines->n_lines * w->lines->line_bytes);
}

static char *made_rows_of(const struct hrf_conv_work *w)
{
    return (char *)(sums_of(w) + w->lines->cut.strip_columns * LANES);
}

/* `x`: the part's first channel in the line's first pixel inside the image. */
static void fill_line(const struct hrf_conv_work *w, const struct hrf_depthwise_pixels *pixels,
                      const char *x, int64_t y)
{
    const struct depthwise_kernel *k = (const struct depthwise_kernel *)w->kernel;
    const struct hrf_conv_reach *r = &w->columns;
    const int64_t step = block_step(&k->own.shape, &w->lines->cut);
    float *to = (float *)(void *)hrf_conv_line(w, y);
    for (int64_t b = 0; b < w->part.end_unit - w->part.unit; b++) {
        float *line = to + b * step;
        memset(line, 0, (size_t)(r->begin * LANES) * sizeof *line);
        memset(line + r->end * LANES, 0, (size_t)((r->n - r->end) * LANES) * sizeof *line);
    }
    if (r->end > r->begin)
        k->loops.widen(pixels, x, r->end - r->begin, count_channels(w), to + r->begin * LANES,
                       step);
}

static void fill_from_image(const struct hrf_conv_work *w, int64_t image, int64_t y, int64_t end)
{
    const struct depthwise_kernel *k = (const struct depthwise_kernel *)w->kernel;
    const struct hrf_conv_shape *s = &k->own.shape;
    for (; y < end; y++) {
        const int64_t pixel = (image * s->rows + y) * s->columns + w->columns.first +
                              w->columns.begin;
        fill_line(w, &k->in,
                  (const char *)w->call->inputs[HRF_CONV_X] +
                      (pixel * s->channels + w->part.unit * LANES) *
                          (int64_t)hrf_dtype_size(s->x_type),
                  y);
    }
}

/* Fills lines from the source: whole rows in one call, rows of a strip one at a time. */
static void fill_from_source(const struct hrf_conv_work *w, int64_t image, int64_t y, int64_t end)
{
    const struct hrf_conv_shape *s = &w->kernel->shape;
    const struct hrf_conv_reach *r = &w->columns;
    const struct hrf_cpu_row_source *source = w->source;
    const int64_t channels = count_channels(w);
    const bool is_whole = w->lines->cut.n_strips == 1;
    const int64_t left = is_whole ? 0 : r->first + r->begin;
    const int64_t n = is_whole ? s->columns : r->end - r->begin;
    const int64_t first = (image * s->rows + y) * s->columns + left;
    const struct hrf_depthwise_pixels pixels = { .type = s->x_type, .stride = channels };
    const int64_t pixel_bytes = channels * (int64_t)hrf_dtype_size(s->x_type);
    char *const made = made_rows_of(w);
    if (is_whole)
        source->make(source, first, n * (end - y), w->part.slice, made);
    for (int64_t i = 0; i < end - y; i++) {
        char *row = made + i * n * pixel_bytes;
        if (!is_whole && n > 0)
            source->make(source, first + i * s->columns, n, w->part.slice, row);
        fill_line(w, &pixels, row + (r->first + r->begin - left) * pixel_bytes, y + i);
    }
}

/* Computes one row of outputs of one block. */
static void run_line(const struct hrf_conv_work *w, int64_t row, int64_t block)
{
    const struct depthwise_kernel *k = (const struct depthwise_kernel *)w->kernel;
    const struct hrf_conv_shape *s = &k->own.shape;
    const struct hrf_window *window = &s->window;
    const float *rows[MAX_WINDOW_ROWS];
    const int64_t top = hrf_window_first(window, 0, row);
    const int64_t step = block_step(s, &w->lines->cut);
    const int64_t first = ((w->part.image * s->out_rows + row) * s->out_columns + w->part.column) *
                              s->channels +
                          block * LANES;
    for (int64_t r = 0; r < window->kernel[0]; r++) {
        const int64_t y = top + r * window->dilation[0];
        rows[r] = y >= 0 && y < s->rows ? (const float *)(const void *)hrf_conv_line(w, y) +
                                              (block - w->part.unit) * step
                                        : NULL;
    }
    const struct hrf_depthwise_line line = {
        .rows = rows,
        .weights = (const float *)k->own.weights +
                   block * window->kernel[0] * window->kernel[1] * LANES,
        .window_rows = window->kernel[0],
        .window_columns = window->kernel[1],
        .dilation = window->dilation[1],
        .stride = window->stride[1],
        .n = w->part.n_columns,
    };
    const int64_t y_size = (int64_t)hrf_dtype_size(s->y_type);
    const struct hrf_depthwise_finish finish = {
        .n = w->part.n_columns,
        .n_channels = hrf_min(LANES, s->channels - block * LANES),
        .y = (char *)w->call->output + first * y_size,
        .residual = s->has_residual ? (const char *)w->call->inputs[HRF_CONV_RESIDUAL] +
                                          first * (int64_t)hrf_dtype_size(k->residual_type)
                                    : NULL,
        .stride = s->channels,
        .ahead = s->out_columns * s->channels * y_size,
        .type = s->y_type,
        .residual_type = k->residual_type,
        .bias = k->own.bias + block * LANES,
        .epilogue = &k->own.epilogue,
        .has_bf16 = k->has_bf16,
        .requantize = k->requantize,
        .multiplier = k->multiplier + block * LANES,
        .zero_point = k->out_zero_point,
    };
    k->loops.line(&line, &finish, sums_of(w));
}

static void conv_depthwise_compute(const struct hrf_conv_work *w, int64_t row, int64_t n_rows)
{
    for (const int64_t end = row + n_rows; row < end; row++)
        for (int64_t block = w->part.unit; block < w->part.end_unit; block++)
            run_line(w, row, block);
}

static void conv_depthwise_run(const struct hrf_own_conv *own, const struct hrf_kernel_call *call)
{
    hrf_conv_lines_run(own, &((const struct depthwise_kernel *)own)->lines, call, NULL);
}

bool hrf_cpu_depthwise_takes_source(const struct hrf_kernel *kernel)
{
    const struct depthwise_kernel *k = (const struct depthwise_kernel *)hrf_own_conv_as(
        kernel, conv_depthwise_run);
    return k != NULL && k->lines_of_source.cut.n_bands > 0;
}

void hrf_cpu_depthwise_run_source(const struct hrf_kernel *kernel,
                                  const struct hrf_kernel_call *call,
                                  const struct hrf_cpu_row_source *source)
{
    const struct depthwise_kernel *k = (const struct depthwise_kernel *)kernel;
    hrf_conv_lines_run(&k->own, &k->lines_of_source, call, source);
}

static void conv_depthwise_release(struct hrf_own_conv *own)
{
    struct depthwise_kernel *k = (struct depthwise_kernel *)own;
    hrf_requantize_destroy(k->requantize);
    hrf_free(k->multiplier);
}

/* ---- compiling ---- */

static int64_t count_blocks(const struct hrf_conv_shape *s)
{
    return hrf_ceil_div(s->channels, LANES);
}

static void choose_strips(const struct hrf_conv_shape *s, int64_t max_columns,
                          struct hrf_conv_cut *c)
{
    c->n_strips = hrf_ceil_div(s->out_columns, max_columns);
    hrf_conv_cut_evenly(s->out_columns, &c->n_strips, &c->strip_columns);
}

/* Sets the sizes of lines with `n_blocks` blocks of channels and `made` bytes of rows from a
 * source. */
static void choose_sizes(const struct hrf_conv_shape *s, int64_t n_blocks, int64_t made,
                         struct hrf_conv_lines *l)
{
    const int64_t size = (int64_t)sizeof(float);
    l->rows_at_once = 1;
    l->line_bytes = n_blocks * block_step(s, &l->cut) * size;
    l->scratch_bytes = (size_t)(l->n_lines * l->line_bytes + l->cut.strip_columns * LANES * size +
                                made);
}

/* Cuts the work into parts of about the same size, several for each thread. */
static void choose_parts(struct depthwise_kernel *k)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t n_blocks = count_blocks(s), n_threads = k->own.n_threads;
    const int64_t max_parts = hrf_min(s->n_images * n_blocks, 1 << 20); /* of one band and strip */
    struct hrf_conv_lines *l = &k->lines;
    struct hrf_conv_cut *c = &l->cut;
    *l = (struct hrf_conv_lines){ .fill_at_once = 1,
                                  .fill = fill_from_image,
                                  .compute = conv_depthwise_compute };
    l->n_lines = hrf_min(hrf_window_span(&s->window, 0, 1), s->rows);
    choose_strips(s, STRIP, c);
    const int64_t fit = RING_BYTES / (l->n_lines * block_step(s, c) * (int64_t)sizeof(float));
    const int64_t fair = hrf_ceil_div(max_parts * c->n_strips, PARTS * n_threads);
    int64_t slice_blocks = hrf_clamp(hrf_min(fit, fair), 1, MAX_BLOCKS);
    c->n_units = n_blocks;
    c->n_slices = hrf_ceil_div(n_blocks, slice_blocks);
    hrf_conv_cut_evenly(n_blocks, &c->n_slices, &slice_blocks);
    const int64_t n_parts = s->n_images * c->n_strips * c->n_slices;
    c->n_bands = hrf_clamp(hrf_ceil_div(PARTS * n_threads, n_parts), 1,
                           hrf_ceil_div(s->out_rows * s->window.stride[0], 2 * l->n_lines));
    hrf_conv_cut_evenly(s->out_rows, &c->n_bands, &c->band_rows);
    choose_sizes(s, slice_blocks, 0, l);
}

/* The number of bands: the fewest that divide the images evenly among the threads, each band with
 * all channels, so that a thread writes whole pixels for the next layer. If that takes too many
 * bands, channels are divided, too. */
static int64_t bands_of_source(const struct depthwise_kernel *k, const struct hrf_conv_cut *c)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t n_threads = k->own.n_threads;
    const int64_t overlap = hrf_window_span(&s->window, 0, 1) - s->window.stride[0];
    const int64_t max_bands = overlap > 0 ? 1 + s->rows / (SOURCE_SHARE * overlap) : s->out_rows;
    for (int64_t n = 1; n <= max_bands; n++)
        if (hrf_part_queues_are_even(s->n_images * n, n_threads))
            return n;
    for (int64_t n = 1; n <= max_bands; n++)
        if (hrf_part_queues_are_even(s->n_images * n * c->n_strips * c->n_slices, n_threads))
            return n;
    return max_bands;
}

/* Chooses no parts if the rows of a part do not fit the L2 cache. */
static void choose_parts_of_source(struct depthwise_kernel *k)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t n_blocks = hrf_min(HRF_PANEL / LANES, count_blocks(s));
    struct hrf_conv_lines l = { .fill = fill_from_source, .compute = conv_depthwise_compute };
    choose_strips(s, SOURCE_STRIP, &l.cut);
    l.cut.n_units = count_blocks(s);
    l.cut.n_slices = hrf_product_count_panels(s->channels); /* of as many units each */
    const int64_t strip = hrf_window_span(&s->window, 1, l.cut.strip_columns);
    const int64_t columns = l.cut.n_strips == 1 ? s->columns : hrf_min(s->columns, strip);
    l.fill_at_once = hrf_clamp(hrf_ceil_div(SOURCE_PIXELS, columns), 1, s->rows);
    l.n_lines = hrf_min(hrf_window_span(&s->window, 0, 1) + l.fill_at_once - 1, s->rows);
    l.cut.n_bands = bands_of_source(k, &l.cut);
    hrf_conv_cut_evenly(s->out_rows, &l.cut.n_bands, &l.cut.band_rows);
    choose_sizes(s, n_blocks, l.fill_at_once * columns * n_blocks * LANES * (int64_t)sizeof(float),
                 &l);
    if (!hrf_dtype_is_byte(s->x_type) && l.scratch_bytes <= SOURCE_BYTES)
        k->lines_of_source = l;
}

/* Reorders [channel][area] to [block][area][LANES]. */
static void pack_weights(const struct depthwise_kernel *k, const struct hrf_value *w)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t area = s->window.kernel[0] * s->window.kernel[1];
    float *packed = k->own.weights;
    for (int64_t c = 0; c < s->channels; c++)
        for (int64_t i = 0; i < area; i++)
            packed[(c / LANES * area + i) * LANES + c % LANES] =
                w->dtype == HRF_S8 ? (float)((const int8_t *)w->data)[c * area + i]
                                   : ((const float *)w->data)[c * area + i];
}

static enum hrf_status prepare_constants(struct depthwise_kernel *k, const struct hrf_graph *graph,
                                         const struct hrf_node *node, struct hrf_error *err)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t n_lanes = count_blocks(s) * LANES;
    const size_t n_bytes = (size_t)(n_lanes * s->window.kernel[0] * s->window.kernel[1]) *
                           sizeof(float);
    HRF_TRY(hrf_own_conv_make_weights(&k->own, graph, node, n_bytes, n_lanes, err));
    memset(k->own.weights, 0, n_bytes);
    pack_weights(k, &graph->values[node->inputs[HRF_CONV_WEIGHTS]]);
    k->multiplier = hrf_calloc((size_t)n_lanes, sizeof(float));
    k->own.base.weight_bytes += (size_t)n_lanes * sizeof(float);
    if (hrf_dtype_is_byte(s->x_type)) {
        const size_t bytes_of_channels = (size_t)s->channels * sizeof(float);
        HRF_AUTO(hrf_spec) spec = NULL;
        HRF_TRY(hrf_spec_create(graph, node, &spec, err));
        k->requantize = hrf_requantize_create(spec);
        memcpy(k->own.bias, k->requantize->bias, bytes_of_channels);
        memcpy(k->multiplier, k->requantize->multiplier, bytes_of_channels);
    }
    return HRF_OK;
}

static enum hrf_status conv_depthwise_prepare(struct hrf_own_conv *own,
                                              const struct hrf_graph *graph,
                                              const struct hrf_node *node, struct hrf_error *err)
{
    struct depthwise_kernel *k = (struct depthwise_kernel *)own;
    const struct hrf_conv_shape *s = &own->shape;
    own->epilogue.accumulate = false; /* the residual is read where it stands */
    k->loops = *(const struct loops *)((const struct hrf_own_conv_type *)own->base.row->own)->loops;
    k->in = (struct hrf_depthwise_pixels){
        .type = s->x_type,
        .zero_point = graph->values[node->inputs[HRF_CONV_X]].quantization.zero_point,
        .stride = s->channels,
        .ahead = s->columns * s->channels * (int64_t)hrf_dtype_size(s->x_type),
    };
    k->residual_type = s->has_residual ? graph->values[node->inputs[HRF_CONV_RESIDUAL]].dtype
                                       : HRF_F32;
    k->out_zero_point = graph->values[node->outputs[0]].quantization.zero_point;
    k->has_bf16 = hrf_cpu_has_avx512_bf16();
    choose_parts(k);
    choose_parts_of_source(k);
    own->base.workspace_bytes = hrf_conv_lines_workspace(own, &k->lines);
    if (k->lines_of_source.scratch_bytes > k->lines.scratch_bytes)
        own->base.workspace_bytes = hrf_conv_lines_workspace(own, &k->lines_of_source);
    return prepare_constants(k, graph, node, err);
}

const char *hrf_cpu_depthwise_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const struct hrf_value *weights = &graph->values[node->inputs[HRF_CONV_WEIGHTS]];
    if (node->attributes.group != x->shape.dims[1] || y->shape.dims[1] != x->shape.dims[1])
        return "it has not as many groups and outputs as channels";
    if (!hrf_cpu_comes_at_run_time(graph, node) || weights->data == NULL)
        return "its image or residual is a constant, or its weights are none";
    if (hrf_shape_count(&y->shape) <= 0)
        return "its output is empty";
    const int64_t area = weights->shape.dims[2] * weights->shape.dims[3];
    if (weights->shape.dims[2] > MAX_WINDOW_ROWS ||
        (weights->shape.dims[3] - 1) * node->attributes.window.dilation[1] > MAX_SPAN)
        return "its windows are too large";
    const bool types_fit = hrf_dtype_is_byte(x->dtype)
                               ? area <= HRF_DEPTHWISE_MAX_8BIT && weights->dtype == HRF_S8 &&
                                     (hrf_dtype_is_byte(y->dtype) || y->dtype == HRF_F32) &&
                                     (!hrf_node_has_input(node, HRF_CONV_RESIDUAL) ||
                                      hrf_dtype_is_byte(
                                          graph->values[node->inputs[HRF_CONV_RESIDUAL]].dtype))
                               : hrf_cpu_types_fit(graph, node) && weights->dtype == HRF_F32;
    return types_fit ? NULL : "its types are mixed otherwise";
}

#define DEPTHWISE_ROW(title, which, set)                                                           \
    {                                                                                              \
        .name = title, HRF_ROW_OPS(HRF_OP_CONV), .isa = which, .epilogues = HRF_ANY_EPILOGUE,      \
        .misfit = hrf_cpu_depthwise_misfit, .compile = hrf_own_conv_compile,                       \
        .own = &(const struct hrf_own_conv_type)                                                   \
        {                                                                                          \
            .size = sizeof(struct depthwise_kernel), .compute = conv_depthwise_run,                \
            .prepare = conv_depthwise_prepare, .release = conv_depthwise_release,                  \
            .loops = &(const struct loops)                                                         \
            {                                                                                      \
                hrf_depthwise_widen_##set, hrf_depthwise_line_##set                                \
            }                                                                                      \
        }                                                                                          \
    }
#ifdef HRF_BUILD_AVX512
const struct hrf_kernel_row hrf_cpu_depthwise_avx512 = DEPTHWISE_ROW("depthwise:avx512",
                                                                     HRF_ISA_AVX512, avx512);
#endif
#ifdef HRF_BUILD_AVX2 /* which the back end asks for */
const struct hrf_kernel_row hrf_cpu_depthwise = DEPTHWISE_ROW("depthwise:avx2", HRF_ISA_ANY, avx2);
#else
const struct hrf_kernel_row hrf_cpu_depthwise = DEPTHWISE_ROW("depthwise", HRF_ISA_ANY, plain);
#endif
