/* conv_stem.c - a network's first convolution by Winograd's transforms of phases: see stem.h.
 *
 * A part of the work is one row of tiles of one image: three rows of outputs. A thread takes a few
 * tiles of it at a time, so that these, transformed, stay in the second-level cache.
 *
 * Together with a max pool behind it a part is an image, or a slab of it: each row of tiles is
 * pooled as soon as it is made, and the outputs, which are many times what comes in and what
 * leaves, are never written to memory. Rows under the ends of two slabs are made twice.
 */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/stem.h"

#include <omp.h>
#include <string.h>

enum {
    SCRATCH_FLOATS = HRF_STEM_HALF_FLOATS + HRF_STEM_WHOLE_FLOATS,
    MIN_SLAB_ROWS = 24, /* with whole tiles at both ends, a fifth is made twice at most */
};

struct stem_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    struct hrf_stem stem;
    int64_t n, rows, columns, out_rows, out_columns, out_channels;
    int64_t pad[2];
    int64_t tile_rows, tile_columns, n_blocks; /* of a row of tiles */
    enum hrf_dtype type, out_type;
    struct hrf_epilogue epilogue;
    float *weights;      /* a panel of output channels after the other */
    float *bias, *zeros; /* zeros: a row outside the image */
};

static int64_t row_bytes_of(const struct stem_kernel *k)
{
    return k->columns * k->stem.channels * (int64_t)hrf_dtype_size(k->type);
}

static int64_t image_bytes_of(const struct stem_kernel *k)
{
    return k->rows * row_bytes_of(k);
}

/* The image's rows under a row of tiles. */
static struct hrf_stem_input rows_under(const struct stem_kernel *k, const char *image,
                                        int64_t tile_row)
{
    struct hrf_stem_input in = { .type = k->type, .n_columns = k->columns };
    const int64_t row_bytes = row_bytes_of(k);
    const int64_t top = tile_row * HRF_STEM_OUT * 2 - k->pad[0];
    for (int64_t i = 0; i < HRF_STEM_ROWS; i++) {
        const bool inside = top + i >= 0 && top + i < k->rows;
        in.rows[i] = inside ? image + (top + i) * row_bytes : (const char *)k->zeros;
    }
    return in;
}

/* Where a row of tiles goes: each row of outputs, from its first column on, to its place, NULL if
 * it is not wanted; or all of them into a pool. */
struct target {
    char *rows[HRF_STEM_OUT];
    const struct hrf_stem_pool *pool; /* of the row's first tile and channel; NULL: none */
};

static void write_panel(const struct stem_kernel *k, const float *half, int64_t begin, int64_t end,
                        int64_t channel, int64_t n_outputs, const struct target *to)
{
    const int64_t size = (int64_t)hrf_dtype_size(k->out_type), first = begin * HRF_STEM_OUT;
    const int64_t n_columns = hrf_least((end - begin) * HRF_STEM_OUT, k->out_columns - first);
    const int64_t pixel_bytes = k->out_channels * size;
    struct hrf_epilogue epilogue = k->epilogue;
    char *rows[HRF_STEM_OUT];
    for (int i = 0; i < HRF_STEM_OUT; i++)
        rows[i] = to->rows[i] != NULL ? to->rows[i] + first * pixel_bytes + channel * size : NULL;
    epilogue.bias += channel;
    hrf_stem_output_avx512(half, n_columns, n_outputs, pixel_bytes, rows, &epilogue);
}

static void pool_panel(const struct stem_kernel *k, const float *half, int64_t begin, int64_t end,
                       int64_t channel, int64_t n_outputs, const struct hrf_stem_pool *to)
{
    struct hrf_stem_pool pool = *to;
    pool.bias += channel;
    pool.open += channel;
    pool.first_tile = begin;
    pool.n_columns = k->out_columns - begin * HRF_STEM_OUT;
    for (int i = 0; i < HRF_STEM_OUT; i++)
        pool.rows[i] = to->rows[i] != NULL ? to->rows[i] + channel : NULL;
    hrf_stem_pool_avx512(half, end - begin, n_outputs, &pool);
}

