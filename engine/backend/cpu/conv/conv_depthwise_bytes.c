/* conv_depthwise_bytes.c - depth-wise convolution of 8-bit integers with AVX-512 VNNI.
 *
 * The work is cut into images and bands of output rows, where these are too few also into channels.
 * A step computes a few rows of outputs, for a strip of columns and a block of channels: the rows
 * under them are made lines of quads (depthwise_bytes.h), which stay in the first-level cache, and
 * each line serves all rows of the step.
 */
#include "engine/backend/cpu/conv/depthwise_bytes.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/part_queues.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

enum {
    ROWS = HRF_QUAD_ROWS,
    QUARTERS = HRF_QUAD_QUARTERS,
    BYTES = HRF_QUAD_BYTES,
    LINES_BYTES = 16 * 1024, /* of the first-level cache */
    PARTS = 8,               /* for each thread, where the image is large enough */
    MOST_KERNEL = 16,        /* rows, columns of a window */
    MOST_GROUPS = MOST_KERNEL / ROWS,
    MOST_STRIDE = 4,
    MOST_PRODUCTS = 255 * 128, /* the largest product of two bytes */
};

struct quad_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    int64_t n_images, rows, columns, out_rows, out_columns, channels;
    int64_t kernel[2], stride[2], dilation[2], pad[2];
    int64_t n_groups, step_rows; /* of four rows, in the lines; rows of outputs of a step */
    int64_t strip_columns, band_rows, n_bands, part_blocks, n_block_parts;
    int64_t line_columns; /* of a phase */
    uint8_t flip, border[BYTES];
    struct hrf_quad_outputs finish; /* what all outputs share */
    int64_t n_blocks;
    int8_t *weights; /* [blocks][step_rows][groups][kernel columns][QUARTERS][BYTES] */
    int32_t *start;  /* [blocks][BYTES] */
    float *bias, *multiplier;
};

/* 64 channels of a pixel, or the last ones of 1, 2 or 4 pixels. */
struct block {
    int64_t index, channel, n_channels, n_pixels;
};

static struct block block_of(const struct quad_kernel *k, int64_t index)
{
    const int64_t channel = index * BYTES, n = hrf_least(BYTES, k->channels - channel);
    return (struct block){ index, channel, n, n <= BYTES / 4 ? 4 : n <= BYTES / 2 ? 2 : 1 };
}

/* ---- running ---- */

/* Bytes from a phase's line to the next's: one register is free behind, and the lines of the
 * quarters do not all fall into the same sets of the cache. */
static int64_t phase_bytes(const struct quad_kernel *k, int64_t n_pixels)
{
    return ((hrf_ceil_div(k->line_columns, n_pixels) + 1) | 1) * BYTES;
}

static int64_t quarter_bytes(const struct quad_kernel *k, int64_t n_pixels)
{
    return phase_bytes(k, n_pixels) * k->stride[1] + (k->stride[1] % 2 == 0 ? BYTES : 0);
}

static size_t scratch_bytes(const struct quad_kernel *k)
{
    const int64_t n_pixels = block_of(k, 0).n_pixels;
    return (size_t)(k->n_groups * QUARTERS * quarter_bytes(k, n_pixels));
}

