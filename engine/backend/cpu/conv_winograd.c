/* conv_winograd.c - 3x3 convolution of stride 1 by Winograd's F(4x4, 3x3), own kernels.
 *
 * Two ways to go through the 36 products, chosen by the size of the transformed weights: small
 * ones stay in the caches, so each thread takes blocks of tiles through all three steps in a
 * block of scratch that stays there too; large ones are read once, so all tiles go through one
 * step before the next, and a thread keeps to its products.
 */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/prologue.h"
#include "engine/backend/cpu/winograd.h"

#include <omp.h>
#include <string.h>

enum {
    LANES = 16,
    BLOCK_TILES = 14,              /* of a thread: one tile of the product, rest of L2: weights */
    SHARED_WEIGHT_BYTES = 3 << 20, /* beyond, read the weights once */
    SHARED_BYTES = 10 << 20,       /* of all scratch then, for each thread */
    PITCH_SLACK = LANES,           /* keeps the 36 streams off one set of the caches */
};

struct winograd_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    int64_t n, rows, columns, channels, out_rows, out_columns, out_channels;
    int64_t pad[2];
    int64_t tile_rows, tile_columns, n_tiles;
    int64_t v_pitch, m_pitch; /* floats from one tile to the next, of one point */
    int64_t block;            /* tiles that are in work at a time, of a thread or (shared) of all */
    bool shared;
    enum hrf_dtype type, out_type;
    struct hrf_epilogue epilogue;
    bool has_residual;
    struct hrf_cpu_prologue prologue;
    float *weights; /* [36] packed products */
    size_t point_floats;
    float *bias, *zeros; /* zeros: one pixel outside the image */
};

