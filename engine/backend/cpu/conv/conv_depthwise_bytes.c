/* conv_depthwise_bytes.c - depth-wise convolution of 8-bit integers with AVX-512 VNNI.
 *
 * The work is cut into images and bands of output rows, and into channels if these are too few. A
 * step computes a few output rows of a strip of columns and a block of channels. The input rows
 * under them are interleaved (depthwise_bytes.h) into lines that stay in the L1 cache, and each
 * line is used for all rows of the step.
 */
#include "engine/backend/cpu/conv/conv_lines.h"
#include "engine/backend/cpu/conv/depthwise_bytes.h"
#include "engine/backend/cpu/cpu_private.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    ROWS = HRF_INTERLEAVED_ROWS,
    QUARTERS = HRF_INTERLEAVED_QUARTERS,
    BYTES = HRF_REGISTER_BYTES,
    LINES_BYTES = 16 * 1024, /* of the first-level cache */
    PARTS = 8,               /* for each thread, where the image is large enough */
    MAX_KERNEL = 16,         /* the most rows and columns of a window */
    MAX_STRIDE = 4,
    MAX_PRODUCTS = 255 * 128, /* the largest product of two bytes */
};

struct bytes_kernel {
    struct hrf_own_conv own; /* weights: [blocks][rows of a step][groups][kernel columns][QUARTERS]
                                [BYTES]; bias: [blocks][BYTES] */
    struct hrf_conv_lines lines; /* units are blocks of channels; rows_at_once are a step's */
    int64_t n_groups;            /* of four rows, in the lines */
    int64_t strip_columns;       /* of outputs of a block that are computed together */
    int64_t line_columns;        /* of a phase */
    uint8_t flip, border[BYTES];
    struct hrf_interleaved_outputs finish; /* what all outputs share */
    int32_t *start;                        /* [blocks][BYTES] */
    float *multiplier;
};

/* A block: 64 channels of a pixel, or the last channels of 1, 2 or 4 pixels. */
struct block {
    int64_t index, channel, n_channels, n_pixels;
};

static struct block block_of(const struct bytes_kernel *k, int64_t index)
{
    const int64_t channel = index * BYTES, n = hrf_min(BYTES, k->own.shape.channels - channel);
    return (struct block){ index, channel, n, n <= BYTES / 4 ? 4 : n <= BYTES / 2 ? 2 : 1 };
}

/* ---- running ---- */

/* Bytes from one phase's line to the next. A register may be written beyond its end, and the lines
 * of the quarters must not all map to the same cache sets. */
static int64_t phase_bytes(const struct bytes_kernel *k, int64_t n_pixels)
{
    return ((hrf_ceil_div(k->line_columns, n_pixels) + 1) | 1) * BYTES;
}

static int64_t quarter_bytes(const struct bytes_kernel *k, int64_t n_pixels)
{
    const int64_t stride = k->own.shape.window.stride[1];
    return phase_bytes(k, n_pixels) * stride + (stride % 2 == 0 ? BYTES : 0);
}

/* Some output rows and columns of an image, and the lines under them. */
struct step {
    int64_t image, row, n_rows, column, n_columns;
    uint8_t *lines;
};

/* Fills a group of four interleaved rows. Rows that no output reads are filled with the border
 * value. */
static void fill_group(const struct bytes_kernel *k, const uint8_t *x, const struct step *step,
                       const struct block *b, int64_t group, uint8_t *to)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const struct hrf_window *w = &s->window;
    const struct hrf_conv_reach columns = hrf_conv_reach_of(s, 1, step->column, step->n_columns);
    const int64_t top = hrf_window_first(w, 0, step->row);
    const int64_t n_read = (step->n_rows - 1) * w->stride[0] +
                           w->kernel[0]; /* input rows of the step */
    struct hrf_interleaved_lines l = {
        .begin = columns.begin,
        .end = columns.end,
        .n = columns.n,
        .n_pixels = b->n_pixels,
        .n_channels = b->n_channels,
        .stride = w->stride[1],
        .border = k->border[0] ^ k->flip,
        .flip = k->flip,
        .phase_step = phase_bytes(k, b->n_pixels),
        .quarter_step = quarter_bytes(k, b->n_pixels),
        .to = to,
    };
    for (int64_t r = 0; r < ROWS; r++) {
        const int64_t line = group * ROWS + r, row = top + line * w->dilation[0];
        const bool exists = row >= 0 && row < s->rows && line < n_read && l.begin < l.end;
        const int64_t pixel = (step->image * s->rows + row) * s->columns + columns.first + l.begin;
        l.rows[r] = exists ? x + pixel * s->channels + b->channel : k->border;
        l.steps[r] = exists ? s->channels : 0;
    }
    hrf_interleaved_lines_fill(&l);
}