struct step {
    int64_t image, row, n_rows, column, n_columns;
    uint8_t *lines;
};

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* A group of four rows of quads. Rows that no output reads are as well the border. */
static void fill_group(const struct quad_kernel *k, const uint8_t *x, const struct step *s,
                       const struct block *b, int64_t group, uint8_t *to)
{
    const int64_t top = s->row * k->stride[0] - k->pad[0];
    const int64_t n_read = (s->n_rows - 1) * k->stride[0] + k->kernel[0]; /* lines' rows */
    const int64_t left = s->column * k->stride[1] - k->pad[1];
    struct hrf_quad_lines l = {
        .n = (s->n_columns - 1) * k->stride[1] + (k->kernel[1] - 1) * k->dilation[1] + 1,
        .n_pixels = b->n_pixels,
        .n_channels = b->n_channels,
        .stride = k->stride[1],
        .border = k->border[0] ^ k->flip,
        .flip = k->flip,
        .phase_step = phase_bytes(k, b->n_pixels),
        .quarter_step = quarter_bytes(k, b->n_pixels),
        .to = to,
    };
    l.begin = clamp(-left, 0, l.n);
    l.end = clamp(k->columns - left, l.begin, l.n);
    for (int64_t r = 0; r < ROWS; r++) {
        const int64_t line = group * ROWS + r, row = top + line * k->dilation[0];
        const bool exists = row >= 0 && row < k->rows && line < n_read && l.begin < l.end;
        const int64_t pixel = (s->image * k->rows + row) * k->columns + left + l.begin;
        l.rows[r] = exists ? x + pixel * k->channels + b->channel : k->border;
        l.steps[r] = exists ? k->channels : 0;
    }
    hrf_quad_lines_fill(&l);
}

static void run_block(const struct quad_kernel *k, const struct hrf_kernel_call *call,
                      const struct step *s, const struct block *b)
{
    const int64_t quarter_step = quarter_bytes(k, b->n_pixels);
    for (int64_t g = 0; g < k->n_groups; g++)
        fill_group(k, call->inputs[HRF_CONV_X], s, b, g, s->lines + g * QUARTERS * quarter_step);
    const int64_t of_row = k->n_groups * k->kernel[1] * QUARTERS * BYTES;
    const int64_t size = k->finish.to_floats ? (int64_t)sizeof(float) : 1;
    int64_t taps[MOST_KERNEL];
    for (int64_t t = 0; t < k->kernel[1]; t++) {
        const int64_t column = t * k->dilation[1];
        taps[t] = column % k->stride[1] * phase_bytes(k, b->n_pixels) +
                  column / k->stride[1] * (BYTES / b->n_pixels);
    }
    struct hrf_quad_outputs o = k->finish;
    o.lines = s->lines;
    o.group_step = QUARTERS * quarter_step;
    o.quarter_step = quarter_step;
    o.taps = taps;
    o.n = s->n_columns;
    o.n_pixels = b->n_pixels;
    o.n_channels = b->n_channels;
    o.start = k->start + b->index * BYTES;
    o.bias = k->bias + b->index * BYTES;
    o.multiplier = k->multiplier + b->index * BYTES;
    /* At the lower end fewer rows than a step's: in two parts if they are three. */
    for (int64_t r = 0; r < s->n_rows; r += o.n_rows) {
        const int64_t left = s->n_rows - r;
        const int64_t pixel = (s->image * k->out_rows + s->row + r) * k->out_columns + s->column;
        o.n_rows = left >= 4 ? 4 : left >= 2 ? 2 : 1;
        o.weights = k->weights + (b->index * k->step_rows + r) * of_row;
        o.y = (char *)call->output + (pixel * k->channels + b->channel) * size;
        hrf_quad_outputs_compute(&o);
    }
}

static void run_part(const struct quad_kernel *k, const struct hrf_kernel_call *call, int64_t part,
                     uint8_t *lines)
{
    const int64_t first = part % k->n_block_parts * k->part_blocks;
    const int64_t last = hrf_least(first + k->part_blocks, k->n_blocks);
    const int64_t band = part / k->n_block_parts % k->n_bands;
    const int64_t end = hrf_least((band + 1) * k->band_rows, k->out_rows);
    struct step s = { .image = part / k->n_block_parts / k->n_bands, .lines = lines };
    for (s.row = band * k->band_rows; s.row < end; s.row += k->step_rows) {
        s.n_rows = hrf_least(k->step_rows, end - s.row);
        for (s.column = 0; s.column < k->out_columns; s.column += k->strip_columns) {
            s.n_columns = hrf_least(k->strip_columns, k->out_columns - s.column);
            for (int64_t i = first; i < last; i++) {
                const struct block b = block_of(k, i);
                run_block(k, call, &s, &b);
            }
        }
    }
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    const struct quad_kernel *k = (const struct quad_kernel *)base;
    const struct hrf_part_queues parts = hrf_part_queues_begin(
        call->workspace, k->backend->n_threads, k->n_images * k->n_bands * k->n_block_parts);
#pragma omp parallel
    {
        uint8_t *const lines = (uint8_t *)(parts.of + parts.n_threads) +
                               (size_t)omp_get_thread_num() * scratch_bytes(k);
        for (int64_t i; (i = hrf_part_queues_take(&parts)) >= 0;)
            run_part(k, call, i, lines);
    }
    return HRF_OK;
}

