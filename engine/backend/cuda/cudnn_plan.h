/* cudnn_plan.h - an operation graph made ready to run: engine chosen, compiled, kept as JSON.
 *
 * Building takes cuDNN 0.2 to 3 s where it compiles at run time; the JSON form brings the same
 * plan back in a later process, on the same device, driver and cuDNN.
 */
#ifndef HRF_ENGINE_BACKEND_CUDA_CUDNN_PLAN_H
#define HRF_ENGINE_BACKEND_CUDA_CUDNN_PLAN_H

#include "engine/backend/cuda/cudnn_graph.h"

struct hrf_cudnn_plan {
    cudnnBackendDescriptor_t descriptor;
    cudnnBackendDescriptor_t config; /* of the engine; NULL when it came from JSON */
    int64_t workspace_bytes;
    int64_t engine;
};

/* How a plan for a handle is built: by that handle, which its graph has too; or, where cuDNN
 * refuses that, from the device's properties, and taken back from JSON by the handle, as plans made
 * beforehand are. In the order in which they are tried. */
enum hrf_cudnn_way { HRF_CUDNN_BY_HANDLE, HRF_CUDNN_BY_PROPERTIES, HRF_CUDNN_N_WAYS };
/* `handle` NULL: built for `device` without one (kept as JSON, never run here). The plan takes the
 * engine's configuration over, on success only. */
HRF_CHECKED enum hrf_status hrf_cudnn_plan_build(cudnnHandle_t handle,
                                                 const struct hrf_cudnn_device *device,
                                                 enum hrf_cudnn_way way,
                                                 struct hrf_cudnn_engine *engine,
                                                 struct hrf_cudnn_plan *out, struct hrf_error *err);
/* `handle` NULL: taken back for `device` (and refused where it is for another), never run here. */
HRF_CHECKED enum hrf_status hrf_cudnn_plan_parse(cudnnHandle_t handle,
                                                 const struct hrf_cudnn_device *device,
                                                 const char *json, struct hrf_cudnn_plan *out,
                                                 struct hrf_error *err);
/* heap */
HRF_CHECKED enum hrf_status hrf_cudnn_plan_json(const struct hrf_cudnn_plan *plan, char **out,
                                                struct hrf_error *err);
void hrf_cudnn_plan_release(struct hrf_cudnn_plan *plan);
/* Queues it on the handle's stream. ids[n] name the tensors whose device addresses stand in
 * pointers[n]. */
HRF_CHECKED enum hrf_status hrf_cudnn_plan_run(const struct hrf_cudnn_plan *plan,
                                               cudnnHandle_t handle, const int64_t *ids,
                                               void *const *pointers, int32_t n, void *workspace,
                                               struct hrf_error *err);

#endif
