/* trainer.c - the graph of a step, the session that runs it, and what is kept between steps
 * (trainer.h). */
#include "engine/train/trainer.h"

#include "engine/backend/compute.h"
#include "engine/run/nchw.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The share that a step's statistics have in the file's. Source: PyTorch's BatchNorm2d. */
static const double momentum = 0.1;

/* A tensor of the network that changes; its numbers are in ONNX order. */
struct tensor {
    char *name;
    struct hrf_shape shape;
    float *numbers;
};

struct hrf_trainer {
    struct hrf_graph *network; /* as it was read, with the input shape of a batch */
    struct hrf_session *session;
    struct hrf_optimizer *optimizer;
    /* The outputs of the session are the loss, the gradients to `weights`, and `statistics`. */
    struct tensor *weights; /* numbers: of the session's graph */
    int32_t n_weights;
    struct tensor *statistics; /* mean and variance of each BATCH_NORM by the batch; on the heap */
    int64_t *counts;           /* of each BATCH_NORM: numbers of a channel in a batch */
    int32_t n_statistics;
    float *gradient; /* one at a time, in ONNX order */
    bool is_changed; /* the kernels have older weights */
};

/* ---- the graph of a step ---- */

/* Makes constants of what is not to be trained: the walk back from the loss passes them by. */
static void choose_weights(struct hrf_graph *graph, const struct hrf_trainer_config *config)
{
    for (int32_t v = 0; v < graph->n_values && config->is_trained != NULL; v++)
        if (graph->values[v].is_initializer)
            graph->values[v].is_initializer = config->is_trained(config->context,
                                                                 graph->values[v].name);
}

static enum hrf_status copy_tensor(const struct hrf_value *value, struct tensor *out,
                                   struct hrf_error *err)
{
    const size_t n = (size_t)hrf_shape_count(&value->shape);
    *out = (struct tensor){ .name = hrf_strdup(value->name), .shape = value->shape };
    out->numbers = hrf_alloc_aligned((n + 1) * sizeof(float), HRF_BUFFER_ALIGNMENT);
    HRF_CHECK_MEMORY(out->numbers != NULL, err, "no memory for the weights '%s'", value->name);
    memcpy(out->numbers, value->data, n * sizeof(float));
    return HRF_OK;
}

/* Appends the statistics of the batch to the graph's outputs. */
static enum hrf_status keep_statistics(struct hrf_trainer *t, struct hrf_graph *graph,
                                       const struct hrf_batch_norms *norms, struct hrf_error *err)
{
    const int32_t n_before = graph->n_outputs;
    HRF_AUTO_FREE int32_t *outputs = hrf_alloc_array((size_t)n_before + 2 * (size_t)norms->n + 1,
                                                     sizeof *outputs);
    t->statistics = hrf_calloc(2 * (size_t)norms->n + 1, sizeof *t->statistics);
    t->counts = hrf_calloc((size_t)norms->n + 1, sizeof *t->counts);
    for (int32_t i = 0; i < n_before; i++)
        outputs[i] = graph->outputs[i];
    for (int32_t i = 0; i < norms->n; i++) {
        const struct hrf_batch_norm *norm = &norms->items[i];
        outputs[n_before + 2 * i] = norm->mean;
        outputs[n_before + 2 * i + 1] = norm->variance;
        t->counts[i] = norm->count;
        HRF_TRY(
            copy_tensor(&graph->values[norm->file_mean], &t->statistics[t->n_statistics++], err));
        HRF_TRY(copy_tensor(&graph->values[norm->file_variance], &t->statistics[t->n_statistics++],
                            err));
    }
    return hrf_graph_set_io(graph, graph->inputs, graph->n_inputs, outputs, n_before + 2 * norms->n,
                            err);
}

/* Makes the weights inputs, so that no pass computes with their numbers. */
static enum hrf_status open_weights(struct hrf_trainer *t, struct hrf_graph *graph,
                                    const struct hrf_gradients *gradients, struct hrf_error *err)
{
    HRF_AUTO_FREE int32_t *values = hrf_alloc_array((size_t)gradients->n + 1, sizeof *values);
    t->weights = hrf_calloc((size_t)gradients->n + 1, sizeof *t->weights);
    for (int32_t i = 0; i < gradients->n; i++) {
        values[i] = hrf_graph_find_value(graph, gradients->names[i]);
        HRF_TRY(copy_tensor(&graph->values[values[i]], &t->weights[t->n_weights++], err));
    }
    return hrf_graph_open_constants(graph, values, gradients->n, err);
}