static void destroy(struct hrf_kernel *base)
{
    struct quad_kernel *k = (struct quad_kernel *)base;
    hrf_free(k->weights);
    hrf_free(k->start);
    hrf_free(k->bias);
    hrf_free(k->multiplier);
    hrf_free(k);
}

/* ---- making one ---- */

static void take_shapes(struct quad_kernel *k, const struct hrf_spec *spec)
{
    const struct hrf_shape *x = &spec->inputs[HRF_CONV_X].shape, *y = &spec->output.shape;
    const struct hrf_window *window = &spec->attributes.window;
    k->n_images = x->dims[0];
    k->channels = x->dims[1];
    k->rows = x->dims[2];
    k->columns = x->dims[3];
    k->out_rows = y->dims[2];
    k->out_columns = y->dims[3];
    k->n_blocks = hrf_ceil_div(k->channels, BYTES);
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        k->kernel[i] = spec->inputs[HRF_CONV_WEIGHTS].shape.dims[2 + i];
        k->stride[i] = window->stride[i];
        k->dilation[i] = window->dilation[i];
        k->pad[i] = window->pad_begin[i];
    }
}

/* As many rows of a step as the quads of its lines hold, of which there are no more than a row of
 * outputs needs. */
static void choose_step(struct quad_kernel *k)
{
    k->n_groups = hrf_ceil_div(k->kernel[0], ROWS);
    const int64_t fit = (k->n_groups * ROWS - k->kernel[0]) / k->stride[0] + 1;
    k->step_rows = k->dilation[0] > 1 ? 1 : fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
    const int64_t span = (k->kernel[1] - 1) * k->dilation[1] + 1;
    const int64_t n_pixels = block_of(k, 0).n_pixels;
    const int64_t column_bytes = k->n_groups * QUARTERS * (BYTES / n_pixels);
    const int64_t fit_columns = (LINES_BYTES / column_bytes - span) / k->stride[1] + 1;
    const int64_t n_strips = hrf_ceil_div(k->out_columns, fit_columns < 8 ? 8 : fit_columns);
    k->strip_columns = hrf_ceil_div(k->out_columns, n_strips);
    k->line_columns = hrf_ceil_div((k->strip_columns - 1) * k->stride[1] + span, k->stride[1]);
}

static void choose_parts(struct quad_kernel *k)
{
    const int64_t want = PARTS * k->backend->n_threads;
    const int64_t n_steps = hrf_ceil_div(k->out_rows, k->step_rows);
    const int64_t n_bands = clamp(hrf_ceil_div(want, k->n_images), 1, n_steps);
    k->band_rows = hrf_ceil_div(n_steps, n_bands) * k->step_rows;
    k->n_bands = hrf_ceil_div(k->out_rows, k->band_rows);
    const int64_t n_block_parts = clamp(hrf_ceil_div(want, k->n_images * k->n_bands), 1,
                                        k->n_blocks);
    k->part_blocks = hrf_ceil_div(k->n_blocks, n_block_parts);
    k->n_block_parts = hrf_ceil_div(k->n_blocks, k->part_blocks);
    k->base.workspace_bytes = (size_t)k->backend->n_threads *
                              (sizeof(struct hrf_part_queue) + scratch_bytes(k));
}

