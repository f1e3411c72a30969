/* conv_pointwise.c - 1x1 convolution as one matrix product over all pixels, own kernels.
 *
 * A thread takes blocks of pixels whose channels fit its second-level cache, and runs all
 * panels of weights over each. Where the weights are larger than the pixels, threads share the
 * columns instead, so that each weight is read by one thread only. Blocks are gathered into the
 * workspace first where pixels are strided, and where the pitch of a pixel's channels is a
 * multiple of 1 KiB: the rows of one tile would then compete for the same few lines of the
 * first-level cache (8 ways; with a pitch of 4 KiB all 14 rows fall into one set). They are
 * gathered, too, where there is a prologue or they have 16 bits: both are dealt with on the way.
 */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/product.h"
#include "engine/backend/cpu/prologue.h"

#include <omp.h>
#include <string.h>

enum {
    BLOCK_BYTES = 64 * 1024,  /* of input pixels, as floats: leaves L2 room for the weights */
    LARGE_BYTES = 448 * 1024, /* the same where those would not stay there: they come less often */
    LARGE_WEIGHTS = 2 << 20,  /* bytes */
    TILE = 14,                /* pixels of one tile of the product: blocks are whole tiles */
    MIN_BLOCK = 2 * TILE,
    MAX_BLOCK = 8 * TILE, /* so that threads end at about the same time */
    BAD_PITCH = 1024,     /* bytes */
    PITCH_SLACK = 16,     /* floats: the next line of the cache */
};

struct pointwise_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    int64_t n, rows, columns, channels, out_rows, out_columns, out_channels;
    int64_t stride[2];
    int64_t n_pixels;                  /* of the output */
    int64_t block, n_blocks, n_slices; /* pixels x columns are cut into blocks x slices */
    bool gathers, has_residual;
    enum hrf_dtype type, out_type;
    int64_t pitch; /* floats from one pixel of a gathered block to the next */
    struct hrf_epilogue epilogue;
    struct hrf_cpu_prologue prologue;
    float *weights, *bias;
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Where output pixel i's input stands, in pixels. */
static int64_t input_of(const struct pointwise_kernel *k, int64_t i)
{
    const int64_t column = i % k->out_columns, row = i / k->out_columns % k->out_rows;
    const int64_t image = i / (k->out_columns * k->out_rows);
    return (image * k->rows + row * k->stride[0]) * k->columns + column * k->stride[1];
}

/* Pixels that follow each other, as floats. */
static void take(const struct pointwise_kernel *k, const char *pixels, int64_t n, float *to)
{
    const float *floats = (const float *)(const void *)pixels;
    const bool has_prologue = hrf_cpu_prologue_is_there(&k->prologue);
    if (k->type != HRF_F32) {
        hrf_widen_lines_avx512(k->type, pixels, to, k->pitch, k->channels, n);
        for (int64_t i = 0; has_prologue && i < n; i++)
            hrf_cpu_prologue_lines(&k->prologue, to + i * k->pitch, to + i * k->pitch, k->pitch,
                                   k->channels, 1);
    } else if (has_prologue) {
        hrf_cpu_prologue_lines(&k->prologue, floats, to, k->pitch, k->channels, n);
    } else {
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * k->pitch, floats + i * k->channels,
                   (size_t)k->channels * sizeof(float));
    }
}

static void gather(const struct pointwise_kernel *k, const char *x, int64_t first, int64_t n,
                   float *to)
{
    const int64_t pixel_bytes = k->channels * (int64_t)hrf_dtype_size(k->type);
    if (k->stride[0] == 1 && k->stride[1] == 1) {
        take(k, x + first * pixel_bytes, n, to);
        return;
    }
    for (int64_t i = first; i < first + n; i++, to += k->pitch)
        take(k, x + input_of(k, i) * pixel_bytes, 1, to);
}

/* The pixels of the next block, as good a guess as any for what this thread reads next. */
static struct hrf_ahead next_block(const struct pointwise_kernel *k, const char *x, int64_t block)
{
    const int64_t first = (block + 1) * k->block;
    const int64_t n = block + 1 < k->n_blocks ? k->block : 0;
    const int64_t per_pixel = k->channels * (int64_t)hrf_dtype_size(k->type);
    const int64_t area = k->stride[0] * k->stride[1];
    return (struct hrf_ahead){ .memory = x + first * area * per_pixel,
                               .n_bytes = n * area * per_pixel,
                               .weights_are_far = block == 0,
                               .y_is_far = true };
}

static void run_part(const struct pointwise_kernel *k, const struct hrf_kernel_call *call,
                     int64_t block, int64_t slice)
{
    const int64_t first = block * k->block, left = k->n_pixels - first;
    const int64_t n = left < k->block ? left : k->block;
    const int64_t n_panels = ceil_div(k->out_channels, HRF_PANEL);
    const int64_t column = n_panels * slice / k->n_slices * HRF_PANEL;
    int64_t end = n_panels * (slice + 1) / k->n_slices * HRF_PANEL;
    end = end < k->out_channels ? end : k->out_channels;
    const char *x = call->inputs[HRF_CONV_X];
    const float *pixels = (const float *)(const void *)x + first * k->channels;
    char *y = call->output;
    if (k->gathers) {
        float *own = (float *)call->workspace + omp_get_thread_num() * k->block * k->pitch;
        gather(k, x, first, n, own);
        pixels = own;
    }
    const struct hrf_ahead ahead = next_block(k, x, block);
    struct hrf_epilogue epilogue = k->epilogue;
    epilogue.bias += column;
    hrf_product_avx512(pixels, k->pitch, k->weights + column * k->channels, k->channels,
                       y + (first * k->out_channels + column) *
                               (int64_t)hrf_dtype_size(k->out_type),
                       k->out_channels, n, end - column, &epilogue, &ahead);
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    const struct pointwise_kernel *k = (const struct pointwise_kernel *)base;
    if (k->has_residual && call->inputs[HRF_CONV_RESIDUAL] != call->output)
        memcpy(call->output, call->inputs[HRF_CONV_RESIDUAL],
               (size_t)(k->n_pixels * k->out_channels) * hrf_dtype_size(k->out_type));
    const int64_t n_parts = k->n_blocks * k->n_slices;
#pragma omp parallel for schedule(dynamic)
    for (int64_t part = 0; part < n_parts; part++)
        run_part(k, call, part % k->n_blocks, part / k->n_blocks);
    return HRF_OK;
}

