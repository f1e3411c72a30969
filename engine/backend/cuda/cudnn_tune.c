#include "engine/backend/cuda/cudnn_tune.h"

#include "engine/backend/cuda/cudnn_trial.h"

#include <stddef.h>

enum { TIMED_RUNS = 5, LONG_MS = 10 };

/* ---- timing ---- */

struct stopwatch {
    cudaEvent_t begin, end;
};

/* `plan` NULL: the pass that makes the second output. */
static enum hrf_status queue_runs(const struct hrf_cudnn_trial *trial,
                                  const struct hrf_cudnn_plan *plan, cudnnHandle_t cudnn, int n,
                                  struct hrf_error *err)
{
    for (int i = 0; i < n; i++)
        HRF_TRY(plan != NULL ? hrf_cudnn_trial_run(trial, plan, cudnn, err)
                             : hrf_cudnn_trial_pass(trial, err));
    return HRF_OK;
}

/* n runs as one graph, as a network's runs are. */
static enum hrf_status record_runs(const struct hrf_cudnn_trial *trial,
                                   const struct hrf_cudnn_plan *plan, cudnnHandle_t cudnn, int n,
                                   cudaGraphExec_t *out, struct hrf_error *err)
{
    static const char what[] = "recording a convolution";
    cudaStream_t stream = trial->device->stream;
    cudaGraph_t graph = NULL;
    HRF_TRY_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), what);
    const enum hrf_status queued = queue_runs(trial, plan, cudnn, n, err);
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    cudaError_t made = ended;
    if (ended == cudaSuccess) {
        made = cudaGraphInstantiate(out, graph, 0);
        (void)cudaGraphDestroy(graph);
    }
    HRF_TRY(queued);
    HRF_TRY_CUDA(made, what);
    return HRF_OK;
}

static enum hrf_status replay(const struct hrf_cudnn_trial *trial, cudaGraphExec_t exec,
                              const struct stopwatch *watch, float *ms, struct hrf_error *err)
{
    static const char what[] = "timing a convolution";
    cudaStream_t stream = trial->device->stream;
    HRF_TRY_CUDA(cudaEventRecord(watch->begin, stream), what);
    HRF_TRY_CUDA(cudaGraphLaunch(exec, stream), what);
    HRF_TRY_CUDA(cudaEventRecord(watch->end, stream), what);
    HRF_TRY_CUDA(cudaEventSynchronize(watch->end), what);
    HRF_TRY_CUDA(cudaEventElapsedTime(ms, watch->begin, watch->end), what);
    return HRF_OK;
}

static enum hrf_status time_runs(const struct hrf_cudnn_trial *trial,
                                 const struct hrf_cudnn_plan *plan, cudnnHandle_t cudnn,
                                 const struct stopwatch *watch, int n, float *ms_each,
                                 struct hrf_error *err)
{
    cudaGraphExec_t exec = NULL;
    float ms = 0;
    HRF_TRY(record_runs(trial, plan, cudnn, n, &exec, err));
    const enum hrf_status status = replay(trial, exec, watch, &ms, err);
    (void)cudaGraphExecDestroy(exec);
    *ms_each = ms / (float)n;
    return status;
}

/* Runs before this have loaded what it needs; of an image so large that one takes long, one is
 * enough. */
static enum hrf_status time_plan(const struct hrf_cudnn_trial *trial,
                                 const struct hrf_cudnn_plan *plan, cudnnHandle_t cudnn,
                                 const struct stopwatch *watch, float *ms, struct hrf_error *err)
{
    HRF_TRY(time_runs(trial, plan, cudnn, watch, 1, ms, err));
    return *ms < LONG_MS ? time_runs(trial, plan, cudnn, watch, TIMED_RUNS, ms, err) : HRF_OK;
}

/* ---- choosing ---- */

static void take_away(struct hrf_candidates *c, int32_t i, struct hrf_candidate_times *times)
{
    hrf_cudnn_plan_release(&c->plans[i]);
    c->plans[i] = c->plans[c->n - 1];
    times->engines[i] = times->engines[c->n - 1];
    c->n--;
    times->n--;
}

static void drop_wrong_ones(const struct hrf_cudnn_trial *trial, cudnnHandle_t cudnn,
                            struct hrf_candidates *c, struct hrf_candidate_times *times,
                            struct hrf_strbuf *lines)
{
    struct hrf_error why = { .text = "" };
    for (int32_t i = c->n - 1; i >= 0; i--)
        if (hrf_cudnn_trial_check(trial, &c->plans[i], cudnn, &why) != HRF_OK) {
            hrf_strbuf_addf(lines, "cuDNN's engine %d for a convolution is left out: %s\n",
                            (int)c->plans[i].engine, why.text);
            take_away(c, i, times);
            times->n_wrong++;
        }
}

