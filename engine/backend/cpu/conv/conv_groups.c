/* conv_groups.c - convolution with windows of 3 columns and few channels in each product: grouped,
 * or of one group with few output channels. Own kernels (group_tile_avx512.h).
 *
 * Channels are processed in planes of 16: whole groups side by side, each with its lanes of an
 * output register. With up to 8 output channels and no groups, the left and the right half of the
 * image lie side by side in the planes, like two groups with the same weights, so that no lane is
 * empty. A unit is one register of output channels with the planes of input channels that it reads.
 *
 * A thread takes some output rows of an image and some units, copies the pixels under them into its
 * line cache, one plane after the other and zero-padded in columns, and computes plane by plane, so
 * that the plane's weights stay in the L1 cache. Rows above and below the image are skipped. If the
 * processor multiplies pairs of bfloat16, the line cache holds pairs.
 */
#include "engine/backend/cpu/avx512/group_tile_avx512.h"
#include "engine/backend/cpu/conv/conv_lines.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/ir/number.h"

#include <string.h>

enum {
    LANES = HRF_GROUP_LANES,
    COLUMNS = HRF_GROUP_COLUMNS,
    LINES_BYTES = 256 * 1024, /* of the line cache: well within the second level */
    CACHE_LINE = 64,
    PARTS = 4, /* for each thread, at least, so that they end at about the same time */
};

struct groups_kernel {
    struct hrf_own_conv own;
    struct hrf_conv_lines lines; /* its last unit may be half empty */
    int64_t lanes_each;          /* lanes that read the same input */
    bool is_halved;              /* the halves of the image lie side by side */
    int64_t half_columns;        /* of the output: of the left half, or all */
    int64_t in_planes;           /* of a unit */
    int64_t n_words;             /* that each lane multiplies, of a window's pixel */
};

/* The number of words of a plane's pixel that one lane multiplies. */
static int64_t plane_words(const struct groups_kernel *k)
{
    return hrf_group_pixel_bytes(k->own.word_type) / (int64_t)sizeof(float) * k->lanes_each / LANES;
}

static int64_t row_weights(const struct groups_kernel *k)
{
    return plane_words(k) * COLUMNS * LANES;
}

static int64_t plane_weights(const struct groups_kernel *k)
{
    return k->own.shape.window.kernel[0] * row_weights(k);
}

/* The number of words of a unit's weights. */
static int64_t unit_weights(const struct groups_kernel *k)
{
    return k->in_planes * plane_weights(k);
}

/* ---- running ---- */

/* Bytes from one plane of n lines to the next: an odd number of cache lines, so that the planes of
 * a pixel, which are written one after the other, map to different sets of the L1 cache. */
static int64_t plane_bytes(const struct groups_kernel *k, int64_t n)
{
    return (hrf_ceil_div(n * k->lines.line_bytes, CACHE_LINE) | 1) * CACHE_LINE;
}

static int64_t part_plane_bytes(const struct hrf_conv_work *w)
{
    return plane_bytes((const struct groups_kernel *)w->kernel, w->end_line - w->first_line);
}

/* The number of input planes that n units read. Units of one group all read the same. */
static int64_t count_planes(const struct groups_kernel *k, int64_t n_units)
{
    return k->own.shape.n_groups == 1 ? k->in_planes : n_units;
}

/* Fills one line with the image row `row`, for outputs from `out_column` on, in the lanes that
 * begin at `line`. */
static void fill_line(const struct hrf_conv_work *w, const char *row, int64_t out_column,
                      int64_t lanes, char *line)
{
    const struct groups_kernel *k = (const struct groups_kernel *)w->kernel;
    const struct hrf_conv_shape *s = &k->own.shape;
    const struct hrf_conv_reach r = hrf_conv_reach_of(s, 1, out_column, k->half_columns);
    const int64_t n_planes = count_planes(k, w->part.end_unit - w->part.unit);
    const int64_t first_channel = s->n_groups == 1 ? 0 : w->part.unit * LANES;
    const struct hrf_group_line from = {
        .x = row + ((r.first + r.begin) * s->x_stride + first_channel) *
                       (int64_t)hrf_dtype_size(s->x_type),
        .stride = s->x_stride,
        .n_before = r.begin,
        .n = r.end - r.begin,
        .n_after = r.n - r.end,
        .n_channels = hrf_min(n_planes * lanes, s->channels - first_channel),
    };
    hrf_group_fill_avx512(k->own.word_type, s->x_type, lanes, &from, line, part_plane_bytes(w));
}