/* The channel of sum i of a block's quarter q; -1: none. */
static int64_t channel_of(const struct block *b, int64_t q, int64_t i)
{
    const int64_t c = (i / 4 * 16 + q * 4 + i % 4) % (BYTES / b->n_pixels);
    return c < b->n_channels ? b->channel + c : -1;
}

/* Weights of window row `row` and column t of a channel for all places of a step. */
static void pack_channel(struct quad_kernel *k, const int8_t *w, int8_t *to)
{
    const int64_t of_tap = QUARTERS * BYTES, of_group = k->kernel[1] * of_tap;
    for (int64_t r = 0; r < k->step_rows; r++, to += k->n_groups * of_group)
        for (int64_t row = 0; row < k->kernel[0]; row++)
            for (int64_t t = 0; t < k->kernel[1]; t++) {
                const int64_t at = row + r * k->stride[0];
                to[at / ROWS * of_group + t * of_tap + at % ROWS] = w[row * k->kernel[1] + t];
            }
}

static void pack_block(struct quad_kernel *k, const struct block *b, const int8_t *w,
                       const struct hrf_requantize *requantize, int32_t zero_point)
{
    const int64_t area = k->kernel[0] * k->kernel[1];
    int8_t *to = k->weights +
                 b->index * k->step_rows * k->n_groups * k->kernel[1] * QUARTERS * BYTES;
    for (int64_t i = 0; i < BYTES; i++) {
        const int64_t channel = channel_of(b, i / HRF_QUAD_SUMS, i % HRF_QUAD_SUMS);
        if (channel < 0)
            continue;
        int32_t sum = 0;
        for (int64_t a = 0; a < area; a++)
            sum += w[channel * area + a];
        pack_channel(k, w + channel * area, to + i * ROWS);
        k->start[b->index * BYTES + i] = -zero_point * sum;
        k->bias[b->index * BYTES + i] = requantize->bias[channel];
        k->multiplier[b->index * BYTES + i] = requantize->multiplier[channel];
    }
}

static uint8_t nearest_byte(float steps, int32_t zero_point)
{
    return (uint8_t)clamp((int64_t)rintf(steps) + zero_point, 0, 255);
}

/* The bounds of RELU and CLIP; without either, those of the type. */
static void choose_bounds(struct hrf_quad_outputs *o, const struct hrf_requantize *r,
                          const struct hrf_operand *y)
{
    const bool is_signed = y->dtype == HRF_S8;
    const int32_t zero = y->quantization.zero_point + (is_signed ? 128 : 0);
    o->to_floats = y->dtype == HRF_F32;
    o->low = r->activation == HRF_ACT_RELU ? 0 : r->activation == HRF_ACT_CLIP ? r->low : -INFINITY;
    o->high = r->activation == HRF_ACT_CLIP ? r->high : INFINITY;
    o->zero = (int16_t)zero;
    o->flip = is_signed ? 0x80 : 0;
    o->least = o->low < -1000 ? 0 : nearest_byte(fminf(o->low, 1000), zero);
    o->most = o->high > 1000 ? 255 : nearest_byte(fmaxf(o->high, -1000), zero);
}