/* *graph: forward, loss and gradients, with the weights as its last inputs. */
static enum hrf_status make_step(struct hrf_trainer *t, const struct hrf_trainer_config *config,
                                 struct hrf_graph **graph, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) step = NULL;
    HRF_AUTO_RELEASE(hrf_batch_norms) norms = { .n = 0 };
    HRF_AUTO_RELEASE(hrf_gradients) gradients = { .n = 0 };
    HRF_TRY(hrf_graph_copy(t->network, &step, err));
    if (step->n_inputs != 1)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "the network has %d inputs; training supports one",
                             (int)step->n_inputs);
    HRF_TRY(hrf_graph_infer_shapes(step, err));
    choose_weights(step, config);
    if (config->uses_batch) {
        HRF_TRY(hrf_pass_batch_statistics(step, &norms, err));
        HRF_TRY(hrf_graph_infer_shapes(step, err));
    }
    HRF_TRY(hrf_pass_gradient(step, config->loss, &gradients, err));
    HRF_TRY(keep_statistics(t, step, &norms, err));
    HRF_TRY(open_weights(t, step, &gradients, err));
    HRF_MOVE(*graph, step);
    return HRF_OK;
}

/* ---- made ready ---- */

static enum hrf_status create_session(struct hrf_trainer *t,
                                      const struct hrf_trainer_config *config,
                                      const struct hrf_graph *step, struct hrf_error *err)
{
    const struct hrf_session_config how = { .device = config->device,
                                            .precision = HRF_FP32,
                                            .n_threads = config->n_threads,
                                            .memory_limit_bytes = config->memory_limit_bytes };
    HRF_AUTO(hrf_graph) prepared = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) notes = HRF_STRBUF_INIT;
    HRF_AUTO_FREE float **numbers = hrf_alloc_array((size_t)t->n_weights + 1, sizeof *numbers);
    double operations;
    HRF_TRY(hrf_session_prepare(step, &how, &prepared, &operations, &notes, err));
    for (int32_t i = 0; i < t->n_weights; i++)
        numbers[i] = t->weights[i].numbers;
    hrf_graph_close_inputs(prepared, numbers, t->n_weights);
    const enum hrf_status status = hrf_session_create_prepared(&prepared, &how, NULL, &t->session,
                                                               err);
    if (status != HRF_OK) /* the graph that is freed here has the numbers */
        for (int32_t i = 0; i < t->n_weights; i++)
            t->weights[i].numbers = NULL;
    return status;
}

static enum hrf_status create_optimizer(struct hrf_trainer *t,
                                        const struct hrf_trainer_config *config,
                                        struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_trained_weights *weights = hrf_calloc((size_t)t->n_weights + 1,
                                                                   sizeof *weights);
    int64_t most = 0;
    for (int32_t i = 0; i < t->n_weights; i++) {
        const struct tensor *w = &t->weights[i];
        weights[i] = (struct hrf_trained_weights){ .numbers = w->numbers,
                                                   .n = hrf_shape_count(&w->shape),
                                                   .n_axes = w->shape.rank };
        most = weights[i].n > most ? weights[i].n : most;
    }
    t->gradient = hrf_try_alloc_array((size_t)most + 1, sizeof *t->gradient);
    HRF_CHECK_MEMORY(t->gradient != NULL, err, "no memory for a gradient of %" PRId64 " numbers",
                     most);
    return hrf_optimizer_create(&config->optimizer, weights, t->n_weights, &t->optimizer, err);
}

enum hrf_status hrf_trainer_create(const struct hrf_graph *network,
                                   const struct hrf_trainer_config *config,
                                   struct hrf_trainer **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_trainer) t = hrf_calloc(1, sizeof *t);
    HRF_AUTO(hrf_graph) step = NULL;
    HRF_TRY(hrf_graph_copy(network, &t->network, err));
    HRF_TRY(make_step(t, config, &step, err));
    HRF_TRY(create_session(t, config, step, err));
    HRF_TRY(create_optimizer(t, config, err));
    HRF_MOVE(*out, t);
    return HRF_OK;
}

