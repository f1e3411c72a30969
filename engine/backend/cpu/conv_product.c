/* conv_product.c - convolution as matrix products over pixels, own kernels; and the matrix product
 * of a layer that has none, whose rows are images of one pixel.
 *
 * A row of the product is what one output pixel sees: the channels of its window's pixels, zeros
 * where that lies outside the image. A thread takes blocks of output pixels whose rows fit its
 * second-level cache, and runs all panels of weights over each (stretches.h says which blocks).
 * Where the weights are larger than the pixels, threads share the columns instead, so that each
 * weight is read by one thread only.
 *
 * Blocks are gathered into the workspace first, unless the window is one pixel, every pixel has an
 * output, and the pitch of the pixels is no multiple of 4 KiB: all 14 rows of a tile would then
 * compete for the 8 lines of one set of the first-level cache (at 2 KiB there are two sets, which
 * is enough; images between such kernels are given a better pitch, plan/pixel_stride.h). They are
 * gathered, too, where there is a prologue or they have 16 bits that the product does not take:
 * both are dealt with on the way. Pixels and rows are counted in the product's words (product.h):
 * floats, or two channels of bfloat16 where the processor multiplies those.
 *
 * A large window goes through in passes of some of its rows each, whose sums wait in the output
 * (where that has 16 bits: in the workspace): so a block's part and a panel of weights stay in the
 * second-level cache.
 */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/product.h"
#include "engine/backend/cpu/stretches.h"
#include "engine/backend/cpu/windows.h"

#include <omp.h>
#include <string.h>

enum {
    BLOCK_BYTES = 64 * 1024,  /* of rows of the product: leaves L2 room for the weights */
    LARGE_BYTES = 448 * 1024, /* the same where those would not stay there: they come less often */
    SMALL_WEIGHTS = 256 * 1024, /* bytes: a quarter of the second level */
    MIN_TILES = 2,              /* of the product, in a block, */
    MAX_TILES = 8,              /* so that threads end at about the same time */
    BAD_PITCH = 4096,           /* bytes */
    PITCH_SLACK = 16,           /* words: the next line of the cache */
    PASS_DEPTH = 1536,          /* words of a row: a panel of weights of 192 KiB */
};

struct product_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    struct hrf_windows in;
    int64_t out_channels;
    int64_t n_pixels;                  /* of the output */
    int64_t block, n_blocks, n_slices; /* pixels x columns are cut into blocks x slices */
    int64_t n_passes, pass_rows;       /* rows of the window of each pass, the last may have less */
    size_t pass_words;                 /* of the packed weights, from one pass to the next */
    bool gathers, has_residual;
    bool sums_apart; /* in the workspace, as floats, as the output has 16 bits */
    bool large;      /* the weights: every block reads them anew from beyond the second level */
    enum hrf_dtype out_type;
    int64_t pitch;   /* words from one pixel's row of the product to the next */
    int64_t y_pitch; /* numbers from pixel to pixel of output and residual */
    struct hrf_epilogue epilogue;
    float *weights, *bias;
};

/* ---- running ---- */

/* Of one pass: the first adds the bias and the residual, the last activates. */
static struct hrf_epilogue pass_epilogue(const struct product_kernel *k, int64_t pass,
                                         int64_t column, enum hrf_dtype type)
{
    struct hrf_epilogue epilogue = k->epilogue;
    epilogue.type = type;
    epilogue.bias = pass == 0 ? k->bias + column : NULL;
    epilogue.accumulate = pass > 0 || k->has_residual;
    if (pass + 1 < k->n_passes)
        epilogue.activation = HRF_ACT_NONE;
    return epilogue;
}

static int64_t weight_bytes(const struct product_kernel *k)
{
    return (int64_t)k->pass_words * k->n_passes * (int64_t)sizeof(float);
}

/* A thread's scratch: the rows it makes, then its sums. */
static int64_t own_rows_words(const struct product_kernel *k)
{
    return k->gathers ? k->block * k->pitch : 0;
}

static int64_t scratch_words(const struct product_kernel *k)
{
    return own_rows_words(k) + (k->sums_apart ? k->block * k->out_channels : 0);
}

/* Some pixels by some columns of the output. */
struct part {
    int64_t first, n;          /* pixels */
    int64_t column, n_columns; /* whole panels, but for the last */
    bool weights_are_far;      /* the thread's first of this layer */
    const char *x;
    char *y;
};

