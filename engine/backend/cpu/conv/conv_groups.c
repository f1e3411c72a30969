/* conv_groups.c - convolution with few channels in each product, windows of 3 columns: in groups,
 * or of one group with few output channels. Own kernels (group_tile_avx512.h).
 *
 * Channels are taken in planes of 16: whole groups side by side, each with its lanes of an output
 * register. Of up to 8 output channels without groups, the left and the right half of the image
 * stand side by side in the planes, like two groups with the same weights, so that no lane is
 * empty. A unit is one register of output channels and the planes of input channels that it reads.
 *
 * A thread takes some output rows of an image and some units, copies the pixels under them into its
 * line cache, where each plane's stand beside each other, with zeros where the image ends, and
 * computes plane by plane, so that the plane's weights stay in the first-level cache. Rows above
 * and below the image are left out. Where the processor multiplies pairs of bfloat16, the line
 * cache has those.
 */
#include "engine/backend/cpu/avx512/group_tile_avx512.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/part_queues.h"
#include "engine/ir/number.h"

#include <omp.h>
#include <string.h>

enum {
    LANES = HRF_GROUP_LANES,
    COLUMNS = HRF_GROUP_COLUMNS,
    LINES_BYTES = 256 * 1024, /* of the line cache: well within the second level */
    CACHE_LINE = 64,
    PARTS = 4, /* for each thread, at least, so that they end at about the same time */
};

struct groups_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    enum hrf_dtype in_type, out_type;
    enum hrf_words words;
    int64_t images, rows, columns, out_rows, out_columns;
    int64_t x_stride, y_stride; /* numbers from pixel to pixel */
    int64_t window_rows, stride[2], pad[2];
    int64_t n_groups, channels, out_channels;
    int64_t lanes_each;   /* lanes that read the same input */
    bool is_halved;       /* the image's halves are side by side */
    int64_t half_columns; /* of the output: of the left half, or all */
    int64_t n_units;      /* the last may be half empty */
    int64_t in_planes;    /* of a unit */
    int64_t n_words;      /* that each lane multiplies, of a window's pixel */
    int64_t block_rows, n_bands;
    int64_t n_slices; /* the units are cut into that many */
    int64_t line_bytes;
    bool has_residual;
    struct hrf_epilogue epilogue;
    float *weights, *bias;
};

/* Words of a plane's pixel that one lane multiplies. */
static int64_t plane_words(const struct groups_kernel *k)
{
    return hrf_group_pixel_bytes(k->words) / (int64_t)sizeof(float) * k->lanes_each / LANES;
}

static int64_t row_weights(const struct groups_kernel *k)
{
    return plane_words(k) * COLUMNS * LANES;
}

/* Words of all weights of a unit. */
static int64_t unit_weights(const struct groups_kernel *k)
{
    return k->in_planes * k->window_rows * row_weights(k);
}

/* ---- running ---- */

/* Some output rows of an image by some units, and the input lines under them. */
struct part {
    int64_t image, row, end_row;
    int64_t unit, end_unit;
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
    return k->n_units * i / k->n_slices;
}

static struct part part_of(const struct groups_kernel *k, int64_t i)
{
    const int64_t band = i / k->n_slices % k->n_bands, slice = i % k->n_slices;
    struct part p = { .image = i / k->n_slices / k->n_bands,
                      .row = band * k->block_rows,
                      .unit = slice_begin(k, slice),
                      .end_unit = slice_begin(k, slice + 1) };
    p.end_row = hrf_least(p.row + k->block_rows, k->out_rows);
    p.line = clamp(top_of(k, p.row), 0, k->rows);
    p.end_line = clamp(top_of(k, p.end_row - 1) + k->window_rows, p.line, k->rows);
    return p;
}

/* From plane to plane of the line cache, for n lines: an odd number of the first level's lines, so
 * that the planes of a pixel, which are written one after the other, fall into all of its sets. */
static int64_t plane_bytes(const struct groups_kernel *k, int64_t n)
{
    return (hrf_ceil_div(n * k->line_bytes, CACHE_LINE) | 1) * CACHE_LINE;
}

static int64_t part_plane_bytes(const struct groups_kernel *k, const struct part *p)
{
    return plane_bytes(k, p->end_line - p->line);
}

/* Planes of the input under n units: of one group all read the same. */
static int64_t count_planes(const struct groups_kernel *k, int64_t n_units)
{
    return k->n_groups == 1 ? k->in_planes : n_units;
}

/* One line: `row` of the image for outputs from `out_column` on, into the lanes that begin at
 * `line`. */
