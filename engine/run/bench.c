/* bench.c - times whole networks and single layers on seeded noise (bench.h). */
#include "engine/run/bench.h"

#include "base/clock.h"
#include "base/own_process.h"
#include "base/random.h"
#include "base/sort.h"
#include "engine/ir/number.h"
#include "engine/run/agree.h"
#include "engine/run/calibrator.h"
#include "engine/run/session_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Noise: a row of any image is a part of one table, so that images of any size need only a copy.
 * The tokens of [N][T][C] are the rows of an image of one column, as their boxes are. */
enum { NOISE_SHIFTS = 4096 };
struct noise {
    float *table; /* [row + NOISE_SHIFTS] */
    int64_t channels, columns, rows, per_image;
};

static void noise_init(const struct hrf_shape *shape, struct noise *noise)
{
    const bool is_image = shape->rank == 4, is_tokens = shape->rank == 3;
    *noise = (struct noise){ .channels = is_image    ? shape->dims[1]
                                         : is_tokens ? shape->dims[2]
                                                     : 1,
                             .rows = is_image    ? shape->dims[2]
                                     : is_tokens ? shape->dims[1]
                                                 : 1,
                             .per_image = hrf_shape_count(shape) /
                                          (shape->rank > 0 ? shape->dims[0] : 1) };
    noise->columns = noise->per_image / noise->channels / noise->rows;
    const int64_t n = noise->columns * noise->channels + NOISE_SHIFTS;
    noise->table = hrf_alloc_array((size_t)n, sizeof *noise->table);
    fill(noise->table, n);
}

static enum hrf_status read_noise(void *context, int32_t input, int64_t first, int64_t n,
                                  const struct hrf_box *box, float *out, struct hrf_error *err)
{
    (void)err;
    const struct noise *noise = (const struct noise *)context + input;
    const bool is_image = noise->per_image > noise->columns;
    const int64_t x0 = is_image ? box->lo[1] : 0, x1 = is_image ? box->hi[1] : noise->columns;
    for (int64_t i = first; i < first + n; i++)
        for (int64_t y = is_image ? box->lo[0] : 0; y < (is_image ? box->hi[0] : 1); y++) {
            const uint64_t shift = (uint64_t)(i * noise->rows + y) * 2654435761U % NOISE_SHIFTS;
            const size_t count = (size_t)((x1 - x0) * noise->channels);
            memcpy(out, noise->table + shift + (uint64_t)(x0 * noise->channels),
                   count * sizeof *out);
            out += count;
        }
    return HRF_OK;
}

static int64_t warm_up(int64_t n_runs)
{
    return n_runs > 1 ? 2 : 0;
}

/* The graph's last inputs, if they are weights that change from run to run. */
struct changing {
    const struct hrf_session_config *session; /* its variables and their rounded copies */
    int64_t *counts;                          /* of each; owned */
};

static struct changing changing_of(const struct hrf_graph *graph,
                                   const struct hrf_session_config *session)
{
    const int32_t n = session->n_variables, first = graph->n_inputs - n;
    struct changing c = { session, hrf_calloc((size_t)n + 1, sizeof *c.counts) };
    for (int32_t i = 0; i < n; i++)
        c.counts[i] = hrf_shape_count(&graph->values[graph->inputs[first + i]].shape);
    return c;
}

static int64_t count_bytes(const struct changing *c)
{
    int64_t n_floats = 0;
    for (int32_t i = 0; i < c->session->n_variables; i++)
        n_floats += c->counts[i] * (c->session->rounded[i] != NULL ? 2 : 1);
    return n_floats * (int64_t)sizeof(float);
}

/* What a step of training does with weights that the step before has updated. */
static enum hrf_status change(struct hrf_network *network, const struct changing *c,
                              struct hrf_error *err)
{
    for (int32_t i = 0; i < c->session->n_variables; i++)
        if (c->session->rounded[i] != NULL)
            hrf_round_floats(HRF_B16, c->session->variables[i], c->session->rounded[i],
                             c->counts[i]);
    return c->session->n_variables > 0 ? hrf_network_refresh(network, err) : HRF_OK;
}