struct scratch {
    float *v, *m;
    int64_t v_pitch, m_pitch; /* floats from one point to the next */
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t scratch_floats(const struct winograd_kernel *k)
{
    const int64_t per_point = k->block * (k->v_pitch + k->m_pitch) + 2 * PITCH_SLACK;
    return per_point * HRF_WINOGRAD_POINTS;
}

static struct scratch scratch_of(const struct winograd_kernel *k, void *workspace, int64_t thread)
{
    struct scratch s = { .v = (float *)workspace + thread * scratch_floats(k),
                         .v_pitch = k->block * k->v_pitch + PITCH_SLACK,
                         .m_pitch = k->block * k->m_pitch + PITCH_SLACK };
    s.m = s.v + s.v_pitch * HRF_WINOGRAD_POINTS;
    return s;
}

struct place {
    int64_t image, row, column; /* of the tile's first output */
};

static struct place place_of(const struct winograd_kernel *k, int64_t tile)
{
    const int64_t per_image = k->tile_rows * k->tile_columns;
    return (struct place){ .image = tile / per_image,
                           .row = tile % per_image / k->tile_columns * HRF_WINOGRAD_OUT,
                           .column = tile % k->tile_columns * HRF_WINOGRAD_OUT };
}

/* Of the next tile, without divisions: those of place_of() take as long as a few transforms. */
static void advance(const struct winograd_kernel *k, struct place *at)
{
    at->column += HRF_WINOGRAD_OUT;
    if (at->column < k->out_columns)
        return;
    at->column = 0;
    at->row += HRF_WINOGRAD_OUT;
    if (at->row < k->out_rows)
        return;
    at->row = 0;
    at->image++;
}

static void read_tile(const struct winograd_kernel *k, const char *x, const struct place *at,
                      float *v, int64_t pitch)
{
    const char *pixels[HRF_WINOGRAD_POINTS];
    const int64_t pixel_bytes = k->channels * (int64_t)hrf_dtype_size(k->type);
    const char *image = x + at->image * k->rows * k->columns * pixel_bytes;
    const char *zeros = (const char *)k->zeros;
    const char *outside = hrf_cpu_prologue_is_there(&k->prologue) ? NULL : zeros;
    for (int64_t i = 0; i < HRF_WINOGRAD_IN; i++) {
        const int64_t y = at->row - k->pad[0] + i;
        const char **row = pixels + i * HRF_WINOGRAD_IN;
        for (int64_t j = 0; j < HRF_WINOGRAD_IN; j++) {
            const int64_t u = at->column - k->pad[1] + j;
            const bool inside = y >= 0 && y < k->rows && u >= 0 && u < k->columns;
            row[j] = inside ? image + (y * k->columns + u) * pixel_bytes : outside;
        }
    }
    if (outside == NULL)
        hrf_winograd_prologue_avx512(k->type, pixels, k->channels, &k->prologue, v, pitch,
                                     k->shared);
    else
        hrf_winograd_input_avx512(k->type, pixels, k->channels, v, pitch, k->shared);
}

static void write_tile(const struct winograd_kernel *k, const float *m, int64_t pitch,
                       const struct place *at, char *out)
{
    char *outputs[HRF_WINOGRAD_OUTPUTS];
    const int64_t pixel_bytes = k->out_channels * (int64_t)hrf_dtype_size(k->out_type);
    char *image = out + at->image * k->out_rows * k->out_columns * pixel_bytes;
    for (int64_t i = 0; i < HRF_WINOGRAD_OUTPUTS; i++) {
        const int64_t y = at->row + i / HRF_WINOGRAD_OUT, u = at->column + i % HRF_WINOGRAD_OUT;
        const bool inside = y < k->out_rows && u < k->out_columns;
        outputs[i] = inside ? image + (y * k->out_columns + u) * pixel_bytes : NULL;
    }
    hrf_winograd_output_avx512(m, pitch, k->out_channels, k->shared, outputs, &k->epilogue);
}

/* Tiles [first, first + n) of the block that begins with tile `block`. */
static void read_tiles(const struct winograd_kernel *k, const struct scratch *s, const char *x,
                       int64_t block, int64_t first, int64_t n)
{
    struct place at = place_of(k, block + first);
    for (int64_t i = first; i < first + n; i++, advance(k, &at))
        read_tile(k, x, &at, s->v + i * k->v_pitch, s->v_pitch);
}

static void write_tiles(const struct winograd_kernel *k, const struct scratch *s, char *out,
                        int64_t block, int64_t first, int64_t n)
{
    struct place at = place_of(k, block + first);
    for (int64_t i = first; i < first + n; i++, advance(k, &at))
        write_tile(k, s->m + i * k->m_pitch, s->m_pitch, &at, out);
}

static void multiply(const struct winograd_kernel *k, const struct scratch *s, int64_t point,
                     int64_t n, const struct hrf_ahead *ahead)
{
    static const struct hrf_epilogue plain = { .type = HRF_F32, .activation = HRF_ACT_NONE };
    hrf_product_avx512(s->v + point * s->v_pitch, k->v_pitch,
                       k->weights + (size_t)point * k->point_floats, k->channels,
                       s->m + point * s->m_pitch, k->m_pitch, n, k->out_channels, &plain, ahead);
}

/* The image rows under tiles [first, first + n). */
static struct hrf_ahead rows_under(const struct winograd_kernel *k, const char *x, int64_t first,
                                   int64_t n)
{
    if (first + n > k->n_tiles)
        n = k->n_tiles - first;
    if (n <= 0)
        return (struct hrf_ahead){ .memory = x };
    const struct place from = place_of(k, first), to = place_of(k, first + n - 1);
    const int64_t row_bytes = k->columns * k->channels * (int64_t)hrf_dtype_size(k->type);
    const int64_t begin = from.image * k->rows + from.row;
    int64_t end = to.image * k->rows + to.row + HRF_WINOGRAD_OUT + 1;
    end = end < k->n * k->rows ? end : k->n * k->rows;
    return (struct hrf_ahead){ .memory = x + begin * row_bytes,
                               .n_bytes = (end - begin) * row_bytes };
}

static void run_block(const struct winograd_kernel *k, const struct scratch *s, const char *x,
                      char *out, int64_t first, int64_t n)
{
    struct hrf_ahead ahead = rows_under(k, x, first + n, n);
    const int64_t n_bytes = ahead.n_bytes / HRF_WINOGRAD_POINTS; /* a part for each product */
    ahead.n_bytes = n_bytes;
    read_tiles(k, s, x, first, 0, n);
    for (int64_t point = 0; point < HRF_WINOGRAD_POINTS; point++, ahead.memory += n_bytes)
        multiply(k, s, point, n, &ahead);
    write_tiles(k, s, out, first, 0, n);
}

static void run_own(const struct winograd_kernel *k, const char *x, char *out, void *workspace)
{
    const int64_t n_blocks = ceil_div(k->n_tiles, k->block);
#pragma omp parallel for schedule(dynamic)
    for (int64_t b = 0; b < n_blocks; b++) {
        const struct scratch s = scratch_of(k, workspace, omp_get_thread_num());
        const int64_t first = k->n_tiles * b / n_blocks, end = k->n_tiles * (b + 1) / n_blocks;
        run_block(k, &s, x, out, first, end - first);
    }
}

/* A thread's share of one block: its tiles, its products, its tiles again. The barrier before the
 * products keeps those of the next block from what others still write out. */
static void run_share(const struct winograd_kernel *k, const struct scratch *s, const char *x,
                      char *out, int64_t block, int64_t n)
{
    const int64_t thread = omp_get_thread_num(), n_threads = omp_get_num_threads();
    const int64_t first = n * thread / n_threads, end = n * (thread + 1) / n_threads;
    read_tiles(k, s, x, block, first, end - first);
#pragma omp barrier
#pragma omp for schedule(static)
    for (int64_t point = 0; point < HRF_WINOGRAD_POINTS; point++) {
        const struct hrf_ahead next = { .memory = (const char *)(s->v + (point + 1) * s->v_pitch),
                                        .n_bytes = n * k->v_pitch * (int64_t)sizeof(float),
                                        .weights_are_far = true,
                                        .y_is_far = true };
        multiply(k, s, point, n, &next);
    }
    write_tiles(k, s, out, block, first, end - first);
}

static void run_shared(const struct winograd_kernel *k, const char *x, char *out, void *workspace)
{
    const struct scratch s = scratch_of(k, workspace, 0);
    const int64_t n_blocks = ceil_div(k->n_tiles, k->block);
#pragma omp parallel
    for (int64_t b = 0; b < n_blocks; b++) {
        const int64_t first = k->n_tiles * b / n_blocks;
        run_share(k, &s, x, out, first, k->n_tiles * (b + 1) / n_blocks - first);
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
    const char *x = call->inputs[HRF_CONV_X];
    if (k->shared)
        run_shared(k, x, call->output, call->workspace);
    else
        run_own(k, x, call->output, call->workspace);
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
 * transforms' instructions one a cycle (they wait for memory), weights at what a core reads from
 * main memory: 5 bytes a cycle. With few tiles the last decides, as there are four times as many
 * transformed weights (measured: one image of 512 channels at 8x8, 3.7 ms against 2.9). */
enum { WEIGHT_BYTES_PER_CYCLE = 5 };

static double weight_cycles(double n_weights)
{
    return n_weights * sizeof(float) / WEIGHT_BYTES_PER_CYCLE;
}

static double winograd_cycles(int64_t n_tiles, int64_t c, int64_t m, int32_t n_threads)
{
    const double tiles = (double)n_tiles, products = (double)c * (double)m * HRF_WINOGRAD_POINTS;
    const double transforms = tiles * (168.0 * (double)c + 130.0 * (double)m) / LANES;
    return (tiles * products / (32 * 0.85) + transforms + weight_cycles(products)) / n_threads;
}

static double direct_cycles(const struct hrf_shape *y, int64_t c, int32_t n_threads)
{
    const double pixels = (double)(y->dims[0] * y->dims[2] * y->dims[3]);
    const double products = (double)c * (double)y->dims[1] * 9;
    return (pixels * products / (32 * 0.9) + weight_cycles(products)) / n_threads;
}

static int64_t count_tiles(const struct hrf_shape *y)
{
    return y->dims[0] * ceil_div(y->dims[2], HRF_WINOGRAD_OUT) *
           ceil_div(y->dims[3], HRF_WINOGRAD_OUT);
}

bool hrf_cpu_winograd_fits(const struct hrf_backend *backend, const struct hrf_graph *graph,
                           const struct hrf_node *node)
{
    const struct hrf_window *w = &node->attributes.window;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_shape *k = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    const bool square = k->dims[2] == 3 && k->dims[3] == 3 && w->stride[0] == 1 &&
                        w->stride[1] == 1 && w->dilation[0] == 1 && w->dilation[1] == 1;
    if (!hrf_cpu_has_avx512() || !hrf_cpu_types_fit(graph, node) ||
        !hrf_cpu_comes_at_run_time(graph, node) || !square || node->attributes.group != 1 ||
        x->dims[1] % LANES != 0 || y->dims[1] % LANES != 0 || hrf_shape_count(y) == 0)
        return false;
    return winograd_cycles(count_tiles(y), x->dims[1], y->dims[1], backend->n_threads) <
           direct_cycles(y, x->dims[1], backend->n_threads);
}

static void pack_weights(struct winograd_kernel *k, const float *w, float *point_major)
{
    const int64_t pairs = k->channels * k->out_channels;
    for (int64_t i = 0; i < pairs; i++) { /* w is [m][c][3][3] */
        double u[HRF_WINOGRAD_POINTS];
        hrf_winograd_weights(w + i * 9, u);
        for (int64_t point = 0; point < HRF_WINOGRAD_POINTS; point++)
            point_major[point * pairs + i] = (float)u[point];
    }
    for (int64_t point = 0; point < HRF_WINOGRAD_POINTS; point++)
        hrf_product_pack(point_major + point * pairs, 1, k->channels, k->channels, k->out_channels,
                         k->weights + (size_t)point * k->point_floats);
}

static enum hrf_status prepare_constants(struct winograd_kernel *k, const struct hrf_graph *graph,
                                         const struct hrf_node *node, struct hrf_error *err)
{
    k->point_floats = hrf_product_packed_count(k->channels, k->out_channels);
    const size_t n_bytes = k->point_floats * HRF_WINOGRAD_POINTS * sizeof(float);
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
    pack_weights(k, graph->values[node->inputs[HRF_CONV_WEIGHTS]].data, point_major);
    const float *bias = hrf_cpu_constant(graph, node, HRF_CONV_BIAS);
    if (bias != NULL)
        memcpy(k->bias, bias, out_channels * sizeof(float));
    k->base.weight_bytes = n_bytes + out_channels * sizeof(float);
    return HRF_OK;
}

static void choose_blocks(struct winograd_kernel *k)
{
    const int64_t channels = k->channels + k->out_channels;
    const int64_t weight_bytes = k->channels * k->out_channels * HRF_WINOGRAD_POINTS * 4;
    const int64_t n_threads = k->backend->n_threads;
    k->shared = weight_bytes > SHARED_WEIGHT_BYTES;
    /* All tiles at once, up to what the shared cache can be expected to hold for us. */
    int64_t block = BLOCK_TILES;
    if (k->shared && SHARED_BYTES * n_threads / (channels * HRF_WINOGRAD_POINTS * 4) > block)
        block = SHARED_BYTES * n_threads / (channels * HRF_WINOGRAD_POINTS * 4);
    int64_t n_blocks = ceil_div(k->n_tiles, block);
    if (!k->shared) /* as many for each thread */
        n_blocks = ceil_div(n_blocks, n_threads) * n_threads;
    k->block = ceil_div(k->n_tiles, n_blocks);
    const size_t copies = k->shared ? 1 : (size_t)n_threads;
    k->base.workspace_bytes = copies * (size_t)scratch_floats(k) * sizeof(float);
}

enum hrf_status hrf_cpu_winograd_compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                                         const struct hrf_node *node, struct hrf_kernel **out,
                                         struct hrf_error *err)
{
    const enum hrf_dtype x_type = graph->values[node->inputs[HRF_CONV_X]].dtype;
    struct winograd_kernel *k = hrf_calloc(1, sizeof *k);
    if (k == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    k->base = (struct hrf_kernel){ .run = run,
                                   .destroy = destroy,
                                   .implementation = HRF_CPU_NAME(x_type, "winograd_4x4:avx512") };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    k->backend = backend;
    k->type = x_type;
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
    k->tile_rows = ceil_div(k->out_rows, HRF_WINOGRAD_OUT);
    k->tile_columns = ceil_div(k->out_columns, HRF_WINOGRAD_OUT);
    k->n_tiles = count_tiles(y);
    k->has_residual = node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0;
    k->v_pitch = k->channels + PITCH_SLACK;
    k->m_pitch = k->out_channels + PITCH_SLACK;
    choose_blocks(k);
    HRF_TRY(prepare_constants(k, graph, node, err));
    k->epilogue = hrf_cpu_epilogue(&node->attributes, k->out_type, k->bias, k->has_residual);
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
