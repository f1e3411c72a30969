/* matrix.c - products of matrices in blocks of oneDNN's sgemm. */
#include "heads/tape/matrix.h"

#include "base/alloc.h"
#include "base/min_max.h"

#include <oneapi/dnnl/dnnl.h>

/* Blocks are large enough that packing costs little, and small enough that the gradient of a weight
 * of 512 x 1024 is work for several threads; of the sizes tried these are the fastest (64 steps of
 * ABMIL: 4.05 s, 4.46 s with 128 x 256; 3.87 s with sums in parts of 512, not 1024). Sums longer
 * than LONG_SUM are cut where the result is so small that it would be work for one thread. */
enum { BLOCK_ROWS = 256, BLOCK_COLUMNS = 512, LONG_SUM = 1024, SUM_PART = 512 };

struct block {
    int64_t matrix, row, column, first; /* first: of the sum */
    int64_t m, n, k;
    float *c;
    int64_t ldc;
    float beta;
};

static bool run_block(const struct hrf_product_request *r, const struct block *b)
{
    const float *a = r->a + b->matrix * r->step_a +
                     (r->transpose_a ? b->first * r->lda + b->row : b->row * r->lda + b->first);
    const float *right = r->b + b->matrix * r->step_b +
                         (r->transpose_b ? b->column * r->ldb + b->first
                                         : b->first * r->ldb + b->column);
    return dnnl_sgemm(r->transpose_a ? 'T' : 'N', r->transpose_b ? 'T' : 'N', b->m, b->n, b->k,
                      r->alpha, a, r->lda, right, r->ldb, b->beta, b->c, b->ldc) == dnnl_success;
}

static enum hrf_status outcome(bool failed, struct hrf_error *err)
{
    return failed ? hrf_error_set(err, HRF_E_NOMEM, "no memory for a product of matrices") : HRF_OK;
}

static enum hrf_status multiply_blocks(const struct hrf_product_request *r, struct hrf_error *err)
{
    const int64_t rows = (r->m + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const int64_t columns = (r->n + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
    bool failed = false;
#pragma omp parallel for schedule(dynamic) reduction(|| : failed)
    for (int64_t i = 0; i < r->batch * rows * columns; i++) {
        struct block b = { .matrix = i / (rows * columns),
                           .row = i / columns % rows * BLOCK_ROWS,
                           .column = i % columns * BLOCK_COLUMNS,
                           .k = r->k,
                           .ldc = r->ldc,
                           .beta = r->beta };
        b.m = hrf_min(BLOCK_ROWS, r->m - b.row);
        b.n = hrf_min(BLOCK_COLUMNS, r->n - b.column);
        b.c = r->c + b.matrix * r->step_c + b.row * r->ldc + b.column;
        failed = !run_block(r, &b) || failed;
    }
    return outcome(failed, err);
}

/* A long sum for a small result: parts of the sum side by side, then added in their order. */
static enum hrf_status multiply_parts(const struct hrf_product_request *r, struct hrf_error *err)
{
    const int64_t n_parts = (r->k + SUM_PART - 1) / SUM_PART, size = r->m * r->n;
    HRF_AUTO_FREE float *partial = hrf_try_alloc_array((size_t)(n_parts * size), sizeof *partial);
    HRF_CHECK_MEMORY(partial != NULL, err, "no memory for a product of matrices");
    for (int64_t matrix = 0; matrix < r->batch; matrix++) {
        bool failed = false;
#pragma omp parallel for schedule(dynamic) reduction(|| : failed)
        for (int64_t i = 0; i < n_parts; i++) {
            struct block b = { .matrix = matrix, .first = i * SUM_PART, .m = r->m, .n = r->n };
            b.k = hrf_min(SUM_PART, r->k - b.first);
            b.c = partial + i * size;
            b.ldc = r->n;
            failed = !run_block(r, &b) || failed;
        }
        HRF_TRY(outcome(failed, err));
#pragma omp parallel for schedule(static)
        for (int64_t row = 0; row < r->m; row++)
            for (int64_t j = 0; j < r->n; j++) {
                float *c = &r->c[matrix * r->step_c + row * r->ldc + j];
                float sum = r->beta != 0.0F ? *c : 0.0F;
                for (int64_t i = 0; i < n_parts; i++)
                    sum += partial[i * size + row * r->n + j];
                *c = sum;
            }
    }
    return HRF_OK;
}

enum hrf_status hrf_matrix_multiply(const struct hrf_product_request *request,
                                    struct hrf_error *err)
{
    const bool is_small = request->m * request->n <= BLOCK_ROWS * BLOCK_COLUMNS;
    return is_small && request->k >= LONG_SUM ? multiply_parts(request, err)
                                              : multiply_blocks(request, err);
}
