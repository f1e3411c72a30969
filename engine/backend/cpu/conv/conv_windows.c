/* conv_windows.c - convolution as an implicit matrix product (implicit GEMM), by own kernels: the
 * product reads the windows in place.
 *
 * A thread takes blocks of output rows (of some columns, if whole rows do not fit its L2 cache). It
 * copies the input rows under a block into its line cache, zero-padded. There, each row or each
 * pixel of a window is a piece of the product's depth, at the same offset from the window's first
 * pixel for every output (product.h). Pieces outside the image are skipped if all outputs that are
 * multiplied together lack them; outputs are therefore ordered by the pieces that they lack. 16-bit
 * inputs are widened, and a prologue is computed, on the way into the line cache: about once per
 * pixel, not once per window. If the processor multiplies pairs of bfloat16, the line cache holds
 * pairs: a pixel with an odd number of channels is padded with a zero, unless all windows and their
 * rows consist of whole pairs without it. Each group of channels is a separate product over the
 * same line cache.
 *
 * If the weights are larger than the pixels, the output channels are divided among the threads
 * instead, so that each weight is read by one thread only.
 */
#include "engine/backend/cpu/conv/conv_lines.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/part_queues.h"
#include "engine/backend/cpu/pixels.h"

#include <string.h>

enum {
    WORD = 4,                 /* bytes of the product's words */
    LINES_BYTES = 384 * 1024, /* of the line cache; leaves room in L2 for weights */
    BAD_STRIDE = 4096,        /* bytes between rows of a tile that all map to one cache set */
    STRIDE_SLACK = 64,        /* bytes: a cache line */
    MAX_PIXELS = 1008, /* of a block; small enough for threads to finish at about the same time */
    MIN_COLUMNS = 24,  /* of a group; with fewer, loads limit the speed */
    LARGE_WEIGHTS = 512 * 1024, /* bytes that do not stay in L2 beside the lines */
    /* The fewest words of a pixel for which windows at the left and right edge of the image are cut
     * into pixels: with shallower pieces, the overhead per piece exceeds what skipping saves. */
    DEEP_PIXEL = 32,
    MAX_PIECES = 64, /* that can be skipped: bits of a word */
};

struct windows_kernel {
    struct hrf_own_conv own;
    struct hrf_conv_lines lines; /* units are panels of the output channels of a group */
    struct hrf_pixels in;
    int64_t n_pieces, depth; /* of a product; depth in words */
    int64_t columns_each;    /* output channels of a group */
    int64_t size;            /* bytes of an element of the line cache */
    int64_t pixel_numbers;   /* elements from one of its pixels to the next */
    bool prefetches_weights;
    struct hrf_product_piece *pieces; /* [n_groups][n_pieces] */
    uint64_t *absent_columns; /* [out_columns]: pieces left or right of the image, as bits */
};

/* ---- line cache ---- */

/* The address of a pixel in a line. */
static char *pixel_at(const struct windows_kernel *k, char *line, int64_t column)
{
    return line + column * k->pixel_numbers * k->size;
}

static void zero_pixels(const struct windows_kernel *k, char *to, int64_t n)
{
    if (n > 0)
        memset(to, 0, (size_t)(n * k->pixel_numbers * k->size));
}

/* Fills a line from `row` of the image; NULL: a row outside the image. */
static void fill_line(const struct windows_kernel *k, const char *row,
                      const struct hrf_conv_reach *columns, char *line)
{
    const int64_t begin = columns->begin, end = row != NULL ? columns->end : begin;
    zero_pixels(k, line, begin);
    if (end > begin)
        hrf_pixels_copy(&k->in, row + (columns->first + begin) * hrf_pixels_stride_bytes(&k->in), 1,
                        end - begin, pixel_at(k, line, begin), k->pixel_numbers);
    zero_pixels(k, pixel_at(k, line, end), columns->n - end);
}

static void conv_windows_fill(const struct hrf_conv_work *w, int64_t image, int64_t y, int64_t end)
{
    const struct windows_kernel *k = (const struct windows_kernel *)w->kernel;
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t row_bytes = s->columns * hrf_pixels_stride_bytes(&k->in);
    const char *x = (const char *)w->call->inputs[HRF_CONV_X] + image * s->rows * row_bytes;
    for (; y < end; y++)
        fill_line(k, y >= 0 && y < s->rows ? x + y * row_bytes : NULL, &w->columns,
                  hrf_conv_line(w, y));
}

