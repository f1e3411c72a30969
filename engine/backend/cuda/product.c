#include "engine/backend/cuda/product.h"

#include "engine/backend/cuda/cuda_private.h"

#include <cublasLt.h>
#include <string.h>

enum { A, B, Y, N_MATRICES, C = 2, RESIDUAL = 3 };
enum { MOST_SCRATCH = 32 << 20 }; /* bytes that an algorithm may ask for: NVIDIA's advice */

/* One operand: `rows` x `columns`, n_batch of them. */
struct matrix {
    int64_t rows, columns;
    int64_t row, column;        /* strides in elements, of one product */
    int64_t walk[HRF_MAX_RANK]; /* and between products, along the axes of the batch */
    int64_t step;               /* between products, of what cuBLASLt gets */
    bool is_packed;             /* a dense copy in the workspace */
    size_t offset;              /* of that */
    cublasLtMatrixLayout_t layout;
    cublasOperation_t operation; /* to cuBLASLt, which counts along columns */
};

struct hrf_product_plan {
    struct hrf_backend *backend; /* borrowed */
    const struct hrf_spec *spec; /* borrowed */
    struct matrix m[N_MATRICES];
    int32_t n_axes; /* of the batch */
    int64_t batch[HRF_MAX_RANK], n_products;
    float alpha, beta;
    cublasLtMatmulDesc_t description;
    cublasLtMatmulAlgo_t algorithm;
    size_t scratch_at, workspace_bytes, scratch_bytes;
};

static enum hrf_status cublas_error(struct hrf_error *err, cublasStatus_t status)
{
    return hrf_error_set_foreign(
        err, status == CUBLAS_STATUS_ALLOC_FAILED ? HRF_E_NOMEM : HRF_E_EXTERNAL, "cublas",
        (int)status, "cuBLASLt, a matrix product: %s", cublasLtGetStatusString(status));
}

#define HRF_TRY_CUBLAS(call)                                                                       \
    do {                                                                                           \
        cublasStatus_t status_ = (call);                                                           \
        if (status_ != CUBLAS_STATUS_SUCCESS)                                                      \
            return cublas_error(err, status_);                                                     \
    } while (0)

/* ---- what it takes ---- */

/* A constant of the model is float32 on the device, whatever the precision. */
bool hrf_cuda_product_fits(const struct hrf_graph *graph, const struct hrf_node *node)
{
    if (node->op != HRF_OP_MATMUL && node->op != HRF_OP_GEMM)
        return false;
    const struct hrf_value *y = &graph->values[node->outputs[0]];
    if (!hrf_dtype_is_float(y->dtype) || hrf_shape_count(&y->shape) < 1)
        return false;
    for (int32_t i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] < 0)
            continue;
        const struct hrf_value *x = &graph->values[node->inputs[i]];
        if ((x->dtype != y->dtype && !(x->dtype == HRF_F32 && x->data != NULL)) ||
            hrf_shape_count(&x->shape) < 1)
            return false;
    }
    return node->n_inputs <= RESIDUAL || node->inputs[C] < 0 || node->inputs[RESIDUAL] < 0;
}

/* ---- the three matrices ---- */

static struct matrix matrix_of(int64_t rows, int64_t columns, int64_t row, int64_t column)
{
    return (struct matrix){ .rows = rows, .columns = columns, .row = row, .column = column };
}

static void view_gemm(struct hrf_product_plan *p)
{
    const struct hrf_spec *spec = p->spec;
    const struct hrf_attributes *t = &spec->attributes;
    const int64_t *y = spec->output.shape.dims;
    const int64_t depth = spec->inputs[A].shape.dims[t->gemm.transpose_a ? 0 : 1];
    const int64_t rows = y[0], columns = y[1];
    p->m[A] = t->gemm.transpose_a ? matrix_of(rows, depth, 1, rows)
                                  : matrix_of(rows, depth, depth, 1);
    p->m[B] = t->gemm.transpose_b ? matrix_of(depth, columns, 1, depth)
                                  : matrix_of(depth, columns, columns, 1);
    p->m[Y] = matrix_of(rows, columns, columns, 1);
    p->n_products = 1;
    p->alpha = t->gemm.alpha;
    p->beta = hrf_spec_has(spec, C) ? t->gemm.beta : hrf_spec_has(spec, RESIDUAL) ? 1 : 0;
}

