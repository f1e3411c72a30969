#include "engine/backend/cuda/cudnn_plan.h"

#include <string.h>

static enum hrf_status read_numbers(struct hrf_cudnn_plan *plan, struct hrf_error *err)
{
    int64_t n = 0;
    HRF_TRY_CUDNN(cudnnBackendGetAttribute(plan->descriptor,
                                           CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                           CUDNN_TYPE_INT64, 1, &n, &plan->workspace_bytes),
                  "a plan's workspace");
    return HRF_OK;
}

static enum hrf_status set_place(cudnnHandle_t handle, const struct hrf_cudnn_device *device,
                                 cudnnBackendDescriptor_t plan, const char *what,
                                 struct hrf_error *err)
{
    if (handle != NULL) {
        HRF_TRY_CUDNN(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                               CUDNN_TYPE_HANDLE, 1, &handle),
                      what);
    } else {
        cudnnBackendDescriptor_t properties = hrf_cudnn_device_descriptor(device);
        HRF_TRY_CUDNN(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &properties),
                      what);
    }
    return HRF_OK;
}

static enum hrf_status cudnn_plan_build(cudnnHandle_t handle, const struct hrf_cudnn_device *device,
                                        const struct hrf_cudnn_engine *engine,
                                        struct hrf_cudnn_plan *plan, struct hrf_error *err)
{
    static const char what[] = "building a plan";
    HRF_TRY_CUDNN(
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan->descriptor),
        what);
    HRF_TRY_CUDNN(cudnnBackendSetAttribute(plan->descriptor,
                                           CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine->config),
                  what);
    HRF_TRY(set_place(handle, device, plan->descriptor, what, err));
    HRF_TRY_CUDNN(cudnnBackendFinalize(plan->descriptor), what);
    return read_numbers(plan, err);
}

static enum hrf_status cudnn_plan_parse(cudnnHandle_t handle, const struct hrf_cudnn_device *device,
                                        const char *json, struct hrf_cudnn_plan *plan,
                                        struct hrf_error *err)
{
    static const char what[] = "a stored plan";
    HRF_TRY_CUDNN(
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan->descriptor),
        what);
    HRF_TRY(set_place(handle, device, plan->descriptor, what, err));
    HRF_TRY_CUDNN(cudnnBackendSetAttribute(plan->descriptor,
                                           CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                           CUDNN_TYPE_CHAR, (int64_t)strlen(json) + 1, json),
                  what);
    HRF_TRY_CUDNN(cudnnBackendFinalize(plan->descriptor), what);
    return read_numbers(plan, err);
}

enum hrf_status hrf_cudnn_plan_parse(cudnnHandle_t handle, const struct hrf_cudnn_device *device,
                                     const char *json, struct hrf_cudnn_plan *out,
                                     struct hrf_error *err)
{
    struct hrf_cudnn_plan plan = { .engine = -1 };
    enum hrf_status status = cudnn_plan_parse(handle, device, json, &plan, err);
    if (status != HRF_OK)
        hrf_cudnn_plan_release(&plan);
    else
        *out = plan;
    return status;
}

enum hrf_status hrf_cudnn_plan_json(const struct hrf_cudnn_plan *plan, char **out,
                                    struct hrf_error *err)
{
    static const char what[] = "a plan's JSON form";
    int64_t n = 0;
    HRF_TRY_CUDNN(cudnnBackendGetAttribute(plan->descriptor,
                                           CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                           CUDNN_TYPE_CHAR, 0, &n, NULL),
                  what);
    HRF_AUTO_FREE char *text = hrf_calloc((size_t)n + 1, 1);
    HRF_TRY_CUDNN(cudnnBackendGetAttribute(plan->descriptor,
                                           CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                           CUDNN_TYPE_CHAR, n, &n, text),
                  what);
    HRF_MOVE(*out, text);
    return HRF_OK;
}

/* Built without the handle and taken back by it. */
static enum hrf_status build_described(cudnnHandle_t handle, const struct hrf_cudnn_device *device,
                                       const struct hrf_cudnn_engine *engine,
                                       struct hrf_cudnn_plan *plan, struct hrf_error *err)
{
    HRF_AUTO_FREE char *json = NULL;
    struct hrf_cudnn_plan described = { .engine = engine->index };
    enum hrf_status status = cudnn_plan_build(NULL, device, engine, &described, err);
    if (status == HRF_OK)
        status = hrf_cudnn_plan_json(&described, &json, err);
    hrf_cudnn_plan_release(&described);
    return status == HRF_OK ? cudnn_plan_parse(handle, device, json, plan, err) : status;
}

enum hrf_status hrf_cudnn_plan_build(cudnnHandle_t handle, const struct hrf_cudnn_device *device,
                                     enum hrf_cudnn_way way, struct hrf_cudnn_engine *engine,
                                     struct hrf_cudnn_plan *out, struct hrf_error *err)
{
    struct hrf_cudnn_plan plan = { .engine = engine->index };
    enum hrf_status status = way == HRF_CUDNN_BY_PROPERTIES && handle != NULL
                                 ? build_described(handle, device, engine, &plan, err)
                                 : cudnn_plan_build(handle, device, engine, &plan, err);
    if (status != HRF_OK) {
        hrf_cudnn_plan_release(&plan);
        return status;
    }
    plan.config = engine->config;
    engine->config = NULL;
    *out = plan;
    return HRF_OK;
}

void hrf_cudnn_plan_release(struct hrf_cudnn_plan *plan)
{
    if (plan->descriptor != NULL)
        cudnnBackendDestroyDescriptor(plan->descriptor);
    if (plan->config != NULL)
        cudnnBackendDestroyDescriptor(plan->config);
    plan->descriptor = plan->config = NULL;
}

static enum hrf_status fill_pack(cudnnBackendDescriptor_t pack, const int64_t *ids,
                                 void *const *pointers, int32_t n, void *workspace,
                                 struct hrf_error *err)
{
    static const char what[] = "a plan's arguments";
    HRF_TRY_CUDNN(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                           CUDNN_TYPE_INT64, n, ids),
                  what);
    HRF_TRY_CUDNN(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                           CUDNN_TYPE_VOID_PTR, n, pointers),
                  what);
    HRF_TRY_CUDNN(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                           CUDNN_TYPE_VOID_PTR, 1, &workspace),
                  what);
    HRF_TRY_CUDNN(cudnnBackendFinalize(pack), what);
    return HRF_OK;
}

enum hrf_status hrf_cudnn_plan_run(const struct hrf_cudnn_plan *plan, cudnnHandle_t handle,
                                   const int64_t *ids, void *const *pointers, int32_t n,
                                   void *workspace, struct hrf_error *err)
{
    cudnnBackendDescriptor_t pack = NULL;
    HRF_TRY_CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack),
                  "a plan's arguments");
    enum hrf_status status = fill_pack(pack, ids, pointers, n, workspace, err);
    if (status == HRF_OK) {
        cudnnStatus_t ran = cudnnBackendExecute(handle, plan->descriptor, pack);
        if (ran != CUDNN_STATUS_SUCCESS)
            status = hrf_cudnn_error(err, ran, "running a plan");
    }
    cudnnBackendDestroyDescriptor(pack);
    return status;
}
