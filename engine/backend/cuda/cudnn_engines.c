/* cudnn_engines.c - which engines can run an operation graph on a device, best first. */
#include "engine/backend/cuda/cudnn_graph.h"

#include <string.h>

static bool has_note(cudnnBackendDescriptor_t engine, cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int note)
{
    int32_t notes[32]; /* both kinds are enums of int's size */
    int64_t n = 0;
    if (cudnnBackendGetAttribute(engine, name, type, 32, &n, notes) != CUDNN_STATUS_SUCCESS)
        return false;
    for (int64_t i = 0; i < n && i < 32; i++)
        if (notes[i] == note)
            return true;
    return false;
}

static bool numerical(cudnnBackendDescriptor_t engine, cudnnBackendNumericalNote_t note)
{
    return has_note(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, (int)note);
}

static enum hrf_status describe(struct hrf_cudnn_engine *item, struct hrf_error *err)
{
    static const char what[] = "an engine";
    int64_t n = 0;
    cudnnBackendDescriptor_t engine = NULL;
    HRF_TRY_CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine), what);
    cudnnStatus_t status = cudnnBackendGetAttribute(item->config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64,
                                          1, &n, &item->index);
    item->deterministic = !numerical(engine, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    item->tensor_core = numerical(engine, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    item->reduced_precision = numerical(engine, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) ||
                              numerical(engine, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
    item->winograd_or_fft = numerical(engine, CUDNN_NUMERICAL_NOTE_WINOGRAD) ||
                            numerical(engine, CUDNN_NUMERICAL_NOTE_FFT);
    item->compiled_at_run_time = has_note(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                          CUDNN_TYPE_BEHAVIOR_NOTE,
                                          (int)CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
    cudnnBackendDestroyDescriptor(engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(item->config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
                                          CUDNN_TYPE_INT64, 1, &n, &item->workspace_bytes);
    if (status != CUDNN_STATUS_SUCCESS)
        return hrf_cudnn_error(err, status, what);
    return HRF_OK;
}

static void forget(cudnnBackendDescriptor_t *descriptors, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (descriptors[i] != NULL)
            cudnnBackendDestroyDescriptor(descriptors[i]);
}

static enum hrf_status query(cudnnBackendDescriptor_t heuristic, const struct hrf_cudnn_graph *g,
                             cudnnBackendDescriptor_t device, cudnnBackendHeurMode_t mode,
                             cudnnBackendDescriptor_t *configs, int64_t room, int64_t *n,
                             struct hrf_error *err)
{
    static const char what[] = "the choice of engines";
    HRF_TRY_CUDNN(cudnnBackendSetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->graph),
                  what);
    HRF_TRY_CUDNN(cudnnBackendSetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE,
                                           CUDNN_TYPE_HEUR_MODE, 1, &mode),
                  what);
    HRF_TRY_CUDNN(cudnnBackendSetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device),
                  what);
    /* A graph that no engine of this mode takes is answered here, with "not supported". */
    cudnnStatus_t status = cudnnBackendFinalize(heuristic);
    if (status / 1000 == 3) {
        *n = 0;
        return HRF_OK;
    }
    HRF_TRY_CUDNN(status, what);
    HRF_TRY_CUDNN(cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, room, n, configs),
                  what);
    return HRF_OK;
}

static enum hrf_status find_in_mode(const struct hrf_cudnn_graph *g,
                                    cudnnBackendDescriptor_t device, cudnnBackendHeurMode_t mode,
                                    struct hrf_cudnn_engines *out, struct hrf_error *err)
{
    cudnnBackendDescriptor_t configs[HRF_CUDNN_MAX_ENGINES] = { NULL };
    cudnnBackendDescriptor_t heuristic = NULL;
    const int32_t room = HRF_CUDNN_MAX_ENGINES;
    int64_t n = 0;
    HRF_TRY_CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristic),
                  "the choice of engines");
    for (int32_t i = 0; i < room; i++)
        if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]) !=
            CUDNN_STATUS_SUCCESS)
            configs[i] = NULL;
    enum hrf_status status = query(heuristic, g, device, mode, configs, room, &n, err);
    cudnnBackendDestroyDescriptor(heuristic);
    for (int32_t i = 0; status == HRF_OK && i < n && i < room; i++) {
        struct hrf_cudnn_engine item = { .config = configs[i] };
        configs[i] = NULL;
        status = describe(&item, err);
        out->items[out->n_items++] = item; /* owned from here on, whatever came of it */
    }
    forget(configs, room);
    return status;
}

enum hrf_status hrf_cudnn_engines_find(const struct hrf_cudnn_graph *g,
                                       const struct hrf_cudnn_device *device, bool fall_back,
                                       struct hrf_cudnn_engines *out, struct hrf_error *err)
{
    *out = (struct hrf_cudnn_engines){ .n_items = 0 };
    enum hrf_status status = find_in_mode(g, hrf_cudnn_device_descriptor(device),
                                          fall_back ? CUDNN_HEUR_MODE_FALLBACK : CUDNN_HEUR_MODE_A,
                                          out, err);
    if (status != HRF_OK)
        hrf_cudnn_engines_release(out);
    return status;
}

void hrf_cudnn_engines_release(struct hrf_cudnn_engines *engines)
{
    for (int32_t i = 0; i < engines->n_items; i++)
        if (engines->items[i].config != NULL)
            cudnnBackendDestroyDescriptor(engines->items[i].config);
    engines->n_items = 0;
}