static enum hrf_status prepare(struct quad_kernel *k, const struct hrf_spec *spec,
                               struct hrf_error *err)
{
    const struct hrf_operand *x = &spec->inputs[HRF_CONV_X];
    const size_t n_lanes = (size_t)(k->n_blocks * BYTES);
    const size_t n_weights = n_lanes * (size_t)(k->step_rows * k->n_groups * k->kernel[1] * ROWS);
    HRF_AUTO(hrf_requantize) requantize = NULL;
    HRF_TRY(hrf_requantize_create(spec, &requantize, err));
    k->weights = hrf_alloc_aligned(n_weights, HRF_BUFFER_ALIGNMENT);
    k->start = hrf_calloc(n_lanes, sizeof *k->start);
    k->bias = hrf_calloc(n_lanes, sizeof *k->bias);
    k->multiplier = hrf_calloc(n_lanes, sizeof *k->multiplier);
    if (k->weights == NULL || k->start == NULL || k->bias == NULL || k->multiplier == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "weights of node '%s': %zu bytes", spec->name,
                             n_weights);
    memset(k->weights, 0, n_weights);
    k->flip = x->dtype == HRF_S8 ? 0x80 : 0;
    memset(k->border, (uint8_t)x->quantization.zero_point, sizeof k->border);
    for (int64_t i = 0; i < k->n_blocks; i++) {
        const struct block b = block_of(k, i);
        pack_block(k, &b, spec->inputs[HRF_CONV_WEIGHTS].constant, requantize,
                   x->quantization.zero_point + (x->dtype == HRF_S8 ? 128 : 0));
    }
    const int64_t size = (int64_t)hrf_dtype_size(spec->output.dtype);
    k->finish = (struct hrf_quad_outputs){ .n_groups = k->n_groups,
                                           .n_taps = k->kernel[1],
                                           .pixel_step = k->channels * size,
                                           .row_step = k->out_columns * k->channels * size };
    choose_bounds(&k->finish, requantize, &spec->output);
    k->base.weight_bytes = n_weights + n_lanes * (sizeof *k->start + 2 * sizeof(float));
    return HRF_OK;
}

/* Whether all scales are usual numbers, and sums, in steps of the output, far inside 32 bits. */
static bool stays_small(const struct hrf_graph *graph, const struct hrf_node *node, int64_t area)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const float *scales = hrf_cpu_constant(graph, node, HRF_CONV_SCALES);
    const float *bias = hrf_cpu_constant(graph, node, HRF_CONV_BIAS);
    const float out_scale = y->dtype == HRF_F32 ? 1.0f : y->quantization.scale;
    for (int64_t c = 0; scales != NULL && c < x->shape.dims[1]; c++) {
        const float step = x->quantization.scale * scales[c];
        const double offset = bias != NULL ? fabs((double)bias[c]) : 0;
        const double most = (double)step * (double)(area * MOST_PRODUCTS) + offset;
        if (!(step >= FLT_MIN && offset / (double)step < 1e30 && most / (double)out_scale < 1e9))
            return false;
    }
    return scales != NULL;
}

bool hrf_cpu_depthwise_bytes_fit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_attributes *a = &node->attributes;
    if (!hrf_cpu_token_product_is_fast() || !hrf_cpu_depthwise_fits(graph, node) ||
        (x->dtype != HRF_S8 && x->dtype != HRF_U8))
        return false;
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const bool adds = node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0;
    const bool clips = a->activation == HRF_ACT_NONE || a->activation == HRF_ACT_RELU ||
                       a->activation == HRF_ACT_CLIP;
    return !adds && clips && w->dims[2] <= MOST_KERNEL && w->dims[3] <= MOST_KERNEL &&
           a->window.stride[1] <= MOST_STRIDE && stays_small(graph, node, w->dims[2] * w->dims[3]);
}

enum hrf_status hrf_cpu_depthwise_bytes_compile(struct hrf_backend *backend,
                                                const struct hrf_graph *graph,
                                                const struct hrf_node *node,
                                                struct hrf_kernel **out, struct hrf_error *err)
{
    struct quad_kernel *k = hrf_calloc(1, sizeof *k);
    if (k == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    k->base = (struct hrf_kernel){ .run = run,
                                   .destroy = destroy,
                                   .implementation = "depthwise:avx512_vnni int8" };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    HRF_AUTO(hrf_spec) spec = NULL;
    HRF_TRY(hrf_spec_create(graph, node, &spec, err));
    k->backend = backend;
    take_shapes(k, spec);
    choose_step(k);
    choose_parts(k);
    HRF_TRY(prepare(k, spec, err));
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