/* ---- running ---- */

/* Rows of the product. */
struct rows {
    const char *a[HRF_PRODUCT_ROWS];
    char *y[HRF_PRODUCT_ROWS];
    uint64_t absent[HRF_PRODUCT_ROWS];
    int64_t n;
};

/* The window pieces of an output row that lie above or below the image, as bits. */
static uint64_t absent_pieces(const struct windows_kernel *k, int64_t out_row)
{
    const int64_t per_row = k->n_pieces / k->own.shape.window.kernel[0];
    uint64_t absent = 0;
    for (int64_t i = 0; i < k->n_pieces && i < MAX_PIECES; i++)
        if (!hrf_conv_tap_exists(&k->own.shape, 0, out_row, i / per_row))
            absent |= (uint64_t)1 << i;
    return absent;
}

/* The window pieces of an output column that lie left or right of the image, as bits. */
static uint64_t absent_pixels(const struct windows_kernel *k, int64_t out_column)
{
    const int64_t per_row = k->n_pieces / k->own.shape.window.kernel[0];
    uint64_t absent = 0;
    for (int64_t i = 0; per_row > 1 && i < k->n_pieces && i < MAX_PIECES; i++)
        if (!hrf_conv_tap_exists(&k->own.shape, 1, out_column, i % per_row))
            absent |= (uint64_t)1 << i;
    return absent;
}

/* Appends the outputs of one row of a part; rows are counted through all images. */
static void append_row(const struct windows_kernel *k, const struct hrf_conv_part *p, int64_t row,
                       char *line, char *y, struct rows *rows)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t pixel_bytes = s->y_stride * (int64_t)hrf_dtype_size(s->y_type);
    const uint64_t absent = absent_pieces(k, row % s->out_rows);
    y += (row * s->out_columns + p->column) * pixel_bytes;
    for (int64_t c = 0; c < p->n_columns; c++) {
        rows->a[rows->n] = pixel_at(k, line, c * s->window.stride[1]);
        rows->y[rows->n] = y + c * pixel_bytes;
        rows->absent[rows->n++] = absent | k->absent_columns[p->column + c];
    }
}

/* The smallest set of absent pieces, read as a number, that is at least `min`. */
static uint64_t next_absent(const struct rows *rows, uint64_t min)
{
    uint64_t next = ~(uint64_t)0;
    for (int64_t i = 0; i < rows->n; i++)
        if (rows->absent[i] >= min && rows->absent[i] < next)
            next = rows->absent[i];
    return next;
}

/* Orders the rows so that those that lack the same pieces are consecutive. */
static void order_rows(const struct rows *rows, struct rows *ordered)
{
    ordered->n = 0;
    for (uint64_t absent = 0; ordered->n < rows->n; absent++) {
        absent = next_absent(rows, absent);
        for (int64_t i = 0; i < rows->n; i++) {
            if (rows->absent[i] != absent)
                continue;
            ordered->a[ordered->n] = rows->a[i];
            ordered->y[ordered->n] = rows->y[i];
            ordered->absent[ordered->n++] = absent;
        }
    }
}

/* The number of floats in a group's packed weights. */
static size_t group_weights(const struct windows_kernel *k)
{
    return hrf_product_packed_count(k->depth, k->columns_each);
}

/* Multiplies the rows by the weights of all groups. */
static void conv_windows_multiply(const struct windows_kernel *k, const struct hrf_conv_part *p,
                                  const struct rows *rows)
{
    const struct hrf_own_conv *own = &k->own;
    const struct hrf_ahead ahead = { .prefetches_weights = k->prefetches_weights };
    struct rows ordered;
    order_rows(rows, &ordered);
    struct hrf_product_rows product_rows = {
        .a = ordered.a, .y = ordered.y, .n = ordered.n, .absent = ordered.absent
    };
    struct hrf_epilogue epilogue = own->epilogue;
    for (int64_t i = 0; i < own->shape.n_groups; i++) {
        const int64_t column = i * k->columns_each;
        product_rows.y_offset = column * (int64_t)hrf_dtype_size(own->shape.y_type);
        epilogue.bias = own->bias + column;
        hrf_product_rows_avx512(own->word_type, &product_rows, k->pieces + i * k->n_pieces,
                                k->n_pieces,
                                (const float *)own->weights + (size_t)i * group_weights(k),
                                k->depth, k->columns_each, p->unit, p->end_unit, &epilogue, &ahead);
    }
}