/* Tiles [begin, end) of a row of them. */
static void run_block(const struct stem_kernel *k, struct hrf_stem_input *in, int64_t begin,
                      int64_t end, const struct target *to, float *scratch)
{
    float *const half = scratch, *const whole = scratch + HRF_STEM_HALF_FLOATS;
    in->first = begin * HRF_STEM_OUT * 2 - k->pad[1];
    hrf_stem_input_avx512(&k->stem, in, end - begin, half, whole);
    for (int64_t channel = 0; channel < k->out_channels; channel += HRF_STEM_PANEL) {
        const int64_t n_outputs = hrf_least(k->out_channels - channel, HRF_STEM_PANEL);
        hrf_stem_multiply_avx512(&k->stem, whole,
                                 k->weights + hrf_stem_packed_count(&k->stem, channel), end - begin,
                                 n_outputs, half);
        if (to->pool != NULL)
            pool_panel(k, half, begin, end, channel, n_outputs, to->pool);
        else
            write_panel(k, half, begin, end, channel, n_outputs, to);
    }
}

static void run_row(const struct stem_kernel *k, const char *image, int64_t tile_row,
                    const struct target *to, float *scratch)
{
    struct hrf_stem_input in = rows_under(k, image, tile_row);
    const int64_t n_sides = hrf_ceil_div(k->tile_columns, HRF_STEM_SIDE);
    for (int64_t i = 0; i < k->n_blocks; i++) {
        const int64_t end = n_sides * (i + 1) / k->n_blocks * HRF_STEM_SIDE;
        run_block(k, &in, n_sides * i / k->n_blocks * HRF_STEM_SIDE,
                  hrf_least(end, k->tile_columns), to, scratch);
    }
}

static int64_t thread_floats(const struct stem_kernel *k)
{
    return SCRATCH_FLOATS + HRF_STEM_OUT * k->out_columns * k->out_channels; /* rows to be pooled */
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    const struct stem_kernel *k = (const struct stem_kernel *)base;
    const int64_t image_bytes = image_bytes_of(k);
    const int64_t row_bytes = k->out_columns * k->out_channels *
                              (int64_t)hrf_dtype_size(k->out_type);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < k->n * k->tile_rows; i++) {
        const int64_t image = i / k->tile_rows, tile_row = i % k->tile_rows;
        struct target target = { .pool = NULL };
        for (int64_t j = 0; j < HRF_STEM_OUT; j++) {
            const int64_t row = tile_row * HRF_STEM_OUT + j;
            char *const to = (char *)call->output + (image * k->out_rows + row) * row_bytes;
            target.rows[j] = row < k->out_rows ? to : NULL;
        }
        run_row(k, (const char *)call->inputs[HRF_CONV_X] + image * image_bytes, tile_row, &target,
                (float *)call->workspace + omp_get_thread_num() * thread_floats(k));
    }
    return HRF_OK;
}

/* Of an image's rows: as few as give each thread as much. */
static int64_t count_slabs(const struct stem_kernel *k)
{
    return k->n % k->backend->n_threads == 0 ? 1 : k->backend->n_threads;
}

/* Where the plan had no other room for the pool's output than where the images lie, these are moved
 * to where the first output is not written: a fifth of what pooling on the way saves. */
static bool can_fuse(const struct hrf_kernel *base, const struct hrf_kernel *next,
                     const struct hrf_fused_pair *pair)
{
    const struct stem_kernel *k = (const struct stem_kernel *)base;
    const struct hrf_spec *pool = hrf_cpu_function_spec(next, hrf_cpu_max_pool);
    const int64_t out_floats = k->out_rows * k->out_columns * k->out_channels;
    if (pool == NULL || pair->is_kept || k->out_type != HRF_F32 ||
        out_floats * (int64_t)sizeof(float) < image_bytes_of(k))
        return false;
    const int64_t n_slabs = count_slabs(k), slab_rows = k->out_rows / n_slabs;
    return (n_slabs == 1 || slab_rows >= MIN_SLAB_ROWS) && hrf_cpu_max_pool_goes_by_rows(pool);
}

/* What most networks have: then the outputs are pooled where they are, in registers. */
static bool pools_at_once(const struct stem_kernel *k, const struct hrf_spec *pool)
{
    const struct hrf_window *w = &pool->attributes.window;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++)
        if (w->kernel[i] != 3 || w->stride[i] != 2 || w->dilation[i] != 1 || w->pad_begin[i] != 1)
            return false;
    return k->epilogue.activation == HRF_ACT_RELU &&
           2 * (pool->output.shape.dims[3] - 1) - 1 < k->out_columns;
}

