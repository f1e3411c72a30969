/* schedule.c - the order of micro-batches in a pipeline, and a rank's steps for a batch
 * (schedule.h). */
#include "engine/plan/schedule.h"

#include "base/alloc.h"
#include "base/array.h"

#include <assert.h>

/* done[m]: stages that micro-batch m has passed. The second half runs mirrored. */
static bool runs_mirrored(const struct hrf_layout_plan *l, int32_t microbatch)
{
    return l->bidirectional && microbatch >= l->microbatches / 2;
}

/* The micro-batch that the worker computes next; -1: none is ready. */
static int32_t choose(const struct hrf_layout_plan *l, const int32_t *done, int32_t worker)
{
    int32_t best = -1;
    for (int32_t m = 0; m < l->microbatches; m++) {
        const int32_t its = runs_mirrored(l, m) ? l->stages - 1 - done[m] : done[m];
        if (done[m] < l->stages && its == worker && (best < 0 || done[m] > done[best]))
            best = m;
    }
    return best;
}

void hrf_schedule(const struct hrf_layout_plan *l, int32_t position,
                  struct hrf_pipeline_slot *slots)
{
    assert(position >= 0 && position < l->stages);
    HRF_AUTO_FREE int32_t *done = hrf_calloc((size_t)l->microbatches, sizeof *done);
    HRF_AUTO_FREE int32_t *chosen = hrf_calloc((size_t)l->stages, sizeof *chosen);
    for (int32_t n = 0; n < l->microbatches;) {
        for (int32_t w = 0; w < l->stages; w++)
            chosen[w] = choose(l, done, w);
        for (int32_t w = 0; w < l->stages; w++) {
            if (chosen[w] < 0)
                continue;
            if (w == position)
                slots[n++] = (struct hrf_pipeline_slot){
                    .microbatch = chosen[w], .is_mirrored = runs_mirrored(l, chosen[w])
                };
            done[chosen[w]]++;
        }
    }
}

/* ---- forward and backward ---- */

enum { FORWARD_TIME = 1, BACKWARD_TIME = 2 }; /* of a slot, in units of a forward pass */

/* The passes of two mirrored pipelines as they are scheduled. */
struct passes {
    const struct hrf_layout_plan *layout;
    int32_t *forward, *backward; /* [micro-batches] the stages that each pass has been through */
    int32_t *ready;              /* [micro-batches] the time at which its next pass can begin */
    int32_t *free_at;            /* [stages' ranks] */
    int32_t *in_flight;          /* [2 * stage + pipeline] */
};

/* The micro-batches in flight at a stage of one of the pipelines. */
static int32_t most_in_flight(const struct hrf_layout_plan *l, int32_t stage)
{
    const int32_t of_pipeline = l->bidirectional ? l->microbatches / 2 : l->microbatches;
    const int32_t left = l->stages - stage;
    return left < of_pipeline ? left : of_pipeline;
}

/* The stage at which the next pass of micro-batch m is. */
static int32_t next_stage(const struct passes *p, int32_t m)
{
    const int32_t n = p->layout->stages;
    return p->forward[m] < n ? p->forward[m] : n - 1 - p->backward[m];
}

/* The first micro-batch whose next pass the worker can begin at `time`: a backward one, or else the
 * forward one that has been through the most stages; -1: none. Those of a pipeline keep their order
 * because an earlier one is never behind a later one. */
static int32_t choose_pass(const struct passes *p, int32_t worker, int32_t time)
{
    const int32_t n = p->layout->stages;
    int32_t best = -1;
    for (int32_t m = 0; m < p->layout->microbatches; m++) {
        const bool is_mirrored = runs_mirrored(p->layout, m);
        const bool is_backward = p->forward[m] == n;
        if (p->backward[m] == n || p->ready[m] > time)
            continue;
        const int32_t stage = next_stage(p, m);
        if ((is_mirrored ? n - 1 - stage : stage) != worker ||
            (!is_backward &&
             p->in_flight[2 * stage + is_mirrored] == most_in_flight(p->layout, stage)))
            continue;
        if (best < 0 || p->forward[m] > p->forward[best])
            best = m;
    }
    return best;
}

