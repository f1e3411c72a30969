/* cudnn_candidates.h - plans of the engines that are tried for a convolution: those that cuDNN
 * ranks first, and the first that is another engine than these, not one with other settings. Needs
 * no GPU.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_CUDNN_CANDIDATES_H
#define HRF_ENGINE_BACKEND_CUDA_CUDNN_CANDIDATES_H

#include "base/strbuf.h"
#include "engine/backend/cuda/cudnn_plan.h"

/* Building one engine takes up to 3 s of a core (compiled at run time), running it micro- to
 * milliseconds. */
enum { HRF_MOST_CANDIDATES = 4 };
struct hrf_candidates {
    struct hrf_cudnn_plan plans[HRF_MOST_CANDIDATES];
    int32_t n;
};

/* The candidates of those that can be built; takes over their configurations. None could: `lines`
 * gets the reason. Threads may do so side by side, each with a handle of its own. */
void hrf_candidates_build(cudnnHandle_t cudnn, const struct hrf_cudnn_device *properties,
                          enum hrf_cudnn_way way, struct hrf_cudnn_engines *engines,
                          struct hrf_candidates *out, struct hrf_strbuf *lines);
void hrf_candidates_release(struct hrf_candidates *candidates);

#endif