static void run_block(const struct bytes_kernel *k, const struct hrf_kernel_call *call,
                      const struct step *step, const struct block *b)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const struct hrf_window *w = &s->window;
    const int64_t quarter_step = quarter_bytes(k, b->n_pixels);
    for (int64_t g = 0; g < k->n_groups; g++)
        fill_group(k, call->inputs[HRF_CONV_X], step, b, g,
                   step->lines + g * QUARTERS * quarter_step);
    const int64_t of_row = k->n_groups * w->kernel[1] * QUARTERS * BYTES;
    const int64_t size = (int64_t)hrf_dtype_size(s->y_type);
    int64_t taps[MAX_KERNEL];
    for (int64_t t = 0; t < w->kernel[1]; t++) {
        const int64_t column = t * w->dilation[1];
        taps[t] = column % w->stride[1] * phase_bytes(k, b->n_pixels) +
                  column / w->stride[1] * (BYTES / b->n_pixels);
    }
    struct hrf_interleaved_outputs o = k->finish;
    o.lines = step->lines;
    o.group_step = QUARTERS * quarter_step;
    o.quarter_step = quarter_step;
    o.taps = taps;
    o.n = step->n_columns;
    o.n_pixels = b->n_pixels;
    o.n_channels = b->n_channels;
    o.start = k->start + b->index * BYTES;
    o.bias = k->own.bias + b->index * BYTES;
    o.multiplier = k->multiplier + b->index * BYTES;
    /* The last step may have fewer rows; three are computed in two parts. */
    for (int64_t r = 0; r < step->n_rows; r += o.n_rows) {
        const int64_t left = step->n_rows - r;
        const int64_t pixel = (step->image * s->out_rows + step->row + r) * s->out_columns +
                              step->column;
        o.n_rows = left >= 4 ? 4 : left >= 2 ? 2 : 1;
        o.weights = (const int8_t *)k->own.weights +
                    (b->index * k->lines.rows_at_once + r) * of_row;
        o.y = (char *)call->output + (pixel * s->channels + b->channel) * size;
        hrf_interleaved_outputs_compute(&o);
    }
}

/* Lines are filled strip by strip of a block, so that they stay in the L1 cache until they are
 * multiplied. */
static void conv_depthwise_bytes_compute(const struct hrf_conv_work *w, int64_t row, int64_t n_rows)
{
    const struct bytes_kernel *k = (const struct bytes_kernel *)w->kernel;
    const int64_t n_columns = k->own.shape.out_columns;
    struct step step = {
        .image = w->part.image, .row = row, .n_rows = n_rows, .lines = (uint8_t *)w->scratch
    };
    for (; step.column < n_columns; step.column += k->strip_columns) {
        step.n_columns = hrf_min(k->strip_columns, n_columns - step.column);
        for (int64_t i = w->part.unit; i < w->part.end_unit; i++) {
            const struct block b = block_of(k, i);
            run_block(k, w->call, &step, &b);
        }
    }
}

static void conv_depthwise_bytes_run(const struct hrf_own_conv *own,
                                     const struct hrf_kernel_call *call)
{
    hrf_conv_lines_run(own, &((const struct bytes_kernel *)own)->lines, call, NULL);
}

static void conv_depthwise_bytes_release(struct hrf_own_conv *own)
{
    struct bytes_kernel *k = (struct bytes_kernel *)own;
    hrf_free(k->start);
    hrf_free(k->multiplier);
}

/* ---- compiling ---- */

/* Chooses the rows of a step: as many as the fewest groups of lines that one output row needs can
 * serve. */
static void choose_step(struct bytes_kernel *k)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const struct hrf_window *w = &s->window;
    k->n_groups = hrf_ceil_div(w->kernel[0], ROWS);
    const int64_t fit = (k->n_groups * ROWS - w->kernel[0]) / w->stride[0] + 1;
    k->lines.rows_at_once = w->dilation[0] > 1 ? 1 : fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
    const int64_t n_pixels = block_of(k, 0).n_pixels;
    const int64_t column_bytes = k->n_groups * QUARTERS * (BYTES / n_pixels);
    const int64_t fit_columns = (LINES_BYTES / column_bytes - hrf_window_span(w, 1, 1)) /
                                    w->stride[1] +
                                1;
    const int64_t n_strips = hrf_ceil_div(s->out_columns, hrf_max(fit_columns, 8));
    k->strip_columns = hrf_ceil_div(s->out_columns, n_strips);
    k->line_columns = hrf_ceil_div(hrf_window_span(w, 1, k->strip_columns), w->stride[1]);
    k->lines.scratch_bytes = (size_t)(k->n_groups * QUARTERS * quarter_bytes(k, n_pixels));
}

