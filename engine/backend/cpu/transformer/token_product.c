/* token_product.c - the product of byte_product.h as a kernel: its constants and its share for each
 * thread, by AVX-512 VNNI, or as a product of integers (integer_product.h). */
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/part_queues.h"
#include "engine/backend/cpu/transformer/byte_product.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum {
    SCRATCH_BYTES = 192 * 1024, /* of rounded rows: leaves the second level room for weights */
    MOST_BLOCK = 120,           /* rows, so that threads end at about the same time */
    /* Weights that the second level holds beside a block's rows, those that are asked for and the
     * result may be read for each of many blocks: these are then small, and leave room. */
    SMALL_WEIGHTS = 768 * 1024,
    SMALL_SCRATCH = 48 * 1024,
    SMALL_BLOCK = 60,
};

struct token_kernel {
    struct hrf_kernel base;
    struct hrf_backend *backend; /* borrowed */
    struct hrf_byte_product product;
    struct hrf_attributes attributes;
    int64_t n_rows, block, n_blocks, n_slices; /* rows x columns are cut into blocks x slices */
    bool has_residual;
    struct hrf_integer_product integers; /* without VNNI */
    float *factors, *scales, *bias;      /* owned; what `product` names */
    int8_t *weights;                     /* packed for either */
    int32_t *sums;                       /* with VNNI */
};

/* ---- products of integers ---- */

struct context {
    const struct token_kernel *kernel;
    const struct hrf_kernel_call *call;
};

static void load_rows(const void *context, const struct hrf_integer_rows *rows)
{
    const struct context *c = context;
    const struct hrf_byte_product *p = &c->kernel->product;
    const float *x = (const float *)c->call->inputs[HRF_CONV_X] + rows->first * p->depth;
    for (int64_t r = 0; r < rows->n; r++)
        rows->scales[r] = HRF_INTEGER_LOOPS(hrf_byte_round)(p, x + r * p->depth,
                                                            rows->numbers + r * rows->stride);
}

static void finish_sums(const void *context, const struct hrf_integer_rows *rows, int64_t column,
                        int64_t n, const int32_t *sums)
{
    const struct context *c = context;
    const struct token_kernel *k = c->kernel;
    const float *residual = k->has_residual ? c->call->inputs[HRF_CONV_RESIDUAL] : NULL;
    const int64_t at = rows->first * k->product.columns + column;
    HRF_INTEGER_LOOPS(hrf_byte_finish)
    (&k->product, rows, column, n, sums, residual != NULL ? residual + at : NULL,
     (float *)c->call->output + at);
}

static void activate_rows(const void *context, const struct hrf_integer_rows *rows, int64_t column,
                          int64_t end)
{
    const struct context *c = context;
    const struct token_kernel *k = c->kernel;
    float *y = (float *)c->call->output + rows->first * k->product.columns;
    for (int64_t r = 0; r < rows->n; r++, y += k->product.columns)
        hrf_cpu_activate(&k->attributes, y + column, end - column);
}

static enum hrf_status run_integers(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                                    struct hrf_error *err)
{
    (void)err;
    const struct context context = { (const struct token_kernel *)base, call };
    hrf_integer_product_run(&context.kernel->integers, &context, call->workspace);
    return HRF_OK;
}

static void pack_integers(struct token_kernel *k, const int8_t *w)
{
    for (int64_t c = 0; c < k->product.columns; c++)
        hrf_integer_pack_column(&k->integers, 0, c, w + c * k->product.depth, k->weights);
}

/* ---- VNNI ---- */

#ifdef HRF_BUILD_AVX512
static int64_t scratch_bytes(const struct token_kernel *k)
{
    return hrf_ceil_div(hrf_byte_scratch(k->product.depth, k->block), HRF_BUFFER_ALIGNMENT) *
           HRF_BUFFER_ALIGNMENT;
}

/* x: the product's input, or that of the norm before it. */
static void run_from(const struct token_kernel *k, const struct hrf_row_norm *norm, const float *x,
                     const struct hrf_kernel_call *call)
{
    const struct hrf_part_queues parts = hrf_part_queues_begin(
        call->workspace, k->backend->n_threads, k->n_blocks * k->n_slices);
    const int64_t n_panels = hrf_product_count_panels(k->product.columns);
    const float *residual = k->has_residual ? call->inputs[HRF_CONV_RESIDUAL] : NULL;
    float *y = call->output;
#pragma omp parallel
    for (int64_t i; (i = hrf_part_queues_take(&parts)) >= 0;) {
        const int64_t first = i % k->n_blocks * k->block, slice = i / k->n_blocks;
        const int64_t n = hrf_min(k->block, k->n_rows - first), next = first + n;
        const struct hrf_ahead ahead = { .memory = (const char *)(x + next * k->product.depth),
                                         .n_bytes = hrf_min(n, k->n_rows - next) *
                                                    k->product.depth * (int64_t)sizeof(float) };
        char *scratch = (char *)(parts.of + parts.n_threads) +
                        omp_get_thread_num() * scratch_bytes(k);
        hrf_byte_product_avx512(&k->product, norm, x + first * k->product.depth,
                                residual != NULL ? residual + first * k->product.columns : NULL,
                                y + first * k->product.columns, n, n_panels * slice / k->n_slices,
                                n_panels * (slice + 1) / k->n_slices, &ahead, scratch);
    }
}