static void view_matmul(struct hrf_product_plan *p)
{
    struct hrf_matmul v;
    hrf_matmul_view(p->spec, &v);
    p->m[A] = matrix_of(v.rows, v.depth, v.a[0], v.a[1]);
    p->m[B] = matrix_of(v.depth, v.columns, v.b[0], v.b[1]);
    p->m[Y] = matrix_of(v.rows, v.columns, v.y[0], v.y[1]);
    p->n_axes = v.n_batch;
    p->n_products = v.n;
    p->alpha = 1;
    memcpy(p->batch, v.batch, sizeof p->batch);
    for (int k = 0; k < N_MATRICES; k++)
        memcpy(p->m[k].walk, v.batch_strides[k], sizeof p->m[k].walk);
}

/* One step from each product to the next: true when the axes of the batch are one. */
static bool find_step(const struct hrf_product_plan *p, struct matrix *m)
{
    int64_t step = 0, expected = 0;
    bool is_first = true;
    for (int32_t d = p->n_axes - 1; d >= 0; d--) {
        if (p->batch[d] == 1)
            continue;
        if (is_first)
            step = m->walk[d];
        else if (m->walk[d] != expected)
            return false;
        expected = m->walk[d] * p->batch[d];
        is_first = false;
    }
    m->step = step;
    return true;
}

/* Rows one after the other (is_by_rows), or columns. */
static bool is_dense_along(int64_t length, int64_t step, int64_t other_length, int64_t other)
{
    return (step == 1 || length == 1) && (other >= length || other_length == 1);
}

static bool is_by_rows(const struct matrix *m)
{
    return is_dense_along(m->columns, m->column, m->rows, m->row);
}

static void place_matrix(struct hrf_product_plan *p, int k)
{
    struct matrix *m = &p->m[k];
    const bool lies_well = is_by_rows(m) ||
                           (k != Y && is_dense_along(m->rows, m->row, m->columns, m->column));
    const bool has_type = k == Y || p->spec->inputs[k].dtype == p->spec->output.dtype;
    if (find_step(p, m) && lies_well && has_type)
        return;
    m->is_packed = true;
    m->offset = p->workspace_bytes;
    m->step = m->rows * m->columns;
    p->workspace_bytes += hrf_cuda_aligned((size_t)(p->n_products * m->rows * m->columns) *
                                           hrf_dtype_size(p->spec->output.dtype));
}

/* ---- cuBLASLt's descriptions ---- */