static void conv_groups_fill(const struct hrf_conv_work *w, int64_t image, int64_t y, int64_t end)
{
    const struct groups_kernel *k = (const struct groups_kernel *)w->kernel;
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t row_bytes = s->columns * s->x_stride * (int64_t)hrf_dtype_size(s->x_type);
    const char *x = (const char *)w->call->inputs[HRF_CONV_X] + image * s->rows * row_bytes;
    for (; y < end; y++) {
        char *line = hrf_conv_line(w, y);
        fill_line(w, x + y * row_bytes, 0, k->is_halved ? LANES / 2 : LANES, line);
        if (k->is_halved)
            fill_line(w, x + y * row_bytes, k->half_columns, LANES / 2,
                      line + hrf_group_pixel_bytes(k->own.word_type) / 2);
    }
}

/* Computes outputs [begin, end) of a row of one output plane; tile->x and tile->y belong to output
 * 0. */
static void run_columns(const struct groups_kernel *k, struct hrf_group_tile tile, int64_t begin,
                        int64_t end)
{
    const int64_t pixel = hrf_group_pixel_bytes(k->own.word_type), n = end - begin;
    const int64_t n_tiles = hrf_ceil_div(n, HRF_GROUP_OUTPUTS);
    const int64_t stride = k->own.shape.window.stride[1];
    const char *x = tile.x;
    char *y = tile.y;
    for (int64_t i = 0; i < n_tiles; i++) {
        const int64_t first = begin + n * i / n_tiles, last = begin + n * (i + 1) / n_tiles;
        tile.x = x + first * stride * pixel;
        tile.y = y + first * tile.y_bytes;
        hrf_group_tile_avx512(k->own.word_type, last - first, stride, &tile, &k->own.epilogue);
    }
}

/* Computes a row of one unit of the output. `lines`: the lines of its input. */
static void run_row(const struct hrf_conv_work *w, int64_t row, int64_t unit, const char *lines)
{
    const struct groups_kernel *k = (const struct groups_kernel *)w->kernel;
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t size = (int64_t)hrf_dtype_size(s->y_type);
    const int64_t n_right = s->out_columns - k->half_columns;
    const int64_t n_channels = hrf_min(s->out_channels - unit * LANES, LANES);
    const uint32_t lanes = (1u << n_channels) - 1;
    const struct hrf_conv_reach rows = hrf_conv_reach_of(s, 0, row, 1);
    struct hrf_group_tile tile = {
        .line_bytes = k->lines.line_bytes,
        .plane_bytes = part_plane_bytes(w),
        .first_row = rows.begin,
        .end_row = rows.end,
        .n_words = k->n_words,
        .lanes_each = k->lanes_each,
        .weights = (const float *)k->own.weights + unit * unit_weights(k),
        .plane_weights = plane_weights(k),
        .row_weights = row_weights(k),
        .bias = k->own.bias + unit * LANES,
        .mask = (uint16_t)(k->is_halved ? lanes << LANES / 2 | lanes : lanes),
        .is_halved = k->is_halved,
        .half_bytes = k->half_columns * s->y_stride * size,
        .y_bytes = s->y_stride * size,
    };
    tile.x = lines + (rows.first + rows.begin - w->first_line) * k->lines.line_bytes;
    tile.y = (char *)w->call->output +
             (w->part.image * s->out_rows + row) * s->out_columns * tile.y_bytes +
             unit * LANES * size;
    if (!k->is_halved) {
        run_columns(k, tile, 0, s->out_columns);
        return;
    }
    run_columns(k, tile, 0, n_right);
    tile.mask = (uint16_t)lanes; /* the middle of an odd row */
    run_columns(k, tile, n_right, k->half_columns);
}

/* Computes row by row for the units that share cache lines of the output's pixels, so that a cache
 * line is written in one go. */
