/* trainer.h - a network whose weights change: steps of training on one device.
 *
 * A step is one graph (engine/passes/gradient): forward, loss, gradients. Its weights are variable
 * constants (hrf_graph_close_inputs()): passes do not compute with them, kernels pack them anew
 * before each step, and an optimiser changes them after it. A step is a function of the weights,
 * the moments, the batch and the learning rate: the same calls give the same bits, on any number of
 * threads. One thread uses a trainer at a time. Example:
 *   HRF_TRY(hrf_trainer_create(network, &config, &trainer, err));
 *   fill hrf_trainer_images(trainer) and hrf_trainer_targets(trainer);
 *   HRF_TRY(hrf_trainer_step(trainer, 0.01, &loss, err));
 *   HRF_TRY(hrf_trainer_network(trainer, &trained, err));
 */
#ifndef HRF_ENGINE_TRAIN_TRAINER_H
#define HRF_ENGINE_TRAIN_TRAINER_H

#include "base/strbuf.h"
#include "engine/passes/gradient/gradient.h"
#include "engine/run/session.h"
#include "engine/train/optimizer.h"

struct hrf_trainer; /* opaque */

struct hrf_trainer_config {
    const char *device; /* "cpu" or "ref" */
    enum hrf_loss loss;
    /* BatchNormalization by the statistics of the batch, from which the file's follow as a moving
     * average (PyTorch's momentum 0.1); false: by the file's, which stay. */
    bool uses_batch;
    struct hrf_optimizer_config optimizer;
    /* Trained weights are those for which this is true; NULL: all that the loss depends on. */
    bool (*is_trained)(void *context, const char *weight);
    void *context;
    int32_t n_threads;          /* 0: all that the process may use */
    int64_t memory_limit_bytes; /* 0: none; HRF_E_NOMEM with both numbers if it is exceeded */
};

/* `network` has been read, and the shape of its input, [N][C][H][W], is set to that of a batch; it
 * is copied. HRF_E_UNSUPPORTED names an operator that has no gradient. */
HRF_CHECKED enum hrf_status hrf_trainer_create(const struct hrf_graph *network,
                                               const struct hrf_trainer_config *config,
                                               struct hrf_trainer **out, struct hrf_error *err);
void hrf_trainer_destroy(struct hrf_trainer *trainer);
HRF_DEFINE_AUTO(hrf_trainer)

/* What a step reads; fill both before each one. Images are dense N, H, W, C, as the network takes
 * them (normalised). Targets have the shape of the network's output: N, C, or N, H, W, C. */
float *hrf_trainer_images(struct hrf_trainer *trainer);
float *hrf_trainer_targets(struct hrf_trainer *trainer);
const struct hrf_shape *hrf_trainer_target_shape(const struct hrf_trainer *trainer);

/* One step with this learning rate: forward, loss, gradients, update. *loss: that of the batch,
 * before the update. HRF_E_USER: the loss or a gradient is not finite, with the step and the
 * weights' name; nothing has been changed. */
HRF_CHECKED enum hrf_status hrf_trainer_step(struct hrf_trainer *trainer, double learning_rate,
                                             double *loss, struct hrf_error *err);
int64_t hrf_trainer_steps(const struct hrf_trainer *trainer);     /* done so far */
int32_t hrf_trainer_n_weights(const struct hrf_trainer *trainer); /* trained tensors */
struct hrf_session_memory hrf_trainer_memory(const struct hrf_trainer *trainer);

/* A copy of the network with the weights of now, or their average if the optimiser keeps one: for
 * validation (hrf_session_create()) and export (hrf_onnx_write()). */
HRF_CHECKED enum hrf_status hrf_trainer_network(const struct hrf_trainer *trainer,
                                                struct hrf_graph **out, struct hrf_error *err);

/* Appends the whole state (weights, statistics, moments, number of steps) for a checkpoint, and
 * sets it. HRF_E_USER: the bytes are of another network or optimiser; nothing has been changed. */
void hrf_trainer_append_state(const struct hrf_trainer *trainer, struct hrf_strbuf *out);
HRF_CHECKED enum hrf_status hrf_trainer_set_state(struct hrf_trainer *trainer, const void *bytes,
                                                  size_t n_bytes, struct hrf_error *err);

#endif
