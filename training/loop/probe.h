/* probe.h - what the embeddings of pictures tell by themselves, which are computed once for all
 * folds and seeds of a recipe. */
#ifndef HRF_TRAINING_LOOP_PROBE_H
#define HRF_TRAINING_LOOP_PROBE_H

#include "training/loop/fine_tuning.h"

/* Reads the embeddings of all pictures from `out`/embeddings.bin, or computes and keeps them if
 * the file is of other pictures, of another model or another preparation. */
HRF_CHECKED enum hrf_status hrf_probe_embed(struct hrf_fine_tuning *tuning, const char *out,
                                            struct hrf_error *err);
/* Fits the linear model to the pictures for training, and scores all others with it:
 * scores[n_items][n_classes]. *weights: [n_classes][width + 1], the bias last; heap. */
HRF_CHECKED enum hrf_status hrf_probe_linear(const struct hrf_fine_tuning *tuning,
                                             const enum hrf_training_part *parts, double **weights,
                                             int64_t *n_steps, float *scores,
                                             struct hrf_error *err);
/* Scores them by their nearest pictures for training. HRF_E_USER: these are fewer than k. */
HRF_CHECKED enum hrf_status hrf_probe_neighbours(const struct hrf_fine_tuning *tuning,
                                                 const enum hrf_training_part *parts, float *scores,
                                                 struct hrf_error *err);

#endif
