/* transfers.h - the copies and messages of a plan's steps, as a list in the order of execution.
 *
 * Every step of an EXCHANGE or ALL_REDUCE node has a range of transfers (plan.h). Their areas are
 * fixed bytes of a rank's memories, so the executors, the checker and the simulator walk the list
 * without knowing the graph or the partition. A message whose rows are not contiguous is packed
 * before it is sent and unpacked after it was received. For a reduction every rank adds the parts
 * of all ranks in rank order, so that the result is bit-identical everywhere.
 */
#ifndef HRF_ENGINE_PLAN_TRANSFERS_H
#define HRF_ENGINE_PLAN_TRANSFERS_H

#include "engine/plan/partition.h"

enum hrf_memory {
    HRF_MEMORY_ARENA,
    HRF_MEMORY_LINE_CACHE, /* the line cache of bands (line_cache.h) */
    HRF_MEMORY_MESSAGE,    /* one packed message */
    HRF_N_MEMORIES
};

/* n_images * n_rows runs of row_bytes contiguous bytes; offset and strides in bytes. */
struct hrf_area {
    enum hrf_memory memory;
    int64_t offset; /* of the first run, from the begin of the memory */
    int64_t n_images, n_rows, row_bytes;
    int64_t image_stride, row_stride;
};
static inline int64_t hrf_area_bytes(const struct hrf_area *a)
{
    return a->n_images * a->n_rows * a->row_bytes;
}
/* True if the runs are contiguous. */
static inline bool hrf_area_is_packed(const struct hrf_area *a)
{
    return (a->n_rows == 1 || a->row_stride == a->row_bytes) &&
           (a->n_images == 1 || a->image_stride == a->n_rows * a->row_bytes);
}
/* An area of the same runs, contiguous, in HRF_MEMORY_MESSAGE. */
struct hrf_area hrf_area_packed(const struct hrf_area *of);

enum hrf_transfer_kind {
    HRF_TRANSFER_EXPECT,  /* a RECEIVE into `to` follows; the comm may write the message already */
    HRF_TRANSFER_PACK,    /* copy from -> to, for the SEND after it */
    HRF_TRANSFER_SEND,    /* from -> peer */
    HRF_TRANSFER_RECEIVE, /* peer -> to */
    HRF_TRANSFER_UNPACK,  /* copy from -> to, after the RECEIVE before it */
    HRF_TRANSFER_COPY,    /* copy from -> to: the rank's own data */
    HRF_TRANSFER_REDUCE   /* combine `from` (own or just received) into `to` */
};

struct hrf_transfer {
    enum hrf_transfer_kind kind;
    /* EXPECT, SEND, RECEIVE: a rank of the partition. In a sum over groups a rank of another group,
     * counted from the first one of this group. */
    int32_t peer;
    int32_t tag;   /* 2 * row of an exchange, 2 * row + 1 of a reduction */
    bool is_first; /* REDUCE: copy, because `to` holds nothing yet */
    struct hrf_area from, to;
};
static inline bool hrf_transfer_is_reduction(const struct hrf_transfer *t)
{
    return t->tag % 2 == 1;
}

struct hrf_plan;
/* Adds the transfers of step `step`. The plan's buffers must have their offsets. */
void hrf_transfers_add(struct hrf_plan *plan, const struct hrf_graph *graph, int32_t step);
void hrf_transfers_append(struct hrf_plan *plan, const struct hrf_transfer *transfer);
/* The area of the tensor that SEND or RECEIVE i is about: before packing, or after unpacking. */
const struct hrf_area *hrf_transfer_area(const struct hrf_plan *plan, int32_t i);

struct hrf_sim_program;
/* Adds a SEND or RECEIVE to a program for the simulator; other kinds add nothing. */
void hrf_transfers_simulate(const struct hrf_transfer *transfer, int32_t label,
                            struct hrf_sim_program *out);
/* Simulates the transfers of all ranks of a group and checks that every message is received with
 * the size with which it was sent, and that there is no deadlock. HRF_E_BUG names the ranks and the
 * tag. */
HRF_CHECKED enum hrf_status hrf_transfers_check(const struct hrf_plan *const *plans,
                                                int32_t n_ranks, struct hrf_error *err);
/* The same for a partition: makes the plans of all its ranks, of all groups if these send each
 * other sums, checks each with hrf_plan_check(), then all together; where forward and backward
 * passes are in turn, for all micro-batches. */
HRF_CHECKED enum hrf_status hrf_transfers_prove(const struct hrf_partition *partition,
                                                struct hrf_error *err);

#endif