/* Computes output rows, counted through all images. */
static void conv_windows_compute(const struct hrf_conv_work *w, int64_t row, int64_t n_rows)
{
    const struct windows_kernel *k = (const struct windows_kernel *)w->kernel;
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t end = row + n_rows;
    char *line = w->scratch;
    struct rows rows = { .n = 0 };
    while (row < end) {
        const struct hrf_conv_run run = hrf_conv_run_of(s, row, end - row);
        for (int64_t i = 0; i < run.n_rows; i++) {
            append_row(k, &w->part, row + i, line + i * s->window.stride[0] * k->lines.line_bytes,
                       w->call->output, &rows);
            if (rows.n + w->part.n_columns > HRF_PRODUCT_ROWS || row + i + 1 == end) {
                conv_windows_multiply(k, &w->part, &rows);
                rows.n = 0;
            }
        }
        line += hrf_window_span(&s->window, 0, run.n_rows) * k->lines.line_bytes;
        row += run.n_rows;
    }
}

static void conv_windows_run(const struct hrf_own_conv *own, const struct hrf_kernel_call *call)
{
    hrf_conv_lines_run(own, &((const struct windows_kernel *)own)->lines, call, NULL);
}

static void conv_windows_release(struct hrf_own_conv *own)
{
    struct windows_kernel *k = (struct windows_kernel *)own;
    hrf_free(k->pieces);
    hrf_free(k->absent_columns);
    hrf_cpu_prologue_release(&k->in.prologue);
}

/* ---- compiling ---- */

/* True if, without padding, a window would begin, or a row of it end, within a pair of channels. */
static bool needs_zeros(const struct hrf_own_conv *own)
{
    const struct hrf_window *w = &own->shape.window;
    const bool is_even = w->stride[1] % 2 == 0 && w->kernel[1] % 2 == 0 && w->dilation[1] == 1;
    return own->word_type == HRF_WORD_B16_PAIR && own->shape.channels % 2 != 0 && !is_even;
}

/* The elements of a pixel in the line cache that one group's product reads. */
static int64_t group_numbers(const struct windows_kernel *k)
{
    const int64_t n_groups = k->own.shape.n_groups;
    return n_groups > 1 ? k->in.channels / n_groups : k->in.width;
}

/* True if skipping pixels left and right of the image is worth pieces of one pixel: at least one in
 * 50 of them lies there. */
static bool cuts_at_edges(const struct windows_kernel *k)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t per_word = WORD / k->size, *kernel = s->window.kernel;
    int64_t n_absent = 0;
    for (int64_t u = 0; u < s->out_columns; u++)
        for (int64_t j = 0; j < kernel[1]; j++)
            n_absent += !hrf_conv_tap_exists(s, 1, u, j);
    return group_numbers(k) % per_word == 0 && group_numbers(k) >= DEEP_PIXEL * per_word &&
           kernel[0] * kernel[1] <= MAX_PIECES && 50 * n_absent >= s->out_columns * kernel[1];
}

/* Lists the pieces of a window. A row of the window is one piece if its pixels are contiguous. */
static void make_pieces(struct windows_kernel *k)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t per_word = WORD / k->size, numbers = group_numbers(k);
    const int64_t *kernel = s->window.kernel, *dilation = s->window.dilation;
    const bool is_dense = dilation[1] == 1 && k->pixel_numbers == numbers && !cuts_at_edges(k);
    const int64_t per_row = is_dense ? 1 : kernel[1];
    const int64_t depth = kernel[1] * numbers / per_word / per_row;
    k->n_pieces = kernel[0] * per_row;
    k->depth = k->n_pieces * depth;
    k->pieces = hrf_alloc_array((size_t)(s->n_groups * k->n_pieces), sizeof *k->pieces);
    k->absent_columns = hrf_alloc_array((size_t)s->out_columns, sizeof *k->absent_columns);
    for (int64_t u = 0; u < s->out_columns; u++)
        k->absent_columns[u] = absent_pixels(k, u);
    for (int64_t j = 0; j < s->n_groups * k->n_pieces; j++) {
        const int64_t group = j / k->n_pieces, i = j % k->n_pieces;
        k->pieces[j] = (struct hrf_product_piece){
            .offset = i / per_row * dilation[0] * k->lines.line_bytes / WORD +
                      (i % per_row * dilation[1] * k->pixel_numbers + group * numbers) / per_word,
            .depth = depth,
            .at = i * depth,
        };
    }
}

