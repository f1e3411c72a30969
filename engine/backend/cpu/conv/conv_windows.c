/* conv_windows.c - convolution with windows of more than one pixel as an implicit matrix product,
 * own kernels: the product reads the windows where they stand.
 *
 * A thread takes blocks of output rows (of some columns, where whole rows would not stay in its
 * second-level cache). It copies the input rows under a block into its line cache, with zeros where
 * the image ends: there each row of a window, or each pixel of it, is a piece of the product's
 * depth, at the same distance from the window's first pixel for every output (product.h). Pieces
 * outside the image are left out where all outputs that are multiplied together lack them: outputs
 * are therefore ordered by what they lack. Numbers of 16 bits are widened, and a prologue is
 * computed, on the way into the line cache: about once for a pixel, not for every window. Where the
 * processor multiplies pairs of bfloat16, the line cache has those: a pixel of an odd number of
 * channels gets a zero there, unless all windows and their rows are of whole pairs without it. Each
 * group of channels is a product of its own over the same line cache.
 *
 * Where the weights are larger than the pixels, threads share the output's channels instead, so
 * that each weight is read by one thread only.
 */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/part_queues.h"
#include "engine/backend/cpu/pixels.h"
#include "engine/backend/cpu/product.h"

#include <omp.h>
#include <string.h>

enum {
    WORD = 4,                 /* bytes of the product's words */
    LINES_BYTES = 384 * 1024, /* of the line cache: leaves the second level room for weights */
    BAD_STRIDE = 4096,        /* bytes between rows of a tile that all fall into one set */
    STRIDE_SLACK = 64,        /* bytes: the next line of the cache */
    MOST_PIXELS = 1008,       /* of a block: threads end at about the same time */
    LEAST_COLUMNS = 24,       /* of a group: with fewer, loads are the limit */
    FAR_WEIGHTS = 512 * 1024, /* bytes that do not stay in the second level beside the lines */
    /* Words of a pixel from which on windows are cut into pixels at the left and right edge of the
     * image: for shallower pieces, taking each takes longer than leaving some out saves. */
    DEEP_PIXEL = 32,
    MOST_PIECES = 64, /* that can be left out: bits of a word */
};

struct windows_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    struct hrf_pixels in;
    int64_t rows, columns, out_rows, out_columns, out_channels; /* of an image */
    int64_t n_rows;                                             /* of the output, of all images */
    int64_t kernel[2], stride[2], dilation[2], pad[2];
    int64_t block_rows, block_columns; /* of the output */
    int64_t n_bands, n_strips;         /* of blocks: rows and columns are cut into that many */
    int64_t n_slices;                  /* the output's channels are cut into that many */
    int64_t n_groups;                  /* each a product with channels of its own */
    int64_t n_pieces, depth;           /* of a product; depth in words */
    int64_t columns_each;              /* of a product: output channels of a group */
    int64_t size;                      /* bytes of a number of the line cache */
    int64_t pixel_numbers;             /* from pixel to pixel of it */
    int64_t line_bytes;                /* from line to line of it */
    int64_t n_lines;                   /* it has, at most */
    int64_t y_stride;                  /* numbers from pixel to pixel of output and residual */
    bool weights_are_far;
    bool has_residual;
    enum hrf_dtype out_type;
    struct hrf_epilogue epilogue;
    struct hrf_product_piece *pieces; /* [n_groups][n_pieces] */
    uint64_t *absent_columns; /* [out_columns]: pieces left or right of the image, as bits */
    float *weights, *bias;
};

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

static int64_t row_span(const struct windows_kernel *k)
{
    return (k->kernel[0] - 1) * k->dilation[0] + 1;
}

/* ---- line cache ---- */

/* Some output rows, which are counted through all images, by some columns. */
struct block {
    int64_t row, n_rows, column, n_columns;
};

/* Output rows of one image that follow each other. */
struct run {
    int64_t image, row, n_rows;
};

static struct run run_of(const struct windows_kernel *k, int64_t row, int64_t n_rows)
{
    const int64_t in_image = row % k->out_rows;
    return (struct run){ row / k->out_rows, in_image, hrf_least(n_rows, k->out_rows - in_image) };
}

