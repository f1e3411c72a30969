/* training_result.h - what a training leaves in its folder: history.csv, predictions.csv,
 * model.onnx, or encoder.onnx and head.onnx, and, last, result.json. A training whose folder has
 * its result.json is not repeated.
 */
#ifndef HRF_TRAINING_LOOP_TRAINING_RESULT_H
#define HRF_TRAINING_LOOP_TRAINING_RESULT_H

#include "heads/model/head.h"
#include "training/cohort/training_figures.h"
#include "training/loop/fine_tuning.h"

/* What is written; all is borrowed. */
struct hrf_training_result {
    int64_t fold, seed;
    const char *key;                 /* hrf_fine_tuning_key() */
    const struct hrf_graph *network; /* NULL: nothing that a run could take */
    const struct hrf_head *head;     /* that was trained with it; NULL: none */
    const struct hrf_training_set *set;
    const enum hrf_training_part *parts;
    const float *scores;
    const struct hrf_training_epoch *records; /* [n_epochs]; NULL: it had none */
    int64_t n_epochs, best_epoch;
    int32_t n_trained; /* tensors */
};
/* Removes the checkpoint once all is there. */
HRF_CHECKED enum hrf_status hrf_training_result_write(const struct hrf_training_result *result,
                                                      const struct hrf_fine_tuning *tuning,
                                                      const char *folder, struct hrf_error *err);

/* True, with its figures, if the folder has the result of exactly this training. */
bool hrf_fine_tuning_is_done(const struct hrf_fine_tuning *tuning, int64_t fold, int64_t seed,
                             const char *folder, struct hrf_training_figures *out);

#endif
