#include "engine/backend/cuda/cudnn_attention.h"

#include "engine/ir/number.h"

#include <math.h>
#include <string.h>

enum { Q = 1, K, V, SCALE, Y, N_IDS = 5, PACK = 8, MOST_DEPTH = 128 };

/* All that a plan depends on. */
struct key {
    int64_t type, images, heads, n_queries, n_keys, depth;
    int64_t strides[4][3]; /* of q, k, v, y: image, head, token */
};

struct item {
    struct key key;
    struct hrf_cudnn_plan plan;
    bool is_good;
    struct item *next; /* items stay where they are: kernels point at their plans */
};

struct hrf_attention_plans {
    struct item *first;
};

void hrf_attention_plans_destroy(struct hrf_attention_plans *plans)
{
    if (plans == NULL)
        return;
    while (plans->first != NULL) {
        struct item *item = plans->first;
        plans->first = item->next;
        hrf_cudnn_plan_release(&item->plan);
        hrf_free(item);
    }
    hrf_free(plans);
}

/* Whole packs of 16 bytes from one head and token to the next, neither mask nor state. */
static bool find_key(const struct hrf_k_attention *f, struct key *key)
{
    const struct hrf_k_heads *const views[] = { &f->q, &f->k, &f->v, &f->y };
    const enum hrf_k_type type = f->q.array.type;
    memset(key, 0, sizeof *key);
    if ((type != HRF_K_F16 && type != HRF_K_B16) || f->mask.array.data != NULL || f->causal != 0 ||
        f->seen != NULL || f->gives_state != 0 || f->depth != f->channels || f->depth % PACK != 0 ||
        f->depth > MOST_DEPTH || f->images * f->heads * f->n_queries * f->n_keys < 1)
        return false;
    for (int i = 0; i < 4; i++) {
        const struct hrf_k_heads *x = views[i];
        const int64_t strides[3] = { x->image, x->head, x->token };
        if (x->array.type != type || x->channel != 1 || x->shared != 1)
            return false;
        for (int k = 0; k < 3; k++)
            if (strides[k] % PACK != 0)
                return false;
        memcpy(key->strides[i], strides, sizeof strides);
    }
    key->type = type;
    key->images = f->images;
    key->heads = f->heads;
    key->n_queries = f->n_queries;
    key->n_keys = f->n_keys;
    key->depth = f->depth;
    return true;
}

static cudnnBackendDescriptor_t add_view(struct hrf_cudnn_graph *g, const struct key *key,
                                         int64_t id)
{
    const int i = id == Y ? 3 : (int)id - Q;
    const bool of_queries = id == Q || id == Y;
    const int64_t dims[4] = { key->images, key->heads, of_queries ? key->n_queries : key->n_keys,
                              key->depth };
    const int64_t strides[4] = { key->strides[i][0], key->strides[i][1], key->strides[i][2], 1 };
    return hrf_cudnn_view(g, id, key->type == HRF_K_F16 ? HRF_F16 : HRF_B16, dims, strides);
}

static enum hrf_status cudnn_attention_build(cudnnHandle_t cudnn,
                                             const struct hrf_cudnn_device *properties,
                                             const struct key *key, enum hrf_cudnn_way how,
                                             struct hrf_cudnn_plan *plan, struct hrf_error *err)
{
    HRF_AUTO_RELEASE(hrf_cudnn_graph) g = { .graph = NULL };
    HRF_AUTO_RELEASE(hrf_cudnn_engines) engines = { .n_items = 0 };
    const bool by_handle = how == HRF_CUDNN_BY_HANDLE;
    cudnnBackendDescriptor_t q = add_view(&g, key, Q), k = add_view(&g, key, K);
    cudnnBackendDescriptor_t v = add_view(&g, key, V), y = add_view(&g, key, Y);
    hrf_cudnn_attend(&g, q, k, v, hrf_cudnn_number(&g, SCALE), y);
    enum hrf_status status = hrf_cudnn_graph_finish(&g, by_handle ? cudnn : NULL, err);
    if (status == HRF_OK)
        status = hrf_cudnn_engines_add(&g, properties, HRF_CUDNN_MODE_A, &engines, err);
    bool is_built = false;
    for (int32_t i = 0; status == HRF_OK && i < engines.n_items && !is_built; i++)
        is_built = engines.items[i].deterministic &&
                   hrf_cudnn_plan_build(cudnn, properties, how, &engines.items[i], plan, err) ==
                       HRF_OK;
    if (status == HRF_OK && !is_built)
        status = hrf_error_set(err, HRF_E_UNSUPPORTED, "no engine of cuDNN takes it");
    return status;
}

enum hrf_status hrf_cudnn_attention_run(const struct hrf_cudnn_plan *plan, cudnnHandle_t cudnn,
                                        const struct hrf_k_attention *f, void *workspace,
                                        struct hrf_error *err)
{
    const int64_t ids[N_IDS] = { Q, K, V, SCALE, Y };
    float scale = f->scale;
    void *const pointers[N_IDS] = { f->q.array.data, f->k.array.data, f->v.array.data, &scale,
                                    f->y.array.data };
    return hrf_cudnn_plan_run(plan, cudnn, ids, pointers, N_IDS, workspace, err);
}

/* ---- the trial ---- */

/* Elements from a view's first to behind its last image. */
static int64_t extent(const struct hrf_k_heads *x, const struct key *key, int64_t n_tokens)
{
    return key->images * x->image + key->heads * x->head + n_tokens * x->token;
}