/* Lines under a run, rows outside the image included. */
static int64_t lines_under(const struct windows_kernel *k, const struct run *r)
{
    return (r->n_rows - 1) * k->stride[0] + row_span(k);
}

static int64_t window_columns(const struct windows_kernel *k, int64_t n_columns)
{
    return (n_columns - 1) * k->stride[1] + (k->kernel[1] - 1) * k->dilation[1] + 1;
}

/* Where a pixel of a line stands. */
static char *pixel_at(const struct windows_kernel *k, char *line, int64_t column)
{
    return line + column * k->pixel_numbers * k->size;
}

static void zero_pixels(const struct windows_kernel *k, char *to, int64_t n)
{
    if (n > 0)
        memset(to, 0, (size_t)(n * k->pixel_numbers * k->size));
}

/* `row`: of the image, or NULL for one outside of it. */
static void fill_line(const struct windows_kernel *k, const char *row, const struct block *b,
                      char *line)
{
    const int64_t n = window_columns(k, b->n_columns), left = b->column * k->stride[1] - k->pad[1];
    const int64_t begin = clamp(-left, 0, n);
    const int64_t end = row != NULL ? clamp(k->columns - left, begin, n) : begin;
    zero_pixels(k, line, begin);
    if (end > begin)
        hrf_pixels_copy(&k->in, row + (left + begin) * hrf_pixels_stride_bytes(&k->in), 1,
                        end - begin, pixel_at(k, line, begin), k->pixel_numbers);
    zero_pixels(k, pixel_at(k, line, end), n - end);
}

static void fill(const struct windows_kernel *k, const char *x, const struct block *b, char *lines)
{
    const int64_t row_bytes = k->columns * hrf_pixels_stride_bytes(&k->in);
    for (int64_t done = 0; done < b->n_rows;) {
        const struct run run = run_of(k, b->row + done, b->n_rows - done);
        const int64_t top = run.row * k->stride[0] - k->pad[0];
        for (int64_t i = 0; i < lines_under(k, &run); i++, lines += k->line_bytes) {
            const int64_t y = top + i;
            const bool is_inside = y >= 0 && y < k->rows;
            fill_line(k, is_inside ? x + (run.image * k->rows + y) * row_bytes : NULL, b, lines);
        }
        done += run.n_rows;
    }
}

/* ---- running ---- */

/* Rows of the product. */
struct rows {
    const char *a[HRF_PRODUCT_ROWS];
    char *y[HRF_PRODUCT_ROWS];
    uint64_t absent[HRF_PRODUCT_ROWS];
    int64_t n;
};

/* The pieces of windows at an output row of an image that lie above or below it. */
static uint64_t absent_pieces(const struct windows_kernel *k, int64_t out_row)
{
    const int64_t per_row = k->n_pieces / k->kernel[0];
    uint64_t absent = 0;
    for (int64_t i = 0; i < k->n_pieces && i < MOST_PIECES; i++) {
        const int64_t y = out_row * k->stride[0] - k->pad[0] + i / per_row * k->dilation[0];
        if (y < 0 || y >= k->rows)
            absent |= (uint64_t)1 << i;
    }
    return absent;
}

/* The same of windows at an output column that lie left or right of it. */
static uint64_t absent_pixels(const struct windows_kernel *k, int64_t out_column)
{
    const int64_t per_row = k->n_pieces / k->kernel[0];
    uint64_t absent = 0;
    for (int64_t i = 0; per_row > 1 && i < k->n_pieces && i < MOST_PIECES; i++) {
        const int64_t x = out_column * k->stride[1] - k->pad[1] + i % per_row * k->dilation[1];
        if (x < 0 || x >= k->columns)
            absent |= (uint64_t)1 << i;
    }
    return absent;
}

/* The outputs of one row of a block. */
static void append_row(const struct windows_kernel *k, const struct block *b, int64_t row,
                       char *line, char *y, struct rows *rows)
{
    const int64_t pixel_bytes = k->y_stride * (int64_t)hrf_dtype_size(k->out_type);
    const uint64_t absent = absent_pieces(k, row % k->out_rows);
    y += (row * k->out_columns + b->column) * pixel_bytes;
    for (int64_t c = 0; c < b->n_columns; c++) {
        rows->a[rows->n] = pixel_at(k, line, c * k->stride[1]);
        rows->y[rows->n] = y + c * pixel_bytes;
        rows->absent[rows->n++] = absent | k->absent_columns[b->column + c];
    }
}

