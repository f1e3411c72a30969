#include "engine/run/agree.h"

#include "engine/run/peers.h"

enum { VOTE_TAG = HRF_PEERS_MAX_TAG + 2, TELL_TAG = HRF_PEERS_MAX_TAG + 3 };

enum hrf_status hrf_tell_all(struct hrf_comm *comm, void *bytes, size_t n_bytes,
                             struct hrf_error *err)
{
    if (comm->rank != 0)
        return comm->ops->receive(comm, 0, TELL_TAG, bytes, n_bytes, err);
    for (int32_t r = 1; r < comm->n_ranks; r++)
        HRF_TRY(comm->ops->send(comm, r, TELL_TAG, bytes, n_bytes, err));
    return HRF_OK;
}

/* `sum` is of the ranks before. */
static void add_vote(struct hrf_vote *sum, const struct hrf_vote *vote)
{
    const bool stops = sum->stops || vote->stops;
    const int64_t most = vote->most > sum->most ? vote->most : sum->most;
    if (sum->status == HRF_OK)
        *sum = *vote;
    sum->stops = stops;
    sum->most = most;
}

enum hrf_status hrf_agree(struct hrf_comm *comm, struct hrf_vote *vote, struct hrf_error *err)
{
    if (comm->rank != 0)
        HRF_TRY(comm->ops->send(comm, 0, VOTE_TAG, vote, sizeof *vote, err));
    for (int32_t r = 1; r < comm->n_ranks && comm->rank == 0; r++) {
        struct hrf_vote other;
        HRF_TRY(comm->ops->receive(comm, r, VOTE_TAG, &other, sizeof other, err));
        add_vote(vote, &other);
    }
    return hrf_tell_all(comm, vote, sizeof *vote, err);
}
