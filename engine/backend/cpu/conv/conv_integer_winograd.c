/* conv_integer_winograd.c - 3x3 convolution of stride 1 in 8 bits by exact Winograd, own kernels.
 *
 * The weights stay in 8 bits and are transformed again in every run, one panel of output channels
 * at a time: the transformed panel lies in a thread's L2 cache, which is faster than reading eight
 * times as many bytes from memory, and the network stays as small as INT8 should make it. All
 * threads first transform a chunk of tiles (about a megabyte); then each thread multiplies its
 * panels by all tiles of the chunk.
 */
#include "engine/backend/cpu/conv/own_conv.h"
#include "engine/backend/cpu/conv/winograd_integer.h"
#include "engine/backend/cpu/cpu_private.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum {
    PANEL = HRF_INTEGER_PANEL,
    TILES = HRF_INTEGER_TILES,
    POINTS = HRF_INTEGER_POINTS,
    STRIDE_SLACK =
        32, /* shorts: keeps the rows of a product from mapping to one set of the caches */
    CHUNK_BYTES = 3 << 19, /* of transformed tiles; 4 MiB were slower, waiting for memory */
    SUMS = POINTS * TILES * PANEL,
};

struct integer_winograd {
    struct hrf_own_conv own; /* weights: [n_panels][9][channels / 2][PANEL][2] bytes, with slack */
    int64_t tile_rows, tile_columns, n_tiles;
    int64_t tile_stride, block_stride; /* shorts from one tile, one block of TILES to the next */
    int64_t n_blocks, chunk, n_panels; /* blocks in all and at a time */
    int64_t n_parts;                   /* that the blocks of a chunk are cut into for a panel */
    bool is_signed;
    int32_t zero_point;
    struct hrf_integer_epilogue epilogue; /* of the sums in 32 bits */
    float *multiplier;
};

struct tile {
    int64_t image, row, column; /* of its first output */
};

static struct tile tile_at(const struct integer_winograd *k, int64_t index)
{
    const int64_t per_image = k->tile_rows * k->tile_columns;
    return (struct tile){ .image = index / per_image,
                          .row = index % per_image / k->tile_columns * HRF_INTEGER_OUT,
                          .column = index % k->tile_columns * HRF_INTEGER_OUT };
}

static void read_tile(const struct integer_winograd *k, const uint8_t *x, int64_t index, int16_t *v)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const struct tile tile = tile_at(k, index);
    const int64_t top = hrf_window_first(&s->window, 0, tile.row);
    const int64_t left = hrf_window_first(&s->window, 1, tile.column);
    const uint8_t *pixels[POINTS], *image = x + tile.image * s->rows * s->columns * s->channels;
    for (int64_t i = 0; i < POINTS; i++) {
        const int64_t y = top + i / HRF_INTEGER_IN, u = left + i % HRF_INTEGER_IN;
        const bool inside = y >= 0 && y < s->rows && u >= 0 && u < s->columns;
        pixels[i] = inside ? image + (y * s->columns + u) * s->channels : NULL;
    }
    hrf_integer_winograd_input(pixels, s->channels, k->is_signed, k->zero_point, v,
                               TILES * k->tile_stride);
}

static void write_tile(const struct integer_winograd *k, const int32_t *sums, int64_t index,
                       int64_t column, uint8_t *out)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const struct tile tile = tile_at(k, index);
    const int64_t n = hrf_min(s->out_channels - column, PANEL);
    uint8_t *outputs[HRF_INTEGER_OUTPUTS];
    uint8_t *image = out + tile.image * s->out_rows * s->out_columns * s->out_channels + column;
    for (int64_t i = 0; i < HRF_INTEGER_OUTPUTS; i++) {
        const int64_t y = tile.row + i / HRF_INTEGER_OUT, u = tile.column + i % HRF_INTEGER_OUT;
        const bool inside = y < s->out_rows && u < s->out_columns;
        outputs[i] = inside ? image + (y * s->out_columns + u) * s->out_channels : NULL;
    }
    hrf_integer_winograd_output(sums, n, column, outputs, &k->epilogue);
}

static int64_t tiles_of_block(const struct integer_winograd *k, int64_t block)
{
    return hrf_min(k->n_tiles - block * TILES, TILES);
}

