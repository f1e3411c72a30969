/* slide_trainer.c - see slide_trainer.h. */
#include "training/loop/slide_trainer.h"

#include "base/random.h"
#include "engine/run/agree.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct hrf_slide_trainer {
    struct hrf_graph *network; /* the encoder's, as it was given */
    struct hrf_trainer *encoder;
    struct hrf_bag_step *bag;
    struct hrf_trainer *head;
    struct hrf_head *form; /* the head: its kind and sizes, and the weights that were asked for */
    struct hrf_comm *comm; /* borrowed; NULL: this process is alone */
    double head_rate, skipped;
    int64_t most;                 /* patches of a bag */
    float *embeddings, *gradient; /* of a bag, [most][width]; the gradient of the loss to them */
    float **sums;                 /* of the head's gradients, [weights], in ONNX order ... */
    bool *has_sum;                /* ... of those that the bags of the step have */
    double loss;                  /* of the bags of the step so far */
    int64_t n_counted;
};

/* ---- made ready ---- */

static enum hrf_status find_width(const struct hrf_graph *network, int64_t *width,
                                  struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_graph_copy(network, &graph, err));
    HRF_TRY(hrf_graph_infer_shapes(graph, err));
    const struct hrf_shape *shape = &graph->values[graph->outputs[0]].shape;
    *width = hrf_shape_count(shape) / shape->dims[0];
    return HRF_OK;
}

/* Bytes of the trained weights' gradients. */
static int64_t gradient_bytes(const struct hrf_graph *network,
                              const struct hrf_train_step_config *config)
{
    int64_t sum = 0;
    for (int32_t v = 0; v < network->n_values; v++) {
        const struct hrf_value *value = &network->values[v];
        if (value->is_initializer &&
            (config->is_trained == NULL || config->is_trained(config->context, value->name)))
            sum += hrf_value_bytes(value);
    }
    return sum;
}

static enum hrf_status allocate(struct hrf_slide_trainer *t, struct hrf_error *err)
{
    const size_t n = (size_t)(t->most * t->form->form.width);
    struct hrf_train_step *step = hrf_trainer_next(t->head);
    const int32_t n_weights = hrf_train_step_n_weights(step);
    t->embeddings = hrf_try_alloc_array(n + 1, sizeof *t->embeddings);
    t->gradient = hrf_try_alloc_array(n + 1, sizeof *t->gradient);
    HRF_CHECK_MEMORY(t->embeddings != NULL && t->gradient != NULL, err,
                     "no memory for %lld embeddings of %lld numbers", (long long)t->most,
                     (long long)t->form->form.width);
    t->sums = hrf_calloc((size_t)n_weights + 1, sizeof *t->sums);
    t->has_sum = hrf_calloc((size_t)n_weights + 1, sizeof *t->has_sum);
    for (int32_t i = 0; i < n_weights; i++)
        t->sums[i] = hrf_calloc((size_t)hrf_shape_count(&hrf_train_step_weights(step)[i].shape) + 1,
                                sizeof(float));
    return HRF_OK;
}

/* Of the largest bag, whose network has all weights; each bag changes to its own. */
static enum hrf_status create_head(struct hrf_slide_trainer *t,
                                   const struct hrf_slide_trainer_config *config,
                                   int64_t kept_bytes, struct hrf_error *err)
{
    const struct hrf_head_step any = { .n = t->most, .label = -1 };
    const struct hrf_train_step_config *of_encoder = &config->encoder.step;
    const struct hrf_trainer_config of_head = {
        .step = { .device = of_encoder->device,
                  .precision = HRF_FP32,
                  .loss = HRF_LOSS_LINEAR,
                  .has_input_gradient = true,
                  .n_threads = of_encoder->n_threads,
                  .memory_limit_bytes = of_encoder->memory_limit_bytes,
                  .memory_kept_bytes = kept_bytes,
                  .tiles = { 1, 1 } },
        .optimizer = config->encoder.optimizer,
    };
    HRF_AUTO(hrf_graph) network = NULL;
    HRF_TRY(hrf_head_step_network(t->form, &any, &network, err));
    const enum hrf_status status = hrf_trainer_create(network, &of_head, &t->head, err);
    return status == HRF_E_NOMEM
               ? hrf_error_wrap(err, status,
                                "the head on the largest slide, of which train.bag may draw fewer "
                                "patches than %lld",
                                (long long)t->most)
               : status;
}