/* The rows of a band: as many as the line cache and the number of threads allow, with all bands
 * about equally large. */
static int64_t choose_rows(const struct windows_kernel *k)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const struct hrf_conv_cut *c = &k->lines.cut;
    const int64_t n_threads = k->own.n_threads, n_rows = s->n_images * s->out_rows;
    const int64_t span = hrf_window_span(&s->window, 0, 1);
    int64_t rows = (LINES_BYTES / k->lines.line_bytes - span) / s->window.stride[0] + 1;
    rows = hrf_clamp(rows, 1, hrf_ceil_div(MAX_PIXELS, c->strip_columns));
    if (c->n_slices == 1 && n_rows * c->n_strips < 8 * n_threads * rows) {
        const int64_t n_blocks = hrf_ceil_div(n_rows, rows) * c->n_strips;
        const int64_t n_bands = hrf_ceil_div(hrf_ceil_div(n_blocks, n_threads) * n_threads,
                                             c->n_strips);
        rows = hrf_ceil_div(n_rows, n_bands);
    }
    while (c->n_slices > 1 && rows > 1 &&
           !hrf_part_queues_are_even(hrf_ceil_div(n_rows, rows) * c->n_strips * c->n_slices,
                                     n_threads))
        rows = hrf_ceil_div(n_rows, hrf_ceil_div(n_rows, rows) + 1);
    return rows;
}

static void choose_parts(struct windows_kernel *k)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const struct hrf_window *w = &s->window;
    const int64_t n_threads = k->own.n_threads, n_rows = s->n_images * s->out_rows;
    const int64_t pixel_bytes = k->in.width * k->size;
    const bool is_bad = pixel_bytes % WORD == 0 && w->stride[1] * pixel_bytes % BAD_STRIDE == 0;
    struct hrf_conv_lines *l = &k->lines;
    struct hrf_conv_cut *c = &l->cut;
    *l = (struct hrf_conv_lines){ .pads_rows = true,
                                  .fill = conv_windows_fill,
                                  .compute = conv_windows_compute };
    k->pixel_numbers = k->in.width + (is_bad ? STRIDE_SLACK / k->size : 0);
    /* The most columns of a line for which the lines under two output rows fit. */
    const int64_t max_columns = LINES_BYTES / hrf_window_span(w, 0, 2) /
                                (k->pixel_numbers * k->size);
    const int64_t fit = (max_columns - hrf_window_span(w, 1, 1)) / w->stride[1] + 1;
    c->joins_images = true;
    c->n_strips = hrf_ceil_div(s->out_columns, hrf_clamp(fit, 1, HRF_PRODUCT_ROWS));
    hrf_conv_cut_evenly(s->out_columns, &c->n_strips, &c->strip_columns);
    const int64_t numbers = hrf_window_span(w, 1, c->strip_columns) * k->pixel_numbers;
    l->line_bytes = hrf_ceil_div(numbers * k->size, WORD) * WORD;
    const int64_t n_panels = c->n_units = hrf_product_count_panels(k->columns_each);
    const bool few_pixels = n_rows * s->out_columns < s->out_channels || n_rows < n_threads;
    c->n_slices = !few_pixels || n_panels < n_threads             ? 1
                  : hrf_part_queues_are_even(n_panels, n_threads) ? n_threads
                                                                  : n_panels;
    c->band_rows = l->rows_at_once = choose_rows(k);
    c->n_bands = hrf_ceil_div(n_rows, c->band_rows);
    l->n_lines = l->fill_at_once = hrf_conv_lines_under_part(s, l);
    l->scratch_bytes = (size_t)(l->n_lines * l->line_bytes);
    k->own.base.workspace_bytes = hrf_conv_lines_workspace(&k->own, l);
}