/* *processor: processor seconds of all threads in one run. */
static enum hrf_status time_runs(struct hrf_network *network, const struct changing *changing,
                                 struct noise *noise, double *seconds, int64_t n_runs,
                                 double *processor, struct hrf_error *err)
{
    double spent = 0;
    for (int64_t i = -warm_up(n_runs); i < n_runs; i++) {
        const double start = hrf_clock_seconds();
        if (i == 0)
            spent = hrf_clock_process_seconds();
        HRF_TRY(change(network, changing, err));
        HRF_TRY(hrf_network_run(network, read_noise, noise, err));
        if (i >= 0)
            seconds[i] = hrf_clock_seconds() - start;
    }
    *processor = (hrf_clock_process_seconds() - spent) / (double)n_runs;
    return HRF_OK;
}

static bool reads_an_input(const struct hrf_graph *graph, const struct hrf_node *node)
{
    for (int32_t i = 0; i < node->n_inputs; i++)
        for (int32_t k = 0; k < graph->n_inputs; k++)
            if (node->inputs[i] == graph->inputs[k])
                return true;
    return false;
}

static void take_product(const struct hrf_graph *graph, const struct hrf_node *node,
                         struct hrf_bench_layer *out)
{
    const bool is_conv = node->op == HRF_OP_CONV;
    if (!is_conv && node->op != HRF_OP_GEMM && node->op != HRF_OP_TOKEN_PRODUCT)
        return;
    const struct hrf_value *w = &graph->values[node->inputs[HRF_CONV_WEIGHTS]];
    const struct hrf_shape *x = &graph->values[node->inputs[HRF_CONV_X]].shape;
    const struct hrf_shape *y = &graph->values[node->outputs[0]].shape;
    const int64_t *stride = node->attributes.window.stride;
    if (w->producer >= 0 || hrf_shape_count(y) == 0 ||
        (is_conv && (w->shape.dims[2] != 1 || w->shape.dims[3] != 1 || stride[0] != 1 ||
                     stride[1] != 1 || node->attributes.group != 1)))
        return;
    out->depth = hrf_shape_innermost(x);
    out->columns = hrf_shape_innermost(y);
    out->rows = hrf_shape_count(y) / out->columns;
    out->weights = w->dtype;
}

static enum hrf_status time_layer(struct hrf_session *session, int32_t step, double *seconds,
                                  int64_t n_runs, struct hrf_bench_layer *out,
                                  struct hrf_error *err)
{
    const struct hrf_node *node = &session->graph->nodes[session->plan->steps[step].node];
    if (reads_an_input(session->graph, node))
        fill_inputs(session); /* a run overwrites its inputs */
    for (int64_t i = -1; i < n_runs; i++) {
        const double start = hrf_clock_seconds();
        HRF_TRY(hrf_session_time_step(session, step, err));
        if (i >= 0)
            seconds[i] = hrf_clock_seconds() - start;
    }
    out->op = node->op;
    out->operations = hrf_node_operations(session->graph, node);
    take_product(session->graph, node, out);
    out->alone = hrf_median(seconds, (size_t)n_runs);
    out->name = hrf_strdup(node->name);
    const bool is_second = step > 0 && session->plan->steps[step - 1].is_fused &&
                           hrf_graph_is_second(session->graph, node);
    out->implementation = hrf_strdup(is_second ? "a second output of the layer before"
                                               : session->kernels[step]->implementation);
    return HRF_OK;
}

