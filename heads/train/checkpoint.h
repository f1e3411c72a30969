/* checkpoint.h - all that a training consists of after an epoch, in one file.
 *
 * The file ends with the SHA-256 of what stands before it, and names the training that it belongs
 * to: a damaged file, or one of another training, does not count. Numbers are the machine's own.
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
    struct hrf_epoch_record *records; /* [most_epochs] */
    int64_t most_epochs;
};

/* Atomically. `key` names the training. */
HRF_CHECKED enum hrf_status hrf_checkpoint_write(const struct hrf_training_state *state,
                                                 const char key[HRF_HASH_HEX], const char *path,
                                                 struct hrf_error *err);
/* False: there is no such file, or it is damaged or of another training; the state is as it was. */
bool hrf_checkpoint_read(struct hrf_training_state *state, const char key[HRF_HASH_HEX],
                         const char *path);

#endif
