/* schedule.h - the order in which a rank computes the micro-batches of a batch, and how outputs
 * reach rank 0. */
#ifndef HRF_ENGINE_PLAN_SCHEDULE_H
#define HRF_ENGINE_PLAN_SCHEDULE_H

#include "engine/plan/partition.h"

struct hrf_pipeline_slot {
    int32_t microbatch;
    bool is_mirrored; /* in the mirrored pipeline, from the last rank to the first */
};

/* The slots of the ranks at stage `position` (0 = first) of the pipeline: each micro-batch of the
 * layout once. List scheduling with slots of equal length in which the micro-batch that has passed
 * the most stages goes first. In this order no two ranks wait for each other. */
void hrf_schedule(const struct hrf_layout_plan *layout, int32_t position,
                  struct hrf_pipeline_slot *slots);

enum hrf_batch_kind {
    HRF_BATCH_RUN,    /* compute the rank's part of the micro-batch */
    HRF_BATCH_KEEP,   /* store an output that rank 0 has computed itself */
    HRF_BATCH_SEND,   /* send an output to `peer`, which is rank 0 */
    HRF_BATCH_RECEIVE /* on rank 0: receive an output from `peer` */
};
struct hrf_batch_step {
    enum hrf_batch_kind kind;
    struct hrf_pipeline_slot slot;
    int32_t peer;            /* a rank of the layout */
    int32_t output;          /* KEEP, SEND, RECEIVE: output of the network ... */
    int64_t offset, n_bytes; /* ... and the bytes of it, counted in the whole batch */
    bool adds; /* KEEP, RECEIVE: a sum over the batch, of which earlier steps have brought parts */
};
/* All steps of rank `rank` of the layout for a batch. Rank 0 receives the outputs of other ranks at
 * the end. Sums over the batch are made in the order of the images, unless the pipeline is
 * bidirectional. *out: heap. */
void hrf_batch_plan(const struct hrf_partition *partition, const struct hrf_batch_split *shares,
                    int32_t rank, struct hrf_batch_step **out, int32_t *n_steps);

#endif
