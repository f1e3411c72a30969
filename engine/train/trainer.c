/* trainer.c - steps, updates, and what is kept between them (trainer.h). */
#include "engine/train/trainer.h"

#include "engine/backend/kernel.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The share that a step's statistics have in the file's. Source: PyTorch's BatchNorm2d. */
static const double momentum = 0.1;

struct hrf_trainer {
    struct hrf_graph *network; /* as it was read, with the input shape of a batch */
    struct hrf_train_step *step;
    struct hrf_optimizer *optimizer;
    bool *is_finite; /* of each tensor as the file has it: masks that are added may not be */
};

/* The tensors whose numbers are part of the state: weights, then statistics; NULL after the
 * last. */
static const struct hrf_trained_tensor *tensor_at(const struct hrf_trainer *t, int32_t i)
{
    const int32_t n = hrf_train_step_n_weights(t->step);
    if (i < n)
        return &hrf_train_step_weights(t->step)[i];
    return i - n < hrf_train_step_n_statistics(t->step) ? &hrf_train_step_statistics(t->step)[i - n]
                                                        : NULL;
}

static bool is_finite(const struct hrf_trained_tensor *tensor)
{
    return isfinite(hrf_sum_of_squares(tensor->numbers, hrf_shape_count(&tensor->shape)));
}

static enum hrf_status create_optimizer(struct hrf_trainer *t,
                                        const struct hrf_optimizer_config *config,
                                        struct hrf_error *err)
{
    const int32_t n = hrf_train_step_n_weights(t->step);
    HRF_AUTO_FREE struct hrf_trained_weights *weights = hrf_calloc((size_t)n + 1, sizeof *weights);
    for (int32_t i = 0; i < n; i++) {
        const struct hrf_trained_tensor *w = &hrf_train_step_weights(t->step)[i];
        weights[i] = (struct hrf_trained_weights){ .numbers = w->numbers,
                                                   .n = hrf_shape_count(&w->shape),
                                                   .n_axes = w->shape.rank };
    }
    return hrf_optimizer_create(config, weights, n, &t->optimizer, err);
}

enum hrf_status hrf_trainer_create(const struct hrf_graph *network,
                                   const struct hrf_trainer_config *config,
                                   struct hrf_trainer **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_trainer) t = hrf_calloc(1, sizeof *t);
    HRF_TRY(hrf_graph_copy(network, &t->network, err));
    HRF_TRY(hrf_train_step_create(t->network, &config->step, &t->step, err));
    HRF_TRY(create_optimizer(t, &config->optimizer, err));
    const int32_t n = hrf_train_step_n_weights(t->step) + hrf_train_step_n_statistics(t->step);
    t->is_finite = hrf_calloc((size_t)n + 1, sizeof *t->is_finite);
    for (int32_t i = 0; i < n; i++)
        t->is_finite[i] = is_finite(tensor_at(t, i));
    HRF_MOVE(*out, t);
    return HRF_OK;
}

void hrf_trainer_destroy(struct hrf_trainer *t)
{
    if (t == NULL)
        return;
    hrf_optimizer_destroy(t->optimizer);
    hrf_train_step_destroy(t->step);
    hrf_graph_destroy(t->network);
    hrf_free(t->is_finite);
    hrf_free(t);
}

struct hrf_train_step *hrf_trainer_next(struct hrf_trainer *t)
{
    return t->step;
}

int64_t hrf_trainer_steps(const struct hrf_trainer *t)
{
    return hrf_optimizer_steps(t->optimizer);
}

/* ---- a step ---- */

static const float *gradient_of(const struct hrf_trainer *t,
                                const struct hrf_gradient_source *gradients, int32_t i)
{
    return gradients != NULL ? gradients->of(gradients->context, i)
                             : hrf_train_step_gradient(t->step, i);
}

enum hrf_status hrf_trainer_add_squares(struct hrf_trainer *t,
                                        const struct hrf_gradient_source *gradients, double loss,
                                        double *squares, struct hrf_error *err)
{
    if (!isfinite(loss))
        return hrf_error_set(err, HRF_E_USER,
                             "step %" PRId64 ": the loss is not finite; a smaller learning rate or "
                             "clipped gradients may help",
                             hrf_trainer_steps(t) + 1);
    for (int32_t i = 0; i < hrf_train_step_n_weights(t->step); i++) {
        const struct hrf_trained_tensor *w = &hrf_train_step_weights(t->step)[i];
        const float *gradient = gradient_of(t, gradients, i);
        if (gradient == NULL)
            continue;
        const double sum = hrf_sum_of_squares(gradient, hrf_shape_count(&w->shape));
        if (!isfinite(sum))
            return hrf_error_set(err, HRF_E_USER,
                                 "step %" PRId64 ": the gradient to '%s' is not finite; a smaller "
                                 "learning rate or clipped gradients may help",
                                 hrf_trainer_steps(t) + 1, w->name);
        *squares += sum;
    }
    return HRF_OK;
}

/* The file's mean and variance move towards the batch's; the variance towards the unbiased one. */
static void update_statistics(struct hrf_trainer *t)
{
    for (int32_t i = 0; i < hrf_train_step_n_statistics(t->step); i++) {
        const struct hrf_trained_tensor *s = &hrf_train_step_statistics(t->step)[i];
        const float *batch = hrf_train_step_batch_statistics(t->step, i);
        const double n = (double)hrf_train_step_statistics_count(t->step, i);
        const double unbiased = i % 2 == 1 && n > 1 ? n / (n - 1) : 1;
        for (int64_t c = 0; c < hrf_shape_count(&s->shape); c++)
            s->numbers[c] = (float)((1 - momentum) * (double)s->numbers[c] +
                                    momentum * unbiased * (double)batch[c]);
    }
}

