/* conv_winograd.c - 3x3 convolution of stride 1 by Winograd's transforms, own kernels: where
 * it pays, its weights, and how its tiles are cut into blocks. conv_winograd_run.c runs it.
 */
#include "engine/backend/cpu/conv_winograd.h"

#include <string.h>

enum {
    LANES = 16,
    LARGE_WEIGHT_BYTES = 3 << 20, /* beyond, they do not come fast enough for so few tiles */
    MIN_LARGE_BLOCK = 28,         /* tiles that hide them */
    LARGE_BLOCK_BYTES = 6 << 20,  /* of scratch, for each thread, in the shared cache */
    PITCH_SLACK = LANES,          /* keeps the points' streams off one set of the caches */
};

static void destroy(struct hrf_kernel *base)
{
    struct hrf_winograd_kernel *k = (struct hrf_winograd_kernel *)base;
    hrf_free(k->weights);
    hrf_free(k->bias);
    hrf_free(k->zeros);
    hrf_cpu_prologue_release(&k->prologue);
    hrf_free(k);
}

/* Whether Winograd is faster is decided by an estimate in cycles of one thread: multiply-adds at 85
 * % of their peak, the transforms of 16 channels of a tile, and weights at what a core reads from
 * main memory, 5 bytes a cycle. With few tiles the last decides, as there are 16 transformed
 * weights where 9 were. The cycles of the transforms are estimates, too.
 *
 * The choice was checked against single layers as `bench --layers` times them alone: one thread, 30
 * runs, the least of 4 repetitions, as many outputs as channels, AVX-512 with two multiply-adds a
 * cycle. It takes Winograd where that won or tied, and only there, but for 32
 * channels of 7 x 7 pixels, which it computes directly:
 *   channels   direct : Winograd, ms, of 56 x 56, 28 x 28, 14 x 14 and 7 x 7 pixels
 *     16       0.152:0.176   0.039:0.046   0.011:0.013   0.0036:0.0044
 *     32       0.525:0.300   0.132:0.074   0.034:0.019   0.0088:0.0072
 *     64       1.80:0.95     0.435:0.234   0.107:0.058   0.027:0.021
 *    128       7.88:4.89     1.67:0.82     0.412:0.204   0.104:0.071
 *    256       32.5:25.8     10.6:7.5      1.65:0.78     0.394:0.297
 *    512       224:155       110:53        28.9:15.2     1.680:1.683
 * The machine was shared with other work: the larger times are too long by up to two. */
enum { WEIGHT_BYTES_PER_CYCLE = 5 };

static double weight_cycles(double n_weights)
{
    return n_weights * sizeof(float) / WEIGHT_BYTES_PER_CYCLE;
}

static int64_t count_tiles(const struct hrf_shape *y)
{
    return y->dims[0] * hrf_ceil_div(y->dims[2], HRF_WINOGRAD_OUT) *
           hrf_ceil_div(y->dims[3], HRF_WINOGRAD_OUT);
}

static double winograd_cycles(const struct hrf_shape *y, int64_t c)
{
    enum { INPUT = 60, OUTPUT = 45 }; /* cycles of a transform */
    const int64_t m = y->dims[1];
    const int64_t whole = hrf_ceil_div(m, HRF_PANEL) * HRF_PANEL;
    const double tiles = (double)count_tiles(y),
                 products = (double)(c * whole * HRF_WINOGRAD_POINTS);
    const double transforms = tiles * (double)(INPUT * c + OUTPUT * m) / LANES;
    const double multiply_adds = hrf_cpu_multiply_adds_per_cycle() * 0.85;
    return tiles * products / multiply_adds + transforms + weight_cycles(products);
}

/* `speed`: of its multiply-adds, in those of floats; its weights are as much smaller. */
static double direct_cycles(const struct hrf_shape *y, int64_t c, double speed)
{
    const double pixels = (double)(y->dims[0] * y->dims[2] * y->dims[3]);
    const double products = (double)c * (double)y->dims[1] * 9;
    const double multiply_adds = hrf_cpu_multiply_adds_per_cycle() * 0.9;
    return (pixels * products / multiply_adds + weight_cycles(products)) / speed;
}

bool hrf_cpu_winograd_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_window *w = &node->attributes.window;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_shape *k = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    const bool fits = k->dims[2] == 3 && k->dims[3] == 3 && w->stride[0] == 1 &&
                      w->stride[1] == 1 && w->dilation[0] == 1 && w->dilation[1] == 1;
    if (!hrf_cpu_has_avx512() || !hrf_cpu_types_fit(graph, node) ||
        !hrf_cpu_comes_at_run_time(graph, node) || !fits || node->attributes.group != 1 ||
        x->dims[1] % LANES != 0 || y->dims[1] % LANES != 0 || hrf_shape_count(y) == 0)
        return false;
    return winograd_cycles(y, x->dims[1]) <
           direct_cycles(y, x->dims[1], hrf_cpu_native_speed(graph, node));
}