/* The smallest set of absent pieces, as a number, from `least` on. */
static uint64_t next_absent(const struct rows *rows, uint64_t least)
{
    uint64_t next = ~(uint64_t)0;
    for (int64_t i = 0; i < rows->n; i++)
        if (rows->absent[i] >= least && rows->absent[i] < next)
            next = rows->absent[i];
    return next;
}

/* Those that lack the same pieces follow each other. */
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

static size_t group_weights(const struct windows_kernel *k)
{
    return hrf_product_packed_count(k->depth, k->columns_each);
}

/* All groups over the rows. */
static void multiply(const struct windows_kernel *k, int64_t slice, const struct rows *rows)
{
    const int64_t n_panels = hrf_product_count_panels(k->columns_each);
    const struct hrf_ahead ahead = { .weights_are_far = k->weights_are_far };
    struct rows ordered;
    order_rows(rows, &ordered);
    struct hrf_product_rows product_rows = {
        .a = ordered.a, .y = ordered.y, .n = ordered.n, .absent = ordered.absent
    };
    struct hrf_epilogue epilogue = k->epilogue;
    for (int64_t i = 0; i < k->n_groups; i++) {
        const int64_t column = i * k->columns_each;
        product_rows.y_offset = column * (int64_t)hrf_dtype_size(k->out_type);
        epilogue.bias = k->bias + column;
        hrf_product_rows_avx512(k->in.words, &product_rows, k->pieces + i * k->n_pieces,
                                k->n_pieces, k->weights + (size_t)i * group_weights(k), k->depth,
                                k->columns_each, n_panels * slice / k->n_slices,
                                n_panels * (slice + 1) / k->n_slices, &epilogue, &ahead);
    }
}

static struct block block_of(const struct windows_kernel *k, int64_t i)
{
    const int64_t row = i % k->n_bands * k->block_rows, column = i / k->n_bands * k->block_columns;
    return (struct block){ .row = row,
                           .n_rows = hrf_least(k->block_rows, k->n_rows - row),
                           .column = column,
                           .n_columns = hrf_least(k->block_columns, k->out_columns - column) };
}

static void run_block(const struct windows_kernel *k, const struct hrf_kernel_call *call,
                      const struct block *b, int64_t slice, char *lines)
{
    struct rows rows = { .n = 0 };
    fill(k, call->inputs[HRF_CONV_X], b, lines);
    for (int64_t done = 0; done < b->n_rows;) {
        const struct run run = run_of(k, b->row + done, b->n_rows - done);
        for (int64_t i = 0; i < run.n_rows; i++) {
            append_row(k, b, b->row + done + i, lines + i * k->stride[0] * k->line_bytes,
                       call->output, &rows);
            if (rows.n + b->n_columns > HRF_PRODUCT_ROWS || done + i + 1 == b->n_rows) {
                multiply(k, slice, &rows);
                rows.n = 0;
            }
        }
        lines += lines_under(k, &run) * k->line_bytes;
        done += run.n_rows;
    }
}

/* A thread's scratch: its line cache. */
static size_t scratch_bytes(const struct windows_kernel *k)
{
    const size_t n = (size_t)(k->n_lines * k->line_bytes);
    return (n + HRF_BUFFER_ALIGNMENT - 1) / HRF_BUFFER_ALIGNMENT * HRF_BUFFER_ALIGNMENT;
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    const struct windows_kernel *k = (const struct windows_kernel *)base;
    const int64_t n_blocks = k->n_bands * k->n_strips;
    if (k->has_residual && call->inputs[HRF_CONV_RESIDUAL] != call->output)
        memcpy(call->output, call->inputs[HRF_CONV_RESIDUAL],
               (size_t)(k->n_rows * k->out_columns * k->y_stride) * hrf_dtype_size(k->out_type));
    const struct hrf_part_queues parts = hrf_part_queues_begin(
        call->workspace, k->backend->n_threads, n_blocks * k->n_slices);
#pragma omp parallel
    {
        char *const scratch = (char *)(parts.of + parts.n_threads) +
                              (size_t)omp_get_thread_num() * scratch_bytes(k);
        for (int64_t i; (i = hrf_part_queues_take(&parts)) >= 0;) {
            const struct block block = block_of(k, i % n_blocks);
            run_block(k, call, &block, i / n_blocks, scratch);
        }
    }
    return HRF_OK;
}

