/* ranked_step.h - a step of training over several ranks (engine/run/network.h).
 *
 * Each rank computes its share of the loss and of the gradients. Each sum is made by one of the
 * groups, in the order of the images. With processes every one of them then gets all sums, so that
 * all make the same update: the weights stay equal without being sent.
 */
#ifndef HRF_ENGINE_TRAIN_RANKED_STEP_H
#define HRF_ENGINE_TRAIN_RANKED_STEP_H

#include "engine/train/step_private.h"

struct hrf_ranked_step; /* opaque */

/* Sets the shape of a micro-batch before hrf_pass_training_step(). HRF_E_USER: the batch, or what
 * computes its statistics, cannot be divided so. */
HRF_CHECKED enum hrf_status hrf_ranked_step_divide(const struct hrf_layout_plan *layout,
                                                   bool uses_batch, struct hrf_graph *graph,
                                                   struct hrf_error *err);
/* `graph` is that of a step, and is changed; `images`: the shape of the batch. `network` is what it
 * was made of, for config->has_forward. `trained` outlives the step. */
HRF_CHECKED enum hrf_status
hrf_ranked_step_create(struct hrf_graph *graph, const struct hrf_graph *network,
                       const struct hrf_trained_list *trained,
                       const struct hrf_train_step_config *config, const struct hrf_shape *images,
                       struct hrf_ranked_step **out, struct hrf_error *err);
void hrf_ranked_step_destroy(struct hrf_ranked_step *step);
HRF_DEFINE_AUTO(hrf_ranked_step)
float *hrf_ranked_step_images(struct hrf_ranked_step *step);
float *hrf_ranked_step_targets(struct hrf_ranked_step *step);
/* See hrf_train_step_own_images(). */
void hrf_ranked_step_own_images(const struct hrf_ranked_step *step, int64_t *first, int64_t *n);
const struct hrf_shape *hrf_ranked_step_target_shape(const struct hrf_ranked_step *step);
HRF_CHECKED enum hrf_status hrf_ranked_step_run(struct hrf_ranked_step *step, bool is_changed,
                                                struct hrf_error *err);
/* The output of the whole batch, on every process. */
HRF_CHECKED enum hrf_status hrf_ranked_step_forward(struct hrf_ranked_step *step, bool is_changed,
                                                    float *output, struct hrf_error *err);
/* Output i of the graph: the loss, the gradients, the statistics of the batch. */
const float *hrf_ranked_step_output(const struct hrf_ranked_step *step, int32_t i);
const char *hrf_ranked_step_text(const struct hrf_ranked_step *step);

#endif
