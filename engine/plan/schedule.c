/* schedule.c - the order of micro-batches in a pipeline, and a rank's steps for a batch
 * (schedule.h). */
#include "engine/plan/schedule.h"

#include "base/alloc.h"

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
                slots[n++] = (struct hrf_pipeline_slot){ chosen[w], runs_mirrored(l, chosen[w]) };
            done[chosen[w]]++;
        }
    }
}

/* ---- a batch ---- */

struct batch {
    const struct hrf_partition *p;
    const struct hrf_batch_split *shares;
    struct hrf_batch_step *steps;
    int32_t n_steps;
};

static const struct hrf_value *output_of(const struct batch *b, int32_t i)
{
    return &b->p->graph->values[b->p->graph->outputs[i]];
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

static void add_outputs(struct batch *b, enum hrf_batch_kind kind, int32_t peer, int32_t group,
                        const struct hrf_pipeline_slot *slot)
{
    int64_t first;
    const int64_t n = hrf_batch_split_images(b->shares, group, slot->microbatch, &first);
    for (int32_t i = 0; i < b->p->graph->n_outputs && n > 0; i++) {
        const struct hrf_value *v = output_of(b, i);
        if (v->is_of_batch && first > 0)
            continue; /* the first images' group gives it */
        b->steps[b->n_steps++] = (struct hrf_batch_step){
            .kind = kind,
            .slot = *slot,
            .peer = peer,
            .output = i,
            .offset = v->is_batch_sum ? 0 : output_bytes(b, i, 1) * first,
            .n_bytes = output_bytes(b, i, n),
            .adds = v->is_batch_sum && first > 0,
        };
    }
}

static void add_slots(struct batch *b, int32_t rank, const struct hrf_pipeline_slot *slots)
{
    const struct hrf_layout_plan *l = &b->p->layout;
    const int32_t group = rank / b->p->n_ranks, in_group = rank % b->p->n_ranks;
    for (int32_t t = 0; t < l->microbatches; t++) {
        const int32_t partition_rank = slots[t].is_mirrored ? hrf_layout_mirror(l, in_group)
                                                            : in_group;
        b->steps[b->n_steps++] = (struct hrf_batch_step){ HRF_BATCH_RUN, .slot = slots[t] };
        if (partition_rank == b->p->output_rank)
            add_outputs(b, rank == 0 ? HRF_BATCH_KEEP : HRF_BATCH_SEND, 0, group, &slots[t]);
    }
    for (int32_t i = 0; i < l->data * l->microbatches && rank == 0; i++) {
        const int32_t m = i % l->microbatches;
        const struct hrf_pipeline_slot slot = { m, runs_mirrored(l, m) };
        const int32_t giver = slot.is_mirrored ? hrf_layout_mirror(l, b->p->output_rank)
                                               : b->p->output_rank;
        const int32_t from = i / l->microbatches * b->p->n_ranks + giver;
        if (from != 0)
            add_outputs(b, HRF_BATCH_RECEIVE, from, i / l->microbatches, &slot);
    }
}

void hrf_batch_plan(const struct hrf_partition *p, const struct hrf_batch_split *shares,
                    int32_t rank, struct hrf_batch_step **out, int32_t *n_steps)
{
    const struct hrf_layout_plan *l = &p->layout;
    const size_t n_slots = (size_t)l->microbatches, n_outputs = (size_t)p->graph->n_outputs;
    const size_t most = n_slots * (1 + n_outputs * (1 + (rank == 0 ? (size_t)l->data : 0)));
    HRF_AUTO_FREE struct hrf_pipeline_slot *slots = hrf_calloc(n_slots, sizeof *slots);
    HRF_AUTO_FREE struct hrf_batch_step *steps = hrf_calloc(most, sizeof *steps);
    struct batch b = { p, shares, steps, 0 };
    hrf_schedule(l, rank % p->n_ranks / hrf_layout_stage_ranks(l), slots);
    add_slots(&b, rank, slots);
    assert((size_t)b.n_steps <= most);
    *out = steps;
    *n_steps = b.n_steps;
    steps = NULL;
}