void hrf_trainer_destroy(struct hrf_trainer *t)
{
    if (t == NULL)
        return;
    for (int32_t i = 0; i < t->n_weights; i++) {
        hrf_free(t->weights[i].name);
        if (t->session == NULL)
            hrf_free(t->weights[i].numbers);
    }
    for (int32_t i = 0; i < t->n_statistics; i++) {
        hrf_free(t->statistics[i].name);
        hrf_free(t->statistics[i].numbers);
    }
    hrf_optimizer_destroy(t->optimizer);
    hrf_session_destroy(t->session);
    hrf_graph_destroy(t->network);
    hrf_free(t->weights);
    hrf_free(t->statistics);
    hrf_free(t->counts);
    hrf_free(t->gradient);
    hrf_free(t);
}

float *hrf_trainer_images(struct hrf_trainer *t)
{
    return hrf_session_input(t->session, 0);
}

float *hrf_trainer_targets(struct hrf_trainer *t)
{
    return hrf_session_input(t->session, 1);
}

const struct hrf_shape *hrf_trainer_target_shape(const struct hrf_trainer *t)
{
    return hrf_session_input_shape(t->session, 1);
}

int64_t hrf_trainer_steps(const struct hrf_trainer *t)
{
    return hrf_optimizer_steps(t->optimizer);
}

int32_t hrf_trainer_n_weights(const struct hrf_trainer *t)
{
    return t->n_weights;
}

struct hrf_session_memory hrf_trainer_memory(const struct hrf_trainer *t)
{
    return hrf_session_memory(t->session);
}

/* ---- a step ---- */

/* The 2-norm of all gradients together. */
static enum hrf_status find_norm(const struct hrf_trainer *t, double *norm, struct hrf_error *err)
{
    double squares = 0;
    for (int32_t i = 0; i < t->n_weights; i++) {
        const double sum = hrf_sum_of_squares(hrf_session_output(t->session, 1 + i),
                                              hrf_shape_count(&t->weights[i].shape));
        if (!isfinite(sum))
            return hrf_error_set(err, HRF_E_USER,
                                 "step %" PRId64 ": the gradient to '%s' is not finite; a smaller "
                                 "learning rate or clipped gradients may help",
                                 hrf_trainer_steps(t) + 1, t->weights[i].name);
        squares += sum;
    }
    *norm = sqrt(squares);
    return HRF_OK;
}

static void update_weights(struct hrf_trainer *t, double learning_rate, double norm)
{
    hrf_optimizer_begin(t->optimizer, learning_rate, norm);
    for (int32_t i = 0; i < t->n_weights; i++) {
        hrf_nchw_from_output(hrf_session_output(t->session, 1 + i), &t->weights[i].shape,
                             t->gradient);
        hrf_optimizer_update(t->optimizer, i, t->gradient);
    }
    t->is_changed = true;
}

/* The file's mean and variance move towards the batch's; the variance towards the unbiased one. */
static void update_statistics(struct hrf_trainer *t)
{
    for (int32_t i = 0; i < t->n_statistics; i++) {
        const struct tensor *s = &t->statistics[i];
        const float *batch = hrf_session_output(t->session, 1 + t->n_weights + i);
        const double n = (double)t->counts[i / 2];
        const double unbiased = i % 2 == 1 && n > 1 ? n / (n - 1) : 1;
        for (int64_t c = 0; c < hrf_shape_count(&s->shape); c++)
            s->numbers[c] = (float)((1 - momentum) * (double)s->numbers[c] +
                                    momentum * unbiased * (double)batch[c]);
    }
}