static void read_block(const struct integer_winograd *k, const uint8_t *x, int64_t block,
                       int16_t *v)
{
    for (int64_t i = 0; i < tiles_of_block(k, block); i++)
        read_tile(k, x, block * TILES + i, v + i * k->tile_stride);
}

/* Computes blocks [first, end) of the chunk that begins at block `base`, for one panel. */
static void run_blocks(const struct integer_winograd *k, const int16_t *v, const int16_t *u,
                       int32_t *sums, int64_t panel, int64_t base, int64_t first, int64_t end,
                       uint8_t *out)
{
    for (int64_t block = first; block < end; block++) {
        const int64_t n = tiles_of_block(k, block);
        hrf_integer_winograd_multiply(v + (block - base) * k->block_stride, TILES * k->tile_stride,
                                      k->tile_stride, n, u, k->own.shape.channels, sums);
        for (int64_t i = 0; i < n; i++)
            write_tile(k, sums + i * PANEL, block * TILES + i, panel * PANEL, out);
    }
}

/* The number of transformed weights of a panel. */
static int64_t panel_numbers(const struct integer_winograd *k)
{
    return POINTS * hrf_integer_weights_stride(k->own.shape.channels);
}

static void run_chunk(const struct integer_winograd *k, const struct hrf_kernel_call *call,
                      int64_t base, int64_t end)
{
    int16_t *v = call->workspace;
    const int64_t n_tasks = k->n_panels * k->n_parts;
#pragma omp parallel
    {
        int16_t *u = v + k->chunk * k->block_stride +
                     omp_get_thread_num() * (panel_numbers(k) + 2 * SUMS);
        int32_t *sums = (int32_t *)(void *)(u + panel_numbers(k));
        int64_t ready = -1; /* the panel whose weights u holds */
#pragma omp for schedule(static)
        for (int64_t block = base; block < end; block++)
            read_block(k, call->inputs[HRF_CONV_X], block, v + (block - base) * k->block_stride);
#pragma omp for schedule(static)
        for (int64_t task = 0; task < n_tasks; task++) {
            const int64_t panel = task / k->n_parts, part = task % k->n_parts;
            const int64_t n = end - base;
            if (panel != ready)
                hrf_integer_winograd_weights(
                    (const int8_t *)k->own.weights +
                        panel * 9 * hrf_integer_weights_stride(k->own.shape.channels),
                    k->own.shape.channels, u);
            ready = panel;
            run_blocks(k, v, u, sums, panel, base, base + n * part / k->n_parts,
                       base + n * (part + 1) / k->n_parts, call->output);
        }
    }
}

static void conv_integer_winograd_run(const struct hrf_own_conv *own,
                                      const struct hrf_kernel_call *call)
{
    const struct integer_winograd *k = (const struct integer_winograd *)own;
    for (int64_t block = 0; block < k->n_blocks; block += k->chunk)
        run_chunk(k, call, block, hrf_min(block + k->chunk, k->n_blocks));
}

static void conv_integer_winograd_release(struct hrf_own_conv *own)
{
    hrf_free(((struct integer_winograd *)own)->multiplier);
}

/* ---- choosing ---- */

/* True if no sum reaches HRF_INTEGER_SUM_LIMIT, whatever inputs of x's type and zero point are
 * multiplied by these weights. */
static bool sums_come_out_right(const struct hrf_value *x, const struct hrf_value *w)
{
    const int32_t low = (x->dtype == HRF_S8 ? -128 : 0) - x->quantization.zero_point;
    const int64_t high = low + 255, per_out = hrf_shape_count(&w->shape) / w->shape.dims[0];
    const int8_t *q = w->data;
    for (int64_t m = 0; m < w->shape.dims[0]; m++) {
        int64_t above = 0, below = 0; /* sums of the positive and of the negative weights */
        for (int64_t i = 0; i < per_out; i++)
            *(q[m * per_out + i] > 0 ? &above : &below) += q[m * per_out + i];
        if (high * above + low * below >= HRF_INTEGER_SUM_LIMIT ||
            low * above + high * below <= -HRF_INTEGER_SUM_LIMIT)
            return false;
    }
    return true;
}

static int64_t count_tiles(const struct hrf_shape *y)
{
    return y->dims[0] * hrf_ceil_div(y->dims[2], HRF_INTEGER_OUT) *
           hrf_ceil_div(y->dims[3], HRF_INTEGER_OUT);
}

