#include "engine/run/bench.h"

#include "base/clock.h"
#include "base/random.h"
#include "engine/run/calibrator.h"
#include "engine/run/session_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void *a, const void *b)
{
    double u = *(const double *)a, v = *(const double *)b;
    return u < v ? -1 : u > v;
}

static double median(double *values, int64_t n)
{
    qsort(values, (size_t)n, sizeof values[0], compare_doubles);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void fill(float *x, int64_t n)
{
    struct hrf_random random = hrf_random_init(1);
    for (int64_t k = 0; k < n; k++)
        x[k] = (float)(hrf_random_unit(&random) * 4 - 2);
}

static void fill_inputs(struct hrf_session *session)
{
    for (int32_t i = 0; i < session->graph->n_inputs; i++)
        fill(hrf_session_input(session, i), hrf_shape_count(hrf_session_input_shape(session, i)));
}

static enum hrf_status time_runs(struct hrf_session *session, double *seconds, int64_t n_runs,
                                 struct hrf_error *err)
{
    enum { WARM_UP = 2 };
    for (int64_t i = -WARM_UP; i < n_runs; i++) {
        fill_inputs(session); /* a run uses them up */
        double start = hrf_clock_seconds();
        HRF_TRY(hrf_session_run(session, err));
        if (i >= 0)
            seconds[i] = hrf_clock_seconds() - start;
    }
    return HRF_OK;
}

/* Each convolution again and again by itself, with the buffers and the epilogue that it has. */
static enum hrf_status time_convolutions(struct hrf_session *session, double *seconds,
                                         int64_t n_runs, double *sum, struct hrf_error *err)
{
    *sum = 0;
    for (int32_t n = 0; n < session->graph->n_nodes; n++) {
        if (session->graph->nodes[n].op != HRF_OP_CONV)
            continue;
        for (int64_t i = -1; i < n_runs; i++) {
            double start = hrf_clock_seconds();
            HRF_TRY(hrf_session_time_step(session, n, err));
            if (i >= 0)
                seconds[i] = hrf_clock_seconds() - start;
        }
        *sum += median(seconds, n_runs);
    }
    return HRF_OK;
}

/* Ranges of the noise that the bench feeds: as good as any for speed. */
static enum hrf_status calibrate(const struct hrf_graph *graph,
                                 const struct hrf_session_config *config,
                                 struct hrf_calibration **out, struct hrf_error *err)
{
    struct hrf_session_config full = *config;
    struct hrf_observations seen = { .items = NULL };
    struct hrf_calibrator calibrator = { .observations = &seen };
    HRF_AUTO(hrf_session) session = NULL;
    full.precision = "fp32";
    HRF_TRY(hrf_session_create(graph, &full, &session, err));
    hrf_calibrator_watch(session, &calibrator);
    fill_inputs(session);
    enum hrf_status status = hrf_session_run(session, err);
    if (status == HRF_OK)
        status = hrf_fit_all(&seen, HRF_FIT_KIND_MINMAX, out, err);
    hrf_observations_release(&seen);
    return status;
}

static void take_times(struct hrf_bench *bench, double *seconds)
{
    bench->median = median(seconds, bench->n_runs); /* sorts */
    bench->min = seconds[0];
    bench->max = seconds[bench->n_runs - 1];
}

static enum hrf_status bench(const struct hrf_graph *graph, const struct hrf_session_config *config,
                             double *seconds, int64_t n_runs, struct hrf_bench *out,
                             struct hrf_error *err)
{
    HRF_AUTO(hrf_session) session = NULL;
    double start = hrf_clock_seconds();
    HRF_TRY(hrf_session_create(graph, config, &session, err));
    struct hrf_bench bench = { .build_seconds = hrf_clock_seconds() - start,
                               .operations = session->operations,
                               .memory = session->memory,
                               .n_runs = n_runs };
    snprintf(bench.device, sizeof bench.device, "%s", hrf_session_device_name(session));
    snprintf(bench.device_in_words, sizeof bench.device_in_words, "%s",
             hrf_session_device(session));
    HRF_TRY(time_runs(session, seconds, n_runs, err));
    take_times(&bench, seconds);
    HRF_TRY(time_convolutions(session, seconds, n_runs, &bench.convolutions, err));
    *out = bench;
    return HRF_OK;
}

static enum hrf_status time_rank_runs(struct hrf_parallel *parallel,
                                      struct hrf_array_source *source, double *seconds,
                                      int64_t n_runs, struct hrf_error *err)
{
    for (int64_t i = -1; i < n_runs; i++) {
        const double start = hrf_clock_seconds();
        HRF_TRY(hrf_parallel_run(parallel, hrf_read_array, source, err));
        if (i >= 0)
            seconds[i] = hrf_clock_seconds() - start;
    }
    return HRF_OK;
}

static int64_t total_bytes(const struct hrf_session_memory *m)
{
    return m->activation_bytes + m->weight_bytes + m->workspace_bytes;
}

static enum hrf_status take_facts(struct hrf_bench *bench, const struct hrf_parallel *parallel,
                                  struct hrf_error *err)
{
    bench->ranks = hrf_calloc((size_t)bench->n_ranks, sizeof *bench->ranks);
    if (bench->ranks == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the facts of %d ranks",
                             bench->n_ranks);
    for (int32_t i = 0; i < bench->n_ranks; i++) {
        bench->ranks[i] = hrf_parallel_facts(parallel, i);
        if (total_bytes(&bench->ranks[i].memory) > total_bytes(&bench->memory))
            bench->memory = bench->ranks[i].memory;
    }
    return HRF_OK;
}

void hrf_bench_release(struct hrf_bench *bench)
{
    hrf_free(bench->ranks);
    bench->ranks = NULL;
}

static enum hrf_status bench_ranks(const struct hrf_graph *graph,
                                   const struct hrf_session_config *config,
                                   const struct hrf_layout_plan *layout, double *seconds,
                                   int64_t n_runs, struct hrf_bench *out, struct hrf_error *err)
{
    HRF_AUTO(hrf_parallel) parallel = NULL;
    struct hrf_array_source source = { .shape = graph->values[graph->inputs[0]].shape };
    const int64_t n = hrf_shape_count(&source.shape);
    HRF_AUTO_FREE float *images = hrf_alloc_array((size_t)n, sizeof *images);
    if (images == NULL)
        return hrf_error_set(err, HRF_E_NOMEM, "no memory for the images");
    fill(images, n);
    source.data = images;
    const double start = hrf_clock_seconds();
    enum { WATCHDOG_MS = 600000 };
    HRF_TRY(hrf_parallel_create(graph, config, layout, WATCHDOG_MS, &parallel, err));
    struct hrf_bench bench = { .build_seconds = hrf_clock_seconds() - start,
                               .operations = hrf_parallel_work(parallel)->operations,
                               .n_runs = n_runs,
                               .n_ranks = hrf_layout_ranks(layout) };
    HRF_TRY(time_rank_runs(parallel, &source, seconds, n_runs, err));
    take_times(&bench, seconds);
    HRF_TRY(take_facts(&bench, parallel, err));
    snprintf(bench.device, sizeof bench.device, "%s", config->device);
    snprintf(bench.device_in_words, sizeof bench.device_in_words, "%s", config->device);
    *out = bench;
    return HRF_OK;
}

enum hrf_status hrf_bench_run(const struct hrf_graph *graph,
                              const struct hrf_session_config *config,
                              const struct hrf_layout_plan *layout, int64_t n_runs,
                              struct hrf_bench *out, struct hrf_error *err)
{
    struct hrf_session_config calibrated_config = *config;
    struct hrf_calibrated calibrated = { .ranges = NULL };
    HRF_AUTO(hrf_calibration) calibration = NULL;
    if (strcmp(config->precision, "int8") == 0 && config->n_ranges == 0 &&
        !hrf_lower_brings_scales(graph)) {
        HRF_TRY(calibrate(graph, config, &calibration, err));
        HRF_TRY(hrf_calibrated_init(calibration, &calibrated, err));
        calibrated_config.ranges = calibrated.ranges;
        calibrated_config.n_ranges = calibrated.n_ranges;
    }
    HRF_AUTO_FREE double *seconds = hrf_alloc_array((size_t)n_runs, sizeof *seconds);
    enum hrf_status status = HRF_OK;
    if (seconds == NULL)
        status = hrf_error_set(err, HRF_E_NOMEM, "no memory for %lld runs", (long long)n_runs);
    else if (layout != NULL && hrf_layout_ranks(layout) > 1)
        status = bench_ranks(graph, &calibrated_config, layout, seconds, n_runs, out, err);
    else
        status = bench(graph, &calibrated_config, seconds, n_runs, out, err);
    hrf_calibrated_release(&calibrated);
    return status;
}
