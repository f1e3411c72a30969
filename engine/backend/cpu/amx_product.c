/* amx_product.c - GEMM, and MATMUL by one matrix, of bfloat16 by AMX (amx_tile.h): those of
 * networks in BF16, whose second matrix is weights, and those of their gradients, whose matrices
 * both come at run time. An output is summed in the order of the depth, by one thread. */
#include "engine/backend/cpu/amx_tile.h"
#include "engine/backend/cpu/cpu_private.h"
#include "engine/backend/cpu/narrow_floats.h"

#include <string.h>

enum {
    TILE = HRF_AMX_TILE,
    BLOCK = HRF_AMX_BLOCK,
    /* Columns that a task computes for its rows: what is packed of them stays in the second-level
     * cache while tasks take other rows. */
    SLICE = 256,
    LEAST = 16, /* rows, and columns: less leaves tiles empty */
};

struct amx_kernel {
    struct hrf_kernel base;
    struct hrf_spec *spec;
    uint16_t *weights; /* owned: the second matrix, packed; NULL: it comes at run time */
    int64_t rows, depth, columns;
    int64_t steps, a_stride; /* of the depth, and of a's rows as they are read */
    bool transposes_a, transposes_b;
    float alpha;
};

static int64_t count_panels(const struct amx_kernel *k)
{
    return hrf_ceil_div(k->columns, TILE);
}

static int64_t panel_count(const struct amx_kernel *k)
{
    return k->steps * HRF_AMX_STEP;
}

static bool reads_in_place(const struct amx_kernel *k)
{
    return !k->transposes_a && k->depth % HRF_AMX_DEPTH == 0;
}

/* The last rows, which are no whole tile, or all of them if they are not read in place. */
static int64_t own_rows(const struct amx_kernel *k)
{
    const int64_t tail = k->rows % TILE == 0 ? 0 : TILE;
    return reads_in_place(k) ? tail : hrf_ceil_div(k->rows, TILE) * TILE;
}

/* ---- packing: the work of all threads ---- */

static void pack_second(const struct amx_kernel *k, const void *b, bool of_floats,
                        const void **addresses, uint16_t *packed)
{
    const int64_t depth = k->steps * HRF_AMX_DEPTH;
    const int64_t n = k->transposes_b ? k->columns : depth;
    const int64_t exist = k->transposes_b ? k->columns : k->depth;
    const int64_t length = (k->transposes_b ? k->depth : k->columns) * (of_floats ? 4 : 2);
    for (int64_t i = 0; i < n; i++)
        addresses[i] = i < exist ? (const char *)b + i * length : NULL;
    const struct hrf_amx_rows rows = { .rows = addresses, .of_floats = of_floats };
#pragma omp parallel for schedule(static)
    for (int64_t panel = 0; panel < count_panels(k); panel++) {
        const int64_t first = panel * TILE, count = hrf_min(k->columns - first, TILE);
        if (k->transposes_b)
            hrf_amx_pack_columns(&rows, k->depth, first, count, packed + panel * panel_count(k));
        else
            hrf_amx_pack_pairs(&rows, depth, first, count, packed + panel * panel_count(k));
    }
}

static void pack_first(const struct amx_kernel *k, const uint16_t *a, const void **addresses,
                       uint16_t *to)
{
    const int64_t depth = k->steps * HRF_AMX_DEPTH;
    for (int64_t i = 0; i < depth && k->transposes_a; i++)
        addresses[i] = i < k->depth ? a + i * k->rows : NULL;
    const struct hrf_amx_rows rows = { .rows = addresses };
    const int64_t first = reads_in_place(k) ? k->rows / TILE : 0;
#pragma omp parallel for schedule(static)
    for (int64_t tile = first; tile < hrf_ceil_div(k->rows, TILE); tile++) {
        uint16_t *own = to + (tile - first) * TILE * k->a_stride;
        const int64_t count = hrf_min(k->rows - tile * TILE, TILE);
        if (k->transposes_a) {
            hrf_amx_pack_transposed(&rows, depth, tile * TILE, count, own, k->a_stride);
            continue;
        }
        memset(own, 0, (size_t)(TILE * k->a_stride) * sizeof *own);
        for (int64_t r = 0; r < count; r++)
            memcpy(own + r * k->a_stride, a + (tile * TILE + r) * k->depth,
                   (size_t)k->depth * sizeof *own);
    }
}

/* ---- a run ---- */

struct run {
    const struct amx_kernel *kernel;
    const uint16_t *a, *own, *b; /* own: rows that are not read in place */
    const float *bias;
    const char *residual;
    char *y;
    bool is_plain; /* y is the sums alone, in float32 */
};