static enum hrf_status token_product_run(struct hrf_kernel *base,
                                         const struct hrf_kernel_call *call, struct hrf_error *err)
{
    (void)err;
    run_from((const struct token_kernel *)base, NULL, call->inputs[HRF_CONV_X], call);
    return HRF_OK;
}

bool hrf_cpu_token_product_takes_norm(const struct hrf_kernel *kernel, int64_t n_rows,
                                      int64_t depth)
{
    const struct token_kernel *k = (const struct token_kernel *)kernel;
    return kernel->run == token_product_run && k->n_rows == n_rows && k->product.depth == depth;
}

void hrf_cpu_token_product_run_normed(const struct hrf_kernel *kernel,
                                      const struct hrf_row_norm *norm, const float *x,
                                      const struct hrf_kernel_call *call)
{
    run_from((const struct token_kernel *)kernel, norm, x, call);
}

static void choose_blocks(struct token_kernel *k)
{
    const int64_t n_threads = k->backend->n_threads;
    const int64_t n_panels = hrf_product_count_panels(k->product.columns);
    const bool is_small = k->product.depth * k->product.columns <= SMALL_WEIGHTS;
    int64_t block = (is_small ? SMALL_SCRATCH : SCRATCH_BYTES) / k->product.depth;
    block = hrf_min(block < HRF_BYTE_ROWS ? HRF_BYTE_ROWS : block,
                    is_small ? SMALL_BLOCK : MOST_BLOCK);
    k->n_slices = 1;
    if (k->n_rows < n_threads * 2 * HRF_BYTE_ROWS && n_panels >= n_threads)
        k->n_slices = n_threads;
    else if (k->n_rows < 8 * n_threads * block) /* as many blocks for each thread */
        block = hrf_ceil_div(k->n_rows,
                             hrf_ceil_div(hrf_ceil_div(k->n_rows, block), n_threads) * n_threads);
    block = hrf_ceil_div(block, HRF_BYTE_ROWS) * HRF_BYTE_ROWS;
    k->block = hrf_min(block, k->n_rows);
    k->n_blocks = hrf_ceil_div(k->n_rows, k->block);
    k->base.workspace_bytes = (size_t)n_threads *
                              (sizeof(struct hrf_part_queue) + (size_t)scratch_bytes(k));
}

static void pack_for_vnni(struct token_kernel *k, const int8_t *w)
{
    const int64_t depth = k->product.depth, columns = k->product.columns;
    const int64_t n_panels = hrf_product_count_panels(columns);
    int8_t *to = k->weights;
    for (int64_t c = 0; c < columns; c++)
        for (int64_t i = 0; i < depth; i++)
            k->sums[c] += 128 * w[c * depth + i];
    for (int64_t panel = 0; panel < n_panels; panel++) {
        const int64_t begin = hrf_product_panel_begin(columns, panel);
        const int64_t end = hrf_product_panel_begin(columns, panel + 1);
        for (int64_t i = 0; i < hrf_byte_steps(depth) * 4; i += 4)
            for (int64_t c = begin; c < end; c++)
                for (int64_t j = i; j < i + 4; j++)
                    *to++ = c < columns && j < depth ? w[c * depth + j] : 0;
    }
}
#endif

/* ---- making one ---- */

static void token_product_destroy(struct hrf_kernel *base)
{
    struct token_kernel *k = (struct token_kernel *)base;
    hrf_free(k->factors);
    hrf_free(k->scales);
    hrf_free(k->bias);
    hrf_free(k->weights);
    hrf_free(k->sums);
    hrf_free(k);
}

/* A row of n floats, zeros up to n_room. */
static enum hrf_status copy_row(const struct hrf_node *node, const float *from, int64_t n,
                                int64_t n_room, float **out, struct hrf_error *err)
{
    *out = hrf_try_calloc((size_t)n_room, sizeof **out);
    HRF_CHECK_MEMORY(*out != NULL, err, "no memory for the kernel of node '%s'", node->name);
    if (from != NULL)
        memcpy(*out, from, (size_t)n * sizeof **out);
    return HRF_OK;
}