static struct part part_of(const struct product_kernel *k, const struct hrf_kernel_call *call,
                           int64_t first, int64_t n, int64_t slice, bool weights_are_far)
{
    const int64_t n_panels = hrf_ceil_div(k->out_channels, HRF_PANEL);
    const int64_t column = n_panels * slice / k->n_slices * HRF_PANEL;
    const int64_t end = hrf_least(n_panels * (slice + 1) / k->n_slices * HRF_PANEL,
                                  k->out_channels);
    return (struct part){ .first = first,
                          .n = hrf_least(k->n_pixels - first, n),
                          .column = column,
                          .n_columns = end - column,
                          .weights_are_far = weights_are_far,
                          .x = call->inputs[HRF_CONV_X],
                          .y = (char *)call->output + (first * k->y_pitch + column) *
                                                          (int64_t)hrf_dtype_size(k->out_type) };
}

/* What to ask for meanwhile: the block after this one, which the thread probably does next; each
 * pass asks for its part. */
static struct hrf_ahead next_block(const struct product_kernel *k, const struct part *p,
                                   int64_t pass)
{
    const int64_t next = p->first + p->n;
    const int64_t n_next = hrf_least(p->n, k->n_pixels - next);
    const int64_t per_output = k->in.stride[0] * k->in.stride[1] * hrf_windows_pixel_bytes(&k->in);
    const int64_t n_bytes = n_next * per_output / k->n_passes;
    return (struct hrf_ahead){ .memory = p->x + next * per_output + pass * n_bytes,
                               .n_bytes = n_bytes,
                               .weights_are_far = p->weights_are_far || k->large,
                               .y_is_far = true };
}

/* Rows of a part's windows: [begin, end). */
struct pass {
    int64_t begin, end, depth;
};

static struct pass pass_of(const struct product_kernel *k, int64_t i)
{
    const int64_t begin = i * k->pass_rows;
    const int64_t end = hrf_least(begin + k->pass_rows, k->in.kernel[0]);
    return (struct pass){ begin, end, (end - begin) * k->in.kernel[1] * k->in.pixel_words };
}

/* A part's rows of the product; `own`: for those that are made. */
static const float *rows_of(const struct product_kernel *k, const struct part *p,
                            const struct pass *pass, float *own)
{
    if (!k->gathers)
        return (const float *)(const void *)p->x + p->first * k->pitch;
    hrf_windows_gather(&k->in, p->x, p->first, p->n, pass->begin, pass->end, own, k->pitch);
    return own;
}

/* All passes; y: of type `type`, `pitch` numbers from pixel to pixel. */
static void multiply(const struct product_kernel *k, const struct part *p, float *own, void *y,
                     enum hrf_dtype type, int64_t pitch)
{
    for (int64_t i = 0; i < k->n_passes; i++) {
        const struct pass pass = pass_of(k, i);
        const struct hrf_ahead ahead = next_block(k, p, i);
        const struct hrf_epilogue epilogue = pass_epilogue(k, i, p->column, type);
        const float *weights = k->weights + (size_t)i * k->pass_words +
                               hrf_product_packed_count(pass.depth, p->column);
        hrf_product_avx512(k->in.words, rows_of(k, p, &pass, own), k->pitch, weights, pass.depth, y,
                           pitch, p->n, p->n_columns, &epilogue, &ahead);
    }
}

static void run_part(const struct product_kernel *k, const struct part *p, float *scratch)
{
    float *sums = scratch + own_rows_words(k);
    if (!k->sums_apart) {
        multiply(k, p, scratch, p->y, k->out_type, k->y_pitch);
        return;
    }
    const int64_t row_bytes = k->y_pitch * (int64_t)hrf_dtype_size(k->out_type);
    for (int64_t i = 0; k->has_residual && i < p->n; i++)
        hrf_widen_lines_avx512(k->out_type, p->y + i * row_bytes, sums + i * k->out_channels, 0,
                               p->n_columns, 1);
    multiply(k, p, scratch, sums, HRF_F32, k->out_channels);
    for (int64_t i = 0; i < p->n; i++)
        hrf_narrow_line_avx512(k->out_type, sums + i * k->out_channels, p->y + i * row_bytes,
                               p->n_columns);
}

static void bring_residual(const struct product_kernel *k, const struct hrf_kernel_call *call)
{
    if (k->has_residual && call->inputs[HRF_CONV_RESIDUAL] != call->output)
        memcpy(call->output, call->inputs[HRF_CONV_RESIDUAL],
               (size_t)(k->n_pixels * k->y_pitch) * hrf_dtype_size(k->out_type));
}

/* The workspace: the threads' stretches, then each one's scratch. */
static struct hrf_stretches begin(const struct product_kernel *k,
                                  const struct hrf_kernel_call *call, int64_t n_parts)
{
    bring_residual(k, call);
    return hrf_stretches_begin(call->workspace, k->backend->n_threads, n_parts);
}

