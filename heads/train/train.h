/* train.h - one training: a fold and a seed, from the slides to a head as ONNX.
 *
 * Its folder gets head.onnx, predictions.csv, history.csv and, last, result.json. After an epoch
 * checkpoint.bin is replaced, at most every ten seconds (HRF_PART_MS); a training that is run again
 * goes on from there and ends with the same bytes. One that has its result.json is not done again.
 */
#ifndef HRF_HEADS_TRAIN_TRAIN_H
#define HRF_HEADS_TRAIN_TRAIN_H

#include "heads/train/slides.h"

struct hrf_training {
    const struct hrf_recipe *recipe;
    const struct hrf_head_slides *slides;
    int64_t fold, seed;
    const char *folder, *version;
    bool (*is_stopping)(void); /* asked after each epoch; NULL: it never is */
};
/* Figures on the slides for testing. NaN, with the reason: they cannot be computed. */
struct hrf_training_figures {
    int64_t n_training, n_validation, n_testing;
    int64_t n_epochs, best_epoch;
    double auc, balanced_accuracy;
    char why[160];
};

/* "fold-0-seed-1": heap; NULL: no memory. */
char *hrf_training_name(int64_t fold, int64_t seed);
/* True, with its figures, if the folder has the result of exactly this training. */
bool hrf_training_is_done(const struct hrf_training *training, struct hrf_training_figures *out);
/* HRF_E_UNSUPPORTED: the processor lacks the instructions that trainings are compiled for. */
HRF_CHECKED enum hrf_status hrf_training_check_processor(struct hrf_error *err);
/* HRF_E_AGAIN: it was asked to stop; what is done is kept. */
HRF_CHECKED enum hrf_status hrf_training_run(const struct hrf_training *training,
                                             struct hrf_error *err);

#endif
