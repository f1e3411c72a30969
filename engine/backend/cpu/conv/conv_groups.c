/* conv_groups.c - convolution in groups of 8 or 16 channels with windows of 3 columns, own
 * kernels (group_tile_avx512.h).
 *
 * Channels are taken in planes of 16: two groups of 8, each with half of an output register, or
 * one of 16. A thread takes some output rows of an image and some planes, copies the
 * pixels under them into its line cache, where each plane's stand beside each other, with zeros
 * where the image ends, and computes plane by plane, so that the plane's weights stay in the
 * first-level cache. Rows above and below the image are left out.
 */
#include "engine/backend/cpu/avx512/group_tile_avx512.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/part_queues.h"

#include <omp.h>
#include <string.h>

enum {
    LANES = HRF_GROUP_LANES,
    LINES_BYTES = 256 * 1024, /* of the line cache: well within the second level */
    PARTS = 4, /* for each thread, at least, so that they end at about the same time */
};

struct groups_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    enum hrf_dtype in_type, out_type;
    int64_t images, rows, columns, out_rows, out_columns;
    int64_t x_stride, y_stride; /* numbers from pixel to pixel */
    int64_t window_rows, stride[2], pad[2];
    int64_t group_size, channels;
    int64_t n_planes; /* of the input, and of the output; the last may be half empty */
    int64_t block_rows, n_bands;
    int64_t n_slices; /* the planes are cut into that many */
    int64_t line_words;
    bool has_residual;
    struct hrf_epilogue epilogue;
    float *weights, *bias;
};

static size_t plane_weights(const struct groups_kernel *k)
{
    return (size_t)(k->window_rows * LANES * HRF_GROUP_COLUMNS * LANES);
}

/* ---- running ---- */

/* Some output rows of an image by some planes, and the input lines under them. */
struct part {
    int64_t image, row, end_row;
    int64_t plane, end_plane;
    int64_t line, end_line;
};

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

static int64_t top_of(const struct groups_kernel *k, int64_t out_row)
{
    return out_row * k->stride[0] - k->pad[0];
}

static int64_t slice_begin(const struct groups_kernel *k, int64_t i)
{
    return k->n_planes * i / k->n_slices;
}

static struct part part_of(const struct groups_kernel *k, int64_t i)
{
    const int64_t band = i / k->n_slices % k->n_bands, slice = i % k->n_slices;
    struct part p = { .image = i / k->n_slices / k->n_bands,
                      .row = band * k->block_rows,
                      .plane = slice_begin(k, slice),
                      .end_plane = slice_begin(k, slice + 1) };
    p.end_row = hrf_least(p.row + k->block_rows, k->out_rows);
    p.line = clamp(top_of(k, p.row), 0, k->rows);
    p.end_line = clamp(top_of(k, p.end_row - 1) + k->window_rows, p.line, k->rows);
    return p;
}

static int64_t plane_words(const struct groups_kernel *k, const struct part *p)
{
    return (p->end_line - p->line) * k->line_words;
}

static void fill(const struct groups_kernel *k, const struct part *p, const char *x, float *lines)
{
    const int64_t size = (int64_t)hrf_dtype_size(k->in_type), n = k->line_words / LANES;
    const int64_t step = plane_words(k, p), n_planes = p->end_plane - p->plane;
    const int64_t n_channels = hrf_least(n_planes * LANES, k->channels - p->plane * LANES);
    const int64_t begin = hrf_least(k->pad[1], n);
    const int64_t inside = clamp(k->columns, 0, n - begin), end = begin + inside;
    x += p->plane * LANES * size;
    for (int64_t y = p->line; y < p->end_line; y++, lines += k->line_words) {
        const char *row = x + (p->image * k->rows + y) * k->columns * k->x_stride * size;
        for (int64_t i = 0; i < n_planes; i++) {
            memset(lines + i * step, 0, (size_t)(begin * LANES) * sizeof(float));
            memset(lines + i * step + end * LANES, 0, (size_t)((n - end) * LANES) * sizeof(float));
        }
        hrf_group_fill_avx512(k->in_type, row, k->x_stride, inside, n_channels,
                              lines + begin * LANES, step);
    }
}

