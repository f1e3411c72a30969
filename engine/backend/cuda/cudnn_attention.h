/* cudnn_attention.h - attention in 16 bits by cuDNN's fused engine, where it has one whose results
 * are those of the own kernel (attention.h) on known numbers. Scores are summed in float; they are
 * rounded to 16 bits before they meet the values, and the result once more.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_CUDNN_ATTENTION_H
#define HRF_ENGINE_BACKEND_CUDA_CUDNN_ATTENTION_H

#include "base/strbuf.h"
#include "engine/backend/cuda/attention.h"
#include "engine/backend/cuda/cuda_device.h"
#include "engine/backend/cuda/cudnn_plan.h"

/* Plans of this process, each tried once; equal attentions share one. */
struct hrf_attention_plans;
void hrf_attention_plans_destroy(struct hrf_attention_plans *plans);

/* For what lies as `attention` says, its arrays' types included; *out stays NULL where the own
 * kernel is to run it, `lines` has the reason if that is a fault. *plans may be NULL at first. */
void hrf_cudnn_attention_plan(struct hrf_attention_plans **plans,
                              const struct hrf_cuda_device *device, cudnnHandle_t cudnn,
                              const struct hrf_cudnn_device *properties,
                              const struct hrf_k_attention *attention, struct hrf_strbuf *lines,
                              const struct hrf_cudnn_plan **out);
HRF_CHECKED enum hrf_status hrf_cudnn_attention_run(const struct hrf_cudnn_plan *plan,
                                                    cudnnHandle_t cudnn,
                                                    const struct hrf_k_attention *attention,
                                                    void *workspace, struct hrf_error *err);

#endif
