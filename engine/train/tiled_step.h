/* tiled_step.h - a step on an image that is too large for the memory, in tiles.
 *
 * The network is cut in two where all that crosses is one image of features, or its mean. First the
 * head, which works on windows of pixels, runs forward on each tile of these features; then the
 * tail gives the loss, its own gradients and the gradient to the features; last, the head runs
 * forward again on each tile, and back from that tile's share. Each tile reads all pixels that its
 * features depend on, padding stands at the true border of the image alone, and each feature
 * belongs to one tile, so that the sum of the tiles' gradients is the gradient, exactly (it is
 * linear in the gradient to the features). What neighbouring tiles both read is computed twice.
 * Sums are made in the order of the tiles. Source: the method of Pinckaers, van Ginneken and
 * Litjens, "Streaming convolutional neural networks" (TPAMI 2020), with no limits on the operators
 * of the tail.
 */
#ifndef HRF_ENGINE_TRAIN_TILED_STEP_H
#define HRF_ENGINE_TRAIN_TILED_STEP_H

#include "engine/train/step_private.h"

struct hrf_tiled_step; /* opaque */

/* `trained` outlives the step. HRF_E_UNSUPPORTED: no part of the network can be computed in tiles,
 * or statistics of the batch are asked for. HRF_E_NOMEM: the smallest tiles need more. */
HRF_CHECKED enum hrf_status hrf_tiled_step_create(const struct hrf_graph *network,
                                                  const struct hrf_trained_list *trained,
                                                  const struct hrf_train_step_config *config,
                                                  struct hrf_tiled_step **out,
                                                  struct hrf_error *err);
void hrf_tiled_step_destroy(struct hrf_tiled_step *step);
HRF_DEFINE_AUTO(hrf_tiled_step)
float *hrf_tiled_step_images(struct hrf_tiled_step *step);
float *hrf_tiled_step_targets(struct hrf_tiled_step *step);
const struct hrf_shape *hrf_tiled_step_target_shape(const struct hrf_tiled_step *step);
HRF_CHECKED enum hrf_status hrf_tiled_step_run(struct hrf_tiled_step *step, bool is_changed,
                                               double *loss, struct hrf_error *err);
/* With config->has_forward: the network's output on the images. */
HRF_CHECKED enum hrf_status hrf_tiled_step_forward(struct hrf_tiled_step *step, bool is_changed,
                                                   float *output, struct hrf_error *err);
const float *hrf_tiled_step_gradient(const struct hrf_tiled_step *step, int32_t i);
const char *hrf_tiled_step_text(const struct hrf_tiled_step *step);

#endif
