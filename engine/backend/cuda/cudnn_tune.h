/* cudnn_tune.h - the fastest of the engines that cuDNN ranks first and whose results are right, by
 * running them.
 *
 * INT8 has the same bytes in every layout, so a strip of an image must not get another result than
 * the whole: of INT8's engines only those are timed that round alike (cudnn_arithmetic.h), the same
 * way for every shape that has one, or, where none rounds in a known way, those with the lowest
 * number. */
#ifndef HRF_ENGINE_BACKEND_CUDA_CUDNN_TUNE_H
#define HRF_ENGINE_BACKEND_CUDA_CUDNN_TUNE_H

#include "base/strbuf.h"
#include "engine/backend/cuda/cuda_device.h"
#include "engine/backend/cuda/cudnn_arithmetic.h"
#include "engine/backend/cuda/cudnn_candidates.h"
#include "engine/backend/cuda/cudnn_conv.h"

/* How long one run of each took at least; ms < 0: it was not run, or running it failed. `spread`:
 * how much longer the longest took, as a part of that. */
struct hrf_candidate_times {
    int64_t engines[HRF_MOST_CANDIDATES];
    float ms[HRF_MOST_CANDIDATES], spread[HRF_MOST_CANDIDATES];
    int32_t n;
    enum hrf_arithmetic arithmetic; /* of the one that was taken */
    float taken_ms, taken_spread;   /* of the same; ms < 0: unknown */
    float pass_ms;       /* of a pass that makes the second output of the first; < 0: unknown */
    int32_t n_otherwise; /* engines that are right, but round in another way than it */
    int32_t n_wrong;     /* engines that were left out, since their results are wrong */
};
/* Queues 200 ms of work without a result: before the first that is timed, and after a pause, so
 * that a GPU's clock is up. */
void hrf_tune_warm_up(const struct hrf_cuda_device *device);
/* The fastest of those whose results are right (cudnn_trial.h), taken over; the others are
 * released. Where there is no memory to run them in, the first, untried. False: none is right;
 * `lines` names those that are not. `candidates` has one at least. */
bool hrf_tune_pick(const struct hrf_cuda_device *device, cudnnHandle_t cudnn,
                   const struct hrf_cudnn_conv *conv, struct hrf_candidates *candidates,
                   struct hrf_cudnn_plan *out, struct hrf_candidate_times *times,
                   struct hrf_strbuf *lines);

#endif