static void conv_groups_compute(const struct hrf_conv_work *w, int64_t first_row, int64_t n_rows)
{
    const struct groups_kernel *k = (const struct groups_kernel *)w->kernel;
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t step = s->n_groups == 1 ? 0 : part_plane_bytes(w);
    const int64_t together = CACHE_LINE / (LANES * (int64_t)hrf_dtype_size(s->y_type));
    const int64_t end = w->part.end_unit;
    const char *lines = w->scratch;
    for (int64_t first = w->part.unit; first < end; first += together) {
        const int64_t n = hrf_min(together, end - first);
        for (int64_t row = first_row; row < first_row + n_rows; row++)
            for (int64_t i = 0; i < n; i++)
                run_row(w, row, first + i, lines + i * step);
        lines += n * step;
    }
}

static void conv_groups_run(const struct hrf_own_conv *own, const struct hrf_kernel_call *call)
{
    hrf_conv_lines_run(own, &((const struct groups_kernel *)own)->lines, call, NULL);
}

/* ---- compiling ---- */

static int64_t count_words(enum hrf_word_type word_type, int64_t numbers)
{
    return word_type == HRF_WORD_B16_PAIR ? hrf_ceil_div(numbers, 2) : numbers;
}

static void choose_units(struct groups_kernel *k)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t in_each = s->channels / s->n_groups, out_each = s->out_channels / s->n_groups;
    k->is_halved = s->n_groups == 1 && out_each <= LANES / 2;
    k->half_columns = k->is_halved ? hrf_ceil_div(s->out_columns, 2) : s->out_columns;
    k->n_words = count_words(k->own.word_type, in_each);
    if (s->n_groups == 1) {
        k->lanes_each = k->is_halved ? LANES / 2 : LANES;
        k->lines.cut.n_units = hrf_ceil_div(out_each, LANES);
        k->in_planes = hrf_ceil_div(in_each, k->lanes_each);
    } else {
        k->lanes_each = in_each;
        k->in_planes = 1;
        k->lines.cut.n_units = hrf_ceil_div(s->channels, LANES);
    }
}

/* Takes as many rows as fit the line cache. If that gives few parts, the units are divided, and
 * then the rows. */
static void choose_parts(struct groups_kernel *k)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t min_parts = PARTS * k->own.n_threads, window_rows = s->window.kernel[0];
    struct hrf_conv_lines *l = &k->lines;
    struct hrf_conv_cut *c = &l->cut;
    l->fill = conv_groups_fill;
    l->compute = conv_groups_compute;
    l->line_bytes = hrf_window_span(&s->window, 1, k->half_columns) *
                    hrf_group_pixel_bytes(k->own.word_type);
    const int64_t fit = (LINES_BYTES / (l->line_bytes * count_planes(k, k->lines.cut.n_units)) -
                         window_rows) /
                            s->window.stride[0] +
                        1;
    c->n_strips = 1;
    c->strip_columns = s->out_columns;
    c->n_bands = hrf_ceil_div(s->out_rows, hrf_clamp(fit, 1, s->out_rows));
    c->n_slices = hrf_clamp(hrf_ceil_div(min_parts, s->n_images * c->n_bands), 1,
                            s->n_groups == 1 ? 1 : k->lines.cut.n_units);
    if (s->n_groups == 1)
        c->n_bands = hrf_clamp(hrf_ceil_div(min_parts, s->n_images), c->n_bands, s->out_rows);
    hrf_conv_cut_evenly(s->out_rows, &c->n_bands, &c->band_rows);
    l->rows_at_once = c->band_rows;
    l->n_lines = l->fill_at_once = hrf_conv_lines_under_part(s, l);
    l->scratch_bytes = (size_t)(plane_bytes(k, l->n_lines) *
                                count_planes(k, hrf_ceil_div(k->lines.cut.n_units, c->n_slices)));
    k->own.base.workspace_bytes = hrf_conv_lines_workspace(&k->own, l);
}

/* The weight of input channel `i` of the lane's group; 0 beyond its last channel or in an empty
 * lane. */
static float weight_of(const struct groups_kernel *k, const float *w, int64_t out, int64_t i,
                       int64_t row, int64_t column)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t in_each = s->channels / s->n_groups;
    if (out >= s->out_channels || i >= in_each)
        return 0;
    return w[((out * in_each + i) * s->window.kernel[0] + row) * COLUMNS + column];
}

/* The output channel of a lane. */
static int64_t channel_of(const struct groups_kernel *k, int64_t unit, int64_t lane)
{
    return unit * LANES + (k->is_halved ? lane % (LANES / 2) : lane);
}

