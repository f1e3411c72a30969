/* conv_product.c - convolution with windows of one pixel as matrix products over pixels, own
 * kernels; and the matrix product of a layer that has none, whose rows are images of one pixel.
 *
 * A row of the product is one pixel's channels. A thread takes blocks of output pixels whose rows
 * fit its second-level cache, and runs all panels of weights over each (part_queues.h says which
 * blocks). Where the weights are larger than the pixels, threads share the columns instead, so that
 * each weight is read by one thread only, or, at the border of two threads' columns, by both.
 *
 * Blocks are copied into the workspace first if the convolution has strides, or if the pixel stride
 * is a multiple of 4 KiB: all 14 rows of a tile would then compete for the 8 lines of one set of
 * the first-level cache (at 2 KiB there are two sets, which is enough; images between such kernels
 * are given a better pixel stride, plan/pixel_stride.h). They are copied, too, where there is a
 * prologue or they have 16 bits that the product does not take (pixels.h). Pixels and rows are
 * counted in the product's words (product.h): floats, or two channels of bfloat16 where the
 * processor multiplies those.
 */
#include "engine/backend/cpu/conv/gate.h"
#include "engine/backend/cpu/conv/row_source.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/part_queues.h"
#include "engine/backend/cpu/pixels.h"

#include <omp.h>
#include <string.h>

enum {
    BLOCK_BYTES = 192 * 1024, /* of rows of the product: leaves L2 room for the weights */
    LARGE_BYTES = 448 * 1024, /* the same where those would not stay there: they come less often */
    SMALL_WEIGHTS = 256 * 1024, /* bytes: a quarter of the second level */
    LARGE_WEIGHTS = 2 << 20,    /* bytes that do not stay there from block to block */
    /* The same of a matrix: transformers' matrices follow each other, none stays from one to the
     * next, and asking for the next chain's weights gains 8 % at 384 x 1152. */
    LARGE_MATRIX = 512 << 10,
    MIN_ROWS = 24,     /* of a block */
    LEAST_ROWS = 12,   /* of one that balances threads: two tiles */
    MOST_ROWS = 126,   /* so that threads end at about the same time */
    BAD_STRIDE = 4096, /* bytes */
    STRIDE_SLACK = 16, /* words: the next line of the cache */
    WORD = sizeof(float),
};

struct product_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    struct hrf_pixels in;
    int64_t rows, columns, out_rows, out_columns; /* of an image */
    int64_t stride[2];
    int64_t out_channels;
    int64_t n_pixels;                  /* of the output */
    int64_t block, n_blocks, n_slices; /* pixels x columns are cut into blocks x slices */
    bool copies, has_residual;
    bool reads_gate; /* a MUL that it may do itself (gate.h), into the rows that it copies */
    bool large;      /* the weights: every block reads them anew from beyond the second level */
    enum hrf_dtype out_type;
    int64_t depth;      /* words of a row of the product */
    int64_t row_stride; /* words from one pixel's row of the product to the next */
    int64_t y_stride;   /* numbers from pixel to pixel of output and residual */
    struct hrf_epilogue epilogue;
    float *weights, *bias;
};

/* ---- running ---- */

static int64_t weight_bytes(const struct product_kernel *k)
{
    return (int64_t)(hrf_product_packed_count(k->depth, k->out_channels) * sizeof(float));
}

static bool is_bad(int64_t stride)
{
    return stride * (int64_t)sizeof(float) % BAD_STRIDE == 0;
}

/* Words from row to row of those that are copied. */
static int64_t copied_stride(const struct product_kernel *k)
{
    return is_bad(k->depth) ? k->depth + STRIDE_SLACK : k->depth;
}

/* A thread's scratch: the rows that it copies. */
static int64_t scratch_words(const struct product_kernel *k)
{
    return k->copies || k->reads_gate ? k->block * copied_stride(k) : 0;
}

/* Some pixels by some columns of the output. */
struct part {
    int64_t first, n; /* pixels */
    int64_t panel, end_panel;
    bool weights_are_far; /* the thread's first of these */
    const char *x;
    char *y;
};

