/* checkpoint_file.h - the state of a training as bytes in one file.
 *
 * The file begins with a magic word and the key of the training that it belongs to, and ends with
 * the SHA-256 of all bytes before: a damaged file, or one of another training, does not count. It
 * is replaced atomically.
 */
#ifndef HRF_TRAINING_COHORT_CHECKPOINT_FILE_H
#define HRF_TRAINING_COHORT_CHECKPOINT_FILE_H

#include "base/error.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>

/* HRF_E_AGAIN: the job's attempt whose folder is `attempt` (NULL: no job) has been revoked, and its
 * successor has the training's files for its own. */
HRF_CHECKED enum hrf_status hrf_training_check_attempt(const char *attempt, struct hrf_error *err);

struct hrf_checkpoint_part {
    void *bytes;
    size_t n_bytes;
};
/* HRF_E_AGAIN: hrf_training_check_attempt(). */
HRF_CHECKED enum hrf_status hrf_checkpoint_file_write(const char *path, const char *attempt,
                                                      const char magic[8],
                                                      const char key[HRF_HASH_HEX],
                                                      const struct hrf_checkpoint_part *parts,
                                                      size_t n_parts, struct hrf_error *err);
/* *out (heap): the bytes of all parts, *n_bytes of them. False: there is no such file, or it is
 * damaged, of another training, or holds more than `limit` bytes. */
bool hrf_checkpoint_file_read(const char *path, const char magic[8], const char key[HRF_HASH_HEX],
                              size_t limit, char **out, size_t *n_bytes);

#endif