static void begin_pass(struct passes *p, int32_t worker, int32_t m, int32_t time)
{
    const bool is_backward = p->forward[m] == p->layout->stages;
    const int32_t stage = next_stage(p, m);
    p->in_flight[2 * stage + runs_mirrored(p->layout, m)] += is_backward ? -1 : 1;
    p->ready[m] = p->free_at[worker] = time + (is_backward ? BACKWARD_TIME : FORWARD_TIME);
    *(is_backward ? &p->backward[m] : &p->forward[m]) += 1;
}

static int32_t schedule_both_ways(const struct hrf_layout_plan *l, int32_t position,
                                  struct hrf_pipeline_slot *slots)
{
    const size_t n_micro = (size_t)l->microbatches, n_stages = (size_t)l->stages;
    HRF_AUTO_FREE int32_t *numbers = hrf_calloc(3 * n_micro + 3 * n_stages, sizeof *numbers);
    struct passes p = { .layout = l,
                        .forward = numbers,
                        .backward = numbers + n_micro,
                        .ready = numbers + 2 * n_micro,
                        .free_at = numbers + 3 * n_micro,
                        .in_flight = numbers + 3 * n_micro + n_stages };
    int32_t n = 0;
    for (int32_t time = 0; n < 2 * l->microbatches; time++)
        for (int32_t w = 0; w < l->stages; w++) {
            const int32_t m = p.free_at[w] > time ? -1 : choose_pass(&p, w, time);
            if (m < 0)
                continue;
            const bool is_backward = p.forward[m] == l->stages, is_mirrored = runs_mirrored(l, m);
            const int32_t number = is_mirrored ? m - l->microbatches / 2 : m;
            if (w == position)
                slots[n++] = (struct hrf_pipeline_slot){
                    .microbatch = m,
                    .is_mirrored = is_mirrored,
                    .part = is_backward ? HRF_SLOT_BACKWARD : HRF_SLOT_FORWARD,
                    .arena = number % most_in_flight(l, next_stage(&p, m))
                };
            begin_pass(&p, w, m, time);
        }
    return n;
}

static int32_t schedule_one_way(const struct hrf_layout_plan *l, int32_t position,
                                struct hrf_pipeline_slot *slots)
{
    const int32_t m = l->microbatches, n_arenas = most_in_flight(l, position);
    int32_t n = 0, forward = 0;
    for (int32_t backward = 0; backward < m; backward++) {
        for (; forward < m && forward < backward + n_arenas; forward++)
            slots[n++] = (struct hrf_pipeline_slot){ .microbatch = forward,
                                                     .part = HRF_SLOT_FORWARD,
                                                     .arena = forward % n_arenas };
        slots[n++] = (struct hrf_pipeline_slot){ .microbatch = backward,
                                                 .part = HRF_SLOT_BACKWARD,
                                                 .arena = backward % n_arenas };
    }
    return n;
}

int32_t hrf_schedule_training(const struct hrf_layout_plan *l, int32_t position,
                              struct hrf_pipeline_slot *slots, int32_t n_arenas[2])
{
    n_arenas[0] = n_arenas[1] = 1;
    if (l->stages == 1 || l->microbatches == 1) {
        hrf_schedule(l, position, slots);
        return l->microbatches;
    }
    n_arenas[0] = most_in_flight(l, position);
    if (!l->bidirectional)
        return schedule_one_way(l, position, slots);
    n_arenas[1] = most_in_flight(l, l->stages - 1 - position);
    return schedule_both_ways(l, position, slots);
}

int32_t hrf_schedule_rank(const struct hrf_partition *p, int32_t rank,
                          struct hrf_pipeline_slot *slots, int32_t n_arenas[2])
{
    const int32_t position = rank / hrf_layout_stage_ranks(&p->layout);
    if (hrf_batch_is_shared(p->graph))
        return hrf_schedule_training(&p->layout, position, slots, n_arenas);
    hrf_schedule(&p->layout, position, slots);
    n_arenas[0] = n_arenas[1] = 1;
    return p->layout.microbatches;
}

