/* matrix.h - float32 matrix products with the same bits for any number of threads.
 *
 * Rows are `lda` (`ldb`, `ldc`) elements apart. The work is divided into blocks by the shapes
 * alone; each block is one call of oneDNN's sgemm on one thread, and sums over several blocks are
 * added in their order. Thread-safe.
 */
#ifndef HRF_HEADS_TAPE_MATRIX_H
#define HRF_HEADS_TAPE_MATRIX_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* c [m][n] = alpha * op(a) [m][k] op(b) [k][n] + beta * c, for each matrix of the batch. beta is 0
 * or 1; with 0, c need not be initialised. */
struct hrf_product_request {
    bool transpose_a, transpose_b; /* a is [k][m]; b is [n][k] */
    int64_t m, n, k;
    float alpha, beta;
    const float *a, *b;
    float *c;
    int64_t lda, ldb, ldc;
    int64_t batch;                  /* number of matrices */
    int64_t step_a, step_b, step_c; /* elements from one matrix of the batch to the next */
};

/* HRF_E_NOMEM: no memory for partial sums. */
HRF_CHECKED enum hrf_status hrf_matrix_multiply(const struct hrf_product_request *request,
                                                struct hrf_error *err);

#endif
