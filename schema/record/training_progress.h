/* training_progress.h - how far a training is within its epoch: progress.json in its folder, for
 * those who look on. It is rewritten in place as steps are done, is a hint and never a fact, and
 * goes with the checkpoint when the training is done. Stateless.
 */
#ifndef HRF_SCHEMA_RECORD_TRAINING_PROGRESS_H
#define HRF_SCHEMA_RECORD_TRAINING_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const char hrf_training_progress_name[]; /* "progress.json" */
enum { HRF_TRAINING_PROGRESS_MAX = 4096 };      /* bytes of such a file */

struct hrf_training_progress {
    int64_t epoch;         /* from 1 */
    int64_t step, n_steps; /* done, and all, of this epoch */
    double loss;           /* the mean of the epoch's steps so far; NaN: there is none */
};

/* Nothing is told if it cannot be written. */
void hrf_training_progress_write(const char *folder, const struct hrf_training_progress *progress);
/* False: it is no whole record, as one that is just being written. */
bool hrf_training_progress_parse(const char *text, size_t n_bytes,
                                 struct hrf_training_progress *progress);

#endif
