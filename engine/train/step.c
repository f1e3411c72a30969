/* step.c - a step in one piece, and the choice between that and tiles (step.h). */
#include "engine/train/step.h"

#include "engine/backend/backend.h"
#include "engine/run/nchw.h"
#include "engine/train/ranked_step.h"
#include "engine/train/step_private.h"
#include "engine/train/tiled_step.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

struct hrf_train_step {
    struct hrf_train_step_config config;
    struct hrf_trained_list trained;
    struct hrf_trained_list statistics; /* mean and variance of each BATCH_NORM by the batch */
    int64_t *counts;                    /* of each BATCH_NORM: numbers of a channel in a batch */
    /* The outputs are the loss, the gradients, and the statistics of the batch. */
    struct hrf_weighted_session whole;   /* its session is NULL: in tiles */
    struct hrf_weighted_session forward; /* likewise; with has_forward */
    struct hrf_tiled_step *tiled;        /* NULL: not in tiles */
    struct hrf_ranked_step *ranked;      /* NULL: on one rank */
    int32_t n_inputs;                    /* of the network, in one piece; then comes the target */
    int32_t *output_of;            /* [trained.n]: the output of its gradient; 0: it has none */
    int32_t of_input;              /* the output that is the gradient to input 0; 0: none */
    struct hrf_kept_memory memory; /* of the session in one piece */
    float *gradient;               /* one at a time, in ONNX order */
    bool is_changed, is_forward_changed;
    bool has_device; /* sessions compute in memory of their own device, not in the host's */
};

static void release_list(struct hrf_trained_list *list)
{
    for (int32_t i = 0; i < list->n; i++) {
        hrf_free(list->items[i].name);
        hrf_free(list->items[i].numbers);
    }
    for (int32_t i = 0; i < list->n && list->rounded != NULL; i++)
        hrf_free(list->rounded[i]);
    hrf_free(list->rounded);
    hrf_free(list->items);
    *list = (struct hrf_trained_list){ .n = 0 };
}

static enum hrf_status add_tensor(struct hrf_trained_list *list, const struct hrf_value *value,
                                  struct hrf_error *err)
{
    const size_t n_bytes = (size_t)hrf_shape_count(&value->shape) * sizeof(float);
    struct hrf_trained_tensor *t = &list->items[list->n++];
    *t = (struct hrf_trained_tensor){ .name = hrf_strdup(value->name), .shape = value->shape };
    t->numbers = hrf_alloc_aligned(n_bytes + 1, HRF_BUFFER_ALIGNMENT);
    HRF_CHECK_MEMORY(t->numbers != NULL, err, "no memory for the weights '%s'", value->name);
    memcpy(t->numbers, value->data, n_bytes);
    return HRF_OK;
}

/* ---- the graph ---- */

/* Makes plain constants of what is not to be trained: the walk back from the loss passes them
 * by. */
static void choose_weights(struct hrf_graph *graph, const struct hrf_train_step_config *config)
{
    for (int32_t v = 0; v < graph->n_values && config->is_trained != NULL; v++)
        if (graph->values[v].is_initializer)
            graph->values[v].is_initializer = config->is_trained(config->context,
                                                                 graph->values[v].name);
}

/* Appends the statistics of the batch to the graph's outputs. */
static enum hrf_status keep_statistics(struct hrf_train_step *s, struct hrf_graph *graph,
                                       const struct hrf_batch_norms *norms, struct hrf_error *err)
{
    const int32_t n_before = graph->n_outputs;
    HRF_AUTO_FREE int32_t *outputs = hrf_alloc_array((size_t)n_before + 2 * (size_t)norms->n + 1,
                                                     sizeof *outputs);
    s->statistics.items = hrf_calloc(2 * (size_t)norms->n + 1, sizeof *s->statistics.items);
    s->counts = hrf_calloc((size_t)norms->n + 1, sizeof *s->counts);
    for (int32_t i = 0; i < n_before; i++)
        outputs[i] = graph->outputs[i];
    for (int32_t i = 0; i < norms->n; i++) {
        const struct hrf_batch_norm *norm = &norms->items[i];
        outputs[n_before + 2 * i] = norm->mean;
        outputs[n_before + 2 * i + 1] = norm->variance;
        s->counts[i] = norm->count;
        HRF_TRY(add_tensor(&s->statistics, &graph->values[norm->file_mean], err));
        HRF_TRY(add_tensor(&s->statistics, &graph->values[norm->file_variance], err));
    }
    return hrf_graph_set_io(graph, graph->inputs, graph->n_inputs, outputs, n_before + 2 * norms->n,
                            err);
}

