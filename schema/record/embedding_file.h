/* embedding_file.h - the file that holds the embeddings of an infer task: the rows of its patches
 * in order, floats of 32 bits, little-endian, nothing else. A record names it by its hash
 * (scores.h).
 */
#ifndef HRF_SCHEMA_RECORD_EMBEDDING_FILE_H
#define HRF_SCHEMA_RECORD_EMBEDDING_FILE_H

#include "schema/record/scores.h"

/* HRF_E_AGAIN: the file is not there, or has fewer bytes than the record says. HRF_E_USER: it has
 * more, or, with `is_read`, its bytes are not those that the record names. */
HRF_CHECKED enum hrf_status hrf_embedding_file_check(const char *path,
                                                     const struct hrf_scores *scores, bool is_read,
                                                     struct hrf_error *err);

/* Returns the path (heap) of the embeddings that belong to the part of a task at the path `part`.
 */
char *hrf_part_rows_path(const char *part);

#endif
