/* scorer.h - the scores that a network gives pictures, without augmentation. */
#ifndef HRF_TRAINING_LOOP_SCORER_H
#define HRF_TRAINING_LOOP_SCORER_H

#include "training/loop/fine_tuning.h"

/* Gives `n` pictures to `network`, whose input has the shape of a batch, and writes the `width`
 * numbers that it gives order[i] to out[order[i]][width]. `activation`:
 * hrf_engine_finish_scores(). */
HRF_CHECKED enum hrf_status hrf_scorer_outputs(const struct hrf_fine_tuning *tuning,
                                               const struct hrf_graph *network,
                                               const int64_t *order, int64_t n, size_t width,
                                               const char *activation, float *out,
                                               struct hrf_error *err);
/* Scores the pictures of a part by `network`, whose input has the shape of a batch, and writes them
 * to scores[n_items][n_classes]. Within the memory limit, in bands of rows if need be, as a run. */
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
/* Threads that read pictures: as many as compute, at least two. */
int hrf_scorer_readers(const struct hrf_fine_tuning *tuning);

#endif
