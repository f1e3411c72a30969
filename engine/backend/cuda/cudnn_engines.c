/* cudnn_engines.c - which engines can run an operation graph on a device, best first. */
#include "engine/backend/cuda/cudnn_graph.h"

static bool numerical(cudnnBackendDescriptor_t engine, cudnnBackendNumericalNote_t note)
{
    int32_t notes[32]; /* enums of int's size */
    int64_t n = 0;
    if (cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, 32, &n, notes) != CUDNN_STATUS_SUCCESS)
        return false;
    for (int64_t i = 0; i < n && i < 32; i++)
        if (notes[i] == (int32_t)note)
            return true;
    return false;
}

static void forget(cudnnBackendDescriptor_t *descriptors, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (descriptors[i] != NULL)
            cudnnBackendDestroyDescriptor(descriptors[i]);
}

/* FNV-1a over the engine's knobs; those that the list leaves at their defaults count for nothing.
 */
static uint64_t setting_of(cudnnBackendDescriptor_t config)
{
    enum { MOST_KNOBS = 48 };
    cudnnBackendDescriptor_t knobs[MOST_KNOBS] = { NULL };
    uint64_t hash = 0xcbf29ce484222325u;
    int64_t n = 0, one;
    for (int i = 0; i < MOST_KNOBS; i++)
        if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &knobs[i]) !=
            CUDNN_STATUS_SUCCESS)
            knobs[i] = NULL;
    if (cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_KNOBS, &n,
                                 knobs) != CUDNN_STATUS_SUCCESS)
        n = 0;
    for (int64_t i = 0; i < n && i < MOST_KNOBS; i++) {
        int32_t type = -1;
        int64_t value = -1;
        (void)cudnnBackendGetAttribute(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                       CUDNN_TYPE_KNOB_TYPE, 1, &one, &type);
        (void)cudnnBackendGetAttribute(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                       CUDNN_TYPE_INT64, 1, &one, &value);
        hash = (hash ^ (uint64_t)type) * 0x100000001b3u;
        hash = (hash ^ (uint64_t)value) * 0x100000001b3u;
    }
    forget(knobs, MOST_KNOBS);
    return hash;
}

static enum hrf_status cudnn_engines_describe(struct hrf_cudnn_engine *item, struct hrf_error *err)
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
    cudnnBackendDestroyDescriptor(engine);
    item->setting = setting_of(item->config);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(item->config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
                                          CUDNN_TYPE_INT64, 1, &n, &item->workspace_bytes);
    if (status != CUDNN_STATUS_SUCCESS)
        return hrf_cudnn_error(err, status, what);
    return HRF_OK;
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

static bool has(const struct hrf_cudnn_engines *engines, const struct hrf_cudnn_engine *item)
{
    for (int32_t i = 0; i < engines->n_items; i++)
        if (engines->items[i].index == item->index && engines->items[i].setting == item->setting)
            return true;
    return false;
}

/* Takes the configurations over that are new. */
static enum hrf_status cudnn_engines_take(cudnnBackendDescriptor_t *configs, int64_t n,
                                          struct hrf_cudnn_engines *out, struct hrf_error *err)
{
    for (int64_t i = 0; i < n && out->n_items < HRF_CUDNN_MAX_ENGINES; i++) {
        struct hrf_cudnn_engine item = { .config = configs[i] };
        HRF_TRY(cudnn_engines_describe(&item, err));
        if (has(out, &item))
            continue;
        configs[i] = NULL;
        out->items[out->n_items++] = item;
    }
    return HRF_OK;
}

enum hrf_status hrf_cudnn_engines_add(const struct hrf_cudnn_graph *g,
                                      const struct hrf_cudnn_device *device,
                                      enum hrf_cudnn_mode mode, struct hrf_cudnn_engines *engines,
                                      struct hrf_error *err)
{
    static const cudnnBackendHeurMode_t modes[HRF_CUDNN_N_MODES] = {
        [HRF_CUDNN_MODE_A] = CUDNN_HEUR_MODE_A,
        [HRF_CUDNN_MODE_B] = CUDNN_HEUR_MODE_B,
        [HRF_CUDNN_MODE_FALL_BACK] = CUDNN_HEUR_MODE_FALLBACK
    };
    enum { MOST_LISTED = 32 };
    cudnnBackendDescriptor_t configs[MOST_LISTED] = { NULL };
    cudnnBackendDescriptor_t heuristic = NULL;
    int64_t n = 0;
    HRF_TRY_CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristic),
                  "the choice of engines");
    for (int32_t i = 0; i < MOST_LISTED; i++)
        if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]) !=
            CUDNN_STATUS_SUCCESS)
            configs[i] = NULL;
    enum hrf_status status = query(heuristic, g, hrf_cudnn_device_descriptor(device), modes[mode],
                                   configs, MOST_LISTED, &n, err);
    cudnnBackendDestroyDescriptor(heuristic);
    if (status == HRF_OK)
        status = cudnn_engines_take(configs, n < MOST_LISTED ? n : MOST_LISTED, engines, err);
    forget(configs, MOST_LISTED);
    return status;
}

bool hrf_cudnn_engines_differ(const struct hrf_cudnn_engines *engines)
{
    for (int32_t i = 1; i < engines->n_items; i++)
        if (engines->items[i].index != engines->items[0].index)
            return true;
    return false;
}

void hrf_cudnn_engines_release(struct hrf_cudnn_engines *engines)
{
    for (int32_t i = 0; i < engines->n_items; i++)
        if (engines->items[i].config != NULL)
            cudnnBackendDestroyDescriptor(engines->items[i].config);
    engines->n_items = 0;
}
