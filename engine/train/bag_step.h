/* bag_step.h - the gradients of an encoder over bags of any number of images.
 *
 * What follows the encoder, such as a slide head, needs the embeddings of all images at once, and
 * the encoder's gradients need the gradient to each embedding. So images pass twice, in batches:
 * forward for their embeddings, and forward and backward with the loss sum(seed * embedding), the
 * seed of an image being the gradient of the whole loss to its embedding. The sums over the batches
 * are the gradients of the whole loss, because the encoder treats each image by itself: statistics
 * are those of the file. Of several bags the sums go on. In BF16 the second pass alone is. Memory
 * holds one batch, and D numbers of an image; a step in tiles or on several ranks computes both
 * passes so. Sums are made in the order of the batches: the same bits on any number of threads. One
 * thread uses a bag step at a time. Example: hrf_bag_step_begin(bag); for each bag:
 * hrf_bag_step_embed(bag, n, give, context, embeddings, err); seeds = the gradients of the head's
 * loss to the embeddings; hrf_bag_step_run(bag, n, give, context, seeds, err); in the end change
 * the weights by hrf_bag_step_gradient(bag, i), and hrf_train_step_set_changed(step).
 */
#ifndef HRF_ENGINE_TRAIN_BAG_STEP_H
#define HRF_ENGINE_TRAIN_BAG_STEP_H

#include "engine/train/step.h"

struct hrf_bag_step; /* opaque */

/* `step` is of an encoder, whose images are a batch and whose output is their embeddings, with
 * HRF_LOSS_LINEAR and has_forward, and by the statistics of the file. It outlives the bag step. */
HRF_CHECKED enum hrf_status hrf_bag_step_create(struct hrf_train_step *step,
                                                struct hrf_bag_step **out, struct hrf_error *err);
void hrf_bag_step_destroy(struct hrf_bag_step *bag);
HRF_DEFINE_AUTO(hrf_bag_step)

/* Some images of a bag. */
struct hrf_bag_part {
    int64_t n;
    const int64_t *which; /* [n], rising; NULL: the first n */
};
/* Fills a batch of images, those of the part from `first` on, N, H, W, C; what its last batch lacks
 * may be any finite numbers, and so may what is not of this process (hrf_train_step_own_images()).
 * It is called for one batch after the other, from 0 on, by each pass. */
typedef enum hrf_status hrf_bag_images(void *context, const struct hrf_bag_part *part,
                                       int64_t first, float *images, struct hrf_error *err);
/* The sums begin anew. */
void hrf_bag_step_begin(struct hrf_bag_step *bag);
/* The embeddings [n][D] of a bag's n images. */
HRF_CHECKED enum hrf_status hrf_bag_step_embed(struct hrf_bag_step *bag, int64_t n,
                                               hrf_bag_images *images, void *context,
                                               float *embeddings, struct hrf_error *err);
/* Adds the gradients of sum(seeds * embeddings) over a part of the bag; seeds [..][D] are those of
 * all its images. */
HRF_CHECKED enum hrf_status hrf_bag_step_run(struct hrf_bag_step *bag,
                                             const struct hrf_bag_part *part,
                                             hrf_bag_images *images, void *context,
                                             const float *seeds, struct hrf_error *err);
/* The sum of the gradients to weights i of the step, in ONNX order. */
const float *hrf_bag_step_gradient(const struct hrf_bag_step *bag, int32_t i);
#endif