static float *scratch_of(const struct hrf_stretches *parts, int64_t words)
{
    return (float *)(void *)(parts->of + parts->n_threads) + omp_get_thread_num() * words;
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    const struct product_kernel *k = (const struct product_kernel *)base;
    const struct hrf_stretches parts = begin(k, call, k->n_blocks * k->n_slices);
#pragma omp parallel
    for (int64_t i, n_done = 0; (i = hrf_stretches_take(&parts)) >= 0; n_done++) {
        const struct part part = part_of(k, call, i % k->n_blocks * k->block, k->block,
                                         i / k->n_blocks, n_done == 0);
        run_part(k, &part, scratch_of(&parts, scratch_words(k)));
    }
    return HRF_OK;
}

/* Pixel by pixel, all columns at once, with weights of both that the caches can hold; where the
 * second adds to what the first made, they must leave room for that. */
static bool can_fuse(const struct hrf_kernel *base, const struct hrf_kernel *next,
                     const struct hrf_fused_pair *pair)
{
    if (next->run != run || pair->overlaps)
        return false;
    const struct product_kernel *k = (const struct product_kernel *)base;
    const struct product_kernel *n = (const struct product_kernel *)next;
    if (k->n_slices > 1 || n->n_slices > 1 || k->large || n->large)
        return false;
    if (pair->is_residual)
        return weight_bytes(k) + weight_bytes(n) <= SMALL_WEIGHTS;
    return hrf_windows_are_pixels(&n->in) && !n->has_residual;
}