/* As run_slab, from registers. */
static void pool_slab(const struct stem_kernel *k, const struct hrf_spec *pool, const char *image,
                      int64_t begin, int64_t end, float *out, float *scratch)
{
    const int64_t n_pooled = pool->output.shape.dims[3];
    int64_t first, last;
    hrf_cpu_max_pool_rows_under(pool, begin, end, &first, &last);
    for (int64_t tile_row = first / HRF_STEM_OUT; tile_row <= last / HRF_STEM_OUT; tile_row++) {
        const int64_t top = tile_row * HRF_STEM_OUT;
        struct hrf_stem_pool to = { .bias = k->bias,
                                    .is_odd = top % 2 != 0,
                                    .n_rows = k->out_rows - top,
                                    .goes_on = top > 0,
                                    .n_pooled = n_pooled,
                                    .pitch = k->out_channels,
                                    .open = scratch + SCRATCH_FLOATS };
        for (int64_t i = 0, row = top / 2; i < HRF_STEM_OUT; i++, row++)
            if (row >= begin && row < end)
                to.rows[i] = out + row * n_pooled * k->out_channels;
        run_row(k, image, tile_row, &(struct target){ .pool = &to }, scratch);
    }
}

/* The pool's rows [begin, end) of an image at `out`. */
static void run_slab(const struct stem_kernel *k, const struct hrf_spec *pool, const char *image,
                     int64_t begin, int64_t end, float *out, float *scratch)
{
    float *const made = scratch + SCRATCH_FLOATS;
    int64_t first, last;
    hrf_cpu_max_pool_rows_under(pool, begin, end, &first, &last);
    for (int64_t tile_row = first / HRF_STEM_OUT; tile_row <= last / HRF_STEM_OUT; tile_row++) {
        const int64_t top = tile_row * HRF_STEM_OUT;
        struct target target = { .pool = NULL };
        for (int64_t i = 0; i < HRF_STEM_OUT; i++) {
            const bool is_under = top + i >= first && top + i <= last;
            target.rows[i] = is_under ? (char *)(made + i * k->out_columns * k->out_channels)
                                      : NULL;
        }
        run_row(k, image, tile_row, &target, scratch);
        for (int64_t i = 0; i < HRF_STEM_OUT; i++)
            if (target.rows[i] != NULL)
                hrf_cpu_max_pool_row(pool, (const float *)target.rows[i], top + i, begin, end, out);
    }
}

static void copy_images(const struct stem_kernel *k, const char *from, char *to)
{
    const int64_t row_bytes = row_bytes_of(k);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < k->n * k->rows; row++)
        memcpy(to + row * row_bytes, from + row * row_bytes, (size_t)row_bytes);
}

static enum hrf_status run_fused(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                 struct hrf_kernel *next, const struct hrf_kernel_call *next_call,
                                 struct hrf_error *err)
{
    (void)err;
    const struct stem_kernel *k = (const struct stem_kernel *)base;
    const struct hrf_spec *pool = hrf_cpu_function_spec(next, hrf_cpu_max_pool);
    const int64_t *dims = pool->output.shape.dims, n_slabs = count_slabs(k);
    const int64_t image_bytes = image_bytes_of(k), pooled = dims[1] * dims[2] * dims[3];
    const bool at_once = pools_at_once(k, pool);
    const char *images = call->inputs[HRF_CONV_X];
    float *const out = next_call->output;
    if (images < (const char *)(out + k->n * pooled) &&
        (const char *)out < images + k->n * image_bytes) {
        copy_images(k, images, call->output);
        images = call->output;
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < k->n * n_slabs; i++) {
        const int64_t image = i / n_slabs, slab = i % n_slabs;
        const int64_t begin = dims[2] * slab / n_slabs, end = dims[2] * (slab + 1) / n_slabs;
        if (begin < end)
            (at_once ? pool_slab : run_slab)(
                k, pool, images + image * image_bytes, begin, end, out + image * pooled,
                (float *)call->workspace + omp_get_thread_num() * thread_floats(k));
    }
    return HRF_OK;
}

static void destroy(struct hrf_kernel *base)
{
    struct stem_kernel *k = (struct stem_kernel *)base;
    hrf_free(k->weights);
    hrf_free(k->bias);
    hrf_free(k->zeros);
    hrf_free(k);
}

/* What it wins over oneDNN: 7x7 windows over 3 channels a quarter to a third of the time, 6x6 as
 * much, 8x8 half and more; none with 5x5, whose phases have three taps at most, or with one
 * channel. Tiles must not reach too far beyond the image, either: of 8x8 outputs they may. */
