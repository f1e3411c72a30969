/* slide_trainer.h - an encoder and a slide head that are trained together by the labels of slides.
 *
 * A slide is a bag of patches: the encoder embeds all of them, the head gives the loss, its own
 * gradients and that to each embedding, and the encoder's gradients follow from these
 * (engine/train/bag_step.h), exactly. A step adds up the gradients of its slides, and one update
 * then changes both networks. A step is a function of the weights, the moments, the patches and the
 * numbers that dropout draws: the same bits on any number of threads. The head computes in FP32 and
 * on one rank, whatever the encoder does. One thread uses a trainer at a time. Example:
 *   hrf_slide_trainer_begin(trainer);
 *   for each of n slides: HRF_TRY(hrf_slide_trainer_add(trainer, &bag, 1.0 / n, err));
 *   HRF_TRY(hrf_slide_trainer_update(trainer, 1e-4, err));
 */
#ifndef HRF_TRAINING_LOOP_SLIDE_TRAINER_H
#define HRF_TRAINING_LOOP_SLIDE_TRAINER_H

#include "engine/train/bag_step.h"
#include "engine/train/trainer.h"
#include "heads/model/head.h"

struct hrf_slide_trainer; /* opaque */

struct hrf_slide_trainer_config {
    /* Its loss does not count. On several ranks they divide the patches; with a comm each process
     * makes the same calls. */
    struct hrf_trainer_config encoder;
    struct hrf_head_form head; /* its width is found */
    uint64_t seed;             /* of the head's first weights */
    int64_t most;              /* patches of the largest bag */
    double head_rate;          /* the head's learning rate in those of the encoder */
    double skipped;            /* share of the gradients left out (hrf_slide_gradients_choose()) */
};
struct hrf_slide_bag {
    int64_t n, label;
    uint64_t dropout; /* of the numbers that are left out */
    hrf_bag_images *images;
    void *context;
};

/* `encoder` has been read, and its input has the shape of a batch of patches. The memory limit of
 * its step is for all: embeddings and head of the largest bag, and what both passes compute in.
 * HRF_E_NOMEM: they need more, in the smallest tiles, too. */
HRF_CHECKED enum hrf_status hrf_slide_trainer_create(const struct hrf_graph *encoder,
                                                     const struct hrf_slide_trainer_config *config,
                                                     struct hrf_slide_trainer **out,
                                                     struct hrf_error *err);
void hrf_slide_trainer_destroy(struct hrf_slide_trainer *trainer);
HRF_DEFINE_AUTO(hrf_slide_trainer)

/* The patches that count by the gradients of the loss to their embeddings: those with the smallest
 * norms are left out as long as their norms add up to at most the share `skipped` of the sum of
 * all. What that changes in the encoder's gradient is then at most this share of the sum, times the
 * largest norm of the derivative of an embedding to the weights. `gradients` [n][width]; the
 * patches that count to which[n], rising. Returns how many. */
int64_t hrf_slide_gradients_choose(const float *gradients, int64_t n, int64_t width, double skipped,
                                   int64_t *which);

/* A step begins, without any slide. */
void hrf_slide_trainer_begin(struct hrf_slide_trainer *trainer);
/* Adds `share` times the loss of a bag to that of the step, and the gradients of both networks. */
HRF_CHECKED enum hrf_status hrf_slide_trainer_add(struct hrf_slide_trainer *trainer,
                                                  const struct hrf_slide_bag *bag, double share,
                                                  struct hrf_error *err);
/* Of the step so far: the loss, ... */
double hrf_slide_trainer_loss(const struct hrf_slide_trainer *trainer);
/* ... the gradients, by the name of the weights, the encoder's before the head's, in ONNX order
 * (NULL: there is none; of processes the first one has the head's), ... */
const float *hrf_slide_trainer_gradient(const struct hrf_slide_trainer *trainer, const char *name);
/* ... and the patches that the encoder's gradients are of. */
int64_t hrf_slide_trainer_counted(const struct hrf_slide_trainer *trainer);
/* The update by the gradients of the step. HRF_E_USER: the loss or a gradient is not finite. */
HRF_CHECKED enum hrf_status hrf_slide_trainer_update(struct hrf_slide_trainer *trainer,
                                                     double learning_rate, struct hrf_error *err);

/* The encoder's trainer: its weights, and its network. */
struct hrf_trainer *hrf_slide_trainer_encoder(struct hrf_slide_trainer *trainer);
/* The head with the weights of now, or their average if the optimiser keeps one; valid until the
 * next call. */
HRF_CHECKED enum hrf_status hrf_slide_trainer_head(struct hrf_slide_trainer *trainer,
                                                   struct hrf_head **head, struct hrf_error *err);
/* As those of a trainer, of both. */
void hrf_slide_trainer_append_state(const struct hrf_slide_trainer *trainer,
                                    struct hrf_strbuf *out);
HRF_CHECKED enum hrf_status hrf_slide_trainer_set_state(struct hrf_slide_trainer *trainer,
                                                        const void *bytes, size_t n_bytes,
                                                        struct hrf_error *err);

#endif
