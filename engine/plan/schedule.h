/* schedule.h - what a rank does for a batch: its micro-batches in their order, and the outputs. */
#ifndef HRF_ENGINE_PLAN_SCHEDULE_H
#define HRF_ENGINE_PLAN_SCHEDULE_H

#include "engine/plan/partition.h"

struct hrf_turn {
    int32_t microbatch;
    bool is_mirrored; /* in the pipeline that runs from the last rank to the first */
};

/* The turns of the ranks at `position` (0 = the first stage's) in a pipeline of layout->stages: all
 * micro-batches of the layout, each once. Source: list scheduling with turns of equal length, the
 * stage that is furthest on first; in this order no rank waits for a turn that waits for it. */
HRF_CHECKED enum hrf_status hrf_schedule(const struct hrf_layout_plan *layout, int32_t position,
                                         struct hrf_turn *turns, struct hrf_error *err);

enum hrf_batch_kind {
    HRF_BATCH_RUN,    /* the micro-batch, at the rank's place */
    HRF_BATCH_KEEP,   /* an output of it: rank 0 made it */
    HRF_BATCH_SEND,   /* to `peer`, which is rank 0 */
    HRF_BATCH_RECEIVE /* from `peer`, on rank 0 */
};
struct hrf_batch_step {
    enum hrf_batch_kind kind;
    struct hrf_turn turn;
    int32_t peer;            /* of the layout's ranks */
    int32_t output;          /* KEEP, SEND, RECEIVE: of the network ... */
    int64_t offset, n_bytes; /* ... these bytes of the whole batch's */
};
/* All that rank `rank` of the layout does for a batch; rank 0 takes what others have made at the
 * end. *out: heap. */
HRF_CHECKED enum hrf_status hrf_batch_plan(const struct hrf_partition *partition,
                                           const struct hrf_shares *shares, int32_t rank,
                                           struct hrf_batch_step **out, int32_t *n_steps,
                                           struct hrf_error *err);

#endif
