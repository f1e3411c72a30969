/* peers.h - a rank's dealings with the other ranks of its group: exchanges and reductions.
 *
 * Runs the EXCHANGE and ALL_REDUCE nodes of a rank's graph over a comm. Where a part lies in one
 * piece in memory it is sent from and received into its tensor; else it is packed.
 */
#ifndef HRF_ENGINE_RUN_PEERS_H
#define HRF_ENGINE_RUN_PEERS_H

#include "base/alloc.h"
#include "engine/comm/comm.h"
#include "engine/plan/kept.h"

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
    struct hrf_comm *comm;                 /* borrowed */
    int32_t rank;                          /* in the partition */
    int32_t base;                          /* the group's first rank in the comm */
    bool is_mirrored; /* the partition's stages lie on the group's ranks from the last to the first
                       */
    struct hrf_rank_map *map; /* of the rank's graph; owned */
    void *scratch;
    size_t scratch_bytes;
    /* The partition's kept memory where ranks are bands, on the device if there is one; borrowed.
     */
    void *kept;
};
/* `rank` is then the band at hand, which may be any that is alike the one that the graph is of. */

/* The rank's graph and its map are to be made next: peers->map. */
HRF_CHECKED enum hrf_status hrf_peers_init(struct hrf_peers *peers,
                                           const struct hrf_partition *partition,
                                           struct hrf_comm *comm, int32_t rank, int32_t base,
                                           bool is_mirrored, struct hrf_error *err);
/* One step further: those that wait for this rank need not give up yet, and what is under way gets
 * on where the comm needs that. */
HRF_CHECKED enum hrf_status hrf_peers_progress(struct hrf_peers *peers, struct hrf_error *err);
void hrf_peers_release(struct hrf_peers *peers);
/* `in`: the box that the rank has (NULL: none); `out`: the box that it needs (not touched when it
 * takes nothing). Memory order. `in` may be exactly the part of `out` that holds it. begin() gives,
 * and puts what the rank has itself into `out`; end() takes the rest. Between the two what is to
 * come belongs to the comm. */
HRF_CHECKED enum hrf_status hrf_peers_begin(struct hrf_peers *peers, int32_t exchange,
                                            const void *in, void *out, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_peers_end(struct hrf_peers *peers, int32_t exchange, void *out,
                                          struct hrf_error *err);
/* Both at once. */
HRF_CHECKED enum hrf_status hrf_peers_exchange(struct hrf_peers *peers, int32_t exchange,
                                               const void *in, void *out, struct hrf_error *err);
/* `in`: the rank's part (NULL: none). */
HRF_CHECKED enum hrf_status hrf_peers_reduce(struct hrf_peers *peers, int32_t reduce,
                                             const void *in, void *out, struct hrf_error *err);

/* The comm's name of a rank of the partition, and the tag of a row's messages. */
int32_t hrf_peers_comm_rank(const struct hrf_peers *peers, int32_t rank);
int64_t hrf_peers_tag(const struct hrf_peers *peers, bool is_reduce, int32_t index);

#endif
