/* tune.h - the fastest of the engines that cuDNN ranks first, by running them. */
#ifndef HRF_ENGINE_BACKEND_CUDA_TUNE_H
#define HRF_ENGINE_BACKEND_CUDA_TUNE_H

#include "base/strbuf.h"
#include "engine/backend/cuda/cudnn_conv.h"
#include "engine/backend/cuda/cudnn_plan.h"
#include "engine/backend/cuda/device.h"

/* Takes over the configurations of the engines that it builds. *has_plan false: none of the engines
 * could be built; `lines` gets the reason. Where there is no memory to run them in, the first that
 * can be built is taken untimed. */
HRF_CHECKED enum hrf_status hrf_tune_conv(const struct hrf_cuda_device *device, cudnnHandle_t cudnn,
                                          const struct hrf_cudnn_device *properties,
                                          const struct hrf_cudnn_conv *conv,
                                          struct hrf_cudnn_engines *engines,
                                          struct hrf_cudnn_plan *out, bool *has_plan,
                                          struct hrf_strbuf *lines, struct hrf_error *err);

#endif
