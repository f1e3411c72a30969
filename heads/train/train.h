/* train.h - one training: a fold and a seed, from the slides to a head as ONNX.
 *
 * Its folder gets head.onnx, predictions.csv, history.csv and, last, result.json. After an epoch
 * checkpoint.bin is replaced, at most every ten seconds (HRF_PART_MS); a training that is run again
 * continues from there and ends with the same bytes. One that has its result.json is not repeated.
 */
#ifndef HRF_HEADS_TRAIN_TRAIN_H
#define HRF_HEADS_TRAIN_TRAIN_H

#include "heads/train/slides.h"
#include "training/cohort/training_figures.h"

struct hrf_training {
    const struct hrf_recipe *recipe;
    const struct hrf_head_slides *slides;
    int64_t fold, seed;
    const char *folder, *version;
    const char *attempt;       /* folder of the job's attempt whose task it is; NULL: of no job */
    bool (*is_stopping)(void); /* asked after each epoch; NULL: it never is */
};
/* True, with its figures, if the folder has the result of exactly this training. */
bool hrf_training_is_done(const struct hrf_training *training, struct hrf_training_figures *out);
/* Trains the head. HRF_E_AGAIN: it was asked to stop; the checkpoint is kept. */
HRF_CHECKED enum hrf_status hrf_training_run(const struct hrf_training *training,
                                             struct hrf_error *err);

#endif
