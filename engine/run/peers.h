/* peers.h - a rank's communication with the other ranks of its group.
 *
 * plan/transfers.h lists what is copied, sent and received, in order; this module executes the list
 * over a comm, in host memory.
 */
#ifndef HRF_ENGINE_RUN_PEERS_H
#define HRF_ENGINE_RUN_PEERS_H

#include "base/alloc.h"
#include "engine/backend/backend.h"
#include "engine/comm/comm.h"
#include "engine/plan/plan.h"

/* Exchanges and reductions use tags from 0 to HRF_PEERS_MAX_TAG - 1; each of the other tags has one
 * purpose on a comm. MPI guarantees tags up to 32767; the MPI back end reserves the last two. */
enum {
    HRF_PEERS_MAX_TAG = 32752,
    HRF_TAG_OUTPUT,          /* rank.c */
    HRF_TAG_OUTPUT_MIRRORED, /* likewise, of the second of two mirrored pipelines */
    HRF_TAG_VOTE,            /* agree.c ... */
    HRF_TAG_BROADCAST,
    HRF_TAG_COUNT,
    HRF_TAG_GATHER,
    HRF_TAG_TAKEN,          /* device_shared.c */
    HRF_TAG_TAKEN_MIRRORED, /* likewise, of the second of two mirrored pipelines */
    HRF_TAG_PREPARE,        /* hrf_peers_ranks() */
    HRF_TAGS_END
};
_Static_assert((int)HRF_TAGS_END <= 32766, "what MPI promises");

struct hrf_peers {
    const struct hrf_partition *partition; /* borrowed */
    struct hrf_comm *comm;                 /* borrowed; NULL: bands, which need no messages */
    int32_t rank;                          /* in the partition */
    int32_t base;                          /* the group's first rank in the comm */
    bool is_mirrored;         /* the mirrored pipeline: stage 0 is on the last ranks of the group */
    struct hrf_rank_map *map; /* of the rank's graph; owned */
    const struct hrf_plan *plan; /* of that; borrowed */
    /* Memory of the device if there is one. Borrowed, except the host buffer for one message. */
    char *memory[HRF_N_MEMORIES];
};

/* The caller then makes the graph of the rank and its map, and sets peers->map. */
HRF_CHECKED enum hrf_status hrf_peers_init(struct hrf_peers *peers,
                                           const struct hrf_partition *partition,
                                           struct hrf_comm *comm, int32_t rank, int32_t base,
                                           bool is_mirrored, struct hrf_error *err);
void hrf_peers_release(struct hrf_peers *peers);
/* Sets the plan, which is borrowed for life, and allocates memory for its largest message. */
void hrf_peers_bind(struct hrf_peers *peers, const struct hrf_plan *plan);
/* Counts one step of progress, so that ranks that wait for this one do not time out, and lets the
 * comm advance messages in flight. */
HRF_CHECKED enum hrf_status hrf_peers_progress(struct hrf_peers *peers, struct hrf_error *err);
/* Runs the transfers of a step. Between a BEGIN step and its END, memory that is to be received
 * into belongs to the comm. */
HRF_CHECKED enum hrf_status hrf_peers_run(struct hrf_peers *peers, int32_t step,
                                          struct hrf_error *err);

/* All ranks of the comm, as back ends reach each other (backend.h). The comm stays borrowed. */
struct hrf_backend_ranks hrf_peers_ranks(struct hrf_comm *comm);

/* Translates a rank of the partition, and a tag of its plan, to those of the comm. The two mirrored
 * pipelines use different tags. Messages of one tag arrive in order, so micro-batches need no tags
 * of their own. */
int32_t hrf_peers_comm_rank(const struct hrf_peers *peers, int32_t rank);
static inline int64_t hrf_peers_tag(const struct hrf_peers *peers, int64_t tag)
{
    return 2 * tag + peers->is_mirrored;
}
/* Sends or receives a message of the plan; `to` and `from` are ranks of the partition. */
HRF_CHECKED enum hrf_status hrf_peers_send(const struct hrf_peers *peers, int32_t to, int64_t tag,
                                           const void *bytes, size_t n_bytes,
                                           struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_peers_receive(const struct hrf_peers *peers, int32_t from,
                                              int64_t tag, void *bytes, size_t n_bytes,
                                              struct hrf_error *err);
static inline char *hrf_peers_at(const struct hrf_peers *peers, const struct hrf_area *area)
{
    return peers->memory[area->memory] + area->offset;
}

#endif