/* ---- a batch ---- */

struct batch {
    const struct hrf_partition *p;
    const struct hrf_batch_split *shares;
    int32_t rank;
    int32_t *owners;    /* [outputs]: the rank that joins or adds up the output */
    int64_t *stored_at; /* [micro-batches][outputs], of this rank; -1: it is not stored */
    struct hrf_batch_plan *plan;
};

static const struct hrf_value *output_of(const struct batch *b, int32_t i)
{
    return &b->p->graph->values[b->p->graph->outputs[i]];
}

bool hrf_batch_is_shared(const struct hrf_graph *graph)
{
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (graph->values[graph->outputs[i]].is_batch_sum)
            return true;
    return false;
}

/* Rank 0 owns what is joined. Each sum is owned by the group whose rank that makes it has the
 * fewest bytes of them so far. */
static void find_owners(const struct batch *b)
{
    const struct hrf_partition *p = b->p;
    HRF_AUTO_FREE int64_t *n_bytes = hrf_calloc((size_t)hrf_layout_ranks(&p->layout),
                                                sizeof *n_bytes);
    for (int32_t i = 0; i < p->graph->n_outputs; i++) {
        int32_t least = hrf_partition_output_rank(p, i);
        if (!output_of(b, i)->is_batch_sum)
            continue;
        for (int32_t r = least; r < p->layout.data * p->n_ranks; r += p->n_ranks)
            least = n_bytes[r] < n_bytes[least] ? r : least;
        n_bytes[least] += hrf_value_bytes(output_of(b, i));
        b->owners[i] = least;
    }
}

/* The bytes of output i for so many images. */
static int64_t output_bytes(const struct batch *b, int32_t i, int64_t n_images)
{
    const struct hrf_value *v = output_of(b, i);
    const int64_t all = hrf_value_bytes(v);
    return v->is_batch_sum || v->is_of_batch || b->shares->per_microbatch == b->shares->n_images
               ? all
               : all / b->shares->per_microbatch * n_images;
}

static struct hrf_batch_step *add_step(struct batch *b, enum hrf_batch_kind kind,
                                       const struct hrf_pipeline_slot *slot, int32_t peer)
{
    struct hrf_batch_plan *plan = b->plan;
    HRF_RESERVE(plan->steps, plan->capacity, (size_t)plan->n_steps + 1);
    plan->steps[plan->n_steps] = (struct hrf_batch_step){ kind, .slot = *slot, .peer = peer,
                                                          .stored_at = -1 };
    return &plan->steps[plan->n_steps++];
}

static void add_output(struct batch *b, enum hrf_batch_kind kind, int32_t peer, int32_t group,
                       const struct hrf_pipeline_slot *slot, int32_t i)
{
    int64_t first;
    const int64_t n = hrf_batch_split_images(b->shares, group, slot->microbatch, &first);
    const struct hrf_value *v = output_of(b, i);
    int64_t *stored_at = &b->stored_at[slot->microbatch * b->p->graph->n_outputs + i];
    if (n <= 0 || (v->is_of_batch && first > 0))
        return; /* what is of the batch is given by the first group */
    struct hrf_batch_step *s = add_step(b, kind, slot, peer);
    s->output = i;
    s->offset = v->is_batch_sum ? 0 : output_bytes(b, i, 1) * first;
    s->n_bytes = output_bytes(b, i, n);
    s->adds = v->is_batch_sum && first > 0;
    if (kind == HRF_BATCH_STORE) {
        *stored_at = b->plan->stored_bytes;
        b->plan->stored_bytes += s->n_bytes;
    }
    if (kind == HRF_BATCH_STORE || kind == HRF_BATCH_KEEP)
        s->stored_at = *stored_at;
}

/* True if the rank's own part of output i, which it owns, waits for parts of earlier images: those
 * of earlier groups, or of the pipeline that has the first half of the images. */
static bool waits(const struct batch *b, int32_t group, const struct hrf_pipeline_slot *slot,
                  int32_t i)
{
    return group > 0 || (slot->is_mirrored && output_of(b, i)->is_batch_sum);
}