static void destroy(struct hrf_kernel *base)
{
    struct windows_kernel *k = (struct windows_kernel *)base;
    hrf_free(k->pieces);
    hrf_free(k->absent_columns);
    hrf_free(k->weights);
    hrf_free(k->bias);
    hrf_cpu_prologue_release(&k->in.prologue);
    hrf_free(k);
}

/* ---- making one ---- */

/* True if the product is one of pairs: pairs must not reach from one group into the next. */
static bool multiplies_pairs(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const int64_t n_groups = node->attributes.group;
    return x->dtype == HRF_B16 && hrf_cpu_has_avx512_bf16() &&
           (n_groups == 1 || x->shape.dims[1] / n_groups % 2 == 0);
}

/* True if windows of pairs of the channels alone would begin or have rows that end within one. */
static bool needs_zeros(const struct windows_kernel *k, const struct hrf_node *node)
{
    const struct hrf_window *w = &node->attributes.window;
    const bool is_even = w->stride[1] % 2 == 0 && w->kernel[1] % 2 == 0 && w->dilation[1] == 1;
    return k->in.words == HRF_PAIRS && k->in.channels % 2 != 0 && !is_even;
}

static void take_shapes(struct windows_kernel *k, const struct hrf_graph *graph,
                        const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const struct hrf_window *window = &node->attributes.window;
    k->in.type = x->dtype;
    k->in.words = multiplies_pairs(graph, node) ? HRF_PAIRS : HRF_FLOATS;
    k->size = k->in.words == HRF_PAIRS ? 2 : 4;
    k->in.channels = x->shape.dims[1];
    k->in.stride = hrf_value_pixel_stride(x);
    k->in.width = k->in.channels + (needs_zeros(k, node) ? 1 : 0);
    k->rows = x->shape.dims[2];
    k->columns = x->shape.dims[3];
    k->out_type = y->dtype;
    k->y_stride = hrf_value_pixel_stride(y);
    k->out_channels = y->shape.dims[1];
    k->out_rows = y->shape.dims[2];
    k->out_columns = y->shape.dims[3];
    k->n_rows = y->shape.dims[0] * k->out_rows;
    k->n_groups = node->attributes.group;
    k->columns_each = k->out_channels / k->n_groups;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        k->kernel[i] = w->dims[2 + i];
        k->stride[i] = window->stride[i];
        k->dilation[i] = window->dilation[i];
        k->pad[i] = window->pad_begin[i];
    }
    k->has_residual = node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0;
}

/* Numbers of a pixel in the line cache that one group's product reads. */
static int64_t group_numbers(const struct windows_kernel *k)
{
    return k->n_groups > 1 ? k->in.channels / k->n_groups : k->in.width;
}

/* Whether leaving out what is left and right of the image is worth pieces of one pixel: at least
 * one in 50 of them is there. */
static bool cuts_at_edges(const struct windows_kernel *k)
{
    const int64_t per_word = WORD / k->size;
    int64_t n_absent = 0;
    for (int64_t u = 0; u < k->out_columns; u++)
        for (int64_t j = 0; j < k->kernel[1]; j++) {
            const int64_t x = u * k->stride[1] - k->pad[1] + j * k->dilation[1];
            n_absent += x < 0 || x >= k->columns;
        }
    return group_numbers(k) % per_word == 0 && group_numbers(k) >= DEEP_PIXEL * per_word &&
           k->kernel[0] * k->kernel[1] <= MOST_PIECES &&
           50 * n_absent >= k->out_columns * k->kernel[1];
}