/* Times the steps one after the other, in the order of a run. */
static enum hrf_status time_in_network(struct hrf_session *session, int64_t n_runs,
                                       struct hrf_bench *bench, struct hrf_error *err)
{
    HRF_AUTO_FREE double *seconds = hrf_alloc_array((size_t)(bench->n_layers * n_runs) + 1,
                                                    sizeof *seconds);
    for (int64_t r = 0; r < n_runs; r++) {
        fill_inputs(session);
        for (int32_t i = 0; i < bench->n_layers; i++) {
            const double start = hrf_clock_seconds();
            HRF_TRY(hrf_session_time_step(session, i, err));
            seconds[i * n_runs + r] = hrf_clock_seconds() - start;
        }
    }
    for (int32_t i = 0; i < bench->n_layers; i++)
        bench->layers[i].in_network = hrf_median(seconds + i * n_runs, (size_t)n_runs);
    return HRF_OK;
}

static enum hrf_status time_layers(struct hrf_session *session, double *seconds, int64_t n_runs,
                                   struct hrf_bench *bench, struct hrf_error *err)
{
    bench->layers = hrf_calloc((size_t)session->plan->n_steps + 1, sizeof *bench->layers);
    bench->convolutions = 0;
    for (int32_t i = 0; i < session->plan->n_steps; i++) {
        struct hrf_bench_layer *layer = &bench->layers[bench->n_layers++];
        HRF_TRY(time_layer(session, i, seconds, n_runs, layer, err));
        if (layer->op == HRF_OP_CONV)
            bench->convolutions += layer->alone;
    }
    return time_in_network(session, n_runs, bench, err);
}

/* INT8 ranges of the noise. They need not be good: speed does not depend on them. */
static enum hrf_status calibrate(const struct hrf_graph *graph,
                                 const struct hrf_session_config *config,
                                 struct hrf_calibration **out, struct hrf_error *err)
{
    struct hrf_session_config full = *config;
    HRF_AUTO_RELEASE(hrf_observations) seen = { .items = NULL };
    struct hrf_calibrator calibrator = { .observations = &seen };
    HRF_AUTO(hrf_session) session = NULL;
    full.precision = HRF_FP32;
    full.every_tensor = true;
    HRF_TRY(hrf_session_create(graph, &full, &session, err));
    hrf_calibrator_watch(session, &calibrator);
    fill_inputs(session);
    HRF_TRY(hrf_session_run(session, err));
    return hrf_fit_all(&seen, HRF_FIT_MINMAX, out, err);
}

static enum hrf_status take_facts(struct hrf_bench *bench, const struct hrf_network *network,
                                  const struct hrf_layout_plan *layout, struct hrf_error *err)
{
    const bool is_shared = hrf_network_transport(network) != NULL;
    bench->memory = hrf_network_memory(network);
    bench->operations = hrf_network_operations(network);
    bench->n_ranks = 1;
    bench->bands = (struct hrf_bands_plan){ .n_bands = 1, .recomputed = 1 };
    if (hrf_network_banded(network) != NULL)
        bench->bands = hrf_banded_facts(hrf_network_banded(network)).plan;
    if (!is_shared)
        return HRF_OK;
    bench->n_ranks = hrf_layout_ranks(layout);
    bench->ranks = hrf_calloc((size_t)bench->n_ranks, sizeof *bench->ranks);
    HRF_TRY(hrf_network_facts(network, bench->ranks, err));
    for (int32_t i = 0; i < bench->n_ranks; i++)
        if (hrf_session_memory_total(&bench->ranks[i].memory) >
            hrf_session_memory_total(&bench->memory))
            bench->memory = bench->ranks[i].memory;
    return HRF_OK;
}

/* Adds up the processor time of all processes on rank 0. */
static enum hrf_status sum_processor(struct hrf_comm *comm, double *seconds, struct hrf_error *err)
{
    if (comm == NULL)
        return HRF_OK;
    HRF_AUTO_FREE double *all = hrf_calloc((size_t)comm->n_ranks, sizeof *all);
    HRF_TRY(hrf_gather(comm, seconds, sizeof *seconds, all, err));
    for (int32_t r = 1; r < comm->n_ranks; r++)
        *seconds += all[r];
    return HRF_OK;
}