/* Blocks as small as either wants them: what the first leaves is still there for the second. */
static enum hrf_status run_fused(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                 struct hrf_kernel *next, const struct hrf_kernel_call *next_call,
                                 struct hrf_error *err)
{
    (void)err;
    const struct product_kernel *k = (const struct product_kernel *)base;
    const struct product_kernel *n = (const struct product_kernel *)next;
    const int64_t block = hrf_least(k->block, n->block);
    const int64_t words = scratch_words(k) > scratch_words(n) ? scratch_words(k) : scratch_words(n);
    const struct hrf_stretches blocks = begin(k, call, hrf_ceil_div(k->n_pixels, block));
#pragma omp parallel
    for (int64_t i, n_done = 0; (i = hrf_stretches_take(&blocks)) >= 0; n_done++) {
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

static void choose_passes(struct product_kernel *k)
{
    const int64_t row_words = k->in.kernel[1] * k->in.pixel_words;
    const int64_t most = row_words < PASS_DEPTH ? PASS_DEPTH / row_words : 1;
    k->n_passes = hrf_ceil_div(k->in.kernel[0], most);
    k->pass_rows = hrf_ceil_div(k->in.kernel[0], k->n_passes);
    k->n_passes = hrf_ceil_div(k->in.kernel[0], k->pass_rows);
    k->sums_apart = k->n_passes > 1 && k->out_type != HRF_F32;
    k->pitch = k->pass_rows * row_words;
    k->pass_words = hrf_product_packed_count(k->pitch, k->out_channels);
}

static void choose_blocks(struct product_kernel *k)
{
    const int64_t n_threads = k->backend->n_threads;
    const int64_t n_panels = hrf_ceil_div(k->out_channels, HRF_PANEL);
    const int64_t row_bytes = k->pass_rows * k->in.kernel[1] * k->in.pixel_words *
                              (int64_t)sizeof(float);
    k->large = weight_bytes(k) > HRF_CPU_LARGE_WEIGHTS;
    const int64_t tile = HRF_PRODUCT_ROWS, least = MIN_TILES * tile;
    int64_t block = (k->large ? LARGE_BYTES : BLOCK_BYTES) / row_bytes / tile * tile;
    block = block < least ? least : hrf_least(block, MAX_TILES * tile);
    k->n_slices = 1;
    const bool few_pixels = k->n_pixels < k->out_channels || k->n_pixels < n_threads * least;
    if (few_pixels && n_panels >= n_threads)
        k->n_slices = n_threads;
    else if (k->n_pixels < 8 * n_threads * block) /* one more for some would count: as many each */
        block = hrf_ceil_div(k->n_pixels,
                             hrf_ceil_div(hrf_ceil_div(k->n_pixels, block), n_threads) * n_threads);
    k->block = hrf_least(block, k->n_pixels);
    k->n_blocks = hrf_ceil_div(k->n_pixels, k->block);
    k->base.workspace_bytes = (size_t)n_threads * (sizeof(struct hrf_stretch) +
                                                   (size_t)scratch_words(k) * sizeof(float));
}

/* [m][c][rows][columns] (of a matrix [m][c], or [c][m]) to [m][rows][columns][c], as the rows of
 * the product are. */
static void turn_weights(const struct product_kernel *k, const struct hrf_node *node,
                         const float *w, float *turned)
{
    const int64_t area = k->in.kernel[0] * k->in.kernel[1];
    const bool by_inputs = node->op == HRF_OP_GEMM && !node->attributes.transpose_b;
    const int64_t m_step = by_inputs ? 1 : k->in.channels * area;
    const int64_t c_step = by_inputs ? k->out_channels : area;
    for (int64_t m = 0; m < k->out_channels; m++)
        for (int64_t at = 0; at < area; at++)
            for (int64_t c = 0; c < k->in.channels; c++)
                *turned++ = w[m * m_step + c * c_step + at];
}

static enum hrf_status prepare_constants(struct product_kernel *k, const struct hrf_graph *graph,
                                         const struct hrf_node *node, struct hrf_error *err)
{
    const size_t n_bytes = (size_t)k->n_passes * k->pass_words * sizeof(float);
    const int64_t row_depth = k->in.kernel[1] * k->in.channels, depth = k->in.kernel[0] * row_depth;
    const int64_t pass_depth = k->pass_rows * row_depth;
    HRF_AUTO_FREE float *turned = hrf_alloc_array((size_t)(depth * k->out_channels), sizeof(float));
    k->weights = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    k->bias = hrf_calloc((size_t)k->out_channels, sizeof(float));
    if (turned == NULL || k->weights == NULL || k->bias == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "weights of node '%s': %zu bytes", node->name,
                             n_bytes);
    turn_weights(k, node, graph->values[node->inputs[HRF_CONV_WEIGHTS]].data, turned);
    for (int64_t pass = 0; pass < k->n_passes; pass++)
        hrf_product_pack(k->in.words, turned + pass * pass_depth, 1, depth,
                         hrf_least(depth - pass * pass_depth, pass_depth), k->out_channels,
                         k->weights + (size_t)pass * k->pass_words);
    const float *bias = hrf_cpu_constant(graph, node, HRF_CONV_BIAS);
    if (bias != NULL)
        memcpy(k->bias, bias, (size_t)k->out_channels * sizeof(float));
    k->base.weight_bytes = n_bytes + (size_t)k->out_channels * sizeof(float);
    return HRF_OK;
}

/* Of an image, or of a matrix, whose rows are images of one pixel. */
static int64_t size_along(const struct hrf_shape *shape, int32_t axis)
{
    return axis < shape->rank ? shape->dims[axis] : 1;
}

static void take_shapes(struct product_kernel *k, const struct hrf_graph *graph,
                        const struct hrf_node *node)
{
    const struct hrf_value *x = &graph->values[node->inputs[HRF_CONV_X]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const struct hrf_shape *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]].shape;
    k->in.type = x->dtype;
    k->out_type = y->dtype;
    k->in.channels = x->shape.dims[1];
    k->in.rows = size_along(&x->shape, 2);
    k->in.columns = size_along(&x->shape, 3);
    k->out_channels = y->shape.dims[1];
    k->in.out_rows = size_along(&y->shape, 2);
    k->in.out_columns = size_along(&y->shape, 3);
    k->in.x_pitch = hrf_value_pixel_stride(x);
    const bool in_pairs = k->in.type == HRF_B16 && hrf_cpu_has_avx512_bf16() &&
                          k->in.channels % 2 == 0 && k->in.x_pitch % 2 == 0;
    k->in.words = in_pairs ? HRF_PAIRS : HRF_FLOATS;
    k->in.pixel_words = in_pairs ? k->in.channels / 2 : k->in.channels;
    k->y_pitch = hrf_value_pixel_stride(y);
    k->n_pixels = y->shape.dims[0] * k->in.out_rows * k->in.out_columns;
    const struct hrf_window pixel = { .stride = { 1, 1 }, .dilation = { 1, 1 } };
    const struct hrf_window *window = node->op == HRF_OP_GEMM ? &pixel : &node->attributes.window;
    for (int i = 0; i < HRF_MAX_SPATIAL; i++) {
        k->in.kernel[i] = node->op == HRF_OP_GEMM ? 1 : w->dims[2 + i];
        k->in.stride[i] = window->stride[i];
        k->in.dilation[i] = window->dilation[i];
        k->in.pad[i] = window->pad_begin[i];
    }
    k->has_residual = node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0;
}

static bool is_bad(int64_t pitch)
{
    return pitch * (int64_t)sizeof(float) % BAD_PITCH == 0;
}

/* Where the rows of the product stand, and how far from each other. */
static void choose_rows(struct product_kernel *k)
{
    k->gathers = !hrf_windows_are_plain(&k->in) || !hrf_windows_are_pixels(&k->in) ||
                 is_bad(hrf_windows_pitch(&k->in));
    if (!k->gathers)
        k->pitch = hrf_windows_pitch(&k->in);
    else if (is_bad(k->pitch))
        k->pitch += PITCH_SLACK;
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
    choose_passes(k);
    choose_rows(k);
    choose_blocks(k);
    HRF_TRY(prepare_constants(k, graph, node, err));
    k->epilogue = hrf_cpu_epilogue(&node->attributes, k->out_type, k->bias, k->has_residual);
    *out = owned;
    owned = NULL;
    return HRF_OK;
}
