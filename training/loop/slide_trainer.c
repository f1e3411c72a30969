/* slide_trainer.c - see slide_trainer.h. */
#include "training/loop/slide_trainer.h"

#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct hrf_slide_trainer {
    struct hrf_graph *network; /* the encoder's, as it was given */
    struct hrf_trainer *encoder;
    struct hrf_bag_step *bag;
    struct hrf_trainer *head;
    struct hrf_head *form; /* the head: its kind and sizes, and the weights that were asked for */
    double head_rate, skipped;
    float *embeddings; /* of the bag */
    size_t capacity;
    int64_t n_counted;
};

static enum hrf_status create_encoder(struct hrf_slide_trainer *t,
                                      const struct hrf_slide_trainer_config *config,
                                      struct hrf_error *err)
{
    struct hrf_trainer_config of_encoder = config->encoder;
    of_encoder.step.loss = HRF_LOSS_LINEAR;
    of_encoder.step.tiles[0] = of_encoder.step.tiles[1] = 1;
    HRF_TRY(hrf_trainer_create(t->network, &of_encoder, &t->encoder, err));
    return hrf_bag_step_create(t->network, hrf_trainer_next(t->encoder), &of_encoder.step, &t->bag,
                               err);
}

/* The first network has all weights; each step changes to that of its bag. */
static enum hrf_status create_head(struct hrf_slide_trainer *t,
                                   const struct hrf_slide_trainer_config *config,
                                   struct hrf_error *err)
{
    const struct hrf_head_step any = { .n = 1, .label = -1 };
    const struct hrf_shape *shape = hrf_train_step_target_shape(hrf_trainer_next(t->encoder));
    struct hrf_trainer_config of_head = { .step = config->encoder.step,
                                          .optimizer = config->encoder.optimizer };
    struct hrf_head_form form = config->head;
    HRF_AUTO(hrf_graph) network = NULL;
    of_head.step.loss = HRF_LOSS_LINEAR;
    of_head.step.tiles[0] = of_head.step.tiles[1] = 1;
    of_head.step.is_trained = NULL;
    of_head.step.precision = HRF_FP32;
    of_head.step.has_input_gradient = true;
    form.width = hrf_shape_count(shape) / shape->dims[0];
    HRF_TRY(hrf_head_create(&form, config->seed, &t->form, err));
    HRF_TRY(hrf_head_step_network(t->form, &any, &network, err));
    return hrf_trainer_create(network, &of_head, &t->head, err);
}

enum hrf_status hrf_slide_trainer_create(const struct hrf_graph *encoder,
                                         const struct hrf_slide_trainer_config *config,
                                         struct hrf_slide_trainer **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_slide_trainer) t = hrf_calloc(1, sizeof *t);
    t->head_rate = config->head_rate;
    t->skipped = config->skipped;
    HRF_TRY(hrf_graph_copy(encoder, &t->network, err));
    HRF_TRY(create_encoder(t, config, err));
    HRF_TRY(create_head(t, config, err));
    HRF_MOVE(*out, t);
    return HRF_OK;
}

void hrf_slide_trainer_destroy(struct hrf_slide_trainer *t)
{
    if (t == NULL)
        return;
    hrf_bag_step_destroy(t->bag);
    hrf_trainer_destroy(t->encoder);
    hrf_trainer_destroy(t->head);
    hrf_head_destroy(t->form);
    hrf_graph_destroy(t->network);
    hrf_free(t->embeddings);
    hrf_free(t);
}

/* ---- a step ---- */

static enum hrf_status reserve(struct hrf_slide_trainer *t, int64_t n, struct hrf_error *err)
{
    const size_t needed = (size_t)(n * t->form->form.width);
    if (needed <= t->capacity)
        return HRF_OK;
    hrf_free(t->embeddings);
    t->capacity = 0;
    t->embeddings = hrf_try_alloc_array(needed, sizeof *t->embeddings);
    HRF_CHECK_MEMORY(t->embeddings != NULL, err, "no memory for %lld embeddings of %lld numbers",
                     (long long)n, (long long)t->form->form.width);
    t->capacity = needed;
    return HRF_OK;
}

