/* transfers.h - what ranks exchange, as data: the copies and messages of a plan's steps, in order.
 *
 * Every step of an EXCHANGE or ALL_REDUCE node has a run of transfers (plan.h). Their areas are
 * fixed bytes of a rank's memories, so whoever walks the list - the executors, the checker, the
 * simulator - needs to know neither graph nor partition. A message whose rows do not lie in one
 * piece is packed before it is sent, and unpacked after it came. A reduction adds up the parts of
 * all ranks in the order of the ranks, on each of them: the same bits everywhere.
 */
#ifndef HRF_ENGINE_PLAN_TRANSFERS_H
#define HRF_ENGINE_PLAN_TRANSFERS_H

#include "engine/plan/partition.h"

enum hrf_memory {
    HRF_MEMORY_ARENA,
    HRF_MEMORY_KEPT,    /* rows that bands keep for later ones (kept.h) */
    HRF_MEMORY_MESSAGE, /* one message, packed */
    HRF_N_MEMORIES
};

/* n_images x n_rows runs of row_bytes bytes; offset and strides in bytes. */
struct hrf_area {
    enum hrf_memory memory;
    int64_t offset; /* of the first run, in the memory */
    int64_t n_images, n_rows, row_bytes;
    int64_t image_stride, row_stride;
};
static inline int64_t hrf_area_bytes(const struct hrf_area *a)
{
    return a->n_images * a->n_rows * a->row_bytes;
}
/* The runs lie one after the other. */
static inline bool hrf_area_is_packed(const struct hrf_area *a)
{
    return (a->n_rows == 1 || a->row_stride == a->row_bytes) &&
           (a->n_images == 1 || a->image_stride == a->n_rows * a->row_bytes);
}
/* The same runs one after the other, in the memory of messages. */
struct hrf_area hrf_area_packed(const struct hrf_area *of);

enum hrf_transfer_kind {
    HRF_TRANSFER_EXPECT, /* a RECEIVE into `to` comes later: the message may be put there already */
    HRF_TRANSFER_PACK,   /* from -> to, for the SEND after it */
    HRF_TRANSFER_SEND,   /* from -> peer */
    HRF_TRANSFER_RECEIVE, /* peer -> to */
    HRF_TRANSFER_UNPACK,  /* from, as the RECEIVE before it has left it -> to */
    HRF_TRANSFER_COPY,    /* from -> to: what the rank has itself */
    HRF_TRANSFER_REDUCE   /* from, added to `to` or put there: the rank's own, or just received */
};

struct hrf_transfer {
    enum hrf_transfer_kind kind;
    int32_t peer;  /* EXPECT, SEND, RECEIVE: a rank of the partition */
    int32_t tag;   /* of the exchange (even) or reduction (odd): 2 * row, 2 * row + 1 */
    bool is_first; /* REDUCE: `to` holds nothing yet */
    struct hrf_area from, to;
};
static inline bool hrf_transfer_is_reduction(const struct hrf_transfer *t)
{
    return t->tag % 2 == 1;
}

struct hrf_plan;
/* Adds the transfers of the plan's last step to it; its buffers have their offsets. */
HRF_CHECKED enum hrf_status hrf_transfers_add(struct hrf_plan *plan, const struct hrf_graph *graph,
                                              int32_t step, struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_transfers_append(struct hrf_plan *plan,
                                                 const struct hrf_transfer *transfer,
                                                 struct hrf_error *err);
/* The area of the tensor that is sent by, or received by, transfer i: before packing, after
 * unpacking. */
const struct hrf_area *hrf_transfer_area(const struct hrf_plan *plan, int32_t i);

struct hrf_sim_program;
/* A SEND or RECEIVE, for the simulator; nothing of the other kinds. */
HRF_CHECKED enum hrf_status hrf_transfers_simulate(const struct hrf_transfer *transfer,
                                                   int32_t label, struct hrf_sim_program *out,
                                                   struct hrf_error *err);
/* Plays the transfers of all ranks of a group: every message that is sent is received, with as many
 * bytes, and no rank waits for one that waits for it. HRF_E_BUG with the ranks and the tag. */
HRF_CHECKED enum hrf_status hrf_transfers_check(const struct hrf_plan *const *plans,
                                                int32_t n_ranks, struct hrf_error *err);
/* The same of a partition: makes the plans of all its ranks and checks each (hrf_plan_check), then
 * all together. */
HRF_CHECKED enum hrf_status hrf_transfers_prove(const struct hrf_partition *partition,
                                                struct hrf_error *err);

#endif
