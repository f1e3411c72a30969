/* conv_product.c - 1x1 convolution as a matrix product over pixels, by own kernels; also fully
 * connected layers, whose rows are treated as images of one pixel.
 *
 * A row of the product is one pixel's channels. A thread takes blocks of output pixels whose rows
 * fit its L2 cache, and multiplies each by all panels of weights (part_queues.h says which blocks).
 * If the weights are larger than the pixels, the columns are divided among the threads instead, so
 * that each weight is read by one thread, or by two at the border of their columns.
 *
 * Blocks are first copied into the workspace if the convolution has strides, a prologue, or 16-bit
 * inputs that the product does not take (pixels.h), or if the pixel stride is a multiple of 4 KiB:
 * all 14 rows of a tile would then compete for the 8 ways of one set of the L1 cache (with 2 KiB
 * there are two sets, which is enough; images between such kernels are given a better pixel stride,
 * plan/pixel_stride.h). Pixels and rows are counted in the product's words (product.h): floats, or
 * pairs of bfloat16 channels if the processor multiplies those.
 */
#include "engine/backend/cpu/conv/gate.h"
#include "engine/backend/cpu/conv/own_conv.h"
#include "engine/backend/cpu/conv/row_source.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/part_queues.h"
#include "engine/backend/cpu/pixels.h"

#include <string.h>

enum {
    BLOCK_BYTES = 192 * 1024, /* of rows of the product; leaves room in L2 for the weights */
    LARGE_BYTES =
        448 *
        1024, /* the same for weights that do not stay in L2: larger blocks read them less often */
    SMALL_WEIGHTS = 256 * 1024, /* bytes: a quarter of L2 */
    LARGE_WEIGHTS = 2 << 20,    /* bytes that do not stay in L2 from one block to the next */
    /* The same for a fully connected layer: a transformer's matrices are used one after the other
     * and none stays cached, so prefetching the next chain's weights gains 8 % at 384 x 1152. */
    LARGE_MATRIX = 512 << 10,
    MIN_ROWS = 24,          /* of a block */
    MIN_BALANCED_ROWS = 12, /* of a block that is small to balance threads: two tiles */
    MAX_ROWS = 126,         /* small enough for threads to finish at about the same time */
    BAD_STRIDE = 4096,      /* bytes */
    STRIDE_SLACK = 16,      /* words: a cache line */
    WORD = sizeof(float),
};

struct product_kernel {
    struct hrf_own_conv own;
    struct hrf_pixels in;
    int64_t n_pixels;                  /* of the output */
    int64_t block, n_blocks, n_slices; /* pixels x columns are cut into blocks x slices */
    bool copies;
    bool reads_gate; /* whether it may compute a fused MUL (gate.h) while it copies rows */
    bool is_large;   /* the weights do not fit L2: every block reads them again from L3 or memory */
    int64_t depth;   /* words of a row of the product */
    int64_t row_stride; /* words from one pixel's row of the product to the next */
};

/* ---- running ---- */

static int64_t weight_bytes(const struct product_kernel *k)
{
    return (int64_t)(hrf_product_packed_count(k->depth, k->own.shape.out_channels) * WORD);
}

static bool is_bad(int64_t stride)
{
    return stride * WORD % BAD_STRIDE == 0;
}

/* Words from one copied row to the next. */
static int64_t copied_stride(const struct product_kernel *k)
{
    return is_bad(k->depth) ? k->depth + STRIDE_SLACK : k->depth;
}

/* A thread's scratch, in bytes: the rows that it copies. */
static size_t scratch_bytes(const struct product_kernel *k)
{
    return k->copies || k->reads_gate ? (size_t)(k->block * copied_stride(k)) * WORD : 0;
}

static bool has_stride(const struct hrf_conv_shape *s)
{
    return s->window.stride[0] != 1 || s->window.stride[1] != 1;
}

/* A part of the output: some pixels by some columns. */
struct part {
    int64_t first, n; /* pixels */
    int64_t panel, end_panel;
    bool prefetches_weights; /* this is the thread's first part of these columns */
    const char *x;
    char *y;
};

static struct part part_of(const struct product_kernel *k, const struct hrf_kernel_call *call,
                           int64_t first, int64_t n, int64_t slice, bool prefetches_weights)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t n_panels = hrf_product_count_panels(s->out_channels);
    return (struct part){ .first = first,
                          .n = hrf_min(k->n_pixels - first, n),
                          .panel = n_panels * slice / k->n_slices,
                          .end_panel = n_panels * (slice + 1) / k->n_slices,
                          .prefetches_weights = prefetches_weights,
                          .x = call->inputs[HRF_CONV_X],
                          .y = (char *)call->output +
                               first * s->y_stride * (int64_t)hrf_dtype_size(s->y_type) };
}