/* A row of the window is one piece where its pixels follow each other without gaps. */
static enum hrf_status make_pieces(struct windows_kernel *k, const char *name,
                                   struct hrf_error *err)
{
    const int64_t per_word = WORD / k->size;
    const int64_t numbers = group_numbers(k);
    const bool is_dense = k->dilation[1] == 1 && k->pixel_numbers == numbers && !cuts_at_edges(k);
    const int64_t per_row = is_dense ? 1 : k->kernel[1];
    const int64_t depth = k->kernel[1] * numbers / per_word / per_row;
    k->n_pieces = k->kernel[0] * per_row;
    k->depth = k->n_pieces * depth;
    k->pieces = hrf_alloc_array((size_t)(k->n_groups * k->n_pieces), sizeof *k->pieces);
    k->absent_columns = hrf_alloc_array((size_t)k->out_columns, sizeof *k->absent_columns);
    if (k->pieces == NULL || k->absent_columns == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", name);
    for (int64_t u = 0; u < k->out_columns; u++)
        k->absent_columns[u] = absent_pixels(k, u);
    for (int64_t j = 0; j < k->n_groups * k->n_pieces; j++) {
        const int64_t group = j / k->n_pieces, i = j % k->n_pieces;
        k->pieces[j] = (struct hrf_product_piece){
            .offset = i / per_row * k->dilation[0] * k->line_bytes / WORD +
                      (i % per_row * k->dilation[1] * k->pixel_numbers + group * numbers) /
                          per_word,
            .depth = depth,
            .at = i * depth,
        };
    }
    return HRF_OK;
}

/* As many rows as the line cache and the number of threads allow; all blocks about as large. */
static int64_t choose_rows(const struct windows_kernel *k, int64_t line_bytes)
{
    const int64_t n_threads = k->backend->n_threads;
    int64_t rows = (LINES_BYTES / line_bytes - row_span(k)) / k->stride[0] + 1;
    rows = clamp(rows, 1, hrf_ceil_div(MOST_PIXELS, k->block_columns));
    if (k->n_slices == 1 && k->n_rows * k->n_strips < 8 * n_threads * rows) {
        const int64_t n_blocks = hrf_ceil_div(k->n_rows, rows) * k->n_strips;
        const int64_t n_bands = hrf_ceil_div(hrf_ceil_div(n_blocks, n_threads) * n_threads,
                                             k->n_strips);
        rows = hrf_ceil_div(k->n_rows, n_bands);
    }
    while (k->n_slices > 1 && rows > 1 &&
           !hrf_part_queues_are_even(hrf_ceil_div(k->n_rows, rows) * k->n_strips * k->n_slices,
                                     n_threads))
        rows = hrf_ceil_div(k->n_rows, hrf_ceil_div(k->n_rows, rows) + 1);
    return rows;
}

static int64_t lines_under_block(const struct windows_kernel *k, int64_t row)
{
    const int64_t n_rows = hrf_least(k->block_rows, k->n_rows - row);
    int64_t n = 0;
    for (int64_t done = 0; done < n_rows;) {
        const struct run run = run_of(k, row + done, n_rows - done);
        n += lines_under(k, &run);
        done += run.n_rows;
    }
    return n;
}

static void choose_blocks(struct windows_kernel *k)
{
    const int64_t n_threads = k->backend->n_threads;
    const int64_t n_pixels = k->n_rows * k->out_columns;
    const bool is_bad = k->in.width * k->size % WORD == 0 &&
                        k->stride[1] * k->in.width * k->size % BAD_STRIDE == 0;
    k->pixel_numbers = k->in.width + (is_bad ? STRIDE_SLACK / k->size : 0);
    /* Columns of a line, so that those under two output rows fit. */
    const int64_t most = LINES_BYTES / (row_span(k) + k->stride[0]) / (k->pixel_numbers * k->size);
    const int64_t fit = (most - (k->kernel[1] - 1) * k->dilation[1] - 1) / k->stride[1] + 1;
    k->n_strips = hrf_ceil_div(k->out_columns, clamp(fit, 1, HRF_PRODUCT_ROWS));
    k->block_columns = hrf_ceil_div(k->out_columns, k->n_strips);
    k->n_strips = hrf_ceil_div(k->out_columns, k->block_columns);
    const int64_t numbers = window_columns(k, k->block_columns) * k->pixel_numbers;
    k->line_bytes = hrf_ceil_div(numbers * k->size, WORD) * WORD;
    const int64_t n_panels = hrf_product_count_panels(k->columns_each);
    const bool few_pixels = n_pixels < k->out_channels || k->n_rows < n_threads;
    k->n_slices = !few_pixels || n_panels < n_threads             ? 1
                  : hrf_part_queues_are_even(n_panels, n_threads) ? n_threads
                                                                  : n_panels;
    k->block_rows = choose_rows(k, k->line_bytes);
    k->n_bands = hrf_ceil_div(k->n_rows, k->block_rows);
    for (int64_t i = 0; i < k->n_bands; i++) {
        const int64_t n = lines_under_block(k, i * k->block_rows);
        k->n_lines = n > k->n_lines ? n : k->n_lines;
    }
    k->base.workspace_bytes = (size_t)n_threads *
                              (sizeof(struct hrf_part_queue) + scratch_bytes(k));
}

/* [m][c][rows][columns] to [m][rows][columns][c], as the rows of the product are. */
static void turn_weights(const struct windows_kernel *k, const float *w, float *turned)
{
    const int64_t area = k->kernel[0] * k->kernel[1], channels = k->in.channels / k->n_groups;
    const int64_t width = group_numbers(k);
    for (int64_t m = 0; m < k->out_channels; m++)
        for (int64_t at = 0; at < area; at++)
            for (int64_t c = 0; c < width; c++)
                *turned++ = c < channels ? w[(m * channels + c) * area + at] : 0.0f;
}

static enum hrf_status prepare_constants(struct windows_kernel *k, const struct hrf_graph *graph,
                                         const struct hrf_node *node, struct hrf_error *err)
{
    const size_t n_bytes = (size_t)k->n_groups * group_weights(k) * sizeof(float);
    const int64_t numbers = k->depth * WORD / k->size;
    HRF_AUTO_FREE float *turned = hrf_alloc_array((size_t)(numbers * k->out_channels),
                                                  sizeof(float));
    k->weights = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    k->bias = hrf_calloc((size_t)k->out_channels, sizeof(float));
    if (turned == NULL || k->weights == NULL || k->bias == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "weights of node '%s': %zu bytes", node->name,
                             n_bytes);
    k->weights_are_far = n_bytes > FAR_WEIGHTS;
    turn_weights(k, graph->values[node->inputs[HRF_CONV_WEIGHTS]].data, turned);
    for (int64_t i = 0; i < k->n_groups; i++)
        hrf_product_pack(k->in.words, turned + i * k->columns_each * numbers, 1, numbers, numbers,
                         k->columns_each, k->weights + (size_t)i * group_weights(k));
    const float *bias = hrf_cpu_constant(graph, node, HRF_CONV_BIAS);
    if (bias != NULL)
        memcpy(k->bias, bias, (size_t)k->out_channels * sizeof(float));
    k->base.weight_bytes = n_bytes + (size_t)k->out_channels * sizeof(float);
    return HRF_OK;
}

/* Of groups, those that do not fill oneDNN's blocks of channels: 24 are 1.46 times as fast here,
 * 120 1.14 times, 64 are 0.96 times. */
static bool groups_fit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    enum { BLOCK = 16 };
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    const int64_t columns = w->dims[0] / node->attributes.group;
    return node->attributes.group == 1 || (columns >= LEAST_COLUMNS && columns % BLOCK != 0);
}

bool hrf_cpu_windows_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return hrf_cpu_avx512_fits(graph, node) && groups_fit(graph, node) &&
           hrf_cpu_is_as_fast(graph, node, multiplies_pairs(graph, node));
}

enum hrf_status hrf_cpu_windows_compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                                        const struct hrf_node *node, struct hrf_kernel **out,
                                        struct hrf_error *err)
{
    struct windows_kernel *k = hrf_calloc(1, sizeof *k);
    if (k == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    k->base = (struct hrf_kernel){ .run = run, .destroy = destroy };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    k->backend = backend;
    take_shapes(k, graph, node);
    k->base.implementation = k->in.words == HRF_PAIRS
                                 ? "implicit_product:avx512_bf16"
                                 : HRF_CPU_NAME(k->in.type, "implicit_product:avx512");
    HRF_TRY(hrf_cpu_prologue_init(&k->in.prologue, graph, node, err));
    choose_blocks(k);
    HRF_TRY(make_pieces(k, node->name, err));
    HRF_TRY(prepare_constants(k, graph, node, err));
    k->epilogue = hrf_cpu_epilogue(&node->attributes, k->out_type, k->bias, k->has_residual);
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