static bool is_ranked(const struct hrf_train_step_config *config)
{
    return config->layout != NULL &&
           (hrf_layout_ranks(config->layout) > 1 || config->layout->microbatches > 1);
}

/* Ranks run passes of their own over micro-batches, in host memory. */
static enum hrf_status check_device(struct hrf_train_step *s, struct hrf_error *err)
{
    const struct hrf_backend_ops *ops = NULL;
    HRF_AUTO_RELEASE(hrf_strbuf) notes = HRF_STRBUF_INIT;
    HRF_TRY(hrf_backend_choose(s->config.device, &ops, &notes, err));
    s->has_device = ops->device != NULL;
    if (s->has_device && is_ranked(&s->config))
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "training over %d ranks runs on the CPU alone: use device cpu, or one "
                             "rank on device %s",
                             hrf_layout_ranks(s->config.layout), ops->name);
    return HRF_OK;
}

/* *graph: forward, loss and gradients. */
static enum hrf_status make_graph(struct hrf_train_step *s, const struct hrf_graph *network,
                                  struct hrf_graph **graph, struct hrf_gradients *gradients,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) made = NULL;
    HRF_AUTO_RELEASE(hrf_batch_norms) norms = { .n = 0 };
    HRF_TRY(hrf_graph_copy(network, &made, err));
    choose_weights(made, &s->config);
    if (s->config.has_input_gradient)
        made->values[made->inputs[0]].is_initializer = true;
    if (is_ranked(&s->config))
        HRF_TRY(hrf_ranked_step_divide(s->config.layout, s->config.uses_batch, made, err));
    HRF_TRY(hrf_pass_training_step(made, s->config.loss, s->config.uses_batch ? &norms : NULL,
                                   gradients, err));
    if (s->trained.items == NULL)
        HRF_TRY(keep_statistics(s, made, &norms, err));
    HRF_MOVE(*graph, made);
    return HRF_OK;
}

static enum hrf_status list_trained(struct hrf_train_step *s, const struct hrf_graph *graph,
                                    const struct hrf_gradients *gradients, struct hrf_error *err)
{
    s->trained.items = hrf_calloc((size_t)gradients->n + 1, sizeof *s->trained.items);
    s->output_of = hrf_calloc((size_t)gradients->n + 1, sizeof *s->output_of);
    for (int32_t i = 0; i < gradients->n; i++) {
        const int32_t value = hrf_graph_find_value(graph, gradients->names[i]);
        if (value == graph->inputs[0])
            continue;
        HRF_TRY(add_tensor(&s->trained, &graph->values[value], err));
        s->output_of[s->trained.n - 1] = 1 + i;
    }
    if (s->config.precision != HRF_BF16)
        return HRF_OK;
    s->trained.rounded = hrf_calloc((size_t)gradients->n + 1, sizeof *s->trained.rounded);
    for (int32_t i = 0; i < s->trained.n; i++) {
        const struct hrf_trained_tensor *t = &s->trained.items[i];
        const size_t n_bytes = (size_t)hrf_shape_count(&t->shape) * sizeof(float);
        s->trained.rounded[i] = hrf_alloc_aligned(n_bytes + 1, HRF_BUFFER_ALIGNMENT);
        HRF_CHECK_MEMORY(s->trained.rounded[i] != NULL, err, "no memory for the weights '%s'",
                         t->name);
    }
    hrf_trained_round(&s->trained);
    return HRF_OK;
}

/* ---- made ready ---- */

