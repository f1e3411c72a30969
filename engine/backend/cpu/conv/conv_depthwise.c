/* conv_depthwise.c - convolution with as many groups as channels, own kernels in every precision.
 *
 * The work is cut into images, bands of output rows, strips of columns and groups of channels. For
 * each of these parts a thread keeps the input rows that a window covers in a ring of lines, as
 * floats and with zeros where the image ends: a row is widened once for all windows that it is
 * part of. Lines are in blocks of 16 channels, so that a ring stays in the first-level cache.
 */
#include "engine/backend/cpu/conv/depthwise.h"
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
};

/* The inner loops of one instruction set. */
struct loops {
    void (*widen)(const struct hrf_depthwise_pixels *pixels, const void *x, int64_t n,
                  int64_t n_channels, float *to, int64_t block_step);
    void (*line)(const struct hrf_depthwise_line *line, const struct hrf_depthwise_finish *finish,
                 float *sums);
};

struct depthwise_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    struct loops loops;
    struct hrf_spec *spec;
    struct hrf_depthwise_pixels in;
    int64_t n_images, rows, columns, out_rows, out_columns, channels;
    int64_t kernel[2], stride[2], dilation[2], pad[2];
    int64_t band_rows, n_bands, strip_columns, n_strips, group_blocks, n_groups; /* parts */
    int64_t n_slots;    /* rows of the ring */
    int64_t block_step; /* floats from block to block of a line */
    struct hrf_epilogue epilogue;
    bool has_bf16;
    struct hrf_requantize *requantize; /* NULL for floats */
    float *weights;                    /* [blocks][window rows][window columns][LANES] */
    float *bias, *multiplier;          /* [blocks][LANES] */
};

/* ---- running ---- */

struct part {
    int64_t image, row, n_rows, column, n_columns, block, n_blocks, channels;
    float *ring, *sums;
};

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

static int64_t window_columns(const struct depthwise_kernel *k, int64_t n_columns)
{
    return (n_columns - 1) * k->stride[1] + (k->kernel[1] - 1) * k->dilation[1] + 1;
}

static int64_t ring_floats(const struct depthwise_kernel *k)
{
    return k->n_slots * k->group_blocks * k->block_step;
}

static size_t scratch_bytes(const struct depthwise_kernel *k)
{
    return (size_t)(ring_floats(k) + k->strip_columns * LANES) * sizeof(float);
}

static struct part part_of(const struct depthwise_kernel *k, int64_t i, float *scratch)
{
    const int64_t group = i % k->n_groups, strip = i / k->n_groups % k->n_strips;
    const int64_t band = i / (k->n_groups * k->n_strips) % k->n_bands;
    struct part p = { .image = i / (k->n_groups * k->n_strips * k->n_bands),
                      .row = band * k->band_rows,
                      .column = strip * k->strip_columns,
                      .block = group * k->group_blocks,
                      .ring = scratch,
                      .sums = scratch + ring_floats(k) };
    p.n_rows = hrf_least(k->band_rows, k->out_rows - p.row);
    p.n_columns = hrf_least(k->strip_columns, k->out_columns - p.column);
    p.n_blocks = hrf_least(k->group_blocks, hrf_ceil_div(k->channels, LANES) - p.block);
    p.channels = hrf_least(p.n_blocks * LANES, k->channels - p.block * LANES);
    return p;
}

/* Where row y of the image stands in the ring, which is not negative. */
static float *slot(const struct depthwise_kernel *k, const struct part *p, int64_t y)
{
    return p->ring + y % k->n_slots * k->group_blocks * k->block_step;
}

static void fill_row(const struct depthwise_kernel *k, const char *x, const struct part *p,
                     int64_t y)
{
    const int64_t n = window_columns(k, p->n_columns), left = p->column * k->stride[1] - k->pad[1];
    const int64_t begin = clamp(-left, 0, n), end = clamp(k->columns - left, begin, n);
    const int64_t pixel = (p->image * k->rows + y) * k->columns + left + begin;
    float *to = slot(k, p, y);
    for (int64_t b = 0; b < p->n_blocks; b++) {
        float *line = to + b * k->block_step;
        memset(line, 0, (size_t)(begin * LANES) * sizeof *line);
        memset(line + end * LANES, 0, (size_t)((n - end) * LANES) * sizeof *line);
    }
    if (end > begin)
        k->loops.widen(&k->in,
                       x + (pixel * k->channels + p->block * LANES) *
                               (int64_t)hrf_dtype_size(k->in.type),
                       end - begin, p->channels, to + begin * LANES, k->block_step);
}