/* Transposes [m][c][rows][columns] to [m][rows][columns][c], the order of the product's rows. */
static void transpose_weights(const struct windows_kernel *k, const float *w, float *transposed)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t area = s->window.kernel[0] * s->window.kernel[1];
    const int64_t channels = s->channels / s->n_groups, width = group_numbers(k);
    for (int64_t m = 0; m < s->out_channels; m++)
        for (int64_t at = 0; at < area; at++)
            for (int64_t c = 0; c < width; c++)
                *transposed++ = c < channels ? w[(m * channels + c) * area + at] : 0.0f;
}

static enum hrf_status pack_weights(struct windows_kernel *k, const struct hrf_graph *graph,
                                    const struct hrf_node *node, struct hrf_error *err)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const size_t n_bytes = (size_t)s->n_groups * group_weights(k) * sizeof(float);
    const int64_t numbers = k->depth * WORD / k->size;
    HRF_AUTO_FREE float *transposed = hrf_try_alloc_array((size_t)(numbers * s->out_channels),
                                                          sizeof(float));
    HRF_CHECK_MEMORY(transposed != NULL, err, "no memory for the weights of node '%s': %zu bytes",
                     node->name, n_bytes);
    HRF_TRY(hrf_own_conv_make_weights(&k->own, graph, node, n_bytes, s->out_channels, err));
    k->prefetches_weights = n_bytes > LARGE_WEIGHTS;
    transpose_weights(k, graph->values[node->inputs[HRF_CONV_WEIGHTS]].data, transposed);
    for (int64_t i = 0; i < s->n_groups; i++)
        hrf_product_pack(k->own.word_type, transposed + i * k->columns_each * numbers, 1, numbers,
                         numbers, k->columns_each,
                         (float *)k->own.weights + (size_t)i * group_weights(k));
    return HRF_OK;
}

static enum hrf_status conv_windows_prepare(struct hrf_own_conv *own, const struct hrf_graph *graph,
                                            const struct hrf_node *node, struct hrf_error *err)
{
    struct windows_kernel *k = (struct windows_kernel *)own;
    const struct hrf_conv_shape *s = &own->shape;
    k->in = (struct hrf_pixels){ .type = s->x_type,
                                 .word_type = own->word_type,
                                 .channels = s->channels,
                                 .width = s->channels + (needs_zeros(own) ? 1 : 0),
                                 .stride = s->x_stride };
    hrf_cpu_prologue_init(&k->in.prologue, graph, node);
    k->size = own->word_type == HRF_WORD_B16_PAIR ? 2 : 4;
    k->columns_each = s->out_channels / s->n_groups;
    choose_parts(k);
    make_pieces(k);
    return pack_weights(k, graph, node, err);
}

/* True for one group, or for groups that do not fill oneDNN's blocks of channels: groups of 24 are
 * 1.46 times as fast here, of 120 1.14 times, of 64 0.96 times. */
static bool groups_fit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    enum { BLOCK = 16 };
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const int64_t columns = w->dims[0] / node->attributes.group;
    return node->attributes.group == 1 || (columns >= MIN_COLUMNS && columns % BLOCK != 0);
}

static const char *conv_windows_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const char *reason = hrf_cpu_avx512_misfit(graph, node);
    if (reason != NULL)
        return reason;
    if (!groups_fit(graph, node))
        return "its groups fill oneDNN's blocks, or have few channels";
    return hrf_cpu_is_as_fast(graph, node, hrf_own_conv_has_pairs(graph, node))
               ? NULL
               : HRF_CPU_ONEDNN_IS_FASTER;
}

static const char *pairs_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_own_conv_has_pairs(graph, node) ? conv_windows_misfit(graph, node)
                                               : HRF_CPU_NO_PAIRS;
}

static const struct hrf_own_conv_type type = {
    .size = sizeof(struct windows_kernel),
    .compute = conv_windows_run,
    .prepare = conv_windows_prepare,
    .release = conv_windows_release,
};
HRF_OWN_CONV_ROWS(windows, "implicit_product", HRF_ROW_OPS(HRF_OP_CONV),
                  HRF_TAKES_PROLOGUE | HRF_STRIDED, &type, conv_windows_misfit, pairs_misfit);
