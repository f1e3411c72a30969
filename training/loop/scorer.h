/* scorer.h - the scores that a network gives pictures, without augmentation. */
#ifndef HRF_TRAINING_LOOP_SCORER_H
#define HRF_TRAINING_LOOP_SCORER_H

#include "training/loop/fine_tuning.h"

/* Takes the numbers that the network gives a picture, its mask with it. */
typedef void hrf_scorer_take(void *context, int64_t item, const float *numbers,
                             const struct hrf_shape *shape, const unsigned char *mask);
/* Gives `n` pictures to `network`, whose input has the shape of a batch, and what it gives order[i]
 * to `take`, in this order. `n_outputs`, `activation`: hrf_engine_finish_scores(). `kept_bytes`:
 * what `take` holds, which counts within the memory limit. */
HRF_CHECKED enum hrf_status
hrf_scorer_outputs(const struct hrf_fine_tuning *tuning, const struct hrf_graph *network,
                   const int64_t *order, int64_t n, size_t n_outputs, const char *activation,
                   int64_t kept_bytes, hrf_scorer_take *take, void *context, struct hrf_error *err);
/* A vector of each picture into numbers[n_items][width]. */
struct hrf_scorer_vectors {
    float *numbers;
    size_t width;
};
hrf_scorer_take hrf_scorer_take_vector; /* context: struct hrf_scorer_vectors */
/* Scores the pictures of a part by `network`, whose input has the shape of a batch, and writes them
 * to scores[n_items][hrf_label_n_scores()]. Within the memory limit, in bands of rows if need be,
 * as a run. HRF_E_USER: a score is not finite. */
HRF_CHECKED enum hrf_status hrf_scorer_run(const struct hrf_fine_tuning *tuning,
                                           const struct hrf_graph *network,
                                           const enum hrf_training_part *parts,
                                           enum hrf_training_part part, float *scores,
                                           struct hrf_error *err);
/* What a session may use: train.memory without what the feed holds, or what the process may use.
 * HRF_E_NOMEM: that leaves nothing. */
HRF_CHECKED enum hrf_status hrf_scorer_memory(const struct hrf_fine_tuning *tuning,
                                              const struct hrf_sample_feed_config *feeding,
                                              int64_t *out, struct hrf_error *err);
/* `status` of what was to keep to that; to a refusal for want of memory it adds what the file's
 * number is and what is left of it. */
HRF_CHECKED enum hrf_status hrf_scorer_explain_memory(const struct hrf_fine_tuning *tuning,
                                                      const struct hrf_sample_feed_config *feeding,
                                                      enum hrf_status status,
                                                      struct hrf_error *err);
/* Threads that read pictures: as many as compute, at least two. */
int hrf_scorer_readers(const struct hrf_fine_tuning *tuning);

#endif