static cudaDataType_t type_of(enum hrf_dtype dtype)
{
    return dtype == HRF_F16 ? CUDA_R_16F : dtype == HRF_B16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* cuBLASLt counts along columns: what lies by rows is, to it, the transposed one. So it is asked
 * for y' = b' a'. */
static enum hrf_status describe_matrix(const struct hrf_product_plan *p, struct matrix *m,
                                       struct hrf_error *err)
{
    const bool by_rows = m->is_packed || is_by_rows(m);
    const int64_t rows = by_rows ? m->columns : m->rows, columns = by_rows ? m->rows : m->columns;
    const int64_t apart = m->is_packed ? m->columns : by_rows ? m->row : m->column;
    const int32_t n = (int32_t)p->n_products;
    m->operation = by_rows ? CUBLAS_OP_N : CUBLAS_OP_T;
    HRF_TRY_CUBLAS(cublasLtMatrixLayoutCreate(&m->layout, type_of(p->spec->output.dtype),
                                              (uint64_t)rows, (uint64_t)columns,
                                              apart > rows ? apart : rows));
    HRF_TRY_CUBLAS(cublasLtMatrixLayoutSetAttribute(m->layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                    &n, sizeof n));
    HRF_TRY_CUBLAS(cublasLtMatrixLayoutSetAttribute(
        m->layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->step, sizeof m->step));
    return HRF_OK;
}

static enum hrf_status product_describe(struct hrf_product_plan *p, struct hrf_error *err)
{
    const bool tf32 = p->spec->output.dtype == HRF_F32 && p->backend->allow_tf32;
    for (int k = 0; k < N_MATRICES; k++)
        HRF_TRY(describe_matrix(p, &p->m[k], err));
    HRF_TRY_CUBLAS(cublasLtMatmulDescCreate(
        &p->description, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    HRF_TRY_CUBLAS(cublasLtMatmulDescSetAttribute(p->description, CUBLASLT_MATMUL_DESC_TRANSA,
                                                  &p->m[B].operation, sizeof p->m[B].operation));
    HRF_TRY_CUBLAS(cublasLtMatmulDescSetAttribute(p->description, CUBLASLT_MATMUL_DESC_TRANSB,
                                                  &p->m[A].operation, sizeof p->m[A].operation));
    return HRF_OK;
}

static enum hrf_status set_limits(cublasLtMatmulPreference_t wishes, struct hrf_error *err)
{
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
    };
    const uint64_t room = MOST_SCRATCH;
    const uint32_t alignment = HRF_BUFFER_ALIGNMENT;
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE; /* the same bits each time */
    HRF_TRY_CUBLAS(cublasLtMatmulPreferenceSetAttribute(
        wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room));
    HRF_TRY_CUBLAS(cublasLtMatmulPreferenceSetAttribute(
        wishes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions));
    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++)
        HRF_TRY_CUBLAS(cublasLtMatmulPreferenceSetAttribute(wishes, alignments[i], &alignment,
                                                            sizeof alignment));
    return HRF_OK;
}

/* cuBLASLt's first choice; *found false: it has none. */
static enum hrf_status choose(struct hrf_product_plan *p, bool *found, struct hrf_error *err)
{
    cublasLtMatmulPreference_t wishes = NULL;
    cublasLtMatmulHeuristicResult_t choice;
    int n = 0;
    *found = false;
    HRF_TRY_CUBLAS(cublasLtMatmulPreferenceCreate(&wishes));
    enum hrf_status status = set_limits(wishes, err);
    cublasStatus_t asked = CUBLAS_STATUS_SUCCESS;
    if (status == HRF_OK)
        asked = cublasLtMatmulAlgoGetHeuristic(p->backend->cublas, p->description, p->m[B].layout,
                                               p->m[A].layout, p->m[Y].layout, p->m[Y].layout,
                                               wishes, 1, &choice, &n);
    (void)cublasLtMatmulPreferenceDestroy(wishes);
    HRF_TRY(status);
    if (asked == CUBLAS_STATUS_NOT_SUPPORTED || (asked == CUBLAS_STATUS_SUCCESS && n == 0))
        return HRF_OK;
    HRF_TRY_CUBLAS(asked);
    p->algorithm = choice.algo;
    p->scratch_bytes = choice.workspaceSize;
    *found = choice.state == CUBLAS_STATUS_SUCCESS;
    return HRF_OK;
}

void hrf_product_plan_destroy(struct hrf_product_plan *p)
{
    if (p == NULL)
        return;
    for (int k = 0; k < N_MATRICES; k++)
        if (p->m[k].layout != NULL)
            (void)cublasLtMatrixLayoutDestroy(p->m[k].layout);
    if (p->description != NULL)
        (void)cublasLtMatmulDescDestroy(p->description);
    hrf_free(p);
}
HRF_DEFINE_AUTO(hrf_product_plan)

enum hrf_status hrf_cuda_product_plan(struct hrf_backend *backend, const struct hrf_spec *spec,
                                      struct hrf_product_plan **out, struct hrf_error *err)
{
    bool found = false;
    HRF_AUTO(hrf_product_plan) p = hrf_calloc(1, sizeof *p);
    if (backend->cublas == NULL)
        HRF_TRY_CUBLAS(cublasLtCreate(&backend->cublas));
    p->backend = backend;
    p->spec = spec;
    if (spec->op == HRF_OP_GEMM)
        view_gemm(p);
    else
        view_matmul(p);
    for (int k = 0; k < N_MATRICES; k++)
        place_matrix(p, k);
    p->scratch_at = p->workspace_bytes;
    if (p->n_products <= INT32_MAX) { /* cuBLASLt counts products in 32 bits */
        HRF_TRY(product_describe(p, err));
        HRF_TRY(choose(p, &found, err));
    }
    if (!found) {
        hrf_strbuf_addf(&backend->lines,
                        "cuBLASLt has no way to compute '%s', so a plain and slow kernel runs it\n",
                        spec->name);
        return HRF_OK;
    }
    p->workspace_bytes += p->scratch_bytes;
    HRF_MOVE(*out, p);
    return HRF_OK;
}

size_t hrf_cuda_product_workspace(const struct hrf_product_plan *p)
{
    return p->workspace_bytes;
}

/* ---- running ---- */

static struct hrf_k_array array(const struct hrf_product_plan *p, const void *data)
{
    return hrf_cuda_array(&p->spec->output, data);
}

/* All products of a matrix, as a dense copy has them. */
static struct hrf_k_walk walk_of(const struct hrf_product_plan *p, const struct matrix *m,
                                 bool is_into_copy)
{
    struct hrf_k_walk walk = { .rank = p->n_axes + 2 };
    int64_t dense = 1;
    for (int32_t d = walk.rank - 1; d >= 0; d--) {
        const int64_t own = d == p->n_axes + 1 ? m->column : d == p->n_axes ? m->row : m->walk[d];
        walk.dims[d] = d == p->n_axes + 1 ? m->columns : d == p->n_axes ? m->rows : p->batch[d];
        walk.y[d] = is_into_copy ? dense : own;
        walk.a[d] = is_into_copy ? own : dense;
        dense *= walk.dims[d];
    }
    return walk;
}

/* Where cuBLASLt finds the matrix. */
static cudaError_t product_pack(const struct hrf_product_plan *p, int k, const void *data,
                                void *workspace, const void **out)
{
    const struct matrix *m = &p->m[k];
    *out = data;
    if (!m->is_packed)
        return cudaSuccess;
    *out = (char *)workspace + m->offset;
    const struct hrf_k_walk walk = walk_of(p, m, true);
    return hrf_k_copy(array(p, *out), hrf_cuda_array(&p->spec->inputs[k], data), &walk,
                      p->backend->device->stream);
}

/* What is added stands in y before; GEMM's alone, whose y is dense. */
static cudaError_t put_addend(const struct hrf_product_plan *p, const void *const inputs[4],
                              void *y)
{
    const struct hrf_spec *spec = p->spec;
    const int32_t i = hrf_spec_has(spec, C) ? C : RESIDUAL;
    if (p->beta == 0 || inputs[i] == y) /* the residual's buffer may be y's */
        return cudaSuccess;
    int64_t strides[HRF_MAX_RANK];
    hrf_layout_broadcast_strides(&spec->inputs[i].shape, &spec->output.shape, strides);
    const struct hrf_k_walk walk = { .rank = 2,
                                     .dims = { p->m[Y].rows, p->m[Y].columns },
                                     .y = { p->m[Y].row, 1 },
                                     .a = { strides[0], strides[1] } };
    return hrf_k_copy(array(p, y), hrf_cuda_array(&spec->inputs[i], inputs[i]), &walk,
                      p->backend->device->stream);
}

static cudaError_t product_activate(const struct hrf_product_plan *p, void *y)
{
    const struct hrf_k_epilogue epilogue = hrf_cuda_epilogue(&p->spec->attributes);
    const struct hrf_k_function nothing = { .math = HRF_K_COPY };
    const struct hrf_k_walk walk = {
        .rank = 1, .dims = { hrf_shape_count(&p->spec->output.shape) }, .y = { 1 }, .a = { 1 }
    };
    if (epilogue.activation == HRF_K_NONE)
        return cudaSuccess;
    return hrf_k_pointwise(&nothing, array(p, y), array(p, y), (struct hrf_k_array){ .data = NULL },
                           &walk, &epilogue, p->backend->device->stream);
}

enum hrf_status hrf_cuda_product_run(const struct hrf_product_plan *p, const void *const inputs[4],
                                     void *output, void *workspace, struct hrf_error *err)
{
    static const char what[] = "moving matrices";
    const void *a, *b;
    const struct matrix *m = &p->m[Y];
    void *y = m->is_packed ? (char *)workspace + m->offset : output;
    HRF_TRY_CUDA(product_pack(p, A, inputs[A], workspace, &a), what);
    HRF_TRY_CUDA(product_pack(p, B, inputs[B], workspace, &b), what);
    HRF_TRY_CUDA(put_addend(p, inputs, y), what);
    HRF_TRY_CUBLAS(cublasLtMatmul(p->backend->cublas, p->description, &p->alpha, b, p->m[B].layout,
                                  a, p->m[A].layout, &p->beta, y, m->layout, y, m->layout,
                                  &p->algorithm, (char *)workspace + p->scratch_at,
                                  p->scratch_bytes, p->backend->device->stream));
    HRF_TRY_CUDA(product_activate(p, y), what);
    if (!m->is_packed)
        return HRF_OK;
    const struct hrf_k_walk walk = walk_of(p, m, false);
    HRF_TRY_CUDA(hrf_k_copy(array(p, output), array(p, y), &walk, p->backend->device->stream),
                 what);
    return HRF_OK;
}
