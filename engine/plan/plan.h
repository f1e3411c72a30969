/* plan.h - what a rank does, as data: a flat list of steps over buffers at fixed offsets.
 *
 * Pure arithmetic over (graph, shapes, placement): no back end, no clock. A value's buffer may be
 * shared with that of a value which dies where it is made (a residual that is summed in place, a
 * pointwise operator), or with that of a value that it is a part of (what an EXCHANGE cuts out).
 * Offsets come from one liveness allocator: greedy by size, lowest gap
 * that fits. Graph outputs are never shared with anything; inputs are free for others once they
 * were read last, so they are filled before every run. A checker proves a plan before it runs.
 *
 * Steps follow the nodes. Where a node has an interior (hrf_rank_node.own), it and the
 * exchange before it become BEGIN, the interior, END and the edges. Two consecutive steps may be
 * fused: the kernels of both run as one, part by part.
 */
#ifndef HRF_ENGINE_PLAN_PLAN_H
#define HRF_ENGINE_PLAN_PLAN_H

#include "engine/ir/fused_pair.h"
#include "engine/plan/parts.h"
#include "engine/plan/transfers.h"

enum hrf_step_kind {
    HRF_STEP_KERNEL, /* run the kernel of `node`, or let an exchange or reduction come and go */
    HRF_STEP_BEGIN,  /* of an EXCHANGE: give, and have in place what is the rank's own */
    HRF_STEP_END     /* of an EXCHANGE: take; may wait */
};

struct hrf_step {
    enum hrf_step_kind kind;
    int32_t node;
    enum hrf_part part; /* KERNEL: of the node's output ... */
    struct hrf_box box; /* ... these rows and columns; WHOLE: not set */
    bool is_fused;      /* runs as one with the step after it, which has no run of its own ... */
    struct hrf_fused_pair pair;          /* ... and what the kernels have to know of that */
    int32_t first_transfer, n_transfers; /* of an EXCHANGE or ALL_REDUCE: in hrf_plan.transfers */
};

#define HRF_NO_BUFFER (-1)

struct hrf_buffer {
    int64_t offset, n_bytes; /* in the arena; offset is a multiple of HRF_PLAN_ALIGNMENT */
    int32_t first, last;     /* nodes during which it is held; -1 = before, n_nodes = after */
};

static inline bool hrf_buffers_are_held_together(const struct hrf_buffer *a,
                                                 const struct hrf_buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Of buffers, and of a value within another's (cuDNN takes no less). */
enum { HRF_PLAN_ALIGNMENT = 64, HRF_PLAN_PLACE_ALIGNMENT = 16 };
/* The most steps of one node; with its exchange's two, fewer than of two nodes. */
enum { HRF_PLAN_NODE_STEPS = HRF_N_PARTS };

struct hrf_plan {
    const struct hrf_rank_map *map; /* borrowed; NULL: the graph is no rank's part of another */
    struct hrf_step *steps;
    int32_t n_steps;
    int32_t *buffer_of; /* [n_values]: buffer, or HRF_NO_BUFFER for constants */
    int64_t *place_of;  /* [n_values]: bytes into its buffer where the value lies */
    int32_t *n_uses;    /* [n_values]: how often nodes read it, and as outputs of the graph */
    int32_t n_values;
    struct hrf_buffer *buffers;
    int32_t n_buffers;
    int64_t arena_bytes;
    int64_t copy_bytes; /* beside the arena: for the copies of one part of a node at a time */
    struct hrf_transfer *transfers;
    int32_t n_transfers, n_tags;
    size_t transfers_capacity; /* private */
    int64_t message_bytes;     /* of the largest message, sent or received */
};

/* `map` (NULL: none) is of the graph's nodes and outlives the plan. */
HRF_CHECKED enum hrf_status hrf_plan_create(const struct hrf_graph *graph,
                                            const struct hrf_rank_map *map, struct hrf_plan **out,
                                            struct hrf_error *err);
void hrf_plan_destroy(struct hrf_plan *plan);
HRF_DEFINE_AUTO(hrf_plan)

/* True if steps i and i + 1 could run as one: each is all of a node, and the second reads nothing
 * but what the first makes, or adds to it in place. *out is set then. */
bool hrf_plan_pair(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t i,
                   struct hrf_fused_pair *out);
/* Whether the kernels of steps `first` and first + 1 can run as such a pair. */
typedef bool hrf_can_fuse(void *context, int32_t first, const struct hrf_fused_pair *pair);
/* Fuses steps from the first to the last, each with at most one other, where `can_fuse` says so. */
void hrf_plan_fuse(struct hrf_plan *plan, const struct hrf_graph *graph, hrf_can_fuse *can_fuse,
                   void *context);

/* Every value is written before it is read, no two buffers that are held at the same time
 * overlap, a step writes over an input only where its operator allows it, and fused steps are what
 * their kernels were told. HRF_E_BUG with the step and the values otherwise. */
HRF_CHECKED enum hrf_status hrf_plan_check(const struct hrf_plan *plan,
                                           const struct hrf_graph *graph, struct hrf_error *err);

static inline int64_t hrf_plan_offset(const struct hrf_plan *plan, int32_t value)
{
    return plan->buffers[plan->buffer_of[value]].offset + plan->place_of[value];
}

/* Of an EXCHANGE: what the rank has itself was made where the exchange wants it, or what it wants
 * is a part of that and stays there. */
bool hrf_plan_is_in_place(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t node);

/* Whether node n may write its output over that input (same shape, read element by element): the
 * residual of CONV and GEMM, pointwise operators. */
bool hrf_plan_may_overwrite(const struct hrf_graph *graph, const struct hrf_rank_map *map,
                            int32_t n, int32_t input);
/* Whether the kernel of the step before serves step i, too: of the opposite edge. */
bool hrf_plan_is_as_before(const struct hrf_plan *plan, const struct hrf_graph *graph, int32_t i);

#endif
