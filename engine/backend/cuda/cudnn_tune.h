/* cudnn_tune.h - the fastest of the engines that cuDNN ranks first, by running them. */
#ifndef HRF_ENGINE_BACKEND_CUDA_CUDNN_TUNE_H
#define HRF_ENGINE_BACKEND_CUDA_CUDNN_TUNE_H

#include "base/strbuf.h"
#include "engine/backend/cuda/cuda_device.h"
#include "engine/backend/cuda/cudnn_conv.h"
#include "engine/backend/cuda/cudnn_plan.h"

/* Building one engine takes up to 3 s of a core (compiled at run time), running it micro- to
 * milliseconds. */
enum { HRF_TUNE_CANDIDATES = 3 };
struct hrf_candidates {
    struct hrf_cudnn_plan plans[HRF_TUNE_CANDIDATES];
    int32_t n;
};

/* The first engines that can be built; takes over their configurations. None could: `lines` gets
 * the reason. Threads may do so side by side, each with a handle of its own. */
void hrf_tune_build(cudnnHandle_t cudnn, const struct hrf_cudnn_device *properties,
                    struct hrf_cudnn_engines *engines, struct hrf_candidates *out,
                    struct hrf_strbuf *lines);
void hrf_candidates_release(struct hrf_candidates *candidates);
/* How long one run of each took; ms < 0: it was not run, or running it failed. */
struct hrf_candidate_times {
    int64_t engines[HRF_TUNE_CANDIDATES];
    float ms[HRF_TUNE_CANDIDATES];
    int32_t n;
};
/* The fastest of them, taken over; the others are released. Where there is no memory to run them
 * in, the first, untimed. `candidates` has one at least. */
struct hrf_cudnn_plan hrf_tune_pick(const struct hrf_cuda_device *device, cudnnHandle_t cudnn,
                                    const struct hrf_cudnn_conv *conv,
                                    struct hrf_candidates *candidates,
                                    struct hrf_candidate_times *times);

#endif
