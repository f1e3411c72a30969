/* agree.c - votes, sums, gathers and broadcasts over a comm, all through rank 0 (agree.h). */
#include "engine/run/agree.h"

#include "base/host.h"
#include "engine/run/peers.h"

#include <stdio.h>
#include <string.h>

enum hrf_status hrf_broadcast(struct hrf_comm *comm, void *bytes, size_t n_bytes,
                              struct hrf_error *err)
{
    comm->use = HRF_COMM_CONTROL;
    if (comm->rank != 0)
        return comm->ops->receive(comm, 0, HRF_TAG_BROADCAST, bytes, n_bytes, err);
    for (int32_t r = 1; r < comm->n_ranks; r++)
        HRF_TRY(comm->ops->send(comm, r, HRF_TAG_BROADCAST, bytes, n_bytes, err));
    return HRF_OK;
}

enum hrf_status hrf_gather(struct hrf_comm *comm, const void *mine, size_t n_bytes, void *all,
                           struct hrf_error *err)
{
    comm->use = HRF_COMM_CONTROL;
    if (comm->rank != 0)
        return comm->ops->send(comm, 0, HRF_TAG_GATHER, mine, n_bytes, err);
    memcpy(all, mine, n_bytes);
    for (int32_t r = 1; r < comm->n_ranks; r++)
        HRF_TRY(comm->ops->receive(comm, r, HRF_TAG_GATHER, (char *)all + (size_t)r * n_bytes,
                                   n_bytes, err));
    return HRF_OK;
}

enum hrf_status hrf_find_same_node(struct hrf_comm *comm, bool *is_same_node, struct hrf_error *err)
{
    char host[64] = "";
    HRF_AUTO_FREE char *hosts = hrf_calloc((size_t)comm->n_ranks, sizeof host);
    hrf_process_host_name(host, sizeof host);
    HRF_TRY(hrf_gather(comm, host, sizeof host, hosts, err));
    for (int32_t r = 0; r < comm->n_ranks && comm->rank == 0; r++)
        is_same_node[r] = strcmp(hosts + (size_t)r * sizeof host, host) == 0;
    return HRF_OK;
}

/* Adds a rank's vote to `sum`, which holds the votes of the ranks before it. */
static void add_vote(struct hrf_vote *sum, const struct hrf_vote *vote)
{
    const struct hrf_vote before = *sum;
    if (sum->status == HRF_OK)
        *sum = *vote;
    sum->stops = before.stops || vote->stops;
    for (int i = 0; i < HRF_MOST_PARTS; i++) {
        sum->most[i] = vote->most[i] > before.most[i] ? vote->most[i] : before.most[i];
        sum->spent[i] = before.spent[i];
        hrf_resource_use_add(&sum->spent[i], &vote->spent[i]);
    }
}

enum hrf_status hrf_agree(struct hrf_comm *comm, struct hrf_vote *vote, struct hrf_error *err)
{
    comm->use = HRF_COMM_CONTROL;
    if (comm->rank != 0)
        HRF_TRY(comm->ops->send(comm, 0, HRF_TAG_VOTE, vote, sizeof *vote, err));
    for (int32_t r = 1; r < comm->n_ranks && comm->rank == 0; r++) {
        struct hrf_vote other;
        HRF_TRY(comm->ops->receive(comm, r, HRF_TAG_VOTE, &other, sizeof other, err));
        add_vote(vote, &other);
    }
    return hrf_broadcast(comm, vote, sizeof *vote, err);
}

enum hrf_status hrf_agree_status(struct hrf_comm *comm, enum hrf_status status,
                                 const struct hrf_error *why, struct hrf_error *err)
{
    HRF_AUTO_FREE struct hrf_vote *vote = hrf_calloc(1, sizeof *vote);
    vote->status = status;
    snprintf(vote->text, sizeof vote->text, "%.511s", status == HRF_OK ? "" : why->text);
    HRF_TRY(hrf_agree(comm, vote, err));
    return vote->status == HRF_OK ? HRF_OK : hrf_error_set(err, vote->status, "%s", vote->text);
}

static void take_new(struct hrf_comm *comm, struct hrf_comm_count *seen, struct hrf_comm_count *out)
{
    for (int use = 0; use < HRF_N_COMM_USES; use++) {
        out[use] = hrf_comm_count_since(&comm->counts[use], &seen[use]);
        seen[use] = comm->counts[use];
    }
}

enum hrf_status hrf_count_all(struct hrf_comm *comm, struct hrf_comm_count *seen,
                              struct hrf_comm_count *sum, struct hrf_error *err)
{
    struct hrf_comm_count part[HRF_N_COMM_USES];
    comm->use = HRF_COMM_CONTROL;
    take_new(comm, seen, part);
    if (comm->rank != 0)
        return comm->ops->send(comm, 0, HRF_TAG_COUNT, part, sizeof part, err);
    for (int32_t r = 0; r < comm->n_ranks; r++) {
        if (r > 0)
            HRF_TRY(comm->ops->receive(comm, r, HRF_TAG_COUNT, part, sizeof part, err));
        for (int use = 0; use < HRF_N_COMM_USES; use++)
            hrf_comm_count_add(&sum[use], &part[use]);
    }
    return HRF_OK;
}
