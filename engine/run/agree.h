/* agree.h - collective operations of the ranks of a comm: votes, sums, gathers and broadcasts.
 *
 * Either all ranks of a network run it or none: a rank that cannot read its part of an image must
 * say so before the others wait for it. All operations go through rank 0 and cost a few short
 * messages per rank.
 */
#ifndef HRF_ENGINE_RUN_AGREE_H
#define HRF_ENGINE_RUN_AGREE_H

#include "engine/comm/comm.h"
#include "engine/run/resource_use.h"

#include <stdbool.h>

struct hrf_vote {
    enum hrf_status status;                        /* result: that of the first rank that failed */
    bool stops;                                    /* result: true if any rank was asked to stop */
    int64_t most[HRF_MOST_PARTS];                  /* results: the maxima */
    struct hrf_resource_use spent[HRF_MOST_PARTS]; /* results: the sums */
    char text[512];                                /* the reason; "" with HRF_OK */
};
/* Combines the votes of all ranks; *vote is the rank's own before the call and the result after it,
 * on every rank. Fails only if ranks cannot be reached. */
HRF_CHECKED enum hrf_status hrf_agree(struct hrf_comm *comm, struct hrf_vote *vote,
                                      struct hrf_error *err);
/* The same of a status alone: HRF_OK on every rank, or on every rank the failure of the first one
 * that failed, whose text is in *why. */
HRF_CHECKED enum hrf_status hrf_agree_status(struct hrf_comm *comm, enum hrf_status status,
                                             const struct hrf_error *why, struct hrf_error *err);
/* Adds to `sum` on rank 0 what all ranks have sent and received over the comm since the last call;
 * other ranks get nothing. `seen` [HRF_N_COMM_USES] holds each rank's own counts of the last call.
 */
HRF_CHECKED enum hrf_status hrf_count_all(struct hrf_comm *comm, struct hrf_comm_count *seen,
                                          struct hrf_comm_count *sum, struct hrf_error *err);
/* Gathers n_bytes from every rank in `all` on rank 0, in rank order; `all` is NULL on other
 * ranks. */
HRF_CHECKED enum hrf_status hrf_gather(struct hrf_comm *comm, const void *mine, size_t n_bytes,
                                       void *all, struct hrf_error *err);
/* Finds the ranks on the same node as rank 0: is_same_node[n_ranks], set on rank 0 only. */
HRF_CHECKED enum hrf_status hrf_find_same_node(struct hrf_comm *comm, bool *is_same_node,
                                               struct hrf_error *err);
/* Broadcasts the bytes of rank 0 to every rank. */
HRF_CHECKED enum hrf_status hrf_broadcast(struct hrf_comm *comm, void *bytes, size_t n_bytes,
                                          struct hrf_error *err);

#endif