static struct part part_of(const struct product_kernel *k, const struct hrf_kernel_call *call,
                           int64_t first, int64_t n, int64_t slice, bool weights_are_far)
{
    const int64_t n_panels = hrf_product_count_panels(k->out_channels);
    return (struct part){ .first = first,
                          .n = hrf_least(k->n_pixels - first, n),
                          .panel = n_panels * slice / k->n_slices,
                          .end_panel = n_panels * (slice + 1) / k->n_slices,
                          .weights_are_far = weights_are_far,
                          .x = call->inputs[HRF_CONV_X],
                          .y = (char *)call->output +
                               first * k->y_stride * (int64_t)hrf_dtype_size(k->out_type) };
}

/* What to ask for meanwhile: the block after this one, which the thread probably does next. */
static struct hrf_ahead next_block(const struct product_kernel *k, const struct part *p)
{
    const int64_t next = p->first + p->n;
    const int64_t n_next = hrf_least(p->n, k->n_pixels - next);
    const int64_t per_output = k->stride[0] * k->stride[1] * hrf_pixels_stride_bytes(&k->in);
    return (struct hrf_ahead){ .memory = p->x + next * per_output,
                               .n_bytes = n_next * per_output,
                               .weights_are_far = p->weights_are_far || k->large };
}

/* The pixels under n outputs from `first` on, which is counted through all images. */
static void copy_pixels(const struct product_kernel *k, const char *x, int64_t first, int64_t n,
                        float *to)
{
    const int64_t pixel_bytes = hrf_pixels_stride_bytes(&k->in);
    const int64_t row_numbers = k->row_stride * (k->in.words == HRF_PAIRS ? 2 : 1);
    if (k->stride[0] == 1 && k->stride[1] == 1) {
        hrf_pixels_copy(&k->in, x + first * pixel_bytes, 1, n, to, row_numbers);
        return;
    }
    while (n > 0) {
        const int64_t row = first / k->out_columns, column = first % k->out_columns;
        const int64_t image = row / k->out_rows, count = hrf_least(k->out_columns - column, n);
        const int64_t y = image * k->rows + row % k->out_rows * k->stride[0];
        hrf_pixels_copy(&k->in, x + (y * k->columns + column * k->stride[1]) * pixel_bytes,
                        k->stride[1], count, to, row_numbers);
        to += count * k->row_stride;
        first += count;
        n -= count;
    }
}

/* rows: of the part, row_stride apart. */
static void multiply(const struct product_kernel *k, const struct part *p, const float *rows,
                     int64_t row_stride)
{
    const struct hrf_ahead ahead = next_block(k, p);
    hrf_product_avx512(k->in.words, rows, row_stride, k->weights, k->depth, p->y, k->y_stride, p->n,
                       k->out_channels, p->panel, p->end_panel, &k->epilogue, &ahead);
}

static void run_part(const struct product_kernel *k, const struct part *p, float *scratch)
{
    const float *rows = (const float *)(const void *)p->x + p->first * k->row_stride;
    if (k->copies) {
        copy_pixels(k, p->x, p->first, p->n, scratch);
        rows = scratch;
    }
    multiply(k, p, rows, k->row_stride);
}

static void bring_residual(const struct product_kernel *k, const struct hrf_kernel_call *call)
{
    if (k->has_residual && call->inputs[HRF_CONV_RESIDUAL] != call->output)
        memcpy(call->output, call->inputs[HRF_CONV_RESIDUAL],
               (size_t)(k->n_pixels * k->y_stride) * hrf_dtype_size(k->out_type));
}

/* The workspace: the threads' stretches, then each one's scratch. */
static struct hrf_part_queues begin(const struct product_kernel *k,
                                    const struct hrf_kernel_call *call, int64_t n_parts)
{
    bring_residual(k, call);
    return hrf_part_queues_begin(call->workspace, k->backend->n_threads, n_parts);
}

static float *scratch_of(const struct hrf_part_queues *parts, int64_t words)
{
    return (float *)(void *)(parts->of + parts->n_threads) + omp_get_thread_num() * words;
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    const struct product_kernel *k = (const struct product_kernel *)base;
    const struct hrf_part_queues parts = begin(k, call, k->n_blocks * k->n_slices);
#pragma omp parallel
    for (int64_t i, before = -1; (i = hrf_part_queues_take(&parts)) >= 0;) {
        const int64_t slice = i / k->n_blocks;
        const struct part part = part_of(k, call, i % k->n_blocks * k->block, k->block, slice,
                                         slice != before);
        run_part(k, &part, scratch_of(&parts, scratch_words(k)));
        before = slice;
    }
    return HRF_OK;
}