/* What to prefetch meanwhile: the next block, which the thread probably computes next. */
static struct hrf_ahead next_block(const struct product_kernel *k, const struct part *p)
{
    const int64_t *stride = k->own.shape.window.stride;
    const int64_t next = p->first + p->n;
    const int64_t n_next = hrf_min(p->n, k->n_pixels - next);
    const int64_t per_output = stride[0] * stride[1] * hrf_pixels_stride_bytes(&k->in);
    return (struct hrf_ahead){ .memory = p->x + next * per_output,
                               .n_bytes = n_next * per_output,
                               .prefetches_weights = p->prefetches_weights || k->is_large };
}

/* Copies the pixels under n outputs from `first` on, counted through all images. */
static void copy_pixels(const struct product_kernel *k, const char *x, int64_t first, int64_t n,
                        float *to)
{
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t *stride = s->window.stride, pixel_bytes = hrf_pixels_stride_bytes(&k->in);
    const int64_t row_numbers = k->row_stride * (k->own.word_type == HRF_WORD_B16_PAIR ? 2 : 1);
    if (!has_stride(s)) {
        hrf_pixels_copy(&k->in, x + first * pixel_bytes, 1, n, to, row_numbers);
        return;
    }
    while (n > 0) {
        const int64_t row = first / s->out_columns, column = first % s->out_columns;
        const int64_t image = row / s->out_rows, count = hrf_min(s->out_columns - column, n);
        const int64_t y = image * s->rows + row % s->out_rows * stride[0];
        hrf_pixels_copy(&k->in, x + (y * s->columns + column * stride[1]) * pixel_bytes, stride[1],
                        count, to, row_numbers);
        to += count * k->row_stride;
        first += count;
        n -= count;
    }
}

/* Multiplies `rows`, the rows of the part, row_stride words apart. */
static void conv_product_multiply(const struct product_kernel *k, const struct part *p,
                                  const float *rows, int64_t row_stride)
{
    const struct hrf_ahead ahead = next_block(k, p);
    hrf_product_avx512(k->own.word_type, rows, row_stride, k->own.weights, k->depth, p->y,
                       k->own.shape.y_stride, p->n, k->own.shape.out_channels, p->panel,
                       p->end_panel, &k->own.epilogue, &ahead);
}

static void run_part(const struct product_kernel *k, const struct part *p, float *scratch)
{
    const float *rows = (const float *)(const void *)p->x + p->first * k->row_stride;
    if (k->copies) {
        copy_pixels(k, p->x, p->first, p->n, scratch);
        rows = scratch;
    }
    conv_product_multiply(k, p, rows, k->row_stride);
}

/* The state of a run. */
struct work {
    const struct product_kernel *kernel, *next;
    const struct hrf_kernel_call *call, *next_call;
    const struct hrf_cpu_gate *gate;
    int64_t block; /* pixels; common to both kernels of a fused pair */
};

static void run_one(const void *context, int64_t i, int64_t before, void *scratch)
{
    const struct work *w = context;
    const struct product_kernel *k = w->kernel;
    const int64_t slice = i / k->n_blocks;
    const struct part part = part_of(k, w->call, i % k->n_blocks * k->block, k->block, slice,
                                     before < 0 || before / k->n_blocks != slice);
    run_part(k, &part, scratch);
}

static void conv_product_run(const struct hrf_own_conv *own, const struct hrf_kernel_call *call)
{
    const struct product_kernel *k = (const struct product_kernel *)own;
    const struct work work = { .kernel = k, .call = call };
    hrf_parts_run(call->workspace, own->n_threads, k->n_blocks * k->n_slices, scratch_bytes(k),
                  run_one, &work);
}

bool hrf_cpu_product_takes_gate(const struct hrf_kernel *kernel, enum hrf_dtype type)
{
    const struct product_kernel *k = (const struct product_kernel *)hrf_own_conv_as(
        kernel, conv_product_run);
    return k != NULL && k->reads_gate && k->in.type == type;
}

/* Runs part i. A block whose rows the thread has already copied is not copied again for its next
 * slice. */