static bool wins(const struct hrf_shape *k, const struct hrf_shape *y)
{
    enum { TILE = HRF_STEM_OUT * HRF_STEM_OUT };
    const int64_t n_tiles = hrf_ceil_div(y->dims[2], HRF_STEM_OUT) *
                            hrf_ceil_div(y->dims[3], HRF_STEM_OUT);
    return k->dims[1] > 1 && k->dims[2] >= 6 && k->dims[3] >= 6 &&
           2 * n_tiles * TILE <= 3 * y->dims[2] * y->dims[3];
}

bool hrf_cpu_stem_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_window *w = &node->attributes.window;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_shape *k = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    const bool adds = node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0;
    if (!hrf_cpu_has_avx512() || !hrf_cpu_types_fit(graph, node) || adds ||
        !hrf_cpu_comes_at_run_time(graph, node) || hrf_node_has_prologue(node) ||
        node->attributes.group != 1 || x->dims[1] > HRF_STEM_CHANNELS ||
        y->dims[1] % HRF_STEM_LANES != 0 || hrf_shape_count(y) == 0)
        return false;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++)
        if (w->stride[i] != 2 || w->dilation[i] != 1 || k->dims[2 + i] > HRF_STEM_KERNEL)
            return false;
    return wins(k, y);
}

static enum hrf_status prepare_constants(struct stem_kernel *k, const struct hrf_graph *graph,
                                         const struct hrf_node *node, struct hrf_error *err)
{
    const struct hrf_value *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]];
    const int64_t rows = w->shape.dims[2], columns = w->shape.dims[3];
    k->stem = hrf_stem_of(w->shape.dims[1], rows, columns);
    const int64_t window = k->stem.channels * rows * columns;
    const size_t n_bytes = (size_t)hrf_stem_packed_count(&k->stem, k->out_channels) * sizeof(float);
    k->weights = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    k->zeros = hrf_calloc((size_t)(k->columns * k->stem.channels), sizeof(float));
    k->bias = hrf_calloc((size_t)k->out_channels, sizeof(float));
    if (k->weights == NULL || k->zeros == NULL || k->bias == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "weights of node '%s': %zu bytes", node->name,
                             n_bytes);
    for (int64_t channel = 0; channel < k->out_channels; channel += HRF_STEM_PANEL)
        hrf_stem_pack(&k->stem, (const float *)w->data + channel * window, rows, columns,
                      hrf_least(k->out_channels - channel, HRF_STEM_PANEL),
                      k->weights + hrf_stem_packed_count(&k->stem, channel));
    const float *bias = hrf_cpu_constant(graph, node, HRF_CONV_BIAS);
    if (bias != NULL)
        memcpy(k->bias, bias, (size_t)k->out_channels * sizeof(float));
    k->base.weight_bytes = n_bytes + (size_t)k->out_channels * sizeof(float);
    return HRF_OK;
}

enum hrf_status hrf_cpu_stem_compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                                     const struct hrf_node *node, struct hrf_kernel **out,
                                     struct hrf_error *err)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    struct stem_kernel *k = hrf_calloc(1, sizeof *k);
    if (k == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    k->base = (struct hrf_kernel){
        .run = run,
        .destroy = destroy,
        .can_fuse = can_fuse,
        .run_fused = run_fused,
        .implementation = HRF_CPU_NAME(x->dtype, "winograd_3x3_of_phases:avx512"),
    };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    k->backend = backend;
    k->n = y->shape.dims[0];
    k->rows = x->shape.dims[2];
    k->columns = x->shape.dims[3];
    k->out_channels = y->shape.dims[1];
    k->out_rows = y->shape.dims[2];
    k->out_columns = y->shape.dims[3];
    for (int i = 0; i < HRF_MAX_SPATIAL; i++)
        k->pad[i] = node->attributes.window.pad_begin[i];
    k->tile_rows = hrf_ceil_div(k->out_rows, HRF_STEM_OUT);
    k->tile_columns = hrf_ceil_div(k->out_columns, HRF_STEM_OUT);
    k->n_blocks = hrf_ceil_div(k->tile_columns, HRF_STEM_TILES);
    k->type = x->dtype;
    k->out_type = y->dtype;
    k->base.workspace_bytes = (size_t)(backend->n_threads * thread_floats(k)) * sizeof(float);
    HRF_TRY(prepare_constants(k, graph, node, err));
    k->epilogue = hrf_cpu_epilogue(&node->attributes, k->out_type, k->bias, false);
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
