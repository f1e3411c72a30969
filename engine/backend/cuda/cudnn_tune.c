#include "engine/backend/cuda/cudnn_tune.h"

#include "engine/ir/graph.h"

#include <stddef.h>

enum { TIMED_RUNS = 5, LONG_MS = 10 };

/* Zeros in the place of every tensor. */
struct scratch {
    void *memory;
    int64_t ids[HRF_CUDNN_N_TENSORS];
    void *pointers[HRF_CUDNN_N_TENSORS];
    int32_t n;
    size_t n_bytes; /* handed out so far */
};

static int64_t elements(const int64_t dims[4])
{
    return dims[0] * dims[1] * dims[2] * dims[3];
}

static void add(struct scratch *s, int64_t id, int64_t n, enum hrf_dtype type)
{
    s->ids[s->n] = id;
    s->pointers[s->n] = s->memory != NULL ? (char *)s->memory + s->n_bytes : NULL;
    s->n_bytes += ((size_t)n * hrf_dtype_size(type) + 255) / 256 * 256;
    s->n++;
}

static void lay_out(struct scratch *s, const struct hrf_cudnn_conv *c)
{
    s->n = 0;
    s->n_bytes = 0;
    add(s, HRF_CUDNN_X, elements(c->x), c->type);
    add(s, HRF_CUDNN_W, elements(c->w), c->type);
    add(s, HRF_CUDNN_Y, elements(c->y), c->out_type);
    if (c->type == HRF_S8)
        add(s, HRF_CUDNN_SCALE, c->y[1], HRF_F32);
    if (c->has_bias)
        add(s, HRF_CUDNN_BIAS, c->y[1], HRF_F32);
    if (c->has_residual)
        add(s, HRF_CUDNN_RESIDUAL, elements(c->y), c->residual_type);
    if (c->has_residual && c->type == HRF_S8)
        add(s, HRF_CUDNN_RESIDUAL_SCALE, 1, HRF_F32);
    if (c->has_prologue) {
        add(s, HRF_CUDNN_PRE_SCALE, c->x[1], HRF_F32);
        add(s, HRF_CUDNN_PRE_SHIFT, c->x[1], HRF_F32);
    }
}

/* Memory for all tensors and the largest workspace; false: there is not that much. */
static bool make_scratch(const struct hrf_cuda_device *device, const struct hrf_cudnn_conv *conv,
                         int64_t workspace_bytes, struct scratch *s)
{
    *s = (struct scratch){ .memory = NULL };
    lay_out(s, conv);
    const size_t all = s->n_bytes + (size_t)workspace_bytes;
    if (hrf_cuda_allocate(device, all, &s->memory, NULL) != HRF_OK)
        return false;
    if (cudaMemsetAsync(s->memory, 0, all, device->stream) != cudaSuccess) {
        hrf_cuda_release(s->memory);
        return false;
    }
    lay_out(s, conv);
    return true;
}

static enum hrf_status queue_runs(const struct hrf_cudnn_plan *plan, cudnnHandle_t cudnn,
                                  const struct scratch *s, int n, struct hrf_error *err)
{
    for (int i = 0; i < n; i++)
        HRF_TRY(hrf_cudnn_plan_run(plan, cudnn, s->ids, s->pointers, s->n,
                                   (char *)s->memory + s->n_bytes, err));
    return HRF_OK;
}

struct stopwatch {
    cudaEvent_t begin, end;
};

static enum hrf_status time_runs(const struct hrf_cuda_device *device, cudnnHandle_t cudnn,
                                 const struct hrf_cudnn_plan *plan, const struct scratch *s,
                                 const struct stopwatch *watch, int n, float *ms_each,
                                 struct hrf_error *err)
{
    static const char what[] = "timing a convolution";
    float ms = 0;
    HRF_TRY_CUDA(cudaEventRecord(watch->begin, device->stream), what);
    HRF_TRY(queue_runs(plan, cudnn, s, n, err));
    HRF_TRY_CUDA(cudaEventRecord(watch->end, device->stream), what);
    HRF_TRY_CUDA(cudaEventSynchronize(watch->end), what);
    HRF_TRY_CUDA(cudaEventElapsedTime(&ms, watch->begin, watch->end), what);
    *ms_each = ms / (float)n;
    return HRF_OK;
}

