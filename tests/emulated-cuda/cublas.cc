/* cublas.cc - see cublasLt.h. Matrices lie by columns; sums are in float, in order.
 *
 * What the real one refuses is refused: leading dimensions below a column, shapes that do not fit,
 * pointers less aligned than was said, workspaces that are too small.
 */
#include "cublasLt.h"

#include "cuda_bf16.h"
#include "cuda_fp16.h"

#include <cstring>

struct emulated_cublas {
    int unused;
};
struct emulated_layout {
    cudaDataType_t type;
    int64_t rows, columns, ld, step = 0;
    int32_t n = 1;
};
struct emulated_product {
    cublasOperation_t operations[2] = { CUBLAS_OP_N, CUBLAS_OP_N };
};
struct emulated_wishes {
    uint64_t room = 0;
};

namespace
{

const size_t SCRATCH = 512, ALIGNMENT = 64;

float load(cudaDataType_t type, const void *memory, int64_t i)
{
    if (type == CUDA_R_16F)
        return __half2float(static_cast<const __half *>(memory)[i]);
    if (type == CUDA_R_16BF)
        return __bfloat162float(static_cast<const __nv_bfloat16 *>(memory)[i]);
    return static_cast<const float *>(memory)[i];
}

void store(cudaDataType_t type, void *memory, int64_t i, float value)
{
    if (type == CUDA_R_16F)
        static_cast<__half *>(memory)[i] = __float2half_rn(value);
    else if (type == CUDA_R_16BF)
        static_cast<__nv_bfloat16 *>(memory)[i] = __float2bfloat16_rn(value);
    else
        static_cast<float *>(memory)[i] = value;
}

float element(const emulated_layout &l, cublasOperation_t operation, const void *memory, int64_t n,
              int64_t row, int64_t column)
{
    const int64_t at = operation == CUBLAS_OP_N ? column * l.ld + row : row * l.ld + column;
    return load(l.type, memory, n * l.step + at);
}

bool fit(const emulated_product &p, const emulated_layout &a, const emulated_layout &b,
         const emulated_layout &d)
{
    const bool a_turned = p.operations[0] == CUBLAS_OP_T, b_turned = p.operations[1] == CUBLAS_OP_T;
    const int64_t a_rows = a_turned ? a.columns : a.rows, depth = a_turned ? a.rows : a.columns;
    const int64_t b_rows = b_turned ? b.columns : b.rows, n = b_turned ? b.rows : b.columns;
    return a_rows == d.rows && n == d.columns && depth == b_rows && a.n == d.n && b.n == d.n &&
           a.type == b.type && a.type == d.type && (d.n == 1 || d.step != 0);
}

bool is_aligned(const void *memory)
{
    return reinterpret_cast<uintptr_t>(memory) % ALIGNMENT == 0;
}

struct product {
    emulated_product how;
    emulated_layout a, b, d;
    const void *a_data, *b_data;
    void *d_data;
    float alpha, beta;
};

void multiply(const product &p)
{
    const int64_t depth = p.how.operations[0] == CUBLAS_OP_T ? p.a.rows : p.a.columns;
    for (int64_t n = 0; n < p.d.n; n++)
        for (int64_t column = 0; column < p.d.columns; column++)
            for (int64_t row = 0; row < p.d.rows; row++) {
                float sum = 0;
                for (int64_t k = 0; k < depth; k++)
                    sum += element(p.a, p.how.operations[0], p.a_data, n, row, k) *
                           element(p.b, p.how.operations[1], p.b_data, n, k, column);
                const int64_t at = n * p.d.step + column * p.d.ld + row;
                const float before = p.beta != 0 ? p.beta * load(p.d.type, p.d_data, at) : 0;
                store(p.d.type, p.d_data, at, p.alpha * sum + before);
            }
}

} // namespace

extern "C" {

const char *cublasLtGetStatusString(cublasStatus_t)
{
    return "emulated";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = new emulated_cublas;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return 130000;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t ld)
{
    if (ld < (int64_t)rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    *layout = new emulated_layout;
    (*layout)->type = type;
    (*layout)->rows = (int64_t)rows;
    (*layout)->columns = (int64_t)columns;
    (*layout)->ld = ld;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t size)
{
    const bool is_count = attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
    if (size != (is_count ? sizeof layout->n : sizeof layout->step))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(is_count ? (void *)&layout->n : (void *)&layout->step, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description, cublasComputeType_t,
                                        cudaDataType_t)
{
    *description = new emulated_product;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description)
{
    delete description;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size)
{
    if (size != sizeof description->operations[0])
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&description->operations[attribute == CUBLASLT_MATMUL_DESC_TRANSB], value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *wishes)
{
    *wishes = new emulated_wishes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wishes)
{
    delete wishes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wishes,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size)
{
    if (attribute != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        return size == sizeof(uint32_t) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
    if (size != sizeof wishes->room)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&wishes->room, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wishes, int n_asked,
                                              cublasLtMatmulHeuristicResult_t *results,
                                              int *n_results)
{
    *n_results = 0;
    if (!fit(*description, *a, *b, *d) || n_asked < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (wishes->room < SCRATCH)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    results[0] = { { 1 }, SCRATCH, CUBLAS_STATUS_SUCCESS };
    *n_results = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    if (!fit(*description, *a_layout, *b_layout, *d_layout) || c != d || algo->number != 1 ||
        workspace_bytes < SCRATCH || !is_aligned(a) || !is_aligned(b) || !is_aligned(d))
        return CUBLAS_STATUS_INVALID_VALUE;
    const product p = { *description,
                        *a_layout,
                        *b_layout,
                        *d_layout,
                        a,
                        b,
                        d,
                        *static_cast<const float *>(alpha),
                        *static_cast<const float *>(beta) };
    (void)hrf_emulated_queue(stream, [=] {
        memset(workspace, 0xee, SCRATCH);
        multiply(p);
    });
    return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