static size_t aligned(int64_t elements)
{
    return hrf_cuda_aligned((size_t)elements * 2);
}

/* Both results from known numbers; `memory` has room for q, k, v, two of y and the workspace. */
static enum hrf_status run_both(const struct hrf_cuda_device *device, cudnnHandle_t cudnn,
                                const struct item *item, struct hrf_k_attention f, char *memory,
                                void *results[2], struct hrf_error *err)
{
    static const char what[] = "trying an attention";
    struct hrf_k_heads *const views[] = { &f.q, &f.k, &f.v };
    f.scale = 0.5f;
    for (int i = 0; i < 3; i++) {
        const int64_t n = extent(views[i], &item->key, i == 0 ? f.n_queries : f.n_keys);
        views[i]->array.data = memory;
        memory += aligned(n);
        HRF_TRY_CUDA(hrf_k_fill_pattern(views[i]->array, n, (uint64_t)(i + 1) * 1000, 64, 1.0f / 64,
                                        device->stream),
                     what);
    }
    for (int i = 0; i < 2; i++) {
        results[i] = memory;
        memory += aligned(extent(&f.y, &item->key, f.n_queries));
    }
    f.y.array.data = results[0];
    HRF_TRY(hrf_cudnn_attention_run(&item->plan, cudnn, &f, memory, err));
    f.y.array.data = results[1];
    HRF_TRY_CUDA(hrf_k_attend(&f, device->stream), what);
    return HRF_OK;
}

static enum hrf_status cudnn_attention_compare(const struct hrf_cuda_device *device,
                                               const struct item *item,
                                               const struct hrf_k_attention *f,
                                               void *const results[2], struct hrf_error *err)
{
    enum { MOST = 1 << 20 }; /* results are averages below 1: of as many, from the first on */
    const enum hrf_dtype type = item->key.type == HRF_K_F16 ? HRF_F16 : HRF_B16;
    const int64_t all = f->images * f->n_queries * f->heads * f->channels;
    const int64_t n = all < MOST ? all : MOST;
    HRF_AUTO_FREE char *raw = hrf_try_alloc_array((size_t)n, 2);
    HRF_AUTO_FREE float *numbers = hrf_try_alloc_array(2 * (size_t)n, sizeof *numbers);
    int64_t n_wrong = 0;
    HRF_CHECK_MEMORY(raw != NULL && numbers != NULL, err, "no memory for an attention's results");
    for (int i = 0; i < 2; i++) {
        HRF_TRY(hrf_cuda_read(device, results[i], (size_t)n * 2, raw, err));
        hrf_floats_from(type, raw, numbers + i * n, n);
    }
    for (int64_t i = 0; i < n; i++)
        n_wrong += !(fabsf(numbers[i] - numbers[n + i]) <= 0.004f);
    if (n_wrong > 0)
        return hrf_error_set(err, HRF_E_EXTERNAL, "%lld of %lld results are wrong",
                             (long long)n_wrong, (long long)n);
    return HRF_OK;
}

static enum hrf_status try_plan(const struct hrf_cuda_device *device, cudnnHandle_t cudnn,
                                const struct item *item, const struct hrf_k_attention *f,
                                struct hrf_error *err)
{
    void *memory = NULL, *results[2] = { NULL, NULL };
    const size_t n_bytes = aligned(extent(&f->q, &item->key, f->n_queries)) +
                           aligned(extent(&f->k, &item->key, f->n_keys)) +
                           aligned(extent(&f->v, &item->key, f->n_keys)) +
                           2 * aligned(extent(&f->y, &item->key, f->n_queries)) +
                           (size_t)item->plan.workspace_bytes;
    HRF_TRY(hrf_cuda_allocate(device, n_bytes, &memory, err));
    enum hrf_status status = run_both(device, cudnn, item, *f, memory, results, err);
    if (status == HRF_OK)
        status = cudnn_attention_compare(device, item, f, results, err);
    (void)cudaStreamSynchronize(device->stream);
    hrf_cuda_release(memory);
    return status;
}

void hrf_cudnn_attention_plan(struct hrf_attention_plans **plans,
                              const struct hrf_cuda_device *device, cudnnHandle_t cudnn,
                              const struct hrf_cudnn_device *properties,
                              const struct hrf_k_attention *f, struct hrf_strbuf *lines,
                              const struct hrf_cudnn_plan **out)
{
    struct key key;
    struct hrf_error why = { .status = HRF_OK };
    *out = NULL;
    if (!find_key(f, &key))
        return;
    if (*plans == NULL)
        *plans = hrf_calloc(1, sizeof **plans);
    for (const struct item *i = (*plans)->first; i != NULL; i = i->next)
        if (memcmp(&i->key, &key, sizeof key) == 0) {
            *out = i->is_good ? &i->plan : NULL;
            return;
        }
    struct item *item = hrf_calloc(1, sizeof *item);
    item->key = key;
    item->next = (*plans)->first;
    (*plans)->first = item;
    enum hrf_status status = HRF_E_UNSUPPORTED;
    for (int how = 0; how < HRF_CUDNN_N_WAYS && status != HRF_OK; how++)
        status = cudnn_attention_build(cudnn, properties, &key, (enum hrf_cudnn_way)how,
                                       &item->plan, &why);
    if (status == HRF_OK)
        status = try_plan(device, cudnn, item, f, &why);
    item->is_good = status == HRF_OK;
    if (!item->is_good)
        hrf_strbuf_addf(lines, "attention runs by an own kernel, not by cuDNN: %s\n", why.text);
    *out = item->is_good ? &item->plan : NULL;
}