static void choose_parts(struct bytes_kernel *k)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t want = PARTS * k->own.n_threads, step_rows = k->lines.rows_at_once;
    const int64_t n_steps = hrf_ceil_div(s->out_rows, step_rows);
    struct hrf_conv_cut *c = &k->lines.cut;
    k->lines.compute = conv_depthwise_bytes_compute;
    c->n_strips = 1;
    c->strip_columns = s->out_columns;
    c->n_bands = hrf_clamp(hrf_ceil_div(want, s->n_images), 1, n_steps);
    c->band_rows = hrf_ceil_div(n_steps, c->n_bands) * step_rows;
    c->n_bands = hrf_ceil_div(s->out_rows, c->band_rows);
    c->n_units = hrf_ceil_div(s->channels, BYTES);
    c->n_slices = hrf_clamp(hrf_ceil_div(want, s->n_images * c->n_bands), 1, c->n_units);
    k->own.base.workspace_bytes = hrf_conv_lines_workspace(&k->own, &k->lines);
}

/* The channel of sum i of the block's quarter q; -1 if there is none. */
static int64_t channel_of(const struct block *b, int64_t q, int64_t i)
{
    const int64_t c = (i / 4 * 16 + q * 4 + i % 4) % (BYTES / b->n_pixels);
    return c < b->n_channels ? b->channel + c : -1;
}

/* Packs the weights of one channel for all rows of a step. */
static void pack_channel(const struct bytes_kernel *k, const int8_t *w, int8_t *to)
{
    const int64_t *kernel = k->own.shape.window.kernel;
    const int64_t of_tap = QUARTERS * BYTES, of_group = kernel[1] * of_tap;
    for (int64_t r = 0; r < k->lines.rows_at_once; r++, to += k->n_groups * of_group)
        for (int64_t row = 0; row < kernel[0]; row++)
            for (int64_t t = 0; t < kernel[1]; t++) {
                const int64_t at = row + r * k->own.shape.window.stride[0];
                to[at / ROWS * of_group + t * of_tap + at % ROWS] = w[row * kernel[1] + t];
            }
}

static void pack_block(const struct bytes_kernel *k, const struct block *b, const int8_t *w,
                       const struct hrf_requantize *requantize, int32_t zero_point)
{
    const int64_t *kernel = k->own.shape.window.kernel, area = kernel[0] * kernel[1];
    int8_t *to = (int8_t *)k->own.weights +
                 b->index * k->lines.rows_at_once * k->n_groups * kernel[1] * QUARTERS * BYTES;
    for (int64_t i = 0; i < BYTES; i++) {
        const int64_t channel = channel_of(b, i / HRF_REGISTER_SUMS, i % HRF_REGISTER_SUMS);
        if (channel < 0)
            continue;
        int32_t sum = 0;
        for (int64_t a = 0; a < area; a++)
            sum += w[channel * area + a];
        pack_channel(k, w + channel * area, to + i * ROWS);
        k->start[b->index * BYTES + i] = -zero_point * sum;
        k->own.bias[b->index * BYTES + i] = requantize->bias[channel];
        k->multiplier[b->index * BYTES + i] = requantize->multiplier[channel];
    }
}

static uint8_t nearest_byte(float steps, int32_t zero_point)
{
    return (uint8_t)hrf_clamp((int64_t)rintf(steps) + zero_point, 0, 255);
}

/* Sets the bounds of RELU or CLIP; with neither, those of the type. */
static void choose_bounds(struct hrf_interleaved_outputs *o, const struct hrf_requantize *r,
                          const struct hrf_operand *y)
{
    const bool is_signed = y->dtype == HRF_S8;
    const int32_t zero = y->quantization.zero_point + (is_signed ? 128 : 0);
    o->to_floats = y->dtype == HRF_F32;
    o->low = r->activation == HRF_ACT_RELU ? 0 : r->activation == HRF_ACT_CLIP ? r->low : -INFINITY;
    o->high = r->activation == HRF_ACT_CLIP ? r->high : INFINITY;
    o->zero = (int16_t)zero;
    o->flip = is_signed ? 0x80 : 0;
    o->min = o->low < -1000 ? 0 : nearest_byte(fminf(o->low, 1000), zero);
    o->max = o->high > 1000 ? 255 : nearest_byte(fmaxf(o->high, -1000), zero);
}