bool hrf_cpu_product_takes_gate(const struct hrf_kernel *kernel, enum hrf_dtype type)
{
    const struct product_kernel *k = (const struct product_kernel *)kernel;
    return kernel->run == run && k->reads_gate && k->in.type == type;
}

void hrf_cpu_product_run_gate(const struct hrf_kernel *kernel, const struct hrf_kernel_call *call,
                              const struct hrf_cpu_gate *gate)
{
    const struct product_kernel *k = (const struct product_kernel *)kernel;
    const int64_t stride = copied_stride(k), per_word = k->in.words == HRF_PAIRS ? 2 : 1;
    const struct hrf_part_queues parts = begin(k, call, k->n_blocks * k->n_slices);
#pragma omp parallel
    for (int64_t i, copied = -1, slice = -1; (i = hrf_part_queues_take(&parts)) >= 0;) {
        float *const scratch = scratch_of(&parts, scratch_words(k));
        const int64_t block = i % k->n_blocks;
        struct part part = part_of(k, call, block * k->block, k->block, i / k->n_blocks,
                                   i / k->n_blocks != slice);
        part.x = gate->x; /* what comes next */
        if (block != copied)
            hrf_cpu_gate_pixels(gate, part.first, part.n, scratch, stride * per_word);
        multiply(k, &part, scratch, stride);
        copied = block;
        slice = i / k->n_blocks;
    }
}

/* The pixels of one panel of columns, for a depth-wise convolution that reads them. */
static void make_pixels(const struct hrf_cpu_row_source *source, int64_t first, int64_t n,
                        int64_t panel, void *to)
{
    const struct product_kernel *k = (const struct product_kernel *)source->kernel;
    const int64_t size = (int64_t)hrf_dtype_size(k->out_type);
    const int64_t begin = hrf_product_panel_begin(k->out_channels, panel);
    const int64_t end = hrf_least(hrf_product_panel_begin(k->out_channels, panel + 1),
                                  k->out_channels);
    const struct hrf_product_piece whole = { .depth = k->depth };
    const struct hrf_ahead nothing = { .memory = NULL };
    const char *x = (const char *)source->call->inputs[HRF_CONV_X] + first * k->row_stride * WORD;
    char *y = to;
    while (n > 0) {
        const char *a[HRF_PRODUCT_ROWS];
        char *ys[HRF_PRODUCT_ROWS];
        const struct hrf_product_rows rows = {
            .a = a, .y = ys, .n = hrf_least(n, HRF_PRODUCT_ROWS), .y_offset = -begin * size
        };
        for (int64_t i = 0; i < rows.n; i++, x += k->row_stride * WORD, y += (end - begin) * size) {
            a[i] = x;
            ys[i] = y;
        }
        hrf_product_rows_avx512(k->in.words, &rows, &whole, 1, k->weights, k->depth,
                                k->out_channels, panel, panel + 1, &k->epilogue, &nothing);
        n -= rows.n;
    }
}

static bool can_be_source(const struct product_kernel *k, const struct hrf_kernel *next,
                          const struct hrf_fused_pair *pair)
{
    return hrf_cpu_depthwise_takes_source(next) && pair->is_sole_reader && !pair->overlaps &&
           !pair->is_residual && !pair->reads_residual && !k->has_residual && !k->copies;
}

/* Pixel by pixel, all columns at once, with weights of both that the caches can hold; where the
 * second adds to what the first made, they must leave room for that. */
static bool can_fuse(const struct hrf_kernel *base, const struct hrf_kernel *next,
                     const struct hrf_fused_pair *pair)
{
    const struct product_kernel *k = (const struct product_kernel *)base;
    if (can_be_source(k, next, pair))
        return true;
    if (next->run != run || pair->overlaps || pair->reads_residual)
        return false;
    const struct product_kernel *n = (const struct product_kernel *)next;
    if (k->n_slices > 1 || n->n_slices > 1 || k->large || n->large)
        return false;
    if (pair->is_residual)
        return weight_bytes(k) + weight_bytes(n) <= SMALL_WEIGHTS;
    return n->stride[0] == 1 && n->stride[1] == 1 && !n->has_residual;
}

