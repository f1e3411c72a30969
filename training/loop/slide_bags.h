/* slide_bags.h - slides as bags of patches: those of a step, and the scores that an encoder and a
 * head give. */
#ifndef HRF_TRAINING_LOOP_SLIDE_BAGS_H
#define HRF_TRAINING_LOOP_SLIDE_BAGS_H

#include "heads/model/head.h"
#include "training/loop/fine_tuning.h"
#include "training/loop/slide_trainer.h"

/* The head that a recipe asks for, with the sizes of its kind. */
struct hrf_head_form hrf_slide_head_form(const struct hrf_train_recipe *recipe);

/* The patches of a slide in a step, which are read once for each pass. */
struct hrf_step_bag {
    const struct hrf_fine_tuning *tuning; /* borrowed */
    struct hrf_slide_bag bag;             /* for hrf_slide_trainer_add() */
    int64_t *order, *places;              /* [bag.n] of the pass; heap */
    int64_t seed, number, own_first, own_end;
    struct hrf_sample_feed *feed;
    double waited; /* seconds, for patches */
};
/* Draws recipe->bag patches of the slide, or takes all. `number`: of the slide in the training;
 * what is drawn, and how patches are changed, is a function of it and the seed. Of each batch only
 * patches [own_first, own_end) are read: struct hrf_sample_feed_config. */
void hrf_step_bag_init(struct hrf_step_bag *bag, const struct hrf_fine_tuning *tuning,
                       int64_t slide, int64_t seed, int64_t number, int64_t own_first,
                       int64_t own_end);
/* Patches of a slide in a step. */
int64_t hrf_step_bag_patches(const struct hrf_fine_tuning *tuning, size_t slide);
void hrf_step_bag_release(struct hrf_step_bag *bag);

/* Scores the slides of a part, all patches of each without augmentation, and writes them to
 * scores[n_items][n_classes]. The input of `encoder` has the shape of a batch. */
HRF_CHECKED enum hrf_status
hrf_slide_bags_score(const struct hrf_fine_tuning *tuning, const struct hrf_graph *encoder,
                     const struct hrf_head *head, const enum hrf_training_part *parts,
                     enum hrf_training_part part, float *scores, struct hrf_error *err);
/* Writes head.onnx for the embeddings of the encoder in that file, with the slides that it has
 * seen. */
HRF_CHECKED enum hrf_status hrf_slide_bags_write_head(const struct hrf_fine_tuning *tuning,
                                                      const struct hrf_head *head,
                                                      const enum hrf_training_part *parts,
                                                      const char *encoder_path, const char *folder,
                                                      struct hrf_error *err);

#endif