enum hrf_status hrf_trainer_step(struct hrf_trainer *t, double learning_rate, double *loss,
                                 struct hrf_error *err)
{
    double norm = 0;
    if (t->is_changed)
        HRF_TRY(hrf_session_refresh(t->session, err));
    t->is_changed = false;
    HRF_TRY(hrf_session_run(t->session, err));
    *loss = (double)hrf_session_output(t->session, 0)[0];
    if (!isfinite(*loss))
        return hrf_error_set(err, HRF_E_USER,
                             "step %" PRId64 ": the loss is not finite; a smaller learning rate or "
                             "clipped gradients may help",
                             hrf_trainer_steps(t) + 1);
    HRF_TRY(find_norm(t, &norm, err));
    update_weights(t, learning_rate, norm);
    update_statistics(t);
    return HRF_OK;
}

/* ---- the network, and the state ---- */

static enum hrf_status set_numbers(struct hrf_graph *graph, const char *name, const float *numbers,
                                   struct hrf_error *err)
{
    struct hrf_value *value = &graph->values[hrf_graph_find_value(graph, name)];
    const size_t n_bytes = (size_t)hrf_shape_count(&value->shape) * sizeof(float);
    void *copy = hrf_alloc_aligned(n_bytes + 1, HRF_BUFFER_ALIGNMENT);
    HRF_CHECK_MEMORY(copy != NULL, err, "no memory for the weights '%s'", name);
    memcpy(copy, numbers, n_bytes);
    hrf_value_release_data(value);
    value->data = copy;
    value->is_borrowed = false;
    hrf_value_own_data(value);
    return HRF_OK;
}

enum hrf_status hrf_trainer_network(const struct hrf_trainer *t, struct hrf_graph **out,
                                    struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_graph_copy(t->network, &graph, err));
    for (int32_t i = 0; i < t->n_weights; i++)
        HRF_TRY(
            set_numbers(graph, t->weights[i].name, hrf_optimizer_average(t->optimizer, i), err));
    for (int32_t i = 0; i < t->n_statistics; i++)
        HRF_TRY(set_numbers(graph, t->statistics[i].name, t->statistics[i].numbers, err));
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

static size_t tensor_bytes(const struct tensor *tensor)
{
    return (size_t)hrf_shape_count(&tensor->shape) * sizeof(float);
}

static size_t state_bytes(const struct hrf_trainer *t)
{
    size_t n_bytes = (size_t)hrf_optimizer_state_bytes(t->optimizer);
    for (int32_t i = 0; i < t->n_weights; i++)
        n_bytes += tensor_bytes(&t->weights[i]);
    for (int32_t i = 0; i < t->n_statistics; i++)
        n_bytes += tensor_bytes(&t->statistics[i]);
    return n_bytes;
}

void hrf_trainer_append_state(const struct hrf_trainer *t, struct hrf_strbuf *out)
{
    const size_t n_bytes = (size_t)hrf_optimizer_state_bytes(t->optimizer);
    HRF_AUTO_FREE void *of_optimizer = hrf_alloc(n_bytes);
    hrf_optimizer_get_state(t->optimizer, of_optimizer);
    for (int32_t i = 0; i < t->n_weights; i++)
        hrf_strbuf_add(out, t->weights[i].numbers, tensor_bytes(&t->weights[i]));
    for (int32_t i = 0; i < t->n_statistics; i++)
        hrf_strbuf_add(out, t->statistics[i].numbers, tensor_bytes(&t->statistics[i]));
    hrf_strbuf_add(out, of_optimizer, n_bytes);
}

enum hrf_status hrf_trainer_set_state(struct hrf_trainer *t, const void *bytes, size_t n_bytes,
                                      struct hrf_error *err)
{
    const char *at = bytes;
    if (n_bytes != state_bytes(t))
        return hrf_error_set(err, HRF_E_USER,
                             "the state has %zu bytes, and that of this network and optimiser has "
                             "%zu",
                             n_bytes, state_bytes(t));
    for (int32_t i = 0; i < t->n_weights; i++) {
        memcpy(t->weights[i].numbers, at, tensor_bytes(&t->weights[i]));
        at += tensor_bytes(&t->weights[i]);
    }
    for (int32_t i = 0; i < t->n_statistics; i++) {
        memcpy(t->statistics[i].numbers, at, tensor_bytes(&t->statistics[i]));
        at += tensor_bytes(&t->statistics[i]);
    }
    hrf_optimizer_set_state(t->optimizer, at);
    t->is_changed = true;
    return HRF_OK;
}