static void fill_line(const struct groups_kernel *k, const struct part *p, const char *row,
                      int64_t out_column, int64_t lanes, char *line)
{
    const int64_t size = (int64_t)hrf_dtype_size(k->in_type);
    const int64_t n = k->line_bytes / hrf_group_pixel_bytes(k->words);
    const int64_t first_channel = k->n_groups == 1 ? 0 : p->unit * LANES;
    const int64_t left = out_column * k->stride[1] - k->pad[1];
    const int64_t begin = clamp(-left, 0, n), end = clamp(k->columns - left, begin, n);
    const struct hrf_group_line from = {
        .x = row + ((left + begin) * k->x_stride + first_channel) * size,
        .stride = k->x_stride,
        .n_before = begin,
        .n = end - begin,
        .n_after = n - end,
        .n_channels = hrf_least(count_planes(k, p->end_unit - p->unit) * lanes,
                                k->channels - first_channel),
    };
    hrf_group_fill_avx512(k->words, k->in_type, lanes, &from, line, part_plane_bytes(k, p));
}

static void fill(const struct groups_kernel *k, const struct part *p, const char *x, char *lines)
{
    const int64_t size = (int64_t)hrf_dtype_size(k->in_type);
    const int64_t half = hrf_group_pixel_bytes(k->words) / 2;
    for (int64_t y = p->line; y < p->end_line; y++, lines += k->line_bytes) {
        const char *row = x + (p->image * k->rows + y) * k->columns * k->x_stride * size;
        fill_line(k, p, row, 0, k->is_halved ? LANES / 2 : LANES, lines);
        if (k->is_halved)
            fill_line(k, p, row, k->half_columns, LANES / 2, lines + half);
    }
}

/* Outputs [begin, end) of a row of one output plane; tile->x and tile->y are of output 0. */
static void run_columns(const struct groups_kernel *k, struct hrf_group_tile tile, int64_t begin,
                        int64_t end)
{
    const int64_t pixel = hrf_group_pixel_bytes(k->words), n = end - begin;
    const int64_t n_tiles = hrf_ceil_div(n, HRF_GROUP_OUTPUTS);
    const char *x = tile.x;
    char *y = tile.y;
    for (int64_t i = 0; i < n_tiles; i++) {
        const int64_t first = begin + n * i / n_tiles, last = begin + n * (i + 1) / n_tiles;
        tile.x = x + first * k->stride[1] * pixel;
        tile.y = y + first * tile.y_bytes;
        hrf_group_tile_avx512(k->words, last - first, k->stride[1], &tile, &k->epilogue);
    }
}

/* A row of one unit of the output. `lines`: of its input. */
static void run_row(const struct groups_kernel *k, const struct part *p, int64_t row, int64_t unit,
                    const char *lines, char *y)
{
    const int64_t size = (int64_t)hrf_dtype_size(k->out_type), top = top_of(k, row);
    const int64_t n_right = k->out_columns - k->half_columns;
    const int64_t n_channels = hrf_least(k->out_channels - unit * LANES, LANES);
    const uint32_t lanes = (1u << n_channels) - 1;
    struct hrf_group_tile tile = {
        .line_bytes = k->line_bytes,
        .plane_bytes = part_plane_bytes(k, p),
        .first_row = clamp(-top, 0, k->window_rows),
        .end_row = clamp(k->rows - top, 0, k->window_rows),
        .n_words = k->n_words,
        .lanes_each = k->lanes_each,
        .weights = k->weights + unit * unit_weights(k),
        .plane_weights = k->window_rows * row_weights(k),
        .row_weights = row_weights(k),
        .bias = k->bias + unit * LANES,
        .mask = (uint16_t)(k->is_halved ? lanes << LANES / 2 | lanes : lanes),
        .is_halved = k->is_halved,
        .half_bytes = k->half_columns * k->y_stride * size,
        .y_bytes = k->y_stride * size,
    };
    tile.x = lines + (top + tile.first_row - p->line) * k->line_bytes;
    tile.y = y + (p->image * k->out_rows + row) * k->out_columns * tile.y_bytes +
             unit * LANES * size;
    if (!k->is_halved) {
        run_columns(k, tile, 0, k->out_columns);
        return;
    }
    run_columns(k, tile, 0, n_right);
    tile.mask = (uint16_t)lanes; /* the middle of an odd row */
    run_columns(k, tile, n_right, k->half_columns);
}

/* Row by row of as many units as share the lines of the output's pixels: all of a line is written
 * at about the same time. */
