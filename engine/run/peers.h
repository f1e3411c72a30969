/* peers.h - a rank's messages with the other ranks of its group: runs the transfers of its plan.
 *
 * plan/transfers.h says what is copied, sent and received, and in which order; this carries it out
 * over a comm, in host memory.
 */
#ifndef HRF_ENGINE_RUN_PEERS_H
#define HRF_ENGINE_RUN_PEERS_H

#include "base/alloc.h"
#include "engine/comm/comm.h"
#include "engine/plan/plan.h"

/* Tags of exchanges and reductions lie between 0 and the first; each of the others has one use on a
 * comm. MPI promises 32767, of which its back end here keeps the last two. */
enum {
    HRF_PEERS_MAX_TAG = 32752,
    HRF_TAG_OUTPUT, /* rank.c */
    HRF_TAG_VOTE,   /* agree.c ... */
    HRF_TAG_TELL,
    HRF_TAG_COUNT,
    HRF_TAG_GATHER,
    HRF_TAG_TAKEN,          /* device_shared.c */
    HRF_TAG_TAKEN_MIRRORED, /* likewise, of the second of two mirrored pipelines */
    HRF_TAGS_END
};
_Static_assert((int)HRF_TAGS_END <= 32766, "what MPI promises");

struct hrf_peers {
    const struct hrf_partition *partition; /* borrowed */
    struct hrf_comm *comm;                 /* borrowed; NULL: ranks are bands, without messages */
    int32_t rank;                          /* in the partition */
    int32_t base;                          /* the group's first rank in the comm */
    bool is_mirrored; /* the partition's stages lie on the group's ranks from the last to the first
                       */
    struct hrf_rank_map *map;    /* of the rank's graph; owned */
    const struct hrf_plan *plan; /* of that; borrowed */
    /* On the device if there is one; borrowed, but for the host's memory of one message. */
    char *memory[HRF_N_MEMORIES];
};

/* The rank's graph and its map are to be made next: peers->map. */
HRF_CHECKED enum hrf_status hrf_peers_init(struct hrf_peers *peers,
                                           const struct hrf_partition *partition,
                                           struct hrf_comm *comm, int32_t rank, int32_t base,
                                           bool is_mirrored, struct hrf_error *err);
void hrf_peers_release(struct hrf_peers *peers);
/* The plan, which is borrowed for life, and memory for its largest message. */
HRF_CHECKED enum hrf_status hrf_peers_bind(struct hrf_peers *peers, const struct hrf_plan *plan,
                                           struct hrf_error *err);
/* One step further: those that wait for this rank need not give up yet, and what is under way gets
 * on where the comm needs that. */
HRF_CHECKED enum hrf_status hrf_peers_progress(struct hrf_peers *peers, struct hrf_error *err);
/* The transfers of a step. After those of a BEGIN step, what is to come belongs to the comm until
 * those of its END. */
HRF_CHECKED enum hrf_status hrf_peers_run(struct hrf_peers *peers, int32_t step,
                                          struct hrf_error *err);

/* The comm's name of a rank of the partition, and of a tag of its plan. Each direction of mirrored
 * pipelines has tags of its own. Messages of one tag arrive in order, so micro-batches need not be
 * told apart. */
int32_t hrf_peers_comm_rank(const struct hrf_peers *peers, int32_t rank);
static inline int64_t hrf_peers_tag(const struct hrf_peers *peers, int64_t tag)
{
    return 2 * tag + peers->is_mirrored;
}
/* A message of the plan's to or from a rank of the partition. */
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
