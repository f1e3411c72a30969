/* performer.h - kernels of linear attention (PERFORMER in engine/ir/graph.h), a piece of the tokens
 * at a time. Queued like those of kernels.h; parses as C17 and as C++17.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_PERFORMER_H
#define HRF_ENGINE_BACKEND_CUDA_PERFORMER_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hrf_k_performer {
    const float *projection; /* [m][d] */
    int64_t m, d, heads, tokens, channels, images;
    int32_t exponential;
    double scale;             /* 1 / d^(1/4) */
    double half_inverse_root; /* 1 / (2 sqrt d) */
    double epsilon;
    double magic; /* 1.5 * 2^52 steps of the grid */
};

/* Tokens [first, first + n) of each head of each image; most: [images * heads][n]. */
cudaError_t hrf_k_token_max(const struct hrf_k_performer *a, const float *x, int64_t first,
                            int64_t n, double *most, cudaStream_t stream);
/* y[images * heads]; is_first 0: the maximum with what is there. */
cudaError_t hrf_k_head_max(const struct hrf_k_performer *a, const double *most, int64_t n,
                           int32_t is_first, float *y, cudaStream_t stream);
/* phi: [images * heads][n][m]; most (of each token) or high (of each head) or both NULL. */
cudaError_t hrf_k_features(const struct hrf_k_performer *a, const float *x, int64_t first,
                           int64_t n, const double *most, const float *high, double *phi,
                           cudaStream_t stream);
/* sums: [images * heads][d + 1][m]; is_first 0: added to what is there. */
cudaError_t hrf_k_sum_state(const struct hrf_k_performer *a, const double *phi, const float *v,
                            int64_t first, int64_t n, int32_t is_first, double *sums,
                            cudaStream_t stream);
cudaError_t hrf_k_apply_state(const struct hrf_k_performer *a, const double *phi,
                              const double *state, int64_t first, int64_t n, float *y,
                              cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
