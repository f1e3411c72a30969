/* attention.h - the kernels of ATTENTION, ATTENTION_PART and BYTE_ATTENTION (engine/ir/graph.h):
 * softmax(scale q k' + mask) v without the scores in memory. Queued like the kernels of kernels.h;
 * parses as C17 and as C++17.
 *
 * hrf_k_attend() computes in float32 whatever the arrays hold (F32, F16, B16); one rounding where
 * the result is stored. Keys are added in their order, in blocks, so that the same bits come each
 * time, and parts that begin at whole blocks give the bits of the whole.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_ATTENTION_H
#define HRF_ENGINE_BACKEND_CUDA_ATTENTION_H

#include "engine/backend/byte_steps.h"
#include "engine/backend/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the numbers of an operand's heads lie: strides in elements. */
struct hrf_k_heads {
    struct hrf_k_array array; /* data NULL: there is none */
    int64_t image, head, token, channel;
    int64_t shared; /* neighbouring heads of q that one of these serves */
};

struct hrf_k_attention {
    struct hrf_k_heads q, k, v, y;
    /* Of the scores: `token` along the queries, `channel` along the keys, and the mask of image i
     * is number i % mask_images. */
    struct hrf_k_heads mask;
    int64_t mask_images;
    int64_t images, heads, n_queries, n_keys;
    int64_t depth;    /* channels of a head of q and k */
    int64_t channels; /* of v and y */
    float scale;
    int32_t causal;
    /* ATTENTION_PART's state, float32: of each image, query and head `channels` sums, the largest
     * score and the sum of the exponentials. NULL: none. gives_state: y is such a state. */
    const float *seen;
    int32_t gives_state;
};

cudaError_t hrf_k_attend(const struct hrf_k_attention *attention, cudaStream_t stream);

/* Of S8 or U8 arrays, in integers: scores, weights and results are rounded as `steps` (on the
 * device) says, so that the bytes are those of every other device. The arrays' scales, `scale`,
 * `causal`, masks and states have no meaning here. */
cudaError_t hrf_k_attend_bytes(const struct hrf_k_attention *attention,
                               const struct hrf_attention_steps *steps, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
