/* trainer.h - a network whose weights change: steps of training on one device.
 *
 * After each step (step.h) an optimiser (optimizer.h) changes the weights. A step is a function of
 * the weights, the moments, the batch and the learning rate: the same calls give the same bits, on
 * any number of threads. One thread uses a trainer at a time. Example:
 *   HRF_TRY(hrf_trainer_create(network, &config, &trainer, err));
 *   fill hrf_train_step_images() and hrf_train_step_targets() of hrf_trainer_next(trainer);
 *   HRF_TRY(hrf_trainer_step(trainer, 0.01, &loss, err));
 *   HRF_TRY(hrf_trainer_network(trainer, &trained, err));
 */
#ifndef HRF_ENGINE_TRAIN_TRAINER_H
#define HRF_ENGINE_TRAIN_TRAINER_H

#include "base/strbuf.h"
#include "engine/train/optimizer.h"
#include "engine/train/step.h"

struct hrf_trainer; /* opaque */

struct hrf_trainer_config {
    /* With uses_batch the file's mean and variance follow those of the batches as a moving average
     * (PyTorch's momentum 0.1). */
    struct hrf_train_step_config step;
    struct hrf_optimizer_config optimizer;
};

/* `network` has been read, and the shapes of its inputs are set (hrf_train_step_create()); it is
 * copied. HRF_E_UNSUPPORTED names an operator that has no gradient. */
HRF_CHECKED enum hrf_status hrf_trainer_create(const struct hrf_graph *network,
                                               const struct hrf_trainer_config *config,
                                               struct hrf_trainer **out, struct hrf_error *err);
void hrf_trainer_destroy(struct hrf_trainer *trainer);
HRF_DEFINE_AUTO(hrf_trainer)

/* The next step, whose images and targets are to be filled before it. After
 * hrf_train_step_change() steps are of the other network, hrf_trainer_network() is that of the
 * beginning. */
struct hrf_train_step *hrf_trainer_next(struct hrf_trainer *trainer);

/* One step with this learning rate: forward, loss, gradients, update. *loss: that of the batch,
 * before the update. HRF_E_USER: the loss or a gradient is not finite, with the step and the
 * weights' name, and nothing has been changed; or the updated weights are not, and the trainer is
 * of no more use. */
HRF_CHECKED enum hrf_status hrf_trainer_step(struct hrf_trainer *trainer, double learning_rate,
                                             double *loss, struct hrf_error *err);
int64_t hrf_trainer_steps(const struct hrf_trainer *trainer); /* done so far */

/* A step in parts, for networks that are trained together: the gradients of each come from what has
 * been run, their sums of squares are added to *squares, and each is updated with the norm of all
 * of them, the square root. `gradients` NULL: hrf_train_step_gradient() of the last run. */
typedef const float *hrf_gradient_of(const void *context, int32_t i);
struct hrf_gradient_source {
    hrf_gradient_of *of; /* NULL for weights that have none */
    const void *context;
};
/* HRF_E_USER: as hrf_trainer_step(). */
HRF_CHECKED enum hrf_status hrf_trainer_add_squares(struct hrf_trainer *trainer,
                                                    const struct hrf_gradient_source *gradients,
                                                    double loss, double *squares,
                                                    struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_trainer_update(struct hrf_trainer *trainer,
                                               const struct hrf_gradient_source *gradients,
                                               double learning_rate, double norm,
                                               struct hrf_error *err);

/* A copy of the network with the weights of now, or their average if the optimiser keeps one: for
 * validation (hrf_session_create()) and export (hrf_onnx_write()). */
HRF_CHECKED enum hrf_status hrf_trainer_network(const struct hrf_trainer *trainer,
                                                struct hrf_graph **out, struct hrf_error *err);

/* Likewise with the weights of now, whatever the optimiser keeps: what the next step computes. */
HRF_CHECKED enum hrf_status hrf_trainer_present_network(const struct hrf_trainer *trainer,
                                                        struct hrf_graph **out,
                                                        struct hrf_error *err);

/* Appends the whole state (weights, statistics, moments, number of steps) for a checkpoint, and
 * sets it. HRF_E_USER: the bytes are of another network or optimiser; nothing has been changed. */
void hrf_trainer_append_state(const struct hrf_trainer *trainer, struct hrf_strbuf *out);
HRF_CHECKED enum hrf_status hrf_trainer_set_state(struct hrf_trainer *trainer, const void *bytes,
                                                  size_t n_bytes, struct hrf_error *err);

#endif