/* What this rank does at once with the outputs of a micro-batch that it has computed. Those that it
 * owns and that wait are stored, but for the last ones, which nothing overwrites. */
static void add_own_outputs(struct batch *b, const struct hrf_pipeline_slot *slot, bool is_last)
{
    const int32_t group = b->rank / b->p->n_ranks, in_group = b->rank % b->p->n_ranks;
    const int32_t rank = slot->is_mirrored ? hrf_layout_mirror(&b->p->layout, in_group) : in_group;
    for (int32_t i = 0; i < b->p->graph->n_outputs; i++) {
        if (hrf_partition_output_rank(b->p, i) != rank)
            continue;
        if (b->owners[i] != b->rank)
            add_output(b, HRF_BATCH_SEND, b->owners[i], group, slot, i);
        else if (!waits(b, group, slot, i))
            add_output(b, HRF_BATCH_KEEP, b->rank, group, slot, i);
        else if (!is_last)
            add_output(b, HRF_BATCH_STORE, b->rank, group, slot, i);
    }
}

static void add_slots(struct batch *b)
{
    const struct hrf_layout_plan *l = &b->p->layout;
    HRF_AUTO_FREE struct hrf_pipeline_slot *slots = hrf_calloc(2 * (size_t)l->microbatches,
                                                               sizeof *slots);
    const int32_t n = hrf_schedule_rank(b->p, b->rank % b->p->n_ranks, slots, b->plan->n_arenas);
    for (int32_t t = 0; t < n; t++) {
        add_step(b, HRF_BATCH_RUN, &slots[t], b->rank);
        if (slots[t].part != HRF_SLOT_FORWARD)
            add_own_outputs(b, &slots[t], t == n - 1);
    }
}

/* The outputs that this rank owns, in the order of the images. */
static void add_owned(struct batch *b)
{
    const struct hrf_layout_plan *l = &b->p->layout;
    for (int32_t k = 0; k < l->data * l->microbatches; k++) {
        const int32_t m = k % l->microbatches, group = k / l->microbatches;
        const struct hrf_pipeline_slot slot = { .microbatch = m,
                                                .is_mirrored = runs_mirrored(l, m) };
        for (int32_t i = 0; i < b->p->graph->n_outputs; i++) {
            const int32_t rank = hrf_partition_output_rank(b->p, i);
            const int32_t giver = slot.is_mirrored ? hrf_layout_mirror(l, rank) : rank;
            const int32_t from = group * b->p->n_ranks + giver;
            if (b->owners[i] == b->rank && from != b->rank)
                add_output(b, HRF_BATCH_RECEIVE, from, group, &slot, i);
            else if (b->owners[i] == b->rank && waits(b, group, &slot, i))
                add_output(b, HRF_BATCH_KEEP, from, group, &slot, i);
        }
    }
}

/* ---- outputs that every rank gets ---- */

static int32_t n_ranks_of(const struct batch *b)
{
    return b->p->layout.data * b->p->n_ranks;
}

/* The bytes of an output that `rank`, which does not own it, passes on. */
static int64_t part_of(const struct batch *b, int32_t i, int32_t rank, int64_t *first)
{
    const int64_t n = output_bytes(b, i, b->shares->n_images) / (int64_t)sizeof(float);
    const int64_t n_parts = n_ranks_of(b) - 1;
    const int64_t part = (rank - b->owners[i] - 1 + n_ranks_of(b)) % n_ranks_of(b);
    *first = n * part / n_parts * (int64_t)sizeof(float);
    return n * (part + 1) / n_parts * (int64_t)sizeof(float) - *first;
}

/* A message of the whole output, or of the part that `parts_rank` passes on if that is not -1. */
static void add_shared_message(struct batch *b, enum hrf_batch_kind kind, int32_t peer, int32_t i,
                               int32_t parts_rank)
{
    const struct hrf_pipeline_slot none = { .microbatch = 0 };
    int64_t first = 0, n = output_bytes(b, i, b->shares->n_images);
    if (parts_rank >= 0)
        n = part_of(b, i, parts_rank, &first);
    if (n == 0)
        return;
    struct hrf_batch_step *s = add_step(b, kind, &none, peer);
    s->output = i;
    s->offset = first;
    s->n_bytes = n;
}

