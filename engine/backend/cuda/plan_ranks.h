/* plan_ranks.h - one tuning for all ranks of a network: rank 0 tunes, the others take its choice.
 *
 * Each rank has convolutions of its own (a strip of the image, a stage), and timings differ from
 * one run to the next: ranks that tuned by themselves could run one kind of convolution by
 * different engines. Where ranks have GPUs of several kinds, drivers or versions of cuDNN, the
 * first rank of each kind tunes for its kind, which rank 0's notes name.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_PLAN_RANKS_H
#define HRF_ENGINE_BACKEND_CUDA_PLAN_RANKS_H

#include "engine/backend/cuda/plan_cache.h"

struct hrf_backend_ranks;

/* Called by all ranks at the same place; like hrf_plan_cache_prepare(), but that `convs` are known
 * afterwards on every rank. A plan that a rank does not take is an error on that rank. */
HRF_CHECKED enum hrf_status hrf_plan_cache_prepare_ranks(struct hrf_plan_cache *cache,
                                                         const struct hrf_backend_ranks *ranks,
                                                         const struct hrf_cudnn_conv *convs,
                                                         int32_t n, int32_t n_threads,
                                                         struct hrf_error *err);

#endif