/* w is [m][c][3][3], what comes of it [point][m][c]. */
static void transform_weights(const struct hrf_winograd_kernel *k, const float *w,
                              float *point_major)
{
    const int64_t pairs = k->channels * k->out_channels;
    for (int64_t i = 0; i < pairs; i++) {
        float u[HRF_WINOGRAD_POINTS];
        hrf_winograd_weights(w + i * 9, u);
        for (int64_t point = 0; point < HRF_WINOGRAD_POINTS; point++)
            point_major[point * pairs + i] = u[point];
    }
}

static void pack_weights(struct hrf_winograd_kernel *k, const float *point_major)
{
    const int64_t pairs = k->channels * k->out_channels;
    for (int64_t point = 0; point < HRF_WINOGRAD_POINTS; point++)
        hrf_product_pack(
            HRF_FLOATS, point_major + point * pairs, 1, k->channels, k->channels, k->out_channels,
            k->weights + (size_t)point * hrf_product_packed_count(k->channels, k->out_channels));
}

static enum hrf_status prepare_constants(struct hrf_winograd_kernel *k,
                                         const struct hrf_graph *graph, const struct hrf_node *node,
                                         struct hrf_error *err)
{
    const size_t n_bytes = HRF_WINOGRAD_POINTS *
                           hrf_product_packed_count(k->channels, k->out_channels) * sizeof(float);
    const size_t out_channels = (size_t)k->out_channels, channels = (size_t)k->channels;
    HRF_AUTO_FREE float *point_major = hrf_alloc_array(
        HRF_WINOGRAD_POINTS * out_channels * channels, sizeof(float));
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

static void choose_blocks(struct hrf_winograd_kernel *k)
{
    const int64_t n_threads = k->backend->n_threads;
    const int64_t weight_bytes = k->channels * k->out_channels * HRF_WINOGRAD_POINTS *
                                 (int64_t)sizeof(float);
    k->v_pitch = k->channels + PITCH_SLACK;
    k->m_pitch = k->out_channels + PITCH_SLACK;
    const int64_t pitch = k->v_pitch > k->m_pitch ? k->v_pitch : k->m_pitch;
    const int64_t tile_bytes = (HRF_WINOGRAD_POINTS + 1) * pitch * (int64_t)sizeof(float);
    const bool is_large = weight_bytes > LARGE_WEIGHT_BYTES;
    int64_t block = 2 * HRF_PRODUCT_ROWS; /* 1 to 4 times the rows: all within 4 %, the noise */
    if (is_large && LARGE_BLOCK_BYTES / tile_bytes > block)
        block = LARGE_BLOCK_BYTES / tile_bytes;
    k->n_blocks = hrf_ceil_div(k->n_tiles, block);
    if (!is_large || k->n_tiles / n_threads >= MIN_LARGE_BLOCK)
        k->n_blocks = hrf_ceil_div(k->n_blocks, n_threads) * n_threads; /* as many for each */
    else if (k->n_tiles / MIN_LARGE_BLOCK > k->n_blocks)
        k->n_blocks = k->n_tiles / MIN_LARGE_BLOCK;
    k->n_blocks = hrf_least(k->n_blocks, k->n_tiles);
    k->at_once = is_large ? hrf_least(k->n_blocks, n_threads) : 0;
    k->slot = hrf_ceil_div(k->n_tiles, k->n_blocks) * pitch + PITCH_SLACK;
    k->base.workspace_bytes = hrf_winograd_scratch(k);
}

enum hrf_status hrf_cpu_winograd_compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                                         const struct hrf_node *node, struct hrf_kernel **out,
                                         struct hrf_error *err)
{
    struct hrf_winograd_kernel *k = hrf_calloc(1, sizeof *k);
    if (k == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    k->base = (struct hrf_kernel){ .run = hrf_winograd_run, .destroy = destroy };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    k->backend = backend;
    k->type = graph->values[node->inputs[HRF_CONV_X]].dtype;
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
    k->tile_rows = hrf_ceil_div(k->out_rows, HRF_WINOGRAD_OUT);
    k->tile_columns = hrf_ceil_div(k->out_columns, HRF_WINOGRAD_OUT);
    k->n_tiles = count_tiles(y);
    k->base.implementation = HRF_CPU_NAME(k->type, "winograd_2x2:avx512");
    k->has_residual = node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0;
    choose_blocks(k);
    HRF_TRY(prepare_constants(k, graph, node, err));
    k->epilogue = hrf_cpu_epilogue(&node->attributes, k->out_type, k->bias, k->has_residual);
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