/* So that nobody keeps or scores weights that are not finite. */
static enum hrf_status check_weights(const struct hrf_trainer *t, struct hrf_error *err)
{
    const struct hrf_trained_tensor *tensor;
    for (int32_t i = 0; (tensor = tensor_at(t, i)) != NULL; i++)
        if (t->is_finite[i] && !is_finite(tensor))
            return hrf_error_set(err, HRF_E_USER,
                                 "step %" PRId64 " makes the weights '%s' infinite; a smaller "
                                 "learning rate or clipped gradients may help",
                                 hrf_trainer_steps(t), tensor->name);
    return HRF_OK;
}

enum hrf_status hrf_trainer_update(struct hrf_trainer *t,
                                   const struct hrf_gradient_source *gradients,
                                   double learning_rate, double norm, struct hrf_error *err)
{
    hrf_optimizer_begin(t->optimizer, learning_rate, norm);
    for (int32_t i = 0; i < hrf_train_step_n_weights(t->step); i++) {
        const float *gradient = gradient_of(t, gradients, i);
        if (gradient != NULL)
            hrf_optimizer_update(t->optimizer, i, gradient);
    }
    update_statistics(t);
    hrf_train_step_set_changed(t->step);
    return check_weights(t, err);
}

enum hrf_status hrf_trainer_step(struct hrf_trainer *t, double learning_rate, double *loss,
                                 struct hrf_error *err)
{
    double squares = 0;
    HRF_TRY(hrf_train_step_run(t->step, loss, err));
    HRF_TRY(hrf_trainer_add_squares(t, NULL, *loss, &squares, err));
    return hrf_trainer_update(t, NULL, learning_rate, sqrt(squares), err);
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
    hrf_value_set_data(value, copy);
    return HRF_OK;
}

static enum hrf_status network_of(const struct hrf_trainer *t, bool is_average,
                                  struct hrf_graph **out, struct hrf_error *err)
{
    HRF_AUTO(hrf_graph) graph = NULL;
    HRF_TRY(hrf_graph_copy(t->network, &graph, err));
    for (int32_t i = 0; i < hrf_train_step_n_weights(t->step); i++) {
        const struct hrf_trained_tensor *w = &hrf_train_step_weights(t->step)[i];
        HRF_TRY(set_numbers(graph, w->name,
                            is_average ? hrf_optimizer_average(t->optimizer, i) : w->numbers, err));
    }
    for (int32_t i = 0; i < hrf_train_step_n_statistics(t->step); i++) {
        const struct hrf_trained_tensor *s = &hrf_train_step_statistics(t->step)[i];
        HRF_TRY(set_numbers(graph, s->name, s->numbers, err));
    }
    HRF_MOVE(*out, graph);
    return HRF_OK;
}

enum hrf_status hrf_trainer_network(const struct hrf_trainer *t, struct hrf_graph **out,
                                    struct hrf_error *err)
{
    return network_of(t, true, out, err);
}

enum hrf_status hrf_trainer_present_network(const struct hrf_trainer *t, struct hrf_graph **out,
                                            struct hrf_error *err)
{
    return network_of(t, false, out, err);
}

static size_t tensor_bytes(const struct hrf_trained_tensor *tensor)
{
    return (size_t)hrf_shape_count(&tensor->shape) * sizeof(float);
}

void hrf_trainer_append_state(const struct hrf_trainer *t, struct hrf_strbuf *out)
{
    const size_t n_bytes = (size_t)hrf_optimizer_state_bytes(t->optimizer);
    HRF_AUTO_FREE void *of_optimizer = hrf_alloc(n_bytes);
    const struct hrf_trained_tensor *tensor;
    hrf_optimizer_get_state(t->optimizer, of_optimizer);
    for (int32_t i = 0; (tensor = tensor_at(t, i)) != NULL; i++)
        hrf_strbuf_add(out, tensor->numbers, tensor_bytes(tensor));
    hrf_strbuf_add(out, of_optimizer, n_bytes);
}

enum hrf_status hrf_trainer_set_state(struct hrf_trainer *t, const void *bytes, size_t n_bytes,
                                      struct hrf_error *err)
{
    size_t needed = (size_t)hrf_optimizer_state_bytes(t->optimizer);
    const struct hrf_trained_tensor *tensor;
    const char *at = bytes;
    for (int32_t i = 0; (tensor = tensor_at(t, i)) != NULL; i++)
        needed += tensor_bytes(tensor);
    if (n_bytes != needed)
        return hrf_error_set(err, HRF_E_USER,
                             "the state has %zu bytes, and that of this network and optimiser has "
                             "%zu",
                             n_bytes, needed);
    for (int32_t i = 0; (tensor = tensor_at(t, i)) != NULL; i++) {
        memcpy(tensor->numbers, at, tensor_bytes(tensor));
        at += tensor_bytes(tensor);
    }
    hrf_optimizer_set_state(t->optimizer, at);
    hrf_train_step_set_changed(t->step);
    return HRF_OK;
}