/* Packs one word of the weights for all lanes. `first`: the first input channel in the word. */
static void pack_word(const struct groups_kernel *k, const float *w, int64_t unit, int64_t first,
                      int64_t row, int64_t column, float *to)
{
    for (int64_t lane = 0; lane < LANES; lane++) {
        const int64_t out = channel_of(k, unit, lane);
        if (k->own.word_type == HRF_WORD_F32) {
            to[lane] = weight_of(k, w, out, first, row, column);
            continue;
        }
        const float pair[] = { weight_of(k, w, out, first, row, column),
                               weight_of(k, w, out, first + 1, row, column) };
        hrf_floats_to(HRF_B16, pair, to + lane, 2);
    }
}

static void conv_groups_pack(const struct groups_kernel *k, const float *w)
{
    const int64_t n_words = plane_words(k),
                  per_word = k->own.word_type == HRF_WORD_B16_PAIR ? 2 : 1;
    float *to = k->own.weights;
    for (int64_t unit = 0; unit < k->lines.cut.n_units; unit++)
        for (int64_t in = 0; in < k->in_planes; in++)
            for (int64_t row = 0; row < k->own.shape.window.kernel[0]; row++)
                for (int64_t word = 0; word < n_words; word++)
                    for (int64_t column = 0; column < COLUMNS; column++, to += LANES)
                        pack_word(k, w, unit, (in * n_words + word) * per_word, row, column, to);
}

static enum hrf_status conv_groups_prepare(struct hrf_own_conv *own, const struct hrf_graph *graph,
                                           const struct hrf_node *node, struct hrf_error *err)
{
    struct groups_kernel *k = (struct groups_kernel *)own;
    choose_units(k);
    choose_parts(k);
    HRF_TRY(hrf_own_conv_make_weights(
        own, graph, node, (size_t)(k->lines.cut.n_units * unit_weights(k)) * sizeof(float),
        k->lines.cut.n_units * LANES, err));
    conv_groups_pack(k, graph->values[node->inputs[HRF_CONV_WEIGHTS]].data);
    if (k->is_halved)
        memcpy(own->bias + LANES / 2, own->bias, LANES / 2 * sizeof *own->bias);
    return HRF_OK;
}

/* True if groups divide a plane. With 32 channels and more oneDNN is faster. */
static bool groups_fit(const struct hrf_shape *weights, int64_t n_groups, int64_t channels)
{
    const int64_t size = weights->dims[1];
    return size > 1 && LANES % size == 0 && weights->dims[0] == n_groups * size &&
           channels == weights->dims[0];
}

/* True for one group whose outputs fill one register at most, where the implicit matrix product
 * would load a word for each multiply-add. With pairs, also two registers if a pixel has two words
 * (the first layer). */
static bool few_channels_fit(const struct hrf_shape *weights, bool pairs)
{
    return weights->dims[0] <= LANES ||
           (pairs && weights->dims[0] <= 2 * LANES && weights->dims[1] <= 4);
}

static const char *conv_groups_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_window *window = &node->attributes.window;
    const bool pairs = hrf_own_conv_has_pairs(graph, node);
    const char *reason = hrf_cpu_avx512_misfit(graph, node);
    if (reason != NULL)
        return reason;
    if (w->dims[3] != COLUMNS || window->stride[1] > 2 || window->dilation[0] != 1 ||
        window->dilation[1] != 1)
        return "its windows do not have 3 columns, without dilation and at most 2 apart";
    if (node->attributes.group > 1 ? !groups_fit(w, node->attributes.group, x->dims[1])
                                   : !few_channels_fit(w, pairs))
        return "its groups divide no register, or its outputs fill more than one";
    return hrf_cpu_is_as_fast(graph, node, pairs) ? NULL : HRF_CPU_ONEDNN_IS_FASTER;
}

static const char *pairs_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_own_conv_has_pairs(graph, node) ? conv_groups_misfit(graph, node) : HRF_CPU_NO_PAIRS;
}

static const struct hrf_own_conv_type type = {
    .size = sizeof(struct groups_kernel),
    .compute = conv_groups_run,
    .prepare = conv_groups_prepare,
};
HRF_OWN_CONV_ROWS(groups, "groups", HRF_ROW_OPS(HRF_OP_CONV), HRF_STRIDED, &type,
                  conv_groups_misfit, pairs_misfit);