/* Blocks as small as either wants them: what the first leaves is still there for the second. */
static enum hrf_status run_fused(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                 struct hrf_kernel *next, const struct hrf_kernel_call *next_call,
                                 struct hrf_error *err)
{
    (void)err;
    const struct product_kernel *k = (const struct product_kernel *)base;
    if (next->run != run) {
        const struct hrf_cpu_row_source source = { make_pixels, base, call };
        hrf_cpu_depthwise_run_source(next, next_call, &source);
        return HRF_OK;
    }
    const struct product_kernel *n = (const struct product_kernel *)next;
    const int64_t block = hrf_least(k->block, n->block);
    const int64_t words = scratch_words(k) > scratch_words(n) ? scratch_words(k) : scratch_words(n);
    const struct hrf_part_queues blocks = begin(k, call, hrf_ceil_div(k->n_pixels, block));
#pragma omp parallel
    for (int64_t i, n_done = 0; (i = hrf_part_queues_take(&blocks)) >= 0; n_done++) {
        float *scratch = scratch_of(&blocks, words);
        const struct part part = part_of(k, call, i * block, block, 0, n_done == 0);
        const struct part next_part = part_of(n, next_call, i * block, block, 0, n_done == 0);
        run_part(k, &part, scratch);
        run_part(n, &next_part, scratch);
    }
    return HRF_OK;
}

static void destroy(struct hrf_kernel *base)
{
    struct product_kernel *k = (struct product_kernel *)base;
    hrf_free(k->weights);
    hrf_free(k->bias);
    hrf_cpu_prologue_release(&k->in.prologue);
    hrf_free(k);
}

/* ---- making one ---- */

/* Slices of the columns, and returns the rows of a block: a slice for each thread where that shares
 * the panels evenly, or where rows are copied for each slice; else one for each panel, and as few
 * blocks of the pixels as share these parts evenly. */
static int64_t share_columns(struct product_kernel *k, int64_t n_panels, int64_t block)
{
    const int64_t n_threads = k->backend->n_threads;
    k->n_slices = n_threads;
    if (k->copies || hrf_part_queues_are_even(n_panels, n_threads))
        return block;
    k->n_slices = n_panels;
    int64_t n_blocks = hrf_ceil_div(k->n_pixels, block);
    while (!hrf_part_queues_are_even(n_blocks * n_panels, n_threads) &&
           k->n_pixels / (n_blocks + 1) >= LEAST_ROWS)
        n_blocks++;
    return hrf_ceil_div(k->n_pixels, n_blocks);
}

static void choose_blocks(struct product_kernel *k, bool is_gemm)
{
    const int64_t n_threads = k->backend->n_threads;
    const int64_t n_panels = hrf_product_count_panels(k->out_channels);
    const int64_t row_bytes = k->depth * (int64_t)sizeof(float);
    k->large = weight_bytes(k) > (is_gemm ? LARGE_MATRIX : LARGE_WEIGHTS);
    int64_t block = (k->large ? LARGE_BYTES : BLOCK_BYTES) / row_bytes;
    block = block < MIN_ROWS ? MIN_ROWS : hrf_least(block, MOST_ROWS);
    k->n_slices = 1;
    const bool few_pixels = k->n_pixels < k->out_channels || k->n_pixels < n_threads * MIN_ROWS;
    if (few_pixels && n_panels >= n_threads)
        block = share_columns(k, n_panels, block);
    else if (k->n_pixels < 8 * n_threads * block) /* as many blocks for each thread */
        block = hrf_ceil_div(k->n_pixels,
                             hrf_ceil_div(hrf_ceil_div(k->n_pixels, block), n_threads) * n_threads);
    k->block = hrf_least(block, k->n_pixels);
    k->n_blocks = hrf_ceil_div(k->n_pixels, k->block);
    k->base.workspace_bytes = (size_t)n_threads * (sizeof(struct hrf_part_queue) +
                                                   (size_t)scratch_words(k) * sizeof(float));
}

static enum hrf_status prepare_constants(struct product_kernel *k, const struct hrf_graph *graph,
                                         const struct hrf_node *node, struct hrf_error *err)
{
    /* [m][c], or of a matrix [c][m]. */
    const bool by_inputs = node->op == HRF_OP_GEMM && !node->attributes.transpose_b;
    const size_t n_bytes = (size_t)weight_bytes(k);
    k->weights = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    k->bias = hrf_calloc((size_t)k->out_channels, sizeof(float));
    if (k->weights == NULL || k->bias == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "weights of node '%s': %zu bytes", node->name,
                             n_bytes);
    hrf_product_pack(k->in.words, graph->values[node->inputs[HRF_CONV_WEIGHTS]].data,
                     by_inputs ? k->out_channels : 1, by_inputs ? 1 : k->in.channels,
                     k->in.channels, k->out_channels, k->weights);
    const float *bias = hrf_cpu_constant(graph, node, HRF_CONV_BIAS);
    if (bias != NULL)
        memcpy(k->bias, bias, (size_t)k->out_channels * sizeof(float));
    k->base.weight_bytes = n_bytes + (size_t)k->out_channels * sizeof(float);
    return HRF_OK;
}