static void run_part(const struct groups_kernel *k, const struct hrf_kernel_call *call,
                     const struct part *p, char *lines)
{
    const int64_t step = k->n_groups == 1 ? 0 : part_plane_bytes(k, p);
    const int64_t together = CACHE_LINE / (LANES * (int64_t)hrf_dtype_size(k->out_type));
    fill(k, p, call->inputs[HRF_CONV_X], lines);
    for (int64_t first = p->unit; first < p->end_unit; first += together) {
        const int64_t n = hrf_least(together, p->end_unit - first);
        for (int64_t row = p->row; row < p->end_row; row++)
            for (int64_t i = 0; i < n; i++)
                run_row(k, p, row, first + i, lines + i * step, call->output);
        lines += n * step;
    }
}

/* A thread's line cache. */
static size_t scratch_bytes(const struct groups_kernel *k)
{
    const int64_t lines = hrf_least((k->block_rows - 1) * k->stride[0] + k->window_rows, k->rows);
    return (size_t)(plane_bytes(k, lines) * count_planes(k, hrf_ceil_div(k->n_units, k->n_slices)));
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
    char *const lines = call->workspace;
    const size_t each = scratch_bytes(k);
    const struct hrf_part_queues parts = hrf_part_queues_begin(
        (struct hrf_part_queue *)(void *)(lines + each * (size_t)k->backend->n_threads),
        k->backend->n_threads, n_parts);
#pragma omp parallel
    for (int64_t i; (i = hrf_part_queues_take(&parts)) >= 0;) {
        const struct part part = part_of(k, i);
        run_part(k, call, &part, lines + (size_t)omp_get_thread_num() * each);
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

static bool multiplies_pairs(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    return x->dtype == HRF_B16 && hrf_cpu_has_avx512_bf16() &&
           (node->attributes.group == 1 || x->shape.dims[1] / node->attributes.group % 2 == 0);
}

static int64_t count_words(enum hrf_words words, int64_t numbers)
{
    return words == HRF_PAIRS ? hrf_ceil_div(numbers, 2) : numbers;
}

static void choose_units(struct groups_kernel *k)
{
    const int64_t in_each = k->channels / k->n_groups, out_each = k->out_channels / k->n_groups;
    k->is_halved = k->n_groups == 1 && out_each <= LANES / 2;
    k->half_columns = k->is_halved ? hrf_ceil_div(k->out_columns, 2) : k->out_columns;
    k->n_words = count_words(k->words, in_each);
    if (k->n_groups == 1) {
        k->lanes_each = k->is_halved ? LANES / 2 : LANES;
        k->n_units = hrf_ceil_div(out_each, LANES);
        k->in_planes = hrf_ceil_div(in_each, k->lanes_each);
    } else {
        k->lanes_each = in_each;
        k->in_planes = 1;
        k->n_units = hrf_ceil_div(k->channels, LANES);
    }
    k->line_bytes = ((k->half_columns - 1) * k->stride[1] + COLUMNS) *
                    hrf_group_pixel_bytes(k->words);
}

static void take_shapes(struct groups_kernel *k, const struct hrf_graph *graph,
                        const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const struct hrf_window *window = &node->attributes.window;
    k->in_type = x->dtype;
    k->out_type = y->dtype;
    k->words = multiplies_pairs(graph, node) ? HRF_PAIRS : HRF_FLOATS;
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
    k->n_groups = node->attributes.group;
    k->channels = x->shape.dims[1];
    k->out_channels = y->shape.dims[1];
    k->has_residual = node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0;
    choose_units(k);
}

/* Rows that the line cache has room for; then, if there are few parts, the units are cut, and then
 * the rows. */
static void choose_parts(struct groups_kernel *k)
{
    const int64_t n_threads = k->backend->n_threads;
    const int64_t line_bytes = k->line_bytes * count_planes(k, k->n_units);
    const int64_t fit = (LINES_BYTES / line_bytes - k->window_rows) / k->stride[0] + 1;
    k->n_bands = hrf_ceil_div(k->out_rows, clamp(fit, 1, k->out_rows));
    k->n_slices = clamp(hrf_ceil_div(PARTS * n_threads, k->images * k->n_bands), 1,
                        k->n_groups == 1 ? 1 : k->n_units);
    if (k->n_groups == 1)
        k->n_bands = clamp(hrf_ceil_div(PARTS * n_threads, k->images), k->n_bands, k->out_rows);
    k->block_rows = hrf_ceil_div(k->out_rows, k->n_bands);
    k->n_bands = hrf_ceil_div(k->out_rows, k->block_rows);
    k->base.workspace_bytes = (size_t)n_threads *
                              (scratch_bytes(k) + sizeof(struct hrf_part_queue));
}

/* Number `i` of the input of a lane's group; 0: it has no more, or the lane is empty. */
static float weight_of(const struct groups_kernel *k, const float *w, int64_t out, int64_t i,
                       int64_t row, int64_t column)
{
    const int64_t in_each = k->channels / k->n_groups;
    if (out >= k->out_channels || i >= in_each)
        return 0;
    return w[((out * in_each + i) * k->window_rows + row) * COLUMNS + column];
}

/* The output channel of a lane. */
static int64_t channel_of(const struct groups_kernel *k, int64_t unit, int64_t lane)
{
    return unit * LANES + (k->is_halved ? lane % (LANES / 2) : lane);
}

/* One word of the weights in all lanes. `first`: the number of the input that it begins with. */
static void pack_word(const struct groups_kernel *k, const float *w, int64_t unit, int64_t first,
                      int64_t row, int64_t column, float *to)
{
    for (int64_t lane = 0; lane < LANES; lane++) {
        const int64_t out = channel_of(k, unit, lane);
        if (k->words == HRF_FLOATS) {
            to[lane] = weight_of(k, w, out, first, row, column);
            continue;
        }
        const float pair[] = { weight_of(k, w, out, first, row, column),
                               weight_of(k, w, out, first + 1, row, column) };
        hrf_floats_to(HRF_B16, pair, to + lane, 2);
    }
}

static void pack(const struct groups_kernel *k, const float *w)
{
    const int64_t n_words = plane_words(k), per_word = k->words == HRF_PAIRS ? 2 : 1;
    float *to = k->weights;
    for (int64_t unit = 0; unit < k->n_units; unit++)
        for (int64_t in = 0; in < k->in_planes; in++)
            for (int64_t row = 0; row < k->window_rows; row++)
                for (int64_t word = 0; word < n_words; word++)
                    for (int64_t column = 0; column < COLUMNS; column++, to += LANES)
                        pack_word(k, w, unit, (in * n_words + word) * per_word, row, column, to);
}

static enum hrf_status prepare_constants(struct groups_kernel *k, const struct hrf_graph *graph,
                                         const struct hrf_node *node, struct hrf_error *err)
{
    const size_t n_bytes = (size_t)(k->n_units * unit_weights(k)) * sizeof(float);
    const size_t n_padded = (size_t)(k->n_units * LANES);
    const float *bias = hrf_cpu_constant(graph, node, HRF_CONV_BIAS);
    k->weights = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    k->bias = hrf_calloc(n_padded, sizeof(float));
    if (k->weights == NULL || k->bias == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "weights of node '%s': %zu bytes", node->name,
                             n_bytes);
    pack(k, graph->values[node->inputs[HRF_CONV_WEIGHTS]].data);
    for (int64_t i = 0; bias != NULL && i < k->n_units * LANES; i++) {
        const int64_t channel = channel_of(k, i / LANES, i % LANES);
        k->bias[i] = channel < k->out_channels ? bias[channel] : 0;
    }
    k->base.weight_bytes = n_bytes + n_padded * sizeof(float);
    return HRF_OK;
}

/* Groups that divide a plane. Of 32 channels and more oneDNN's is the faster one. */
static bool groups_fit(const struct hrf_shape *weights, int64_t n_groups, int64_t channels)
{
    const int64_t size = weights->dims[1];
    return size > 1 && LANES % size == 0 && weights->dims[0] == n_groups * size &&
           channels == weights->dims[0];
}

/* One product whose outputs have one register at most: the implicit product would load a word for
 * each multiply-add. Of pairs, two registers where an input has two words: the first layer. */
static bool few_channels_fit(const struct hrf_shape *weights, bool pairs)
{
    return weights->dims[0] <= LANES ||
           (pairs && weights->dims[0] <= 2 * LANES && weights->dims[1] <= 4);
}

bool hrf_cpu_groups_fit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_window *window = &node->attributes.window;
    if (!hrf_cpu_avx512_fits(graph, node) || hrf_node_has_prologue(node) || w->dims[3] != COLUMNS ||
        window->stride[1] > 2 || window->dilation[0] != 1 || window->dilation[1] != 1)
        return false;
    const bool pairs = multiplies_pairs(graph, node);
    return hrf_cpu_is_as_fast(graph, node, pairs) &&
           (node->attributes.group > 1 ? groups_fit(w, node->attributes.group, x->dims[1])
                                       : few_channels_fit(w, pairs));
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
    k->base.implementation = k->words == HRF_PAIRS ? "groups:avx512_bf16"
                                                   : HRF_CPU_NAME(k->in_type, "groups:avx512");
    choose_parts(k);
    HRF_TRY(prepare_constants(k, graph, node, err));
    k->epilogue = hrf_cpu_epilogue(&node->attributes, k->out_type, k->bias, k->has_residual);
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
