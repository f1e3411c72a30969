/* checkpoint.h - the whole state of a training after an epoch, in one file.
 *
 * It is a file of training/cohort/checkpoint_file.h. Numbers have the machine's byte order.
 */
#ifndef HRF_HEADS_TRAIN_CHECKPOINT_H
#define HRF_HEADS_TRAIN_CHECKPOINT_H

#include "base/hash.h"
#include "heads/train/adam.h"

/* One line of history.csv. NaN: there was no validation, or it has no AUC. */
struct hrf_epoch_record {
    double training_loss, validation_loss, validation_auc;
};

struct hrf_training_state {
    struct hrf_head *head;
    struct hrf_adam adam;
    float *best;        /* [n_values]: the weights to keep */
    int64_t epoch;      /* epochs that are done */
    int64_t best_epoch; /* from 1; 0: none yet */
    double best_loss;
    struct hrf_epoch_record *records; /* [max_epochs] */
    int64_t max_epochs;
};

/* Writes the state atomically. `key` identifies the training. */
HRF_CHECKED enum hrf_status hrf_checkpoint_write(const struct hrf_training_state *state,
                                                 const char key[HRF_HASH_HEX], const char *path,
                                                 struct hrf_error *err);
/* Reads the state. False if there is no such file, or if it is damaged or of another training; the
 * state is then unchanged. */
bool hrf_checkpoint_read(struct hrf_training_state *state, const char key[HRF_HASH_HEX],
                         const char *path);

#endif
