/* schedule.h - the order in which a rank computes the micro-batches of a batch, and how outputs
 * reach rank 0. */
#ifndef HRF_ENGINE_PLAN_SCHEDULE_H
#define HRF_ENGINE_PLAN_SCHEDULE_H

#include "engine/plan/partition.h"

enum hrf_slot_part { HRF_SLOT_WHOLE, HRF_SLOT_FORWARD, HRF_SLOT_BACKWARD };
struct hrf_pipeline_slot {
    int32_t microbatch;
    bool is_mirrored; /* in the mirrored pipeline, from the last rank to the first */
    enum hrf_slot_part part;
    int32_t arena; /* the activations it computes with; a backward pass has those of its forward */
};

/* The slots of the ranks at stage `position` (0 = first) of the pipeline: each micro-batch of the
 * layout once. List scheduling with slots of equal length in which the micro-batch that has passed
 * the most stages goes first. In this order no two ranks wait for each other. */
void hrf_schedule(const struct hrf_layout_plan *layout, int32_t position,
                  struct hrf_pipeline_slot *slots);

/* The slots of a training step: those above, whole, on one stage or for one micro-batch. Else "one
 * forward, one backward": each of n micro-batches twice, first as many forward passes as there are
 * stages from `position` on, and then a backward and a forward pass in turn, so that no more
 * activations are held than by these (Narayanan et al., "PipeDream", SOSP 2019). Two mirrored
 * pipelines each do so, and fill each other's gaps (Jain et al., "GEMS", SC 2020; Li and Hoefler,
 * "Chimera", SC 2021): list scheduling, with a backward pass twice as long as a forward pass.
 * Returns how many slots; n_arenas: how many micro-batches of each pipeline are in flight. `slots`
 * holds twice the micro-batches. */
int32_t hrf_schedule_training(const struct hrf_layout_plan *layout, int32_t position,
                              struct hrf_pipeline_slot *slots, int32_t n_arenas[2]);
/* The same for a graph, which has a backward pass or not, and a rank of its group. */
int32_t hrf_schedule_rank(const struct hrf_partition *partition, int32_t rank,
                          struct hrf_pipeline_slot *slots, int32_t n_arenas[2]);

/* Each output has an owner, which joins or adds up what the ranks have of it: rank 0, but of sums
 * over the batch an output rank of some group, so that no rank receives all gradients. */
enum hrf_batch_kind {
    HRF_BATCH_RUN,     /* compute the rank's part of the micro-batch */
    HRF_BATCH_KEEP,    /* on the owner: take or add an output that the rank has computed itself */
    HRF_BATCH_STORE,   /* on the owner: copy such an output, for a later KEEP */
    HRF_BATCH_SEND,    /* send an output to `peer`, its owner */
    HRF_BATCH_RECEIVE, /* on the owner: receive and take or add an output from `peer` */
    HRF_BATCH_GIVE,    /* send a finished output, or a part of it, to `peer` */
    HRF_BATCH_TAKE     /* receive such an output from `peer`, its owner or one that passes it on */
};
struct hrf_batch_step {
    enum hrf_batch_kind kind;
    struct hrf_pipeline_slot slot;
    int32_t peer;            /* a rank of the layout */
    int32_t output;          /* all but RUN: output of the network ... */
    int64_t offset, n_bytes; /* ... and the bytes of it, counted in the whole batch */
    bool adds; /* KEEP, RECEIVE: a sum over the batch, of which earlier steps have brought parts */
    int64_t stored_at; /* STORE, KEEP: the bytes of the rank's store; -1: the session has it */
};
/* All steps of a rank for a batch. Sums over the batch are made in the order of the images. */
struct hrf_batch_plan {
    struct hrf_batch_step *steps; /* heap */
    int32_t n_steps;
    size_t capacity; /* private */
    int64_t stored_bytes;
    int32_t n_arenas[2]; /* in which the rank computes; [1]: in the mirrored pipeline */
};
/* True if every rank gets all outputs, not rank 0 alone: those of a graph that has sums over the
 * batch, with which each process updates its own weights. */
bool hrf_batch_is_shared(const struct hrf_graph *graph);
/* `rank` is one of the layout. `is_one_process`: outputs are in memory that all ranks share. */
void hrf_batch_plan_make(const struct hrf_partition *partition,
                         const struct hrf_batch_split *shares, int32_t rank, bool is_one_process,
                         struct hrf_batch_plan *out);
void hrf_batch_plan_release(struct hrf_batch_plan *plan);

#endif