/* Turns the sums of a block into y. */
static void finish(const struct run *r, float *sums, int64_t row, int64_t n_rows, int64_t column,
                   int64_t n)
{
    const struct amx_kernel *k = r->kernel;
    const enum hrf_dtype type = k->spec->output.dtype;
    const int64_t size = (int64_t)hrf_dtype_size(type);
    const bool is_activated = k->spec->attributes.activation != HRF_ACT_NONE;
    for (int64_t i = 0; i < n_rows; i++, sums += BLOCK) {
        const int64_t at = ((row + i) * k->columns + column) * size;
        float added[BLOCK];
        for (int64_t j = 0; j < n && k->alpha != 1; j++)
            sums[j] *= k->alpha;
        for (int64_t j = 0; j < n && r->bias != NULL; j++)
            sums[j] += r->bias[column + j];
        if (r->residual != NULL) {
            hrf_cpu_widen(type, r->residual + at, added, n);
            for (int64_t j = 0; j < n; j++)
                sums[j] += added[j];
        }
        if (is_activated)
            hrf_cpu_activate(&k->spec->attributes, sums, n);
        if (type == HRF_F32)
            memcpy(r->y + at, sums, (size_t)n * sizeof *sums);
        else
            hrf_cpu_narrow(type, sums, r->y + at, n);
    }
}

/* `a`: the first of row_tiles tiles of rows, of which n_rows exist. */
static void multiply(const struct run *r, const uint16_t *a, int64_t a_stride, int row_tiles,
                     int64_t row, int64_t n_rows, int64_t column)
{
    const struct amx_kernel *k = r->kernel;
    const int64_t n = hrf_min(k->columns - column, BLOCK);
    float own[BLOCK * BLOCK];
    const int column_tiles = (int)hrf_ceil_div(n, TILE);
    const bool is_direct = r->is_plain && n == column_tiles * TILE && n_rows == row_tiles * TILE;
    const struct hrf_amx_block m = {
        .a = a,
        .a_stride = a_stride,
        .b = r->b + column / TILE * panel_count(k),
        .b_panel = panel_count(k),
        .n_segments = 1,
        .n_steps = k->steps,
        .c = is_direct ? (float *)(void *)r->y + row * k->columns + column : own,
        .c_stride = is_direct ? k->columns : BLOCK,
        .row_tiles = row_tiles,
        .column_tiles = column_tiles,
    };
    hrf_amx_multiply(&m);
    if (!is_direct)
        finish(r, own, row, n_rows, column, n);
}

static void compute(const struct run *r, int64_t row, int64_t column)
{
    const struct amx_kernel *k = r->kernel;
    const int64_t n_rows = hrf_min(k->rows - row, BLOCK);
    if (!reads_in_place(k)) {
        multiply(r, r->own + row * k->a_stride, k->a_stride, (int)hrf_ceil_div(n_rows, TILE), row,
                 n_rows, column);
        return;
    }
    const int64_t whole = n_rows / TILE * TILE;
    if (whole > 0)
        multiply(r, r->a + row * k->depth, k->depth, (int)(whole / TILE), row, whole, column);
    if (whole < n_rows)
        multiply(r, r->own, k->a_stride, 1, row + whole, n_rows - whole, column);
}

static enum hrf_status run(struct hrf_kernel *base, const struct hrf_kernel_call *call,
                           struct hrf_error *err)
{
    (void)err;
    const struct amx_kernel *k = (const struct amx_kernel *)base;
    const struct hrf_spec *spec = k->spec;
    const bool is_gemm = spec->op == HRF_OP_GEMM;
    uint16_t *own = call->workspace, *packed = own + own_rows(k) * k->a_stride;
    const int64_t n_packed = k->weights == NULL ? count_panels(k) * panel_count(k) : 0;
    const void **addresses = (const void **)(void *)(packed + n_packed);
    struct run r = { .kernel = k,
                     .a = call->inputs[0],
                     .own = own,
                     .b = k->weights != NULL ? k->weights : packed,
                     .bias = is_gemm ? hrf_spec_data(spec, call, 2) : NULL,
                     .residual = is_gemm ? hrf_spec_data(spec, call, 3) : NULL,
                     .y = call->output };
    r.is_plain = spec->output.dtype == HRF_F32 && r.bias == NULL && r.residual == NULL &&
                 k->alpha == 1 && spec->attributes.activation == HRF_ACT_NONE;
    if (k->weights == NULL)
        pack_second(k, call->inputs[1], false, addresses, packed);
    if (own_rows(k) > 0)
        pack_first(k, r.a, addresses, own);
    const int64_t n_blocks = hrf_ceil_div(k->rows, BLOCK);
    const int64_t n_slices = hrf_ceil_div(k->columns, SLICE);
#pragma omp parallel
    {
        hrf_amx_begin();
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n_blocks * n_slices; i++) {
            const int64_t first = i / n_blocks * SLICE, end = hrf_min(first + SLICE, k->columns);
            for (int64_t column = first; column < end; column += BLOCK)
                compute(&r, i % n_blocks * BLOCK, column);
        }
        hrf_amx_end();
    }
    return HRF_OK;
}

/* ---- made ready ---- */