/* The first run loads what it needs; of an image so large that one takes long, one is enough. */
static enum hrf_status time_plan(const struct hrf_cuda_device *device, cudnnHandle_t cudnn,
                                 const struct hrf_cudnn_plan *plan, const struct scratch *s,
                                 const struct stopwatch *watch, float *ms, struct hrf_error *err)
{
    HRF_TRY(queue_runs(plan, cudnn, s, 1, err));
    HRF_TRY(time_runs(device, cudnn, plan, s, watch, 1, ms, err));
    return *ms < LONG_MS ? time_runs(device, cudnn, plan, s, watch, TIMED_RUNS, ms, err) : HRF_OK;
}

void hrf_tune_build(cudnnHandle_t cudnn, const struct hrf_cudnn_device *properties,
                    struct hrf_cudnn_engines *engines, struct hrf_candidates *c,
                    struct hrf_strbuf *lines)
{
    struct hrf_error why = { .text = "" };
    c->n = 0;
    for (int32_t i = 0; i < engines->n_items && c->n < HRF_TUNE_CANDIDATES; i++)
        if (hrf_cudnn_plan_build(cudnn, properties, &engines->items[i], &c->plans[c->n], &why) ==
            HRF_OK)
            c->n++;
    if (c->n == 0)
        hrf_strbuf_addf(lines,
                        "none of %d engines for a convolution could be built, so a plain and slow "
                        "kernel runs it: %s\n",
                        (int)engines->n_items, why.text);
}

void hrf_candidates_release(struct hrf_candidates *c)
{
    while (c->n > 0)
        hrf_cudnn_plan_release(&c->plans[--c->n]);
}

static int32_t find_fastest(const struct hrf_cuda_device *device, cudnnHandle_t cudnn,
                            const struct hrf_cudnn_conv *conv, const struct hrf_candidates *c,
                            struct hrf_candidate_times *times)
{
    struct scratch scratch;
    struct stopwatch watch = { NULL, NULL };
    int64_t workspace = 0;
    int32_t best = 0;
    float least = 0;
    for (int32_t i = 0; i < c->n; i++)
        workspace = c->plans[i].workspace_bytes > workspace ? c->plans[i].workspace_bytes
                                                            : workspace;
    if (c->n < 2 || !make_scratch(device, conv, workspace, &scratch))
        return 0;
    const bool ready = cudaEventCreate(&watch.begin) == cudaSuccess &&
                       cudaEventCreate(&watch.end) == cudaSuccess;
    for (int32_t i = 0; ready && i < c->n; i++) {
        float ms = 0;
        if (time_plan(device, cudnn, &c->plans[i], &scratch, &watch, &ms, NULL) != HRF_OK)
            continue;
        times->ms[i] = ms;
        if (least == 0 || ms < least) {
            least = ms;
            best = i;
        }
    }
    if (watch.begin != NULL)
        (void)cudaEventDestroy(watch.begin);
    if (watch.end != NULL)
        (void)cudaEventDestroy(watch.end);
    (void)cudaStreamSynchronize(device->stream);
    hrf_cuda_release(scratch.memory);
    return best;
}

struct hrf_cudnn_plan hrf_tune_pick(const struct hrf_cuda_device *device, cudnnHandle_t cudnn,
                                    const struct hrf_cudnn_conv *conv, struct hrf_candidates *c,
                                    struct hrf_candidate_times *times)
{
    times->n = c->n;
    for (int32_t i = 0; i < c->n; i++) {
        times->engines[i] = c->plans[i].engine;
        times->ms[i] = -1;
    }
    const int32_t best = find_fastest(device, cudnn, conv, c, times);
    const struct hrf_cudnn_plan plan = c->plans[best];
    c->plans[best] = c->plans[--c->n];
    hrf_candidates_release(c);
    return plan;
}
