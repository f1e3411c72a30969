/* agree.h - what the ranks of a comm decide together: whether to go on, and by what.
 *
 * Ranks that run one network must all run it or none: a rank that cannot read its part of an image
 * says so before the others wait for it. Rank 0 asks and tells; a few short messages a rank.
 */
#ifndef HRF_ENGINE_RUN_AGREE_H
#define HRF_ENGINE_RUN_AGREE_H

#include "engine/comm/comm.h"
#include "engine/run/spent.h"

#include <stdbool.h>

struct hrf_vote {
    enum hrf_status status; /* of all: that of the first rank which failed */
    bool stops;             /* of all: one rank was asked to stop */
    int64_t most;           /* of all: the largest */
    struct hrf_spent spent; /* of all: the sum */
    char text[512];         /* why, "" with HRF_OK */
};
/* Every rank gives its vote and gets that of all. Fails only when the ranks cannot be reached. */
HRF_CHECKED enum hrf_status hrf_agree(struct hrf_comm *comm, struct hrf_vote *vote,
                                      struct hrf_error *err);
/* What all ranks have sent and received by it since the last time, on rank 0; the others get
 * nothing. `seen` [HRF_N_COMM_USES]: each rank's own of the last time; `sum` is added to. */
HRF_CHECKED enum hrf_status hrf_count_all(struct hrf_comm *comm, struct hrf_comm_count *seen,
                                          struct hrf_comm_count *sum, struct hrf_error *err);
/* n_bytes of every rank to rank 0, in `all` one after the other (NULL on others). */
HRF_CHECKED enum hrf_status hrf_gather(struct hrf_comm *comm, const void *mine, size_t n_bytes,
                                       void *all, struct hrf_error *err);
/* Which ranks are on rank 0's machine: is_beside[n_ranks], on rank 0; the others get nothing. */
HRF_CHECKED enum hrf_status hrf_find_beside(struct hrf_comm *comm, bool *is_beside,
                                            struct hrf_error *err);
/* Rank 0's bytes to every rank. */
HRF_CHECKED enum hrf_status hrf_tell_all(struct hrf_comm *comm, void *bytes, size_t n_bytes,
                                         struct hrf_error *err);

#endif
