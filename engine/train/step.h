/* step.h - a loss and its gradients to the weights of a network, which may change between two runs.
 *
 * The graph of a step (engine/passes/gradient) has the trained weights as variable constants
 * (hrf_graph_close_inputs()): no pass computes with their numbers, and kernels pack them anew once
 * they have changed. A step that does not fit into the memory limit is computed in tiles
 * (tiled_step.h). A step is a function of weights and batch: the same bits on any number of
 * threads. Over several ranks (ranked_step.h) sums are made in another order. One thread uses a
 * step at a time.
 */
#ifndef HRF_ENGINE_TRAIN_STEP_H
#define HRF_ENGINE_TRAIN_STEP_H

#include "engine/passes/gradient/gradient.h"
#include "engine/run/session.h"

/* A tensor of the network that changes; its numbers are dense, in ONNX order. */
struct hrf_trained_tensor {
    char *name;
    struct hrf_shape shape;
    float *numbers;
};

struct hrf_train_step; /* opaque */

struct hrf_train_step_config {
    const char *device; /* "cpu", "ref" or "cuda"; the last one on one rank only */
    /* HRF_FP32, HRF_TF32 or HRF_BF16: of the activations and their gradients; weights, their
     * gradients and sums are float32 in all of them (engine/passes/lower.h). */
    enum hrf_precision precision;
    enum hrf_loss loss;
    bool uses_batch; /* BatchNormalization by the statistics of the batch; false: of the file */
    /* Trained weights are those for which this is true; NULL: all that the loss depends on. */
    bool (*is_trained)(void *context, const char *weight);
    void *context;
    bool has_input_gradient;    /* also the gradient to input 0; in one piece, on one rank */
    bool has_forward;           /* hrf_train_step_forward() is called, too */
    int32_t n_threads;          /* 0: all that the process may use */
    int64_t memory_limit_bytes; /* 0: none; HRF_E_NOMEM with both numbers if it is exceeded */
    int64_t memory_kept_bytes;  /* what is in use beside the step and counts, too */
    /* Over several ranks, threads of this process or, with `comm`, processes, of which this is one:
     * the same calls on every one of them. NULL: on one. A rank does not compute in tiles. */
    const struct hrf_layout_plan *layout;
    struct hrf_comm *comm; /* borrowed for life */
    int32_t tiles[2]; /* exactly so many along rows and columns; 0: as many as the limit requires */
};

/* `network` has been read, and the shapes of its inputs are set, in tiles of its only one,
 * [N][C][H][W]; it outlives the step. HRF_E_UNSUPPORTED names an operator that has no gradient. */
HRF_CHECKED enum hrf_status hrf_train_step_create(const struct hrf_graph *network,
                                                  const struct hrf_train_step_config *config,
                                                  struct hrf_train_step **out,
                                                  struct hrf_error *err);
/* The next runs are of another network, which has some or all of these weights, by their names and
 * shapes: bags of another length. The weights keep their numbers. Only in one piece and by the
 * statistics of the file. Its memory is used again if it suffices. */
HRF_CHECKED enum hrf_status hrf_train_step_change(struct hrf_train_step *step,
                                                  const struct hrf_graph *network,
                                                  struct hrf_error *err);
void hrf_train_step_destroy(struct hrf_train_step *step);
HRF_DEFINE_AUTO(hrf_train_step)

/* What a run reads; fill all before each one. Images are input 0, dense N, H, W, C, as the network
 * takes them (normalised). Targets have the shape of the network's output: N, C, or N, H, W, C. */
float *hrf_train_step_images(struct hrf_train_step *step);
float *hrf_train_step_input(struct hrf_train_step *step, int32_t i);
float *hrf_train_step_targets(struct hrf_train_step *step);
/* Images [*first, *first + *n) are all that this process computes with: of a rank its share, else
 * all. Targets are filled whole. */
void hrf_train_step_own_images(const struct hrf_train_step *step, int64_t *first, int64_t *n);
const struct hrf_shape *hrf_train_step_target_shape(const struct hrf_train_step *step);

/* The trained weights, whose numbers the caller may change between two runs, and then says so. */
int32_t hrf_train_step_n_weights(const struct hrf_train_step *step);
const struct hrf_trained_tensor *hrf_train_step_weights(const struct hrf_train_step *step);
void hrf_train_step_set_changed(struct hrf_train_step *step);

HRF_CHECKED enum hrf_status hrf_train_step_run(struct hrf_train_step *step, double *loss,
                                               struct hrf_error *err);
/* Of the last run: the gradient to weights i, in ONNX order; valid until the next call. NULL: the
 * network of that run does not have them. */
const float *hrf_train_step_gradient(struct hrf_train_step *step, int32_t i);
/* With `has_input_gradient`: of the last run, the gradient to input 0, laid out as the input is. */
const float *hrf_train_step_input_gradient(const struct hrf_train_step *step);

/* With `has_forward`: the network's output on these images, [N][C] dense as targets are, in FP32
 * whatever the precision of the step is; in the memory of the step, so that images and targets of a
 * run are filled after it. */
float *hrf_train_step_forward_images(struct hrf_train_step *step);
HRF_CHECKED enum hrf_status hrf_train_step_forward(struct hrf_train_step *step, float *output,
                                                   struct hrf_error *err);

/* Bytes of what a step in one piece computes in, weights as kernels pack them included. */
int64_t hrf_train_step_memory(const struct hrf_train_step *step);

/* With `uses_batch`: the file's mean and variance of each BATCH_NORM, one after the other, as
 * statistics 2 k and 2 k + 1; and those of the batch of the last run. The batch's variance is the
 * biased one, of hrf_train_step_statistics_count() numbers a channel. */
int32_t hrf_train_step_n_statistics(const struct hrf_train_step *step);
const struct hrf_trained_tensor *hrf_train_step_statistics(const struct hrf_train_step *step);
const float *hrf_train_step_batch_statistics(const struct hrf_train_step *step, int32_t i);
int64_t hrf_train_step_statistics_count(const struct hrf_train_step *step, int32_t i);

/* "in 3 x 3 tiles, 42.1 % computed twice", or "on 2 ranks, data=2"; "" in one piece. */
const char *hrf_train_step_text(const struct hrf_train_step *step);

#endif
