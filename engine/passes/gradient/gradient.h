/* gradient.h - makes, out of a network, the graph that computes a loss and its gradients.
 *
 * The graph stays one graph: after the network's own nodes stand those of the loss and then, in
 * reverse order, those of the gradients, which are operators like all others. What plans, divides
 * and computes a network does the same with this graph. Sums over the readers of a value are made
 * in one order, so that the same graph gives the same bits. The loss is a mean over the whole batch
 * (hrf_graph.n_images): what graphs of its micro-batches give adds up to the loss and the gradients
 * of the batch.
 */
#ifndef HRF_ENGINE_PASSES_GRADIENT_GRADIENT_H
#define HRF_ENGINE_PASSES_GRADIENT_GRADIENT_H

#include "engine/ir/graph.h"

/* y is the network's output and t the target, which has the shape of y. */
enum hrf_loss {
    /* -sum over axis 1 of t log softmax(y), mean over everything else. Source: PyTorch's
     * cross_entropy with probabilities as the target. */
    HRF_LOSS_CROSS_ENTROPY,
    HRF_LOSS_MSE, /* mean of (y - t)^2 */
    /* mean of log(1 + exp(y)) - t y. Source: PyTorch's binary_cross_entropy_with_logits. */
    HRF_LOSS_BCE,
    HRF_LOSS_LINEAR, /* sum of t y: t is the gradient to y */
    HRF_N_LOSSES
};
extern const char *const hrf_loss_names[]; /* "cross_entropy" ...; ends with NULL */

struct hrf_gradients {
    int32_t n;    /* the weights that the loss depends on, in the order of their values */
    char **names; /* as in the model's file; heap */
};
void hrf_gradients_release(struct hrf_gradients *gradients);

/* A BATCH_NORM by the statistics of the batch. */
struct hrf_batch_norm {
    int32_t mean, variance; /* the values that are computed: one number a channel; the variance is
                               the biased one */
    int32_t file_mean, file_variance; /* the constants that stood in their place */
    int64_t count;                    /* numbers of a channel in a batch */
};
struct hrf_batch_norms {
    struct hrf_batch_norm *items; /* heap */
    int32_t n;
};
void hrf_batch_norms_release(struct hrf_batch_norms *norms);

/* Replaces every BATCH_NORM by operators that normalise by the mean and the variance of the batch.
 * If n_images is set, the graph computes with an equal share of the batch, and its sums are added
 * up over the groups that have the others (ALL_REDUCE).
 * Shapes are known; before hrf_pass_gradient(), which keeps the indices of values. HRF_E_USER:
 * there is none. */
HRF_CHECKED enum hrf_status hrf_pass_batch_statistics(struct hrf_graph *graph,
                                                      struct hrf_batch_norms *norms,
                                                      struct hrf_error *err);

/* `graph` has been read, has one output, and its shapes are known; no pass has fused anything. GELU
 * and Swish that are written as several operators become one, which has one derivative.
 * Afterwards its inputs are those of the network and the target, and its outputs the loss (rank 0)
 * and the gradients to gradients->names. If n_images is set, a third input says which images count
 * (1) and which ones fill up the micro-batch (0): as many numbers, in as many axes as the output
 * has. BATCH_NORM computes with its constants (frozen statistics), whose mean and variance have no
 * gradient. A SOFTMAX or SIGMOID at the end that the loss contains itself is left out.
 * HRF_E_UNSUPPORTED names an operator that has no gradient, or a loss that does not fit the output.
 * Infer shapes again afterwards. */
HRF_CHECKED enum hrf_status hrf_pass_gradient(struct hrf_graph *graph, enum hrf_loss loss,
                                              struct hrf_gradients *gradients,
                                              struct hrf_error *err);

/* If no constant says that it is a tensor of the model's file, all are taken as weights: those of a
 * built-in architecture. Before hrf_pass_training_step(). */
void hrf_pass_mark_weights(struct hrf_graph *graph);

/* Makes a network, as it was read and with the shapes of its inputs set, the graph of one step of
 * training: infers shapes, hrf_pass_batch_statistics() unless `norms` is NULL, and
 * hrf_pass_gradient(). Infer shapes again afterwards. */
HRF_CHECKED enum hrf_status hrf_pass_training_step(struct hrf_graph *graph, enum hrf_loss loss,
                                                   struct hrf_batch_norms *norms,
                                                   struct hrf_gradients *gradients,
                                                   struct hrf_error *err);

/* Adds what computes the gradient of each image's largest number of `y` ([N] and more axes) to
 * `value`, a computed value on which it depends; equal numbers share it. The graph's inputs and
 * outputs stay as they are. HRF_E_UNSUPPORTED: hrf_pass_gradient(). */
HRF_CHECKED enum hrf_status hrf_pass_gradient_of_largest(struct hrf_graph *graph, int32_t y,
                                                         int32_t value, int32_t *gradient,
                                                         struct hrf_error *err);

#endif