static void take_device(struct hrf_bench *bench, struct hrf_network *network)
{
    const struct hrf_session *session = hrf_network_session(network);
    bench->transport = hrf_network_transport(network);
    snprintf(bench->device, sizeof bench->device, "%s", hrf_network_device_name(network));
    snprintf(bench->device_in_words, sizeof bench->device_in_words, "%s",
             session != NULL ? hrf_session_device(session) : hrf_network_device_name(network));
}

void hrf_bench_release(struct hrf_bench *bench)
{
    for (int32_t i = 0; i < bench->n_layers; i++) {
        hrf_free(bench->layers[i].name);
        hrf_free(bench->layers[i].implementation);
    }
    hrf_free(bench->layers);
    hrf_free(bench->ranks);
    *bench = (struct hrf_bench){ .n_layers = 0 };
}

static enum hrf_status bench(struct hrf_graph *graph, const struct hrf_network_config *config,
                             const struct changing *changing, struct noise *noise, int64_t n_runs,
                             bool with_layers, struct hrf_bench *out, struct hrf_error *err)
{
    HRF_AUTO(hrf_network) network = NULL;
    HRF_AUTO_FREE double *seconds = hrf_alloc_array((size_t)n_runs, sizeof *seconds);
    const double start = hrf_clock_seconds();
    HRF_TRY(hrf_network_create(graph, config, &network, err));
    hrf_graph_drop_constants(graph);
    hrf_memory_trim();
    struct hrf_bench bench = { .build_seconds = hrf_clock_seconds() - start,
                               .convolutions = NAN,
                               .n_runs = n_runs,
                               .n_all_runs = n_runs + warm_up(n_runs) };
    HRF_TRY(time_runs(network, changing, noise, seconds, n_runs, &bench.processor, err));
    bench.median = hrf_median(seconds, (size_t)n_runs); /* sorts */
    bench.min = seconds[0];
    bench.max = seconds[n_runs - 1];
    enum hrf_status status = HRF_OK;
    if (with_layers && hrf_network_session(network) != NULL)
        status = time_layers(hrf_network_session(network), seconds, n_runs, &bench, err);
    if (status == HRF_OK)
        status = take_facts(&bench, network, config->layout, err);
    bench.memory.weight_bytes += count_bytes(changing); /* beside what kernels pack */
    if (status == HRF_OK)
        status = sum_processor(config->comm, &bench.processor, err);
    take_device(&bench, network);
    bench.resident_bytes = hrf_memory_resident();
    if (status == HRF_OK)
        *out = bench;
    else
        hrf_bench_release(&bench);
    return status;
}

enum hrf_status hrf_bench_run(struct hrf_graph *graph, const struct hrf_network_config *config,
                              int64_t n_runs, bool with_layers, struct hrf_bench *out,
                              struct hrf_error *err)
{
    struct hrf_network_config whole = *config;
    HRF_AUTO_RELEASE(hrf_calibrated) calibrated = { .ranges = NULL };
    HRF_AUTO(hrf_calibration) calibration = NULL;
    HRF_AUTO_FREE struct noise *noise = hrf_calloc((size_t)graph->n_inputs, sizeof *noise);
    const int32_t n_inputs = graph->n_inputs;
    const struct changing changing = changing_of(graph, &config->session);
    if (hrf_precision_row(config->session.precision)->needs_scales &&
        config->session.n_ranges == 0 && !hrf_lower_brings_scales(graph)) {
        const enum hrf_status done = calibrate(graph, &config->session, &calibration, err);
        if (done != HRF_OK) {
            hrf_free(changing.counts);
            return done;
        }
        hrf_calibrated_init(calibration, &calibrated);
        whole.session.ranges = calibrated.ranges;
        whole.session.n_ranges = calibrated.n_ranges;
    }
    for (int32_t i = 0; i < n_inputs; i++)
        noise_init(&graph->values[graph->inputs[i]].shape, &noise[i]);
    enum hrf_status status = bench(graph, &whole, &changing, noise, n_runs, with_layers, out, err);
    for (int32_t i = 0; i < n_inputs; i++)
        hrf_free(noise[i].table);
    hrf_free(changing.counts);
    return status;
}