/* This rank's messages of an output in parts: those of its owner, or what other ranks do: take
 * their own part and pass it on. */
static void add_parts(struct batch *b, int32_t i)
{
    const int32_t n = n_ranks_of(b), me = b->rank, owner = b->owners[i];
    if (owner != me)
        add_shared_message(b, HRF_BATCH_TAKE, owner, i, me);
    for (int32_t k = 1; k < n; k++) {
        const int32_t q = (me + k) % n;
        if (q != owner)
            add_shared_message(b, HRF_BATCH_GIVE, q, i, owner == me ? q : me);
    }
}

/* Finds the outputs whose owner would send much more than others if it sent them whole to every
 * rank: those that are more than a quarter of an even share of all. It sends each rank a part, and
 * this one passes the part on. */
static void find_in_parts(const struct batch *b, bool *in_parts)
{
    const int32_t n_outputs = b->p->graph->n_outputs;
    int64_t n_bytes = 0;
    for (int32_t i = 0; i < n_outputs; i++)
        n_bytes += output_bytes(b, i, b->shares->n_images);
    for (int32_t i = 0; i < n_outputs; i++)
        in_parts[i] = n_ranks_of(b) > 2 &&
                      4 * output_bytes(b, i, b->shares->n_images) > n_bytes / n_ranks_of(b);
}

/* Every rank gets every output from its owner. Messages between two ranks have one order: first the
 * parts of owners, then the parts that are passed on, then whole outputs. */
static void add_shared(struct batch *b)
{
    const int32_t n_outputs = b->p->graph->n_outputs, n = n_ranks_of(b), me = b->rank;
    HRF_AUTO_FREE bool *in_parts = hrf_calloc((size_t)n_outputs + 1, sizeof *in_parts);
    find_in_parts(b, in_parts);
    for (int is_owner = 1; is_owner >= 0; is_owner--)
        for (int32_t i = 0; i < n_outputs; i++)
            if (in_parts[i] && (b->owners[i] == me) == is_owner)
                add_parts(b, i);
    for (int32_t i = 0; i < n_outputs; i++)
        for (int32_t k = 1; k < n && b->owners[i] == me && !in_parts[i]; k++)
            add_shared_message(b, HRF_BATCH_GIVE, (me + k) % n, i, -1);
    for (int32_t i = 0; i < n_outputs; i++)
        for (int32_t q = 0; q < n && b->owners[i] != me && in_parts[i]; q++)
            if (q != me && q != b->owners[i])
                add_shared_message(b, HRF_BATCH_TAKE, q, i, q);
    for (int32_t i = 0; i < n_outputs; i++)
        if (b->owners[i] != me && !in_parts[i])
            add_shared_message(b, HRF_BATCH_TAKE, b->owners[i], i, -1);
}

void hrf_batch_plan_make(const struct hrf_partition *p, const struct hrf_batch_split *shares,
                         int32_t rank, bool is_one_process, struct hrf_batch_plan *out)
{
    const size_t n_outputs = (size_t)p->graph->n_outputs;
    const size_t n_stored = n_outputs * (size_t)p->layout.microbatches;
    HRF_AUTO_FREE int32_t *owners = hrf_calloc(n_outputs + 1, sizeof *owners);
    HRF_AUTO_FREE int64_t *stored_at = hrf_alloc_array(n_stored + 1, sizeof *stored_at);
    struct batch b = { p, shares, rank, owners, stored_at, out };
    *out = (struct hrf_batch_plan){ .n_steps = 0 };
    for (size_t i = 0; i < n_stored; i++)
        stored_at[i] = -1;
    find_owners(&b);
    add_slots(&b);
    add_owned(&b);
    if (!is_one_process && hrf_batch_is_shared(p->graph))
        add_shared(&b);
}

void hrf_batch_plan_release(struct hrf_batch_plan *plan)
{
    hrf_free(plan->steps);
    *plan = (struct hrf_batch_plan){ .n_steps = 0 };
}