static const char *misfit(const struct hrf_graph *graph, const struct hrf_node *node)
{
    const struct hrf_value *a = &graph->values[node->inputs[0]];
    const struct hrf_value *b = &graph->values[node->inputs[1]];
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    const bool is_gemm = node->op == HRF_OP_GEMM;
    if (a->data != NULL || a->dtype != HRF_B16 || b->dtype != (b->data != NULL ? HRF_F32 : HRF_B16))
        return "its matrices are not both of bfloat16";
    if (y->dtype != HRF_B16 && y->dtype != HRF_F32)
        return "its result is of another type";
    if (b->shape.rank != 2 || a->shape.rank < 2 || a->shape.rank > 3 || y->shape.rank > 3)
        return "it is not one product of two matrices";
    const int64_t columns = hrf_shape_last(&y->shape);
    if (columns < LEAST || hrf_shape_count(&y->shape) / columns < LEAST)
        return "it has few rows or columns";
    if (!is_gemm)
        return NULL;
    if (hrf_node_has_input(node, 3)) {
        const struct hrf_value *residual = &graph->values[node->inputs[3]];
        if (residual->data != NULL || residual->dtype != y->dtype)
            return "its residual is of another type, or a constant";
    }
    if (!hrf_node_has_input(node, 2))
        return NULL;
    const struct hrf_value *c = &graph->values[node->inputs[2]];
    return c->dtype == HRF_F32 && node->attributes.gemm.beta == 1 &&
                   hrf_shape_count(&c->shape) == columns && hrf_shape_last(&c->shape) == columns
               ? NULL
               : "its bias is no row of floats";
}

static void destroy(struct hrf_kernel *base)
{
    struct amx_kernel *k = (struct amx_kernel *)base;
    hrf_free(k->weights);
    hrf_spec_destroy(k->spec);
    hrf_free(k);
}

static enum hrf_status pack_weights(struct amx_kernel *k, struct hrf_error *err)
{
    struct hrf_operand *b = &k->spec->inputs[1];
    const size_t n_bytes = (size_t)(count_panels(k) * panel_count(k)) * sizeof *k->weights;
    HRF_AUTO_FREE const void **addresses = hrf_alloc_array(
        (size_t)hrf_max(k->columns, k->steps * HRF_AMX_DEPTH), sizeof *addresses);
    k->weights = hrf_alloc_aligned(n_bytes, HRF_BUFFER_ALIGNMENT);
    HRF_CHECK_MEMORY(k->weights != NULL, err, "weights of node '%s'", k->spec->name);
    pack_second(k, b->constant, true, addresses, k->weights);
    hrf_free(b->constant); /* the packed copy is the one that is used */
    b->constant = NULL;
    k->base.weight_bytes = n_bytes + hrf_spec_constant_bytes(k->spec);
    return HRF_OK;
}

static enum hrf_status compile(const struct hrf_kernel_row *row, struct hrf_backend *backend,
                               const struct hrf_graph *graph, const struct hrf_node *node,
                               struct hrf_kernel **out, struct hrf_error *err)
{
    (void)row;
    (void)backend;
    struct amx_kernel *k = hrf_calloc(1, sizeof *k);
    k->base = (struct hrf_kernel){ .run = run, .destroy = destroy };
    HRF_AUTO(hrf_kernel) owned = &k->base;
    HRF_TRY(hrf_spec_create(graph, node, &k->spec, err));
    const struct hrf_shape *a = &k->spec->inputs[0].shape, *y = &k->spec->output.shape;
    const bool is_gemm = node->op == HRF_OP_GEMM;
    const struct hrf_attributes *t = &node->attributes;
    k->transposes_a = is_gemm && t->gemm.transpose_a;
    k->transposes_b = is_gemm && t->gemm.transpose_b;
    k->alpha = is_gemm ? t->gemm.alpha : 1;
    k->columns = hrf_shape_last(y);
    k->rows = hrf_shape_count(y) / k->columns;
    k->depth = k->transposes_a ? a->dims[0] : hrf_shape_last(a);
    k->steps = hrf_ceil_div(k->depth, HRF_AMX_DEPTH);
    k->a_stride = hrf_amx_stride(k->depth);
    if (k->spec->inputs[1].constant != NULL)
        HRF_TRY(pack_weights(k, err));
    const int64_t n_packed = k->weights == NULL ? count_panels(k) * panel_count(k) : 0;
    k->base.workspace_bytes = (size_t)(own_rows(k) * k->a_stride + n_packed) * sizeof(uint16_t) +
                              (size_t)hrf_max(k->columns, k->steps * HRF_AMX_DEPTH) *
                                  sizeof(void *);
    HRF_MOVE(*out, owned);
    return HRF_OK;
}

const struct hrf_kernel_row hrf_cpu_amx_product = {
    .name = "product:amx_bf16",
    HRF_ROW_OPS(HRF_OP_GEMM, HRF_OP_MATMUL),
    .forms = HRF_FORM_HALF,
    .isa = HRF_ISA_AMX,
    .misfit = misfit,
    .compile = compile,
};