/* Whether a is to be preferred to b, whatever they take. */
static bool rounds_better(enum hrf_arithmetic a, int64_t engine_a, enum hrf_arithmetic b,
                          int64_t engine_b)
{
    return a != b ? a < b : a == HRF_ARITHMETIC_OTHER && engine_a < engine_b;
}

/* Keeps those that round as the best one does. */
static void keep_one_arithmetic(const struct hrf_cudnn_trial *trial, cudnnHandle_t cudnn,
                                struct hrf_candidates *c, struct hrf_candidate_times *times)
{
    enum hrf_arithmetic found[HRF_MOST_CANDIDATES];
    int32_t best = 0;
    for (int32_t i = 0; i < c->n; i++) {
        if (hrf_cudnn_trial_arithmetic(trial, &c->plans[i], cudnn, &found[i], NULL) != HRF_OK)
            found[i] = HRF_ARITHMETIC_OTHER;
        if (rounds_better(found[i], c->plans[i].engine, found[best], c->plans[best].engine))
            best = i;
    }
    if (c->n == 0)
        return;
    const int64_t engine = c->plans[best].engine;
    times->arithmetic = found[best];
    for (int32_t i = c->n - 1; i >= 0; i--)
        if (rounds_better(times->arithmetic, engine, found[i], c->plans[i].engine)) {
            found[i] = found[c->n - 1];
            take_away(c, i, times);
            times->n_otherwise++;
        }
}

/* One alone is timed, too: two outputs are compared with a convolution and a pass. */
static int32_t find_fastest(const struct hrf_cudnn_trial *trial, cudnnHandle_t cudnn,
                            const struct hrf_candidates *c, struct hrf_candidate_times *times)
{
    struct stopwatch watch = { NULL, NULL };
    int32_t best = 0;
    const bool ready = c->n > 0 && cudaEventCreate(&watch.begin) == cudaSuccess &&
                       cudaEventCreate(&watch.end) == cudaSuccess;
    for (int32_t i = 0; ready && i < c->n; i++) {
        float ms = 0;
        if (time_plan(trial, &c->plans[i], cudnn, &watch, &ms, NULL) != HRF_OK)
            continue;
        times->ms[i] = ms;
        if (times->ms[best] < 0 || ms < times->ms[best])
            best = i;
    }
    float ms = 0;
    if (ready && trial->second >= 0 && time_plan(trial, NULL, cudnn, &watch, &ms, NULL) == HRF_OK)
        times->pass_ms = ms;
    if (watch.begin != NULL)
        (void)cudaEventDestroy(watch.begin);
    if (watch.end != NULL)
        (void)cudaEventDestroy(watch.end);
    return best;
}

static int64_t most_workspace(const struct hrf_candidates *c)
{
    int64_t most = 0;
    for (int32_t i = 0; i < c->n; i++)
        most = c->plans[i].workspace_bytes > most ? c->plans[i].workspace_bytes : most;
    return most;
}

bool hrf_tune_pick(const struct hrf_cuda_device *device, cudnnHandle_t cudnn,
                   const struct hrf_cudnn_conv *conv, struct hrf_candidates *c,
                   struct hrf_cudnn_plan *out, struct hrf_candidate_times *times,
                   struct hrf_strbuf *lines)
{
    struct hrf_cudnn_trial trial;
    int32_t best = 0;
    *times = (struct hrf_candidate_times){ .n = c->n, .taken_ms = -1, .pass_ms = -1 };
    for (int32_t i = 0; i < c->n; i++) {
        times->engines[i] = c->plans[i].engine;
        times->ms[i] = -1;
    }
    if (hrf_cudnn_trial_init(device, conv, most_workspace(c), &trial)) {
        drop_wrong_ones(&trial, cudnn, c, times, lines);
        keep_one_arithmetic(&trial, cudnn, c, times);
        best = find_fastest(&trial, cudnn, c, times);
    }
    hrf_cudnn_trial_release(&trial);
    if (c->n == 0) {
        hrf_strbuf_addf(lines, "no engine is left for a convolution%s\n",
                        conv->has_second ? " with a second output: a pass of its own computes that"
                                         : ": a plain and slow kernel runs it");
        return false;
    }
    times->taken_ms = times->ms[best];
    *out = c->plans[best];
    c->plans[best] = c->plans[--c->n];
    hrf_candidates_release(c);
    return true;
}