static void destroy(struct hrf_kernel *base)
{
    struct pointwise_kernel *k = (struct pointwise_kernel *)base;
    hrf_free(k->weights);
    hrf_free(k->bias);
    hrf_cpu_prologue_release(&k->prologue);
    hrf_free(k);
}

bool hrf_cpu_pointwise_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_window *w = &node->attributes.window;
    const struct hrf_shape *k = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    bool padded = false;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++)
        padded |= w->pad_begin[i] != 0 || w->pad_end[i] != 0;
    return hrf_cpu_has_avx512() && hrf_cpu_comes_at_run_time(graph, node) && k->dims[2] == 1 &&
           k->dims[3] == 1 && !padded && hrf_cpu_types_fit(graph, node) &&
           node->attributes.group == 1 && hrf_shape_count(y) > 0;
}

static void choose_blocks(struct pointwise_kernel *k)
{
    const int64_t n_threads = k->backend->n_threads;
    const int64_t n_panels = ceil_div(k->out_channels, HRF_PANEL);
    const int64_t pixel_bytes = k->channels * (int64_t)sizeof(float);
    const bool large = pixel_bytes * k->out_channels > LARGE_WEIGHTS;
    int64_t block = (large ? LARGE_BYTES : BLOCK_BYTES) / pixel_bytes / TILE * TILE;
    block = block < MIN_BLOCK ? MIN_BLOCK : block > MAX_BLOCK ? MAX_BLOCK : block;
    k->n_slices = 1;
    const bool few_pixels = k->n_pixels < k->out_channels || k->n_pixels < n_threads * MIN_BLOCK;
    if (few_pixels && n_panels >= n_threads)
        k->n_slices = n_threads;
    else if (k->n_pixels < 4 * n_threads * block) /* as many for each */
        block = ceil_div(k->n_pixels,
                         ceil_div(ceil_div(k->n_pixels, block), n_threads) * n_threads);
    k->block = block < k->n_pixels ? block : k->n_pixels;
    k->n_blocks = ceil_div(k->n_pixels, k->block);
    if (k->gathers)
        k->base.workspace_bytes = (size_t)(n_threads * k->block * k->pitch) * sizeof(float);
}

static enum hrf_status prepare_constants(struct pointwise_kernel *k, const struct hrf_graph *graph,
                                         const struct hrf_node *node, struct hrf_error *err)
{
    const size_t n_bytes = hrf_product_packed_count(k->channels, k->out_channels) * sizeof(float);
    k->weights = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    k->bias = hrf_calloc((size_t)k->out_channels, sizeof(float));
    if (k->weights == NULL || k->bias == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "weights of node '%s': %zu bytes", node->name,
                             n_bytes);
    hrf_product_pack(graph->values[node->inputs[HRF_CONV_WEIGHTS]].data, 1, k->channels,
                     k->channels, k->out_channels, k->weights);
    const float *bias = hrf_cpu_constant(graph, node, HRF_CONV_BIAS);
    if (bias != NULL)
        memcpy(k->bias, bias, (size_t)k->out_channels * sizeof(float));
    k->base.weight_bytes = n_bytes + (size_t)k->out_channels * sizeof(float);
    return HRF_OK;
}

enum hrf_status hrf_cpu_pointwise_compile(struct hrf_backend *backend,
                                          const struct hrf_graph *graph,
                                          const struct hrf_node *node, struct hrf_kernel **out,
                                          struct hrf_error *err)
{
    struct pointwise_kernel *k = hrf_calloc(1, sizeof *k);
    const enum hrf_dtype x_type = graph->values[node->inputs[HRF_CONV_X]].dtype;
    if (k == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    k->base = (struct hrf_kernel){ .run = run,
                                   .destroy = destroy,
                                   .implementation = HRF_CPU_NAME(x_type, "product:avx512") };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    k->backend = backend;
    k->channels = x->dims[1];
    k->rows = x->dims[2];
    k->columns = x->dims[3];
    k->out_channels = y->dims[1];
    k->out_rows = y->dims[2];
    k->out_columns = y->dims[3];
    k->n_pixels = y->dims[0] * k->out_rows * k->out_columns;
    k->stride[0] = node->attributes.window.stride[0];
    k->stride[1] = node->attributes.window.stride[1];
    const bool bad_pitch = k->channels * (int64_t)sizeof(float) % BAD_PITCH == 0;
    HRF_TRY(hrf_cpu_prologue_init(&k->prologue, graph, node, err));
    k->type = x_type;
    k->out_type = graph->values[node->outputs[0]].dtype;
    k->gathers = k->type != HRF_F32 || k->stride[0] != 1 || k->stride[1] != 1 || bad_pitch ||
                 hrf_cpu_prologue_is_there(&k->prologue);
    k->pitch = k->channels + (bad_pitch ? PITCH_SLACK : 0);
    k->has_residual = node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0;
    choose_blocks(k);
    HRF_TRY(prepare_constants(k, graph, node, err));
    k->epilogue = hrf_cpu_epilogue(&node->attributes, k->out_type, k->bias, k->has_residual);
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
