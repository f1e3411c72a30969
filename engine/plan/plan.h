/* plan.h - the plan of one rank: a flat list of steps over buffers at fixed offsets.
 *
 * Pure arithmetic over (graph, shapes, placement): no back end, no clock. A value may share its
 * buffer with a value that is read last where it is computed (a residual that is summed in place, a
 * pointwise operator), or with a value that contains it (an EXCHANGE that only cuts out a part, the
 * output of a channel concatenation: joins.h). One liveness allocator assigns the offsets: greedy
 * by size, lowest gap that fits. Graph outputs share no memory. Other values reuse the memory of
 * inputs after their last read, so inputs must be filled before every run. hrf_plan_check() proves
 * a plan before it runs.
 *
 * Steps follow the order of the nodes. If a node has an interior (hrf_rank_node.own), the node and
 * the exchange before it become four or more steps: BEGIN, the interior, END and the edges. Two
 * consecutive steps may be fused: the kernels of both then run as one, tile by tile.
 */
#ifndef HRF_ENGINE_PLAN_PLAN_H
#define HRF_ENGINE_PLAN_PLAN_H

#include "engine/ir/fused_pair.h"
#include "engine/plan/parts.h"
#include "engine/plan/transfers.h"

enum hrf_step_kind {
    HRF_STEP_KERNEL, /* run the kernel of `node`, or a whole exchange or reduction */
    HRF_STEP_BEGIN,  /* start of an EXCHANGE: send, and copy the rank's own part */
    HRF_STEP_END     /* end of an EXCHANGE: receive; may wait */
};

struct hrf_step {
    enum hrf_step_kind kind;
    int32_t node;
    enum hrf_part part;         /* KERNEL: the part of the node's output ... */
    struct hrf_box box;         /* ... and its rows and columns; not set for WHOLE */
    bool is_fused;              /* runs together with the next step, which does not run by itself */
    struct hrf_fused_pair pair; /* facts of the pair for the kernels; if is_fused */
    int32_t first_transfer, n_transfers; /* of an EXCHANGE or ALL_REDUCE: in hrf_plan.transfers */
};

#define HRF_NO_BUFFER (-1)

struct hrf_buffer {
    int64_t offset, n_bytes; /* in the arena; offset is a multiple of HRF_PLAN_ALIGNMENT */
    int32_t first,
        last; /* nodes during which it is in use; -1: before the first, n_nodes: after the last */
};

static inline bool hrf_buffers_are_held_together(const struct hrf_buffer *a,
                                                 const struct hrf_buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Bytes: alignment of buffers, and of a value within another's buffer (the least for cuDNN). */
enum { HRF_PLAN_ALIGNMENT = 64, HRF_PLAN_OFFSET_ALIGNMENT = 16 };
/* The most steps of one node. Including the two steps of its exchange there are fewer than twice as
 * many. */
enum { HRF_PLAN_NODE_STEPS = HRF_N_PARTS };

struct hrf_plan {
    const struct hrf_rank_map *map; /* borrowed; NULL: not the graph of one rank */
    struct hrf_step *steps;
    int32_t n_steps;
    int32_t *buffer_of;        /* [n_values]: buffer, or HRF_NO_BUFFER for constants */
    int64_t *offset_in_buffer; /* [n_values]: offset of the value in its buffer, in bytes */
    int32_t *n_uses;           /* [n_values]: reads by nodes, plus uses as an output of the graph */
    int32_t n_values;
    struct hrf_buffer *buffers;
    int32_t n_buffers;
    int64_t arena_bytes;
    int64_t copy_bytes; /* memory for the copies of one part (parts.h), separate from the arena */
    struct hrf_transfer *transfers;
    int32_t n_transfers, n_tags;
    size_t transfers_capacity; /* private */
    int64_t message_bytes;     /* size of the largest message */
};

/* `map` (NULL: none) describes the graph's nodes and must outlive the plan. */
HRF_CHECKED enum hrf_status hrf_plan_create(const struct hrf_graph *graph,
                                            const struct hrf_rank_map *map, struct hrf_plan **out,
                                            struct hrf_error *err);
void hrf_plan_destroy(struct hrf_plan *plan);
HRF_DEFINE_AUTO(hrf_plan)

/* True if steps i and i + 1 could be fused: each is a whole node, and the second reads only the
 * output of the first, or adds to that output in place. Then *out is set. */
bool hrf_plan_pair(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t i,
                   struct hrf_fused_pair *out);
/* True if the kernels of steps `first` and first + 1 can run as that fused pair. */
typedef bool hrf_can_fuse(void *context, int32_t first, const struct hrf_fused_pair *pair);
/* Walks the steps in order and fuses each pair that `can_fuse` accepts. A step belongs to at most
 * one pair: of two that follow each other, the one that has more bytes between its steps. */
void hrf_plan_fuse(struct hrf_plan *plan, const struct hrf_graph *graph, hrf_can_fuse *can_fuse,
                   void *context);

/* Checks that every value is written before it is read, buffers in use at the same time do not
 * overlap, a step overwrites an input only if its operator allows it, and the facts of fused pairs
 * are true. Otherwise HRF_E_BUG with the step and the values. */
HRF_CHECKED enum hrf_status hrf_plan_check(const struct hrf_plan *plan,
                                           const struct hrf_graph *graph, struct hrf_error *err);

static inline int64_t hrf_plan_offset(const struct hrf_plan *plan, int32_t value)
{
    return plan->buffers[plan->buffer_of[value]].offset + plan->offset_in_buffer[value];
}

/* The first step of the backward pass (hrf_rank_map); the number of steps: there is none. */
static inline int32_t hrf_plan_first_backward(const struct hrf_plan *plan)
{
    int32_t i = 0;
    while (i < plan->n_steps &&
           (plan->map == NULL || plan->steps[i].node < plan->map->first_backward))
        i++;
    return i;
}

/* True if two values in the plan's buffers share some bytes. */
bool hrf_plan_overlap(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t a,
                      int32_t b);

/* True if an EXCHANGE need not copy the rank's own part: it was computed in its place in the
 * output, or the output is a part of it and stays where it is. */
bool hrf_plan_is_in_place(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t node);

/* True if node n may overwrite that input with its output, which has the same shape and is computed
 * element by element from it: the residual of CONV and GEMM, inputs of pointwise operators. */
bool hrf_plan_may_overwrite(const struct hrf_graph *graph, const struct hrf_rank_map *map,
                            int32_t n, int32_t input);
/* True if step i can use the kernel of the step before it, which computes the opposite edge. */
bool hrf_plan_is_as_before(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t i);

#endif
