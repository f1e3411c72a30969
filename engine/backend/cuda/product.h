/* product.h - matrix products of two values of a run (MATMUL, and GEMM whose weights are none of
 * the model's constants), by cuBLASLt.
 *
 * cuBLASLt wants matrices with one dense axis and one step from each product to the next: operands
 * that lie otherwise in memory (rank 4 does, as images do) are copied into the workspace first.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_PRODUCT_H
#define HRF_ENGINE_BACKEND_CUDA_PRODUCT_H

#include "engine/backend/compute.h"

struct hrf_product_plan;

/* Float types, the same of both factors and of the result, and not both a bias and a residual. */
bool hrf_cuda_product_fits(const struct hrf_graph *graph, const struct hrf_node *node);
/* Successful without one where cuBLASLt has no way to compute it: the own kernel does then, and a
 * line of the notes says so. */
HRF_CHECKED enum hrf_status hrf_cuda_product_plan(struct hrf_backend *backend,
                                                  const struct hrf_spec *spec,
                                                  struct hrf_product_plan **out,
                                                  struct hrf_error *err);
void hrf_product_plan_destroy(struct hrf_product_plan *plan);
size_t hrf_cuda_product_workspace(const struct hrf_product_plan *plan);
/* Constants among the inputs are on the device already: `inputs` has a pointer for each. */
HRF_CHECKED enum hrf_status hrf_cuda_product_run(const struct hrf_product_plan *plan,
                                                 const void *const inputs[4], void *output,
                                                 void *workspace, struct hrf_error *err);

#endif