/* A row of one plane of the output. `lines`: of the same plane of the input. */
static void run_row(const struct groups_kernel *k, const struct part *p, int64_t row, int64_t plane,
                    const float *lines, char *y)
{
    const int64_t size = (int64_t)hrf_dtype_size(k->out_type), top = top_of(k, row);
    const int64_t n_tiles = hrf_ceil_div(k->out_columns, HRF_GROUP_OUTPUTS);
    struct hrf_group_tile tile = {
        .line_words = k->line_words,
        .first_row = clamp(-top, 0, k->window_rows),
        .end_row = clamp(k->rows - top, 0, k->window_rows),
        .weights = k->weights + (size_t)plane * plane_weights(k),
        .bias = k->bias + plane * LANES,
        .mask = k->channels - plane * LANES < LANES ? 0x00ff : 0xffff,
        .lanes = { k->group_size < LANES ? 0x00ff : 0xffff,
                   k->group_size < LANES ? 0xff00 : 0xffff },
        .y_bytes = k->y_stride * size,
    };
    y += (p->image * k->out_rows + row) * k->out_columns * tile.y_bytes + plane * LANES * size;
    for (int64_t i = 0; i < n_tiles; i++) {
        const int64_t begin = k->out_columns * i / n_tiles;
        const int64_t end = k->out_columns * (i + 1) / n_tiles;
        tile.x = lines + (top + tile.first_row - p->line) * k->line_words +
                 begin * k->stride[1] * LANES;
        tile.y = y + begin * tile.y_bytes;
        hrf_group_tile_avx512(end - begin, k->stride[1], &tile, &k->epilogue);
    }
}

static void run_part(const struct groups_kernel *k, const struct hrf_kernel_call *call,
                     const struct part *p, float *lines)
{
    fill(k, p, call->inputs[HRF_CONV_X], lines);
    for (int64_t plane = p->plane; plane < p->end_plane; plane++) {
        for (int64_t row = p->row; row < p->end_row; row++)
            run_row(k, p, row, plane, lines, call->output);
        lines += plane_words(k, p);
    }
}

/* A thread's line cache. */
static size_t scratch_words(const struct groups_kernel *k)
{
    const int64_t lines = hrf_least((k->block_rows - 1) * k->stride[0] + k->window_rows, k->rows);
    return (size_t)(lines * k->line_words * hrf_ceil_div(k->n_planes, k->n_slices));
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    const struct groups_kernel *k = (const struct groups_kernel *)base;
    const int64_t n_parts = k->images * k->n_bands * k->n_slices;
    if (k->has_residual && call->inputs[HRF_CONV_RESIDUAL] != call->output)
        memcpy(call->output, call->inputs[HRF_CONV_RESIDUAL],
               (size_t)(k->images * k->out_rows * k->out_columns * k->y_stride) *
                   hrf_dtype_size(k->out_type));
    float *const lines = call->workspace;
    const size_t words = scratch_words(k);
    const struct hrf_part_queues parts = hrf_part_queues_begin(
        (struct hrf_part_queue *)(void *)(lines + words * (size_t)k->backend->n_threads),
        k->backend->n_threads, n_parts);
#pragma omp parallel
    for (int64_t i; (i = hrf_part_queues_take(&parts)) >= 0;) {
        const struct part part = part_of(k, i);
        run_part(k, call, &part, lines + (size_t)omp_get_thread_num() * words);
    }
    return HRF_OK;
}

static void destroy(struct hrf_kernel *base)
{
    struct groups_kernel *k = (struct groups_kernel *)base;
    hrf_free(k->weights);
    hrf_free(k->bias);
    hrf_free(k);
}

/* ---- making one ---- */

static void take_shapes(struct groups_kernel *k, const struct hrf_graph *graph,
                        const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const struct hrf_window *window = &node->attributes.window;
    k->in_type = x->dtype;
    k->out_type = y->dtype;
    k->x_stride = hrf_value_pixel_stride(x);
    k->y_stride = hrf_value_pixel_stride(y);
    k->images = y->shape.dims[0];
    k->rows = x->shape.dims[2];
    k->columns = x->shape.dims[3];
    k->out_rows = y->shape.dims[2];
    k->out_columns = y->shape.dims[3];
    k->window_rows = graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape.dims[2];
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        k->stride[i] = window->stride[i];
        k->pad[i] = window->pad_begin[i];
    }
    k->channels = y->shape.dims[1];
    k->group_size = k->channels / node->attributes.group;
    k->n_planes = hrf_ceil_div(k->channels, LANES);
    k->line_words = ((k->out_columns - 1) * k->stride[1] + HRF_GROUP_COLUMNS) * LANES;
    k->has_residual = node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0;
}