/* Copies scales, bias and factors, and allocates n_bytes of zeros for the packed weights. */
static enum hrf_status take_constants(struct token_kernel *k, const struct hrf_graph *graph,
                                      const struct hrf_node *node, size_t n_bytes,
                                      struct hrf_error *err)
{
    struct hrf_byte_product *p = &k->product;
    const int64_t registers = hrf_ceil_div(p->columns, 16);
    const float *scales = hrf_cpu_constant(graph, node, HRF_CONV_SCALES);
    const float *bias = hrf_cpu_constant(graph, node, HRF_CONV_BIAS);
    const float *factors = hrf_cpu_constant(graph, node, HRF_CONV_FACTORS);
    HRF_TRY(copy_row(node, scales, p->columns, registers * 16, &k->scales, err));
    HRF_TRY(copy_row(node, bias, p->columns, registers * 16, &k->bias, err));
    if (factors != NULL)
        HRF_TRY(copy_row(node, factors, p->depth, p->depth, &k->factors, err));
    k->weights = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    HRF_CHECK_MEMORY(k->weights != NULL, err, "weights of node '%s': %zu bytes", node->name,
                     n_bytes);
    memset(k->weights, 0, n_bytes);
    k->base.weight_bytes = n_bytes + (size_t)p->columns * 3 * sizeof(float);
    p->factors = k->factors;
    p->scales = k->scales;
    p->epilogue = hrf_cpu_epilogue(&node->attributes, HRF_F32, k->bias, false);
    return HRF_OK;
}

static enum hrf_status prepare_integers(struct token_kernel *k, const struct hrf_graph *graph,
                                        const struct hrf_node *node, const int8_t *w,
                                        struct hrf_error *err)
{
    k->integers = (struct hrf_integer_product){ .n_rows = k->n_rows,
                                                .depth = k->product.depth,
                                                .n_groups = 1,
                                                .n_columns = k->product.columns,
                                                .load = load_rows,
                                                .finish = finish_sums,
                                                .end = activate_rows };
    HRF_TRY(take_constants(k, graph, node, hrf_integer_packed_bytes(&k->integers), err));
    pack_integers(k, w);
    k->integers.packed = k->weights;
    k->base.run = run_integers;
    k->base.workspace_bytes = hrf_integer_product_plan(&k->integers, k->backend->n_threads);
    return HRF_OK;
}

#ifdef HRF_BUILD_AVX512
static enum hrf_status prepare_vnni(struct token_kernel *k, const struct hrf_graph *graph,
                                    const struct hrf_node *node, const int8_t *w,
                                    struct hrf_error *err)
{
    const int64_t registers = hrf_ceil_div(k->product.columns, 16);
    HRF_TRY(take_constants(k, graph, node,
                           (size_t)(registers * 16 * hrf_byte_steps(k->product.depth) * 4), err));
    k->sums = hrf_calloc((size_t)registers * 16, sizeof *k->sums);
    pack_for_vnni(k, w);
    k->product.packed = k->weights;
    k->product.sums = k->sums;
    k->base.run = token_product_run;
    choose_blocks(k);
    return HRF_OK;
}
#endif

static enum hrf_status token_product_compile(const struct hrf_kernel_row *row,
                                             struct hrf_backend *backend,
                                             const struct hrf_graph *graph,
                                             const struct hrf_node *node, struct hrf_kernel **out,
                                             struct hrf_error *err)
{
    struct token_kernel *k = hrf_calloc(1, sizeof *k);
    k->base.destroy = token_product_destroy;
    HRF_AUTO(hrf_kernel) owned = &k->base;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    k->backend = backend;
    k->attributes = node->attributes;
    k->product.depth = hrf_shape_innermost(&graph->values[node->inputs[HRF_CONV_X]].shape);
    k->product.columns = hrf_shape_innermost(y);
    k->n_rows = hrf_shape_count(y) / k->product.columns;
    k->has_residual = node->n_inputs > HRF_CONV_RESIDUAL && node->inputs[HRF_CONV_RESIDUAL] >= 0;
    const int8_t *w = graph->values[node->inputs[HRF_CONV_WEIGHTS]].data;
#ifdef HRF_BUILD_AVX512
    if (row->isa == HRF_ISA_AVX512_VNNI)
        HRF_TRY(prepare_vnni(k, graph, node, w, err));
#endif
    if (row->isa == HRF_ISA_ANY)
        HRF_TRY(prepare_integers(k, graph, node, w, err));
    HRF_MOVE(*out, owned);
    return HRF_OK;
}

#define TOKEN_ROW(title, which)                                                                    \
    {                                                                                              \
        .name = title, HRF_ROW_OPS(HRF_OP_TOKEN_PRODUCT), .isa = which,                            \
        .epilogues = HRF_ANY_EPILOGUE, .compile = token_product_compile                            \
    }
#ifdef HRF_BUILD_AVX512
const struct hrf_kernel_row hrf_cpu_token_product_avx512 = TOKEN_ROW("int8 tokens:avx512_vnni",
                                                                     HRF_ISA_AVX512_VNNI);
#endif
const struct hrf_kernel_row hrf_cpu_token_product = TOKEN_ROW("int8 tokens" HRF_INTEGER_LOOPS_NAME,
                                                              HRF_ISA_ANY);
