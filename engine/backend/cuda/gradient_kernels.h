/* gradient_kernels.h - the kernels of operators that only graphs of gradients have
 * (engine/ir/graph.h). Queued like the kernels of kernels.h; parses as C17 and as C++17.
 *
 * They compute in float, whatever the arrays hold, and add in an order that follows from the shapes
 * alone, without atomic operations: the same bits each time.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_GRADIENT_KERNELS_H
#define HRF_ENGINE_BACKEND_CUDA_GRADIENT_KERNELS_H

#include "engine/backend/cuda/attention.h"
#include "engine/backend/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of the functions of one number, in the order of HRF_DERIVATIVES. */
enum hrf_k_derivative {
#define HRF_K_DERIVATIVE_NAME(OP, FORMULA) HRF_K_DERIVATIVE_OF_##OP,
    HRF_DERIVATIVES(HRF_K_DERIVATIVE_NAME)
#undef HRF_K_DERIVATIVE_NAME
};
struct hrf_k_derivative_form {
    enum hrf_k_derivative function;
    float alpha, beta, low, high; /* as struct hrf_attributes has them; low, high: CLIP's bounds */
};
/* y[i] = dy[i] times the derivative at x[i]. */
cudaError_t hrf_k_derivative(const struct hrf_k_derivative_form *form, struct hrf_k_array y,
                             struct hrf_k_array x, struct hrf_k_array dy, int64_t n,
                             cudaStream_t stream);

/* dw[m][ky][kx][c] of a convolution by `window` from x to what has the gradient dy: `out_channels`
 * of it in `group` groups, c counts in a group. Sums of a row of outputs are floats, all else is
 * added in double. The workspace has the sums of parts of the rows. */
struct hrf_k_weight_gradient_form {
    struct hrf_k_window window; /* channels: of x */
    int64_t out_channels, group;
};
size_t hrf_k_weight_gradient_workspace(const struct hrf_k_weight_gradient_form *form);
cudaError_t hrf_k_weight_gradient(struct hrf_k_array dw, struct hrf_k_array x,
                                  struct hrf_k_array dy,
                                  const struct hrf_k_weight_gradient_form *form, void *workspace,
                                  cudaStream_t stream);

/* dx of a maximum over windows of x: dy goes to the first of the greatest numbers. The workspace
 * has where each one is. */
size_t hrf_k_max_pool_gradient_workspace(const struct hrf_k_window *window);
cudaError_t hrf_k_max_pool_gradient(struct hrf_k_array dx, struct hrf_k_array x,
                                    struct hrf_k_array dy, const struct hrf_k_window *window,
                                    void *workspace, cudaStream_t stream);

/* dx[at] for `at` along an axis of `length` (stride y_step of dx; a_step of dy) is the sum over
 * places[first[at]] ... places[first[at + 1] - 1] of dy there. `box` walks all else: y, and a of
 * dy. */
struct hrf_k_scatter_form {
    struct hrf_k_walk box;
    int64_t length, y_step, a_step;
    const int32_t *first, *places; /* on the device */
};
cudaError_t hrf_k_scatter(struct hrf_k_array dx, struct hrf_k_array dy,
                          const struct hrf_k_scatter_form *form, cudaStream_t stream);

/* ATTENTION_GRADIENT: of softmax(scale q k') v, dq, dk and dv. `y` is dy here, its strides those of
 * q; masks, parts and shared heads do not occur. The workspace has three floats for each query. */
struct hrf_k_attention_gradient_form {
    struct hrf_k_attention forward;
    struct hrf_k_heads dq, dk, dv;
};
size_t hrf_k_attention_gradient_workspace(const struct hrf_k_attention *forward);
cudaError_t hrf_k_attention_gradient(const struct hrf_k_attention_gradient_form *form,
                                     void *workspace, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