/* Fills what the head reads: embeddings, what dropout leaves, the factors of the loss. */
static void fill_head(struct hrf_slide_trainer *t, const struct hrf_graph *network,
                      const struct hrf_head_step *made, uint64_t dropout)
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
    hrf_head_step_factors(t->form, made, 1, hrf_train_step_targets(step));
}

struct seed {
    double norm;
    int64_t patch;
};

static int by_norm(const void *a, const void *b)
{
    const struct seed *x = a, *y = b;
    if (x->norm != y->norm)
        return x->norm < y->norm ? -1 : 1;
    return x->patch < y->patch ? -1 : 1;
}

int64_t hrf_slide_seeds_choose(const float *seeds, int64_t n, int64_t width, double skipped,
                               int64_t *which)
{
    HRF_AUTO_FREE struct seed *sorted = hrf_alloc_array((size_t)n, sizeof *sorted);
    HRF_AUTO_FREE bool *is_left_out = hrf_calloc((size_t)n, sizeof *is_left_out);
    double all = 0, left_out = 0;
    int64_t n_counted = 0;
    for (int64_t i = 0; i < n; i++) {
        sorted[i] = (struct seed){ sqrt(hrf_sum_of_squares(seeds + i * width, width)), i };
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

enum hrf_status hrf_slide_trainer_run(struct hrf_slide_trainer *t, const struct hrf_slide_bag *bag,
                                      double *loss, struct hrf_error *err)
{
    const struct hrf_head_step made = { .n = bag->n, .label = bag->label };
    struct hrf_train_step *head = hrf_trainer_next(t->head);
    HRF_AUTO(hrf_graph) network = NULL;
    HRF_TRY(reserve(t, bag->n, err));
    HRF_TRY(hrf_bag_step_embed(t->bag, bag->n, bag->images, bag->context, t->embeddings, err));
    HRF_TRY(hrf_head_step_network(t->form, &made, &network, err));
    HRF_TRY(hrf_train_step_change(head, network, err));
    fill_head(t, network, &made, bag->dropout);
    HRF_TRY(hrf_train_step_run(head, loss, err));
    const float *seeds = hrf_train_step_input_gradient(head);
    HRF_AUTO_FREE int64_t *which = hrf_alloc_array((size_t)bag->n, sizeof *which);
    t->n_counted = hrf_slide_seeds_choose(seeds, bag->n, t->form->form.width, t->skipped, which);
    const struct hrf_bag_part part = { t->n_counted, t->n_counted < bag->n ? which : NULL };
    return hrf_bag_step_run(t->bag, &part, bag->images, bag->context, seeds, err);
}

static const float *encoder_gradient(const void *context, int32_t i)
{
    const struct hrf_slide_trainer *t = context;
    return hrf_bag_step_gradient(t->bag, i);
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
    return i >= 0 ? hrf_train_step_gradient(hrf_trainer_next(t->head), i) : NULL;
}

enum hrf_status hrf_slide_trainer_step(struct hrf_slide_trainer *t, const struct hrf_slide_bag *bag,
                                       double learning_rate, double *loss, struct hrf_error *err)
{
    const struct hrf_gradient_source of_encoder = { encoder_gradient, t };
    double squares = 0;
    HRF_TRY(hrf_slide_trainer_run(t, bag, loss, err));
    HRF_TRY(hrf_trainer_add_squares(t->head, NULL, *loss, &squares, err));
    HRF_TRY(hrf_trainer_add_squares(t->encoder, &of_encoder, *loss, &squares, err));
    hrf_bag_step_set_changed(t->bag);
    HRF_TRY(hrf_trainer_update(t->head, NULL, learning_rate * t->head_rate, sqrt(squares), err));
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
    HRF_TRY(hrf_trainer_set_state(t->encoder, at + n, n_bytes - n, err));
    hrf_bag_step_set_changed(t->bag);
    return HRF_OK;
}