/* Rows that the line cache has room for; then, if there are few parts, the planes are cut. */
static void choose_parts(struct groups_kernel *k)
{
    const int64_t n_threads = k->backend->n_threads;
    const int64_t line_bytes = k->line_words * k->n_planes * (int64_t)sizeof(float);
    const int64_t fit = (LINES_BYTES / line_bytes - k->window_rows) / k->stride[0] + 1;
    k->n_bands = hrf_ceil_div(k->out_rows, clamp(fit, 1, k->out_rows));
    k->block_rows = hrf_ceil_div(k->out_rows, k->n_bands);
    k->n_bands = hrf_ceil_div(k->out_rows, k->block_rows);
    k->n_slices = clamp(hrf_ceil_div(PARTS * n_threads, k->images * k->n_bands), 1, k->n_planes);
    k->base.workspace_bytes = (size_t)n_threads *
                              (scratch_words(k) * sizeof(float) + sizeof(struct hrf_part_queue));
}

/* The weight of an input channel for an output channel: zero if they are of two groups. */
static float weight_of(const struct groups_kernel *k, const float *w, int64_t out, int64_t in,
                       int64_t row, int64_t column)
{
    if (out / k->group_size != in / k->group_size || out >= k->channels)
        return 0;
    const int64_t channel = out * k->group_size + in % k->group_size;
    return w[(channel * k->window_rows + row) * HRF_GROUP_COLUMNS + column];
}

static void pack(const struct groups_kernel *k, const float *w)
{
    float *to = k->weights;
    for (int64_t plane = 0; plane < k->n_planes; plane++)
        for (int64_t row = 0; row < k->window_rows; row++)
            for (int64_t c = 0; c < LANES; c++)
                for (int64_t column = 0; column < HRF_GROUP_COLUMNS; column++)
                    for (int64_t lane = 0; lane < LANES; lane++)
                        *to++ = weight_of(k, w, plane * LANES + lane, plane * LANES + c, row,
                                          column);
}

static enum hrf_status prepare_constants(struct groups_kernel *k, const struct hrf_graph *graph,
                                         const struct hrf_node *node, struct hrf_error *err)
{
    const size_t n_bytes = (size_t)k->n_planes * plane_weights(k) * sizeof(float);
    const size_t n_padded = (size_t)(k->n_planes * LANES);
    k->weights = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    k->bias = hrf_calloc(n_padded, sizeof(float));
    if (k->weights == NULL || k->bias == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "weights of node '%s': %zu bytes", node->name,
                             n_bytes);
    pack(k, graph->values[node->inputs[HRF_CONV_WEIGHTS]].data);
    const float *bias = hrf_cpu_constant(graph, node, HRF_CONV_BIAS);
    if (bias != NULL)
        memcpy(k->bias, bias, (size_t)k->channels * sizeof(float));
    k->base.weight_bytes = n_bytes + n_padded * sizeof(float);
    return HRF_OK;
}

/* Groups of 8 leave half of each register empty, and are still faster than oneDNN's; of 32 that is
 * the faster one (0.81). */
static bool groups_fit(const struct hrf_shape *weights, int64_t n_groups, int64_t channels)
{
    const int64_t size = weights->dims[1];
    return (size == 8 || size == 16) && weights->dims[0] == n_groups * size &&
           channels == weights->dims[0];
}

bool hrf_cpu_groups_fit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_window *window = &node->attributes.window;
    return hrf_cpu_avx512_fits(graph, node) && !hrf_node_has_prologue(node) &&
           node->attributes.group > 1 && groups_fit(w, node->attributes.group, x->dims[1]) &&
           w->dims[3] == HRF_GROUP_COLUMNS && window->stride[1] <= 2 && window->dilation[0] == 1 &&
           window->dilation[1] == 1 && hrf_cpu_is_as_fast(graph, node, false);
}

enum hrf_status hrf_cpu_groups_compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                                       const struct hrf_node *node, struct hrf_kernel **out,
                                       struct hrf_error *err)
{
    struct groups_kernel *k = hrf_calloc(1, sizeof *k);
    if (k == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    k->base = (struct hrf_kernel){ .run = run, .destroy = destroy };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    k->backend = backend;
    take_shapes(k, graph, node);
    k->base.implementation = HRF_CPU_NAME(k->in_type, "groups:avx512");
    choose_parts(k);
    HRF_TRY(prepare_constants(k, graph, node, err));
    k->epilogue = hrf_cpu_epilogue(&node->attributes, k->out_type, k->bias, k->has_residual);
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