static void run_gated(const void *context, int64_t i, int64_t before, void *scratch)
{
    const struct work *w = context;
    const struct product_kernel *k = w->kernel;
    const int64_t block = i % k->n_blocks, slice = i / k->n_blocks, stride = copied_stride(k);
    struct part part = part_of(k, w->call, block * k->block, k->block, slice,
                               before < 0 || before / k->n_blocks != slice);
    part.x = w->gate->x; /* read ahead from the image, not from the copy */
    if (before < 0 || before % k->n_blocks != block)
        hrf_cpu_gate_pixels(w->gate, part.first, part.n, scratch,
                            stride * (k->own.word_type == HRF_WORD_B16_PAIR ? 2 : 1));
    conv_product_multiply(k, &part, scratch, stride);
}

void hrf_cpu_product_run_gate(const struct hrf_kernel *kernel, const struct hrf_kernel_call *call,
                              const struct hrf_cpu_gate *gate)
{
    const struct product_kernel *k = (const struct product_kernel *)kernel;
    const struct work work = { .kernel = k, .call = call, .gate = gate };
    hrf_own_conv_bring_residual(&k->own, call);
    hrf_parts_run(call->workspace, k->own.n_threads, k->n_blocks * k->n_slices, scratch_bytes(k),
                  run_gated, &work);
}

/* Computes the pixels of one panel of columns for a depth-wise convolution that reads them. */
static void make_pixels(const struct hrf_cpu_row_source *source, int64_t first, int64_t n,
                        int64_t panel, void *to)
{
    const struct product_kernel *k = (const struct product_kernel *)source->kernel;
    const struct hrf_conv_shape *s = &k->own.shape;
    const int64_t size = (int64_t)hrf_dtype_size(s->y_type);
    const int64_t begin = hrf_product_panel_begin(s->out_channels, panel);
    const int64_t end = hrf_min(hrf_product_panel_begin(s->out_channels, panel + 1),
                                s->out_channels);
    const struct hrf_product_piece whole = { .depth = k->depth };
    const struct hrf_ahead nothing = { .memory = NULL };
    const char *x = (const char *)source->call->inputs[HRF_CONV_X] + first * k->row_stride * WORD;
    char *y = to;
    while (n > 0) {
        const char *a[HRF_PRODUCT_ROWS];
        char *ys[HRF_PRODUCT_ROWS];
        const struct hrf_product_rows rows = {
            .a = a, .y = ys, .n = hrf_min(n, HRF_PRODUCT_ROWS), .y_offset = -begin * size
        };
        for (int64_t i = 0; i < rows.n; i++, x += k->row_stride * WORD, y += (end - begin) * size) {
            a[i] = x;
            ys[i] = y;
        }
        hrf_product_rows_avx512(k->own.word_type, &rows, &whole, 1, k->own.weights, k->depth,
                                s->out_channels, panel, panel + 1, &k->own.epilogue, &nothing);
        n -= rows.n;
    }
}

static bool can_be_source(const struct product_kernel *k, const struct hrf_kernel *next,
                          const struct hrf_fused_pair *pair)
{
    return hrf_cpu_depthwise_takes_source(next) && pair->is_sole_reader && !pair->overlaps &&
           !pair->is_residual && !pair->reads_residual && !k->own.shape.has_residual && !k->copies;
}

/* True if the pair runs as one: both work pixel by pixel on all columns, and the weights of both
 * fit the caches, together with the block if the second adds to the output of the first. */
static bool can_fuse(const struct hrf_kernel *base, const struct hrf_kernel *next,
                     const struct hrf_fused_pair *pair)
{
    const struct product_kernel *k = (const struct product_kernel *)base;
    if (can_be_source(k, next, pair))
        return true;
    const struct product_kernel *n = (const struct product_kernel *)hrf_own_conv_as(
        next, conv_product_run);
    if (n == NULL || pair->overlaps || pair->reads_residual || k->n_slices > 1 || n->n_slices > 1 ||
        k->is_large || n->is_large)
        return false;
    if (pair->is_residual)
        return weight_bytes(k) + weight_bytes(n) <= SMALL_WEIGHTS;
    return !has_stride(&n->own.shape) && !n->own.shape.has_residual;
}

static void run_both(const void *context, int64_t i, int64_t before, void *scratch)
{
    const struct work *w = context;
    const int64_t first = i * w->block;
    const struct part part = part_of(w->kernel, w->call, first, w->block, 0, before < 0);
    const struct part next = part_of(w->next, w->next_call, first, w->block, 0, before < 0);
    run_part(w->kernel, &part, scratch);
    run_part(w->next, &next, scratch);
}

/* Uses the smaller of the two block sizes, so that the output of the first is still cached when the
 * second reads it. */
