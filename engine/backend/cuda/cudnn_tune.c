#include "engine/backend/cuda/cudnn_tune.h"

#include "engine/backend/cuda/cudnn_trial.h"
#include "engine/backend/cuda/kernels.h"

#include <stddef.h>

/* Candidates take turns, round after round, so that a clock that changes meanwhile changes for all
 * of them; the shortest time of each counts, since what disturbs a run only makes it longer. */
enum { TIMED_RUNS = 5, FEWEST_ROUNDS = 2, MOST_ROUNDS = 7 };
static const float long_ms = 10, enough_ms = 4; /* a run, and all rounds, of one convolution */
static const float warm_up_ms = 200;            /* until a GPU that idled has its clock back */

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

/* One of those that are timed: a plan, or the pass (NULL). */
struct runner {
    const struct hrf_cudnn_plan *plan;
    cudaGraphExec_t exec; /* NULL: running it failed */
    int n_runs;           /* in it */
    float least, most;    /* ms of one run; least < 0: none yet */
};

/* Runs before this have loaded what it needs; of an image so large that one takes long, one at a
 * time is enough. */
static void start_runner(const struct hrf_cudnn_trial *trial, cudnnHandle_t cudnn,
                         const struct stopwatch *watch, struct runner *r)
{
    float ms = 0;
    r->least = -1;
    r->n_runs = 1;
    if (record_runs(trial, r->plan, cudnn, 1, &r->exec, NULL) != HRF_OK ||
        replay(trial, r->exec, watch, &ms, NULL) != HRF_OK || ms >= long_ms)
        return;
    (void)cudaGraphExecDestroy(r->exec);
    r->exec = NULL;
    r->n_runs = TIMED_RUNS;
    if (record_runs(trial, r->plan, cudnn, TIMED_RUNS, &r->exec, NULL) != HRF_OK)
        r->exec = NULL;
}

/* Of the runs together. */
static float time_runner(const struct hrf_cudnn_trial *trial, const struct stopwatch *watch,
                         struct runner *r)
{
    float ms = 0;
    if (r->exec == NULL || replay(trial, r->exec, watch, &ms, NULL) != HRF_OK)
        return 0;
    const float each = ms / (float)r->n_runs;
    r->most = r->least < 0 || each > r->most ? each : r->most;
    r->least = r->least < 0 || each < r->least ? each : r->least;
    return ms;
}

static void time_in_turns(const struct hrf_cudnn_trial *trial, cudnnHandle_t cudnn,
                          const struct stopwatch *watch, struct runner *runners, int n)
{
    float ms = 0;
    for (int i = 0; i < n; i++)
        start_runner(trial, cudnn, watch, &runners[i]);
    for (int round = 0; round < MOST_ROUNDS && (round < FEWEST_ROUNDS || ms < enough_ms); round++)
        for (int i = 0; i < n; i++)
            ms += time_runner(trial, watch, &runners[i]);
    for (int i = 0; i < n; i++)
        if (runners[i].exec != NULL)
            (void)cudaGraphExecDestroy(runners[i].exec);
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
    struct runner runners[HRF_MOST_CANDIDATES + 1] = { { .plan = NULL } };
    const int n = c->n + (trial->second >= 0);
    int32_t best = 0;
    for (int32_t i = 0; i < c->n; i++)
        runners[i].plan = &c->plans[i];
    if (c->n > 0 && cudaEventCreate(&watch.begin) == cudaSuccess &&
        cudaEventCreate(&watch.end) == cudaSuccess) {
        time_in_turns(trial, cudnn, &watch, runners, n);
        for (int32_t i = 0; i < c->n; i++) {
            times->ms[i] = runners[i].least;
            times->spread[i] = runners[i].least > 0 ? runners[i].most / runners[i].least - 1 : 0;
            if (times->ms[best] < 0 || (times->ms[i] >= 0 && times->ms[i] < times->ms[best]))
                best = i;
        }
        times->pass_ms = n > c->n ? runners[c->n].least : times->pass_ms;
    }
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

void hrf_tune_warm_up(const struct hrf_cuda_device *device)
{
    (void)hrf_k_keep_busy(warm_up_ms,
                          device->stream); /* what fails will fail again, with a reason */
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
        times->spread[i] = 0;
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
    times->taken_spread = times->spread[best];
    *out = c->plans[best];
    c->plans[best] = c->plans[--c->n];
    hrf_candidates_release(c);
    return true;
}