static enum hrf_status create_encoder(struct hrf_slide_trainer *t,
                                      const struct hrf_slide_trainer_config *config,
                                      int64_t kept_bytes, struct hrf_error *err)
{
    struct hrf_trainer_config of_encoder = config->encoder;
    of_encoder.step.loss = HRF_LOSS_LINEAR;
    of_encoder.step.has_forward = true;
    of_encoder.step.memory_kept_bytes = kept_bytes;
    HRF_TRY(hrf_trainer_create(t->network, &of_encoder, &t->encoder, err));
    return hrf_bag_step_create(hrf_trainer_next(t->encoder), &t->bag, err);
}

enum hrf_status hrf_slide_trainer_create(const struct hrf_graph *encoder,
                                         const struct hrf_slide_trainer_config *config,
                                         struct hrf_slide_trainer **out, struct hrf_error *err)
{
    struct hrf_head_form form = config->head;
    HRF_AUTO(hrf_slide_trainer) t = hrf_calloc(1, sizeof *t);
    t->head_rate = config->head_rate;
    t->skipped = config->skipped;
    t->most = config->most;
    t->comm = config->encoder.step.comm;
    HRF_TRY(hrf_graph_copy(encoder, &t->network, err));
    HRF_TRY(find_width(t->network, &form.width, err));
    HRF_TRY(hrf_head_create(&form, config->seed, &t->form, err));
    int64_t kept = 2 * t->most * form.width * (int64_t)sizeof(float) +
                   gradient_bytes(t->network, &config->encoder.step);
    HRF_TRY(create_head(t, config, kept, err));
    HRF_TRY(allocate(t, err));
    kept += hrf_train_step_memory(hrf_trainer_next(t->head));
    HRF_TRY(create_encoder(t, config, kept, err));
    HRF_MOVE(*out, t);
    return HRF_OK;
}

void hrf_slide_trainer_destroy(struct hrf_slide_trainer *t)
{
    if (t == NULL)
        return;
    for (int32_t i = 0; t->sums != NULL && i < hrf_train_step_n_weights(hrf_trainer_next(t->head));
         i++)
        hrf_free(t->sums[i]);
    hrf_free(t->sums);
    hrf_free(t->has_sum);
    hrf_bag_step_destroy(t->bag);
    hrf_trainer_destroy(t->encoder);
    hrf_trainer_destroy(t->head);
    hrf_head_destroy(t->form);
    hrf_graph_destroy(t->network);
    hrf_free(t->embeddings);
    hrf_free(t->gradient);
    hrf_free(t);
}

/* ---- a step ---- */

/* Fills what the head reads: embeddings, what dropout leaves, the factors of the loss. */
static void fill_head(struct hrf_slide_trainer *t, const struct hrf_graph *network,
                      const struct hrf_head_step *made, uint64_t dropout, double share)
{
    struct hrf_train_step *step = hrf_trainer_next(t->head);
    struct hrf_random random = hrf_random_init(dropout);
    memcpy(hrf_train_step_images(step), t->embeddings,
           (size_t)(made->n * t->form->form.width) * sizeof *t->embeddings);
    for (int32_t i = 1; i < network->n_inputs; i++) {
        const struct hrf_shape *shape = &network->values[network->inputs[i]].shape;
        hrf_head_draw_dropout(t->form->form.dropout, hrf_random_u64(&random), shape->dims[0],
                              shape->dims[1], hrf_train_step_input(step, i));
    }
    float *factors = hrf_train_step_targets(step);
    hrf_head_step_factors(t->form, made, 1, factors);
    for (int64_t i = 0; i < hrf_shape_count(hrf_train_step_target_shape(step)); i++)
        factors[i] = (float)((double)factors[i] * share);
}

struct patch_gradient {
    double norm;
    int64_t patch;
};

static int by_norm(const void *a, const void *b)
{
    const struct patch_gradient *x = a, *y = b;
    if (x->norm != y->norm)
        return x->norm < y->norm ? -1 : 1;
    return x->patch < y->patch ? -1 : 1;
}

int64_t hrf_slide_gradients_choose(const float *gradients, int64_t n, int64_t width, double skipped,
                                   int64_t *which)
{
    HRF_AUTO_FREE struct patch_gradient *sorted = hrf_alloc_array((size_t)n, sizeof *sorted);
    HRF_AUTO_FREE bool *is_left_out = hrf_calloc((size_t)n, sizeof *is_left_out);
    double all = 0, left_out = 0;
    int64_t n_counted = 0;
    for (int64_t i = 0; i < n; i++) {
        sorted[i] = (struct patch_gradient){ sqrt(hrf_sum_of_squares(gradients + i * width, width)),
                                             i };
        all += sorted[i].norm;
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_norm);
    /* One at least counts, so that there are gradients. */
    for (int64_t i = 0; i + 1 < n && skipped > 0; i++) {
        left_out += sorted[i].norm;
        if (left_out > skipped * all)
            break;
        is_left_out[sorted[i].patch] = true;
    }
    for (int64_t i = 0; i < n; i++)
        if (!is_left_out[i])
            which[n_counted++] = i;
    return n_counted;
}

