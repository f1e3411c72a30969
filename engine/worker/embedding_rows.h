/* embedding_rows.h - the embeddings of one task, written to their file as they are computed: memory
 * holds a sum of each row, never the rows. For this folder only.
 *
 * Rows arrive in any order. A row may be written twice: the last one counts. One thread at a time.
 */
#ifndef HRF_ENGINE_WORKER_EMBEDDING_ROWS_H
#define HRF_ENGINE_WORKER_EMBEDDING_ROWS_H

#include "base/alloc.h"
#include "schema/record/scores.h"

struct hrf_embedding_rows; /* opaque */

/* Makes the file at `path`, with the room for n rows of `width` numbers: a disk that is too full is
 * told before anything is computed (HRF_E_NOSPACE). What stood there is replaced. */
HRF_CHECKED enum hrf_status hrf_embedding_rows_create(const char *path, int64_t n, int64_t width,
                                                      struct hrf_embedding_rows **out,
                                                      struct hrf_error *err);
/* Closes the file; one that was not finished is removed. */
void hrf_embedding_rows_destroy(struct hrf_embedding_rows *rows);
HRF_DEFINE_AUTO(hrf_embedding_rows)

/* Writes a row. What goes wrong is kept for sync() and finish(). */
void hrf_embedding_rows_put(struct hrf_embedding_rows *rows, int64_t row, const float *values);
/* [n]: the sum of each row that is there, 0 of the others. Borrowed. */
uint64_t *hrf_embedding_rows_sums(const struct hrf_embedding_rows *rows);

/* Copies a row of the file `fd`, which has the same rows, if it has the sum that is given. False:
 * it has not. */
bool hrf_embedding_rows_take(struct hrf_embedding_rows *rows, int fd, int64_t row, uint64_t sum);

/* All rows that are there are on the disk when it returns; the file stays from now on, for the next
 * attempt. */
HRF_CHECKED enum hrf_status hrf_embedding_rows_sync(struct hrf_embedding_rows *rows,
                                                    struct hrf_error *err);
/* The first number that is not finite. */
struct hrf_embedding_flaw {
    int64_t row, column; /* row -1: there is none */
    float value;
};
/* Reads the file once. Without a flaw it is complete and on the disk, and `sha256` is its hash;
 * with one, destroy() removes it. HRF_E_BUG: a row is missing. */
HRF_CHECKED enum hrf_status hrf_embedding_rows_finish(struct hrf_embedding_rows *rows,
                                                      struct hrf_embedding_flaw *flaw,
                                                      char sha256[HRF_HASH_HEX],
                                                      struct hrf_error *err);

#endif