/* True if this is estimated to be faster than direct convolution. In cycles of one thread: 64
 * products of shorts a cycle or 128 of bytes, at 85 % efficiency; the transforms as measured. The
 * tiles pass through memory, which direct convolution avoids, so the estimate must be much lower.
 * Measured in ResNet-101 at 256 px, batch 8, against oneDNN: 0.95 of its time with 128 channels,
 * 0.9 with 256 (0.75 alone); 1.2 and 1.05 with 64 and 512, which this refuses. */
static bool is_faster(const struct hrf_shape *y, int64_t c)
{
    const double margin = 0.7;
    const double tiles = (double)count_tiles(y), channels = (double)c;
    const double m = (double)(hrf_ceil_div(y->dims[1], PANEL) * PANEL);
    const double products = tiles * POINTS * channels * m / (64 * 0.85);
    const double transforms = tiles * (channels / 32 * 300 + m / 16 * 340);
    const double weights = channels * m / 32 * 250;
    const double pixels = (double)(y->dims[0] * y->dims[2] * y->dims[3]);
    return products + transforms + weights <
           margin * pixels * 9 * channels * (double)y->dims[1] / (128 * 0.85);
}

static const char *conv_integer_winograd_misfit(const struct hrf_graph *graph,
                                                const struct hrf_node *node)
{
    const struct hrf_window *window = &node->attributes.window;
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_value *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const bool plain = w->shape.dims[2] == 3 && w->shape.dims[3] == 3 && window->stride[0] == 1 &&
                       window->stride[1] == 1 && window->dilation[0] == 1 &&
                       window->dilation[1] == 1 && node->attributes.group == 1;
    if (!plain)
        return "its windows are not 3 x 3 side by side in one group";
    if (hrf_cpu_has_amx())
        return "AMX multiplies bytes eight times as fast";
    if (!hrf_cpu_comes_at_run_time(graph, node) || hrf_shape_count(&y->shape) <= 0)
        return "its image or residual is a constant, or its output is empty";
    if ((y->dtype != HRF_S8 && y->dtype != HRF_U8) ||
        x->shape.dims[1] % HRF_INTEGER_CHANNELS != 0 ||
        (hrf_node_has_input(node, HRF_CONV_RESIDUAL) &&
         graph->values[node->inputs[HRF_CONV_RESIDUAL]].quantization.zero_point != 0))
        return "its output, channels or residual are not as it takes them";
    if (!is_faster(&y->shape, x->shape.dims[1]))
        return HRF_CPU_ONEDNN_IS_FASTER;
    return sums_come_out_right(x, w) ? NULL : "its sums may not fit";
}

/* ---- compiling ---- */

/* True if every sum, in steps of y, stays well within 32 bits. */
static bool stays_small(const struct hrf_requantize *r)
{
    for (int64_t c = 0; c < r->n_channels; c++)
        if (!(((double)HRF_INTEGER_SUM_LIMIT + fabs((double)r->bias[c])) *
                  (double)r->multiplier[c] <
              1e9))
            return false;
    return true;
}

static void prepare_epilogue(struct integer_winograd *k, const struct hrf_spec *spec)
{
    const struct hrf_operand *y = &spec->output;
    const size_t padded = (size_t)(k->n_panels * PANEL);
    HRF_AUTO(hrf_requantize) r = hrf_requantize_create(spec);
    k->multiplier = hrf_calloc(padded, sizeof *k->multiplier);
    k->own.base.weight_bytes += padded * sizeof *k->multiplier;
    memcpy(k->own.bias, r->bias, (size_t)r->n_channels * sizeof *k->own.bias);
    memcpy(k->multiplier, r->multiplier, (size_t)r->n_channels * sizeof *k->multiplier);
    const float lowest = (y->dtype == HRF_S8 ? -128.0f : 0.0f) - (float)y->quantization.zero_point;
    struct hrf_integer_epilogue *e = &k->epilogue;
    *e = (struct hrf_integer_epilogue){
        .bias = k->own.bias,
        .multiplier = k->multiplier,
        .accumulate = k->own.shape.has_residual,
        .residual_is_signed = k->own.shape.has_residual &&
                              spec->inputs[HRF_CONV_RESIDUAL].dtype == HRF_S8,
        .residual_scale = r->residual_scale,
        .is_leaky = r->activation == HRF_ACT_LEAKY_RELU,
        .slope = r->slope,
        .low = r->activation == HRF_ACT_RELU ? fmaxf(lowest, 0) : lowest,
        .high = lowest + 255.0f,
        .zero_point = y->quantization.zero_point,
        .is_signed = y->dtype == HRF_S8,
    };
    e->is_plain = e->zero_point == 0 && !e->accumulate && stays_small(r) &&
                  (r->activation == HRF_ACT_NONE ||
                   (r->activation == HRF_ACT_RELU && !e->is_signed));
    if (r->activation == HRF_ACT_CLIP) { /* a limit beyond the type's other end becomes that end */
        e->low = fminf(fmaxf(e->low, r->low), e->high);
        e->high = fmaxf(fminf(e->high, r->high), e->low);
    }
}