int64_t hrf_slide_trainer_counted(const struct hrf_slide_trainer *t)
{
    return t->n_counted;
}

/* The loss of a bag, the gradient to its embeddings, and those of the head's weights. */
static enum hrf_status run_head(struct hrf_slide_trainer *t, const struct hrf_slide_bag *bag,
                                double share, double *loss, struct hrf_error *err)
{
    const struct hrf_head_step made = { .n = bag->n, .label = bag->label };
    struct hrf_train_step *step = hrf_trainer_next(t->head);
    HRF_AUTO(hrf_graph) network = NULL;
    HRF_TRY(hrf_head_step_network(t->form, &made, &network, err));
    HRF_TRY(hrf_train_step_change(step, network, err));
    fill_head(t, network, &made, bag->dropout, share);
    HRF_TRY(hrf_train_step_run(step, loss, err));
    memcpy(t->gradient, hrf_train_step_input_gradient(step),
           (size_t)(bag->n * t->form->form.width) * sizeof *t->gradient);
    for (int32_t i = 0; i < hrf_train_step_n_weights(step); i++) {
        const float *gradient = hrf_train_step_gradient(step, i);
        if (gradient == NULL)
            continue;
        t->has_sum[i] = true;
        for (int64_t k = 0; k < hrf_shape_count(&hrf_train_step_weights(step)[i].shape); k++)
            t->sums[i][k] += gradient[k];
    }
    return HRF_OK;
}

/* The first process has the head, whose numbers all of them get: processors may differ in the last
 * bit, and the weights have to stay the same. */
static enum hrf_status run_head_once(struct hrf_slide_trainer *t, const struct hrf_slide_bag *bag,
                                     double share, double *loss, struct hrf_error *err)
{
    struct hrf_error why = { .status = HRF_OK };
    enum hrf_status status = HRF_OK;
    if (t->comm == NULL)
        return run_head(t, bag, share, loss, err);
    if (t->comm->rank == 0)
        status = run_head(t, bag, share, loss, &why);
    HRF_TRY(hrf_agree_status(t->comm, status, &why, err));
    HRF_TRY(hrf_broadcast(t->comm, loss, sizeof *loss, err));
    return hrf_broadcast(t->comm, t->gradient,
                         (size_t)(bag->n * t->form->form.width) * sizeof *t->gradient, err);
}

static enum hrf_status share_sums(struct hrf_slide_trainer *t, struct hrf_error *err)
{
    const struct hrf_train_step *step = hrf_trainer_next(t->head);
    const int32_t n = hrf_train_step_n_weights(step);
    if (t->comm == NULL)
        return HRF_OK;
    HRF_TRY(hrf_broadcast(t->comm, t->has_sum, (size_t)n * sizeof *t->has_sum, err));
    for (int32_t i = 0; i < n; i++)
        HRF_TRY(hrf_broadcast(
            t->comm, t->sums[i],
            (size_t)hrf_shape_count(&hrf_train_step_weights(step)[i].shape) * sizeof(float), err));
    return HRF_OK;
}

void hrf_slide_trainer_begin(struct hrf_slide_trainer *t)
{
    const struct hrf_train_step *step = hrf_trainer_next(t->head);
    hrf_bag_step_begin(t->bag);
    for (int32_t i = 0; i < hrf_train_step_n_weights(step); i++) {
        t->has_sum[i] = false;
        memset(t->sums[i], 0,
               (size_t)hrf_shape_count(&hrf_train_step_weights(step)[i].shape) * sizeof(float));
    }
    t->loss = 0;
    t->n_counted = 0;
}

enum hrf_status hrf_slide_trainer_add(struct hrf_slide_trainer *t, const struct hrf_slide_bag *bag,
                                      double share, struct hrf_error *err)
{
    double loss = 0;
    assert(bag->n <= t->most);
    HRF_TRY(hrf_bag_step_embed(t->bag, bag->n, bag->images, bag->context, t->embeddings, err));
    HRF_TRY(run_head_once(t, bag, share, &loss, err));
    HRF_AUTO_FREE int64_t *which = hrf_alloc_array((size_t)bag->n, sizeof *which);
    const int64_t n = hrf_slide_gradients_choose(t->gradient, bag->n, t->form->form.width,
                                                 t->skipped, which);
    const struct hrf_bag_part part = { n, n < bag->n ? which : NULL };
    t->loss += loss;
    t->n_counted += n;
    return hrf_bag_step_run(t->bag, &part, bag->images, bag->context, t->gradient, err);
}

