/* trained_head.h - the result of a train task: a slide head and the other files of its training, or
 * what a training of a network has come to. */
#ifndef HRF_SCHEMA_RECORD_TRAINED_HEAD_H
#define HRF_SCHEMA_RECORD_TRAINED_HEAD_H

#include "base/alloc.h"
#include "base/error.h"
#include "schema/record/container.h"

#define HRF_TRAINED_HEAD_KIND "trained-head" /* in its record's header */

/* The files of a training, which the record contains as a whole. Of a network's training it has
 * result.json alone: the model may be large, and stays where it was written. */
enum hrf_trained_file {
    HRF_TRAINED_ONNX,        /* head.onnx */
    HRF_TRAINED_RESULT,      /* result.json */
    HRF_TRAINED_PREDICTIONS, /* predictions.csv */
    HRF_TRAINED_HISTORY      /* history.csv */
};
enum { HRF_N_TRAINED_FILES = 4 };
extern const char *const hrf_trained_files[HRF_N_TRAINED_FILES]; /* their names */

struct hrf_trained_head {
    struct hrf_record_identity identity;
    struct hrf_bytes files[HRF_N_TRAINED_FILES]; /* owned */
};
void hrf_trained_head_destroy(struct hrf_trained_head *head);
HRF_DEFINE_AUTO(hrf_trained_head)

/* Equal files give equal bytes. Files without data are left out. */
HRF_CHECKED enum hrf_status hrf_trained_head_encode(const struct hrf_trained_head *head,
                                                    struct hrf_bytes *out, struct hrf_error *err);
/* The record of a network's training that has ended in `folder`. */
HRF_CHECKED enum hrf_status hrf_trained_network_encode(const struct hrf_record_identity *identity,
                                                       const char *folder, struct hrf_bytes *out,
                                                       struct hrf_error *err);
/* Of a slide head. `expected`: see hrf_container_decode. */
HRF_CHECKED enum hrf_status hrf_trained_head_decode(const void *bytes, size_t n_bytes,
                                                    const struct hrf_record_identity *expected,
                                                    const char *where,
                                                    struct hrf_trained_head **out,
                                                    struct hrf_error *err);

#endif