static enum hrf_status create_gradient(struct hrf_train_step *s, struct hrf_error *err)
{
    int64_t most = 0;
    for (int32_t i = 0; i < s->trained.n; i++) {
        const int64_t n = hrf_shape_count(&s->trained.items[i].shape);
        most = n > most ? n : most;
    }
    s->gradient = hrf_try_alloc_array((size_t)most + 1, sizeof *s->gradient);
    HRF_CHECK_MEMORY(s->gradient != NULL, err, "no memory for a gradient of %" PRId64 " numbers",
                     most);
    return HRF_OK;
}

/* In FP32 for whoever reads the output. */
static enum hrf_status create_forward(struct hrf_train_step *s, const struct hrf_graph *network,
                                      struct hrf_error *err)
{
    struct hrf_train_step_config how = s->config;
    HRF_AUTO(hrf_graph) graph = NULL;
    how.precision = HRF_FP32;
    HRF_TRY(hrf_graph_copy(network, &graph, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    hrf_trained_mark(&s->trained, graph);
    return hrf_weighted_session_create(graph, &s->trained, NULL, &how, !s->has_device,
                                       s->config.memory_kept_bytes, &s->forward, err);
}

static int64_t packed_bytes(const struct hrf_weighted_session *weighted)
{
    return weighted->session != NULL ? hrf_session_memory(weighted->session).weight_bytes : 0;
}

/* Both sessions compute in the same memory, one after the other. */
static enum hrf_status lend(struct hrf_train_step *s, struct hrf_error *err)
{
    if (s->forward.session != NULL)
        HRF_TRY(hrf_session_lend_kept(s->forward.session, &s->memory, err));
    HRF_TRY(hrf_session_lend_kept(s->whole.session, &s->memory, err));
    return s->forward.session != NULL ? hrf_session_lend_kept(s->forward.session, &s->memory, err)
                                      : HRF_OK;
}

/* In the place of the session that there is, if there is one. */
static enum hrf_status create_whole(struct hrf_train_step *s, const struct hrf_graph *network,
                                    struct hrf_graph *graph, const struct hrf_gradients *gradients,
                                    struct hrf_error *err)
{
    struct hrf_weighted_session made;
    if (s->config.has_forward)
        HRF_TRY(create_forward(s, network, err));
    const int64_t kept = s->config.memory_kept_bytes + packed_bytes(&s->forward);
    HRF_TRY(hrf_weighted_session_create(graph, &s->trained, gradients, &s->config, !s->has_device,
                                        kept, &made, err));
    hrf_weighted_session_release(&s->whole);
    s->whole = made;
    s->n_inputs = network->n_inputs;
    s->is_changed = false;
    memset(s->output_of, 0, (size_t)s->trained.n * sizeof *s->output_of);
    s->of_input = 0;
    for (int32_t i = 0; i < made.n_gradients; i++) {
        /* The caller's networks have these weights alone. */
        assert(made.weights[i] >= 0 || (s->config.has_input_gradient && s->of_input == 0));
        if (made.weights[i] >= 0)
            s->output_of[made.weights[i]] = 1 + i;
        else
            s->of_input = 1 + i;
    }
    return s->has_device ? HRF_OK : lend(s, err);
}

/* In one piece if that is asked for or fits, else in tiles. */
static enum hrf_status create_sessions(struct hrf_train_step *s, const struct hrf_graph *network,
                                       struct hrf_graph *graph,
                                       const struct hrf_gradients *gradients, struct hrf_error *err)
{
    const struct hrf_train_step_config *config = &s->config;
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = HRF_E_NOMEM;
    const int32_t asked = config->has_input_gradient ? 1 : config->tiles[0] * config->tiles[1];
    assert(!config->has_input_gradient || !is_ranked(config));
    if (is_ranked(config))
        return hrf_ranked_step_create(graph, network, &s->trained, config,
                                      &network->values[network->inputs[0]].shape, &s->ranked, err);
    if (asked <= 1)
        status = create_whole(s, network, graph, gradients, &why);
    if (status != HRF_E_NOMEM || asked == 1)
        return status == HRF_OK ? HRF_OK : hrf_error_pass(err, &why);
    struct hrf_error no_tiles = { .status = HRF_OK };
    hrf_weighted_session_release(&s->forward); /* tiles have a forward of their own */
    const enum hrf_status tiled = hrf_tiled_step_create(network, &s->trained, config, &s->tiled,
                                                        &no_tiles);
    if (tiled == HRF_E_UNSUPPORTED && asked == 0)
        return hrf_error_set(err, HRF_E_NOMEM, "%s; nor in tiles: %s", why.text, no_tiles.text);
    return tiled == HRF_OK ? HRF_OK : hrf_error_pass(err, &no_tiles);
}

enum hrf_status hrf_train_step_create(const struct hrf_graph *network,
                                      const struct hrf_train_step_config *config,
                                      struct hrf_train_step **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_train_step) s = hrf_calloc(1, sizeof *s);
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO_RELEASE(hrf_gradients) gradients = { .n = 0 };
    s->config = *config;
    if (config->precision == HRF_FP16 || config->precision == HRF_INT8)
        return hrf_error_set(err, HRF_E_UNSUPPORTED,
                             "training computes in fp32, tf32 or bf16, not in %s: gradients leave "
                             "the range of the other types",
                             hrf_precision_name(config->precision));
    HRF_TRY(check_device(s, err));
    HRF_TRY(make_graph(s, network, &graph, &gradients, err));
    HRF_TRY(list_trained(s, graph, &gradients, err));
    HRF_TRY(create_gradient(s, err));
    HRF_TRY(create_sessions(s, network, graph, &gradients, err));
    HRF_MOVE(*out, s);
    return HRF_OK;
}

enum hrf_status hrf_train_step_change(struct hrf_train_step *s, const struct hrf_graph *network,
                                      struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_AUTO_RELEASE(hrf_gradients) gradients = { .n = 0 };
    assert(s->tiled == NULL && s->ranked == NULL && s->statistics.n == 0 && !s->config.has_forward);
    HRF_TRY(make_graph(s, network, &graph, &gradients, err));
    return create_whole(s, network, graph, &gradients, err);
}

void hrf_train_step_destroy(struct hrf_train_step *s)
{
    if (s == NULL)
        return;
    hrf_weighted_session_release(&s->whole);
    hrf_weighted_session_release(&s->forward);
    hrf_tiled_step_destroy(s->tiled);
    hrf_ranked_step_destroy(s->ranked);
    release_list(&s->trained);
    release_list(&s->statistics);
    hrf_free(s->counts);
    hrf_free(s->output_of);
    hrf_kept_memory_release(&s->memory);
    hrf_free(s->gradient);
    hrf_free(s);
}

/* ---- a run ---- */

float *hrf_train_step_input(struct hrf_train_step *s, int32_t i)
{
    return s->ranked != NULL  ? hrf_ranked_step_images(s->ranked)
           : s->tiled != NULL ? hrf_tiled_step_images(s->tiled)
                              : hrf_session_input(s->whole.session, i);
}

float *hrf_train_step_images(struct hrf_train_step *s)
{
    return hrf_train_step_input(s, 0);
}

float *hrf_train_step_targets(struct hrf_train_step *s)
{
    return s->ranked != NULL  ? hrf_ranked_step_targets(s->ranked)
           : s->tiled != NULL ? hrf_tiled_step_targets(s->tiled)
                              : hrf_session_input(s->whole.session, s->n_inputs);
}

void hrf_train_step_own_images(const struct hrf_train_step *s, int64_t *first, int64_t *n)
{
    *first = 0;
    *n = hrf_train_step_target_shape(s)->dims[0];
    if (s->ranked != NULL)
        hrf_ranked_step_own_images(s->ranked, first, n);
}

const struct hrf_shape *hrf_train_step_target_shape(const struct hrf_train_step *s)
{
    return s->ranked != NULL  ? hrf_ranked_step_target_shape(s->ranked)
           : s->tiled != NULL ? hrf_tiled_step_target_shape(s->tiled)
                              : hrf_session_input_shape(s->whole.session, s->n_inputs);
}

int32_t hrf_train_step_n_weights(const struct hrf_train_step *s)
{
    return s->trained.n;
}

const struct hrf_trained_tensor *hrf_train_step_weights(const struct hrf_train_step *s)
{
    return s->trained.items;
}

void hrf_train_step_set_changed(struct hrf_train_step *s)
{
    s->is_changed = true;
    s->is_forward_changed = true;
}

/* Output i of the graph of a step that is not computed in tiles. */
static const float *output_of(const struct hrf_train_step *s, int32_t i)
{
    return s->ranked != NULL ? hrf_ranked_step_output(s->ranked, i)
                             : hrf_session_output(s->whole.session, i);
}

enum hrf_status hrf_train_step_run(struct hrf_train_step *s, double *loss, struct hrf_error *err)
{
    const bool is_changed = s->is_changed;
    s->is_changed = false;
    if (is_changed)
        hrf_trained_round(&s->trained);
    if (s->tiled != NULL)
        return hrf_tiled_step_run(s->tiled, is_changed, loss, err);
    if (s->ranked != NULL) {
        HRF_TRY(hrf_ranked_step_run(s->ranked, is_changed, err));
    } else {
        if (is_changed)
            HRF_TRY(hrf_session_refresh(s->whole.session, err));
        HRF_TRY(hrf_session_run(s->whole.session, err));
    }
    *loss = (double)output_of(s, 0)[0];
    return HRF_OK;
}

float *hrf_train_step_forward_images(struct hrf_train_step *s)
{
    return s->forward.session != NULL ? hrf_session_input(s->forward.session, 0)
                                      : hrf_train_step_images(s);
}

enum hrf_status hrf_train_step_forward(struct hrf_train_step *s, float *output,
                                       struct hrf_error *err)
{
    const struct hrf_shape *shape = hrf_train_step_target_shape(s);
    const bool is_changed = s->is_forward_changed;
    s->is_forward_changed = false;
    if (s->tiled != NULL)
        return hrf_tiled_step_forward(s->tiled, is_changed, output, err);
    if (s->ranked != NULL)
        return hrf_ranked_step_forward(s->ranked, is_changed, output, err);
    if (is_changed)
        HRF_TRY(hrf_session_refresh(s->forward.session, err));
    HRF_TRY(hrf_session_run(s->forward.session, err));
    memcpy(output, hrf_session_output(s->forward.session, 0),
           (size_t)hrf_shape_count(shape) * sizeof *output);
    return HRF_OK;
}

int64_t hrf_train_step_memory(const struct hrf_train_step *s)
{
    if (s->whole.session == NULL)
        return 0;
    const struct hrf_session_memory memory = hrf_session_memory(s->whole.session);
    return hrf_session_memory_total(&memory);
}

const float *hrf_train_step_gradient(struct hrf_train_step *s, int32_t i)
{
    if (s->tiled != NULL)
        return hrf_tiled_step_gradient(s->tiled, i);
    if (s->output_of[i] == 0)
        return NULL;
    hrf_nchw_from_output(output_of(s, s->output_of[i]), &s->trained.items[i].shape, s->gradient);
    return s->gradient;
}

const float *hrf_train_step_input_gradient(const struct hrf_train_step *s)
{
    assert(s->of_input > 0);
    return hrf_session_output(s->whole.session, s->of_input);
}

int32_t hrf_train_step_n_statistics(const struct hrf_train_step *s)
{
    return s->statistics.n;
}

const struct hrf_trained_tensor *hrf_train_step_statistics(const struct hrf_train_step *s)
{
    return s->statistics.items;
}

const float *hrf_train_step_batch_statistics(const struct hrf_train_step *s, int32_t i)
{
    return output_of(s, 1 + s->trained.n + i);
}

int64_t hrf_train_step_statistics_count(const struct hrf_train_step *s, int32_t i)
{
    return s->counts[i / 2];
}

const char *hrf_train_step_text(const struct hrf_train_step *s)
{
    return s->ranked != NULL  ? hrf_ranked_step_text(s->ranked)
           : s->tiled != NULL ? hrf_tiled_step_text(s->tiled)
                              : "";
}