double hrf_slide_trainer_loss(const struct hrf_slide_trainer *t)
{
    return t->loss;
}

static const float *encoder_gradient(const void *context, int32_t i)
{
    const struct hrf_slide_trainer *t = context;
    return hrf_bag_step_gradient(t->bag, i);
}

static const float *head_gradient(const void *context, int32_t i)
{
    const struct hrf_slide_trainer *t = context;
    return t->has_sum[i] ? t->sums[i] : NULL;
}

static int32_t find(struct hrf_trainer *trainer, const char *name)
{
    const struct hrf_train_step *step = hrf_trainer_next(trainer);
    for (int32_t i = 0; i < hrf_train_step_n_weights(step); i++)
        if (strcmp(hrf_train_step_weights(step)[i].name, name) == 0)
            return i;
    return -1;
}

const float *hrf_slide_trainer_gradient(const struct hrf_slide_trainer *t, const char *name)
{
    int32_t i = find(t->encoder, name);
    if (i >= 0)
        return hrf_bag_step_gradient(t->bag, i);
    i = find(t->head, name);
    return i >= 0 ? head_gradient(t, i) : NULL;
}

enum hrf_status hrf_slide_trainer_update(struct hrf_slide_trainer *t, double learning_rate,
                                         struct hrf_error *err)
{
    const struct hrf_gradient_source of_encoder = { encoder_gradient, t };
    const struct hrf_gradient_source of_head = { head_gradient, t };
    double squares = 0;
    HRF_TRY(share_sums(t, err));
    HRF_TRY(hrf_trainer_add_squares(t->head, &of_head, t->loss, &squares, err));
    HRF_TRY(hrf_trainer_add_squares(t->encoder, &of_encoder, t->loss, &squares, err));
    HRF_TRY(
        hrf_trainer_update(t->head, &of_head, learning_rate * t->head_rate, sqrt(squares), err));
    return hrf_trainer_update(t->encoder, &of_encoder, learning_rate, sqrt(squares), err);
}

/* ---- the networks, and the state ---- */

struct hrf_trainer *hrf_slide_trainer_encoder(struct hrf_slide_trainer *t)
{
    return t->encoder;
}

enum hrf_status hrf_slide_trainer_head(struct hrf_slide_trainer *t, struct hrf_head **head,
                                       struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) network = NULL;
    HRF_TRY(hrf_trainer_network(t->head, &network, err));
    for (int32_t i = 0; i < t->form->n_parameters; i++) {
        const struct hrf_head_parameter *p = &t->form->parameters[i];
        const int32_t value = hrf_graph_find_value(network, p->name);
        memcpy(p->numbers, network->values[value].data,
               (size_t)hrf_shape_count(&p->shape) * sizeof(float));
    }
    *head = t->form;
    return HRF_OK;
}

void hrf_slide_trainer_append_state(const struct hrf_slide_trainer *t, struct hrf_strbuf *out)
{
    HRF_AUTO_RELEASE(hrf_strbuf) of_head = HRF_STRBUF_INIT;
    hrf_trainer_append_state(t->head, &of_head);
    const uint64_t n = of_head.length;
    hrf_strbuf_add(out, &n, sizeof n);
    hrf_strbuf_add(out, of_head.text, of_head.length);
    hrf_trainer_append_state(t->encoder, out);
}

enum hrf_status hrf_slide_trainer_set_state(struct hrf_slide_trainer *t, const void *bytes,
                                            size_t n_bytes, struct hrf_error *err)
{
    const char *at = bytes;
    uint64_t n = 0;
    if (n_bytes < sizeof n)
        return hrf_error_set(err, HRF_E_USER, "the state has %zu bytes only", n_bytes);
    memcpy(&n, at, sizeof n);
    at += sizeof n;
    n_bytes -= sizeof n;
    if (n > n_bytes)
        return hrf_error_set(err, HRF_E_USER, "the state has %zu bytes, and the head's alone %zu",
                             n_bytes, (size_t)n);
    HRF_TRY(hrf_trainer_set_state(t->head, at, n, err));
    return hrf_trainer_set_state(t->encoder, at + n, n_bytes - n, err);
}