static void pack_weights(struct integer_winograd *k, const int8_t *w)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t stride = hrf_integer_weights_stride(s->channels);
    int8_t *packed = k->own.weights;
    for (int64_t m = 0; m < s->out_channels; m++)
        for (int64_t i = 0; i < 9; i++)
            for (int64_t c = 0; c < s->channels; c++)
                packed[(m / PANEL * 9 + i) * stride + (c / 2 * PANEL + m % PANEL) * 2 + c % 2] =
                    w[(m * s->channels + c) * 9 + i];
}

static void choose_blocks(struct integer_winograd *k)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t n_threads = k->own.n_threads;
    k->tile_rows = hrf_ceil_div(s->out_rows, HRF_INTEGER_OUT);
    k->tile_columns = hrf_ceil_div(s->out_columns, HRF_INTEGER_OUT);
    k->n_tiles = s->n_images * k->tile_rows * k->tile_columns;
    k->tile_stride = s->channels + STRIDE_SLACK;
    k->block_stride = POINTS * TILES * k->tile_stride;
    k->n_blocks = hrf_ceil_div(k->n_tiles, TILES);
    k->n_panels = hrf_ceil_div(s->out_channels, PANEL);
    const int64_t chunk = hrf_min(hrf_max(CHUNK_BYTES / 2 / k->block_stride, n_threads),
                                  k->n_blocks);
    k->chunk = hrf_ceil_div(k->n_blocks, hrf_ceil_div(k->n_blocks, chunk)); /* all of one size */
    k->n_parts = k->n_panels % n_threads == 0 || k->n_panels > 4 * n_threads ? 1 : n_threads;
    k->own.base.workspace_bytes = (size_t)(k->chunk * k->block_stride +
                                           n_threads * (panel_numbers(k) + 2 * SUMS)) *
                                  sizeof(int16_t);
}

static enum hrf_status conv_integer_winograd_prepare(struct hrf_own_conv *own,
                                                     const struct hrf_graph *graph,
                                                     const struct hrf_node *node,
                                                     struct hrf_error *err)
{
    struct integer_winograd *k = (struct integer_winograd *)own;
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    HRF_AUTO(hrf_spec) spec = NULL;
    HRF_TRY(hrf_spec_create(graph, node, &spec, err));
    k->is_signed = x->dtype == HRF_S8;
    k->zero_point = x->quantization.zero_point;
    choose_blocks(k);
    const size_t n_bytes = (size_t)(k->n_panels * 9 *
                                    hrf_integer_weights_stride(own->shape.channels));
    HRF_TRY(hrf_own_conv_make_weights(own, graph, node, n_bytes, k->n_panels * PANEL, err));
    memset(own->weights, 0, n_bytes); /* columns beyond the last, and the slack */
    prepare_epilogue(k, spec);
    pack_weights(k, spec->inputs[HRF_CONV_WEIGHTS].constant);
    return HRF_OK;
}

static const struct hrf_own_conv_type type = {
    .size = sizeof(struct integer_winograd),
    .compute = conv_integer_winograd_run,
    .prepare = conv_integer_winograd_prepare,
    .release = conv_integer_winograd_release,
};
const struct hrf_kernel_row hrf_cpu_integer_winograd = {
    .name = "int8 winograd_4x4:avx512_vnni",
    HRF_ROW_OPS(HRF_OP_CONV),
    .forms = HRF_FORM_INTEGER,
    .isa = HRF_ISA_AVX512_VNNI,
    .misfit = conv_integer_winograd_misfit,
    .compile = hrf_own_conv_compile,
    .own = &type,
};