static enum hrf_status run_fused(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                 struct hrf_kernel *next, const struct hrf_kernel_call *next_call,
                                 struct hrf_error *err)
{
    const struct product_kernel *k = (const struct product_kernel *)base;
    const struct product_kernel *n = (const struct product_kernel *)hrf_own_conv_as(
        next, conv_product_run);
    (void)err;
    if (n == NULL) {
        const struct hrf_cpu_row_source source = { make_pixels, base, call };
        hrf_cpu_depthwise_run_source(next, next_call, &source);
        return HRF_OK;
    }
    const struct work work = { k, n, call, next_call, NULL, hrf_min(k->block, n->block) };
    const size_t first_scratch = scratch_bytes(k), next_scratch = scratch_bytes(n);
    hrf_own_conv_bring_residual(&k->own, call);
    hrf_parts_run(call->workspace, k->own.n_threads, hrf_ceil_div(k->n_pixels, work.block),
                  first_scratch > next_scratch ? first_scratch : next_scratch, run_both, &work);
    return HRF_OK;
}

static void conv_product_release(struct hrf_own_conv *own)
{
    hrf_cpu_prologue_release(&((struct product_kernel *)own)->in.prologue);
}

/* ---- compiling ---- */

/* Divides the columns into slices and returns the rows of a block: one slice per thread if that
 * divides the panels evenly, or if rows are copied for each slice; else one slice per panel, with
 * the fewest blocks of pixels that balance the threads. */
static int64_t share_columns(struct product_kernel *k, int64_t n_panels, int64_t block)
{
    const int64_t n_threads = k->own.n_threads;
    k->n_slices = n_threads;
    if (k->copies || hrf_part_queues_are_even(n_panels, n_threads))
        return block;
    k->n_slices = n_panels;
    int64_t n_blocks = hrf_ceil_div(k->n_pixels, block);
    while (!hrf_part_queues_are_even(n_blocks * n_panels, n_threads) &&
           k->n_pixels / (n_blocks + 1) >= MIN_BALANCED_ROWS)
        n_blocks++;
    return hrf_ceil_div(k->n_pixels, n_blocks);
}

static void choose_blocks(struct product_kernel *k, bool is_gemm)
{
    const int64_t n_threads = k->own.n_threads, out_channels = k->own.shape.out_channels;
    const int64_t n_panels = hrf_product_count_panels(out_channels);
    k->is_large = weight_bytes(k) > (is_gemm ? LARGE_MATRIX : LARGE_WEIGHTS);
    const int64_t fit = (k->is_large ? LARGE_BYTES : BLOCK_BYTES) / (k->depth * WORD);
    int64_t block = hrf_clamp(fit, MIN_ROWS, MAX_ROWS);
    k->n_slices = 1;
    const bool few_pixels = k->n_pixels < out_channels || k->n_pixels < n_threads * MIN_ROWS;
    if (few_pixels && n_panels >= n_threads)
        block = share_columns(k, n_panels, block);
    else if (k->n_pixels < 8 * n_threads * block) /* the same number of blocks for each thread */
        block = hrf_ceil_div(k->n_pixels,
                             hrf_ceil_div(hrf_ceil_div(k->n_pixels, block), n_threads) * n_threads);
    k->block = hrf_min(block, k->n_pixels);
    k->n_blocks = hrf_ceil_div(k->n_pixels, k->block);
    k->own.base.workspace_bytes = hrf_parts_workspace(n_threads, scratch_bytes(k));
}

static enum hrf_status pack_weights(struct product_kernel *k, const struct hrf_graph *graph,
                                    const struct hrf_node *node, struct hrf_error *err)
{
    /* Weights are [m][c], or [c][m] for a matrix. */
    const bool by_inputs = node->op == HRF_OP_GEMM && !node->attributes.gemm.transpose_b;
    const int64_t channels = k->own.shape.channels, out_channels = k->own.shape.out_channels;
    HRF_TRY(hrf_own_conv_make_weights(&k->own, graph, node, (size_t)weight_bytes(k), out_channels,
                                      err));
    hrf_product_pack(k->own.word_type, graph->values[node->inputs[HRF_CONV_WEIGHTS]].data,
                     by_inputs ? out_channels : 1, by_inputs ? 1 : channels, channels, out_channels,
                     k->own.weights);
    return HRF_OK;
}

/* Sets where the rows of the product lie, and their stride. */
static void choose_rows(struct product_kernel *k)
{
    k->row_stride = hrf_pixels_stride_words(&k->in);
    k->copies = !hrf_pixels_are_words(&k->in) || has_stride(&k->own.shape) || is_bad(k->row_stride);
    if (k->copies)
        k->row_stride = copied_stride(k);
}