/* A matrix as images of one pixel, one a row. */
static struct hrf_shape as_images(const struct hrf_shape *shape)
{
    const int64_t columns = hrf_shape_last(shape);
    return (struct hrf_shape){ .rank = 4,
                               .dims = { hrf_shape_count(shape) / columns, columns, 1, 1 } };
}

static void take_shapes(struct product_kernel *k, const struct hrf_graph *graph,
                        const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const bool is_gemm = node->op == HRF_OP_GEMM;
    const struct hrf_shape x_shape = is_gemm ? as_images(&x->shape) : x->shape;
    const struct hrf_shape y_shape = is_gemm ? as_images(&y->shape) : y->shape;
    k->in.type = x->dtype;
    k->in.channels = k->in.width = x_shape.dims[1];
    k->in.stride = is_gemm ? x_shape.dims[1] : hrf_value_pixel_stride(x);
    const bool in_pairs = k->in.type == HRF_B16 && hrf_cpu_has_avx512_bf16() &&
                          k->in.channels % 2 == 0 && k->in.stride % 2 == 0;
    k->in.words = in_pairs ? HRF_PAIRS : HRF_FLOATS;
    k->depth = in_pairs ? k->in.channels / 2 : k->in.channels;
    k->rows = x_shape.dims[2];
    k->columns = x_shape.dims[3];
    k->out_type = y->dtype;
    k->out_channels = y_shape.dims[1];
    k->out_rows = y_shape.dims[2];
    k->out_columns = y_shape.dims[3];
    k->y_stride = is_gemm ? y_shape.dims[1] : hrf_value_pixel_stride(y);
    k->n_pixels = y_shape.dims[0] * k->out_rows * k->out_columns;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++)
        k->stride[i] = is_gemm ? 1 : node->attributes.window.stride[i];
    k->has_residual = node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0;
}

/* Where the rows of the product stand, and how far from each other. */
static void choose_rows(struct product_kernel *k)
{
    k->row_stride = hrf_pixels_stride_words(&k->in);
    k->copies = !hrf_pixels_are_words(&k->in) || k->stride[0] != 1 || k->stride[1] != 1 ||
                is_bad(k->row_stride);
    if (k->copies)
        k->row_stride = copied_stride(k);
}

static bool may_read_gate(const struct product_kernel *k, const struct hrf_graph *graph,
                          const struct hrf_node *node)
{
    const int32_t made_by = graph->values[node->inputs[HRF_CONV_X]].producer;
    return made_by >= 0 && hrf_cpu_gate_fits(graph, &graph->nodes[made_by]) &&
           hrf_pixels_are_words(&k->in) && k->in.stride == k->in.channels && k->stride[0] == 1 &&
           k->stride[1] == 1;
}

static const char *name_of(const struct product_kernel *k)
{
    if (k->in.words == HRF_PAIRS)
        return "product:avx512_bf16";
    return HRF_CPU_NAME(k->in.type, "product:avx512");
}

enum hrf_status hrf_cpu_product_compile(struct hrf_backend *backend, const struct hrf_graph *graph,
                                        const struct hrf_node *node, struct hrf_kernel **out,
                                        struct hrf_error *err)
{
    struct product_kernel *k = hrf_calloc(1, sizeof *k);
    if (k == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "kernel of node '%s'", node->name);
    k->base = (struct hrf_kernel){
        .run = run, .destroy = destroy, .can_fuse = can_fuse, .run_fused = run_fused
    };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    k->backend = backend;
    take_shapes(k, graph, node);
    k->base.implementation = name_of(k);
    HRF_TRY(hrf_cpu_prologue_init(&k->in.prologue, graph, node, err));
    choose_rows(k);
    k->reads_gate = may_read_gate(k, graph, node);
    choose_blocks(k, node->op == HRF_OP_GEMM);
    HRF_TRY(prepare_constants(k, graph, node, err));
    k->epilogue = hrf_cpu_epilogue(&node->attributes, k->out_type, k->bias, k->has_residual);
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
