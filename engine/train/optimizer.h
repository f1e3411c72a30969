/* optimizer.h - how gradients change weights: SGD, AdamW and LAMB.
 *
 * Source: PyTorch's torch.optim.SGD, Adam and AdamW; You et al. 2020 as timm's Lamb computes it;
 * clipping as torch.nn.utils.clip_grad_norm_. Numbers are float32, norms are summed in double in
 * one order, so that the number of threads does not change a bit. One thread uses an optimiser at a
 * time.
 */
#ifndef HRF_ENGINE_TRAIN_OPTIMIZER_H
#define HRF_ENGINE_TRAIN_OPTIMIZER_H

#include "base/alloc.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum hrf_optimizer_kind { HRF_OPTIMIZER_SGD, HRF_OPTIMIZER_ADAMW, HRF_OPTIMIZER_LAMB };
extern const char *const hrf_optimizer_names[]; /* "sgd", "adamw", "lamb"; ends with NULL */

struct hrf_optimizer_config {
    enum hrf_optimizer_kind kind;
    double momentum;              /* SGD, 0 to 1 (exclusive) */
    bool uses_nesterov;           /* SGD, with a momentum */
    double beta1, beta2, epsilon; /* AdamW, LAMB */
    /* AdamW and LAMB: apart from the moments; SGD: added to the gradient. Weights with one axis or
     * none (biases, factors of norms) do not decay unless decays_all is set. */
    double weight_decay;
    bool decays_all;
    bool couples_decay; /* AdamW: the decay is added to the gradient: Adam */
    double clip_norm;   /* at most this 2-norm of all gradients together; 0: they are not clipped */
    double average; /* each step keeps this share of an average of the weights; 0: none is kept */
};
/* Momentum 0.9 by Nesterov, betas 0.9 and 0.999, epsilon 1e-8 (LAMB: 1e-6), decay 2e-5 as timm's
 * train.py; nothing clipped, no average. */
struct hrf_optimizer_config hrf_optimizer_default(enum hrf_optimizer_kind kind);

/* A tensor of weights: borrowed for life, changed by every step. */
struct hrf_trained_weights {
    float *numbers;
    int64_t n;
    int32_t n_axes;
};

struct hrf_optimizer; /* opaque */
/* `weights` [n]. HRF_E_NOMEM. */
HRF_CHECKED enum hrf_status hrf_optimizer_create(const struct hrf_optimizer_config *config,
                                                 const struct hrf_trained_weights *weights,
                                                 int32_t n, struct hrf_optimizer **out,
                                                 struct hrf_error *err);
void hrf_optimizer_destroy(struct hrf_optimizer *optimizer);
HRF_DEFINE_AUTO(hrf_optimizer)

/* A step: begin with the norm of all gradients, then update the weights that have one. Those that
 * have none stay as they are, and their moments, too, as in PyTorch. `norm`: see
 * hrf_sum_of_squares(). */
void hrf_optimizer_begin(struct hrf_optimizer *optimizer, double learning_rate, double norm);
/* gradient: of weights i, in their order of elements. */
void hrf_optimizer_update(struct hrf_optimizer *optimizer, int32_t i, const float *gradient);
/* Of the weights that were updated most often. */
int64_t hrf_optimizer_steps(const struct hrf_optimizer *optimizer);
/* The average of weights i; the weights themselves if there is none. */
const float *hrf_optimizer_average(const struct hrf_optimizer *optimizer, int32_t i);

/* The sum of squares, not finite if one number is not. */
double hrf_sum_of_squares(const float *numbers, int64_t n);

/* Everything that a step depends on but the weights, and the number of bytes. */
int64_t hrf_optimizer_state_bytes(const struct hrf_optimizer *optimizer);
void hrf_optimizer_get_state(const struct hrf_optimizer *optimizer, void *bytes);
void hrf_optimizer_set_state(struct hrf_optimizer *optimizer, const void *bytes);

#endif