static bool may_read_gate(const struct product_kernel *k, const struct hrf_graph *graph,
                          const struct hrf_node *node)
{
    const int32_t made_by = graph->values[node->inputs[HRF_CONV_X]].producer;
    return made_by >= 0 &&
           hrf_kernel_misfit(&hrf_cpu_kernels, &hrf_cpu_gate, graph, &graph->nodes[made_by]) ==
               NULL &&
           hrf_pixels_are_words(&k->in) && k->in.stride == k->in.channels &&
           !has_stride(&k->own.shape);
}

static enum hrf_status conv_product_prepare(struct hrf_own_conv *own, const struct hrf_graph *graph,
                                            const struct hrf_node *node, struct hrf_error *err)
{
    struct product_kernel *k = (struct product_kernel *)own;
    const struct hrf_conv_shape *s = &own->shape;
    k->in = (struct hrf_pixels){ .type = s->x_type,
                                 .word_type = own->word_type,
                                 .channels = s->channels,
                                 .width = s->channels,
                                 .stride = s->x_stride };
    hrf_cpu_prologue_init(&k->in.prologue, graph, node);
    k->depth = own->word_type == HRF_WORD_B16_PAIR ? s->channels / 2 : s->channels;
    k->n_pixels = s->n_images * s->out_rows * s->out_columns;
    choose_rows(k);
    k->reads_gate = may_read_gate(k, graph, node);
    choose_blocks(k, node->op == HRF_OP_GEMM);
    return pack_weights(k, graph, node, err);
}

static bool multiplies_pairs(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const bool is_gemm = node->op == HRF_OP_GEMM;
    const int64_t depth = is_gemm ? hrf_shape_last(&x->shape) : x->shape.dims[1];
    return x->dtype == HRF_B16 && hrf_cpu_has_avx512_bf16() && depth % 2 == 0 &&
           (is_gemm || hrf_value_pixel_stride(x) % 2 == 0);
}

static bool window_is_a_pixel(const struct hrf_window *w, const struct hrf_shape *weights)
{
    bool is_pixel = true;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++)
        is_pixel &= weights->dims[2 + i] == 1 && w->pad_begin[i] == 0 && w->pad_end[i] == 0;
    return is_pixel;
}

static const char *conv_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    if (node->attributes.group != 1)
        return "it has groups";
    if (!window_is_a_pixel(&node->attributes.window, w))
        return "its windows have more than one pixel, or it has pads";
    if (!hrf_cpu_is_as_fast(graph, node, w->dims[1] % 2 == 0))
        return HRF_CPU_ONEDNN_IS_FASTER;
    return NULL;
}

static const char *gemm_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_attributes *a = &node->attributes;
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const bool has_bias = hrf_node_has_input(node, HRF_CONV_BIAS);
    if (a->gemm.transpose_a || a->gemm.alpha != 1)
        return "its first matrix is transposed, or it has a factor";
    if (hrf_shape_last(&y->shape) < HRF_PANEL)
        return "it has few columns";
    if (!has_bias)
        return NULL;
    const struct hrf_value *bias = &graph->values[node->inputs[HRF_CONV_BIAS]];
    const bool one_each = hrf_shape_count(&bias->shape) == hrf_shape_last(&y->shape) &&
                          hrf_shape_last(&bias->shape) == hrf_shape_last(&y->shape);
    return bias->data != NULL && a->gemm.beta == 1 && one_each ? NULL
                                                               : "its bias is no constant row";
}

static const char *conv_product_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const char *reason = hrf_cpu_avx512_misfit(graph, node);
    if (reason != NULL)
        return reason;
    return node->op == HRF_OP_GEMM ? gemm_misfit(graph, node) : conv_misfit(graph, node);
}

static const char *pairs_misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    return multiplies_pairs(graph, node) ? conv_product_misfit(graph, node) : HRF_CPU_NO_PAIRS;
}

static const struct hrf_own_conv_type type = {
    .size = sizeof(struct product_kernel),
    .compute = conv_product_run,
    .base = { .can_fuse = can_fuse, .run_fused = run_fused },
    .prepare = conv_product_prepare,
    .release = conv_product_release,
};
HRF_OWN_CONV_ROWS(product, "product", HRF_ROW_OPS(HRF_OP_CONV, HRF_OP_GEMM),
                  HRF_TAKES_PROLOGUE | HRF_STRIDED, &type, conv_product_misfit, pairs_misfit);