/* Of one block, one row of outputs. */
static void run_line(const struct depthwise_kernel *k, const struct hrf_kernel_call *call,
                     const struct part *p, int64_t row, int64_t b)
{
    const float *rows[MOST_WINDOW_ROWS];
    const int64_t top = row * k->stride[0] - k->pad[0], block = p->block + b;
    const int64_t first = ((p->image * k->out_rows + row) * k->out_columns + p->column) *
                              k->channels +
                          block * LANES;
    for (int64_t r = 0; r < k->kernel[0]; r++) {
        const int64_t y = top + r * k->dilation[0];
        rows[r] = y >= 0 && y < k->rows ? slot(k, p, y) + b * k->block_step : NULL;
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

static void run_part(const struct depthwise_kernel *k, const struct hrf_kernel_call *call,
                     const struct part *p)
{
    const int64_t span = (k->kernel[0] - 1) * k->dilation[0] + 1;
    int64_t filled = 0; /* rows before it are in the ring or no longer needed */
    for (int64_t row = p->row; row < p->row + p->n_rows; row++) {
        const int64_t top = row * k->stride[0] - k->pad[0];
        filled = filled > top ? filled : top;
        for (; filled < top + span && filled < k->rows; filled++)
            fill_row(k, call->inputs[HRF_CONV_X], p, filled);
        for (int64_t b = 0; b < p->n_blocks; b++)
            run_line(k, call, p, row, b);
    }
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    const struct depthwise_kernel *k = (const struct depthwise_kernel *)base;
    const struct hrf_part_queues parts = hrf_part_queues_begin(
        call->workspace, k->backend->n_threads,
        k->n_images * k->n_bands * k->n_strips * k->n_groups);
#pragma omp parallel
    {
        char *const scratch = (char *)(parts.of + parts.n_threads) +
                              (size_t)omp_get_thread_num() * scratch_bytes(k);
        for (int64_t i; (i = hrf_part_queues_take(&parts)) >= 0;) {
            const struct part part = part_of(k, i, (float *)(void *)scratch);
            run_part(k, call, &part);
        }
    }
    return HRF_OK;
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

/* Parts of about the same size, several for each thread. */
static void choose_parts(struct depthwise_kernel *k)
{
    const int64_t n_blocks = hrf_ceil_div(k->channels, LANES), n_threads = k->backend->n_threads;
    const int64_t most = hrf_least(k->n_images * n_blocks, 1 << 20); /* without bands and strips */
    k->n_slots = hrf_least((k->kernel[0] - 1) * k->dilation[0] + 1, k->rows);
    k->n_strips = hrf_ceil_div(k->out_columns, STRIP);
    k->strip_columns = hrf_ceil_div(k->out_columns, k->n_strips);
    k->n_strips = hrf_ceil_div(k->out_columns, k->strip_columns);
    k->block_step = window_columns(k, k->strip_columns) * LANES;
    const int64_t fit = RING_BYTES / (k->n_slots * k->block_step * (int64_t)sizeof(float));
    const int64_t fair = hrf_ceil_div(most * k->n_strips, PARTS * n_threads);
    k->group_blocks = clamp(hrf_least(fit, fair), 1, MOST_BLOCKS);
    k->n_groups = hrf_ceil_div(n_blocks, k->group_blocks);
    k->group_blocks = hrf_ceil_div(n_blocks, k->n_groups);
    k->n_groups = hrf_ceil_div(n_blocks, k->group_blocks);
    const int64_t n_parts = k->n_images * k->n_strips * k->n_groups;
    const int64_t n_bands = clamp(hrf_ceil_div(PARTS * n_threads, n_parts), 1,
                                  hrf_ceil_div(k->out_rows * k->stride[0], 2 * k->n_slots));
    k->band_rows = hrf_ceil_div(k->out_rows, n_bands);
    k->n_bands = hrf_ceil_div(k->out_rows, k->band_rows);
    k->base.workspace_bytes = (size_t)n_threads *
                              (sizeof(struct hrf_part_queue) + scratch_bytes(k));
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
    if (k->in.type == HRF_S8 || k->in.type == HRF_U8) {
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

static bool is_integer(enum hrf_dtype type)
{
    return type == HRF_S8 || type == HRF_U8;
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
    choose_parts(k);
    HRF_TRY(prepare_constants(k, err));
    k->epilogue = hrf_cpu_epilogue(&node->attributes, k->spec->output.dtype, k->bias, false);
    k->has_bf16 = hrf_cpu_has_avx512_bf16();
    k->base.implementation = choose_loops(k);
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