static enum hrf_status conv_depthwise_bytes_prepare(struct hrf_own_conv *own,
                                                    const struct hrf_graph *graph,
                                                    const struct hrf_node *node,
                                                    struct hrf_error *err)
{
    struct bytes_kernel *k = (struct bytes_kernel *)own;
    const struct hrf_conv_shape *s = &own->shape;
    HRF_AUTO(hrf_spec) spec = NULL;
    HRF_TRY(hrf_spec_create(graph, node, &spec, err));
    HRF_AUTO(hrf_requantize) requantize = hrf_requantize_create(spec);
    const struct hrf_operand *x = &spec->inputs[HRF_CONV_X];
    choose_step(k);
    choose_parts(k);
    const int64_t n_lanes = k->lines.cut.n_units * BYTES;
    const int64_t of_lane = k->lines.rows_at_once * k->n_groups * s->window.kernel[1] * ROWS;
    const size_t n_weights = (size_t)(n_lanes * of_lane);
    HRF_TRY(hrf_own_conv_make_weights(own, graph, node, n_weights, n_lanes, err));
    memset(own->weights, 0, n_weights);
    k->start = hrf_calloc((size_t)n_lanes, sizeof *k->start);
    k->multiplier = hrf_calloc((size_t)n_lanes, sizeof *k->multiplier);
    own->base.weight_bytes += (size_t)n_lanes * (sizeof *k->start + sizeof *k->multiplier);
    k->flip = x->dtype == HRF_S8 ? 0x80 : 0;
    memset(k->border, (uint8_t)x->quantization.zero_point, sizeof k->border);
    for (int64_t i = 0; i < k->lines.cut.n_units; i++) {
        const struct block b = block_of(k, i);
        pack_block(k, &b, spec->inputs[HRF_CONV_WEIGHTS].constant, requantize,
                   x->quantization.zero_point + (x->dtype == HRF_S8 ? 128 : 0));
    }
    const int64_t size = (int64_t)hrf_dtype_size(s->y_type);
    k->finish = (struct hrf_interleaved_outputs){ .n_groups = k->n_groups,
                                                  .n_taps = s->window.kernel[1],
                                                  .pixel_step = s->channels * size,
                                                  .row_step = s->out_columns * s->channels * size };
    choose_bounds(&k->finish, requantize, &spec->output);
    return HRF_OK;
}

/* True if all scales are normal numbers, and sums in steps of the output stay well within 32
 * bits. */
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
        const double max = (double)step * (double)(area * MAX_PRODUCTS) + offset;
        if (!(step >= FLT_MIN && offset / (double)step < 1e30 && max / (double)out_scale < 1e9))
            return false;
    }
    return scales != NULL;
}

static const char *conv_depthwise_bytes_misfit(const struct hrf_graph *graph,
                                               const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const bool clips = a->activation == HRF_ACT_NONE || a->activation == HRF_ACT_RELU ||
                       a->activation == HRF_ACT_CLIP;
    const char *reason = hrf_cpu_depthwise_misfit(graph, node);
    if (reason != NULL)
        return reason;
    if (x->dtype != HRF_S8 && x->dtype != HRF_U8)
        return "its image is not of 8 bits";
    if (hrf_node_has_input(node, HRF_CONV_RESIDUAL) || !clips)
        return "it has a residual, or an activation that does not clip";
    if (w->dims[2] > MAX_KERNEL || w->dims[3] > MAX_KERNEL || a->window.stride[1] > MAX_STRIDE)
        return "its windows are large or far apart";
    return stays_small(graph, node, w->dims[2] * w->dims[3])
               ? NULL
               : "its results may not stay far inside 32 bits";
}

static const struct hrf_own_conv_type type = {
    .size = sizeof(struct bytes_kernel),
    .compute = conv_depthwise_bytes_run,
    .prepare = conv_depthwise_bytes_prepare,
    .release = conv_depthwise_bytes_release,
};
const struct hrf_kernel_row hrf_cpu_depthwise_bytes = {
    .name = "depthwise:avx512_vnni",
    HRF_ROW_OPS(HRF_OP_CONV),
    .forms = HRF_FORM_INTEGER,
    .isa = HRF_ISA_AVX512_VNNI,
    .misfit = conv_depthwise_bytes_misfit,
    .compile = hrf_own_conv_compile,
    .own = &type,
};
